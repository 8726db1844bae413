"""Hostile JSON and hostile text: bounded, refused by name, or carried as a harmless value."""

import json

import msgspec
import pytest
import sqlglot

from app.errors import InvalidQueryError
from app.queries.canonical import canonicalise
from app.queries.compile import compile_query
from app.queries.model import (
    QUERY_BYTES_LIMIT,
    And,
    Comparison,
    Count,
    GroupByKeys,
    In,
    IsNull,
    Not,
    Query,
    Sum,
    parse_query,
)
from app.queries.schema import Column, DatasetSchema
from tests.queries.support import load, run, schema_of

pytestmark = pytest.mark.usefixtures("engine")

UNITS = {"type": "count", "of": "units"}
TOTAL = {"type": "sum", "column": "age", "lower": "0", "upper": "1", "grain_exponent": 0}


def encoded(**fields):
    return json.dumps({"measure": UNITS} | fields).encode()


def nested(depth):
    tree = {"type": "is_null", "column": "age"}
    for _ in range(depth - 1):
        tree = {"type": "not", "operand": tree}
    return tree


def test_a_query_travels_as_json_and_back():
    query = Query(
        measure=Sum(column="age", lower="-1.5", upper="2", grain_exponent=-1),
        where=And(operands=(Not(operand=IsNull(column="age")), In(column="city", values=("a", "b")))),
        group_by=GroupByKeys(column="city", keys=("b", "a")),
        groups_per_unit=1,
    )
    assert parse_query(msgspec.json.encode(query)) == query


