"""Every example in the package's docstrings is found and runs; every public thing that computes has one."""

import doctest
import importlib
import pkgutil
from fractions import Fraction

import pytest

import pricing

MODULES = sorted(name for _, name, _ in pkgutil.iter_modules(pricing.__path__, "pricing."))


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_found_and_run(name):
    module = importlib.import_module(name)
    names = {"Fraction": Fraction, **vars(module)}
    assert doctest.testmod(module, extraglobs=names).failed == 0
    found = doctest.DocTestFinder(exclude_empty=False).find(module, name)
    written = sum((test.docstring or "").count(">>> ") for test in found)
    assert sum(len(test.examples) for test in found) == written


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted_and_complete(name):
    module = importlib.import_module(name)
    here = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == name
    }
    assert here <= set(module.__all__)
    assert all(hasattr(module, key) for key in module.__all__)
