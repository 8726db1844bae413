"""One small declared table, random rows of it, random questions about it, and DuckDB to ask."""

import math
import random
from datetime import date, datetime
from fractions import Fraction

import duckdb
from hypothesis import strategies as st

from app.engines.rendering import for_duckdb
from app.queries.canonical import CanonicalQuery, canonicalise, permutation
from app.queries.compile import ROWS_TABLE, compile_query
from app.queries.component import components
from app.queries.expressions import SQL_TYPES
from app.queries.model import (
    And,
    Between,
    Comparison,
    Count,
    GroupByBins,
    GroupByKeys,
    GroupByRanges,
    In,
    IsNull,
    Mean,
    Not,
    Or,
    Quantile,
    Query,
    Range,
    Sum,
    Threshold,
)
from app.queries.schema import Column, DatasetSchema

COLUMNS = {
    "person": "text",
    "city": "text",
    "age": "integer",
    "score": "real",
    "flag": "boolean",
    "day": "date",
    "at": "timestamp",
}
ORDERED = ("age", "score", "day", "at")


def schema_of(unit: str | None = "person", ordering: tuple[str, ...] = ("age", "city", "flag", "day", "at"), **changes):
    fields = {
        "columns": tuple(Column(name=name, type=kind) for name, kind in COLUMNS.items()),
        "salt": "5a" * 32,
        "unit": unit,
        "ordering": ordering,
        "max_rows_per_unit": 100,
        "max_groups_per_unit": 10,
    }
    return DatasetSchema(**(fields | changes))


def row(**cells):
    return dict.fromkeys(COLUMNS) | cells


ODD_REALS = (float("nan"), float("inf"), float("-inf"))
_DATABASE = duckdb.connect(config={"threads": 2})


def load(rows, columns=None):
    """What answers canonical questions about a table that holds `rows`, until the next call; in the engine in use."""
    return ENGINE[-1](rows, COLUMNS if columns is None else columns)


def load_duckdb(rows, columns):
    connection = _DATABASE
    names = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}" {SQL_TYPES[kind]}' for name, kind in columns.items())
    connection.execute(f"CREATE OR REPLACE TABLE {ROWS_TABLE} ({names})")
    if rows:
        marks = ", ".join(["(" + ", ".join("?" * len(columns)) + ")"] * len(rows))
        connection.execute(
            f"INSERT INTO {ROWS_TABLE} VALUES {marks}", [each[name] for each in rows for name in columns]
        )

    def asked(canonical):
        return [answer for _, answer in connection.execute(for_duckdb(compile_query(canonical))).fetchall()]

    return asked


ENGINE = [load_duckdb]
"""The engine in use is the last one: see the fixture `engine`."""


def run(table, canonical: CanonicalQuery) -> list[int]:
    return table(canonical)


def ask(rows, query: Query, schema: DatasetSchema) -> list[int]:
    """The engine's answer, in canonical key order."""
    return run(load(rows), canonicalise(query, schema))


def ask_parts(rows, query: Query, schema: DatasetSchema) -> list[list[int]]:
    """The engine's answer to each component, in the caller's order."""
    table, order = load(rows), permutation(query, schema)
    raws = [run(table, each.query) for each in components(canonicalise(query, schema))]
    return [[raw[place] for place in order] for raw in raws]


def crowd(seed, size=60):
    """Few people with many rows each in few cities: every bound binds."""
    draw = random.Random(seed)
    days = [date(2013, 1, 1), date(1969, 12, 31), None]
    times = [
        datetime(2013, 1, 1, 10),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(2300, 1, 1, 1, 2, 3, 4),
        None,
    ]
    return [
        {
            "person": draw.choice(["ann", "bob", "cy", "é'", None]),
            "city": draw.choice(["a", "b", "c", "d", None]),
            "age": draw.choice([*range(-3, 8), None]),
            "score": draw.choice([-1.5, -0.5, 0.1, 0.25, 1.0, 2.5, *ODD_REALS, None]),
            "flag": draw.choice([True, False, None]),
            "day": draw.choice(days),
            "at": draw.choice(times),
        }
        for _ in range(size)
    ]


