"""Changes far wider than a table: where masses are flat, no better tail may be overlooked, and no search may run on."""

from fractions import Fraction

import pytest
from flint import arb

from tiers.budget import Ladder
from tiers.chain import plan
from tiers.identity import TierLaw
from tiers.noise.composition import maximal_changes
from tiers.noise.gaussian import Gaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

F = Fraction
MICRO = F(1, 10**6)
SIZES = [1, 7, 10**6, 2**40, 2**55, 2**62]


def closed_delta(rate: Fraction, shift: int, epsilon: Fraction) -> arb:
    """Return max over −d < t ≤ 0 of P(X ≥ t) − e^ε·P(X ≥ t + d) = 1 − (p^(1−t) + e^ε·p^(t+d))/(1 + p), in balls.

    Both powers are equal at t = (1 − d + ε/rate)/2, so the best integer is next to it; from t = 1 on the value falls.
    """
    with precision(1024):
        p, best = (-exact(rate)).exp(), arb(0)
        near = (1 - shift + epsilon / rate) / 2
        for t in {min(max(round(near) + step, 1 - shift), 0) for step in (-1, 0, 1)}:
            lost = (-exact(rate * (1 - t))).exp() + exact(epsilon - rate * (t + shift)).exp()
            gain = 1 - lost / (1 + p)
            best = gain if gain > best else best
        return best


@pytest.mark.parametrize("shift", SIZES)
@pytest.mark.parametrize(
    ("epsilon", "total"), [(F(50), F("50.000002")), (F(0), F(1, 10**6)), (F(1), F(3)), (F(1, 10**6), F(1, 10**5))]
)
def test_guarantee_delta_of_a_wide_geometric_change_is_the_closed_form(
    shift: int, epsilon: Fraction, total: Fraction
) -> None:
    rate = total / shift
    ours = TwoSidedGeometric(rate).delta(epsilon, ChangeSet.scalar(shift))
    wanted = closed_delta(rate, shift, epsilon)
    with precision(1024):
        assert arb(ours) >= wanted
        assert arb(ours) <= wanted * (1 + arb(10) ** -11)


@pytest.mark.parametrize("shift", SIZES)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(F(50), MICRO), (F(1, 10**6), MICRO), (F(2), F(1, 3)), (F(1), F(1, 10**15))]
)
def test_guarantee_epsilon_of_a_wide_geometric_change_holds_and_is_least(
    shift: int, epsilon: Fraction, delta: Fraction
) -> None:
    change = ChangeSet.scalar(shift)
    law = TwoSidedGeometric.at(epsilon, change, delta)
    found = F(law.epsilon_at(delta, change))
    less = found * (1 - F(1, 10**10))
    with precision(1024):
        assert closed_delta(law.rate, shift, epsilon) <= exact(delta)
        assert closed_delta(law.rate, shift, found) <= exact(delta)
        assert not closed_delta(law.rate, shift, less) <= exact(delta)
    assert TierLaw(law, change, delta).epsilon() == epsilon


@pytest.mark.parametrize("shift", [10**7, 10**12])
def test_wide_skellam_is_its_gaussian(shift: int) -> None:
    law, normal = Skellam(F(shift) ** 2 * 8), Gaussian(F(shift) ** 2 * 16)
    for epsilon in (F(0), F(1, 10), F(1)):
        ours, wanted = (each.delta(epsilon, ChangeSet.scalar(shift)) for each in (law, normal))
        assert ours == pytest.approx(wanted, rel=1e-6)
    ours, wanted = (each.epsilon_at(MICRO, ChangeSet.scalar(shift)) for each in (law, normal))
    assert ours == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("delta", ["0", "0.000001"])
@pytest.mark.parametrize(
    "change", [ChangeSet.scalar(10**5), ChangeSet.scalar(2**62), ChangeSet(1000, 2**31, 2**40)], ids=str
)
def test_huge_sensitivities_are_planned_at_the_ends_of_the_range(change: ChangeSet, delta: str) -> None:
    chain = plan(Ladder.parse(["50", "0.000001"]), change, "auto", delta)
    assert [tier.law.noise.family for tier in chain.tiers] == ["tsg", "tsg"]
    assert [tier.epsilon for tier in chain.tiers] == [50, MICRO]
    for tier, epsilon in zip(chain.tiers, (50, MICRO), strict=True):
        pure = TwoSidedGeometric.at(F(epsilon), change)
        assert pure.variance() / 10 <= tier.variance <= pure.variance()


def test_a_confidence_that_doubles_cannot_tell_is_left_to_balls() -> None:
    law = MultiScaleDiscreteLaplace(2, F(1))
    for digits in (10, 12, 20, 400):
        miss = F(1, 10**digits)
        h = law.half_width(1 - miss)
        with precision(4096):
            assert 2 * law.tail_ball(h + 1) <= exact(miss)
            assert not 2 * law.tail_ball(h) <= exact(miss)


def test_as_many_entries_as_are_composed_are_split_without_recursion() -> None:
    assert maximal_changes(ChangeSet(1024, 1, 1024)) == ((1,) * 1024,)
    assert maximal_changes(ChangeSet(3, 3, 6)) == ((3, 3), (3, 2, 1), (2, 2, 2))
