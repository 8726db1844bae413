"""Every family has the same verbs, and they agree with each other: mass, tails, transform, variance, error bar."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from tiers.errors import InvalidParameterError
from tiers.guarantee import ApproxDP, PureDP
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.gaussian import Gaussian
from tiers.noise.laplace import Laplace
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.law import FAMILIES, NoiseLaw, guarantee_of, law_from
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

F = Fraction
LAWS: list[tuple[NoiseLaw, int]] = [
    (TwoSidedGeometric(F(2)), 40),
    (TwoSidedGeometric(F(1, 4)), 260),
    (Skellam(F(1, 10**9)), 10),
    (Skellam(F(5)), 60),
    (Skellam(F(700)), 400),
    (MultiScaleDiscreteLaplace(1, F(1)), 60),
    (MultiScaleDiscreteLaplace(2, F(4)), 30),
    (MultiScaleDiscreteLaplace(5, F(2)), 130),
    (MultiScaleDiscreteLaplace(4, F(1, 2)), 420),
    (DiscreteGaussian(F(1, 3)), 10),
    (DiscreteGaussian(F(1)), 15),
    (DiscreteGaussian(F(47, 10)), 60),
    (Staircase(3, 1, F(2)), 80),
    (Staircase(5, 3, F(1)), 230),
    (Staircase(1, 1, F(1, 2)), 90),
]
IDS = [f"{law.family}-{place}" for place, (law, _) in enumerate(LAWS)]


@pytest.mark.parametrize(("law", "reach"), LAWS, ids=IDS)
def test_pmf_sums_to_one_and_matches_cf_variance_and_cdf(law: NoiseLaw, reach: int) -> None:
    places = np.arange(-reach, reach + 1)
    pmf = np.array([law.pmf(int(k)) for k in places])
    assert abs(math.fsum(pmf) - 1) < 1e-12
    assert abs(math.fsum(pmf * places**2) - law.variance()) < 1e-11 * law.variance() + 1e-13
    for t in (0.0, 0.3, 1.0, 2.5, math.pi):
        assert abs(math.fsum(pmf * np.cos(t * places)) - law.cf(t)) < 2e-12
    with precision(128):
        for turn in (F(0), F(1, 7), F(1, 2), F(4, 5)):
            direct = math.fsum(pmf * np.cos(2 * math.pi * float(turn) * places))
            assert abs(direct - float(law.cf_ball(turn).mid())) < 2e-12
    for k in (-7, -1, 0, 1, 4):
        assert abs(law.cdf(k) - math.fsum(pmf[: k + reach + 1])) < 1e-12


@pytest.mark.parametrize(("law", "reach"), LAWS, ids=IDS)
def test_tables_and_tails_hold_what_the_pmf_says(law: NoiseLaw, reach: int) -> None:
    table = law.table(64)
    for k in (-3, 0, 1, 5):
        assert abs(table.pmf(k) - law.pmf(k)) < 1e-15
    with precision(256):
        for k in (1, 2, 6):
            exact_tail = math.fsum(law.pmf(j) for j in range(k, reach + 1))
            assert abs(float(law.log_tail_ball(k, 64).exp().mid()) - exact_tail) <= 1e-12 * exact_tail + 1e-30
    assert abs(sum(table.masses) - 2**64) <= table.error * len(table.masses) + table.outside


@pytest.mark.parametrize(("law", "reach"), LAWS, ids=IDS)
@pytest.mark.parametrize("confidence", [F(1, 2), F(95, 100), F(99, 100)])
def test_error_bar_covers_and_is_the_least_that_does(law: NoiseLaw, reach: int, confidence: Fraction) -> None:
    h = law.half_width(confidence)
    covered = math.fsum(law.pmf(k) for k in range(-h, h + 1))
    assert covered >= float(confidence) - 1e-12
    if h > 0:
        assert covered - 2 * law.pmf(h) < float(confidence)


@pytest.mark.parametrize(("law", "reach"), LAWS, ids=IDS)
def test_far_tail_is_finite_and_symmetric(law: NoiseLaw, reach: int) -> None:
    for k in (10**3, 10**6):
        assert math.isfinite(law.log_pmf(k))
        assert law.log_pmf(k) == law.log_pmf(-k) < -20
        assert math.isclose(law.pmf(k), math.exp(law.log_pmf(k)), rel_tol=1e-12)


def test_family_names_and_parameters_are_the_identity() -> None:
    laws = [law for law, _ in LAWS] + [LatticeGaussian(F(2000))]
    assert {law.family for law in laws} == set(FAMILIES)
    assert Skellam(F(1, 3)).parameters() == {"rate": "1/3"}
    assert MultiScaleDiscreteLaplace(2, F(1, 4)).parameters() == {"rate": "0.25", "scales": "2"}
    assert LatticeGaussian(F(2000)).parameters() == {"sigma": "2000"}
    assert Staircase(3, 1, F(2)).parameters() == {"inner": "1", "period": "3", "rate": "2"}
    assert len({hash(law) for law in laws}) == len(laws)


@pytest.mark.parametrize("sigma", [F(1), F(2000), F(1, 50), F(3, 2)])
def test_discrete_gaussian_normaliser_agrees_with_the_plain_sum(sigma: Fraction) -> None:
    mp.dps = 40
    square = 2 * (mpf(sigma.numerator) / sigma.denominator) ** 2
    reach = math.ceil(14 * sigma) + 3
    total = mp.fsum(mp.exp(-mpf(k * k) / square) for k in range(-reach, reach + 1))
    assert abs(DiscreteGaussian(sigma).pmf(0) * total - 1) < 1e-15


def test_lattice_gaussian_is_its_skellam_and_nearly_gaussian() -> None:
    law, normal = LatticeGaussian(F(1024)), Gaussian(F(1024) ** 2)
    assert law.pmf(300) == Skellam(F(1024) ** 2 / 2).pmf(300)
    assert abs(law.pmf(1000) / normal.pdf(1000.0) - 1) < 1e-6
    assert law.half_width(F(95, 100)) == 2007
    assert law.variance() == normal.variance()


def test_continuous_laws_agree_with_quadrature() -> None:
    for law in (Gaussian(F(9, 4)), Laplace(F(3, 2))):
        x = np.linspace(-60, 60, 2_400_001)
        pdf = np.exp(-(x**2) / (2 * law.variance())) if isinstance(law, Gaussian) else np.exp(-np.abs(x) / 1.5)
        pdf *= law.pdf(0.0)
        assert abs(pdf.sum() * 5e-5 - 1) < 1e-9
        assert abs((pdf * x**2).sum() * 5e-5 - law.variance()) < 1e-8
        assert abs((pdf * np.cos(0.7 * x)).sum() * 5e-5 - law.cf(0.7)) < 1e-9
        h = law.half_width(F(95, 100))
        assert abs(law.cdf(h) - law.cdf(-h) - 0.95) < 1e-14


BAD = [F(0), F(-1), float("nan"), float("inf"), 5e-324, 1.0, 0, True, None, "1", F(10**40), F(5e-324)]


@pytest.mark.parametrize("value", BAD, ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        TwoSidedGeometric,
        Skellam,
        LatticeGaussian,
        lambda rate: MultiScaleDiscreteLaplace(2, rate),
        DiscreteGaussian,
        lambda rate: Staircase(3, 1, rate),
        Gaussian,
        Laplace,
    ],
)
def test_bad_parameters_are_named(make: object, value: object) -> None:
    with pytest.raises(InvalidParameterError):
        make(value)  # type: ignore[operator]


@pytest.mark.parametrize("scales", [0, -1, 65, 1.0, True, F(2)])
def test_bad_scales_and_periods_are_named(scales: object) -> None:
    with pytest.raises(InvalidParameterError):
        MultiScaleDiscreteLaplace(scales, F(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError):
        Staircase(3, scales, F(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [F(0), F(1), F(2), F(-1), 0.95, float("nan"), 1])
@pytest.mark.parametrize("law", [law for law, _ in LAWS] + [Gaussian(F(1)), Laplace(F(1))], ids=lambda law: law.family)
def test_bad_confidence_is_named(law: NoiseLaw, confidence: object) -> None:
    with pytest.raises(InvalidParameterError):
        law.half_width(confidence)  # type: ignore[arg-type]


@pytest.mark.parametrize("law", [TwoSidedGeometric(F(1)), Skellam(F(3)), MultiScaleDiscreteLaplace(2, F(1))])
def test_error_bar_at_extreme_confidence_is_exact(law: NoiseLaw) -> None:
    miss = F(1, 10**400)
    h = law.half_width(1 - miss)
    with precision(4096):
        assert (law.log_tail_ball(h + 1, 2048) + exact(2).log()).exp() <= exact(miss)
        assert not (law.log_tail_ball(h, 2048) + exact(2).log()).exp() <= exact(miss)


def test_error_bar_of_a_tiny_rate_is_the_least() -> None:
    law = TwoSidedGeometric(F(1, 10**25))
    h = law.half_width(F(95, 100))
    with precision(512):
        for width, covers in ((h, True), (h - 1, False)):
            outside = 2 * law.log_tail_ball(width + 1, 256).exp()
            assert bool(outside <= exact(F(5, 100))) is covers


@pytest.mark.parametrize("law", [law for law, _ in LAWS] + [LatticeGaussian(F(2049, 2))], ids=lambda law: law.family)
def test_laws_are_read_back_from_their_identity(law: NoiseLaw) -> None:
    assert law_from(law.family, law.parameters()) == law


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        ("tsg", {}),
        ("tsg", {"rate": "0"}),
        ("tsg", {"rate": "1.0"}),
        ("tsg", {"rate": "1", "scales": "2"}),
        ("tsg", {"rate": "1/0"}),
        ("tsg", {"rate": "nan"}),
        ("laplace", {"scale": "1"}),
        ("msdlap", {"rate": "1", "scales": "02"}),
        ("msdlap", {"rate": "1", "scales": "2.0"}),
        ("nothing", {"rate": "1"}),
    ],
)
def test_identities_that_no_law_wrote_are_refused(family: str, parameters: dict[str, str]) -> None:
    with pytest.raises(InvalidParameterError):
        law_from(family, parameters)


def test_guarantees_of_laws_are_pure_where_they_can_be() -> None:
    three = ChangeSet.scalar(3)
    assert guarantee_of(TwoSidedGeometric(F(1, 3)), three) == PureDP(F(1))
    assert guarantee_of(MultiScaleDiscreteLaplace(3, F(2)), three) == PureDP(F(2))
    found = guarantee_of(Skellam(F(100)), three, F(1, 10**6))
    assert isinstance(found, ApproxDP)
    assert Skellam(F(100)).delta(found.epsilon, three) <= 1e-6
    for law in (Skellam(F(1)), LatticeGaussian(F(2000)), DiscreteGaussian(F(1)), Gaussian(F(1))):
        with pytest.raises(InvalidParameterError, match="ε-DP"):
            guarantee_of(law, three)


def test_a_law_given_by_balls_becomes_a_table_with_its_errors() -> None:
    law = TwoSidedGeometric(F(1))
    table = LatticeTable.from_reals(lambda k: lambda: law.log_pmf_ball(k, 0).exp(), -100, 100, F(1, 10**40))
    for k in (-20, 0, 7):
        assert math.isclose(table.pmf(k), law.pmf(k), rel_tol=1e-12)
    with pytest.raises(InvalidParameterError):
        LatticeTable.from_reals(lambda k: lambda: law.log_pmf_ball(k, 0).exp(), -3, 3, F(1, 10**40))


@pytest.mark.parametrize("rate", [Fraction(1500), Fraction(10**4)], ids=str)
def test_the_largest_rates_are_right_where_hyperbolic_sines_overflow(rate: Fraction) -> None:
    for law in (TwoSidedGeometric(rate), MultiScaleDiscreteLaplace(3, rate)):
        assert law.variance() == 0.0  # 2p/(1−p)² underflows: p = e^−1500
        assert law.cf(3.0) == 1.0
        assert (law.pmf(0), law.half_width(Fraction(95, 100))) == (1.0, 0)


def test_losses_beyond_what_a_double_can_exponentiate_have_their_epsilon() -> None:
    law, change = TwoSidedGeometric(Fraction(1500)), ChangeSet.scalar(1)
    exact_epsilon = 1500 + math.log1p(-0.001)  # δ = (1 − e^(ε − rate))/(1 + p)
    assert exact_epsilon <= law.epsilon_at(Fraction(1, 1000), change) <= exact_epsilon * (1 + 1e-12)
