"""Bars of sums over a panel's reports: a report's variance by enumeration, and exact tails beyond them."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from app.panels.mechanism import plan_of
from app.panels.plans.base import half_width_of
from app.panels.plans.sets import set_span, set_variance
from tiers.budget import Ladder
from tiers.local.signal import Signal
from tiers.local.subset import Subset

WEIGHTS = {
    "a value": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "a range": [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    "all": [1.0] * 7,
    "mixed": [3.0, -1.0, 0.5, 0.0, 2.0, -4.0, 1.0],
}


def law_of(size: int, signal: Fraction, domain: int = 7) -> Subset:
    return Subset(domain, size, Signal.rational(signal))


def sums(law: Subset, value: int, weights: list[float]) -> dict[float, float]:
    """What one report adds to the estimate, each with its chance: every set, by the law itself."""
    d, k, s, gap = law.domain_size, law.subset_size, float(law.signal.value()), law.rates().gap
    found = dict[float, float]()
    for held in combinations(range(d), k):
        chance = (1 - s) / math.comb(d, k) + (s / math.comb(d - 1, k - 1) if value in held else 0)
        moved = round(sum(weights[each] for each in held) / gap, 12)
        found[moved] = found.get(moved, 0.0) + chance
    assert math.fsum(found.values()) == pytest.approx(1)
    return found


def variance(law: dict[float, float]) -> float:
    mean = math.fsum(value * chance for value, chance in law.items())
    return math.fsum(chance * (value - mean) ** 2 for value, chance in law.items())


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("signal", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("name", WEIGHTS)
def test_the_variance_is_that_of_the_true_value_of_which_a_report_says_least(
    size: int, signal: Fraction, name: str
) -> None:
    law, weights = law_of(size, signal), WEIGHTS[name]
    each = [variance(sums(law, value, weights)) for value in range(7)]
    assert set_variance(law, np.array(weights)) == pytest.approx(max(each), rel=1e-9, abs=1e-9)
    spread = max(max(found) - min(found) for found in (sums(law, value, weights) for value in range(7)))
    assert spread <= set_span(law, np.array(weights)) * (1 + 1e-9)


@pytest.mark.parametrize("moved", [1e6, 1e8, 1e12])
def test_what_is_added_to_every_weight_changes_no_variance(moved: float) -> None:
    law, weights = law_of(3, Fraction(1, 2)), np.array(WEIGHTS["mixed"])
    assert set_variance(law, weights + moved) == pytest.approx(set_variance(law, weights), rel=1e-3)


def tail(law: dict[float, float], people: int, beyond: float) -> float:
    """P(|S − E S| ≥ x) of the sum of so many reports, by convolution on the grid of what one may add."""
    values = sorted(law)
    steps = [round((value - values[0]) / (values[1] - values[0])) for value in values]
    one = np.zeros(max(steps) + 1)
    for step, value in zip(steps, values, strict=True):
        one[step] += law[value]
    whole = np.ones(1)
    for _ in range(people):
        whole = np.convolve(whole, one)
    places = np.arange(len(whole)) * (values[1] - values[0])
    off = np.abs(places - (whole * places).sum() / whole.sum())
    return float(whole[off >= beyond * (1 - 1e-12)].sum())


@pytest.mark.parametrize(("size", "signal"), [(2, Fraction(1, 2)), (3, Fraction(1, 4)), (6, Fraction(1, 3))])
@pytest.mark.parametrize("people", [5, 60, 400])
@pytest.mark.parametrize("miss", [Fraction(1, 20), Fraction(1, 100)])
def test_no_sum_of_reports_misses_by_its_bar_oftener_than_is_stated(
    size: int, signal: Fraction, people: int, miss: Fraction
) -> None:
    law, weights = law_of(size, signal), np.array(WEIGHTS["a range"])
    width = half_width_of([(set_span(law, weights), people)], [set_variance(law, weights)], miss)
    found = [sums(law, value, list(weights)) for value in (0, 1)]
    assert max(tail(each, people, width) for each in found) <= float(miss)
    if people == 400 and size < 4:  # a set of all but one has two sums, of which spans tell as much
        assert width < half_width_of([(set_span(law, weights), people)], miss=miss), "the variance is what counts here"
        assert max(tail(each, people, width / 2) for each in found) > float(miss), (
            "and the bar is no wider than it must"
        )


def test_spans_and_variances_of_several_kinds_of_reports_add_up() -> None:
    few = half_width_of([(1.0, 100), (3.0, 50)], [0.01, 0.5])
    logs = math.log(40)
    assert few == pytest.approx(logs + math.sqrt(logs**2 + 2 * logs * (100 * 0.01 + 50 * 0.5)))
    assert half_width_of([(1.0, 4)], [0.25]) == half_width_of([(1.0, 4)]) == pytest.approx(math.sqrt(2 * logs))
    assert half_width_of([], []) == 0


def test_a_range_of_many_reports_has_a_bar_of_its_size() -> None:
    """By spans alone a report may move half of all values at once, which none does."""
    plan = plan_of("subset", 40, Ladder.parse(["0.5"]))
    half = [1.0] * 20 + [0.0] * 20
    width = plan.linear(0, np.full(40, 10), 10_000, half)[1]
    assert width < half_width_of([(set_span(plan.laws[0], np.array(half)), 10_000)]) / 4  # type: ignore[arg-type]
