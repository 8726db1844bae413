"""Sums in other steps or from other centres: found to be one another's combinations, row by row, in rationals."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

from app.catalog.classes import Offer
from app.queries.canonical import CanonicalQuery, canonicalise
from app.queries.component import components
from app.queries.model import Count, IsNull, Mean, Not, Query, Sum
from app.queries.schema import Column, DatasetSchema
from tests.app.judging import judge

SCHEMA = DatasetSchema(
    columns=(Column(name="amount", type="integer"),), salt="0" * 64, max_rows_per_unit=1, max_groups_per_unit=1
)
VALUES = (None, *range(-2, 9))
Asked: TypeAlias = tuple[str, CanonicalQuery, tuple[Fraction, ...]]


def clamped(value: Fraction, lower: Fraction, upper: Fraction) -> Fraction:
    return min(max(value, lower), upper)


def questions() -> list[Asked]:
    """What each adds for a row of every value: sums in whole and half steps, centred sums of means, the count."""
    known = Query(measure=Count(of="rows"), where=Not(operand=IsNull(column="amount")))
    found = [("count", canonicalise(known, SCHEMA), tuple(Fraction(value is not None) for value in VALUES))]
    for grain, lower, upper in ((0, "0", "4"), (-1, "0", "4"), (-1, "0", "2.5"), (-1, "0", "2"), (-1, "0", "3")):
        measure = Sum(column="amount", lower=lower, upper=upper, grain_exponent=grain)
        found.append(
            (f"{lower} to {upper} in 2^{grain}", canonicalise(Query(measure=measure), SCHEMA), adds(0, lower, upper))
        )
    for lower, upper in (("-1", "3"), ("0", "2")):
        mean = Mean(column="amount", centre="1", lower=lower, upper=upper, grain_exponent=0, sum_share="0.5")
        total, _ = components(canonicalise(Query(measure=mean), SCHEMA))
        found.append((f"{lower} to {upper} from 1", total.query, adds(1, lower, upper)))
    return found


def adds(centre: int, lower: str, upper: str) -> tuple[Fraction, ...]:
    ends = Fraction(lower), Fraction(upper)
    return tuple(Fraction(0) if value is None else clamped(Fraction(value - centre), *ends) for value in VALUES)


def rank(rows: Sequence[Sequence[Fraction]]) -> int:
    table, count = [list(row) for row in rows], 0
    for column in range(len(VALUES)):
        pivot = next((row for row in table[count:] if row[column]), None)
        if pivot is None:
            continue
        table.remove(pivot)
        table.insert(count, pivot)
        for row in table[count + 1 :]:
            factor = row[column] / pivot[column]
            row[:] = [entry - factor * other for entry, other in zip(row, pivot, strict=True)]
        count += 1
    return count


def offer(asked: Asked, price: int) -> Offer:
    name, query, _ = asked
    return Offer("d", "s", name, name, query, "EUR", ((f"{name} @", 1.0, price),))


def test_what_others_add_up_to_is_never_called_safe_beside_them() -> None:
    """Every question against every one, two and three others: wherever it is their combination, it is not safe."""
    related = []
    for asked in questions():
        others = [each for each in questions() if each[0] != asked[0]]
        for size in (1, 2, 3):
            for some in combinations(others, size):
                rows = [row for _, _, row in some]
                if rank([*rows, asked[2]]) == rank(rows):
                    related.append((asked[0], *(name for name, _, _ in some)))
                    assert judge(offer(asked, 9000), [offer(each, 10) for each in some]).verdict != "safe", related[-1]
    assert ("0 to 4 in 2^0", "0 to 4 in 2^-1") in related
    assert ("0 to 2.5 in 2^-1", "0 to 2 in 2^-1", "0 to 3 in 2^-1") in related
    assert ("-1 to 3 from 1", "count", "0 to 4 in 2^0") in related
    assert ("count", "0 to 4 in 2^0", "-1 to 3 from 1") in related


def test_two_clamps_in_the_same_steps_from_the_same_centre_are_two_questions_still() -> None:
    by_name = {asked[0]: asked for asked in questions()}
    first, second = by_name["-1 to 3 from 1"], by_name["0 to 2 from 1"]
    assert judge(offer(first, 9000), [offer(second, 10)]).verdict == "safe"
