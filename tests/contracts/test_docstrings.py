"""Every example in a docstring runs; a docstring that states a law must hold one."""

import doctest
import importlib
import pkgutil
from fractions import Fraction

import pytest

import app
import pricing
import tiers

MODULES = sorted(
    name
    for package in (app, tiers, pricing)
    for _, name, _ in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    names = {"Fraction": Fraction, **vars(module)}
    outcome = doctest.testmod(module, extraglobs=names)
    assert outcome.failed == 0
    lawful = [
        test.name
        for test in doctest.DocTestFinder(exclude_empty=False).find(module, module.__name__)
        if "Law:  " in (test.docstring or "") and not test.examples
    ]
    assert not lawful, f"a law without an executed example: {lawful}"
