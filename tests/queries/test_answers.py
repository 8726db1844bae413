"""The compiled expression against the plain-Python rules, and the sensitivity against neighbouring tables."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.queries.canonical import canonicalise, permutation
from app.queries.model import Comparison, Count, GroupByKeys, Query, Sum
from app.queries.sensitivity import derive
from tests.queries.oracle import answers
from tests.queries.support import ROWS, ask, crowd, queries, row, schema_of

pytestmark = pytest.mark.usefixtures("engine")

SCHEMA = schema_of()
PLAIN = settings(max_examples=150, deadline=None, derandomize=True)


def in_callers_order(canonical_answer, query, schema):
    return [canonical_answer[place] for place in permutation(query, schema)]


@PLAIN
@given(rows=ROWS, query=queries())
def test_the_engine_agrees_with_the_rules_in_plain_python(rows, query):
    assert in_callers_order(ask(rows, query, SCHEMA), query, SCHEMA) == answers(rows, query, SCHEMA)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ordering", [("age", "city", "flag", "day", "at"), ("at",), ("day",), ()])
def test_where_bounds_bind_the_engine_keeps_the_rows_that_the_rules_keep(seed, ordering):
    schema, rows = schema_of(ordering=ordering), crowd(seed)
    for group_by in (GroupByKeys(column="city", keys=("d", "b", "a")), GroupByKeys(column="age", keys=(5, -1, 2, 7))):
        for groups in (1, 2, 3):
            units = Query(measure=Count(of="units"), group_by=group_by, groups_per_unit=groups)
            sums = Query(
                measure=Sum(column="score", lower="-2", upper="3.5", grain_exponent=-1),
                group_by=group_by,
                groups_per_unit=groups,
            )
            counts = [
                Query(measure=Count(of="rows"), group_by=group_by, groups_per_unit=groups, rows_per_unit=k)
                for k in (1, 2, 5)
            ]
            for query in (units, sums, *counts):
                assert in_callers_order(ask(rows, query, schema), query, schema) == answers(rows, query, schema)


@settings(PLAIN, max_examples=60)
@given(rows=ROWS, query=queries(unit=None))
def test_where_each_row_is_a_unit_the_engine_agrees_too(rows, query):
    schema = schema_of(unit=None)
    assert in_callers_order(ask(rows, query, schema), query, schema) == answers(rows, query, schema)


@settings(PLAIN, max_examples=60)
@given(rows=ROWS, query=queries(), seed=st.integers(0, 2**16))
def test_guarantee_compile_query(rows, query, seed):
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert ask(shuffled, query, SCHEMA) == ask(rows, query, SCHEMA)


def lies_in(change_set, change):
    sizes = [abs(entry) for entry in change if entry != 0]
    return len(sizes) <= change_set.bins and max(sizes, default=0) <= change_set.step and sum(sizes) <= change_set.total


def change_without(rows, unit, query, schema):
    rest = [each for each in rows if each[schema.unit] != unit]
    return [before - after for before, after in zip(ask(rows, query, schema), ask(rest, query, schema), strict=True)]


@PLAIN
@given(rows=ROWS, query=queries(), unit=st.sampled_from(["ann", "bob", ""]))
def test_guarantee_derive(rows, query, unit):
    change_set = derive(canonicalise(query, SCHEMA)).change_set
    assert lies_in(change_set, change_without(rows, unit, query, SCHEMA))


def test_each_bound_of_a_change_set_is_reached():
    rows_of_ann = [row(person="ann", city=city, age=age) for city in "abc" for age in range(9)]
    cities = GroupByKeys(column="city", keys=("a", "b", "c"))
    rows = Query(measure=Count(of="rows"), group_by=cities, rows_per_unit=5, groups_per_unit=2)
    units = Query(measure=Count(of="units"), group_by=cities, groups_per_unit=2)
    sums = Query(
        measure=Sum(column="age", lower="-7", upper="20", grain_exponent=0), group_by=cities, groups_per_unit=2
    )
    assert sum(change_without(rows_of_ann, "ann", rows, SCHEMA)) == 5
    assert sorted(change_without(rows_of_ann, "ann", units, SCHEMA)) == [0, 1, 1]
    assert sorted(change_without(rows_of_ann, "ann", sums, SCHEMA)) == [0, 20, 20]


def test_all_rows_of_a_unit_in_one_group_may_be_kept():
    rows_of_ann = [row(person="ann", city="a", age=age) for age in range(9)]
    cities = GroupByKeys(column="city", keys=("a", "b"))
    query = Query(measure=Count(of="rows"), group_by=cities, rows_per_unit=5, groups_per_unit=2)
    assert ask(rows_of_ann, query, SCHEMA) == [5, 0]


def test_without_ordering_columns_ties_fall_to_the_least_key():
    rows_of_ann = [row(person="ann", city=city) for city in "ab" for _ in range(4)]
    cities = GroupByKeys(column="city", keys=("b", "a"))
    query = Query(measure=Count(of="rows"), group_by=cities, rows_per_unit=5, groups_per_unit=2)
    assert ask(rows_of_ann, query, schema_of(ordering=())) == [4, 1]


def test_only_declared_keys_use_up_a_units_groups():
    rows = [row(person=f"p{number}", city=city) for number in range(20) for city in "abcdefgh"]
    query = Query(measure=Count(of="units"), group_by=GroupByKeys(column="city", keys=("c",)), groups_per_unit=1)
    assert ask(rows, query, SCHEMA) == [20]


def test_rows_outside_where_use_up_no_bound():
    rows = [row(person="ann", city="a", age=age) for age in range(9)]
    where = Comparison(column="age", operator=">=", value=7)
    assert ask(rows, Query(measure=Count(of="rows"), where=where, rows_per_unit=3), SCHEMA) == [2]
