"""What each family promises, against brute force over outputs and over change vectors."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tiers.errors import InvalidParameterError
from tiers.guarantee import ZCDP, ApproxDP, LocalDP, MetricLDP, PureDP, hockey_stick
from tiers.noise.composition import Release, maximal_changes
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.gaussian import Gaussian
from tiers.noise.laplace import Laplace
from tiers.noise.law import NoiseLaw
from tiers.noise.losses import Losses
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.pure import pure_renyi, scales_crossed
from tiers.noise.renyi import concentrated
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

F = Fraction
ONE = ChangeSet.scalar(1)


def masses(law: NoiseLaw, reach: int, shift: int = 0) -> np.ndarray:
    return np.array([law.pmf(k - shift) for k in range(-reach, reach + 1)])


def brute(law: NoiseLaw, epsilon: float, shift: int, reach: int = 300) -> float:
    both = (masses(law, reach), masses(law, reach, shift))
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in (both, both[::-1]))


def largest_loss(law: NoiseLaw, shift: int, reach: int = 400) -> float:
    return max(law.log_pmf(k) - law.log_pmf(k - shift) for k in range(-reach, reach + 1))


@given(st.fractions(F(1, 10), F(4)), st.integers(1, 5), st.fractions(F(0), F(3)))
@settings(max_examples=30, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_guarantee_two_sided_geometric_delta_is_exact(rate: Fraction, shift: int, epsilon: Fraction) -> None:
    law = TwoSidedGeometric(rate.limit_denominator(100))
    epsilon = epsilon.limit_denominator(100)
    ours = law.delta(epsilon, ChangeSet.scalar(shift))
    assert abs(ours - brute(law, float(epsilon), shift, 400)) < 1e-12
    assert (ours == 0.0) == (epsilon >= law.epsilon(ChangeSet.scalar(shift)))


def test_two_sided_geometric_on_a_vector_composes_below_its_pure_epsilon() -> None:
    law, pair = TwoSidedGeometric(F(1)), ChangeSet(bins=2, step=1, total=2)
    p, q = masses(law, 60), masses(law, 60, 1)
    for epsilon in (0.0, 0.5, 1.0, 1.7):
        wanted = np.maximum(np.outer(p, p) - math.exp(epsilon) * np.outer(q, q), 0).sum()
        ours = law.delta(Fraction(epsilon), pair)
        assert wanted * (1 - 1e-12) <= ours <= wanted * (1 + 1e-3)
    assert law.delta(F(2), pair) == 0.0
    assert law.epsilon(pair) == 2
    assert law.epsilon_at(F(0), pair) == 2.0
    assert law.epsilon_at(F(1, 10**9), pair) <= 2.0


@pytest.mark.parametrize("alpha", [2, 3, F(3, 2), 17])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_two_sided_geometric_renyi_is_the_sum(alpha: Fraction, shift: int) -> None:
    law = TwoSidedGeometric(F(2, 3))
    order = float(alpha)
    terms = [order * law.log_pmf(k) + (1 - order) * law.log_pmf(k - shift) for k in range(-200, 400)]
    wanted = math.log(math.fsum(math.exp(term) for term in terms)) / (order - 1)
    assert abs(law.rdp(alpha, ChangeSet.scalar(shift)) - wanted) < 1e-12
    assert wanted <= pure_renyi(law.epsilon(ChangeSet.scalar(shift)), alpha) * (1 + 1e-12)


def test_randomised_response_meets_the_pure_renyi_bound() -> None:
    p = math.e / (1 + math.e)
    for alpha in (2, 5, 40):
        rr = math.log(p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)) / (alpha - 1)
        assert abs(pure_renyi(F(1), alpha) - rr) < 1e-12
        assert pure_renyi(F(1), alpha) <= alpha * 0.5


def test_guarantee_multi_scale_loss_is_one_rate_a_started_scale() -> None:
    law = MultiScaleDiscreteLaplace(2, F(4))
    assert 3.98 < largest_loss(law, 1) < 3.99
    assert abs(largest_loss(law, 2) - 4) < 1e-9
    for other in (MultiScaleDiscreteLaplace(3, F(2)), MultiScaleDiscreteLaplace(4, F(1))):
        for shift in range(1, 10):
            cost = float(other.rate) * math.ceil(shift / other.scales)
            assert largest_loss(other, shift) <= cost + 1e-9


def test_multi_scale_shares_its_budget_among_the_bins() -> None:
    counts = ChangeSet(bins=3, step=5, total=15)
    law = MultiScaleDiscreteLaplace.at(F(3), counts)
    assert law == MultiScaleDiscreteLaplace(5, F(1))
    assert law.epsilon(counts) == 3
    assert MultiScaleDiscreteLaplace.at(F(3), ChangeSet.scalar(5)).rate == 3
    with pytest.raises(InvalidParameterError, match="one entry"):
        law.delta(F(1), counts)


@pytest.mark.parametrize(
    ("epsilon", "scales", "variance"),
    [(4, 2, "0.19005457459517774813"), (4, 5, "2.0906003205469552295"), (1, 2, "9.2067359420779231895")],
)
def test_multi_scale_variance_is_the_reference(epsilon: int, scales: int, variance: str) -> None:
    ours = MultiScaleDiscreteLaplace.at(F(epsilon), ChangeSet.scalar(scales)).variance()
    assert abs(ours / float(variance) - 1) < 1e-14


@pytest.mark.parametrize("law", [MultiScaleDiscreteLaplace(2, F(2)), Staircase(3, 1, F(1)), DiscreteGaussian(F(2))])
@pytest.mark.parametrize("epsilon", [F(0), F(1, 2), F(9, 10)])
def test_scalar_delta_is_the_worst_shift(law: NoiseLaw, epsilon: Fraction) -> None:
    wanted = max(brute(law, float(epsilon), shift) for shift in (1, 2, 3))
    ours = law.delta(epsilon, ChangeSet.scalar(3))
    assert abs(ours - wanted) < 1e-12


def test_guarantee_staircase_is_pure_and_least_in_variance() -> None:
    for epsilon, step in ((F(2), 3), (F(1), 5), (F(4), 4)):
        law = Staircase.at(epsilon, ChangeSet.scalar(step))
        assert max(largest_loss(law, shift) for shift in range(1, step + 1)) <= float(epsilon) + 1e-9
        assert law.delta(epsilon, ChangeSet.scalar(step)) == 0.0
        others = [Staircase(step, inner, epsilon).variance() for inner in range(1, step + 1)]
        assert law.variance() == min(others)
        geometric = TwoSidedGeometric.at(epsilon, ChangeSet.scalar(step)).variance()
        assert law.variance() <= geometric


def test_guarantee_discrete_gaussian_renyi_bound_holds() -> None:
    law = DiscreteGaussian(F(3, 2))
    for shift, alpha in ((1, 2), (2, 5), (3, 3)):
        terms = [alpha * law.log_pmf(k) + (1 - alpha) * law.log_pmf(k - shift) for k in range(-80, 80)]
        exact_value = math.log(math.fsum(map(math.exp, terms))) / (alpha - 1)
        assert exact_value <= law.rdp(alpha, ChangeSet.scalar(shift)) * (1 + 1e-12)
    assert law.rho(ChangeSet(bins=3, step=2, total=5)) == F(4 + 4 + 1) / (2 * F(9, 4))


def test_guarantee_gaussian_delta_is_balle_and_wangs() -> None:
    law, mu = Gaussian(F(4)), 0.5
    phi = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    wanted = phi(mu / 2 - 1 / mu) - math.e * phi(-mu / 2 - 1 / mu)
    assert abs(law.delta(F(1), ONE) / wanted - 1) < 1e-9
    assert law.rho(ONE) == F(1, 8)
    assert law.rdp(3, ONE) == 0.375
    calibrated = Gaussian.at(F(1), F(1, 10**6), ONE)
    assert calibrated.delta(F(1), ONE) <= 1e-6
    assert Gaussian(calibrated.sigma_squared * (1 - F(1, 10**10))).delta(F(1), ONE) > 1e-6
    assert calibrated.epsilon_at(F(1, 10**6), ONE) <= 1.0 + 1e-10


def test_guarantee_laplace_delta_is_the_integral() -> None:
    law = Laplace(F(2))
    x = np.linspace(-80, 80, 1_600_001)
    density = np.exp(-np.abs(x) / 2) / 4
    moved = np.exp(-np.abs(x - 3) / 2) / 4
    for epsilon in (0.0, 0.4, 1.0):
        wanted = np.maximum(density - math.exp(epsilon) * moved, 0).sum() * 1e-4
        assert abs(law.delta(Fraction(epsilon), ChangeSet.scalar(3)) - wanted) < 1e-6
    assert law.delta(F(3, 2), ChangeSet.scalar(3)) == 0.0


@given(st.integers(1, 4), st.integers(1, 5), st.data())
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_worst_vectors_are_found_by_enumeration(bins: int, step: int, data: st.DataObject) -> None:
    total = data.draw(st.integers(step, bins * step))
    changes, scale = ChangeSet(bins, step, total), data.draw(st.integers(1, 6))
    every = [d for d in product(range(step + 1), repeat=bins) if sum(d) <= total]
    assert scales_crossed(changes, scale) == max(sum(-(-part // scale) for part in d) for d in every)
    full = {tuple(sorted((x for x in d if x), reverse=True)) for d in every if sum(d) == total}
    assert set(maximal_changes(changes, 10**6)) == full
    squares = sum(count * size * size for size, count in concentrated(changes))
    assert squares == max(sum(part * part for part in d) for d in every)


def test_too_many_change_vectors_are_refused_not_sampled() -> None:
    with pytest.raises(InvalidParameterError, match="maximal change vectors"):
        maximal_changes(ChangeSet(bins=50, step=1000, total=4000))
    with pytest.raises(InvalidParameterError, match="touched bins"):
        maximal_changes(ChangeSet(bins=10**6, step=1, total=10**6))


def test_hockey_stick_takes_the_worse_direction() -> None:
    table = LatticeTable.of({0: F(1, 2), 1: F(1, 4), 2: F(1, 4)})
    for epsilon in (F(0), F(1, 2)):
        gamma = math.exp(float(epsilon))
        p = [0.0, 0.5, 0.25, 0.25, 0.0]
        one = sum(max(p[i] - gamma * p[i - 1], 0) for i in range(1, 5))
        other = sum(max(p[i] - gamma * p[i + 1], 0) for i in range(4))
        assert abs(hockey_stick(table, 1, epsilon) - max(one, other)) < 1e-12
    skewed = LatticeTable.of({0: F(7, 10), 1: F(1, 10), 2: F(2, 10)})
    for shift in (1, -1):
        assert abs(hockey_stick(skewed, shift, F(1)) - 0.7) < 1e-12
    for shift, epsilon in ((0, F(1)), (True, F(1)), (1, F(-1)), (1, 0.5)):
        with pytest.raises(InvalidParameterError):
            hockey_stick(table, shift, epsilon)  # type: ignore[arg-type]


def test_guarantees_are_checked_values() -> None:
    assert PureDP(F(1)).zcdp() == ZCDP(F(1, 2))
    assert PureDP(F(1)).approx() == ApproxDP(F(1), F(0))
    slack = ApproxDP(F(1), F(1, 10**6)).with_slack(F(1, 10**9))
    assert 0 <= float(slack.delta) - (1e-6 + (1 + math.e) * 1e-9) < 1e-20
    for make in (PureDP, ZCDP, LocalDP):
        for value in (F(-1), 1.0, float("nan"), None):
            with pytest.raises(InvalidParameterError):
                make(value)
    with pytest.raises(InvalidParameterError):
        ApproxDP(F(1), F(1))
    with pytest.raises(InvalidParameterError):
        MetricLDP(F(1), F(-1))


def test_a_loss_that_may_be_infinite_has_no_epsilon() -> None:
    still = Losses(np.zeros(1), np.ones(1), 0.0)
    law = Release(still, Losses(np.zeros(1), np.array([0.5]), 0.5))
    assert law.epsilon(F(1, 4)) == math.inf
    assert math.isclose(law.delta(5.0), 0.5, rel_tol=1e-11)


@pytest.mark.parametrize("epsilon", [-1, F(-1), 0.5, float("nan"), float("inf"), None, "1"])
@pytest.mark.parametrize(
    "law",
    [
        TwoSidedGeometric(F(1)),
        MultiScaleDiscreteLaplace(2, F(1)),
        Staircase(2, 1, F(1)),
        DiscreteGaussian(F(1)),
        Laplace(F(1)),
        Gaussian(F(1)),
    ],
    ids=lambda law: law.family,
)
def test_bad_losses_are_named(law: NoiseLaw, epsilon: object) -> None:
    with pytest.raises(InvalidParameterError):
        law.delta(epsilon, ONE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "law",
    [
        TwoSidedGeometric(F(2, 3)),
        MultiScaleDiscreteLaplace(3, F(2)),
        Staircase(3, 1, F(2)),
        DiscreteGaussian(F(2)),
        Skellam(F(3)),
        Laplace(F(3, 2)),
        Gaussian(F(4)),
    ],
    ids=lambda law: law.family,
)
@pytest.mark.parametrize("delta", [F(1, 3), F(1, 20), F(1, 10**5)])
def test_guarantee_every_family_has_its_least_epsilon_at_a_delta(law: NoiseLaw, delta: Fraction) -> None:
    change = ChangeSet.scalar(3)
    found = law.epsilon_at(delta, change)
    assert law.delta(F(found), change) <= delta * (1 + F(1, 10**10))
    if found:
        assert law.delta(F(found) * (1 - F(1, 10**9)), change) > delta
    assert law.delta(F(0), change) >= law.delta(F(1), change)


@pytest.mark.parametrize("law", [MultiScaleDiscreteLaplace(3, F(2)), Staircase(3, 1, F(2)), Laplace(F(3, 2))])
def test_pure_families_keep_their_epsilon_on_vectors_and_without_delta(law: Laplace) -> None:
    pair = ChangeSet(2, 3, 5)
    for change, delta in ((pair, F(1, 10)), (ONE, F(0)), (pair, F(0))):
        pure = law.epsilon(change)
        assert pure <= F(law.epsilon_at(delta, change)) <= pure * (1 + F(1, 10**15))
    for bad in (F(1), F(-1), 0.1):
        with pytest.raises(InvalidParameterError):
            law.epsilon_at(bad, ONE)  # type: ignore[arg-type]


@pytest.mark.parametrize("law", [DiscreteGaussian(F(2)), Gaussian(F(4)), Skellam(F(3))])
def test_no_gaussian_is_pure_and_the_refusal_tells_its_delta(law: Gaussian) -> None:
    with pytest.raises(InvalidParameterError, match=f"{law.delta(F(1), ONE):.6g}"):
        law.epsilon(ONE)
