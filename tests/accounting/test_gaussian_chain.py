"""The continuous Gaussian chain: covariances, bridges and late tops, all in exact rationals."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers.errors import BudgetOrderError, InvalidParameterError
from tiers.gaussian_chain import (
    gaussian_bridge,
    gaussian_covariance,
    gaussian_time,
    gaussian_upgrade,
)
from tiers.noise.gaussian import Gaussian
from tiers.residual import residual

RHOS = st.lists(st.fractions(Fraction(1, 1000), 1000, max_denominator=1000), min_size=3, max_size=3, unique=True).map(
    lambda values: tuple(sorted(values, reverse=True))
)


@settings(max_examples=50, deadline=None)
@given(RHOS)
def test_residuals_build_the_covariance_up(rhos: tuple[Fraction, Fraction, Fraction]) -> None:
    covariance = gaussian_covariance(rhos)
    variance = gaussian_time(rhos[0])
    assert covariance[0] == (variance,) * 3
    laws = [Gaussian(gaussian_time(rho)) for rho in rhos]
    for tier, (upper, lower) in enumerate(pairwise(laws), start=1):
        law = residual(upper, lower).law
        assert isinstance(law, Gaussian)
        variance += law.sigma_squared
        assert covariance[tier][tier] == variance == gaussian_time(rhos[tier])
        assert covariance[tier][tier - 1] == covariance[tier - 1][tier - 1]


@settings(max_examples=50, deadline=None)
@given(RHOS, st.integers(-50, 50), st.integers(-50, 50))
def test_a_bridge_is_the_conditional_law_of_the_covariance(
    rhos: tuple[Fraction, Fraction, Fraction], upper: int, lower: int
) -> None:
    """Mean and variance of the middle tier given the other two, by inverting their 2 × 2 covariance (truth 0)."""
    c = gaussian_covariance(rhos)
    determinant = c[0][0] * c[2][2] - c[0][2] ** 2
    weight_up = (c[0][1] * c[2][2] - c[1][2] * c[0][2]) / determinant
    weight_down = (c[1][2] * c[0][0] - c[0][1] * c[0][2]) / determinant
    law = gaussian_bridge(rhos, Fraction(upper), Fraction(lower))
    assert law.mean == weight_up * upper + weight_down * lower
    assert law.variance == c[1][1] - weight_up * c[0][1] - weight_down * c[1][2]


@settings(max_examples=50, deadline=None)
@given(RHOS)
def test_a_late_top_has_the_chains_joint_law_and_costs_the_difference(
    rhos: tuple[Fraction, Fraction, Fraction],
) -> None:
    high, _, low = rhos
    own, new = (
        gaussian_upgrade((high, low), Fraction(1), Fraction(0)),
        gaussian_upgrade((high, low), Fraction(0), Fraction(1)),
    )
    fresh = gaussian_time(high - low)
    assert own + new == 1
    assert own**2 * gaussian_time(low) + new**2 * fresh == gaussian_time(high)
    assert own * gaussian_time(low) == gaussian_time(high)  # Cov(high, low) = Var(high): the chain's
    assert new**2 / (2 * new**2 * fresh) == high - low  # given low, D_α/α at distance 1: (mean shift)²/(2·variance)


def test_order_and_parameters_are_checked() -> None:
    for rhos in ([Fraction(1), Fraction(1)], [Fraction(1), Fraction(2)]):
        with pytest.raises(BudgetOrderError):
            gaussian_covariance(rhos)
    with pytest.raises(BudgetOrderError):
        gaussian_bridge((Fraction(1), Fraction(2), Fraction(1, 2)), Fraction(0), Fraction(0))
    for bad in (0, -1, 0.5, math.nan, True):
        with pytest.raises(InvalidParameterError, match="rho: expected"):
            gaussian_time(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="rhos: expected"):
        gaussian_covariance([])
