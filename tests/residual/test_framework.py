"""The framework for any lattice law: inversion in balls, witnesses, proofs for all k, and proved slack."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tiers.errors import InvalidParameterError, NoResidualError
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.skellam_table import skellam_table
from tiers.noise.staircase import Staircase
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import precision
from tiers.residual import BallProof, FiniteMix, residual
from tiers.residual.proof import Negative, prove
from tiers.residual.slack import approximate, distance
from tiers.residual.spectrum import invert, witness

F = Fraction
TSG, MSD, DG = TwoSidedGeometric, MultiScaleDiscreteLaplace, DiscreteGaussian


def law_of(weights: list[int], first: int) -> LatticeTable:
    total = sum(weights)
    return LatticeTable.of({first + k: F(weight, total) for k, weight in enumerate(weights)})


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=5),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
    st.integers(-4, 4),
    st.integers(-4, 4),
)
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_tables_asymmetric_or_not_give_back_what_was_convolved(
    upper: list[int], step: list[int], first: int, start: int
) -> None:
    upper = [upper[0] + sum(upper), *upper[1:]]
    step = [step[0] + 1, *step[1:]]
    above, wanted = law_of(upper, first), law_of(step, start)
    both = np.convolve(np.array(upper, dtype=object), np.array(step, dtype=object))
    below = law_of([int(mass) for mass in both], first + start)
    found = residual(above, below, allow_slack=True)
    for k in range(start - 2, start + len(step) + 2):
        assert abs(found.pmf(k) - wanted.pmf(k)) < 1e-25
    assert found.certificate.tau < F(1, 10**25)
    assert distance(above, found.law, below) <= found.certificate.tau


def test_a_step_that_leads_further_out_than_both_laws_is_found_whole() -> None:
    upper, step = law_of([5, 2, 1], 1), law_of([3, 7], -4)
    both = law_of([int(mass) for mass in np.convolve(np.array([5, 2, 1], object), np.array([3, 7], object))], -3)
    found = residual(upper, both, allow_slack=True)
    assert [round(found.pmf(k), 20) for k in (-5, -4, -3, -2)] == [0.0, step.pmf(-4), step.pmf(-3), 0.0]


def test_a_table_that_is_no_convolution_is_refused() -> None:
    upper, lower = law_of([6, 1, 1], 0), law_of([1, 1, 6, 1, 1], -2)
    with pytest.raises(NoResidualError):
        residual(upper, lower, allow_slack=True)


def test_a_transform_with_zeros_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameterError, match="certainly not 0"):
        residual(law_of([1, 1], 0), law_of([1, 2, 1], 0), allow_slack=True)


@pytest.mark.parametrize("points", [4, 32, 128])
def test_inversion_wraps_the_true_residual(points: int) -> None:
    ring = invert(Skellam(F(1)), Skellam(F(2)), points)
    law = Skellam(F(1))
    for j in range(points):
        wrapped = math.fsum(law.pmf(j + points * turn) for turn in range(-20, 21))
        assert abs(float(ring.entries[j].mid()) - wrapped) < 1e-15
    assert witness(ring) is None
    assert ring.accuracy() < 2.0**-100


def test_inversion_of_tables_agrees_with_closed_forms() -> None:
    closed = invert(Skellam(F(1)), Skellam(F(3)), 64)
    tables = invert(skellam_table(F(1), 160), skellam_table(F(3), 160), 64)
    for one, two in zip(closed.entries, tables.entries, strict=True):
        assert one.overlaps(two)


def test_bochner_row_is_the_reference() -> None:
    ring = invert(DG(F(1)), DG(F(11, 10)), 4)
    row = [1.0, 0.77172861752718509781, 0.35476188648577683684, 0.77172861752718509781]
    for quotient, wanted in zip(ring.quotients, row, strict=True):
        assert abs(float(quotient.real.mid()) - wanted) < 1e-15
    matrix = np.array([[row[abs(a - b)] for b in range(4)] for a in range(4)])
    assert abs(np.linalg.eigvalsh(matrix).min() - -0.18869534856859335878) < 1e-13
    assert "-0.1886953486" in str(witness(ring))
    wide = invert(DG(F(1)), DG(F(11, 10)), 64)
    assert abs(min(float(entry.mid()) for entry in wide.entries) - -0.0214) < 5e-5


def test_multi_scale_to_geometric_is_proved_for_all_k() -> None:
    proof = prove(FiniteMix(MSD(2, F(4)), TSG(F(3, 4))))
    assert isinstance(proof, BallProof)
    assert proof.checked_to == 3
    assert proof.least > 0
    mix = FiniteMix(MSD(2, F(4)), TSG(F(3, 4)))
    ratio = mix.pmf(4) / mix.pmf(3)
    for k in range(4, 40):
        assert math.isclose(mix.pmf(k + 1) / mix.pmf(k), ratio, rel_tol=1e-12)


def test_the_negative_one_is_found_where_the_least_value_is() -> None:
    mix = FiniteMix(MSD(3, F(2)), TSG(F(1, 2)))
    found = prove(mix)
    assert isinstance(found, Negative)
    assert found.place == 3
    assert found.value == min(mix.pmf(k) for k in range(40))
    assert -8.1e-3 < found.value < -7.9e-3


def test_a_negative_tail_is_found_far_out() -> None:
    mix = FiniteMix(TSG(F(1, 2)), TSG(F(3, 4)))
    found = prove(mix)
    assert isinstance(found, Negative)
    assert mix.pmf(found.place) < 0


@given(st.integers(1, 4), st.fractions(F(1, 2), F(5)), st.integers(1, 4), st.fractions(F(1, 20), F(1)))
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_proofs_and_numbers_never_disagree(above: int, rate: Fraction, below: int, share: Fraction) -> None:
    upper = MSD(above, rate.limit_denominator(20))
    lower = MSD(below, (upper.rate * share * F(below, above)).limit_denominator(50) or F(1, 50))
    mix = FiniteMix(upper, lower)
    found = prove(mix)
    body = [mix.settled(k, 20) for k in range(60)]
    if isinstance(found, BallProof):
        assert all(ball > 0 for ball in body)
    elif isinstance(found, Negative):
        with precision(1024):
            assert mix.pmf_ball(found.place) < 0


def test_slack_is_proved_by_convolution_not_believed() -> None:
    upper, lower = DG(F(1)), DG(F(2))
    outcome = approximate(upper, lower)
    assert not isinstance(outcome, str)
    table, bound = outcome
    assert sum(table.masses) == 1 << table.bits
    assert min(table.masses) >= 0
    reach = 40
    u, s = (np.array([law.pmf(k) for k in range(-reach, reach + 1)]) for law in (upper, table))
    apart = (
        np.abs(np.convolve(u, s)[reach : 3 * reach + 1] - [lower.pmf(k) for k in range(-reach, reach + 1)]).sum() / 2
    )
    assert abs(apart - bound.distance) < 1e-15
    peak = table.masses.index(max(table.masses))
    moved = [
        *table.masses[:peak],
        table.masses[peak] - (1 << 120),
        table.masses[peak + 1] + (1 << 120),
        *table.masses[peak + 2 :],
    ]
    assert distance(upper.table(128), LatticeTable(table.first, tuple(moved), 128), lower.table(128)) > 1e-3


def test_wide_discrete_gaussians_need_almost_no_slack() -> None:
    step = residual(DG(F(10)), DG(F(20)), allow_slack=True)
    assert 0 < step.certificate.tau < F(1, 10**30)
    assert abs(step.variance() - 300) < 1e-9


def test_staircases_of_one_shape_may_have_tiers_and_others_not() -> None:
    step = residual(Staircase(3, 1, F(2)), Staircase(3, 1, F(1)), allow_slack=True)
    assert step.certificate.tau < F(1, 10**30)
    with pytest.raises(NoResidualError):
        residual(Staircase(5, 2, F(2)), Staircase(5, 2, F(3, 2)), allow_slack=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LatticeTable(0, (), 8),
        lambda: LatticeTable(0, (-1, 257), 8),
        lambda: LatticeTable(0, (1, 1), 8),
        lambda: LatticeTable(0, (256,), 0),
        lambda: LatticeTable(0, (256,), 8, error=-1),
        lambda: LatticeTable.of({}),
        lambda: LatticeTable.of({0: F(1, 2)}),
        lambda: LatticeTable.of({0: F(3, 2), 1: F(-1, 2)}),
        lambda: LatticeTable.of({0: F(1, 2), 10**9: F(1, 2)}),
    ],
)
def test_tables_that_are_no_laws_are_refused(make: object) -> None:
    with pytest.raises(InvalidParameterError):
        make()  # type: ignore[operator]
