"""Residuals: upper + s has the law of lower, by convolution; what does not exist is refused with a witness."""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tiers.errors import InvalidParameterError, NoResidualError, SlackNotAllowedError
from tiers.identity import TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.gaussian import Gaussian
from tiers.noise.laplace import Laplace
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.law import NoiseLaw
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import precision
from tiers.residual import BallProof, ClosedForm, FiniteMix, Residual, SlackBound, residual
from tiers.residual.laws import roots_of
from tiers.residual.proof import OUTWEIGHED, Negative, outweighed, prove
from tiers.sensitivity import ChangeSet

F = Fraction
TSG, MSD, DG = TwoSidedGeometric, MultiScaleDiscreteLaplace, DiscreteGaussian


def assert_convolves(step: Residual, upper: NoiseLaw, lower: NoiseLaw, reach: int, tolerance: float = 1e-12) -> None:
    places = range(-reach, reach + 1)
    s, u = np.array([step.pmf(k) for k in places]), np.array([upper.pmf(k) for k in places])
    both = np.convolve(s, u)[reach : 3 * reach + 1]
    middle = slice(reach // 2, 3 * reach // 2 + 1)
    wanted = np.array([lower.pmf(k) for k in places])
    assert np.abs(both - wanted)[middle].max() < tolerance
    assert (s >= 0).all()
    close = 1e-5 if step.certificate.tau else 1e-9
    assert math.isclose(step.variance(), lower.variance() - upper.variance(), rel_tol=close)
    assert math.isclose(step.variance(), float((s * np.arange(-reach, reach + 1) ** 2).sum()), rel_tol=close)
    assert math.isclose(step.same_probability(), step.pmf(0), rel_tol=1e-12)


EXACT = [
    (TSG(F(2)), TSG(F(1)), ClosedForm, 80),
    (TSG(F(3)), TSG(F(29, 10)), ClosedForm, 60),
    (Skellam(F(3)), Skellam(F(5)), ClosedForm, 60),
    (MSD(3, F(3)), MSD(3, F(1)), ClosedForm, 200),
    (MSD(2, F(4)), TSG(F(3, 4)), BallProof, 90),
    (MSD(5, F(4)), TSG(F(1, 2)), BallProof, 130),
    (TSG(F(2)), MSD(2, F(1)), ClosedForm, 130),
    (MSD(2, F(4)), MSD(3, F(1)), ClosedForm, 200),
    (TSG(F(1)), MSD(2, F(1)), ClosedForm, 130),
    (MSD(2, F(1)), MSD(3, F(1)), ClosedForm, 200),
    (MSD(2, F(1)), MSD(4, F(1)), ClosedForm, 260),
    (MSD(4, F(4)), MSD(2, F(1)), BallProof, 130),
    (MSD(6, F(8)), MSD(3, F(1)), BallProof, 200),
    (TSG(F(2)), Staircase(5, 2, F(1)), BallProof, 250),
    (MSD(2, F(2)), Staircase(3, 1, F(1, 2)), BallProof, 300),
]


@pytest.mark.parametrize(("upper", "lower", "kind", "reach"), EXACT, ids=str)
def test_exact_residuals_convolve_to_the_lower_law(upper: NoiseLaw, lower: NoiseLaw, kind: type, reach: int) -> None:
    step = residual(upper, lower)
    assert isinstance(step.certificate, kind)
    assert step.certificate.tau == 0
    assert_convolves(step, upper, lower, reach)


@given(st.fractions(F(1, 3), F(5)), st.fractions(F(1, 50), F(49, 50)))
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_every_falling_pair_of_geometrics_has_a_residual(rate: Fraction, share: Fraction) -> None:
    upper, lower = TSG(rate.limit_denominator(100)), TSG((rate * share).limit_denominator(1000))
    step = residual(upper, lower)
    assert abs(step.variance() / (lower.variance() - upper.variance()) - 1) < 1e-9
    mix = FiniteMix(upper, lower)
    for k in (0, 1, 2, 9):
        assert math.isclose(step.pmf(k), mix.pmf(k), rel_tol=1e-12)


@given(st.fractions(F(1, 10), F(40)), st.fractions(F(1, 10), F(40)))
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_skellam_residuals_add_rates_exactly(one: Fraction, more: Fraction) -> None:
    assert residual(Skellam(one), Skellam(one + more)).law == Skellam(more)


@pytest.mark.parametrize(
    ("high", "low", "sensitivity", "values"),
    [
        ("2", "1", 1, {0: "0.5678713428285432016", 1: "0.13657870412852774502", 10: "0.000016855151118914180366"}),
        ("2", "1", 3, {0: "0.36816337144516854502", 2: "0.064167492997515159616", 10: "0.0044585788697823036377"}),
        ("5", "0.01", 1, {0: "0.0050006378918929877893", 10: "0.0045241462991259372097"}),
        ("0.02", "0.001", 3, {0: "0.0026662407639093759241", 10: "0.00016569675591906110133"}),
    ],
)
def test_geometric_residuals_are_the_reference(high: str, low: str, sensitivity: int, values: dict[int, str]) -> None:
    step = residual(TSG(F(high) / sensitivity), TSG(F(low) / sensitivity))
    for k, value in values.items():
        assert math.isclose(step.pmf(k), float(value), rel_tol=1e-12)


def test_same_number_probabilities_are_the_ones_shown_to_buyers() -> None:
    for high, low, wanted in ((F(2), F(1), 0.568), (F(1), F(1, 2), 0.422), (F(1), F(9, 10), 0.883)):
        step = residual(TSG(high), TSG(low))
        assert abs(step.same_probability() - wanted) < 5e-4
        w = (math.sinh(float(low) / 2) / math.sinh(float(high) / 2)) ** 2
        assert math.isclose(step.same_probability(), w + (1 - w) * math.tanh(float(low) / 2), rel_tol=1e-12)
    assert residual(Laplace(F(1, 2)), Laplace(F(1))).same_probability() == 0.25
    assert residual(Gaussian(F(1)), Gaussian(F(3))).same_probability() == 0.0
    assert residual(Skellam(F(3)), Skellam(F(5))).same_probability() == Skellam(F(2)).pmf(0)


def test_continuous_residuals_have_the_missing_variance_and_no_pmf() -> None:
    step = residual(Gaussian(F(5, 7)), Gaussian(F(5, 2)))
    assert step.law == Gaussian(F(25, 14))
    assert abs(step.variance() - 1.7857142857142858) < 1e-15
    laplace = residual(Laplace(F(1)), Laplace(F(2)))
    assert laplace.variance() == 6.0
    assert laplace.law.pdf(1.0) == 0.75 * Laplace(F(2)).pdf(1.0)
    for t in (0.3, 2.0):
        stay = float(laplace.law.stay)
        quotient = stay + (1 - stay) * Laplace(F(2)).cf(t)
        assert abs(Laplace(F(1)).cf(t) * quotient - Laplace(F(2)).cf(t)) < 1e-15
    for each in (step, laplace):
        with pytest.raises(InvalidParameterError):
            each.pmf(0)


def test_gaussian_tiers_of_the_lattice_are_exact() -> None:
    step = residual(LatticeGaussian(F(1024)), LatticeGaussian(F(2048)))
    assert step.law == Skellam((F(2048) ** 2 - F(1024) ** 2) / 2)
    assert step.certificate == ClosedForm("Skellam rates add")
    assert residual(LatticeGaussian(F(1024)), Skellam(F(10**6))).variance() == 2 * 10**6 - 1024**2


@pytest.mark.parametrize(
    ("upper", "lower", "witness"),
    [
        (DG(F(1)), DG(F(11, 10)), r"n = 0\.\.3, has the eigenvalue -0\.1886953486"),
        (TSG(F(2)), Skellam(F(5)), r"at k = 88 the lower tail"),
        (MSD(3, F(2)), TSG(F(1, 2)), r"P\(s = 3\) = -0\.00800975"),
        (Staircase(5, 2, F(2)), Staircase(5, 3, F(1)), r"n = 0\.\.3, has the eigenvalue -0\.1313634985"),
        (TSG(F(1)), TSG(F(1)), "rate 1 is not below 1"),
        (TSG(F(1)), TSG(F(2)), "rate 2 is not below 1"),
        (Skellam(F(5)), Skellam(F(5)), "rates add"),
        (MSD(2, F(1)), MSD(2, F(1)), "not the smaller"),
        (MSD(2, F(1)), TSG(F(1)), "at k = "),
        (MSD(4, F(2)), MSD(2, F(2)), "at k = 2"),
        (TSG(F(1)), Staircase(5, 2, F(4)), r"P\(s = 2\) = -0\.277"),
        (DG(F(2)), DG(F(1)), "at k = 2"),
        (Skellam(F(1)), DG(F(3)), "at k = "),
        (MSD(2, F(3)), DG(F(4)), "at k = "),
        (DG(F(1)), TSG(F(1, 2)), "exceeds 1"),
        (Skellam(F(1)), TSG(F(1, 2)), "exceeds 1"),
        (Gaussian(F(1)), Gaussian(F(1)), "variances add"),
        (Laplace(F(2)), Laplace(F(1)), "not the larger"),
        (Laplace(F(1)), Gaussian(F(9)), "smaller order"),
        (Gaussian(F(1)), Laplace(F(9)), "exceeds 1"),
    ],
    ids=str,
)
@pytest.mark.parametrize("allow_slack", [False, True])
def test_impossible_residuals_are_refused_with_a_witness(
    upper: NoiseLaw, lower: NoiseLaw, witness: str, allow_slack: bool
) -> None:
    with pytest.raises(NoResidualError, match=witness) as caught:
        residual(upper, lower, allow_slack=allow_slack)
    assert type(upper).__name__ in caught.value.upper
    assert caught.value.witness


def test_the_witness_in_the_tail_is_real() -> None:
    upper, lower = TSG(F(2)), Skellam(F(5))
    high = math.exp(-2 * 88) / (1 + math.exp(-2))
    low = math.fsum(lower.pmf(k) for k in range(88, 140))
    assert low < high / 2
    assert math.fsum(lower.pmf(k) for k in range(87, 140)) > math.exp(-2 * 87) / (1 + math.exp(-2)) / 2
    assert upper.variance() < lower.variance()


def test_slack_must_be_allowed_and_is_booked() -> None:
    with pytest.raises(SlackNotAllowedError, match=r"τ = 1\.42e-09"):
        residual(DG(F(1)), DG(F(2)))
    step = residual(DG(F(1)), DG(F(2)), allow_slack=True)
    assert isinstance(step.certificate, SlackBound)
    assert 1.4e-9 < step.certificate.tau < 1.5e-9
    assert step.certificate.negative <= step.certificate.tau
    assert step.certificate.distance <= step.certificate.tau
    assert step.certificate.least < 0
    assert_convolves(step, DG(F(1)), DG(F(2)), 40, 1e-9)


def test_residuals_are_values() -> None:
    pairs = [(TSG(F(2)), TSG(F(1))), (MSD(2, F(4)), TSG(F(3, 4))), (DG(F(1)), DG(F(2))), (Skellam(F(1)), Skellam(F(2)))]
    for upper, lower in pairs:
        one, two = residual(upper, lower, allow_slack=True), residual(upper, lower, allow_slack=True)
        assert one == two
        assert hash(one) == hash(two)
    assert residual(TSG(F(2)), TSG(F(1))) != residual(TSG(F(2)), TSG(F(1, 2)))


def test_pairs_outside_the_framework_are_named() -> None:
    with pytest.raises(InvalidParameterError):
        residual(TSG(F(1)), Laplace(F(5)))
    wide = LatticeTable(-(10**5), (1, *([0] * (2 * 10**5 - 1)), 1), 1)
    with pytest.raises(InvalidParameterError):
        residual(TSG(F(5)), wide, allow_slack=True)


def spread(law: NoiseLaw, scale: int, reach: int) -> np.ndarray:
    """The pmf of scale·X on −reach … reach."""
    return np.array([0.0 if k % scale else law.pmf(k // scale) for k in range(-reach, reach + 1)])


@pytest.mark.parametrize(
    ("scales", "rate", "more", "lower"),
    [(1, F(1), 2, F(1)), (2, F(3), 3, F(3)), (2, F(3), 4, F(3)), (1, F(2), 3, F(3, 2)), (3, F(3), 3, F(2))],
    ids=str,
)
def test_more_scales_at_no_larger_rate_are_reached_scale_by_scale(
    scales: int, rate: Fraction, more: int, lower: Fraction
) -> None:
    reach, wanted = 300, np.zeros(601)
    wanted[reach] = 1.0
    for scale in range(1, more + 1):
        fresh = scale > scales
        part = TSG(lower) if fresh else (residual(TSG(rate), TSG(lower)) if lower < rate else None)
        wanted = wanted if part is None else np.convolve(wanted, spread(part, scale, reach))[reach : 3 * reach + 1]
    step = residual(MSD(scales, rate), MSD(more, lower))
    found = np.array([step.pmf(k) for k in range(-reach, reach + 1)])
    assert np.abs(found - wanted)[150:450].max() < 1e-13


def test_one_new_scale_at_the_same_rate_is_that_scale_and_nothing_between() -> None:
    step = residual(MSD(2, F(1)), MSD(3, F(1)))
    for k in range(-12, 13):
        wanted = 0.0 if k % 3 else TSG(F(1)).pmf(k // 3)
        assert math.isclose(step.pmf(k), wanted, rel_tol=1e-12)
    assert step.pmf(1) == 0.0


@pytest.mark.parametrize(
    ("upper", "lower"),
    [
        (MSD(4, F(2)), MSD(2, F(1))),
        (MSD(6, F(3)), MSD(3, F(3, 2))),
        (MSD(2, F(3)), MSD(4, F(6))),
    ],
    ids=str,
)
def test_shared_roots_cancel_exactly_and_the_witness_is_real(upper: NoiseLaw, lower: NoiseLaw) -> None:
    mix = FiniteMix(upper, lower)  # type: ignore[arg-type]
    with precision(256):
        shared = len(roots_of(lower)) - len(mix.terms())  # type: ignore[arg-type]
    assert shared > 0
    with pytest.raises(NoResidualError, match=r"P\(s = \d+\) = -") as caught:
        residual(upper, lower, allow_slack=True)
    place, value = re.search(r"P\(s = (\d+)\) = (-\S+)", caught.value.witness).groups()  # type: ignore[union-attr]
    turns = 2 * np.pi * np.arange(4096) / 4096
    quotient = np.array([(lower.cf(t) / upper.cf(t)).real for t in turns])
    assert abs(np.fft.ifft(quotient).real[int(place)] - float(value)) < 1e-5 * abs(float(value)) + 1e-9


def test_roots_that_cancel_leave_a_finite_candidate() -> None:
    mix = FiniteMix(MSD(4, F(2)), MSD(2, F(1)))
    with precision(256):
        assert mix.terms() == ()
        assert mix.start == 8
        assert abs(float(sum(mix.pmf_ball(k) for k in range(-7, 8)).mid()) - 1) < 1e-50
        assert mix.pmf_ball(8) == 0


def test_one_law_has_one_name() -> None:
    change = ChangeSet.scalar(1)
    tiers = [TierLaw(noise, change) for noise in (TSG(F(2)), MSD(1, F(2)), Staircase(1, 1, F(2)))]
    assert len({tier.identity for tier in tiers}) == len(set(tiers)) == 1
    for upper in (TSG(F(2)), MSD(1, F(2)), Staircase(1, 1, F(2))):
        for lower in (TSG(F(1)), MSD(1, F(1)), Staircase(1, 1, F(1))):
            assert residual(upper, lower) == residual(TSG(F(2)), TSG(F(1)))
        for k in range(-5, 6):
            assert math.isclose(upper.pmf(k), TSG(F(2)).pmf(k), rel_tol=1e-12)
    written = tiers[0].document() | {"family": "msdlap", "parameters": {"rate": "2", "scales": "1"}}
    with pytest.raises(InvalidParameterError, match="canonical"):
        TierLaw.from_document(written)


def test_a_residual_keeps_its_digits_where_both_variances_nearly_agree() -> None:
    step = residual(MSD(3, F(1)), MSD(3, F(10**15 - 1, 10**15)))
    with precision(400):
        wanted = MSD(3, F(10**15 - 1, 10**15)).variance_ball() - MSD(3, F(1)).variance_ball()
    assert math.isclose(step.variance(), float(wanted.mid()), rel_tol=1e-15)


def test_wide_laws_are_proved_for_all_k_by_both_proofs() -> None:
    upper, lower = MSD(32, F(12)), TSG(F(5, 32))
    step = residual(upper, lower)
    assert step.certificate == ClosedForm(OUTWEIGHED)
    slow = prove(FiniteMix(upper, lower))
    assert isinstance(slow, BallProof)
    assert slow.checked_to == 32 * 33 // 2
    assert abs(math.fsum(step.pmf(k) for k in range(-900, 901)) - 1) < 1e-9


def test_what_is_outweighed_is_never_negative_and_what_is_negative_never_outweighed() -> None:
    seen = set()
    for scales, rate, lower in itertools.product(
        (2, 3), (F(2), F(3), F(4)), (TSG(F(1, 4)), TSG(F(3, 2)), MSD(2, F(1)))
    ):
        upper = MSD(scales, rate)
        sure, found = outweighed(upper, lower), prove(FiniteMix(upper, lower))
        assert not (sure and isinstance(found, Negative))
        seen.add((sure, type(found)))
    assert {(True, BallProof), (False, Negative)} <= seen
