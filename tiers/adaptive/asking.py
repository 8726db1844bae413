"""Whom a question asks, in which rounds, and what the rounds come from: drawn now, or kept from before."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.counting import CountReading
from tiers.adaptive.density import DensityReading
from tiers.adaptive.elimination import Elimination, Estimator, Intervals, Rounds, Values
from tiers.adaptive.neighbours import NearestReading
from tiers.adaptive.release import Lipschitz, PeopleRounds, RoundNotes, Streams, released_values
from tiers.adaptive.rounds import Mode, Schedule, budget_levels, least_budget, schedule
from tiers.adaptive.space import Places, Space
from tiers.adaptive.widths import confidence_each
from tiers.errors import InvalidParameterError

__all__ = ["Answer", "Asked", "ChargedRounds", "Opening", "Plan", "Run", "ask", "askable", "drawing"]

_Reading = TypeVar("_Reading", CountReading, DensityReading, NearestReading)
Run: TypeAlias = Callable[[Intervals, Rounds, Estimator], Elimination]
"""An elimination, with its bounds: `eliminate_far`, `keep_nearest` or `ask_all`."""

_ELIMINATION = 0.25  # of β; the rest is for what is said of those who are undecided at the end


class ChargedRounds(Rounds, Protocol):
    """Rounds that keep everybody's ledger as they go."""

    @property
    def ledger(self) -> PeopleLedger:
        """Return everybody's ledger after the rounds so far."""
        ...


Opening: TypeAlias = Callable[[Schedule, People], ChargedRounds]
"""What a question's rounds are opened by, once it is known who is asked by which laws: drawn now, or read again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How people are asked: where they are, what of them is released, in which rounds, how surely.

    Args:       parts: of each person's allowance, one a round (see `budgeting`); (1,) and `ask_all` is the baseline.
                beta: the whole answer's, 0 < β < 1.
    Raises:     InvalidParameterError: β outside (0, 1), or no part.
    Example:
        >>> Plan(Space((Fraction(0),), Fraction(1), (100,)), Mode.DISTANCE, (Fraction(1),), 0.1).mode.value
        'distance'
    """

    space: Space
    mode: Mode
    parts: tuple[Fraction, ...]
    beta: float

    def __post_init__(self) -> None:
        confidence_each(self.beta, 1)
        if not self.parts:
            raise InvalidParameterError("parts", "at least one round", self.parts)

    @property
    def least(self) -> int:
        """Return the least allowance of somebody who can be asked, in units of 10⁻⁹: its least part pays a round."""
        return math.ceil(least_budget(self.space, self.mode) / min(self.parts))


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Generic[_Reading]):
    """What was read, the ledger after it, and who could be asked at all.

    `members` are the people of `ended`, by their places in the ledger; the others had too little budget left for a
    single round, and are counted in `excluded`. `spent` is what each person of the ledger spent on this question.
    `width` is how far off the last estimate of each member may be (NaN where there is none); with 1 − β the decisions
    of `ended` are right, and no such estimate of an undecided member misses by more. Where rounds ended early, which
    was the last one is the noise's choice: such a width is the elimination's, which holds after every round at once.
    """

    reading: _Reading
    ended: Elimination
    members: People
    excluded: int
    spent: Nanos
    width: Values
    ledger: PeopleLedger


def drawing(
    plan: Plan,
    places: Places,
    phi: Lipschitz,
    ledger: PeopleLedger,
    streams: Streams,
    notes: RoundNotes | None = None,
) -> Opening:
    """Return what opens rounds that are charged to the ledger and drawn from the streams.

    Args:       phi: what is released of a place in `Mode.DISTANCE`. notes: as `PeopleRounds` takes it.
    Raises:     InvalidParameterError: not a place for each ledger.
    """
    if len(places) != len(ledger):
        raise InvalidParameterError("people", "a place and a ledger each", (len(places), len(ledger)))

    def opened(made: Schedule, members: People) -> ChargedRounds:
        values = released_values(plan.space, plan.mode, places[members], phi)
        if plan.mode is Mode.DISTANCE:
            values = values.reshape(-1)
        return PeopleRounds(made, values, ledger, members, streams, notes)

    return opened


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    ended: Elimination
    intervals: Intervals
    estimator: Estimator
    schedule: Schedule
    members: People
    after: PeopleLedger

    def final(self, plan: Plan, adaptive: bool) -> Intervals:
        """The widths that hold for the last round of everybody: with β1/n each, β of a baseline."""
        rest = plan.beta * (1 - _ELIMINATION) if adaptive else plan.beta
        return self.schedule.intervals(confidence_each(rest, len(self.members)))

    def answer(self, reading: _Reading, final: Intervals, before: PeopleLedger) -> Answer[_Reading]:
        spent: Nanos = self.after.spent - before.spent
        excluded, rounds = len(before) - len(self.members), self.ended.answered
        place = np.maximum(rounds, 1) - 1
        last = final.width[final.classes, place]
        width = np.where(rounds == final.rounds, last, self.intervals.width[final.classes, place])
        width[rounds == 0] = np.nan
        return Answer(reading, self.ended, self.members, excluded, spent, width, self.after)


def askable(plan: Plan, allowed: Nanos, ledger: PeopleLedger) -> People:
    """Return who can pay for a first round: those whose allowance, cut to what is left and to its class, is enough.

    Raises:     InvalidParameterError: not an allowance for each ledger.
    Example:
        >>> from tiers.accounting.charges import LedgerKind
        >>> plan = Plan(Space((Fraction(0),), Fraction(1), (100,)), Mode.DISTANCE, (Fraction(1),), 0.1)
        >>> ledger = PeopleLedger.even(LedgerKind.ZCDP, 2, Fraction(1))
        >>> askable(plan, np.array([10**9, plan.least - 1]), ledger).tolist()
        [0]
    """
    if len(allowed) != len(ledger):
        raise InvalidParameterError("people", "an allowance and a ledger each", (len(allowed), len(ledger)))
    most = np.minimum(allowed, ledger.remaining)
    members = np.flatnonzero(most >= plan.least)
    if not len(members):
        return members
    classes, levels = budget_levels(most[members])  # rounded down to its class, an allowance may pay for no round
    return members[np.array(levels, np.int64)[classes] >= plan.least]


def ask(plan: Plan, phi: Lipschitz, allowed: Nanos, ledger: PeopleLedger, opening: Opening, run: Run) -> Asked:
    """Ask everybody who can pay for a first round."""
    members, most = askable(plan, allowed, ledger), np.minimum(allowed, ledger.remaining)
    if not len(members):
        rule = f"at least one of {plan.least} units or more"
        raise InvalidParameterError("allowances", rule, int(most.max(initial=0)))
    made = schedule(plan.space, plan.mode, most[members], plan.parts)
    each = confidence_each(_ELIMINATION * plan.beta, len(members), made.rounds)
    intervals = made.intervals(each)
    release = opening(made, members)
    estimator: Estimator = phi if plan.mode is Mode.POINT else _itself
    points = _shifted(plan.space, release) if plan.mode is Mode.POINT else release
    ended = run(intervals, points, estimator)
    return Asked(ended, intervals, estimator, made, members, release.ledger)


def _shifted(space: Space, release: Rounds) -> Rounds:
    """Released points are counted from the box's corner; shapes are not."""
    corner = np.array([float(value) for value in space.corner])

    def shown(place: int, who: People, /) -> tuple[np.ndarray, np.ndarray]:
        values, admitted = release(place, who)
        return values + corner, admitted

    return shown


def _itself(values: np.ndarray) -> np.ndarray:
    return values
