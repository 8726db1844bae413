"""The Gaussian curve against 60 digits: never on the unsafe side, never off by more than 10⁻¹²."""

import math
import random
from fractions import Fraction

import pytest

from tests.accounting import oracles
from tiers.accounting import gaussian
from tiers.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from tiers.errors import InvalidParameterError
from tiers.noise.gaussian import Gaussian
from tiers.sensitivity import ChangeSet

PRECISE = 1e-12


def random_points(seed: int, count: int) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    points = []
    for place in range(count):
        delta = 10 ** (rng.uniform(-300, -0.01) if place % 5 == 0 else rng.uniform(-20, -0.3))
        points.append((10 ** rng.uniform(-4.5, 1.3), delta))
    return points


def test_epsilon_is_safe_and_precise_at_500_random_points() -> None:
    for mu, delta in random_points(7, 500):
        epsilon = gaussian_epsilon(mu, delta)
        assert oracles.gaussian_delta(mu, epsilon) <= delta, (mu, delta)
        if epsilon == 0:
            continue
        exact = oracles.gaussian_epsilon(mu, delta, epsilon)
        assert 0 <= epsilon - exact <= PRECISE * exact, (mu, delta)


def test_delta_is_safe_and_precise_at_500_random_points() -> None:
    rng = random.Random(11)
    for _ in range(500):
        mu, reach = 10 ** rng.uniform(-4.5, 1.3), rng.uniform(0, 12)
        epsilon = rng.choice([0.0, mu * reach, mu * reach + mu * mu / 2])
        exact = oracles.gaussian_delta(mu, epsilon)
        assert exact <= gaussian_delta(mu, epsilon) <= exact * (1 + PRECISE), (mu, epsilon)


@pytest.mark.parametrize("mu", [0.01, 0.0499, 0.05, 0.0501, 0.1, 0.149, 0.151, 0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-9, 1e-12])
def test_fast_and_slow_road_agree_where_they_meet(mu: float, delta: float) -> None:
    fast, slow = gaussian_epsilon(mu, delta), gaussian._epsilon_by_balls(mu, delta)
    assert math.isclose(fast, slow, rel_tol=2e-12, abs_tol=0.0)
    if fast > 0:
        assert math.isclose(gaussian_delta(mu, fast), gaussian._delta_by_balls(mu, fast), rel_tol=2e-12, abs_tol=0.0)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.2, 0.5), (1.0, 0.0), (1.0, 2.0), (1.4142, 5.0), (3.0, 9.0)])
def test_delta_is_the_hockey_stick_divergence(mu: float, epsilon: float) -> None:
    wanted = oracles.gaussian_delta_by_quadrature(mu, epsilon)
    assert math.isclose(gaussian_delta(mu, epsilon), wanted, rel_tol=1e-12)


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 1e-3, 0.3, 1.0, 10.0, 1e3, 1e6])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-6, 0.5, 0.999, 1 - 2**-53])
def test_extremes_stay_finite_safe_and_never_negative(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert 0 <= epsilon < math.inf
    assert oracles.gaussian_delta(mu, epsilon) <= delta
    if epsilon > 0:
        assert oracles.gaussian_delta(mu, epsilon * (1 - 3e-12)) > delta


def test_small_widths_keep_their_promise_just_below_the_change_of_method() -> None:
    """Here the slope of a Newton step is itself a truncated series: its error is inside the margin, or this fails."""
    rng = random.Random(5)
    for _ in range(500):
        mu, delta = rng.uniform(0.04, 0.05), 10 ** rng.uniform(-12, -1.9)
        assert oracles.gaussian_delta(mu, gaussian_epsilon(mu, delta)) <= delta, (mu, delta)


def test_delta_close_to_one_gives_zero_not_less() -> None:
    assert gaussian_epsilon(1.0, 1 - 2**-53) == 0.0
    assert gaussian_epsilon(1.0, 0.3829249226) == 0.0
    assert 0 < gaussian_epsilon(1.0, 0.3829249225) < 1e-9


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(1.0, 1e300), (1e-12, 1.0), (1e6, 1e300), (1e6, 0.0), (1e6, 5e11), (30.0, 0.0)]
)
def test_delta_stays_between_its_least_value_and_one(mu: float, epsilon: float) -> None:
    assert 1e-300 <= gaussian_delta(mu, epsilon) <= 1
    assert gaussian_delta(mu, epsilon) >= (1e-300 if epsilon > 1e12 else oracles.gaussian_delta(mu, epsilon))


