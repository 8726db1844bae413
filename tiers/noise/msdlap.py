"""The multi-scale discrete Laplace law: a sum of two-sided geometrics on the scales 1 to Δ."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from flint import acb, arb

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.real import exact, precision

__all__ = ["MultiScaleDiscreteLaplace"]

_SCALES_LIMIT = 64
_RATE_LIMIT = Fraction(10**4)


@dataclass(frozen=True, slots=True)
class MultiScaleDiscreteLaplace:
    """Integer noise X = Σ_{ξ=1..scales} ξ·G_ξ with G_ξ independent two-sided geometrics of decay p = e^(−rate).

    Law:        cf(t) = Π_ξ (1−p)²/(1−2p·cos(ξt)+p²); variance = Σξ²·2p/(1−p)²; pmf(k) = Σ_w C_w·w^|k| over the roots
                w^ξ = p, all simple, C_w = (1−p)/((1+p)ξ)·Π_{ζ≠ξ} (1−p)²/((1−p·w^ζ)(1−p·w^−ζ)).
    Args:       scales: Δ, from 1 to 64. rate: the loss of a shift by any one scale, a Fraction in (0, 10⁴].
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
        if not isinstance(self.rate, Fraction) or not 0 < self.rate <= _RATE_LIMIT:
            raise InvalidParameterError("rate", f"a Fraction with 0 < rate ≤ {_RATE_LIMIT}", self.rate)

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"rate": decimal_text(self.rate), "scales": str(self.scales)}

    def pmf(self, k: int) -> float:
        """Return P(X = k) in [0, 1]; 0.0 only where it underflows."""
        bits = 256
        while True:
            with precision(bits):
                ball = self.pmf_ball(k)
            if ball.rel_accuracy_bits() >= 60:
                return float(ball.mid())
            bits *= 2

    def pmf_ball(self, k: int) -> arb:
        """Return P(X = k) at the working precision, from the partial fractions of the characteristic function."""
        total = exact(0)
        for root, weight in poles(self.scales, self.rate, _current_bits()):
            total += (weight * root ** abs(k)).real
        return total

    def variance(self) -> float:
        """Return Var X = Σξ²·2p/(1−p)², in squared steps."""
        squares = self.scales * (self.scales + 1) * (2 * self.scales + 1) // 6
        with precision(160):
            return float((exact(squares) / (2 * (exact(self.rate) / 2).sinh() ** 2)).mid())


@lru_cache(maxsize=256)
def poles(scales: int, rate: Fraction, bits: int) -> tuple[tuple[acb, acb], ...]:
    """Return every root w with |w| < 1 and its coefficient C_w, so that pmf(k) = Σ C_w·w^|k|, in balls of `bits`."""
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


def _current_bits() -> int:
    from flint import ctx

    return int(ctx.prec)
