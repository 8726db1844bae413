"""Exact-to-grid (ε, δ) of a vector release: privacy losses of the touched bins, composed, always rounded up.

Each bin's δ(ε) curve is joined at grid points by straight lines in e^ε, which lies above it because the curve is
convex; the joined curve is a law of losses on the grid, and laws of losses add by convolution, here in exact integers.
"""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import check_delta
from tiers.noise.hockey import delta_of_shift, delta_units, epsilon_of_shift, float_above, gamma_units
from tiers.noise.losses import MASS_UP, Losses
from tiers.noise.tails import Tails
from tiers.sensitivity import ChangeSet

__all__ = ["VECTORS_LIMIT", "LogConcave", "Release", "compose", "delta_over", "epsilon_over", "maximal_changes"]

VECTORS_LIMIT = 64
_BITS = 192
_POINTS = 1024
_DEAR_POINTS = 128
_BINS_LIMIT = 1024


class LogConcave(Protocol):
    """A symmetric log-concave lattice law, as its exact (ε, δ) reads it: hashable, with tails and a variance."""

    def tails(self, bits: int) -> Tails:
        """Return masses and tails in units of 2^−bits."""
        ...

    def variance(self) -> float:
        """Return Var X."""
        ...

    def losses(self, shift: int) -> Losses | None:
        """Return the losses of one entry under a shift, or None where they are too many."""
        ...

    def __hash__(self) -> int: ...


def delta_over(law: LogConcave, epsilon: Fraction, change_set: ChangeSet) -> float:
    """Return δ(ε) of a law, one draw an entry, maximised over the change set and over both directions, rounded up.

    Exact to 10⁻¹² for one entry; for several an upper bound that exceeds it by less than 10⁻⁴ of itself
    where the law fits a table, else by less than 10⁻².

    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> round(delta_over(Skellam(Fraction(1)), Fraction(1), ChangeSet.scalar(1)), 9)
        0.029254486
    """
    if not isinstance(epsilon, Fraction) or not 0 <= epsilon <= 10**4:
        raise InvalidParameterError("epsilon", "a Fraction with 0 ≤ ε ≤ 10⁴", epsilon)
    if change_set.bins == 1:
        return delta_of_shift(law.tails, change_set.total, epsilon)
    return max(release.delta(_float_below(epsilon)) for release in _releases(law, change_set))


def _float_below(value: Fraction) -> float:
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
    return max(release.epsilon(check_delta(delta)) for release in _releases(law, change_set))


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
    found: list[tuple[int, ...]] = []

    def split(left: int, bins: int, most: int, taken: tuple[int, ...]) -> None:
        if len(found) > limit:
            return
        if left == 0:
            found.append(taken)
            return
        for part in range(min(left, most), 0, -1):
            if part * bins < left or len(found) > limit:
                return
            split(left - part, bins - 1, part, (*taken, part))

    if min(change_set.bins, change_set.total) > _BINS_LIMIT:
        raise InvalidParameterError("change set", f"at most {_BINS_LIMIT} touched bins", change_set)
    split(change_set.total, change_set.bins, change_set.step, ())
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
        mixed = self.others.masses @ self.last.deltas(epsilon - self.others.values)
        return min(1.0, float(mixed + self.others.infinite) * MASS_UP + 1e-300)

    def epsilon(self, delta: Fraction) -> float:
        """Return an ε with δ(ε) ≤ `delta`, within 10⁻¹² of the least and never below it; inf if there is none."""
        low, high = 0.0, max(float(law.values[-1]) if len(law.values) else 0.0 for law in (self.others, self.last))
        high = 2 * high + 1
        if Fraction(self.delta(high)) > delta:
            return math.inf
        if Fraction(self.delta(0.0)) <= delta:
            return 0.0
        while high - low > 1e-13 * high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (low, middle) if Fraction(self.delta(middle)) <= delta else (middle, high)
        return high


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
    single = {shift: _single(law, shift, points or _DEAR_POINTS) for shift in set(change)}
    *others, last = sorted(change)
    if not others:
        return Release(Losses(np.zeros(1), np.ones(1), 0.0), single[last])
    if len(others) == 1:
        return Release(single[others[0]], single[last])
    points = points or _POINTS
    spread = sum(shift * shift for shift in others) / law.variance()
    ends = {shift: float(np.abs(single[shift].values[[0, -1]]).max()) for shift in set(others)}
    most = min(sum(ends[shift] for shift in others), max(ends.values()) + spread / 2 + 11 * math.sqrt(spread))
    width, whole = most / points, None
    for shift, count in Counter(others).items():
        part = _power(_gridded(single[shift], width, points), count, points)
        whole = part if whole is None else _plus(whole, part, points)
    assert whole is not None
    masses, infinite = whole
    return Release(Losses(width * np.arange(-points, points + 1, dtype=np.float64), masses, infinite), single[last])


