"""Power series against sums over roots: two ways to the same law, and the bars they decide."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.series import half_width_by_series, one_side, scale_masses, series_length
from tiers.real import precision

F = Fraction
LAWS = [MultiScaleDiscreteLaplace(2, F(4)), MultiScaleDiscreteLaplace(5, F(1)), MultiScaleDiscreteLaplace(3, F(1, 4))]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_series_and_roots_are_one_law(law: MultiScaleDiscreteLaplace) -> None:
    masses = scale_masses(law.scales, law.rate, 40, 200)
    with precision(320):
        for k, mass in enumerate(masses):
            assert mass.overlaps(law.pmf_ball(k))
            assert float(mass.rad()) < 2.0**-190
    terms = one_side(law.scales, law.rate, series_length(law.scales, law.rate, 60))
    whole = (-math.expm1(-float(law.rate))) ** (2 * law.scales)
    for k in (0, 1, 7):
        assert math.isclose(whole * float(terms[: len(terms) - k] @ terms[k:]), law.pmf(k), rel_tol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("confidence", [F(1, 2), F(95, 100), F(999, 1000)])
def test_the_bar_by_series_is_the_least_that_balls_allow(law: MultiScaleDiscreteLaplace, confidence: Fraction) -> None:
    h = half_width_by_series(law.scales, law.rate, confidence)
    assert h is not None
    assert law.covers(h, confidence)
    assert h == 0 or not law.covers(h - 1, confidence)


def test_a_cut_series_leaves_less_than_it_says() -> None:
    for law in LAWS:
        length = series_length(law.scales, law.rate, 20)
        terms = one_side(law.scales, law.rate, length) * (-math.expm1(-float(law.rate))) ** law.scales
        assert 1 - terms.sum() < 2.0**-20


def test_a_quotient_of_series_is_a_probability_law() -> None:
    terms = one_side(3, F(1), 4000, (2, F(2))) * (-math.expm1(-1.0)) ** 3 / (-math.expm1(-2.0)) ** 2
    assert (terms >= 0).all()
    assert abs(np.sum(terms) - 1) < 1e-12
