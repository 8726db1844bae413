"""Tests that ask an engine ask each: DuckDB at once, PostgreSQL in the longer run."""

import pytest

from tests.engines.postgres import load_postgres, served
from tests.queries import support


@pytest.fixture(scope="module", params=["duckdb", pytest.param("postgres", marks=pytest.mark.long)])
def engine(request):
    """Which engine `tests.queries.support.load` fills."""
    if request.param == "duckdb":
        yield request.param
        return
    served()
    support.ENGINE.append(load_postgres)
    yield request.param
    support.ENGINE.pop()