HOSTILE = {
    "empty": b"",
    "not json": b"{",
    "not utf-8": b'{"measure": "\xff"}',
    "a list": b"[" * 100_000,
    "no measure": b"{}",
    "measure without type": encoded(measure={"of": "units"}),
    "unknown measure": encoded(measure={"type": "median", "column": "age"}),
    "unknown field": encoded(limit=1),
    "sql": encoded(where="age > 1"),
    "too deep": encoded(where=nested(17)),
    "far too deep": b'{"measure":{"type":"count","of":"units"},"where":' + b'{"type":"not","operand":' * 50_000,
    "empty and": encoded(where={"type": "and", "operands": []}),
    "too many nodes": encoded(where={"type": "and", "operands": [nested(1)] * 1000}),
    "empty in": encoded(where={"type": "in", "column": "age", "values": []}),
    "operator": encoded(where={"type": "comparison", "column": "age", "operator": "like", "value": "x"}),
    "float literal": encoded(where={"type": "comparison", "column": "age", "operator": "=", "value": 1.5}),
    "nan literal": b'{"measure":{"type":"count","of":"units"},"where":{"type":"comparison","column":"a","operator":"=","value":NaN}}',
    "null literal": encoded(where={"type": "comparison", "column": "age", "operator": "=", "value": None}),
    "huge literal": encoded(where={"type": "comparison", "column": "age", "operator": "=", "value": 2**63}),
    "nul": encoded(where={"type": "comparison", "column": "city", "operator": "=", "value": "a\0"}),
    "surrogate": encoded(where={"type": "comparison", "column": "city", "operator": "=", "value": "\ud800"}),
    "control in a name": encoded(where={"type": "is_null", "column": "a\n"}),
    "long name": encoded(where={"type": "is_null", "column": "a" * 129}),
    "long text": encoded(where={"type": "in", "column": "city", "values": ["a" * 1001]}),
    "no keys": encoded(group_by={"type": "keys", "column": "city", "keys": []}, groups_per_unit=1),
    "too many keys": encoded(
        group_by={"type": "keys", "column": "age", "keys": list(range(10_001))}, groups_per_unit=1
    ),
    "boolean key": encoded(group_by={"type": "keys", "column": "flag", "keys": [True]}, groups_per_unit=1),
    "k of 0": encoded(rows_per_unit=0),
    "k of true": encoded(rows_per_unit=True),
    "k as text": encoded(rows_per_unit="1"),
    "k beyond": encoded(rows_per_unit=10**9 + 1),
    "g negative": encoded(groups_per_unit=-1),
    "bound with newline": encoded(measure=TOTAL | {"upper": "0.1\n"}),
    "bound in Arabic digits": encoded(measure=TOTAL | {"upper": "٣"}),
    "bound with exponent": encoded(measure=TOTAL | {"upper": "1e999"}),
    "bound nan": encoded(measure=TOTAL | {"upper": "NaN"}),
    "bound of 31 digits": encoded(measure=TOTAL | {"upper": "1" * 31}),
    "bound as float": encoded(measure=TOTAL | {"upper": 0.1}),
    "grain beyond": encoded(measure=TOTAL | {"grain_exponent": 63}),
    "too large": b" " * (QUERY_BYTES_LIMIT + 1),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_json_is_refused_in_one_short_sentence(name):
    with pytest.raises(InvalidQueryError) as refusal:
        parse_query(HOSTILE[name])
    assert len(refusal.value.detail) < 400


def test_a_tree_of_the_greatest_depth_is_accepted():
    assert parse_query(encoded(where=nested(16))).where is not None


def test_a_query_built_in_python_is_held_to_the_same_bounds():
    with pytest.raises(InvalidQueryError, match="query: expected values in bounds"):
        canonicalise(Query(measure=Count(of="rows"), rows_per_unit=10**12), schema_of())


INJECTIONS = [
    "' OR 1=1 --",
    "'; DROP TABLE dataset_rows; --",
    '"; DROP TABLE dataset_rows; --',
    "\\' OR 1=1 --",
    "/* */ ' || (SELECT 1) || '",
    "$$x$$",
    "{{x}} %s ? $1 :name",
    "a''b",
    "\u2019 \u00a0 \u202e",
    "line\nbreak\ttab",
    "😀" * 10,
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_hostile_text_is_a_value_and_nothing_else(text):
    schema = schema_of()
    rows = [
        dict.fromkeys(each.name for each in schema.columns) | {"person": "p", "city": value} for value in (text, "a")
    ]
    equal = Comparison(column="city", operator="=", value=text)
    for where in (
        equal,
        In(column="city", values=(text, "zz")),
        Not(operand=Comparison(column="city", operator="!=", value=text)),
    ):
        canonical = canonicalise(Query(measure=Count(of="rows"), where=where, rows_per_unit=9), schema)
        assert run(load(rows), canonical) == [1]
    keyed = Query(measure=Count(of="units"), group_by=GroupByKeys(column="city", keys=(text, "b")), groups_per_unit=1)
    assert sorted(run(load(rows), canonicalise(keyed, schema))) == [0, 1]


@pytest.mark.parametrize("text", [each for each in INJECTIONS if "\n" not in each])
def test_a_hostile_column_name_is_a_name_and_nothing_else(text):
    columns = {text: "text", "u": "text"}
    schema = DatasetSchema(
        columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()),
        unit="u",
        ordering=(text,),
        salt="0" * 64,
        max_rows_per_unit=9,
        max_groups_per_unit=9,
    )
    query = Query(
        measure=Count(of="rows"),
        where=Not(operand=IsNull(column=text)),
        group_by=GroupByKeys(column=text, keys=("a", "b")),
        rows_per_unit=2,
        groups_per_unit=2,
    )
    rows = [{text: value, "u": "p"} for value in ("a", "a", "b")]
    assert sum(run(load(rows, columns), canonicalise(query, schema))) == 2


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_the_expression_renders_in_each_dialect_and_reads_back_the_same(dialect):
    schema = schema_of()
    for query in (
        Query(
            measure=Count(of="rows"),
            group_by=GroupByKeys(column="city", keys=("a", "'b")),
            rows_per_unit=2,
            groups_per_unit=1,
        ),
        Query(
            measure=Count(of="rows"),
            group_by=GroupByKeys(column="age", keys=(1, 2)),
            rows_per_unit=2,
            groups_per_unit=2,
        ),
        Query(measure=Sum(column="score", lower="0", upper="1", grain_exponent=-3)),
        Query(measure=Sum(column="age", lower="0", upper="8", grain_exponent=3)),
    ):
        text = compile_query(canonicalise(query, schema)).sql(dialect=dialect)
        assert sqlglot.parse_one(text, read=dialect).sql(dialect=dialect) == text


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": (Column(name="a", type="text"), Column(name="A", type="text"))},
        {"columns": (Column(name="a", type="text"), Column(name="b", type="text", id="A"))},
        {"columns": (Column(name="person", type="real"),), "ordering": ()},
        {"unit": "nobody"},
        {"ordering": ("score",)},
        {"ordering": ("age", "age")},
        {"ordering": ("nowhere",)},
    ],
)
def test_a_schema_that_cannot_serve_is_refused(changes):
    with pytest.raises(InvalidQueryError):
        schema_of(**changes)
