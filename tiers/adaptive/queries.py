"""A question about many people's places, from budgets to an answer: adaptive, or by the baseline."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.counting import CountReading, read_count, thresholds_of
from tiers.adaptive.density import FAR, DensityReading, read_density
from tiers.adaptive.elimination import (
    Elimination,
    Estimator,
    Intervals,
    Rounds,
    ask_all,
    eliminate_far,
    keep_nearest,
)
from tiers.adaptive.neighbours import NearestReading, read_nearest
from tiers.adaptive.release import Lipschitz, PeopleRounds, Streams, released_values
from tiers.adaptive.rounds import Mode, Schedule, least_budget, schedule
from tiers.adaptive.shapes import Shape, distance_from
from tiers.adaptive.space import Places, Space
from tiers.adaptive.widths import confidence_each
from tiers.errors import InvalidParameterError

__all__ = ["Answer", "Plan", "count_inside", "density_at", "nearest_to"]

_Reading = TypeVar("_Reading", CountReading, DensityReading, NearestReading)
_Run = Callable[[Intervals, Rounds, Estimator], Elimination]
_ELIMINATION = 0.25  # of β; the rest is for what is said of those who are undecided at the end


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


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Generic[_Reading]):
    """What was read, the ledger after it, and who could be asked at all.

    `members` are the people of `ended`, by their places in the ledger; the others had too little budget left for a
    single round, and are counted in `excluded`. `spent` is what each person of the ledger spent on this question.
    """

    reading: _Reading
    ended: Elimination
    members: People
    excluded: int
    spent: Nanos
    ledger: PeopleLedger


def count_inside(
    plan: Plan,
    places: Places,
    shape: Shape,
    allowed: Nanos,
    ledger: PeopleLedger,
    streams: Streams,
    *,
    adaptive: bool = True,
    calibrated: float | None = None,
) -> Answer[CountReading]:
    """Return how many people are inside a shape.

    Guarantee:  of privacy, `PeopleRounds`'; of the answer, with 1 − β only people within `reading.margin` of the border
                can be on the wrong side of it (without `calibrated`).
    Args:       allowed: what each may spend on this question, in units of 10⁻⁹; capped by what is left.
                calibrated: the shape's inradius, to count undecided people below a calibrated threshold.
    Raises:     InvalidParameterError: as the parts that this is made of; nobody who can be asked.
    Example:
        >>> from tiers.accounting.charges import LedgerKind
        >>> from tiers.adaptive.budgeting import doubling_split
        >>> from tiers.adaptive.release import keyed_streams
        >>> from tiers.adaptive.shapes import Disc
        >>> plan = Plan(Space((Fraction(0),), Fraction(1, 8), (801,)), Mode.DISTANCE, doubling_split(4), 0.1)
        >>> ledger = PeopleLedger.even(LedgerKind.ZCDP, 3, Fraction(1))
        >>> args = plan, np.array([[80], [400], [440]]), Disc((50.0,), 20.0), ledger.remaining, ledger
        >>> answer = count_inside(*args, keyed_streams(bytes(32), "example"))
        >>> answer.reading.estimate, bool((answer.spent < 10**9).all())
        (2, True)
    """
    phi: Lipschitz = shape.signed_distance
    run: _Run = eliminate_far if adaptive else ask_all
    asked = _ask(plan, places, phi, allowed, ledger, streams, run)
    dimensions = plan.space.dimensions
    thresholds = 0.0 if calibrated is None else thresholds_of(asked.intervals, calibrated, min(dimensions, 2))
    final = asked.final(plan, adaptive)
    reading = read_count(asked.ended, final, thresholds)
    return asked.answer(reading, ledger)


def density_at(
    plan: Plan,
    places: Places,
    point: tuple[float, ...],
    bandwidth: float,
    allowed: Nanos,
    ledger: PeopleLedger,
    streams: Streams,
    *,
    adaptive: bool = True,
    unbiased: bool = False,
) -> Answer[DensityReading]:
    """Return the Gaussian kernel density of people at a public point; arguments as `count_inside` and `read_density`.

    Raises:     InvalidParameterError: as the parts that this is made of, a bandwidth of 0 among them.
    """
    if not (isinstance(bandwidth, float) and 0 < bandwidth < math.inf):
        raise InvalidParameterError("bandwidth", "a finite float > 0", bandwidth)

    def far(intervals: Intervals, release: Rounds, estimate: Estimator) -> Elimination:
        return eliminate_far(intervals, release, estimate, low=-math.inf, high=FAR * bandwidth)

    asked = _ask(plan, places, _from(point), allowed, ledger, streams, far if adaptive else ask_all)
    released = plan.space.dimensions if plan.mode is Mode.POINT else 1
    estimator = asked.estimator
    reading = read_density(asked.ended, asked.intervals, estimator, bandwidth, released, unbiased=unbiased)
    return asked.answer(reading, ledger)


def nearest_to(
    plan: Plan,
    places: Places,
    point: tuple[float, ...],
    nearest: int,
    allowed: Nanos,
    ledger: PeopleLedger,
    streams: Streams,
    *,
    adaptive: bool = True,
) -> Answer[NearestReading]:
    """Return the k people nearest to a public point; arguments as `count_inside`.

    Raises:     InvalidParameterError: k that is not 1 to n − 1 (n those who can be asked), or more than are left.
    """

    def near(intervals: Intervals, release: Rounds, estimate: Estimator) -> Elimination:
        return keep_nearest(intervals, release, estimate, nearest)

    if type(nearest) is not int or not 1 <= nearest < len(places):
        raise InvalidParameterError("k", f"an integer with 1 ≤ k < n = {len(places)}", nearest)
    asked = _ask(plan, places, _from(point), allowed, ledger, streams, near if adaptive else ask_all)
    return asked.answer(read_nearest(asked.ended, nearest), ledger)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
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

    def answer(self, reading: _Reading, before: PeopleLedger) -> Answer[_Reading]:
        spent: Nanos = self.after.spent - before.spent
        excluded = len(before) - len(self.members)
        return Answer(reading, self.ended, self.members, excluded, spent, self.after)


def _ask(
    plan: Plan,
    places: Places,
    phi: Lipschitz,
    allowed: Nanos,
    ledger: PeopleLedger,
    streams: Streams,
    run: _Run,
) -> _Asked:
    """Ask everybody who can pay for a first round."""
    if not len(places) == len(allowed) == len(ledger):
        raise InvalidParameterError("people", "a place, an allowance and a ledger each", (len(places), len(allowed)))
    most = np.minimum(allowed, ledger.remaining)
    least = math.ceil(least_budget(plan.space, plan.mode) / min(plan.parts))
    members = np.flatnonzero(most >= least)
    if not len(members):
        raise InvalidParameterError("allowances", f"at least one of {least} units or more", int(most.max(initial=0)))
    made = schedule(plan.space, plan.mode, most[members], plan.parts)
    values = released_values(plan.space, plan.mode, places[members], phi)
    if plan.mode is Mode.DISTANCE:
        values = values.reshape(-1)
    each = confidence_each(_ELIMINATION * plan.beta, len(members), made.rounds)
    intervals = made.intervals(each)
    release = PeopleRounds(made, values, ledger, members, streams)
    estimator: Estimator = phi if plan.mode is Mode.POINT else _itself
    points = _shifted(plan.space, release) if plan.mode is Mode.POINT else release
    ended = run(intervals, points, estimator)
    return _Asked(ended, intervals, estimator, made, members, release.ledger)


def _shifted(space: Space, release: PeopleRounds) -> Rounds:
    """Released points are counted from the box's corner; shapes are not."""
    corner = np.array([float(value) for value in space.corner])

    def shown(place: int, who: People, /) -> tuple[np.ndarray, np.ndarray]:
        values, admitted = release(place, who)
        return values + corner, admitted

    return shown


def _from(point: tuple[float, ...]) -> Lipschitz:
    return lambda points: distance_from(point, points)


def _itself(values: np.ndarray) -> np.ndarray:
    return values
