"""Ways of saying one question share a fingerprint and an answer; near misses share neither by accident."""

import itertools
import json

import pytest
from hypothesis import given, settings

from app.queries.canonical import CanonicalQuery, canonicalise, fingerprint, permutation
from app.queries.model import And, Between, Comparison, Count, GroupByKeys, In, IsNull, Not, Or, Query, Sum
from app.queries.schema import Column
from tests.queries.support import COLUMNS, WHERE, ask, crowd, queries, schema_of

pytestmark = pytest.mark.usefixtures("engine")

SCHEMA = schema_of()
ROWS = [row for seed in range(3) for row in crowd(seed)]


def mark(query, schema=SCHEMA):
    return fingerprint(canonicalise(query, schema).fingerprint_document())


def units(where, **fields):
    return Query(measure=Count(of="units"), where=where, **fields)


def compared(column, operator, value):
    return Comparison(column=column, operator=operator, value=value)


A, B, C = compared("age", "=", 1), compared("city", "=", "a"), compared("flag", "=", True)

ONE_QUESTION = {
    "conjuncts swapped": [And(operands=(A, B)), And(operands=(B, A)), And(operands=(B, A, B))],
    "nested and": [
        And(operands=(A, B, C)),
        And(operands=(A, And(operands=(B, C)))),
        And(operands=(And(operands=(C, A)), B)),
    ],
    "nested or": [Or(operands=(A, B, C)), Or(operands=(Or(operands=(C, B)), A))],
    "one operand": [A, And(operands=(A,)), Or(operands=(A, A)), Not(operand=Not(operand=A))],
    "lists": [
        In(column="city", values=("a", "b")),
        In(column="city", values=("b", "a", "b")),
        Or(operands=(compared("city", "=", "b"), compared("city", "=", "a"))),
        Or(operands=(In(column="city", values=("a",)), In(column="city", values=("a", "b")))),
        Not(operand=And(operands=(compared("city", "!=", "b"), compared("city", "!=", "a")))),
    ],
    "list of one": [B, In(column="city", values=("a",)), Not(operand=compared("city", "!=", "a"))],
    "not in": [
        Not(operand=In(column="city", values=("a", "b"))),
        And(operands=(compared("city", "!=", "b"), Not(operand=compared("city", "=", "a")))),
    ],
    "between": [
        Between(column="age", lower=1, upper=5),
        And(operands=(compared("age", "<=", 5), compared("age", ">=", 1))),
        And(operands=(compared("age", "<", 6), compared("age", ">", "0.0"))),
        Not(operand=Or(operands=(compared("age", "<", 1), compared("age", ">", 5)))),
    ],
    "not between": [
        Not(operand=Between(column="score", lower="0", upper="1")),
        Or(operands=(compared("score", ">", 1), compared("score", "<", "0.00"))),
    ],
    "whole literals": [
        compared("age", "<", 1),
        compared("age", "<", "1"),
        compared("age", "<", "1.00"),
        compared("age", "<=", 0),
    ],
    "real literals": [compared("score", ">", 1), compared("score", ">", "1.0"), compared("score", ">", "01.00")],
    "minus zero": [compared("score", "<", 0), compared("score", "<", "-0.0")],
    "booleans": [C, compared("flag", "!=", False), Not(operand=compared("flag", "=", False))],
    "both booleans": [In(column="flag", values=(True, False)), Not(operand=IsNull(column="flag"))],
    "times": [
        compared("at", "<=", "2013-01-01T10:00:00Z"),
        compared("at", "<=", "2013-01-01 10:00"),
        compared("at", "<=", "2013-01-01T12:00:00.000+02:00"),
    ],
    "dates": [compared("day", ">", "1969-12-31"), compared("day", ">=", "1970-01-01")],
    "de Morgan": [
        Not(operand=And(operands=(A, Or(operands=(B, IsNull(column="day")))))),
        Or(operands=(Not(operand=A), And(operands=(Not(operand=B), Not(operand=IsNull(column="day")))))),
    ],
}