CELLS = {
    "person": st.sampled_from(["ann", "bob", "cy", "", "ann:1", "é'", None]),
    "city": st.sampled_from(["a", "b", "c", "d", "1:a", "", None]),
    "age": st.sampled_from([0, 1, 2, 3, 5, -1, -2, -3, 2**63 - 1, -(2**63), 2**62, None]),
    "score": st.sampled_from(
        [0.0, -0.0, 0.25, 0.5, 1.5, -0.5, -1.5, 0.1, 2.0**62, -(2.0**70), 1e308, 5e-324, -5e-324, *ODD_REALS, None]
    ),
    "flag": st.sampled_from([True, False, None]),
    "day": st.sampled_from([date(2013, 1, 1), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), None]),
    "at": st.sampled_from(
        [datetime(2013, 1, 1, 10), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(9999, 1, 1, 1, 2, 3, 4), None]
    ),
}
LITERALS = {
    "person": st.sampled_from(["ann", "é'", ""]),
    "city": st.sampled_from(["a", "b", "zz"]),
    "age": st.sampled_from([0, 1, -2, "2.0", 2**63 - 1, -(2**63)]),
    "score": st.sampled_from([0, "0.1", "-0.5", "1.50", 2**62]),
    "flag": st.booleans(),
    "day": st.sampled_from(["2013-01-01", "0001-01-01", "9999-12-31"]),
    "at": st.sampled_from(["2013-01-01T10:00:00Z", "2013-01-01 12:00+02:00", "9999-01-01T01:02:03.000004"]),
}
ROWS = st.lists(st.fixed_dictionaries(CELLS), max_size=14)


@st.composite
def leaves(draw):
    column = draw(st.sampled_from(list(COLUMNS)))
    shape = draw(st.sampled_from(["comparison", "in", "between", "null"]))
    if shape == "null":
        return IsNull(column=column)
    if shape == "in":
        return In(column=column, values=tuple(draw(st.lists(LITERALS[column], min_size=1, max_size=3))))
    if shape == "between" and column in ORDERED:
        return Between(column=column, lower=draw(LITERALS[column]), upper=draw(LITERALS[column]))
    operators = ["=", "!=", "<", "<=", ">", ">="] if column in ORDERED else ["=", "!="]
    return Comparison(column=column, operator=draw(st.sampled_from(operators)), value=draw(LITERALS[column]))


def _grow(trees):
    lists = st.lists(trees, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        lists.map(lambda operands: And(operands=operands)),
        lists.map(lambda operands: Or(operands=operands)),
        trees.map(lambda operand: Not(operand=operand)),
    )


WHERE = st.one_of(st.none(), st.recursive(leaves(), _grow, max_leaves=6))
GROUPS = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c", "1:a", "", "nobody"]), min_size=1, max_size=5, unique=True).map(
        lambda keys: GroupByKeys(column="city", keys=tuple(keys))
    ),
    st.lists(st.sampled_from([0, 1, -1, "3", 2**63 - 1]), min_size=1, max_size=4, unique=True).map(
        lambda keys: GroupByKeys(column="age", keys=tuple(keys))
    ),
)
ENDS = {
    "age": [-3, 0, 1, "2.0", 5, 2**63 - 1, -(2**63)],
    "score": ["-1.5", 0, "0.1", "0.25", "1.50", 2**62],
    "day": ["0001-01-01", "1969-12-31", "1970-01-01", "2013-01-01", "9999-12-31"],
    "at": [
        "1969-12-31T23:59:59.999999Z",
        "2013-01-01T10:00:00Z",
        "2300-01-01 01:02:03.000004",
        "9999-01-01T01:02:03.000004",
    ],
}


