"""Formula (3), its root and its inverse against 60 digits; every result on its safe side."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accounting import oracles
from tiers.accounting.conversions import (
    formula_root,
    g_delta,
    pure_to_zcdp,
    rho_star,
    rho_star_nano,
    zcdp_admits,
    zcdp_to_epsilon,
    zcdp_to_epsilon_simple,
)
from tiers.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from tiers.budget import NANO
from tiers.errors import InvalidParameterError

TINY = Fraction(1, 10**300)
GRID = [
    (Fraction(rho), Fraction(delta), Fraction(reach))
    for rho in ("0.000000001", "0.0001", "0.1", "1", "30", "1000")
    for delta in ("0.999", "0.1", "0.00001", "1e-12", "1e-300")
    for reach in ("0.01", "1", "10")
]


def random_points(seed: int, count: int) -> list[tuple[Fraction, Fraction, Fraction]]:
    rng = random.Random(seed)
    return [
        (
            Fraction(int(10 ** rng.uniform(0, 12)) + 1, NANO),
            Fraction(1, int(10 ** rng.uniform(0.01, 30)) + 1),
            Fraction(int(10 ** rng.uniform(0, 4)) + 1, 100),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize(("rho", "delta", "reach"), GRID[::2])
def test_formula_three_is_the_minimum_of_its_definition(rho: Fraction, delta: Fraction, reach: Fraction) -> None:
    epsilon = zcdp_to_epsilon(rho, delta, reach)
    exact = oracles.formula_three(rho, delta, reach)
    assert exact <= epsilon <= exact * (1 + 1e-14)
    assert exact <= oracles.formula_three_on_a_grid(rho, delta, reach) * (1 + 1e-30)
    assert math.isclose(formula_root(rho, delta, reach) * float(rho * reach), epsilon, rel_tol=1e-12)


def test_formula_three_and_its_inverse_are_safe_at_500_random_points() -> None:
    for rho, delta, reach in random_points(5, 500):
        epsilon = zcdp_to_epsilon(rho, delta, reach)
        assert oracles.formula_three_is_at_most(epsilon, rho, delta, reach)
        assert not oracles.formula_three_is_at_most(epsilon * (1 - 1e-14), rho, delta, reach)
        assert epsilon <= zcdp_to_epsilon_simple(rho, delta, reach)
        promise = Fraction(epsilon)
        back = Fraction(rho_star(promise, delta, reach))
        assert oracles.formula_three_is_at_most(epsilon, back, delta, reach)
        assert abs(back / rho - 1) < Fraction(1, 10**13)
        units = rho_star_nano(promise, delta, reach)
        assert zcdp_admits(Fraction(units, NANO), promise, delta, reach) if units else back < Fraction(1, NANO)
        assert not zcdp_admits(Fraction(units + 1, NANO), promise, delta, reach)


@pytest.mark.parametrize(("rho", "delta", "reach"), GRID[::4])
def test_simple_corollary_is_exact_and_never_tighter(rho: Fraction, delta: Fraction, reach: Fraction) -> None:
    r, d, span = oracles.number(rho), oracles.number(delta), oracles.number(reach)
    exact = r * span + 2 * oracles.sqrt(r * oracles.log(1 / d))
    simple = zcdp_to_epsilon_simple(rho, delta, reach)
    assert exact <= simple <= exact * (1 + 1e-14)
    assert zcdp_to_epsilon(rho, delta, reach) <= simple


@pytest.mark.parametrize("rho", ["0.001", "0.1", "1", "8"])
@pytest.mark.parametrize("delta", ["0.1", "0.00001", "1e-9"])
@pytest.mark.parametrize("reach", ["1", "5"])
def test_formula_three_covers_the_gaussian_at_every_distance(rho: str, delta: str, reach: str) -> None:
    r, d, span = Fraction(rho), Fraction(delta), Fraction(reach)
    epsilon = zcdp_to_epsilon(r, d, span)
    for tenth in range(1, 11):
        distance = span * tenth / 10
        assert gaussian_delta(gaussian_mu([r], distance), epsilon * float(distance)) <= d
    assert gaussian_epsilon(gaussian_mu([r], span), float(d)) <= epsilon * float(span)


def test_the_reading_without_the_square_root_is_unsound() -> None:
    """√(2ρ·ln(1/δ)) in place of ρ + 2·√(ρ·ln(1/δ)) makes δ eight times what was promised; ours keeps it."""
    rho, delta = Fraction(1, 10), Fraction(1, 10**5)
    mu = gaussian_mu([rho])
    assert round(gaussian_delta(mu, math.sqrt(2 * 0.1 * math.log(1e5))), 6) == 8.3e-5
    assert gaussian_delta(mu, zcdp_to_epsilon(rho, delta)) < delta


@pytest.mark.parametrize("s", ["1.000001", "1.5", "10", "1999999", "1999998.9", "5000000"])
@pytest.mark.parametrize("delta", ["1e-6", "1e-300", "0.5"])
def test_factor_of_root_rho(s: str, delta: str) -> None:
    place, d = Fraction(s), Fraction(delta)
    inside = 2 / ((place + 1) * d)
    if inside <= 1:
        assert g_delta(place, d) == 0.0
        return
    at = oracles.number(place)
    exact = 2 * at / (at - 1) * oracles.sqrt(oracles.log(oracles.number(inside)))
    assert exact <= g_delta(place, d) <= exact * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**11), st.integers(1, 10**11), st.integers(1, 400), st.integers(1, 100))
def test_admission_is_monotone_and_the_budget_is_its_last_yes(one: int, other: int, power: int, reach: int) -> None:
    delta = Fraction(1, 2**power)
    low, high = sorted((Fraction(one, NANO), Fraction(other, NANO)))
    promise = Fraction(zcdp_to_epsilon(high, delta, reach))
    assert zcdp_admits(low, promise, delta, reach)
    assert zcdp_admits(high, promise, delta, reach)
    units = rho_star_nano(promise, delta, reach)
    assert zcdp_admits(Fraction(units, NANO), promise, delta, reach)
    assert not zcdp_admits(Fraction(units + 1, NANO), promise, delta, reach)


def test_guarantee_zcdp_to_epsilon() -> None:
    assert zcdp_to_epsilon(Fraction(1, 10), TINY) < zcdp_to_epsilon_simple(Fraction(1, 10), TINY)
    assert zcdp_to_epsilon(Fraction(1), 1 - Fraction(1, 10**9)) > 0


def test_guarantee_zcdp_admits() -> None:
    """What is admitted for ε is admitted for every larger ε, larger δ and smaller ρ."""
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    answers = [zcdp_admits(Fraction(n, 10**4), epsilon, delta) for n in range(1, 500)]
    assert answers == sorted(answers, reverse=True)
    assert answers.count(True) == 223


def test_pure_epsilon_in_zcdp_is_exact_and_covers_randomised_response() -> None:
    assert pure_to_zcdp(Fraction("0.1")) == Fraction(1, 200)
    for tenth in (1, 5, 10, 30):
        epsilon = Fraction(tenth, 10)
        p = 1 / (1 + oracles.exp(-oracles.number(epsilon)))
        for order in (oracles.mpf("1.001"), 2, 10, 100):
            moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
            assert oracles.log(moment) / (order - 1) <= order * oracles.number(pure_to_zcdp(epsilon))


BAD = [0, -1, 0.5, math.nan, math.inf, True, "1", None, Fraction(0), Fraction(-1, 2)]


@pytest.mark.parametrize("bad", BAD)
def test_parameters_that_are_not_positive_rationals_are_refused_by_name(bad: Fraction) -> None:
    delta, one = Fraction(1, 10**6), Fraction(1)
    for function in (zcdp_to_epsilon, zcdp_to_epsilon_simple, formula_root):
        with pytest.raises(InvalidParameterError, match="rho: expected"):
            function(bad, delta)
        with pytest.raises(InvalidParameterError, match="delta: expected"):
            function(one, bad)
        with pytest.raises(InvalidParameterError, match="reach: expected"):
            function(one, delta, bad)
    for function in (rho_star, rho_star_nano):
        with pytest.raises(InvalidParameterError, match="epsilon: expected"):
            function(bad, delta)
    with pytest.raises(InvalidParameterError, match="epsilon: expected"):
        pure_to_zcdp(bad)
    with pytest.raises(InvalidParameterError, match="s: expected"):
        g_delta(bad, delta)


@pytest.mark.parametrize("delta", [Fraction(1), Fraction(3, 2), Fraction(1, 10**301)])
def test_a_delta_outside_the_open_interval_is_refused(delta: Fraction) -> None:
    for function in (zcdp_to_epsilon, zcdp_to_epsilon_simple, formula_root, rho_star, rho_star_nano):
        with pytest.raises(InvalidParameterError, match="delta: expected"):
            function(Fraction(1), delta)
    with pytest.raises(InvalidParameterError, match="s: expected"):
        g_delta(Fraction(1), Fraction(1, 2))


HUGE, SMALL = Fraction(10**400), Fraction(1, 10**400)


@pytest.mark.parametrize("extreme", [HUGE, SMALL])
def test_numbers_that_no_double_holds_are_refused_by_name(extreme: Fraction) -> None:
    delta = Fraction(1, 10**6)
    for function in (zcdp_to_epsilon, zcdp_to_epsilon_simple, formula_root):
        with pytest.raises(InvalidParameterError, match="rho: expected"):
            function(extreme, delta)
        with pytest.raises(InvalidParameterError, match="reach: expected"):
            function(Fraction(1), delta, extreme)
    for function in (rho_star, rho_star_nano):
        with pytest.raises(InvalidParameterError, match="epsilon: expected"):
            function(extreme, delta)
    with pytest.raises(InvalidParameterError, match="s: expected"):
        g_delta(1 + extreme, delta)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**30), Fraction(1, 10**6), Fraction(100), Fraction(10**9)])
@pytest.mark.parametrize("delta", [TINY, Fraction(1, 2), 1 - Fraction(1, 10**30)])
@pytest.mark.parametrize("reach", [Fraction(1, 10**9), Fraction(1), Fraction(10**9)])
def test_the_ends_of_every_range_are_answered(epsilon: Fraction, delta: Fraction, reach: Fraction) -> None:
    rho = Fraction(rho_star(epsilon, delta, reach))
    assert oracles.formula_three_is_at_most(epsilon, rho, delta, reach)
    assert not oracles.formula_three_is_at_most(epsilon, rho * (1 + Fraction(1, 10**13)), delta, reach)
    units = rho_star_nano(epsilon, delta, reach)
    assert abs(units - rho * NANO) <= 1 + rho * NANO / 10**13
