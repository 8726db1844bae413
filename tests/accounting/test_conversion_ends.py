"""Conversions at the ends of their ranges, beyond them, and where doubles no longer count units."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest

from tests.accounting import oracles
from tests.accounting.test_conversions import BAD, TINY
from tiers.accounting.conversions import (
    formula_root,
    g_delta,
    rho_star,
    rho_star_nano,
    zcdp_admits,
    zcdp_to_epsilon,
    zcdp_to_epsilon_simple,
)
from tiers.budget import NANO
from tiers.errors import InvalidParameterError

DELTA = Fraction(1, 10**6)
LIMITS = {  # the ranges that are promised, each with its ends
    "rho": (Fraction(1, 10**30), Fraction(10**6)),
    "epsilon": (Fraction(1, 10**30), Fraction(10**9)),
    "delta": (TINY, 1 - Fraction(1, 10**30)),  # 1 itself is outside
    "reach": (Fraction(1, 10**9), Fraction(10**9)),
}
OF_RHO = (zcdp_to_epsilon, zcdp_to_epsilon_simple, formula_root)
OF_EPSILON = (rho_star, rho_star_nano)


@pytest.mark.parametrize("rho", LIMITS["rho"])
@pytest.mark.parametrize("delta", LIMITS["delta"])
@pytest.mark.parametrize("reach", LIMITS["reach"])
def test_the_ends_of_every_range_of_rho_are_answered_too(rho: Fraction, delta: Fraction, reach: Fraction) -> None:
    epsilon = Fraction(zcdp_to_epsilon(rho, delta, reach))
    assert oracles.formula_three_is_at_most(epsilon, rho, delta, reach)
    assert not oracles.formula_three_is_at_most(epsilon * (1 - Fraction(1, 10**13)), rho, delta, reach)
    assert math.isclose(formula_root(rho, delta, reach) * float(rho * reach), epsilon, rel_tol=1e-12)
    simple = Fraction(zcdp_to_epsilon_simple(rho, delta, reach)) - rho * reach  # 2·√(ρ·ln(1/δ))
    square = -4 * oracles.number(rho) * oracles.log(oracles.number(delta))
    assert oracles.number(simple) ** 2 >= square


@pytest.mark.parametrize(("name", "end"), [(name, end) for name in LIMITS for end in (0, 1)])
def test_beyond_the_ends_of_a_range_nothing_is_answered(name: str, end: int) -> None:
    given = {"rho": Fraction(1), "epsilon": Fraction(1), "delta": DELTA, "reach": Fraction(1)}
    at = LIMITS[name][end]
    beyond = Fraction(1) if (name, end) == ("delta", 1) else at * (1 + Fraction(2 * end - 1, 10**9))
    for value, refused in ((at, False), (beyond, True)):
        numbers = given | {name: value}
        rho, epsilon, others = numbers["rho"], numbers["epsilon"], (numbers["delta"], numbers["reach"])
        asked: list[Callable[[], float]] = [partial(zcdp_admits, rho, epsilon, *others)]
        asked += [partial(function, rho, *others) for function in OF_RHO if name != "epsilon"]
        asked += [partial(function, epsilon, *others) for function in OF_EPSILON if name != "rho"]
        for call in asked:
            if refused:
                with pytest.raises(InvalidParameterError, match=f"{name}: expected"):
                    call()
            else:
                assert call() >= 0


@pytest.mark.parametrize("bad", BAD)
def test_nothing_is_admitted_by_parameters_that_are_not_positive_rationals(bad: Fraction) -> None:
    good = [Fraction(1, 100), Fraction(1), DELTA, Fraction(1)]
    assert zcdp_admits(*good)
    for place, name in enumerate(("rho", "epsilon", "delta", "reach")):
        with pytest.raises(InvalidParameterError, match=f"{name}: expected"):
            zcdp_admits(*good[:place], bad, *good[place + 1 :])


@pytest.mark.parametrize("s", [1 + Fraction(1, 10**100), Fraction(10**310)])
def test_the_factor_is_told_to_the_ends_of_its_range(s: Fraction) -> None:
    with oracles.mp.workdps(250):  # s − 1 is 10⁻¹⁰⁰
        inside = oracles.number(2 / ((s + 1) * TINY))
        exact = oracles.number(2 * s / (s - 1)) * oracles.sqrt(oracles.log(inside)) if inside > 1 else 0
    assert exact <= g_delta(s, TINY) <= exact * (1 + oracles.mpf("1e-12"))
    for beyond in (1 + Fraction(1, 10**101), Fraction(10**310 + 1)):
        with pytest.raises(InvalidParameterError, match="s: expected"):
            g_delta(beyond, TINY)


def test_without_a_reach_it_is_plain_privacy() -> None:
    rho, epsilon = Fraction(1, 50), Fraction(1)
    for function in OF_RHO:
        assert function(rho, DELTA) == function(rho, DELTA, 1)
    for function in OF_EPSILON:
        assert function(epsilon, DELTA) == function(epsilon, DELTA, 1)
    for thousandth in (22, 23):
        part = Fraction(thousandth, 1000)
        assert zcdp_admits(part, epsilon, DELTA) == zcdp_admits(part, epsilon, DELTA, 1)


@pytest.mark.parametrize("epsilon", [Fraction(10**power) for power in range(6, 10)])
@pytest.mark.parametrize("delta", [DELTA, Fraction(1, 3)])
def test_a_budget_of_more_units_than_a_double_counts_is_its_last_unit_all_the_same(
    epsilon: Fraction, delta: Fraction
) -> None:
    units = rho_star_nano(epsilon, delta)
    assert units > 2**49
    assert oracles.formula_three_is_at_most(epsilon, Fraction(units, NANO), delta, Fraction(1))
    assert not oracles.formula_three_is_at_most(epsilon, Fraction(units + 1, NANO), delta, Fraction(1))


def test_whole_numbers_are_rationals() -> None:
    for function in OF_RHO:
        assert function(3, DELTA, 2) == function(Fraction(3), DELTA, Fraction(2))  # type: ignore[arg-type]
    for function in OF_EPSILON:
        assert function(3, DELTA, 2) == function(Fraction(3), DELTA, Fraction(2))  # type: ignore[arg-type]
    assert zcdp_admits(1, 12, DELTA) is zcdp_admits(Fraction(1), Fraction(12), DELTA) is True  # type: ignore[arg-type]
