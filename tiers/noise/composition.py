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

from flint import fmpz_poly

from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import check_delta
from tiers.noise.hockey import TailsOf, delta_of_shift, delta_units, epsilon_of_shift, float_above, gamma_units
from tiers.noise.tails import Tails
from tiers.sensitivity import ChangeSet

__all__ = ["VECTORS_LIMIT", "LogConcave", "LossLaw", "compose", "delta_over", "epsilon_over", "maximal_changes"]

VECTORS_LIMIT = 64
_BITS = 192
_POINTS = 4096
_DEAR_POINTS = 256
_BINS_LIMIT = 1024


class LogConcave(Protocol):
    """A symmetric log-concave lattice law, as its exact (ε, δ) reads it: hashable, with tails and a variance."""

    def tails(self, bits: int) -> Tails:
        """Return masses and tails in units of 2^−bits."""
        ...

    def variance(self) -> float:
        """Return Var X."""
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
    return max(losses.delta(epsilon) for losses in _losses(law, change_set))


def epsilon_over(law: LogConcave, delta: Fraction, change_set: ChangeSet) -> float:
    """Return the least ε at which a law is (ε, δ)-DP over the whole change set, rounded up.

    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> round(epsilon_over(Skellam(Fraction(100)), Fraction(1, 10**6), ChangeSet.scalar(1)), 9)
        0.271552112
    """
    if change_set.bins == 1:
        return epsilon_of_shift(law.tails, change_set.total, delta)
    return max(losses.epsilon(check_delta(delta)) for losses in _losses(law, change_set))


@lru_cache(maxsize=64)
def _losses(law: LogConcave, change_set: ChangeSet) -> "tuple[LossLaw, ...]":
    return tuple(compose(law.tails, change, law.variance()) for change in maximal_changes(change_set))


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


@dataclass(frozen=True, slots=True)
class LossLaw:
    """A law of privacy losses on the grid i·width, in units of 2^−192, that dominates the true one.

    Law:        δ(ε) ≤ infinite + Σ_{i·width > ε} masses[i]·(1 − e^(ε − i·width)) for every ε ≥ 0.
    Example:
        >>> LossLaw(width=Fraction(1), first=0, masses=(2**191, 2**191), infinite=0).delta(Fraction(1))
        0.0
    """

    width: Fraction
    first: int
    masses: tuple[int, ...]
    infinite: int

    def delta(self, epsilon: Fraction) -> float:
        """Return δ(ε) of this law, rounded up."""
        start = math.floor(epsilon / self.width) + 1
        total, step = self.infinite, gamma_units(-self.width, _BITS)
        kept = gamma_units(epsilon - start * self.width, _BITS) - 1
        for place in range(start, self.first + len(self.masses)):
            if place >= self.first:
                total += (self.masses[place - self.first] * ((1 << _BITS) - kept) >> _BITS) + 1
            kept = kept * step >> _BITS
        return min(1.0, float_above(Fraction(total, 1 << _BITS)))

    def epsilon(self, delta: Fraction) -> float:
        """Return the least double ε found with δ(ε) ≤ `delta`, within 10⁻¹² and never below it; inf if none."""
        low, high = 0.0, float_above(self.width * (self.first + len(self.masses)))
        if self.delta(Fraction(high)) > delta:
            return math.inf
        if self.delta(Fraction(0)) <= delta:
            return 0.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(Fraction(middle)) <= delta else (middle, high)
        return high

    def plus(self, other: "LossLaw", most: int) -> "LossLaw":
        """Return the law of the sum of two independent losses; a sum above `most` counts as infinite."""
        product = (fmpz_poly(list(self.masses)) * fmpz_poly(list(other.masses))).coeffs()
        masses = [(int(mass) >> _BITS) + 1 for mass in product]
        first = self.first + other.first
        infinite = (self._total() * other._total() - sum(self.masses) * sum(other.masses) >> _BITS) + 1
        if first < -most:
            cut = min(-most - first, len(masses) - 1)
            masses, first = [sum(masses[: cut + 1]), *masses[cut + 1 :]], first + cut
        keep = max(1, most - first + 1)
        return LossLaw(self.width, first, tuple(masses[:keep]), infinite + sum(masses[keep:]))

    def _total(self) -> int:
        return sum(self.masses) + self.infinite


def compose(tails_of: TailsOf, change: tuple[int, ...], spread: float, points: int = 0) -> LossLaw:
    """Return a law of losses that dominates the release of a vector under `change`, each entry with its own noise.

    Args:       tails_of: of the law of one entry. change: |d_j| > 0 of the touched bins. spread: the variance of one
                entry. points: grid points on each side; by default 4,096, or 256 where masses are dear.
    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> noise = Skellam(Fraction(712043726159, 10**11))
        >>> f"{compose(noise.tails, (1, 1), 14.2).delta(Fraction(1)):.1e}"
        '5.6e-04'
    """
    tails = tails_of(_BITS)
    points = points or (_DEAR_POINTS if tails.variance else _POINTS)
    counts = Counter(change)
    single = {shift: _largest_loss(tails, shift) for shift in counts}
    variance = sum(shift * shift for shift in change) / spread
    gaussian = max(single.values()) + variance / 2 + 11 * math.sqrt(variance)
    most = min(sum(single[shift] for shift in change), gaussian)
    width = Fraction(most / points)
    whole = LossLaw(width, 0, (1 << _BITS,), 0)
    for shift, count in counts.items():
        whole = whole.plus(_power(_joined(tails, shift, width, single[shift]), count, points), points)
    return whole


def _power(law: LossLaw, count: int, most: int) -> LossLaw:
    result, square = None, law
    while count:
        if count & 1:
            result = square if result is None else result.plus(square, most)
        count >>= 1
        square = square.plus(square, most) if count else square
    assert result is not None
    return result


def _largest_loss(tails: Tails, shift: int) -> float:
    """Return the loss at the integer beyond which about 2^−80 remains: what is left is counted as infinite."""
    low, high = 0, tails.reach + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tails.tail(middle) >> (_BITS - 80) else (low, middle)
    while high > 0 and tails.mass(high + shift) <= tails.error:
        high -= 1 + high // 64
    return math.log(max(2, tails.mass(max(0, high))) / max(1, tails.mass(max(0, high) + shift))) + 1e-9


def _joined(tails: Tails, shift: int, width: Fraction, largest: float) -> LossLaw:
    """Return the law whose δ curve joins the exact one at multiples of `width` by straight lines in e^ε."""
    one, count = 1 << _BITS, math.ceil(largest / width) + 1
    growth, shrink = gamma_units(width, _BITS), gamma_units(-width, _BITS)
    upper, below = [], []
    gamma, inverse = one, one  # floored powers: δ at a smaller γ is not smaller, and `place` units bound the inverse
    for place in range(count + 1):
        value, error = delta_units(tails, shift, gamma)
        upper.append(value + error)
        below.append(one - inverse + ((inverse + place + 1) * upper[-1] >> _BITS) + 1)
        gamma, inverse = gamma * growth >> _BITS, inverse * shrink >> _BITS
    below = below[:0:-1]
    curve = [*below, *upper]
    rises = [after - before for before, after in pairwise(curve)]
    masses = [((rises[0] << _BITS) // (growth + 1 - one)) + one - curve[0] + 2]
    for before, after in zip(rises, [*rises[1:], 0], strict=True):
        masses.append((((after << _BITS) - (growth + 1) * before) // (growth - one)) + 2)
    return LossLaw(width, -count, tuple(max(0, mass) for mass in masses), curve[-1])
