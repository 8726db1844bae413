"""Exact-to-grid (ε, δ) of a vector release: privacy losses of the touched bins, composed, always rounded up.

Each bin's δ(ε) curve is joined at grid points by straight lines in e^ε, which lies above it because the curve is
convex; the joined curve is a law of losses on the grid, and laws of losses add by convolution, here in exact integers.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import check_delta, least, log_excess
from tiers.noise.hockey import delta_of_shift, epsilon_of_shift, float_above
from tiers.noise.joined import joined_losses
from tiers.noise.loss_grid import gridded, plus, power
from tiers.noise.losses import Losses, paid
from tiers.noise.tails import Tails
from tiers.sensitivity import ChangeSet

__all__ = [
    "VECTORS_LIMIT",
    "LogConcave",
    "Release",
    "compose",
    "delta_over",
    "epsilon_over",
    "float_below",
    "holds_over",
    "least_over",
    "maximal_changes",
]

VECTORS_LIMIT = 64
_BITS = 192
_POINTS = 1024
_DEAR_POINTS = 128
_BINS_LIMIT = 1024
_STILL = Losses(np.zeros(1), np.ones(1), 0.0)


class LogConcave(Protocol):
    """A symmetric log-concave lattice law, as its exact (ε, δ) reads it: hashable, with tails and a variance."""

    def tails(self, bits: int) -> Tails:
        """Return masses and tails in units of 2^−bits."""
        ...

    def variance(self) -> float:
        """Return Var X."""
        ...

    def losses(self, change: tuple[int, ...]) -> Losses | None:
        """Return the losses under a change of these entries, or None where they are not known or too many."""
        ...

    def __hash__(self) -> int: ...


def delta_over(law: LogConcave, epsilon: Fraction, change_set: ChangeSet) -> float:
    """Return δ(ε) of a law, one draw an entry, maximised over the change set and over both directions, rounded up.

    Exact to 10⁻¹² for one entry, and to 10⁻¹⁰ for two entries or for two-sided geometrics; for more an upper bound: it
    exceeds δ by less than 10⁻⁴ of itself where the losses lie dense (a deviation of 4 steps and more), else by less
    than 10⁻².

    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> round(delta_over(Skellam(Fraction(1)), Fraction(1), ChangeSet.scalar(1)), 9)
        0.029254486
    """
    if not isinstance(epsilon, Fraction) or not 0 <= epsilon <= 10**4:
        raise InvalidParameterError("epsilon", "a Fraction with 0 ≤ ε ≤ 10⁴", epsilon)
    if change_set.bins == 1:
        return delta_of_shift(law.tails, change_set.total, epsilon)
    return max(release.delta(float_below(epsilon)) for release in _releases(law, change_set))


def float_below(value: Fraction) -> float:
    """Return a double that is not above `value`.

    Example:
        >>> float_below(Fraction(1, 10)) <= Fraction(1, 10)
        True
    """
    return -float_above(-value)


def epsilon_over(law: LogConcave, delta: Fraction, change_set: ChangeSet) -> float:
    """Return the least ε at which a law is (ε, δ)-DP over the whole change set, rounded up.

    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> round(epsilon_over(Skellam(Fraction(100)), Fraction(1, 10**6), ChangeSet.scalar(1)), 9)
        0.271552112
    """
    if change_set.bins == 1:
        return epsilon_of_shift(law.tails, change_set.total, delta)
    check_delta(delta)
    most = -1.0
    for release in _releases(law, change_set):
        if most < 0 or not Fraction(release.delta(most)) <= delta:  # else it needs no more than another
            most = max(most, release.epsilon(delta))
    return most


def holds_over(law: LogConcave, epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> bool:
    """Return whether δ(ε) ≤ `delta` over the whole change set; the first change that exceeds it decides.

    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> holds_over(Skellam(Fraction(8)), Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1))
        True
    """
    if change_set.bins == 1:
        return Fraction(delta_over(law, epsilon, change_set)) <= delta
    loss = float_below(epsilon)
    return all(Fraction(compose(law, change).delta(loss)) <= delta for change in maximal_changes(change_set))


def least_over(
    make: Callable[[Fraction], LogConcave],
    guess: Fraction,
    wish: tuple[Fraction, Fraction, ChangeSet],
    span: tuple[Fraction, Fraction],
) -> Fraction:
    """Return the least parameter of 12 digits at which a law is (ε, δ)-DP over a change set, checked on all changes.

    On a vector the change that is worst at the guess is calibrated for alone; all are where that is not enough. Where
    a law is too wide for a table, its δ on a vector is dear and 11 digits must do: noise at most 10⁻¹⁰ too wide.

    Args:       make: the law of a parameter, with δ falling in it. wish: ε, δ and the change set. span: least, most.
    Raises:     InvalidParameterError: not even `most` is enough, or too many change vectors to maximise over.
    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> wish = Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1)
        >>> float(least_over(Skellam, Fraction(7), wish, (Fraction(1), Fraction(10))))
        7.12043726159
    """
    epsilon, delta, change_set = wish
    changes = maximal_changes(change_set) if change_set.bins > 1 else ()
    near = make(min(max(guess, span[0]), span[1]))
    digits = 11 if changes and near.losses((changes[0][-1],)) is None else 12
    if len(changes) > 1:
        loss = float_below(epsilon)
        worst = max(changes, key=lambda change: compose(near, change).delta(loss))
        guess = least(lambda x: log_excess(compose(make(x), worst).delta(loss), delta), guess, *span, digits)
        if holds_over(make(guess), epsilon, delta, change_set):
            return guess
    return least(lambda x: log_excess(delta_over(make(x), epsilon, change_set), delta), guess, *span, digits)


@lru_cache(maxsize=64)
def _releases(law: LogConcave, change_set: ChangeSet) -> "tuple[Release, ...]":
    return tuple(compose(law, change) for change in maximal_changes(change_set))


@lru_cache(maxsize=1024)
def maximal_changes(change_set: ChangeSet, limit: int = VECTORS_LIMIT) -> tuple[tuple[int, ...], ...]:
    """Return the change vectors that no other dominates: every way to split Δ₁ over the bins, largest entry first.

    For log-concave noise a larger shift of one bin dominates a smaller one in the Blackwell order, and products keep
    the order, so the worst change uses all of Δ₁.

    Raises:     InvalidParameterError: more than `limit` of them.
    Example:
        >>> maximal_changes(ChangeSet(bins=2, step=3, total=4))
        ((3, 1), (2, 2))
    """
    if min(change_set.bins, change_set.total) > _BINS_LIMIT:
        raise InvalidParameterError("change set", f"at most {_BINS_LIMIT} touched bins", change_set)
    found: list[tuple[int, ...]] = []
    open_: list[tuple[int, int, int, tuple[int, ...]]] = [(change_set.total, change_set.bins, change_set.step, ())]
    while open_ and len(found) <= limit:  # no recursion: a change may have more entries than Python has frames
        left, bins, most, taken = open_.pop()
        if left == 0:
            found.append(taken)
            continue
        largest, least_part = min(left, most), -(-left // bins)
        parts = range(max(least_part, largest - limit), largest + 1)  # each leads to a change, so no more are needed
        open_.extend((left - part, bins - 1, part, (*taken, part)) for part in parts)
    if len(found) > limit:
        raise InvalidParameterError("change set", f"at most {limit} maximal change vectors", change_set)
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Release:
    """A vector's release under one change: the composed losses of all bins but one, on a grid, and those of the last.

    Law:        δ(ε) ≤ Σ_ℓ mass(ℓ)·δ_last(ε − ℓ) + infinite: the last bin is never put on a grid.
    Example:
        >>> still = Losses(np.zeros(1), np.ones(1), 0.0)
        >>> round(Release(still, Losses(np.array([1.0]), np.ones(1), 0.0)).delta(0.0), 6)
        0.632121
    """

    others: Losses
    last: Losses

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if self.others is _STILL:
            return min(1.0, self.last.delta(epsilon))
        left = epsilon - self.others.values
        left -= 2.0**-52 * np.abs(left)  # so that its rounding does not count
        mixed = (self.others.masses * self.last.deltas(left)).sum()  # `@` would wake threads for a few thousand terms
        return min(1.0, float(mixed + self.others.infinite) * paid(len(left)) + 1e-300)

    def epsilon(self, delta: Fraction) -> float:
        """Return an ε with δ(ε) ≤ `delta`, within 10⁻¹² of the least and never below it; inf if there is none."""
        low, high = 0.0, max(float(law.values[-1]) if len(law.values) else 0.0 for law in (self.others, self.last))
        high = 2 * high + 1
        above, below = self._log_excess(low, delta), self._log_excess(high, delta)
        if below > 0:
            return math.inf
        if above <= 0:
            return 0.0
        turn = 0
        while high - low > 1e-13 * high:
            turn += 1
            share = above / (above - below) if turn % 4 else 0.5  # a secant; a bisection bounds the number of steps
            least_step = min(max(1e-13 * high, (high - low) / 64 if turn % 2 else 0.0), (high - low) / 2)
            middle = low + min(max(share * (high - low), least_step), high - low - least_step)
            if not low < middle < high:
                break
            found = self._log_excess(middle, delta)
            low, above, high, below = (middle, found, high, below) if found > 0 else (low, above, middle, found)
        return high

    def _log_excess(self, epsilon: float, delta: Fraction) -> float:
        return log_excess(self.delta(epsilon), delta)


def compose(law: LogConcave, change: tuple[int, ...], points: int = 0) -> Release:
    """Return the release of a vector under `change`, each entry with its own noise.

    Args:       law: of one entry. change: |d_j| > 0 of the touched bins. points: grid points on each side for more than
                two bins; by default 1,024, or 128 where masses are dear.
    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> noise = Skellam(Fraction(712043726159, 10**11))
        >>> f"{compose(noise, (1, 1)).delta(1.0):.1e}"
        '5.6e-04'
    """
    whole = law.losses(change)
    if whole is not None:
        return Release(_STILL, whole)
    single = {shift: _single(law, shift, points or _DEAR_POINTS) for shift in set(change)}
    *others, last = sorted(change)
    if not others:
        return Release(_STILL, single[last])
    if len(others) == 1:
        return Release(single[others[0]], single[last])
    points = points or _POINTS
    spread = sum(shift * shift for shift in others) / law.variance()
    ends = {shift: float(np.abs(single[shift].values[[0, -1]]).max()) for shift in set(others)}
    most = min(sum(ends[shift] for shift in others), max(ends.values()) + spread / 2 + 11 * math.sqrt(spread))
    width, grid = most / points, None
    for shift, count in Counter(others).items():
        part = power(gridded(single[shift], width, points), count, points)
        grid = part if grid is None else plus(grid, part, points)
    assert grid is not None
    masses, infinite = grid
    return Release(Losses(width * np.arange(-points, points + 1, dtype=np.float64), masses, infinite), single[last])


@lru_cache(maxsize=64)
def _single(law: LogConcave, shift: int, points: int) -> Losses:
    """Return the losses of one entry: from the law's table, or joined from a few exact δ where masses are dear."""
    known = law.losses((shift,))
    return known if known is not None else joined_losses(law.tails(_BITS), shift, points)
