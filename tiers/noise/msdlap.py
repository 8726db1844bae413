"""The multi-scale discrete Laplace law: a sum of two-sided geometrics on the scales 1 to Δ."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from flint import acb, arb

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import check_confidence, check_epsilon, check_half_width, least, least_integer
from tiers.noise.pure import PureLattice, scales_crossed
from tiers.noise.series import SERIES_LIMIT, half_width_by_series, scale_masses, series_length
from tiers.noise.table import LatticeTable
from tiers.noise.tails import BallTails, TableTails
from tiers.real import exact, precision, settled
from tiers.sensitivity import ChangeSet

__all__ = ["RATES", "MultiScaleDiscreteLaplace"]

_SCALES_LIMIT = 64
RATES = Fraction(1, 10**9), Fraction(10**4)


@dataclass(frozen=True, slots=True)
class MultiScaleDiscreteLaplace(PureLattice):
    """Integer noise X = Σ_{ξ=1..scales} ξ·G_ξ with G_ξ independent two-sided geometrics of decay p = e^(−rate).

    Law:        cf(t) = Π_ξ (1−p)²/(1−2p·cos(ξt)+p²); variance = Σξ²·2p/(1−p)²; pmf(k) = Σ_w C_w·w^|k| over the roots
                w^ξ = p, all simple, C_w = (1−p)/((1+p)ξ)·Π_{ζ≠ξ} (1−p)²/((1−p·w^ζ)(1−p·w^−ζ)).
    Guarantee:  a change by d ≤ scales moves G_d alone by 1, so the loss is at most rate·⌈d/scales⌉ an entry: ε-DP for
                ε = rate·max Σ⌈|d_j|/scales⌉ over the change set; on the lattice, exact at d = scales.
    Args:       scales: Δ, from 1 to 64. rate: the loss of a shift by any one scale, a Fraction from 10⁻⁹ to 10⁴.
    Raises:     InvalidParameterError: a parameter outside these.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), table 1.
    Example:
        >>> round(MultiScaleDiscreteLaplace(2, Fraction(4)).variance(), 9)
        0.190054575
    """

    scales: int
    rate: Fraction
    family: ClassVar[str] = "msdlap"

    def __post_init__(self) -> None:
        if isinstance(self.scales, bool) or not isinstance(self.scales, int) or not 1 <= self.scales <= _SCALES_LIMIT:
            raise InvalidParameterError("scales", f"an integer from 1 to {_SCALES_LIMIT}", self.scales)
        if not isinstance(self.rate, Fraction) or not RATES[0] <= self.rate <= RATES[1]:
            raise InvalidParameterError("rate", "a Fraction with 10⁻⁹ ≤ rate ≤ 10⁴", self.rate)

    @classmethod
    def at(cls, epsilon: Fraction, change_set: ChangeSet) -> "MultiScaleDiscreteLaplace":
        """Return the law that is ε-DP for the change set: scales up to its step, ε shared by the bins it touches.

        Raises:     InvalidParameterError: a step above 64.
        Example:
            >>> MultiScaleDiscreteLaplace.at(Fraction(4), ChangeSet(bins=2, step=5, total=10))
            MultiScaleDiscreteLaplace(scales=5, rate=Fraction(2, 1))
        """
        return cls(change_set.step, check_epsilon(epsilon) / scales_crossed(change_set, change_set.step))

    @classmethod
    def for_half_width(cls, half_width: int, confidence: Fraction, scales: int) -> "MultiScaleDiscreteLaplace":
        """Return the most noise on these scales whose error bar is at most `half_width`; the rate is rounded up.

        Example:
            >>> law = MultiScaleDiscreteLaplace.for_half_width(3, Fraction(95, 100), 2)
            >>> law.half_width(Fraction(95, 100))
            3
        """
        check_half_width(half_width)
        check_confidence(confidence)

        def wide(rate: Fraction) -> bool:
            return not cls(scales, rate).covers(half_width, confidence)

        return cls(scales, least(wide, Fraction(3 * scales, half_width + 1), *RATES))

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"rate": decimal_text(self.rate), "scales": str(self.scales)}

    def epsilon(self, change_set: ChangeSet) -> Fraction:
        """Return the pure ε of the change set: rate·max Σ⌈|d_j|/scales⌉ (an upper bound where a step is below Δ)."""
        return self.rate * scales_crossed(change_set, self.scales)

    def pmf(self, k: int) -> float:
        """Return P(X = k) in [0, 1]; 0.0 only where it underflows."""
        return float(self._settle(lambda: self.pmf_ball(k)).mid())

    def log_pmf(self, k: int) -> float:
        """Return log P(X = k), finite for every integer k."""
        return float(self._settle(lambda: self.pmf_ball(k).log()).mid())

    def cdf(self, k: int) -> float:
        """Return P(X ≤ k)."""
        if k < 0:
            return float(self._settle(lambda: self.tail_ball(-k)).mid())
        return 1 - float(self._settle(lambda: self.tail_ball(k + 1)).mid())

    def cf(self, t: float) -> complex:
        """Return E e^(itX), real because the law is symmetric."""
        left, decay = math.expm1(-float(self.rate)) ** 2, math.exp(-float(self.rate))
        scales = range(1, self.scales + 1)
        return complex(math.prod(left / (left + 4 * decay * math.sin(scale * t / 2) ** 2) for scale in scales))

    def cf_ball(self, turn: Fraction) -> arb:
        """Return E e^(2πi·turn·X) at the working precision."""
        spread, product = 2 * (exact(self.rate) / 2).sinh() ** 2, arb(1)
        for scale in range(1, self.scales + 1):
            product *= spread / (spread + 2 * exact(turn * scale).sin_pi() ** 2)
        return product

    def pmf_ball(self, k: int) -> arb:
        """Return P(X = k) at the working precision, from the partial fractions of the characteristic function."""
        return sum((weight * root ** abs(k) for root, weight in self.poles()), acb(0)).real

    def tail_ball(self, k: int) -> arb:
        """Return P(X ≥ k), k ≥ 1, at the working precision."""
        return sum((weight * root**k / (1 - root) for root, weight in self.poles()), acb(0)).real

    def log_tail_ball(self, k: int, bits: int) -> arb:
        """Return log P(X ≥ k), k ≥ 1, as a ball of at least 60 bits."""
        return self._settle(lambda: self.tail_ball(k), max(64, bits)).log()

    def variance(self) -> float:
        """Return Var X = Σξ²·2p/(1−p)², in squared steps."""
        with precision(160):
            return float(self.variance_ball().mid())

    def variance_ball(self) -> arb:
        """Return Var X at the working precision."""
        squares = self.scales * (self.scales + 1) * (2 * self.scales + 1) // 6
        return exact(squares) / (2 * (exact(self.rate) / 2).sinh() ** 2)

    def half_width(self, confidence: Fraction) -> int:
        """Return the least integer h with P(|X| ≤ h) ≥ confidence: it covers at least the nominal share.

        Example:
            >>> MultiScaleDiscreteLaplace(2, Fraction(4)).half_width(Fraction(95, 100))
            1
        """
        check_confidence(confidence)
        known = half_width_by_series(self.scales, self.rate, confidence)
        return known if known is not None else least_integer(lambda h: self.covers(h, confidence))

    def covers(self, half_width: int, confidence: Fraction) -> bool:
        """Return whether certainly P(|X| ≤ h) ≥ confidence."""
        outside = self._settle(lambda: 2 * self.tail_ball(half_width + 1))
        with precision(256):
            return bool(outside <= exact(1 - confidence))

    def table(self, bits: int) -> LatticeTable:
        """Return the certified table of the law in units of 2^−bits; refused where it would be too wide."""
        return _table(self, bits)

    def tails(self, bits: int) -> TableTails:
        """Return masses and tails in units of 2^−bits; refused where a table would be too wide."""
        return _tails(self, bits)

    def poles(self) -> tuple[tuple[acb, acb], ...]:
        """Return every root w, |w| < 1, with C_w, so that P(X = k) = Σ C_w·w^|k|, at the working precision."""
        from flint import ctx

        return _poles(self.scales, self.rate, int(ctx.prec))

    def log_mass_ball(self, k: int, bits: int) -> arb:
        """Return log P(X = k) as a ball of at least `bits` bits."""
        return self._settle(lambda: self.pmf_ball(k), bits + 16).log()

    def _settle(self, value: Callable[[], arb], accuracy: int = 64) -> arb:
        """Return `value` at the first precision at which its ball is relatively accurate."""
        ball = settled(value, accuracy)
        if ball is None:
            raise InvalidParameterError("rate", "one that 65536 bits can resolve", self.rate)
        return ball


@lru_cache(maxsize=64)
def _tails(law: MultiScaleDiscreteLaplace, bits: int) -> TableTails:
    return TableTails(_table(law, bits))


@lru_cache(maxsize=64)
def _table(law: MultiScaleDiscreteLaplace, bits: int) -> LatticeTable:
    """Return the table: by power series where they are short, else mass by mass from the roots."""
    length = series_length(law.scales, law.rate, bits + 2)
    if length > SERIES_LIMIT:
        reach = length
        with precision(256):
            while not law.log_tail_ball(reach + 1, 64) <= -exact(bits):
                reach += reach // 8 + 1
        return LatticeTable.from_tails(BallTails(law.log_mass_ball, law.log_tail_ball, bits, reach))
    masses = scale_masses(law.scales, law.rate, length, bits + 8)
    with precision(bits + 64):
        unit = arb(2) ** bits
        half = [int((mass.mid() * unit + arb(0.5)).floor().unique_fmpz()) for mass in masses]
    while len(half) > 1 and not half[-1]:
        half.pop()
    # each mass is within 1/2 + 2⁻⁴, and all that is not listed sums to less than the rounding of all that was
    return LatticeTable(1 - len(half), (*half[:0:-1], *half), bits, error=1, outside=2 * length)


@lru_cache(maxsize=256)
def _poles(scales: int, rate: Fraction, bits: int) -> tuple[tuple[acb, acb], ...]:
    with precision(bits):
        decay = (-exact(rate)).exp()
        found = []
        for scale in range(1, scales + 1):
            size = (-exact(rate) / scale).exp()
            for turn in range(scale):
                angle = exact(Fraction(2 * turn, scale))
                root = size * acb(angle.cos_pi(), angle.sin_pi())
                weight = acb((1 - decay) / ((1 + decay) * scale))
                for other in range(1, scales + 1):
                    if other != scale:
                        power = root**other
                        weight *= (1 - decay) ** 2 / ((1 - decay * power) * (1 - decay / power))
                found.append((root, weight))
        return tuple(found)
