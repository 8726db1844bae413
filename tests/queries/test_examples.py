"""Every `Example:` in the docstrings of queries and engines runs."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import app.engines
import app.queries


def modules():
    for package in (app.queries, app.engines):
        for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            yield importlib.import_module(found.name)


def examples():
    for module in modules():
        for name, value in vars(module).items():
            text = inspect.getdoc(value) if getattr(value, "__module__", "") == module.__name__ else None
            if text and "Example:" in text:
                yield pytest.param(text, vars(module), id=f"{module.__name__}.{name}")


@pytest.mark.parametrize(("text", "names"), list(examples()))
def test_the_example_runs(text, names):
    shown = text[text.index("Example:") :].split("\nReference:")[0].replace("Example:", "        ", 1)
    parsed = doctest.DocTestParser().get_doctest(shown, dict(names), "example", None, None)
    assert parsed.examples
    report = []
    doctest.DocTestRunner(verbose=False).run(parsed, out=report.append)
    assert report == []
