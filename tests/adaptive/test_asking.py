"""What an answer says of its error: the parts of β add up, and a width is never one that the noise chose."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from tiers.accounting.charges import LedgerKind
from tiers.accounting.lattice import lattice_rho
from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.asking import Asked, Plan, ask
from tiers.adaptive.budgeting import doubling_split
from tiers.adaptive.elimination import Fate, eliminate_far
from tiers.adaptive.queries import distances_from, nearest_rounds
from tiers.adaptive.replay import replaying
from tiers.adaptive.rounds import Mode, round_law
from tiers.adaptive.space import Places, Space
from tiers.budget import NANO
from tiers.errors import InvalidParameterError

SPACE = Space((Fraction(0),), Fraction(1, 8), (801,))
ROUNDS = 4
PLAN = Plan(SPACE, Mode.DISTANCE, doubling_split(ROUNDS), 0.1)


def undecided(people: int) -> Asked:
    """People about whom every round says 0: nobody is ever decided."""
    ledger = PeopleLedger.even(LedgerKind.ZCDP, people, Fraction(1))
    zeros = replaying(ledger, lambda _place, who, _charges: np.zeros(len(who), np.int64))
    return ask(PLAN, distances_from((50.0,)), ledger.remaining, ledger, zeros, eliminate_far)


def misses(widths: np.ndarray, sigmas: np.ndarray) -> float:
    """The chance, added up, that Gaussians miss these widths (the lattice's own are wider by less than 1 in 10³)."""
    return float((2 * norm.sf(widths / sigmas)).sum())


@pytest.mark.parametrize("people", [1, 7])
def test_what_decisions_and_estimates_may_miss_together_is_beta(people: int) -> None:
    asked = undecided(people)
    decisions = people * misses(asked.intervals.width, asked.intervals.sigma)
    last = asked.final(PLAN, adaptive=True)
    estimates = people * misses(last.width[:, -1], last.sigma[:, -1])
    assert 0.95 * PLAN.beta < decisions + estimates <= PLAN.beta
    baseline = asked.final(PLAN, adaptive=False)
    assert 0.95 * PLAN.beta < people * misses(baseline.width[:, -1], baseline.sigma[:, -1]) <= PLAN.beta


@pytest.mark.parametrize("stop", range(1, ROUNDS + 1))
def test_estimates_of_rounds_that_the_noise_ended_have_the_widths_of_every_round(stop: int) -> None:
    """Only k are left after `stop` rounds: which round that is, the noise decided, so its own β is not enough."""
    ledger, step = PeopleLedger.even(LedgerKind.ZCDP, 3, Fraction(1)), int(1 / SPACE.step)

    def kept(place: int, who: People, _charges: Nanos) -> Places:
        far = 10_000 if place + 1 == stop else 3
        return np.array([2, 3, far])[who] * step

    answer = nearest_rounds(PLAN, (50.0,), 2, ledger.remaining, ledger, replaying(ledger, kept))
    assert (answer.ended.rounds, answer.reading.exact) == (stop, True)
    each, last = undecided(3).intervals, undecided(3).final(PLAN, adaptive=True)
    expected = each if stop < ROUNDS else last
    assert answer.width[:2].tolist() == [expected.width[0, stop - 1]] * 2


@pytest.mark.parametrize("fine", [4, 256])
def test_a_distance_is_charged_for_its_rounding_and_up_to_the_diagonal(fine: int) -> None:
    """Places a grain apart may be released fine + 1 steps apart; and far ones are dearer than a Gaussian's square."""
    space = Space((Fraction(0), Fraction(0)), Fraction(1, 8), (2**18 // fine, 2**18 // fine), fine)
    law = round_law(10**17, space, Mode.DISTANCE)
    stretch = 1 + Fraction(2, fine)
    gaussian = Fraction((fine + 1) ** 2, 2 * law.sigma**2) / space.grain**2
    assert law.cost_nano > gaussian * NANO
    farthest = math.ceil(space.reach_steps * stretch)
    near = lattice_rho(law.sigma**2, farthest // 4, fine)
    assert near < (whole := lattice_rho(law.sigma**2, farthest, fine))
    assert law.cost_nano == math.ceil(whole * stretch**2 / space.step**2 * NANO)


def test_who_has_hardly_more_than_a_first_round_is_left_out_and_the_others_are_asked() -> None:
    """Rounded down to a class, such an allowance pays for no round: it is one person's, and no reason to ask nobody."""
    budgets = np.array([10 * PLAN.least + 7, PLAN.least, 10 * PLAN.least + 7], np.int64)
    ledger = PeopleLedger(LedgerKind.ZCDP, budgets, np.zeros(3, np.int64))
    zeros = replaying(ledger, lambda _place, who, _charges: np.zeros(len(who), np.int64))
    asked = ask(PLAN, distances_from((50.0,)), budgets, ledger, zeros, eliminate_far)
    assert asked.members.tolist() == [0, 2]
    assert asked.after.spent[1] == 0


def test_exactly_the_least_allowance_is_asked() -> None:
    """It is what a listing calls the least budget, and one unit less is nobody's."""
    ledger = PeopleLedger.even(LedgerKind.ZCDP, 2, Fraction(1))
    zeros = replaying(ledger, lambda _place, who, _charges: np.zeros(len(who), np.int64))
    least = np.array([PLAN.least, PLAN.least - 1], np.int64)
    asked = ask(PLAN, distances_from((50.0,)), least, ledger, zeros, eliminate_far)
    assert asked.members.tolist() == [0]
    with pytest.raises(InvalidParameterError, match="allowances"):
        ask(PLAN, distances_from((50.0,)), least - 1, ledger, zeros, eliminate_far)


def test_who_never_answered_has_no_width() -> None:
    """Rounds that keep a ledger of less than was thought drop somebody before the first value."""
    ledger = PeopleLedger.even(LedgerKind.ZCDP, 3, Fraction(1))
    poor = PeopleLedger(LedgerKind.ZCDP, ledger.budget, np.array([0, NANO, 0], np.int64))
    zeros = replaying(poor, lambda _place, who, _charges: np.zeros(len(who), np.int64))
    answer = nearest_rounds(PLAN, (50.0,), 1, ledger.remaining, ledger, zeros)
    assert answer.ended.of(Fate.DROPPED).tolist() == [1]
    assert np.isnan(answer.width).tolist() == [False, True, False]
