"""The continuous Gaussian law, for analysis and plots: what is released is a lattice law."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Never

from flint import arb

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import (
    check_confidence,
    check_delta,
    check_epsilon,
    gaussian_variance,
    greatest,
    least,
    log_excess,
)
from tiers.noise.hockey import float_above
from tiers.noise.renyi import check_order, concentrated
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

__all__ = ["Gaussian"]

_LEAST, _MOST = Fraction(1, 10**30), Fraction(10**30)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Real noise with the law N(0, σ²); its parameter is the rational σ², so that differences of tiers stay rational.

    Law:        pdf(x) = e^(−x²/2σ²)/(σ√(2π)); cf(t) = e^(−σ²t²/2); variance = σ².
    Guarantee:  Δ₂²/(2σ²)-zCDP and the exact (ε, δ) of `delta`, on real numbers only: floating-point draws break it.
    Args:       sigma_squared: σ², a Fraction from 10⁻³⁰ to 10³⁰ (a variance, not a standard deviation).
    Raises:     InvalidParameterError: `sigma_squared` is not such a rational.
    Reference:  Balle and Wang 2018 (arXiv 1805.06530), theorem 8.
    Example:
        >>> round(Gaussian(Fraction(4)).pdf(0.0), 9)
        0.19947114
    """

    sigma_squared: Fraction
    family: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        if not isinstance(self.sigma_squared, Fraction) or not _LEAST <= self.sigma_squared <= _MOST:
            raise InvalidParameterError("sigma_squared", "a Fraction with 10⁻³⁰ ≤ σ² ≤ 10³⁰", self.sigma_squared)

    @classmethod
    def at(cls, epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> "Gaussian":
        """Return the least noise that is (ε, δ)-DP for every change in the set: σ² of 12 digits, rounded up, checked.

        Example:
            >>> law = Gaussian.at(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1))
            >>> round(float(law.sigma_squared) ** 0.5, 6)
            4.224679
        """
        check_epsilon(epsilon)
        check_delta(delta)
        guess = Fraction(gaussian_variance(epsilon, delta, change_set))

        def excess(square: Fraction) -> float:
            return log_excess(cls(square).delta(epsilon, change_set), delta)

        return cls(least(excess, guess, _LEAST, _MOST))

    @classmethod
    def for_half_width(cls, half_width: Fraction, confidence: Fraction) -> "Gaussian":
        """Return the most noise whose error bar at `confidence` is at most `half_width`; σ² is rounded down."""
        check_confidence(confidence)
        if not isinstance(half_width, Fraction) or not 0 < half_width <= 10**15:
            raise InvalidParameterError("half width", "a Fraction in (0, 10¹⁵]", half_width)

        def narrow(square: Fraction) -> bool:
            return Fraction(cls(square).half_width(confidence)) <= half_width

        return cls(greatest(narrow, half_width**2 / 4, _LEAST, _MOST))

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"sigma_squared": decimal_text(self.sigma_squared)}

    def rho(self, change_set: ChangeSet) -> Fraction:
        """Return ρ = Δ₂²/(2σ²) of the most concentrated change, exactly."""
        squares = sum(count * shift * shift for shift, count in concentrated(change_set))
        return Fraction(squares) / (2 * self.sigma_squared)

    def rdp(self, alpha: Fraction | int, change_set: ChangeSet) -> float:
        """Return the Rényi divergence of order α, which is α·ρ, rounded up."""
        return float_above(check_order(alpha) * self.rho(change_set))

    def epsilon(self, change_set: ChangeSet) -> Never:
        """Refuse: no Gaussian law is ε-DP with δ = 0. Ask `epsilon_at` for the ε at a δ.

        Raises:     InvalidParameterError: always; the message holds the δ this law has at ε = 1.
        """
        delta = self.delta(Fraction(1), change_set)
        raise InvalidParameterError("δ", "δ > 0, for no Gaussian law is ε-DP", f"0; at ε = 1 it has δ = {delta:.6g}")

    def delta(self, epsilon: Fraction, change_set: ChangeSet) -> float:
        """Return δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), μ = Δ₂/σ, rounded up: δ rises with Δ₂, so this is the worst.

        Example:
            >>> round(Gaussian(Fraction(1)).delta(Fraction(1), ChangeSet.scalar(1)), 9)
            0.126936738
        """
        if not isinstance(epsilon, Fraction) or not 0 <= epsilon <= 10**4:
            raise InvalidParameterError("epsilon", "a Fraction with 0 ≤ ε ≤ 10⁴", epsilon)
        bits = 256
        while True:
            with precision(bits):
                mu, loss = exact(2 * self.rho(change_set)).sqrt(), exact(epsilon)
                ball = _above(loss / mu - mu / 2) - loss.exp() * _above(loss / mu + mu / 2)
                above = math.nextafter(float(ball.abs_upper()), math.inf)
            if ball.rel_accuracy_bits() >= 50 or bits >= 1 << 13:
                return min(1.0, above)
            bits *= 2

    def epsilon_at(self, delta: Fraction, change_set: ChangeSet) -> float:
        """Return the least ε at which the law is (ε, δ)-DP over the whole change set, rounded up (12 digits)."""
        check_delta(delta)
        if self.delta(Fraction(0), change_set) <= delta:
            return 0.0

        def excess(epsilon: Fraction) -> float:
            return log_excess(self.delta(epsilon, change_set), delta)

        rho = self.rho(change_set)
        guess = rho + 2 * Fraction(math.sqrt(float(rho) * -math.log(delta)))
        return float_above(least(excess, guess, Fraction(1, 10**15), Fraction(10**4)))

    def pdf(self, x: float) -> float:
        """Return the density at x; 0.0 only where it underflows."""
        return math.exp(self.log_pdf(x))

    def log_pdf(self, x: float) -> float:
        """Return the log density at x."""
        square = float(self.sigma_squared)
        return -x * x / (2 * square) - math.log(2 * math.pi * square) / 2

    def cdf(self, x: float) -> float:
        """Return P(X ≤ x)."""
        return math.erfc(-x / math.sqrt(2 * float(self.sigma_squared))) / 2

    def cf(self, t: float) -> complex:
        """Return E e^(itX) = e^(−σ²t²/2)."""
        return complex(math.exp(-float(self.sigma_squared) * t * t / 2))

    def variance(self) -> float:
        """Return σ²."""
        return float(self.sigma_squared)

    def half_width(self, confidence: Fraction) -> float:
        """Return the least h with P(|X| ≤ h) ≥ confidence, rounded up.

        Example:
            >>> round(Gaussian(Fraction(1)).half_width(Fraction(95, 100)), 6)
            1.959964
        """
        with precision(256):
            ball = exact(check_confidence(confidence)).erfinv() * exact(2 * self.sigma_squared).sqrt()
            return math.nextafter(float(ball.mid()), math.inf)


def _above(z: arb) -> arb:
    return (z / arb(2).sqrt()).erfc() / 2
