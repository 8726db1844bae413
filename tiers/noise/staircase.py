"""The discrete staircase law: the least noisy ε-DP law of one number, but with no exact tiers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from flint import acb, arb

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import check_confidence, check_epsilon, check_half_width, least, least_integer
from tiers.noise.pure import PureLattice, scales_crossed
from tiers.noise.table import LatticeTable
from tiers.noise.tails import BallTails
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

__all__ = ["Staircase"]

_PERIOD_LIMIT = 4096
_RATE_LEAST, _RATE_LIMIT = Fraction(1, 10**9), Fraction(10**4)


@dataclass(frozen=True, slots=True)
class Staircase(PureLattice):
    """Integer noise with steps: on each period of Δ integers, `inner` of weight 1 and the rest of weight b = e^(−rate).

    Law:        pmf(mΔ + j) = a·b^m for j < inner, a·b^(m+1) for inner ≤ j < Δ, symmetric;
                a = (1−b)/(2·inner + 2b(Δ − inner) − (1 − b)).
    Guarantee:  a shift by d ≤ Δ costs at most rate: ε-DP for ε = rate·max Σ⌈|d_j|/Δ⌉ over the change set.
    Args:       period: Δ, from 1 to 4096. inner: from 1 to Δ. rate: a Fraction from 10⁻⁹ to 10⁴.
    Raises:     InvalidParameterError: a parameter outside these.
    Reference:  Geng and Viswanath 2014 (arXiv 1212.1186), section on integer-valued queries.
    Example:
        >>> round(Staircase(period=3, inner=1, rate=Fraction(2)).pmf(0), 9)
        0.515701604
    """

    period: int
    inner: int
    rate: Fraction
    family: ClassVar[str] = "staircase"

    def __post_init__(self) -> None:
        if isinstance(self.period, bool) or not isinstance(self.period, int) or not 1 <= self.period <= _PERIOD_LIMIT:
            raise InvalidParameterError("period", f"an integer from 1 to {_PERIOD_LIMIT}", self.period)
        if isinstance(self.inner, bool) or not isinstance(self.inner, int) or not 1 <= self.inner <= self.period:
            raise InvalidParameterError("inner", f"an integer from 1 to Δ = {self.period}", self.inner)
        if not isinstance(self.rate, Fraction) or not _RATE_LEAST <= self.rate <= _RATE_LIMIT:
            raise InvalidParameterError("rate", "a Fraction with 10⁻⁹ ≤ rate ≤ 10⁴", self.rate)

    @classmethod
    def at(cls, epsilon: Fraction, change_set: ChangeSet) -> "Staircase":
        """Return the ε-DP staircase of least variance with the period of the change set's step.

        Example:
            >>> Staircase.at(Fraction(2), ChangeSet.scalar(3)).inner
            2
        """
        rate = check_epsilon(epsilon) / scales_crossed(change_set, change_set.step)
        inner = range(1, change_set.step + 1)
        return min((cls(change_set.step, steps, rate) for steps in inner), key=lambda law: law.variance())

    @classmethod
    def for_half_width(cls, half_width: int, confidence: Fraction, period: int, inner: int) -> "Staircase":
        """Return the most noise of this shape whose error bar is at most `half_width`; the rate is rounded up."""
        check_half_width(half_width)
        check_confidence(confidence)

        def wide(rate: Fraction) -> bool:
            return not cls(period, inner, rate).covers(half_width, confidence)

        guess = Fraction(3 * period, half_width + 1)
        return cls(period, inner, least(wide, guess, _RATE_LEAST, _RATE_LIMIT))

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"inner": str(self.inner), "period": str(self.period), "rate": decimal_text(self.rate)}

    def epsilon(self, change_set: ChangeSet) -> Fraction:
        """Return the pure ε of the change set: rate·max Σ⌈|d_j|/Δ⌉."""
        return self.rate * scales_crossed(change_set, self.period)

    def pmf(self, k: int) -> float:
        """Return P(X = k); 0.0 only where it underflows."""
        return math.exp(self.log_pmf(k))

    def log_pmf(self, k: int) -> float:
        """Return log P(X = k), finite for every integer k."""
        with precision(192 + 2 * k.bit_length()):
            return float(self.log_pmf_ball(k, 128).mid())

    def cdf(self, k: int) -> float:
        """Return P(X ≤ k)."""
        with precision(192):
            tail = self.log_tail_ball(-k if k < 0 else k + 1, 128).exp()
            return float((tail if k < 0 else 1 - tail).mid())

    def cf(self, t: float) -> complex:
        """Return E e^(itX), real because the law is symmetric."""
        with precision(192):
            return complex(float(self.cf_ball(Fraction(t / (2 * math.pi))).mid()))

    def cf_ball(self, turn: Fraction) -> arb:
        """Return E e^(2πi·turn·X) at the working precision, summed as geometric series over the periods."""
        a, b = self._weights()
        angle = 2 * exact(turn)
        half = acb(0)
        for j in range(self.period):
            weight = a if j < self.inner else a * b
            half += weight * acb((angle * j).cos_pi(), (angle * j).sin_pi())
        whole = angle * self.period
        return 2 * (half / (1 - b * acb(whole.cos_pi(), whole.sin_pi()))).real - a

    def variance(self) -> float:
        """Return Var X = 2·Σ_j c_j·Σ_m b^m·(mΔ + j)², c_j the first period."""
        with precision(192):
            return float(self.variance_ball().mid())

    def variance_ball(self) -> arb:
        """Return Var X at the working precision; the sums over a period have closed forms."""
        a, b = self._weights()
        s0, s1, s2 = 1 / (1 - b), b / (1 - b) ** 2, b * (1 + b) / (1 - b) ** 3
        inner, period = _power_sums(self.inner), _power_sums(self.period)
        m0, m1, m2 = (low + b * (full - low) for low, full in zip(inner, period, strict=True))
        return 2 * a * (m0 * self.period**2 * s2 + 2 * self.period * m1 * s1 + m2 * s0)

    def poles(self) -> tuple[tuple[acb, acb], ...]:
        """Return every root w of w^Δ = b with C_w, so that P(X = k) = Σ C_w·w^|k|, at the working precision.

        Law:        C_w = a·(1 − b)·w^(1 − inner)/(Δ·(1 − w)), the discrete Fourier sum of the first period.
        Example:
            >>> law = Staircase(period=3, inner=1, rate=Fraction(2))
            >>> with precision(128):
            ...     abs(float(sum(weight for _, weight in law.poles()).real.mid()) - law.pmf(0)) < 1e-15
            True
        """
        a, b = self._weights()
        size, found = (-exact(self.rate) / self.period).exp(), []
        for turn in range(self.period):
            angle = exact(Fraction(2 * turn, self.period))
            root = size * acb(angle.cos_pi(), angle.sin_pi())
            found.append((root, a * (1 - b) * root ** (1 - self.inner) / (self.period * (1 - root))))
        return tuple(found)

    def half_width(self, confidence: Fraction) -> int:
        """Return the least integer h with P(|X| ≤ h) ≥ confidence: it covers at least the nominal share.

        Example:
            >>> Staircase(period=3, inner=1, rate=Fraction(2)).half_width(Fraction(95, 100))
            4
        """
        check_confidence(confidence)
        return least_integer(lambda h: self.covers(h, confidence))

    def covers(self, half_width: int, confidence: Fraction) -> bool:
        """Return whether certainly P(|X| ≤ h) ≥ confidence."""
        with precision(256):
            return bool(2 * self.log_tail_ball(half_width + 1, 192).exp() <= exact(1 - confidence))

    def log_pmf_ball(self, k: int, bits: int) -> arb:
        """Return log P(X = k) as a ball, at the working precision."""
        periods, place = divmod(abs(k), self.period)
        return self._weights()[0].log() - exact(self.rate * (periods + (place >= self.inner)))

    def log_tail_ball(self, k: int, bits: int) -> arb:
        """Return log P(X ≥ k), k ≥ 1, as a ball, at the working precision."""
        a, b = self._weights()
        periods, place = divmod(k, self.period)
        full = self.inner + b * (self.period - self.inner)
        done = min(place, self.inner) + b * max(0, place - self.inner)
        return (a * (full / (1 - b) - done)).log() - exact(self.rate * periods)

    def table(self, bits: int) -> LatticeTable:
        """Return the certified table of the law in units of 2^−bits; refused where it would be too wide."""
        reach = math.ceil((bits + 2) * Fraction(7, 10) / self.rate + 1) * self.period
        return LatticeTable.from_tails(BallTails(self.log_pmf_ball, self.log_tail_ball, bits, reach))

    def _weights(self) -> tuple[arb, arb]:
        b = (-exact(self.rate)).exp()
        return (1 - b) / (2 * self.inner + 2 * b * (self.period - self.inner) - (1 - b)), b


def _power_sums(count: int) -> tuple[int, int, int]:
    """Return Σ j⁰, Σ j¹ and Σ j² over j < count."""
    return count, count * (count - 1) // 2, (count - 1) * count * (2 * count - 1) // 6
