"""Late tiers beside one of the same signal: that step surely keeps, so some of the four laws have no weight at all."""

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest

from tests.local.test_late_columns import KEY, neighbours, number, scalar
from tiers.errors import InvalidParameterError
from tiers.local.columns.between import SetsBetween
from tiers.local.late import Between
from tiers.local.signal import Signal
from tiers.local.subset import Subset
from tiers.real import to_float

D = 6


def signals(kind: str, *places: int) -> list[Signal]:
    paid = [Signal.paying(Fraction(e), coverage=Fraction(1, D)) for e in (3, 2, 1)]
    known = [Signal.rational(Fraction(s)) for s in ("1/2", "1/3", "1/5")]
    return [(paid if kind == "paid" else known)[place] for place in places]


def step(upper: Subset, lower: Subset, one: int, other: int) -> float:
    kept = to_float(lower.signal.ball) / to_float(upper.signal.ball)
    d, a, c = D, upper.subset_size, lower.subset_size
    return kept * (one & ~other == 0) / comb(d - a, c - a) + (1 - kept) / comb(d, c)


@pytest.mark.parametrize("kind", ["paid", "rational"])
@pytest.mark.parametrize("places", [(0, 0, 1), (0, 1, 1), (0, 1, 2), (1, 1, 1)])
def test_the_law_is_the_conditional_one_by_enumeration_and_columns_draw_it(kind: str, places: tuple[int, ...]) -> None:
    laws = [Subset(D, k, signal) for k, signal in zip((1, 2, 4), signals(kind, *places), strict=True)]
    sets = [[sum(1 << v for v in one) for one in combinations(range(D), k)] for k in (1, 2, 4)]
    for above, below in ((0b1, 0b1111), (0b1, 0b111100)):
        if above & ~below and len(set(places)) == 1:
            with pytest.raises(InvalidParameterError, match="holds the report above"):
                Between(*laws, above=above, below=below)
            continue
        law = Between(*laws, above=above, below=below)
        ends = [0.0, *(to_float(end) for end in law.cumulated()), 1.0]
        weights = np.diff(ends)
        exact = np.array([step(laws[0], laws[1], above, one) * step(laws[1], laws[2], one, below) for one in sets[1]])
        mixed = np.zeros(len(sets[1]))
        for weight, (inner, outer) in zip(weights, law.ends(), strict=True):
            fits = np.array([inner & ~one == 0 and one & ~outer == 0 for one in sets[1]], float)
            mixed += weight * fits / max(fits.sum(), 1)
        assert mixed == pytest.approx(exact / exact.sum(), abs=1e-14)
    shown = neighbours(D, 1, 4, 400)
    if len(set(places)) == 1:
        shown = shown[0][::2], shown[1][::2]
    found = SetsBetween(*laws).apply(KEY, 0, *shown)
    assert [number(row) for row in found] == scalar(laws, 0, *shown)


def test_a_pair_that_two_sure_steps_cannot_give_is_refused_by_columns() -> None:
    kernel = SetsBetween(*(Subset(D, k, signal) for k, signal in zip((1, 2, 4), signals("paid", 1, 1, 1), strict=True)))
    above: Any = np.zeros((1, D), np.bool_)
    below = above.copy()
    above[0, 0], below[0, 2:] = True, True
    with pytest.raises(InvalidParameterError, match="holds the report above"):
        kernel.apply(KEY, 0, above, below)