@pytest.mark.parametrize("name", list(ONE_QUESTION))
def test_one_question_has_one_fingerprint_and_one_answer(name):
    spellings = [units(where) for where in ONE_QUESTION[name]]
    assert len({mark(query) for query in spellings}) == 1
    assert len({tuple(ask(ROWS, query, SCHEMA)) for query in spellings}) == 1


def test_different_questions_have_different_fingerprints():
    firsts = [mark(units(spellings[0])) for name, spellings in ONE_QUESTION.items() if name != "list of one"]
    assert len(set(firsts)) == len(firsts)


CITIES = GroupByKeys(column="city", keys=("a", "b", "c"))
AGES = Sum(column="age", lower="-1.5", upper="9.9", grain_exponent=0)
NEAR_MISSES = [
    units(None),
    units(A),
    units(compared("age", "!=", 1)),
    units(compared("score", "=", 1)),
    units(compared("city", "=", "1")),
    units(compared("person", "=", "1")),
    units(compared("city", "=", "A")),
    units(compared("city", "=", "a ")),
    units(And(operands=(A, B))),
    units(Or(operands=(A, B))),
    units(And(operands=(A, Or(operands=(B, C))))),
    units(Or(operands=(A, And(operands=(B, C))))),
    units(compared("score", "<", 1)),
    units(compared("score", "<=", 1)),
    units(None, group_by=CITIES, groups_per_unit=1),
    units(None, group_by=CITIES, groups_per_unit=2),
    units(None, group_by=GroupByKeys(column="city", keys=("a", "b")), groups_per_unit=1),
    units(None, group_by=GroupByKeys(column="person", keys=("a", "b", "c")), groups_per_unit=1),
    Query(measure=Count(of="rows"), rows_per_unit=2),
    Query(measure=Count(of="rows"), rows_per_unit=3),
    Query(measure=Count(of="rows"), rows_per_unit=2, group_by=CITIES, groups_per_unit=2),
    Query(measure=Count(of="rows"), rows_per_unit=2, group_by=CITIES, groups_per_unit=3),
    Query(measure=AGES),
    Query(measure=Sum(column="age", lower="-2", upper="9.9", grain_exponent=0)),
    Query(measure=Sum(column="age", lower="-1.5", upper="9.9", grain_exponent=-1)),
    Query(measure=Sum(column="score", lower="-1.5", upper="9.9", grain_exponent=0)),
]


def test_near_misses_differ():
    assert len({mark(query) for query in NEAR_MISSES}) == len(NEAR_MISSES)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (units(None, group_by=CITIES, groups_per_unit=3), units(None, group_by=CITIES, groups_per_unit=9)),
        (units(None), Query(measure=Count(of="rows"), rows_per_unit=1)),
        (Query(measure=AGES), Query(measure=Sum(column="age", lower="-1", upper="9.00", grain_exponent=0))),
        (
            units(None, group_by=CITIES, groups_per_unit=1),
            Query(measure=Count(of="rows"), rows_per_unit=1, group_by=CITIES, groups_per_unit=1),
        ),
    ],
)
def test_bounds_and_clamps_that_come_to_the_same_are_one_question(first, second):
    assert mark(first) == mark(second)
    assert ask(ROWS, first, SCHEMA) == ask(ROWS, second, SCHEMA)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(query=queries())
def test_a_double_negation_or_a_repetition_anywhere_changes_no_fingerprint(query):
    if query.where is not None:
        again = Or(operands=(Not(operand=Not(operand=query.where)), And(operands=(query.where, query.where))))
        other = Query(**{name: getattr(query, name) for name in query.__struct_fields__} | {"where": again})
        assert mark(other) == mark(query)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(where=WHERE)
