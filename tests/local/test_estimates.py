"""Estimates by enumeration of all outcomes of small panels; late tiers by enumeration of all neighbours."""

import math
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from tests.sampling.tree import law_of
from tiers.errors import InvalidParameterError, NoResidualError
from tiers.local import estimate as estimating
from tiers.local.channel import channel, reports, step
from tiers.local.estimate import estimate, half_width, interval, mixed_estimate, variance, variance_bound
from tiers.local.flips import Flips
from tiers.local.late import Between, draw_between, members_of
from tiers.local.local_hash import LocalHash, bucket_of
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.rates import Rates
from tiers.local.signal import Signal, keep
from tiers.local.subset import Subset
from tiers.real import exact, precision
from tiers.sampling.bernoulli import threshold

LAWS = [Subset(4, k, Signal.rational(Fraction(s))) for k, s in ((1, "1/2"), (2, "1/3"), (3, "1/4"))]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_estimates_are_unbiased_with_the_stated_variance(law: Subset) -> None:
    people, chances, sets = [0, 0, 2], channel(law), reports(law)
    first = np.zeros(4)
    second = np.zeros(4)
    for outcome in product(range(len(sets)), repeat=3):
        chance = float(math.prod(chances[value][at] for value, at in zip(people, outcome, strict=True)))
        covered = np.array([sum(sets[at] >> value & 1 for at in outcome) for value in range(4)])
        found = estimate(law.rates(), covered, 3)
        first += chance * found
        second += chance * found**2
    assert first == pytest.approx([2, 0, 1, 0], abs=1e-12)
    assert second - first**2 == pytest.approx([variance(law.rates(), n, 3) for n in (2, 0, 1, 0)], rel=1e-12)
    assert max(second - first**2) <= variance_bound(law.rates(), 3) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", ["0.000001", "1", "20", "36", "40", "50"])
@pytest.mark.parametrize(("domain", "size"), [(2, 1), (10, 1), (100, 50), (4096, 4095)])
def test_variances_are_exact_also_where_doubles_take_the_signal_for_0_or_1(
    epsilon: str, domain: int, size: int
) -> None:
    rates = Subset.paying(domain, size, Fraction(epsilon)).rates()
    with precision(400):
        grown, d, k = exact(Fraction(epsilon)).exp(), exact(domain), exact(size)
        whole = k * grown + d - k
        true, false = k * grown / whole, (k * grown * (k - 1) + (d - k) * k) / (whole * (d - 1))
        of_true, of_false = (float((t * (1 - t) / (true - false) ** 2).mid()) for t in (true, false))
    assert variance(rates, 5, 5) == pytest.approx(5 * of_true, rel=1e-12, abs=0)
    assert variance(rates, 0, 5) == pytest.approx(5 * of_false, rel=1e-12, abs=0)
    assert rates.variance(domain) == pytest.approx(of_true + (domain - 1) * of_false, rel=1e-12, abs=0)


@pytest.mark.parametrize("epsilon", ["0.000001", "1", "20", "36", "40", "50"])
@pytest.mark.parametrize("size", [2, 10, 4096])
def test_so_are_those_of_single_values_of_buckets_and_of_bits(epsilon: str, size: int) -> None:
    paid = Fraction(epsilon)
    with precision(400):
        grown = exact(paid).exp()
        rest = grown + size - 1
        due = {
            RandomizedResponse.paying(size, paid).rates(): (grown / rest, 1 / rest),
            LocalHash.paying(size, paid).rates(): (grown / rest, exact(Fraction(1, size))),
            Flips(paid).rates(): (grown / (grown + 1), 1 / (grown + 1)),
        }
        each = {rates: [float((p * (1 - p) / (t - f) ** 2).mid()) for p in (t, f)] for rates, (t, f) in due.items()}
    for rates, (of_true, of_false) in each.items():
        assert variance(rates, 5, 5) == pytest.approx(5 * of_true, rel=1e-12, abs=0)
        assert variance(rates, 0, 5) == pytest.approx(5 * of_false, rel=1e-12, abs=0)


