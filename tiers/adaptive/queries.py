"""A question about many people's places, from budgets to an answer: adaptive, or by the baseline."""

import math

import numpy.typing as npt

from tiers.accounting.people import Nanos, PeopleLedger
from tiers.adaptive.asking import Answer, Opening, Plan, Run, ask, drawing
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
from tiers.adaptive.release import Lipschitz, Streams
from tiers.adaptive.rounds import Mode
from tiers.adaptive.shapes import Shape, distance_from
from tiers.adaptive.space import Places
from tiers.errors import InvalidParameterError

__all__ = [
    "Answer",
    "Plan",
    "count_inside",
    "count_rounds",
    "density_at",
    "density_rounds",
    "distances_from",
    "nearest_rounds",
    "nearest_to",
]


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
        >>> from fractions import Fraction
        >>> import numpy as np
        >>> from tiers.adaptive.shapes import Disc
        >>> from tiers.adaptive.space import Space
        >>> plan = Plan(Space((Fraction(0),), Fraction(1, 8), (801,)), Mode.DISTANCE, doubling_split(4), 0.1)
        >>> ledger = PeopleLedger.even(LedgerKind.ZCDP, 3, Fraction(1))
        >>> args = plan, np.array([[80], [400], [440]]), Disc((50.0,), 20.0), ledger.remaining, ledger
        >>> answer = count_inside(*args, keyed_streams(bytes(32), "example"))
        >>> answer.reading.estimate, bool((answer.spent < 10**9).all())
        (2, True)
    """
    opening = drawing(plan, places, shape.signed_distance, ledger, streams)
    return count_rounds(plan, shape, allowed, ledger, opening, adaptive=adaptive, calibrated=calibrated)


def count_rounds(
    plan: Plan,
    shape: Shape,
    allowed: Nanos,
    ledger: PeopleLedger,
    opening: Opening,
    *,
    adaptive: bool = True,
    calibrated: float | None = None,
) -> Answer[CountReading]:
    """Return how many people are inside a shape, by rounds of any origin; else as `count_inside`."""
    run: Run = eliminate_far if adaptive else ask_all
    asked = ask(plan, shape.signed_distance, allowed, ledger, opening, run)
    thresholds: npt.ArrayLike = 0.0
    if calibrated is not None:
        thresholds = thresholds_of(asked.intervals, calibrated, min(plan.space.dimensions, 2))
    final = asked.final(plan, adaptive)
    return asked.answer(read_count(asked.ended, final, thresholds), final, ledger)


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
    opening = drawing(plan, places, distances_from(point), ledger, streams)
    return density_rounds(plan, point, bandwidth, allowed, ledger, opening, adaptive=adaptive, unbiased=unbiased)


def density_rounds(
    plan: Plan,
    point: tuple[float, ...],
    bandwidth: float,
    allowed: Nanos,
    ledger: PeopleLedger,
    opening: Opening,
    *,
    adaptive: bool = True,
    unbiased: bool = False,
) -> Answer[DensityReading]:
    """Return the density at a point, by rounds of any origin; else as `density_at`."""
    if not (isinstance(bandwidth, float) and 0 < bandwidth < math.inf):
        raise InvalidParameterError("bandwidth", "a finite float > 0", bandwidth)

    def far(intervals: Intervals, release: Rounds, estimate: Estimator) -> Elimination:
        return eliminate_far(intervals, release, estimate, low=-math.inf, high=FAR * bandwidth)

    asked = ask(plan, distances_from(point), allowed, ledger, opening, far if adaptive else ask_all)
    released = plan.space.dimensions if plan.mode is Mode.POINT else 1
    reading = read_density(asked.ended, asked.intervals, asked.estimator, bandwidth, released, unbiased=unbiased)
    return asked.answer(reading, asked.final(plan, adaptive), ledger)


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
    opening = drawing(plan, places, distances_from(point), ledger, streams)
    return nearest_rounds(plan, point, nearest, allowed, ledger, opening, adaptive=adaptive)


def nearest_rounds(
    plan: Plan,
    point: tuple[float, ...],
    nearest: int,
    allowed: Nanos,
    ledger: PeopleLedger,
    opening: Opening,
    *,
    adaptive: bool = True,
) -> Answer[NearestReading]:
    """Return the k nearest, by rounds of any origin; else as `nearest_to`."""

    def near(intervals: Intervals, release: Rounds, estimate: Estimator) -> Elimination:
        return keep_nearest(intervals, release, estimate, nearest)

    if type(nearest) is not int or not 1 <= nearest < len(ledger):
        raise InvalidParameterError("k", f"an integer with 1 ≤ k < n = {len(ledger)}", nearest)
    asked = ask(plan, distances_from(point), allowed, ledger, opening, near if adaptive else ask_all)
    return asked.answer(read_nearest(asked.ended, nearest), asked.final(plan, adaptive), ledger)


def distances_from(point: tuple[float, ...]) -> Lipschitz:
    """Return the function of points that gives their distances from a public one."""
    return lambda points: distance_from(point, points)