def test_equal_fingerprints_have_equal_answers_under_negation(where):
    if where is not None:
        kept, lost = (
            ask(ROWS, units(each), SCHEMA)
            for each in (Not(operand=where), Not(operand=Not(operand=Not(operand=where))))
        )
        assert kept == lost


def test_keys_in_any_order_are_one_question_and_the_permutation_gives_the_callers_order_back():
    for keys in itertools.permutations(("c", "a", "b")):
        query = units(None, group_by=GroupByKeys(column="city", keys=keys), groups_per_unit=2)
        assert mark(query) == mark(units(None, group_by=CITIES, groups_per_unit=2))
        assert [canonicalise(query, SCHEMA).keys[place] for place in permutation(query, SCHEMA)] == list(keys)


def test_whole_keys_are_sorted_by_size():
    query = units(None, group_by=GroupByKeys(column="age", keys=(10, "9.0", -1)), groups_per_unit=2)
    assert canonicalise(query, SCHEMA).keys == ("-1", "9", "10")
    assert permutation(query, SCHEMA) == (2, 1, 0)


def test_a_renamed_column_keeps_the_fingerprint_and_a_retyped_one_does_not():
    def schema(name, kind):
        columns = tuple(
            Column(name=name, type=kind, id="age") if each == "age" else Column(name=each, type=COLUMNS[each])
            for each in COLUMNS
        )
        return schema_of(columns=columns, ordering=("city",))

    renamed = mark(units(compared("Alter", "=", 1)), schema("Alter", "integer"))
    assert renamed == mark(units(A), schema("age", "integer"))
    assert renamed != mark(units(A), schema("age", "real"))


@pytest.mark.parametrize(
    ("query", "matters"),
    [
        (units(None), False),
        (Query(measure=Count(of="rows"), rows_per_unit=3), False),
        (units(None, group_by=CITIES, groups_per_unit=3), False),
        (units(None, group_by=CITIES, groups_per_unit=2), True),
        (Query(measure=Count(of="rows"), rows_per_unit=3, group_by=CITIES, groups_per_unit=3), True),
        (Query(measure=AGES), False),
        (Query(measure=AGES, group_by=CITIES, groups_per_unit=3), False),
        (Query(measure=AGES, group_by=CITIES, groups_per_unit=1), True),
    ],
)
def test_the_salt_is_in_the_fingerprint_only_where_it_can_change_the_answer(query, matters):
    others = [schema_of(salt=f"{number:02x}" * 32) for number in range(8)]
    assert [mark(query) != mark(query, other) for other in others] == [matters] * 8
    assert any(ask(ROWS, query, SCHEMA) != ask(ROWS, query, other) for other in others) is matters


def test_ordering_columns_count_only_where_rows_are_cut_across_groups():
    other = schema_of(ordering=("day",))
    rows = Query(measure=Count(of="rows"), rows_per_unit=3, group_by=CITIES, groups_per_unit=3)
    assert mark(rows) != mark(rows, other)
    for query in (
        Query(measure=AGES, group_by=CITIES, groups_per_unit=1),
        Query(measure=Count(of="rows"), rows_per_unit=3),
    ):
        assert mark(query) == mark(query, other)


def test_the_document_is_plain_and_the_fingerprint_is_frozen():
    query = Query(measure=AGES, where=And(operands=(A, B)), group_by=CITIES, groups_per_unit=2)
    document = canonicalise(query, SCHEMA).fingerprint_document()
    assert json.loads(json.dumps(document)) == document
    assert mark(query) == "fc75efd210e5c80ffade568f72bd6d2d961c70179b97b87551302430dcfc9b8a"


def test_a_canonical_query_survives_storage():
    import msgspec

    query = Query(measure=AGES, where=And(operands=(A, Or(operands=(B, C)))), group_by=CITIES, groups_per_unit=2)
    canonical = canonicalise(query, SCHEMA)
    assert msgspec.json.decode(msgspec.json.encode(canonical), type=CanonicalQuery) == canonical
