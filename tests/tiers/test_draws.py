"""Draws of whole chains: arrays and integers agree, tiers have their variances, nothing wraps, every role replays."""

import hashlib
import itertools
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from tiers.budget import Ladder
from tiers.chain import ChainPlan, answer_of, draw_arrays, draw_chain, noise_of, plan, specs
from tiers.chain.steps import sampler_of, step_law, step_sampler, step_vector
from tiers.errors import InvalidParameterError
from tiers.identity import DrawSpec, Role, stream_key
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.skellam import Skellam
from tiers.sensitivity import ChangeSet

CHAIN, MICRO = "0" * 64, "0.000001"
PLANS: dict[str, ChainPlan] = {
    "tsg": plan(Ladder.parse(["2", "1", "0.5", "0.1"]), 1),
    "tsg-fine": plan(Ladder.parse(["2", "1"]), 10**9, "tsg"),
    "skellam": plan(Ladder.parse(["2", "1", "0.5"]), 1, "skellam", MICRO),
    "msdlap-tsg": plan(Ladder.parse(["5", "4", "1.5", "0.5"]), 2),
    "discrete-gaussian": plan(Ladder.parse(["3", "1"]), 1, "discrete-gaussian", MICRO, allow_slack=True),
    "lattice-gaussian": plan(Ladder.parse(["1", "0.5"]), 1000, "lattice-gaussian", MICRO),
}


def key_of(spec: DrawSpec) -> bytes:
    return stream_key(hashlib.sha256(b"draws").digest(), spec)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("length", [1, 5, 200])
def test_arrays_and_integers_are_the_same_answers(name: str, length: int) -> None:
    draws = specs(CHAIN, PLANS[name], epoch=1, grain=0, length=length)
    truth = np.arange(length, dtype=np.int64) * 3
    rows = draw_arrays(truth, draws, key_of)
    made = draw_chain(truth.tolist(), draws, key_of)
    assert [tuple(row) for row in rows.tolist()] == [draw.answer for draw in made]
    for upper, lower in itertools.pairwise(made):
        assert answer_of(lower.spec, key_of(lower.spec), [upper.answer]) == lower.answer


@pytest.mark.parametrize("name", PLANS)
def test_every_tier_has_the_variance_of_its_law(name: str) -> None:
    """The delivered answer's variance is the tier's own, not the residual's, and is no standard deviation."""
    chain = PLANS[name]
    length = 20_000 if name != "discrete-gaussian" else 3000
    rows = draw_arrays(np.zeros(length, np.int64), specs(CHAIN, chain, epoch=1, grain=0, length=length), key_of)
    for row, tier in zip(rows, chain.tiers, strict=True):
        fourth = float(np.mean((row / tier.variance**0.5) ** 4))
        error = ((fourth - 1) / length) ** 0.5
        assert abs(float(np.mean(row.astype(float) ** 2)) / tier.variance - 1) < 6 * error
        inside = float(np.mean(np.abs(row) <= tier.half_width))
        assert inside > 0.95 - 6 * (0.05 * 0.95 / length) ** 0.5
    for place, tier in enumerate(chain.tiers[1:], start=1):
        assert tier.same_as_above is not None
        share = float(np.mean(rows[place] == rows[place - 1]))
        assert abs(share - tier.same_as_above) < 6 * (0.25 / length) ** 0.5


def test_single_answers_go_by_digits_and_vectors_by_cells() -> None:
    names = [
        {spec.sampler for spec in specs(CHAIN, PLANS["tsg"], epoch=1, grain=0, length=length)} for length in (1, 15, 16)
    ]
    assert names == [{"tsg-digits/2"}, {"tsg-digits/2"}, {"cells/2"}]
    assert sampler_of(DiscreteGaussian(Fraction(2)), 1) == "inversion/1"


