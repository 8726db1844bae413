"""Adaptive buyers against the Gaussian curve and the (ε, δ) filter: quadrature over what the first answer shows."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from mpmath import exp, mpf, npdf, quad, sqrt

from tests.accounting import oracles
from tiers.accounting.filters import ApproxFilter
from tiers.accounting.gaussian import gaussian_delta, gaussian_mu
from tiers.budget import NANO

Policy = Callable[[mpf], mpf]  # the share of the rest that is spent, given the first answer (truth 0 or 1, in σ's)


def spend_if_above(bar: float) -> tuple[Policy, list[float]]:
    return (lambda y: mpf(1) if y > bar else mpf(0)), [bar]


def spend_if_below(bar: float) -> tuple[Policy, list[float]]:
    return (lambda y: mpf(1) if y < bar else mpf(0)), [bar]


def spend_in_steps(low: float, high: float) -> tuple[Policy, list[float]]:
    return (lambda y: mpf(0) if y < low else mpf("0.4") if y < high else mpf(1)), [low, high]


POLICIES = [
    spend_if_above(0.0),
    spend_if_above(2.5),
    spend_if_below(-1.0),
    spend_if_below(1.0),
    spend_in_steps(-0.5, 1.5),
]


def adaptive_delta(first: Fraction, rest: Fraction, policy: Policy, bars: list[float], epsilon: float) -> mpf:
    """∫ p(y)·δ_{μ(y)}(ε − L(y)) dy: the first answer y ~ N(0, 1) or N(μ₁, 1), then a Gaussian of the chosen ρ, or none."""
    mu = sqrt(2 * oracles.number(first))

    def integrand(y: mpf) -> mpf:
        left = epsilon - (mu * y - mu * mu / 2)
        share = policy(y)
        if share == 0:
            return npdf(y, mu, 1) * max(mpf(0), 1 - exp(left))
        return npdf(y, mu, 1) * oracles.gaussian_delta(sqrt(2 * oracles.number(rest) * share), left)

    kinks = sorted({-9.0, 12.0, *bars, float((epsilon + mu * mu / 2) / mu)})
    return quad(integrand, [kink for kink in kinks if -9 <= kink <= 12], maxdegree=5)


@pytest.mark.parametrize("place", range(len(POLICIES)))
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_no_adaptive_stopping_exceeds_the_curve_of_the_whole_budget(place: int, epsilon: float) -> None:
    policy, bars = POLICIES[place]
    first, rest = Fraction(1, 10), Fraction(3, 10)
    whole = gaussian_delta(gaussian_mu([first, rest]), epsilon)
    assert adaptive_delta(first, rest, policy, bars, epsilon) <= whole * (1 + 1e-9)


def test_the_quadrature_itself_is_exact_where_nothing_is_decided() -> None:
    first, rest, epsilon = Fraction(1, 10), Fraction(3, 10), 0.7
    got = adaptive_delta(first, rest, lambda y: mpf(1), [], epsilon)
    assert abs(got / oracles.gaussian_delta(gaussian_mu([first, rest]), epsilon) - 1) < 1e-9


@pytest.mark.parametrize("place", range(len(POLICIES)))
def test_guarantee_approx_filter(place: int) -> None:
    """Whatever the policy does with what the filter leaves, the promise (1, 10⁻³) holds."""
    policy, bars = POLICIES[place]
    ledger = ApproxFilter.of(Fraction(1), Fraction(1, 1000))
    first = ledger.budget_nano // 3
    left = ledger.charge(first).remaining_nano
    assert adaptive_delta(Fraction(first, NANO), Fraction(left, NANO), policy, bars, 1.0) <= ledger.delta
