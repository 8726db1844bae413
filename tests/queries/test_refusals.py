"""Literals of another type, and questions outside the model: refused by name."""

import pytest

from app.errors import InvalidQueryError
from app.queries.canonical import canonicalise
from app.queries.literals import canonical_text
from app.queries.model import Between, Comparison, Count, GroupByKeys, Query, Sum
from app.queries.schema import Column
from tests.queries.support import schema_of

SCHEMA = schema_of()
CITIES = GroupByKeys(column="city", keys=("a", "b", "c"))
AGES = Sum(column="age", lower="-1.5", upper="9.9", grain_exponent=0)


def units(where, **fields):
    return Query(measure=Count(of="units"), where=where, **fields)


def compared(column, operator, value):
    return Comparison(column=column, operator=operator, value=value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", "1.5"),
        ("integer", 2**63),
        ("integer", True),
        ("integer", "1\n"),
        ("integer", "١"),
        ("integer", "1e3"),
        ("integer", "1_000"),
        ("real", "nan"),
        ("real", "inf"),
        ("real", "0.1\n"),
        ("real", "٠.١"),
        ("real", "1" * 400),
        ("real", False),
        ("text", 1),
        ("text", "a\0b"),
        ("text", "\ud800"),
        ("boolean", "true"),
        ("boolean", 1),
        ("date", "2013-02-30"),
        ("date", "2013-1-1"),
        ("date", "2013-01-01\n"),
        ("date", "infinity"),
        ("date", "٢٠١٣-01-01"),
        ("timestamp", "2013-01-01"),
        ("timestamp", "2013-01-01T25:00:00"),
        ("timestamp", "0001-01-01T00:00:00+05:00"),
        ("timestamp", "2013-01-01T10:00:00Z\n"),
    ],
)
def test_a_literal_of_another_type_is_refused(kind, value):
    with pytest.raises(InvalidQueryError, match=r"^x: expected"):
        canonical_text(Column(name="x", type=kind), value)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Query(measure=Count(of="rows")), "rows_per_unit: expected a bound"),
        (Query(measure=Count(of="units"), rows_per_unit=1), "rows_per_unit: expected no bound"),
        (Query(measure=AGES, rows_per_unit=1), "rows_per_unit: expected no bound"),
        (Query(measure=AGES, groups_per_unit=1), "groups_per_unit: expected no bound"),
        (Query(measure=AGES, group_by=CITIES), "groups_per_unit: expected a bound"),
        (Query(measure=Count(of="rows"), rows_per_unit=101), "ceiling 100"),
        (units(None, group_by=CITIES, groups_per_unit=11), "ceiling 10"),
        (units(None, group_by=GroupByKeys(column="city", keys=("a", "a")), groups_per_unit=1), "keys: expected each"),
        (units(None, group_by=GroupByKeys(column="age", keys=(1, "1.0")), groups_per_unit=1), "keys: expected each"),
        (units(None, group_by=GroupByKeys(column="city", keys=(1,)), groups_per_unit=1), "city: expected text"),
        (units(None, group_by=GroupByKeys(column="score", keys=(1,)), groups_per_unit=1), "group_by: expected"),
        (units(compared("nowhere", "=", 1)), "column: expected a declared column"),
        (units(compared("city", "<", "a")), "text has no order"),
        (units(Between(column="flag", lower=True, upper=True)), "boolean has no order"),
        (Query(measure=Sum(column="city", lower="0", upper="1", grain_exponent=0)), "integer or real column to sum"),
        (Query(measure=Sum(column="age", lower="2", upper="1", grain_exponent=0)), "clamp: expected lower"),
        (Query(measure=Sum(column="age", lower="0.3", upper="0.4", grain_exponent=0)), "clamp: expected lower"),
        (Query(measure=Sum(column="age", lower="0", upper="3", grain_exponent=-62)), "within ±2⁶² steps"),
    ],
)
def test_a_question_outside_the_model_is_refused_by_name(query, words):
    with pytest.raises(InvalidQueryError, match=words):
        canonicalise(query, SCHEMA)


def test_where_each_row_is_a_unit_no_bound_is_asked_for_and_none_accepted():
    schema = schema_of(unit=None)
    assert canonicalise(Query(measure=Count(of="rows")), schema) == canonicalise(units(None), schema)
    with pytest.raises(InvalidQueryError, match="rows_per_unit: expected no bound"):
        canonicalise(Query(measure=Count(of="rows"), rows_per_unit=1), schema)