@st.composite
def ranges(draw):
    column = draw(st.sampled_from(ORDERED))
    ends = [None, *ENDS[column], None]
    made = {}
    for _ in range(draw(st.integers(1, 6))):
        lower, upper = sorted(draw(st.lists(st.integers(0, len(ends) - 1), min_size=2, max_size=2, unique=True)))
        end = "open" if ends[upper] is None else draw(st.sampled_from(["open", "closed"]))
        made[(lower, upper, end)] = Range(lower=ends[lower], upper=ends[upper], end=end)
    return GroupByRanges(column=column, ranges=tuple(made.values()))


@st.composite
def bins(draw):
    column = draw(st.sampled_from(ORDERED))
    ends = sorted(draw(st.sets(st.integers(0, len(ENDS[column]) - 1), min_size=1, max_size=5)))
    edges = tuple(ENDS[column][place] for place in ends if place != 6)
    sides = st.sampled_from(["dropped", "kept"])
    return GroupByBins(column=column, edges=edges or (1,), below=draw(sides), above=draw(sides))


def leaves_a_step(measure):
    """Whether the clamp admits something other than 0, so that the sum is no refusal."""
    grain = Fraction(2) ** measure.grain_exponent
    lower, upper = math.ceil(Fraction(measure.lower) / grain), math.floor(Fraction(measure.upper) / grain)
    return lower <= upper and (lower, upper) != (0, 0)


SUMS = st.builds(
    Sum,
    column=st.sampled_from(["age", "score"]),
    lower=st.sampled_from(["-4", "-0.3", "0", "1.5"]),
    upper=st.sampled_from(["2.4", "5", str(2**58)]),
    grain_exponent=st.sampled_from([-2, -1, 0, 1, 2]),
).filter(leaves_a_step)


@st.composite
def queries(draw, unit: str | None = "person"):
    measure = draw(st.one_of(st.sampled_from([Count(of="rows"), Count(of="units")]), SUMS))
    return draw(bounded(measure, draw(st.one_of(st.none(), GROUPS)), unit))


MEANS = st.builds(
    Mean,
    column=st.sampled_from(["age", "score"]),
    centre=st.sampled_from(["0", "1", "-2.0"]),
    lower=st.sampled_from(["-4", "-0.3", "0"]),
    upper=st.sampled_from(["2.4", "5", str(2**58)]),
    grain_exponent=st.sampled_from([-2, -1, 0]),
    sum_share=st.just("0.5"),
)


@st.composite
def newer_queries(draw, unit: str | None = "person"):
    """Questions over ranges and bins, and means, quantiles and thresholds; all that the model then admits."""
    of = draw(st.sampled_from(["rows", "units"]))
    shape = draw(st.sampled_from(["count", "sum", "mean", "quantile", "threshold"]))
    group_by = draw(st.one_of(ranges(), ranges(), bins(), st.one_of(st.none(), GROUPS)))
    if shape == "quantile":
        group_by = draw(bins())
    measure = {
        "count": lambda: Count(of=of),
        "sum": lambda: draw(SUMS),
        "mean": lambda: draw(MEANS),
        "quantile": lambda: Quantile(of=of, fraction="0.5"),
        "threshold": lambda: Threshold(of=of, at=3),
    }[shape]()
    return draw(bounded(measure, group_by, unit))


@st.composite
def bounded(draw, measure, group_by, unit):
    bounds = {}
    counts_rows = isinstance(measure, Mean) or getattr(measure, "of", None) == "rows"
    if unit is not None and counts_rows:
        bounds["rows_per_unit"] = draw(st.integers(1, 4))
        if isinstance(measure, Mean) or group_by is not None:
            orderings = [None, ("age", "city"), ("day",)] + ([] if isinstance(measure, Mean) else [()])
            bounds["ordering"] = draw(st.sampled_from(orderings))
    if unit is not None and group_by is not None:
        bounds["groups_per_unit"] = draw(st.integers(1, 3))
    return Query(measure=measure, where=draw(WHERE), group_by=group_by, **bounds)
