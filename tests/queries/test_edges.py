"""Nulls, NaN, infinities, limits of 64 bits, empty tables: documented answers, and never an error that data can cause."""

import pytest

from app.queries.canonical import canonicalise
from app.queries.model import And, Comparison, Count, GroupByKeys, In, IsNull, Not, Or, Query, Sum
from tests.queries.support import ask, load, row, run, schema_of

pytestmark = pytest.mark.usefixtures("engine")

SCHEMA = schema_of()
CITIES = GroupByKeys(column="city", keys=("b", "a"))
UNITS = Count(of="units")


def total(column, lower, upper, exponent=0, **fields):
    return Query(measure=Sum(column=column, lower=lower, upper=upper, grain_exponent=exponent), **fields)


@pytest.mark.parametrize("unit", ["person", None])
def test_an_empty_table_answers_zero_for_every_declared_key(unit):
    schema, bound = schema_of(unit=unit), {} if unit is None else {"groups_per_unit": 2}
    assert ask([], Query(measure=UNITS, group_by=CITIES, **bound), schema) == [0, 0]
    assert ask([], total("score", "-1", "1", group_by=CITIES, **bound), schema) == [0, 0]
    assert ask([], Query(measure=UNITS), schema) == [0]


def test_three_rows_leave_a_group_without_rows_at_zero():
    rows = [row(person="ann", city="a"), row(person="bob", city="a"), row(person="bob", city="z")]
    assert ask(rows, Query(measure=UNITS, group_by=CITIES, groups_per_unit=2), SCHEMA) == [2, 0]


def test_rows_of_nobody_are_dropped():
    rows = [row(person=None, age=5), row(person="ann", age=5)]
    assert ask(rows, Query(measure=Count(of="rows"), rows_per_unit=9), SCHEMA) == [1]
    assert ask(rows, total("age", "0", "9"), SCHEMA) == [5]


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf"), float("-inf")])
def test_null_nan_and_infinity_add_nothing_and_are_no_row_of_a_sum(odd):
    assert ask([row(person="ann", score=odd)], total("score", "3", "9"), SCHEMA) == [0]
    assert ask([row(person="ann", score=odd), row(person="ann", score=4.0)], total("score", "3", "9"), SCHEMA) == [4]


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_null_nan_and_infinity_pass_no_comparison_nor_its_negation(odd, operator):
    comparison = Comparison(column="score", operator=operator, value="1")
    rows = [row(person="ann", score=odd)]
    assert ask(rows, Query(measure=UNITS, where=comparison), SCHEMA) == [0]
    assert ask(rows, Query(measure=UNITS, where=Not(operand=comparison)), SCHEMA) == [0]
    assert ask(rows, Query(measure=UNITS, where=IsNull(column="score")), SCHEMA) == [1]


def test_not_in_both_booleans_is_true_of_no_row_not_even_a_null():
    neither = Not(operand=In(column="flag", values=(True, False)))
    rows = [row(person="ann", flag=None), row(person="bob", flag=True)]
    assert ask(rows, Query(measure=UNITS, where=neither), SCHEMA) == [0]


def test_a_unit_without_rows_adds_zero_and_not_the_clamped_zero():
    rows = [row(person="ann", city="a", age=1)]
    query = total("age", "3", "9", group_by=CITIES, groups_per_unit=2)
    assert ask(rows, query, SCHEMA) == [3, 0]


def test_halves_round_up_on_both_sides_of_zero():
    for value, steps in ((0.5, 1), (-0.5, 0), (1.5, 2), (-1.5, -1), (0.49999999999999994, 0), (-5e-324, 0)):
        assert ask([row(person="ann", score=value)], total("score", "-9", "9"), SCHEMA) == [steps]
    for value, steps in ((1, 1), (-1, 0), (3, 2), (-3, -1), (2, 1), (-2, -1)):
        assert ask([row(person="ann", age=value)], total("age", "-9", "9", exponent=1), SCHEMA) == [steps]


def test_bounds_hold_after_rounding_in_steps():
    query = total("score", "0", "0.4", exponent=-2)
    assert ask([row(person="ann", score=0.4)], query, SCHEMA) == [1]


@pytest.mark.parametrize("exponent", [-62, -1, 0, 1, 61, 62])
@pytest.mark.parametrize("column", ["age", "score"])
def test_extreme_rows_saturate_and_do_not_fail(column, exponent):
    extremes = {"age": [2**63 - 1, -(2**63)], "score": [1.7976931348623157e308, -1.7976931348623157e308]}[column]
    for value in extremes:
        rows = [row(person="ann", **{column: value})] * 5
        (answer,) = ask(rows, total(column, "-1", "1", exponent=-62), SCHEMA)
        assert answer == (2**62 if value > 0 else -(2**62))
        (answer,) = ask(rows, total(column, str(-(2**62)), str(2**62), exponent=max(exponent, 0)), SCHEMA)
        assert abs(answer) <= 2**62


def test_sums_over_units_pass_the_limit_of_64_bits_exactly():
    rows = [row(person=f"p{number}", age=2**62) for number in range(5)]
    assert ask(rows, total("age", "0", str(2**62)), SCHEMA) == [5 * 2**62]


def test_one_units_total_passes_32_bits_exactly():
    canonical = canonicalise(total("age", "0", str(2**62)), SCHEMA)
    assert run(load([row(person="ann", age=5_000_000)] * 600), canonical) == [5 * 6 * 10**8]


def test_a_units_rows_beyond_64_bits_cancel_exactly():
    rows = [row(person="ann", age=2**63 - 1)] * 4 + [row(person="ann", age=-(2**63))] * 4
    assert ask(rows, total("age", "-5", "5"), SCHEMA) == [0]


def test_columns_named_like_the_expressions_own_tables_change_nothing():
    columns = {
        "source": "text",
        "bins": "text",
        "place": "integer",
        "kept": "integer",
        "key": "text",
        "rank": "integer",
    }
    schema = schema_of(
        columns=tuple(type(SCHEMA.columns[0])(name=name, type=kind) for name, kind in columns.items()),
        unit="source",
        ordering=("place", "rank"),
    )
    rows = [
        {"source": "u", "bins": key, "place": 7, "kept": 1, "key": key, "rank": rank} for key in "ab" for rank in (1, 2)
    ]
    query = Query(
        measure=Count(of="rows"),
        where=And(
            operands=(
                Comparison(column="place", operator="=", value=7),
                Or(operands=(IsNull(column="rank"), Comparison(column="kept", operator="=", value=1))),
            )
        ),
        group_by=GroupByKeys(column="key", keys=("a", "b", "c")),
        rows_per_unit=3,
        groups_per_unit=2,
    )
    answer = run(load(rows, columns), canonicalise(query, schema))
    assert (sum(answer), answer[2]) == (3, 0)