_Grid = tuple[NDArray[np.float64], float]


def _gridded(law: Losses, width: float, points: int) -> _Grid:
    """Return the law whose δ curve joins the exact one at multiples of `width` by straight lines in e^ε: it is above.

    Each loss is split between its two neighbours on the grid so that both sums, of mass and of mass·e^(−ℓ), stay.
    """
    masses = np.zeros(2 * points + 1)
    values = law.values + 1e-11
    place = np.floor(values / width).astype(np.int64)
    upper = np.clip(np.expm1(place * width - values) / math.expm1(-width), 0.0, 1.0)
    upper = np.minimum(1.0, upper + 1e-11)
    infinite = law.infinite
    for share, at in ((1 - upper, place), (upper, place + 1)):
        weight = law.masses * share * MASS_UP
        infinite += float(weight[at > points].sum())
        within = at <= points
        np.add.at(masses, np.maximum(at[within], -points) + points, weight[within])
    return masses, infinite


def _plus(one: _Grid, other: _Grid, points: int) -> _Grid:
    """Return the law of the sum of two independent losses; below the grid counts as its end, above as infinite."""
    sums = np.convolve(one[0], other[0]) * MASS_UP
    masses = sums[points : 3 * points + 1].copy()
    masses[0] += sums[:points].sum()
    total = float(one[0].sum()) * other[1] + one[1] * (float(other[0].sum()) + other[1])
    return masses, (float(sums[3 * points + 1 :].sum()) + total) * MASS_UP


def _power(law: _Grid, count: int, points: int) -> _Grid:
    result, square = None, law
    while count:
        if count & 1:
            result = square if result is None else _plus(result, square, points)
        count >>= 1
        square = _plus(square, square, points) if count else square
    assert result is not None
    return result


@lru_cache(maxsize=64)
def _single(law: LogConcave, shift: int, points: int) -> Losses:
    """Return the losses of one entry: from the law's table, or joined from a few exact δ where masses are dear."""
    known = law.losses(shift)
    return known if known is not None else _joined(law.tails(_BITS), shift, points)


def _largest_loss(tails: Tails, shift: int) -> float:
    """Return the loss at the integer beyond which about 2^−80 remains: what is left is counted as infinite."""
    low, high = 0, tails.reach + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tails.tail(middle) >> (_BITS - 80) else (low, middle)
    while high > 0 and tails.mass(high + shift) <= tails.error:
        high -= 1 + high // 64
    return math.log(max(2, tails.mass(max(0, high))) / max(1, tails.mass(max(0, high) + shift))) + 1e-9


def _joined(tails: Tails, shift: int, points: int) -> Losses:
    """Return the law whose δ curve joins the exact one at multiples of a width by straight lines in e^ε."""
    largest = _largest_loss(tails, shift)
    width = Fraction(largest / points)
    one, count = 1 << _BITS, points + 1
    growth, shrink = gamma_units(width, _BITS), gamma_units(-width, _BITS)
    upper, below = [], []
    gamma, inverse = one, one  # floored powers: δ at a smaller γ is not smaller, and `place` units bound the inverse
    for place in range(count + 1):
        value, error = delta_units(tails, shift, gamma)
        upper.append(value + error)
        below.append(one - inverse + ((inverse + place + 1) * upper[-1] >> _BITS) + 1)
        gamma, inverse = gamma * growth >> _BITS, inverse * shrink >> _BITS
    curve = [*below[:0:-1], *upper]
    rises = [after - before for before, after in pairwise(curve)]
    masses = [((rises[0] << _BITS) // (growth + 1 - one)) + one - curve[0] + 2]
    for before, after in zip(rises, [*rises[1:], 0], strict=True):
        masses.append((((after << _BITS) - (growth + 1) * before) // (growth - one)) + 2)
    sizes = np.array([max(0, mass) / one for mass in masses]) * MASS_UP
    places = float(width) * np.arange(-count, count + 1, dtype=np.float64)
    return Losses(places + 1e-12, sizes, curve[-1] / one * MASS_UP)
