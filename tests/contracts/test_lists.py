"""Every list of the API comes in pages, or says how long it can be at most: read off the OpenAPI document."""

from typing import Any

import pytest

from app.main import build_app
from app.routes.document import complete
from app.settings import Settings

MOST_A_PAGE = 1_000


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = build_app(Settings.at(tmp_path_factory.mktemp("lists")))
    return complete(made.openapi_schema.to_schema(), made.routes)


def lists_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Operations that answer with a JSON array, by path."""
    return {
        path: methods["get"]
        for path, methods in document["paths"].items()
        if "get" in methods and schema_of(methods["get"]).get("type") == "array"
    }


def schema_of(operation: dict[str, Any]) -> dict[str, Any]:
    content = operation["responses"].get("200", {}).get("content", {})
    return dict(content.get("application/json", {}).get("schema", {}))


def unpaged(operation: dict[str, Any]) -> list[str]:
    """What a list lacks: a cursor, a bounded count, a link to what follows; nothing where it is short by its schema."""
    if schema_of(operation).get("maxItems", MOST_A_PAGE + 1) <= MOST_A_PAGE:
        return []
    query = {each["name"]: each["schema"] for each in operation["parameters"] if each["in"] == "query"}
    lacks = [] if {"after", "start"} & set(query) else ["a cursor"]
    if not 1 <= query.get("count", {}).get("maximum", 0) <= MOST_A_PAGE:
        lacks.append("a bounded count")
    if "Link" not in operation["responses"]["200"].get("headers", {}):
        lacks.append("a link to the next page")
    return lacks


def test_every_list_has_pages_or_a_bound(document: dict[str, Any]) -> None:
    found = lists_of(document)
    assert len(found) >= 15, "the lists of the API were not found"
    assert {path: lacks for path, operation in found.items() if (lacks := unpaged(operation))} == {}


@pytest.mark.parametrize(
    ("path", "spoil", "lacks"),
    [
        ("/v1/datasets", lambda made: made["parameters"].clear(), ["a cursor", "a bounded count"]),
        ("/v1/orders", lambda made: made["responses"]["200"].pop("headers"), ["a link to the next page"]),
        ("/v1/exports", schema_of, []),
    ],
)
def test_a_list_without_pages_is_seen(document: dict[str, Any], path: str, spoil: Any, lacks: list[str]) -> None:
    spoil(document["paths"][path]["get"])
    assert unpaged(document["paths"][path]["get"]) == lacks
