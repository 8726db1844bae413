"""Late tiers drawn: from the right neighbours, with the right law, replayable; and what is refused."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tests.tiers.chains import CHAIN, ONE, SMALL, key_of, mixed, skellam, tsg
from tiers.budget import Ladder
from tiers.chain import Draw, answer_of, check_truth, draw_chain, insert, late_spec, noise_of, plan, specs
from tiers.chain.balls import mass
from tiers.chain.steps import Between, Enumerated, between, sampler_of, step_law
from tiers.errors import (
    BudgetOrderError,
    InvalidParameterError,
    NoResidualError,
    SlackNotAllowedError,
    TierError,
    TruthChangedError,
)
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet


def test_a_late_tier_is_drawn_from_its_neighbours_and_replays() -> None:
    full = specs(CHAIN, plan(Ladder.parse(["2", "1", "0.5", "0.2"]), 1), epoch=1, grain=0, length=40)
    truth = list(range(40))
    top, second, third, low = (spec.law for spec in full)
    base = draw_chain(truth, specs(CHAIN, plan(Ladder.parse(["1"]), 1), epoch=1, grain=0, length=40), key_of)[0]
    lowest = insert(low, [base], key_of, epoch=1)
    middle = insert(third, [lowest, base], key_of, epoch=2)
    known = [middle, base, lowest]
    late = insert(top, known, key_of, epoch=3, truth=truth, base_key=key_of(base.spec))
    assert [draw.spec.role for draw in (base, lowest, middle, late)] == [
        Role.BASE, Role.RESIDUAL, Role.BRIDGE, Role.LATE_TOP
    ]  # fmt: skip
    assert middle.spec.parents == (second, low)
    assert late.spec.parents == (second,)
    assert [draw.spec.epoch for draw in (lowest, middle, late)] == [1, 2, 3]
    for draw, parents in ((lowest, [base]), (middle, [base, lowest])):
        answers = [parent.answer for parent in parents]
        assert answer_of(draw.spec, key_of(draw.spec), answers) == draw.answer
        assert insert(draw.spec.law, parents, key_of, epoch=draw.spec.epoch) == draw
    gaps = [below - value for value, below in zip(truth, base.answer, strict=True)]
    noise = noise_of(late.spec, key_of(late.spec), gaps)
    assert tuple(value + extra for value, extra in zip(truth, noise, strict=True)) == late.answer
    higher = insert(tsg("3")[0], [late, *known], key_of, epoch=3, truth=truth, base_key=key_of(base.spec))
    assert higher.spec.parents == (top,), "above a late top, while the check still reads the first base draw"
    with pytest.raises(InvalidParameterError, match="role"):
        answer_of(late.spec, key_of(late.spec), [base.answer])


ALPHA, N = 1e-9, 30_000


def p_value(draws: np.ndarray, pmf: Callable[[int], float]) -> float:
    low, high = int(draws.min()), int(draws.max())
    seen = np.bincount(draws - low).astype(float)
    wanted = np.array([pmf(k) for k in range(low, high + 1)]) * len(draws)
    body = wanted >= 25
    seen = np.append(seen[body], len(draws) - seen[body].sum())
    wanted = np.append(wanted[body], max(1e-9, len(draws) - wanted[body].sum()))
    if wanted[-1] < 25:
        seen, wanted = np.append(seen[:-2], seen[-2:].sum()), np.append(wanted[:-2], wanted[-2:].sum())
    return float(stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(seen) - 1))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["tsg", "skellam", "mixed"])
def test_drawn_late_tiers_have_the_law_and_near_misses_are_told(name: str) -> None:
    tiers = {"tsg": tsg("2", "1", "0.5"), "skellam": skellam("1", "3", "7"), "mixed": mixed()[1:]}[name]
    entries = N if name == "tsg" else 2000
    top, middle, low = tiers
    base = DrawSpec(
        CHAIN, 1, Role.BASE, middle, (), 0, entries, sampler_of(step_law(Role.BASE, middle.noise, ()), entries)
    )
    truth = [0] * entries
    known = list(draw_chain(truth, [base], key_of))
    known.append(insert(low, known, key_of, epoch=1))
    late = insert(top, known, key_of, epoch=1, truth=truth, base_key=key_of(base))
    first = np.array(late.answer)
    assert p_value(first, top.noise.pmf) > ALPHA
    assert p_value(first, middle.noise.pmf) < ALPHA, "the law of the tier below is told from it"
    step = np.array(known[0].answer) - first
    assert p_value(step, step_law(Role.RESIDUAL, middle.noise, (top.noise,)).pmf) > ALPHA
    direct = step_law(Role.RESIDUAL, low.noise, (top.noise,))
    assert p_value(np.array(known[1].answer) - first, direct.pmf) > ALPHA
    # the step down is independent of the late top; of an independent second draw it would not be
    assert abs(np.corrcoef(first, step)[0, 1]) < 6 / math.sqrt(entries)
    fresh = (
        np.array(
            draw_chain(truth, [DrawSpec(CHAIN, 2, Role.BASE, top, (), 0, entries, base.sampler)], key_of)[0].answer
        )
        if name != "mixed"
        else None
    )
    if fresh is not None:
        assert abs(np.corrcoef(fresh, np.array(known[0].answer) - fresh)[0, 1]) > 6 / math.sqrt(entries)


def known_chain(*rates: str) -> list[Draw]:
    draws = specs(CHAIN, plan(Ladder.parse(rates), 1), epoch=1, grain=0, length=2)
    return list(draw_chain([5, 6], draws, key_of))


def test_another_truth_is_never_bridged_and_never_named() -> None:
    known = known_chain("1", "0.5")
    base_key = key_of(known[0].spec)
    check_truth([5, 6], known, base_key)
    for truth, key in (([5, 7], base_key), ([6, 6], base_key), ([5, 6], bytes(32))):
        with pytest.raises(TruthChangedError) as refusal:
            insert(tsg("2")[0], known, key_of, epoch=1, truth=truth, base_key=key)
        assert str(truth[1]) not in str(refusal.value).replace(CHAIN[:12], "")
    with pytest.raises(InvalidParameterError, match="truth"):
        check_truth([5], known, base_key)
    with pytest.raises(InvalidParameterError, match="base draw"):
        check_truth([5, 6], known[1:], base_key)


def test_a_late_top_needs_truth_and_base_key_and_nothing_else_may_have_them() -> None:
    known = known_chain("1", "0.5")
    base_key = key_of(known[0].spec)
    for extra in ({}, {"truth": [5, 6]}, {"base_key": base_key}):
        with pytest.raises(InvalidParameterError, match="truth and base key"):
            insert(tsg("2")[0], known, key_of, epoch=1, **extra)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="truth and base key"):
        insert(tsg("0.7")[0], known, key_of, epoch=1, truth=[5, 6], base_key=base_key)


def test_laws_that_do_not_fit_the_chain_are_refused() -> None:
    known = known_chain("1", "0.5")
    other_set = TierLaw(TwoSidedGeometric(Fraction(1, 3)), ChangeSet.scalar(2))
    other_delta = TierLaw(TwoSidedGeometric(Fraction(1, 3)), ONE, SMALL)
    light = TierLaw(MultiScaleDiscreteLaplace(3, Fraction(2)), ChangeSet.scalar(3))
    for law, error in ((known[1].spec.law, InvalidParameterError), (other_set, InvalidParameterError)):
        with pytest.raises(error):
            insert(law, known, key_of, epoch=1)
    with pytest.raises(InvalidParameterError, match="delta"):
        insert(other_delta, known, key_of, epoch=1)
    with pytest.raises(InvalidParameterError, match="known draws"):
        insert(tsg("0.7")[0], [], key_of, epoch=1)
    with pytest.raises(InvalidParameterError, match="known draws"):
        insert(tsg("0.7")[0], [known[0], known[0]], key_of, epoch=1)
    draws = specs(CHAIN, plan(Ladder.parse(["1.5"]), 3, "tsg"), epoch=1, grain=0, length=1)
    heavier = TierLaw(TwoSidedGeometric(Fraction(2, 3)), ChangeSet.scalar(3))
    base = list(draw_chain([0], draws, key_of))
    with pytest.raises(NoResidualError, match="P\\(s = "):
        insert(light, base, key_of, epoch=1, truth=[0], base_key=key_of(draws[0]))
    assert late_spec(heavier, base, epoch=1).role is Role.LATE_TOP


def test_a_tier_that_is_more_accurate_at_a_smaller_label_is_refused() -> None:
    """Rank orders; ε must fall with it: a pure law that beats the tier above it in variance would break the labels."""
    multi = TierLaw(MultiScaleDiscreteLaplace(2, Fraction(4)), ChangeSet.scalar(2))
    known = [Draw(DrawSpec(CHAIN, 1, Role.BASE, multi, (), 0, 1, "inversion/1"), (3,))]
    below = TierLaw(TwoSidedGeometric(Fraction(2)), ChangeSet.scalar(2))  # ε = 4 as well, more noise
    with pytest.raises((BudgetOrderError, NoResidualError)):
        insert(below, known, key_of, epoch=1)
    with pytest.raises(BudgetOrderError):
        late_spec(below, known, epoch=1)


def test_chains_with_slack_grow_downwards_only() -> None:
    ladder = Ladder.parse(["3", "1"])
    chain = plan(ladder, 1, "discrete-gaussian", "0.000001", allow_slack=True)
    assert not chain.exact
    draws = specs(CHAIN, chain, epoch=1, grain=0, length=1)
    known = list(draw_chain([9], draws, key_of))
    delta = Fraction(1, 10**6)
    between_them = TierLaw(DiscreteGaussian.at(Fraction(2), delta, ONE), ONE, delta)
    above = TierLaw(DiscreteGaussian.at(Fraction(4), delta, ONE), ONE, delta)
    below = TierLaw(DiscreteGaussian.at(Fraction(1, 2), delta, ONE), ONE, delta)
    for law in (between_them, above):
        with pytest.raises(SlackNotAllowedError):
            insert(law, known, key_of, epoch=1, truth=[9], base_key=key_of(draws[0]))
    with pytest.raises(SlackNotAllowedError):
        insert(below, known, key_of, epoch=1)


def test_noise_of_refuses_what_it_cannot_replay() -> None:
    known = known_chain("1", "0.5")
    bridge = insert(tsg("0.7")[0], known, key_of, epoch=1).spec
    with pytest.raises(InvalidParameterError, match="gaps"):
        noise_of(bridge, bytes(32))
    with pytest.raises(InvalidParameterError, match="gaps"):
        noise_of(known[0].spec, bytes(32), [1, 2])
    other = DrawSpec(CHAIN, 1, Role.BRIDGE, bridge.law, bridge.parents, 0, 2, "enumeration/1")
    with pytest.raises(InvalidParameterError, match="sampler"):
        noise_of(other, bytes(32), [1, 2])
    with pytest.raises(TierError):
        noise_of(DrawSpec(CHAIN, 1, Role.BASE, bridge.law, (), 0, 2, "cells/9"), bytes(32))
    with pytest.raises(InvalidParameterError):
        answer_of(bridge, bytes(32), [known[0].answer])
    with pytest.raises(InvalidParameterError):
        between(Role.BASE, bridge.law.noise, (known[0].spec.law.noise,))


def test_huge_truths_pass_through_bridges() -> None:
    draws = specs(CHAIN, plan(Ladder.parse(["1", "0.2"]), 1), epoch=1, grain=0, length=1)
    truth = [2**127]
    known = list(draw_chain(truth, draws, key_of))
    late = insert(tsg("0.5")[0], known, key_of, epoch=1)
    top = insert(tsg("3")[0], [*known, late], key_of, epoch=1, truth=truth, base_key=key_of(draws[0]))
    assert all(abs(draw.answer[0] - 2**127) < 500 for draw in (late, top))


def test_a_count_of_all_integers_meets_each_once() -> None:
    noise = Enumerated(lambda k: mass(TwoSidedGeometric(Fraction(1)), k), centre=-7)
    assert sorted(noise.place(n) for n in range(101)) == list(range(-57, 44))
    assert isinstance(between(Role.LATE_TOP, tsg("2")[0].noise, (tsg("1")[0].noise,)), Between)