def test_exact_numbers_are_taken_to_their_safe_side() -> None:
    third = Fraction(1, 3)
    assert gaussian_epsilon(third, Fraction(1, 10**6)) == gaussian_epsilon(math.nextafter(1 / 3, 1), 1e-6)
    assert gaussian_epsilon(1, 1 - Fraction(1, 2**60)) == 0.0
    for bad in ("1", None, [1.0]):
        with pytest.raises(InvalidParameterError, match="mu: expected"):
            gaussian_epsilon(bad, 1e-6)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameterError, match="delta: expected"):
            gaussian_epsilon(1.0, bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameterError, match="epsilon: expected"):
            gaussian_delta(1.0, bad)  # type: ignore[arg-type]


def test_the_continuous_law_tells_the_same_curve() -> None:
    law, scalar = Gaussian(Fraction(4)), ChangeSet.scalar(1)
    mu = gaussian_mu([law.rho(scalar)])
    for tenth in (1, 5, 20, 33):
        epsilon = Fraction(tenth, 10)
        assert math.isclose(gaussian_delta(mu, float(epsilon)), law.delta(epsilon, scalar), rel_tol=3e-12)


def test_epsilon_falls_in_delta_and_rises_in_mu() -> None:
    deltas = [gaussian_epsilon(0.7, 10**-power) for power in range(1, 300, 7)]
    widths = [gaussian_epsilon(1.02**place / 50, 1e-7) for place in range(300)]
    assert deltas == sorted(deltas)
    assert widths == sorted(widths)


def test_steps_compose_by_the_sum_of_rho() -> None:
    steps = [Fraction(1, 2 * n * n) for n in range(5, 31)]  # σ = 5 … 30
    mu = gaussian_mu(steps)
    assert mu == gaussian_mu([sum(steps, Fraction(0))])
    assert math.isclose(mu, math.sqrt(sum(1 / n**2 for n in range(5, 31))), rel_tol=1e-15)
    assert Fraction(mu) ** 2 >= 2 * sum(steps)
    assert gaussian_mu(steps, 3) == gaussian_mu([9 * step for step in steps])
    assert round(gaussian_epsilon(gaussian_mu([Fraction(1, 10)]), 1e-5), 5) == 1.76006


@pytest.mark.parametrize("mu", [0, -1.0, math.nan, math.inf, 1e-13, 1e7])
def test_a_width_outside_its_range_is_refused(mu: float) -> None:
    with pytest.raises(InvalidParameterError, match="mu: expected"):
        gaussian_epsilon(mu, 1e-6)
    with pytest.raises(InvalidParameterError, match="mu: expected"):
        gaussian_delta(mu, 1.0)


@pytest.mark.parametrize("delta", [0, 1, 1.5, -1e-6, math.nan, math.inf, 1e-301])
def test_a_delta_outside_its_range_is_refused(delta: float) -> None:
    with pytest.raises(InvalidParameterError, match="delta: expected"):
        gaussian_epsilon(1.0, delta)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, math.inf])
def test_an_epsilon_outside_its_range_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidParameterError, match="epsilon: expected"):
        gaussian_delta(1.0, epsilon)


@pytest.mark.parametrize("rhos", [[], [0.5], [Fraction(0)], [Fraction(-1)], [True], [math.nan]])
def test_steps_that_are_not_positive_rationals_are_refused(rhos: list[Fraction]) -> None:
    with pytest.raises(InvalidParameterError, match="gaussian steps: expected"):
        gaussian_mu(rhos)


def test_guarantee_gaussian_delta() -> None:
    """Larger ε never has the larger δ, and the curve meets its own inverse from above."""
    for mu in (0.03, 0.4, 2.0):
        curve = [gaussian_delta(mu, place * mu / 4) for place in range(60)]
        assert curve == sorted(curve, reverse=True)
        assert gaussian_delta(mu, gaussian_epsilon(mu, 1e-8)) <= 1e-8 * (1 + 2e-12)


def test_guarantee_gaussian_epsilon() -> None:
    """Libm keeps the word the error bound relies on: erfc within 8 ulp, exp within 2, over the range used."""
    rng = random.Random(3)
    for _ in range(2000):
        x = rng.uniform(-26, 26)
        exact = oracles.erfc(oracles.number(x))
        assert abs(oracles.number(math.erfc(x)) - exact) <= 8 * oracles.number(math.ulp(float(exact)))
        power = rng.uniform(0, 690)
        exact = oracles.exp(oracles.number(power))
        assert abs(oracles.number(math.exp(power)) - exact) <= 2 * oracles.number(math.ulp(float(exact)))