def test_entries_and_tiers_have_noise_of_their_own() -> None:
    rows = draw_arrays(np.zeros(5000, np.int64), specs(CHAIN, PLANS["tsg"], epoch=1, grain=0, length=5000), key_of)
    steps = [rows[0], *(lower - upper for upper, lower in itertools.pairwise(rows))]
    for one, other in itertools.combinations(steps, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 6 / 5000**0.5
        assert abs(np.corrcoef(one[1:], other[:-1])[0, 1]) < 6 / 5000**0.5
    for step in steps:
        assert abs(np.corrcoef(step[1:], step[:-1])[0, 1]) < 6 / 5000**0.5


def test_rows_are_filled_in_place_with_little_more_memory() -> None:
    length = 400_000
    draws = specs(CHAIN, PLANS["tsg"], epoch=1, grain=0, length=length)
    truth, rows = np.zeros(length, np.int64), np.empty((len(draws), length), np.int64)
    draw_arrays(truth, draws, key_of, rows)
    tracemalloc.start()
    assert draw_arrays(truth, draws, key_of, rows) is rows
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * truth.nbytes


@pytest.mark.parametrize("edge", [2**62 - 1, -(2**62) + 1, 2**63 - 1, -(2**63)])
def test_counts_near_the_limit_of_64_bits_never_wrap(edge: int) -> None:
    draws = specs(CHAIN, PLANS["tsg"], epoch=1, grain=0, length=16)
    truth = np.full(16, edge, np.int64)
    with pytest.raises(InvalidParameterError, match="2⁶²"):
        draw_arrays(truth, draws, key_of)
    exact = draw_chain(truth.tolist(), draws, key_of)
    assert all(abs(value - edge) < 2000 for draw in exact for value in draw.answer)


def test_counts_a_little_below_the_limit_are_drawn() -> None:
    draws = specs(CHAIN, PLANS["tsg"], epoch=1, grain=0, length=16)
    truth = np.full(16, 2**62 - 10**6, np.int64)
    made = draw_chain(truth.tolist(), draws, key_of)
    assert draw_arrays(truth, draws, key_of).tolist() == [list(draw.answer) for draw in made]


def test_noise_too_wide_for_64_bits_is_left_to_integers() -> None:
    wide = plan(Ladder.parse(["0.00001", "0.000001"]), 2**60, "tsg")
    draws = specs(CHAIN, wide, epoch=1, grain=0, length=16)
    with pytest.raises(InvalidParameterError, match="2⁶²"):
        draw_arrays(np.zeros(16, np.int64), draws, key_of)
    low = draw_chain([0] * 16, draws, key_of)[1].answer
    assert max(abs(value) for value in low) > 2**63


def test_arrays_of_another_kind_are_refused() -> None:
    draws = specs(CHAIN, PLANS["tsg"], epoch=1, grain=0, length=16)
    good = np.zeros(16, np.int64)
    bad = [
        (np.zeros(16), None),
        (np.zeros(16, np.int32), None),
        (np.zeros((4, 4), np.int64), None),
        (np.zeros(15, np.int64), None),
        (good, np.zeros((3, 16), np.int64)),
        (good, np.zeros((4, 16), np.int32)),
        (np.array(0), None),
        ([0] * 16, None),
        (None, None),
        (good, [[0] * 16] * 4),
    ]
    for truth, out in bad:
        with pytest.raises(InvalidParameterError):
            draw_arrays(truth, draws, key_of, out)


def test_a_sampler_that_does_not_draw_a_law_is_refused() -> None:
    law = step_law(Role.BASE, DiscreteGaussian(Fraction(2)), ())
    for name in ("tsg-digits/2", "log-concave/1", "none/1"):
        with pytest.raises(InvalidParameterError, match="sampler"):
            step_sampler(name, law)
    with pytest.raises(InvalidParameterError, match="sampler"):
        step_vector("inversion/1", law)
    with pytest.raises(InvalidParameterError, match="role"):
        step_law(Role.BRIDGE, Skellam(Fraction(2)), (Skellam(Fraction(1)), Skellam(Fraction(3))))


def test_a_vector_of_several_touched_bins_is_planned_and_drawn_as_one() -> None:
    chain = plan(Ladder.parse(["1", "0.5"]), ChangeSet(bins=3, step=2, total=4))
    draws = specs(CHAIN, chain, epoch=1, grain=0, length=12)
    assert len(draw_chain([10**30] * 12, draws, key_of)[1].answer) == 12
    assert noise_of(draws[0], bytes(32)) != noise_of(draws[0], bytes(31) + b"1")