def test_an_end_that_floats_put_beside_its_integer_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means of 0.4 and 0.6 are true counts of 30 and 70; in doubles the first comes out at 30.000000000000004."""
    monkeypatch.setattr(estimating, "beta", SimpleNamespace(ppf=lambda *_: 0.4, isf=lambda *_: 0.6))
    assert 100 * (0.4 - 0.25) / 0.5 > 30
    assert interval(Rates(0.75, 0.25, 0.5), 50, 100, Fraction(95, 100)) == (30, 70)


def test_a_coin_between_rational_signals_is_placed_where_it_is_dyadic() -> None:
    """No quotient of balls would ever tell on which side of 1/2 it is."""
    coin = keep(Signal.rational(Fraction(1, 3)), Signal.rational(Fraction(1, 6)))
    assert coin().is_exact()
    assert threshold(coin, 32) == 2**31


@pytest.mark.parametrize("buckets", [2, 3, 16, 500])
def test_the_rates_of_a_local_hash_are_those_of_its_law_and_its_hash_is_the_upper_half(buckets: int) -> None:
    law = LocalHash(buckets, Signal.rational(Fraction(1, 3)))
    kept, other = (float(law.probability(0, own)) for own in (0, 1))
    mean = float(Fraction(1, buckets))
    assert (law.rates().true, law.rates().false) == pytest.approx((kept, mean), rel=1e-12)
    assert law.rates().gap == pytest.approx(kept - mean, rel=1e-12)
    assert kept + (buckets - 1) * other == pytest.approx(1, rel=1e-12)
    assert bucket_of((1, 0), 2**32 * 7 + 2**31, buckets) == 7 % buckets


def sums(rates: Rates, have: int, people: int) -> np.ndarray:
    return np.convolve(
        stats.binom.pmf(range(have + 1), have, rates.true),
        stats.binom.pmf(range(people - have + 1), people - have, rates.false),
    )


@pytest.mark.parametrize("people", [1, 2, 7, 40])
@pytest.mark.parametrize("law", [*LAWS, Subset.paying(50, 9, Fraction(1))], ids=str)
@pytest.mark.parametrize("confidence", ["0.8", "0.95", "0.999"])
def test_guarantee_intervals_hold_for_every_count(law: Subset, people: int, confidence: str) -> None:
    """Over all data and all outcomes, exactly: the interval holds the truth at least as often as it says."""
    level, rates = Fraction(confidence), law.rates()
    ends = [interval(rates, covered, people, level) for covered in range(people + 1)]
    width = half_width([(rates, people)], level)
    found = estimate(rates, np.arange(people + 1), people)
    for have in range(people + 1):
        law_of_sum = sums(rates, have, people)
        holds = sum(p for p, (low, high) in zip(law_of_sum, ends, strict=True) if low <= have <= high)
        assert holds >= float(level) - 1e-12
        near = sum(p for p, value in zip(law_of_sum, found, strict=True) if abs(value - have) <= width)
        assert near >= float(level) - 1e-12


def test_paths_of_a_mixture_add_up() -> None:
    one, two = LAWS[0].rates(), LAWS[1].rates()
    parts = [(one, np.array([3, 1]), 5), (two, np.array([4, 4]), 6)]
    assert mixed_estimate(parts) == pytest.approx(estimate(*parts[0]) + estimate(*parts[1]))
    with pytest.raises(InvalidParameterError, match="paths"):
        mixed_estimate([])


@pytest.mark.parametrize(("covered", "people"), [([0], 0), ([-1], 3), ([4], 3), ([], 3), ([1], True), ([1], 2.0)])
def test_panels_that_have_no_estimate_are_refused(covered: list[int], people: int) -> None:
    with pytest.raises(InvalidParameterError):
        estimate(LAWS[0].rates(), np.array(covered, np.int64), people)


@pytest.mark.parametrize("confidence", ["1/2", "0", "1", "2"])
def test_confidences_out_of_range_are_refused(confidence: str) -> None:
    with pytest.raises(InvalidParameterError, match="confidence"):
        interval(LAWS[0].rates(), 1, 3, Fraction(confidence))


NESTED = [
    [Subset(5, k, Signal.rational(Fraction(s))) for k, s in ((1, "1/2"), (2, "1/3"), (3, "1/4"))],
    [Subset(5, k, Signal.rational(Fraction(s))) for k, s in ((2, "2/3"), (2, "1/2"), (2, "1/5"))],
    [Subset(4, k, Signal.rational(Fraction(s))) for k, s in ((1, "2/3"), (3, "2/3"), (3, "1/5"))],
]


@pytest.mark.parametrize("laws", NESTED, ids=str)
def test_a_late_tier_has_the_law_it_would_have_had(laws: list[Subset]) -> None:
    upper, middle, lower = laws
    first, second, both = step(upper, middle), step(middle, lower), step(upper, lower)
    for (a, above), (c, below) in product(enumerate(reports(upper)), enumerate(reports(lower))):
        between = Between(upper, middle, lower, above=above, below=below)
        for b, report in enumerate(reports(middle)):
            assert between.probability(report) == first[a][b] * second[b][c] / both[a][c]


@pytest.mark.parametrize("laws", NESTED, ids=str)
def test_a_late_draw_has_that_law(laws: list[Subset], monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of 3 bits in place of 64: every path of the sampler, exactly."""
    monkeypatch.setattr("tiers.local.late._WORD", 3)
    upper, middle, lower = laws
    for above, below in ((reports(upper)[0], reports(lower)[0]), (reports(upper)[0], reports(lower)[-1])):
        between = Between(upper, middle, lower, above=above, below=below)
        decided, undecided = law_of(lambda script: draw_between(between, script.tail(0)), 3, Fraction(1, 2**14))  # noqa: B023
        assert undecided < Fraction(1, 3)
        for report in reports(middle):
            mass = decided.get(report, Fraction(0))
            assert mass <= between.probability(report) <= mass + undecided


def test_what_cannot_stand_between_is_refused() -> None:
    upper, middle, lower = LAWS
    with pytest.raises(NoResidualError):
        Between(middle, upper, lower, above=3, below=7)
    for above, below in ((3, 7), (1, 1), (16, 7), (-1, 7), (True, 7), ("1", 7)):
        with pytest.raises(InvalidParameterError, match="report"):
            Between(upper, middle, lower, above=above, below=below)  # type: ignore[arg-type]
    assert members_of(0) == []
