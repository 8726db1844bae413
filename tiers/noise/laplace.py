"""The continuous Laplace law, for analysis and plots: what is released is the two-sided geometric on the lattice."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import check_confidence, check_delta, check_epsilon, check_loss
from tiers.noise.hockey import float_above
from tiers.noise.pure import pure_renyi
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

__all__ = ["Laplace"]

_LEAST, _MOST = Fraction(1, 10**18), Fraction(10**18)


@dataclass(frozen=True, slots=True)
class Laplace:
    """Real noise with density e^(−|x|/b)/(2b), b = Δ₁/ε an exact rational.

    Law:        pdf(x) = e^(−|x|/b)/(2b); cf(t) = 1/(1 + b²t²); variance = 2b².
    Guarantee:  ε-DP for ε = Δ₁/b on real numbers; floating-point draws of it are not private (Mironov 2012).
    Args:       scale: b, a Fraction from 10⁻¹⁸ to 10¹⁸.
    Raises:     InvalidParameterError: `scale` is not such a rational.
    Example:
        >>> Laplace(Fraction(2)).epsilon(ChangeSet.scalar(1))
        Fraction(1, 2)
    """

    scale: Fraction
    family: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Fraction) or not _LEAST <= self.scale <= _MOST:
            raise InvalidParameterError("scale", "a Fraction with 10⁻¹⁸ ≤ b ≤ 10¹⁸", self.scale)

    @classmethod
    def at(cls, epsilon: Fraction, change_set: ChangeSet) -> "Laplace":
        """Return the law that is ε-DP for every change in the set: b = Δ₁/ε, exactly."""
        return cls(change_set.total / check_epsilon(epsilon))

    @classmethod
    def for_half_width(cls, half_width: Fraction, confidence: Fraction) -> "Laplace":
        """Return the most noise whose error bar at `confidence` is at most `half_width`; b is rounded down.

        Example:
            >>> Laplace.for_half_width(Fraction(3), Fraction(95, 100)).half_width(Fraction(95, 100)) <= 3
            True
        """
        check_confidence(confidence)
        if not isinstance(half_width, Fraction) or not 0 < half_width <= 10**15:
            raise InvalidParameterError("half width", "a Fraction in (0, 10¹⁵]", half_width)
        return cls(Fraction(float(half_width / Fraction(cls(Fraction(1)).half_width(confidence))) * (1 - 2**-48)))

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"scale": decimal_text(self.scale)}

    def epsilon(self, change_set: ChangeSet) -> Fraction:
        """Return the exact pure ε: Δ₁/b."""
        return change_set.total / self.scale

    def delta(self, epsilon: Fraction, change_set: ChangeSet) -> float:
        """Return δ(ε) = 1 − e^((ε − Δ/b)/2) for one entry, rounded up; 0.0 from the pure ε on.

        Raises:     InvalidParameterError: several entries below the pure ε, where no exact δ is computed.
        Example:
            >>> round(Laplace(Fraction(1)).delta(Fraction(0), ChangeSet.scalar(1)), 9)
            0.39346934
        """
        gap = check_loss(epsilon) - self.epsilon(change_set)
        if gap >= 0:
            return 0.0
        if change_set.bins > 1:
            raise InvalidParameterError("change set", "one entry, for δ below the pure ε of this law", change_set)
        return min(1.0, -math.expm1(float(gap / 2)) * (1 + 2**-50))

    def epsilon_at(self, delta: Fraction, change_set: ChangeSet) -> float:
        """Return ε = Δ/b + 2·log(1 − δ), at least 0, for one entry, rounded up; the pure ε for several, and at δ = 0.

        Example:
            >>> round(Laplace(Fraction(1)).epsilon_at(Fraction(1, 10), ChangeSet.scalar(1)), 9)
            0.789278969
        """
        pure = self.epsilon(change_set)
        if delta == 0 or (check_delta(delta) and change_set.bins > 1):
            return float_above(pure)
        with precision(256):
            ball = exact(pure) + 2 * exact(1 - delta).log()
            return max(0.0, math.nextafter(float(ball.mid()), math.inf))

    def rdp(self, alpha: Fraction | int, change_set: ChangeSet) -> float:
        """Return a bound on the Rényi divergence of order α: the most that any ε-DP law has."""
        return pure_renyi(self.epsilon(change_set), alpha)

    def rho(self, change_set: ChangeSet) -> Fraction:
        """Return ρ = ε²/2, at which every ε-DP law is ρ-zCDP."""
        return self.epsilon(change_set) ** 2 / 2

    def pdf(self, x: float) -> float:
        """Return the density at x; 0.0 only where it underflows."""
        return math.exp(self.log_pdf(x))

    def log_pdf(self, x: float) -> float:
        """Return the log density at x."""
        return -abs(x) / float(self.scale) - math.log(2 * float(self.scale))

    def cdf(self, x: float) -> float:
        """Return P(X ≤ x)."""
        half = math.exp(-abs(x) / float(self.scale)) / 2
        return half if x < 0 else 1 - half

    def cf(self, t: float) -> complex:
        """Return E e^(itX) = 1/(1 + b²t²)."""
        return complex(1 / (1 + (float(self.scale) * t) ** 2))

    def variance(self) -> float:
        """Return 2b²."""
        return float(2 * self.scale**2)

    def half_width(self, confidence: Fraction) -> float:
        """Return the least h with P(|X| ≤ h) ≥ confidence, h = −b·log(1 − confidence), rounded up.

        Example:
            >>> round(Laplace(Fraction(1)).half_width(Fraction(95, 100)), 6)
            2.995732
        """
        with precision(256):
            ball = -exact(1 - check_confidence(confidence)).log() * exact(self.scale)
            return float_above(Fraction(math.nextafter(float(ball.mid()), math.inf)))
