"""The package as a whole: its arrow, its purity, its errors."""

import ast
import inspect
from pathlib import Path

import pytest

import pricing
from pricing import errors

SOURCES = sorted(Path(pricing.__path__[0]).glob("*.py"))
ALLOWED = {"pricing", "tiers", "numpy", "scipy"}
STANDARD = {
    "collections",
    "dataclasses",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "math",
    "re",
    "typing",
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_imports_point_inward_and_nothing_reads_a_clock_or_the_world(path):
    roots = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            roots |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add(node.module.split(".")[0])
    assert roots <= ALLOWED | STANDARD


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_file_is_longer_than_a_room(path):
    assert len(path.read_text().splitlines()) < 300


def test_every_error_is_listed_and_descends_from_one_root():
    kinds = {
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and kind.__module__ == errors.__name__ and not name.startswith("_")
    }
    assert kinds == set(errors.__all__)
    assert all(issubclass(getattr(errors, name), errors.PricingError) for name in kinds)


def test_messages_stay_short_whatever_came():
    for value in (10**9999, "x" * 10**6, [10**9999], {"a": "\ud800" * 10**5}):
        assert len(str(errors.InvalidPriceError("price", "an integer", value))) < 200
