"""A mean's bar before its sale is of the estimate as it is shown: by exact enumeration, in the digits that buyers get."""

import itertools
from fractions import Fraction

import msgspec
import pytest

from app.catalog.means import bar_at, bars_of
from app.queries.canonical import canonicalise
from app.queries.component import components
from app.queries.model import Mean, Query
from app.queries.presentation import outward, present, rounding
from tests.queries.support import schema_of
from tests.queries.test_readings import NOMINAL, outcomes
from tiers.noise.tsg import TwoSidedGeometric

SCHEMA = schema_of(unit=None)
PLAIN, SURE = TwoSidedGeometric(Fraction(1)), TwoSidedGeometric(Fraction(8))


def asked(centre, reach):
    mean = Mean(
        column="age", lower=str(-reach), upper=str(reach), centre=str(centre), grain_exponent=0, sum_share="0.5"
    )
    return Query(measure=mean)


def view_of(query, law, rows):
    total = components(canonicalise(query, SCHEMA))[0].query
    return bars_of(msgspec.json.encode(total).decode(), (law, law), (rows,))


def covered(query, law, total, count, centre, bar):
    """The probability that the estimate as it is shown is within the bar; what is not enumerated counts as a miss."""
    truth, found = centre + Fraction(total, count), 0.0
    for (first, one), (second, other) in itertools.product(outcomes(law, miss=1e-4), repeat=2):
        (shown,) = present(query, SCHEMA, [[total + first], [count + second]], [law, law]).entries
        if abs(Fraction(shown.estimate) - truth) <= bar:
            found += one * other
    return found


@pytest.mark.parametrize("law", [PLAIN, SURE], ids=["ε = 1", "ε = 8"])
@pytest.mark.parametrize("reach", [1, 50])
@pytest.mark.parametrize("centre", [0, 7, -(10**6), 17 * 10**8])
@pytest.mark.parametrize("rows", [97, 10**7])
def test_the_bar_covers_the_estimate_as_it_is_shown(law, reach, centre, rows):
    query = asked(centre, reach)
    view = view_of(query, law, rows)
    (bar,) = (Fraction(each["half_width"]) for each in view.bars)
    assert outward(bar_at(view, rows)) == view.bars[0]["half_width"]
    assert bar >= bar_at(view, rows)
    for total in (-reach * rows, rows // 3, reach * rows):
        assert covered(query, law, total, rows, centre, bar) >= NOMINAL - Fraction(3, 10_000), total


def test_rounding_is_reached_and_never_passed():
    half = Fraction(1, 2) * Fraction(10) ** -10
    for number in (Fraction(10) + half, Fraction(99) + Fraction(1, 3), Fraction(10) - Fraction(1, 10**12)):
        shown = Fraction(f"{float(number):.12g}")
        assert abs(shown - number) <= rounding(number)
    assert rounding(Fraction(10)) == half
