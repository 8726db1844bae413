"""Names and nodes as each engine needs them."""

import pytest
import sqlglot

from app.engines.rendering import PostgresTable, for_duckdb, for_postgres, postgres_name
from app.queries.canonical import canonicalise
from app.queries.compile import compile_query
from app.queries.model import Count, GroupByKeys, Query
from tests.queries.support import schema_of

QUERY = Query(
    measure=Count(of="rows"), group_by=GroupByKeys(column="city", keys=("a", "b")), rows_per_unit=2, groups_per_unit=2
)


def compiled():
    return compile_query(canonicalise(QUERY, schema_of()))


def test_postgres_hashes_bytes_reads_one_table_and_has_names_of_its_own():
    text = for_postgres(compiled(), PostgresTable('a"b', "rows"))
    assert "ENCODE(SHA256(CONVERT_TO(" in text
    assert '"a""b"."rows" AS "source"' in text
    assert '"source"."c:person"' in text
    assert "dataset_rows" not in text
    assert sqlglot.parse_one(text, read="postgres").sql(dialect="postgres") == text


def test_duckdb_reads_the_expression_as_it_is():
    assert for_duckdb(compiled()) == compiled().sql(dialect="duckdb")


def test_no_two_columns_share_a_name_in_postgres():
    ids = ["a", "A", "c:a", "h:a", "ctid", "x" * 61, "x" * 62, "x" * 128, "x" * 127 + "y", "é" * 40, "é" * 39 + "è"]
    names = [postgres_name(each) for each in ids]
    assert len(set(names)) == len(ids)
    assert all(len(name.encode()) <= 63 for name in names)


@pytest.mark.parametrize("name", ["", "x" * 64, "é" * 32, "a\0b"])
def test_a_table_name_that_postgres_would_cut_is_refused(name):
    with pytest.raises(ValueError, match="table: expected names"):
        PostgresTable("market", name)
