"""What was spent, as (ε, δ): by the exact curve or by formula (3), each on its safe side at 60 digits."""

import random
from fractions import Fraction

import pytest

from tests.accounting import oracles
from tiers.accounting.curves import Spent, spent_epsilon
from tiers.accounting.gaussian import gaussian_epsilon, gaussian_mu
from tiers.errors import InvalidParameterError

HALF, DELTA = Fraction(1, 2), Fraction(1, 10**6)


def chance(rho: Fraction, reach: Fraction, epsilon: Fraction) -> oracles.mpf:
    """δ of Gaussian steps that cost ρ together, at the distance `reach` and ε a unit of it."""
    mu, whole = oracles.sqrt(2 * oracles.number(rho)) * oracles.number(reach), oracles.number(epsilon * reach)
    low, high = whole / mu - mu / 2, whole / mu + mu / 2
    root = oracles.sqrt(2)
    return (oracles.erfc(low / root) - oracles.exp(whole) * oracles.erfc(high / root)) / 2


@pytest.mark.parametrize("reach", [Fraction(1), Fraction(2), Fraction(1, 3), Fraction(7, 5)])
def test_gaussian_steps_are_on_their_exact_curve_and_not_above_it(reach: Fraction) -> None:
    rng = random.Random(17)
    for _ in range(20):
        rhos = [Fraction(rng.randrange(1, 10**6), 10**6) for _ in range(rng.randrange(1, 4))]
        epsilon, rule = spent_epsilon([Spent("gaussian", rho) for rho in rhos], DELTA, reach)
        assert rule == "exact"
        spent = Fraction(epsilon)
        assert chance(sum(rhos, Fraction(0)), reach, spent) <= oracles.number(DELTA)
        assert chance(sum(rhos, Fraction(0)), reach, spent * (1 - Fraction(1, 10**11))) > oracles.number(DELTA)


@pytest.mark.parametrize("reach", [Fraction(1), Fraction(2), Fraction(1, 3)])
@pytest.mark.parametrize("families", [("gaussian", "skellam"), ("skellam", "gaussian"), ("lattice-gaussian",) * 3])
def test_other_steps_count_by_formula_three_of_all_that_they_cost(families: tuple[str, ...], reach: Fraction) -> None:
    steps = [Spent(family, Fraction(place + 1, 7)) for place, family in enumerate(families)]
    total = Fraction(sum(range(1, len(families) + 1)), 7)
    epsilon, rule = spent_epsilon(steps, DELTA, reach)
    assert rule == "formula (3)"
    assert oracles.formula_three_is_at_most(epsilon, total, DELTA, reach)
    assert not oracles.formula_three_is_at_most(epsilon * (1 - 1e-14), total, DELTA, reach)


@pytest.mark.parametrize("family", ["gaussian", "skellam"])
def test_without_a_reach_it_is_plain_privacy(family: str) -> None:
    assert spent_epsilon([Spent(family, HALF)], DELTA) == spent_epsilon([Spent(family, HALF)], DELTA, 1)


def test_an_epsilon_a_unit_of_distance_is_rounded_up() -> None:
    for tenths in range(1, 200):
        reach = Fraction(tenths, 10)
        whole = Fraction(gaussian_epsilon(gaussian_mu([HALF], reach), 1e-6))
        assert Fraction(spent_epsilon([Spent("gaussian", HALF)], DELTA, reach)[0]) * reach >= whole


def test_a_delta_is_rounded_down_and_never_becomes_one() -> None:
    """Just below the δ at which ε = 0 is enough, it is not: also where the nearest double is above that δ."""
    assert spent_epsilon([Spent("gaussian", HALF)], 1 - Fraction(1, 2**60)) == (0.0, "exact")
    assert spent_epsilon([Spent("gaussian", HALF)], Fraction(1, 10**300))[0] > 37
    for eighths in range(1, 25):
        rho = Fraction(eighths, 8) ** 2 / 2  # μ is a double
        enough = Fraction(int(chance(rho, Fraction(1), Fraction(0)) * oracles.mpf(10) ** 50), 10**50)
        assert spent_epsilon([Spent("gaussian", rho)], enough + Fraction(1, 10**12))[0] == 0
        assert spent_epsilon([Spent("gaussian", rho)], enough - Fraction(1, 10**45))[0] > 0


@pytest.mark.parametrize("bad", [0, -1, 0.5, True, "1", None])
def test_steps_cost_positive_rationals(bad: object) -> None:
    with pytest.raises(InvalidParameterError, match="rho: expected"):
        Spent("gaussian", bad)  # type: ignore[arg-type]
    for family in ("gaussian", "skellam"):
        with pytest.raises(InvalidParameterError, match="delta: expected"):
            spent_epsilon([Spent(family, HALF)], bad)  # type: ignore[arg-type]


def test_nothing_spent_is_no_step() -> None:
    with pytest.raises(InvalidParameterError, match=r"^steps: expected at least one"):
        spent_epsilon([], DELTA)


@pytest.mark.parametrize("delta", [Fraction(1), Fraction(2), Fraction(1, 10**301)])
@pytest.mark.parametrize("family", ["gaussian", "skellam"])
def test_a_delta_outside_its_range_is_refused_by_either_rule(family: str, delta: Fraction) -> None:
    with pytest.raises(InvalidParameterError, match="delta: expected"):
        spent_epsilon([Spent(family, HALF)], delta)
