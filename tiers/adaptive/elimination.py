"""Private iterative elimination: rounds of noisy answers, and after each nobody is asked again who is decided.

It sees released values only. Each person's interval after each round misses with probability β/(n·c), so with 1 − β all
n·c of them hold; the rounds that nobody was asked for count as draws that were not looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tiers.accounting.people import People
from tiers.adaptive.widths import Table
from tiers.errors import InvalidParameterError

__all__ = [
    "Elimination",
    "Estimator",
    "Fate",
    "Intervals",
    "Rounds",
    "Values",
    "ask_all",
    "averaging",
    "eliminate_far",
    "keep_nearest",
]

Values: TypeAlias = npt.NDArray[np.float64]
Estimator: TypeAlias = Callable[[Values], Values]


class Fate(IntEnum):
    """What became of a person: S₁, S₀, still undecided, no longer looked at, or out of budget on the way."""

    UNDECIDED = 0
    BELOW = 1
    ABOVE = 2
    DROPPED = 3


class Rounds(Protocol):
    """What releases a round: it charges first, and noise is drawn only for whom the charge admits."""

    def __call__(self, place: int, who: People, /) -> tuple[Values, npt.NDArray[np.bool_]]:
        """Return the released values of those admitted, in their order, and a mask over `who` of who was admitted."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """What is known of the noise in advance, by class of people and after each round: weights, and how far off.

    Args:       classes: of each person, 0 ≤ class < rows. weight: of the newest value in the running average, in
                (0, 1]. sigma: standard deviation of that average, > 0. width: h, the half-width of its interval, ≥ 0.
                The tables have a row a class and a column a round.
    Raises:     InvalidParameterError: other shapes, nobody, no round, or numbers that are not such.
    Example:
        >>> averaging(np.zeros(3, np.int32), np.array([[0.5, 1.5]]), np.ones((1, 2))).weight.tolist()
        [[1.0, 0.75]]
    """

    classes: npt.NDArray[np.int32]
    weight: Table
    sigma: Table
    width: Table

    def __post_init__(self) -> None:
        tables = (self.weight, self.sigma, self.width)
        if any(table.ndim != 2 or table.shape != self.width.shape or not table.size for table in tables):
            raise InvalidParameterError("rounds", "a number for each class and round", self.width.shape)
        if not all(np.isfinite(table).all() for table in tables) or not (
            (self.weight > 0).all() and (self.weight <= 1).all() and (self.sigma > 0).all() and (self.width >= 0).all()
        ):
            raise InvalidParameterError("intervals", "weights in (0, 1], σ > 0 and widths ≥ 0, all finite", "others")
        if self.classes.ndim != 1 or self.classes.dtype.kind != "i" or not len(self.classes):
            raise InvalidParameterError("classes", "one integer a person, of at least one", self.classes.shape)
        if self.classes.min() < 0 or self.classes.max() >= len(self.width):
            raise InvalidParameterError("classes", f"0 to {len(self.width) - 1}", int(self.classes.max()))

    @property
    def rounds(self) -> int:
        """Return c, the most rounds there can be."""
        return int(self.width.shape[1])


def averaging(classes: npt.NDArray[np.int32], precision: Table, width: Table) -> Intervals:
    """Return the intervals of independent rounds, averaged with their precisions for weights.

    Law:        weight_j = ρ_j/ρ̄_j and σ_j = 1/√(2ρ̄_j), ρ̄_j = Σ_{s ≤ j} ρ_s.
    Args:       precision: ρ of each class and round, > 0.
    Raises:     InvalidParameterError: precisions that are not positive and finite; as `Intervals`.
    Example:
        >>> averaging(np.zeros(1, np.int32), np.array([[0.5, 1.5]]), np.ones((1, 2))).sigma.tolist()
        [[1.0, 0.5]]
    """
    if precision.ndim != 2 or not (np.isfinite(precision).all() and (precision > 0).all()):
        raise InvalidParameterError("precision", "a positive finite number for each class and round", precision.shape)
    total = np.cumsum(precision, axis=1)
    return Intervals(classes, precision / total, 1 / np.sqrt(2 * total), width)


@dataclass(frozen=True, slots=True, eq=False)
class Elimination:
    """What an elimination ends with; all of it is a function of released values, and may be published.

    `answered` is in how many rounds each person took part, `average` and `estimate` what these gave (NaN where none).
    """

    rounds: int
    fate: npt.NDArray[np.int8]
    answered: npt.NDArray[np.int16]
    average: Values
    estimate: Values

    def of(self, fate: Fate) -> People:
        """Return the people of one fate, rising."""
        found: People = np.flatnonzero(self.fate == fate)
        return found

    def survivors(self, place: int) -> People:
        """Return G_j, who was left after round j: asked in a later round, or neither below nor above at the end."""
        never = (self.fate == Fate.UNDECIDED) | (self.fate == Fate.DROPPED)
        later = (self.answered > place) | (never & (self.answered == place))
        found: People = np.flatnonzero(later)
        return found


def eliminate_far(
    intervals: Intervals, release: Rounds, estimate: Estimator, *, low: float = 0.0, high: float = 0.0
) -> Elimination:
    """Run rounds until everybody's φ is surely below `low` or above `high`, or the rounds are over.

    Law:        after each round f = g(average), h its width; f < low − h goes to S₁, f > high + h to S₀, the rest stay.
    Guarantee:  with 1 − β (the β of the widths), every φ in S₁ is below `low` and every φ in S₀ above `high`. Whose
                budget does not admit a round drops out undecided; nothing more is spent of it.
    Raises:     InvalidParameterError: low > high, or NaN.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, algorithm 4 and lemma 5.2.
    Example:
        >>> intervals = averaging(np.zeros(2, np.int32), np.ones((1, 1)), np.full((1, 1), 0.5))
        >>> ended = eliminate_far(intervals, lambda _, who: (np.array([-2.0, 0.1]), who >= 0), lambda v: v)
        >>> ended.of(Fate.BELOW).tolist(), ended.of(Fate.UNDECIDED).tolist()
        ([0], [1])
    """
    if not low <= high:
        raise InvalidParameterError("bounds", "low ≤ high", (low, high))
    state = _State(intervals, estimate)
    for place in range(intervals.rounds):
        found, width = state.ask(place, release)
        below, above = found < low - width, found > high + width
        state.settle(below, Fate.BELOW)
        state.settle(above, Fate.ABOVE)
        state.keep(~(below | above))
        if not len(state.left):
            break
    return state.ended()


def keep_nearest(intervals: Intervals, release: Rounds, estimate: Estimator, nearest: int) -> Elimination:
    """Run rounds until only k people are left whose φ may be among the k least, or the rounds are over.

    Law:        after each round R is the k-th least upper end f + h of those left; whose lower end f − h exceeds it,
                goes.
    Guarantee:  with 1 − β the k people with the least φ are in every G_j, but for those of them who dropped out (whose
                budget did not admit a round): an eliminated person has φ ≥ f − h > R ≥ φ of k others.
    Args:       nearest: k, 1 ≤ k < n.
    Raises:     InvalidParameterError: another k.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, algorithm 5 and lemma 5.3.
    Example:
        >>> intervals = averaging(np.zeros(3, np.int32), np.ones((1, 1)), np.full((1, 1), 0.5))
        >>> ended = keep_nearest(intervals, lambda _, who: (np.array([1.0, 9.0, 1.2]), who >= 0), lambda v: v, 1)
        >>> ended.of(Fate.UNDECIDED).tolist(), ended.of(Fate.ABOVE).tolist()
        ([0, 2], [1])
    """
    people = len(intervals.classes)
    if type(nearest) is not int or not 1 <= nearest < people:
        raise InvalidParameterError("k", f"an integer with 1 ≤ k < n = {people}", nearest)
    state = _State(intervals, estimate)
    for place in range(intervals.rounds):
        if len(state.left) <= nearest:
            break
        found, width = state.ask(place, release)
        if len(found) > nearest:
            bar = np.partition(found + width, nearest - 1)[nearest - 1]
            beyond = found - width > bar
            state.settle(beyond, Fate.ABOVE)
            state.keep(~beyond)
    return state.ended()


def ask_all(intervals: Intervals, release: Rounds, estimate: Estimator) -> Elimination:
    """Run all rounds and decide nobody: the baseline, which spends everything.

    Example:
        >>> intervals = averaging(np.zeros(1, np.int32), np.ones((1, 1)), np.ones((1, 1)))
        >>> ask_all(intervals, lambda _, who: (np.array([9.0]), who >= 0), lambda v: v).estimate.tolist()
        [9.0]
    """
    state = _State(intervals, estimate)
    for place in range(intervals.rounds):
        state.ask(place, release)
    return state.ended()


class _State:
    """The running averages of those left."""

    __slots__ = ("answered", "average", "estimate", "fate", "found", "intervals", "left", "rounds")

    def __init__(self, intervals: Intervals, estimate: Estimator) -> None:
        people = len(intervals.classes)
        self.intervals, self.estimate, self.rounds = intervals, estimate, 0
        self.left: People = np.arange(people, dtype=np.intp)
        self.fate = np.full(people, Fate.UNDECIDED, np.int8)
        self.answered = np.zeros(people, np.int16)
        self.found = np.full(people, np.nan)
        self.average: Values | None = None

    def ask(self, place: int, release: Rounds) -> tuple[Values, Values]:
        """Take one round's values into the averages; return each estimate and its width, of those still left."""
        values, admitted = release(place, self.left)
        self.rounds = place + 1
        if admitted.shape != self.left.shape or len(values) != int(admitted.sum()):
            raise InvalidParameterError("round", "a decision a person and a value an admitted one", values.shape)
        self.settle(~admitted, Fate.DROPPED)
        self.keep(admitted)
        who, classes = self.left, self.intervals.classes[self.left]
        if self.average is None:
            self.average = np.full((len(self.fate), *values.shape[1:]), np.nan)
        weight = self.intervals.weight[:, place][classes]
        before = self.average[who] if place else values
        mean = before + (values - before) * weight.reshape(-1, *[1] * (values.ndim - 1))
        self.average[who] = mean
        self.answered[who] = place + 1
        found = np.asarray(self.estimate(mean), np.float64)
        if found.shape != who.shape:
            raise InvalidParameterError("estimate", "one number a person", found.shape)
        self.found[who] = found
        return found, self.intervals.width[:, place][classes]

    def settle(self, mask: npt.NDArray[np.bool_], fate: Fate) -> None:
        self.fate[self.left[mask]] = fate

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        self.left = self.left[mask]

    def ended(self) -> Elimination:
        assert self.average is not None, "there is at least one round"
        return Elimination(self.rounds, self.fate, self.answered, self.average, self.found)
