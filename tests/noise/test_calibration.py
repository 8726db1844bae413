"""Calibration: bounded work, the safe side of the rounding, and a named error for every impossible wish."""

import math
from fractions import Fraction

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import greatest, least, least_integer
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.gaussian import Gaussian
from tiers.noise.laplace import Laplace
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

F = Fraction
ONE = ChangeSet.scalar(1)
GRID = F(2, 10**11)


@given(st.fractions(F(1, 10**6), F(10**6)), st.fractions(F(1, 10**8), F(10**8)))
@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_least_and_greatest_meet_the_limit_from_the_right_side(limit: Fraction, guess: Fraction) -> None:
    asked: list[Fraction] = []

    def lacks(x: Fraction) -> float:
        asked.append(x)
        return float(limit - x) if x != limit else 0.0

    low, high = F(1, 10**9), F(10**9)
    found = least(lacks, guess, low, high)
    assert limit <= found <= limit * (1 + GRID)
    assert len(asked) < 120
    assert limit <= least(lambda x: x < limit, guess, low, high) <= limit * (1 + GRID)
    assert limit * (1 - GRID) <= greatest(lambda x: x <= limit, guess, low, high) <= limit


def test_wishes_outside_the_range_are_named() -> None:
    with pytest.raises(InvalidParameterError):
        least(lambda x: True, F(1), F(1, 10), F(10))
    with pytest.raises(InvalidParameterError):
        greatest(lambda x: False, F(1), F(1, 10), F(10))
    assert least(lambda x: False, F(1), F(1, 10), F(10)) == F(1, 10)
    assert greatest(lambda x: True, F(1), F(1, 10), F(10)) == 10
    for guess in (0, 1, 12344, 12345, 12346, 10**9):
        assert least_integer(lambda h: h >= 12345, guess) == 12345
        assert least_integer(lambda h: True, guess) == 0


@pytest.mark.parametrize("epsilon", [F(1, 10**6), F(1, 100), F(3, 2), F(30)])
@pytest.mark.parametrize("delta", [F(1, 10**3), F(1, 10**9)])
def test_skellam_calibrates_from_tiny_to_huge_epsilon(epsilon: Fraction, delta: Fraction) -> None:
    law = Skellam.at(epsilon, delta, ONE)
    assert Fraction(law.delta(epsilon, ONE)) <= delta
    assert Fraction(Skellam(law.rate * (1 - GRID)).delta(epsilon, ONE)) > delta
    assert law.epsilon_at(delta, ONE) <= float(epsilon) * (1 + 1e-12)


def test_skellam_at_a_loss_that_no_rate_in_range_reaches_is_the_least_rate() -> None:
    law = Skellam.at(F(100), F(1, 10**9), ONE)
    assert law.rate == F(1, 10**30)
    assert law.delta(F(100), ONE) < 1e-9


def test_lattice_gaussian_needs_no_more_noise_than_its_lattice_explains() -> None:
    changes = ChangeSet.scalar(1000)
    law = LatticeGaussian.at(F(1), F(1, 10**6), changes)
    assert Fraction(law.delta(F(1), changes)) <= F(1, 10**6)
    normal = Gaussian.at(F(1), F(1, 10**6), changes)
    assert abs(float(law.sigma) / math.sqrt(normal.sigma_squared) - 1) < 1e-6
    assert law.epsilon_at(F(1, 10**6), changes) <= 1.0 + 1e-11


def test_lattice_gaussian_refuses_a_coarse_lattice() -> None:
    with pytest.raises(InvalidParameterError, match="1024"):
        LatticeGaussian.at(F(1), F(1, 10**6), ONE)
    with pytest.raises(InvalidParameterError, match="no Skellam law"):
        LatticeGaussian.at(F(1), F(0), ChangeSet.scalar(1000))


def test_lattice_gaussian_on_a_vector_is_charged_for_all_its_bins() -> None:
    law, pair = LatticeGaussian(F(5000)), ChangeSet(bins=2, step=1000, total=2000)
    normal = Gaussian(F(5000) ** 2).delta(F(1), pair)
    assert normal * (1 - 1e-5) <= law.delta(F(1), pair) <= normal * 1.01
    assert law.rdp(4, pair) <= 4 * float(Gaussian(F(5000) ** 2).rho(pair)) * (1 + 1e-3)


