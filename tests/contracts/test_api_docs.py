"""docs/api.md names every route with its roles, an example that the API would read, and every kind of problem."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import app.engines.errors
import app.locations.wire
from app import wire
from app.errors import AppError
from app.main import build_app
from app.routes.document import complete
from app.routes.problems import TYPES
from app.settings import Settings

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()
ROUTE = re.compile(r"^\| `([A-Z]+) (/[^`]*)`(?: \((owners|operators) too\))? \| (?:`([^|]+)`)? ?\|", re.M)
PROBLEM = re.compile(r"^\| `([a-z-]+)` \| ([0-9]{3}) \| [^|]{10,} \| [^|]{4,} \|$", re.M)
SECTIONS = {
    "Anybody": set(),
    "Everybody with a key": {"owner", "buyer", "analyst", "auditor", "operator"},
    "Buyers and analysts": {"buyer", "analyst"},
    "Buyers": {"buyer"},
    "Analysts": {"analyst"},
    "Exports": {"buyer", "analyst", "owner", "auditor"},
    "Owners": {"owner"},
    "Auditors": {"auditor"},
    "Operators": {"operator"},
}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = build_app(Settings.at(tmp_path_factory.mktemp("docs")))
    return complete(made.openapi_schema.to_schema(), made.routes)


def listed() -> dict[tuple[str, str], tuple[set[str], str]]:
    found = {}
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S):
        for method, path, more, example in ROUTE.findall(text):
            found[method, path] = (SECTIONS[title] | ({more.rstrip("s")} if more else set()), example)
    return found


def test_every_route_is_described_under_its_roles(document: dict[str, Any]) -> None:
    routes = {
        (method.upper(), path): set(operation["x-roles"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert {route: roles for route, (roles, _) in listed().items()} == routes


def test_every_example_is_one_that_the_route_reads(document: dict[str, Any]) -> None:
    read = 0
    for (method, path), (_, example) in listed().items():
        operation = document["paths"][path][method.lower()]
        body = operation.get("requestBody")
        if body is not None:
            name = body["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[-1]
            shapes = wire if hasattr(wire, name) else app.locations.wire
            msgspec.json.decode(example, type=getattr(shapes, name))
            read += 1
        elif example:
            known = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"}
            assert {pair.partition("=")[0] for pair in example.lstrip("?").split("&")} <= known, path
    assert read >= 14


def kinds(error: type[AppError] = AppError) -> set[tuple[str, str]]:
    found = {(error.kind, str(error.status))}
    for child in error.__subclasses__():
        found |= kinds(child)
    return found


def test_every_kind_of_problem_has_a_line(document: dict[str, Any]) -> None:
    lines = PROBLEM.findall(TEXT)
    assert len(lines) == len(set(lines))
    assert app.engines.errors.EngineError in AppError.__subclasses__()
    documented = {
        (kind.removeprefix(TYPES), status)
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, response in operation["responses"].items()
        for kind in re.findall(rf"{re.escape(TYPES)}[a-z-]+", str(response))
    }
    assert set(lines) == kinds() | documented | {("method-not-allowed", "405")}
