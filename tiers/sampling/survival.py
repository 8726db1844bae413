"""P(X ≥ m) of symmetric lattice laws, for m = 1, 2, …: as balls for any m, and as certified tables of leading bits.

A symmetric law's CDF is its survival function S: F(−m) = S(m) and F(m − 1) = 1 − S(m), m ≥ 1. Every law here has
irrational S(m), so ⌊2^b(1 − S)⌋ = 2^b − 1 − ⌊2^b·S⌋.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from flint import arb, ctx

from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.real import Real, exact, floor_scaled, precision

__all__ = ["SymmetricLaw", "skellam_law", "tsg_law", "zero_inflated_law"]

_Floors: TypeAlias = Callable[[int], list[int]]
_GUARD = 96


@dataclass(frozen=True, slots=True)
class SymmetricLaw:
    """A symmetric lattice law as samplers need it.

    Args:       survival: P(X ≥ m) for m ≥ 1, as a ball-valued function. floors: for b bits, ⌊2^b·P(X ≥ m)⌋ for
                m = 1, 2, … down to and including the first 0.
    """

    survival: Callable[[int], Real]
    floors: _Floors

    def cdf(self, k: int) -> Real:
        """Return P(X ≤ k) as a ball-valued function."""
        if k < 0:
            return self.survival(-k)
        above = self.survival(k + 1)
        return lambda: 1 - above()


def tsg_law(law: TwoSidedGeometric) -> SymmetricLaw:
    """Return the two-sided geometric law as survival probabilities.

    Law:        P(X ≥ m) = p^m/(1+p), m ≥ 1.
    Example:
        >>> tsg_law(TwoSidedGeometric(Fraction(1))).floors(4)
        [4, 1, 0]
    """
    return _geometric_tails(law.rate, _whole)


def zero_inflated_law(law: ZeroInflated) -> SymmetricLaw:
    """Return the residual between two tiers, coin and noise in one, as survival probabilities.

    Law:        P(X ≥ m) = (1−w)·p′^m/(1+p′), m ≥ 1.
    Example:
        >>> two, one = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
        >>> zero_inflated_law(two.residual_to(one)).floors(4)
        [3, 1, 0]
    """
    return _geometric_tails(law.lower.rate, lambda: 1 - law.stay())


def skellam_law(rate: Fraction) -> SymmetricLaw:
    """Return Skellam(λ), the difference of two Poisson(λ), as survival probabilities.

    Law:        P(X ≥ m) = e^(−2λ)·Σ_{k ≥ m} I_k(2λ).
    Args:       rate: λ > 0; the work of a table grows as √λ.
    Example:
        >>> skellam_law(Fraction(1)).floors(6)
        [22, 8, 2, 0]
    """

    def survival(m: int) -> Real:
        def probability() -> arb:
            needed = max(m, _skellam_reach(float(rate), ctx.prec))  # what lies beyond is below the precision
            return _skellam_survivals(rate, ctx.prec, 1 << needed.bit_length())[m]

        return probability

    def floors(bits: int) -> list[int]:
        working, size = bits + _GUARD, _skellam_reach(float(rate), bits + 8)
        while True:
            with precision(working):
                tails = _skellam_survivals(rate, working, size)
                found = _until_zero((tails[m] for m in range(1, size + 1)), bits)
            if found is not None:
                return found
            size *= 2

    return SymmetricLaw(survival, floors)


def _until_zero(tails: Iterator[arb], bits: int) -> list[int] | None:
    found: list[int] = []
    scale = arb(2) ** bits
    for tail in tails:
        floor = (tail * scale).floor().unique_fmpz()
        if floor is None:
            return None
        found.append(int(floor))
        if floor == 0:
            return found
    return None


def _skellam_reach(rate: float, bits: int) -> int:
    """Return an m with P(X ≥ m) ≤ 2^−bits by Chernoff's bound, in floating point: a size to try, no more."""
    wanted, low, high = bits * math.log(2), 0, 64

    def exponent(m: int) -> float:
        return m * math.asinh(m / (2 * rate)) - math.sqrt(m * m + 4 * rate * rate) + 2 * rate

    while exponent(high) < wanted:
        low, high = high, 2 * high
    while high - low > 8:
        middle = (low + high) // 2
        low, high = (middle, high) if exponent(middle) < wanted else (low, middle)
    return high


@lru_cache(maxsize=8)
def _skellam_survivals(rate: Fraction, working: int, size: int) -> tuple[arb, ...]:
    """Return enclosures of P(X ≥ m), m = 0 … size, at the working precision.

    r_k = I_k/I_(k−1) obeys r_k = 1/(k/λ + r_(k+1)), a map that contracts [0, 1]: from any start far enough out, a ball
    that holds r_(N+1) becomes one that holds r_k to full precision. h_k = Σ_(j≥k) I_j/I_(k−1) = r_k(1 + h_(k+1)), and
    1 = P(0)(1 + 2h_1) normalises: no Bessel function is evaluated.
    """
    extra = math.ceil((working + 32) * math.log(2) / (2 * math.asinh(size / (2 * float(rate))))) + 8
    step = exact(1 / rate)
    ratio = arb("0.5", "0.5")
    ratios: list[arb] = []
    for k in range(size + extra, size, -1):
        ratio = 1 / (step * k + ratio)
    beyond = ratio / (1 - ratio)  # r falls in k: the terms from `size` + 1 on are below a geometric series
    sums: list[arb] = []
    tail = arb(beyond.upper() / 2, beyond.upper() / 2)
    for k in range(size, 0, -1):
        ratio = 1 / (step * k + ratio)
        tail = ratio * (1 + tail)
        ratios.append(ratio)
        sums.append(tail)
    mass = 1 / (1 + 2 * tail)
    survivals = [(1 + mass) / 2]
    for ratio, tail in zip(reversed(ratios), reversed(sums), strict=True):
        survivals.append(mass * tail)
        mass = mass * ratio
    return tuple(survivals)


def _decay_of(rate: Fraction) -> Real:
    def decay() -> arb:
        return (-exact(rate)).exp()

    return decay


def _whole() -> arb:
    return arb(1)


def _geometric_tails(rate: Fraction, share: Real) -> SymmetricLaw:
    def survival(m: int) -> Real:
        return lambda: share() * (-exact(rate * m)).exp() / (1 + (-exact(rate)).exp())

    def floors(bits: int) -> list[int]:
        """By repeated multiplication of a lower and an upper integer bound; where they part, by balls."""
        working = bits + _GUARD
        decay = floor_scaled(_decay_of(rate), working)
        low = floor_scaled(survival(1), working)
        high = low + 1
        found: list[int] = []
        while True:
            floor = low >> _GUARD
            if high >> _GUARD != floor:
                floor = floor_scaled(survival(len(found) + 1), bits)
            found.append(floor)
            if not floor:
                return found
            low = low * decay >> working
            high = (high * (decay + 1) >> working) + 1

    return SymmetricLaw(survival, floors)