def test_discrete_gaussian_calibration_is_safe_and_least() -> None:
    for changes in (ONE, ChangeSet.scalar(3)):
        law = DiscreteGaussian.at(F(1), F(1, 10**6), changes)
        assert Fraction(law.delta(F(1), changes)) <= F(1, 10**6)
        assert Fraction(DiscreteGaussian(law.sigma * (1 - F(1, 10**9))).delta(F(1), changes)) > F(1, 10**6)


MAKERS = {
    "tsg": TwoSidedGeometric.for_half_width,
    "skellam": Skellam.for_half_width,
    "msdlap": lambda h, c: MultiScaleDiscreteLaplace.for_half_width(h, c, 3),
    "staircase": lambda h, c: Staircase.for_half_width(h, c, 3, 1),
    "discrete-gaussian": DiscreteGaussian.for_half_width,
}


@pytest.mark.parametrize("family", MAKERS)
@pytest.mark.parametrize("half_width", [0, 1, 4, 57])
@pytest.mark.parametrize("confidence", [F(1, 2), F(95, 100)])
def test_error_bars_as_wished_are_kept(family: str, half_width: int, confidence: Fraction) -> None:
    law = MAKERS[family](half_width, confidence)
    assert law.half_width(confidence) <= half_width
    parameter = {"tsg": "rate", "skellam": "rate", "msdlap": "rate", "staircase": "rate", "discrete-gaussian": "sigma"}
    name = parameter[family]
    factor = 1 + 10 * GRID if family in ("skellam", "discrete-gaussian") else 1 - 10 * GRID
    fields = {"scales": 3} if family == "msdlap" else {"period": 3, "inner": 1} if family == "staircase" else {}
    noisier = type(law)(**fields, **{name: getattr(law, name) * factor})
    assert noisier.half_width(confidence) > half_width


def test_wide_error_bars_calibrate_too() -> None:
    for half_width in (10**6, 10**12):
        for family in (Skellam, LatticeGaussian, TwoSidedGeometric):
            reached = family.for_half_width(half_width, F(95, 100)).half_width(F(95, 100))
            assert half_width * (1 - GRID) <= reached <= half_width
    assert Gaussian.for_half_width(F(2), F(95, 100)).half_width(F(95, 100)) <= 2
    assert Laplace.for_half_width(F(2), F(95, 100)).half_width(F(95, 100)) <= 2


BAD_EPSILON = [F(0), F(-1), 0.5, float("nan"), float("inf"), 5e-324, 1, True, None, "1", F(10**9), F(5e-324)]


@pytest.mark.parametrize("epsilon", BAD_EPSILON, ids=repr)
@pytest.mark.parametrize("at", [MultiScaleDiscreteLaplace.at, Staircase.at, Laplace.at])
def test_bad_epsilons_are_named_by_pure_families(at: object, epsilon: object) -> None:
    with pytest.raises(InvalidParameterError):
        at(epsilon, ONE)  # type: ignore[operator]


@pytest.mark.parametrize("epsilon", BAD_EPSILON, ids=repr)
@pytest.mark.parametrize("family", [Skellam, LatticeGaussian, DiscreteGaussian, Gaussian])
def test_bad_epsilons_are_named_by_approximate_families(family: type[Skellam], epsilon: object) -> None:
    with pytest.raises(InvalidParameterError):
        family.at(epsilon, F(1, 10**6), ONE)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [F(1), F(-1), F(2), 1e-6, float("nan"), 5e-324, None, "0.1", True], ids=repr)
@pytest.mark.parametrize("family", [Skellam, LatticeGaussian, DiscreteGaussian, Gaussian])
def test_bad_deltas_are_named(family: type[Skellam], delta: object) -> None:
    with pytest.raises(InvalidParameterError):
        family.at(F(1), delta, ONE)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError):
        (family(F(2000))).epsilon_at(delta, ONE)  # type: ignore[arg-type]


@pytest.mark.parametrize("half_width", [-1, 1.5, float("nan"), True, None, F(3), 2**70], ids=repr)
@pytest.mark.parametrize("family", MAKERS)
def test_bad_error_bars_are_named(family: str, half_width: object) -> None:
    with pytest.raises(InvalidParameterError):
        MAKERS[family](half_width, F(95, 100))  # type: ignore[arg-type]


def test_sensitivity_zero_is_named() -> None:
    for bad in (0, -1, 1.0, True, 2**63):
        with pytest.raises(InvalidParameterError):
            ChangeSet.scalar(bad)  # type: ignore[arg-type]
