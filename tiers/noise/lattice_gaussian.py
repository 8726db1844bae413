"""Gaussian noise as it is released: a Skellam law on a lattice at least 1,024 times finer than σ."""

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
)
from tiers.noise.composition import least_over
from tiers.noise.losses import Losses
from tiers.noise.skellam import Skellam
from tiers.noise.table import LatticeTable
from tiers.noise.tails import Tails
from tiers.sensitivity import ChangeSet

__all__ = ["LatticeGaussian"]

_SIGMA_LEAST = Fraction(1024)
_SIGMA_MOST = Fraction(10**14)


@dataclass(frozen=True, slots=True)
class LatticeGaussian:
    """Integer noise with the law Skellam(σ²/2), σ in steps of the lattice: near-Gaussian, and exactly tiered.

    Law:        pmf(k) = e^(−σ²)·I_|k|(σ²); cf(t) = e^(σ²(cos t − 1)); variance = σ².
    Guarantee:  the exact (ε, δ) and the Rényi curve of that Skellam law, not of the Gaussian it resembles.
    Args:       sigma: standard deviation in steps, a Fraction from 1,024 to 10¹⁴ (so the grain is at most σ/1024).
    Raises:     InvalidParameterError: `sigma` is not such a rational.
    Reference:  Agarwal, Kairouz, Liu 2021 (arXiv 2110.04995).
    Example:
        >>> LatticeGaussian(Fraction(2000)).variance()
        4000000.0
    """

    sigma: Fraction
    family: ClassVar[str] = "lattice-gaussian"

    def __post_init__(self) -> None:
        if not isinstance(self.sigma, Fraction) or not _SIGMA_LEAST <= self.sigma <= _SIGMA_MOST:
            raise InvalidParameterError("sigma", "a Fraction with 1024 ≤ σ ≤ 10¹⁴ steps", self.sigma)

    @classmethod
    def at(cls, epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> "LatticeGaussian":
        """Return the least σ that is (ε, δ)-DP for every change in the set: 12 digits, rounded up and checked.

        Raises:     InvalidParameterError: δ = 0, or a lattice so coarse that σ would be below 1,024 steps: choose a
                    finer grain.
        Example:
            >>> law = LatticeGaussian.at(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1000))
            >>> round(float(law.sigma), 1)
            4224.7
        """
        check_epsilon(epsilon)
        if delta == 0:
            Skellam.at(epsilon, delta, change_set)
        check_delta(delta)
        guess = Fraction(gaussian_variance(epsilon, delta, change_set) ** 0.5)
        wish, span = (epsilon, delta, change_set), (Fraction(1, 10**9), _SIGMA_MOST)
        return cls(least_over(lambda sigma: Skellam(sigma**2 / 2), guess, wish, span))

    @classmethod
    def for_half_width(cls, half_width: int, confidence: Fraction) -> "LatticeGaussian":
        """Return the most noise whose error bar at `confidence` is at most `half_width` steps; σ is rounded down.

        Example:
            >>> round(float(LatticeGaussian.for_half_width(4000, Fraction(95, 100)).sigma), 2)
            2041.11
        """
        check_confidence(confidence)

        def narrow(sigma: Fraction) -> bool:
            return Skellam(sigma**2 / 2).covers(half_width, confidence)

        guess = Fraction(max(1, half_width))
        return cls(greatest(narrow, guess, Fraction(1, 10**9), _SIGMA_MOST))

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"sigma": decimal_text(self.sigma)}

    @property
    def skellam(self) -> Skellam:
        """Return the same law under its own name: Skellam(σ²/2)."""
        return Skellam(self.sigma**2 / 2)

    def pmf(self, k: int) -> float:
        """Return P(X = k); 0.0 only where it underflows."""
        return self.skellam.pmf(k)

    def log_pmf(self, k: int) -> float:
        """Return log P(X = k), finite for every integer k."""
        return self.skellam.log_pmf(k)

    def cdf(self, k: int) -> float:
        """Return P(X ≤ k)."""
        return self.skellam.cdf(k)

    def cf(self, t: float) -> complex:
        """Return E e^(itX), real because the law is symmetric."""
        return self.skellam.cf(t)

    def cf_ball(self, turn: Fraction) -> arb:
        """Return E e^(2πi·turn·X) at the working precision."""
        return self.skellam.cf_ball(turn)

    def variance(self) -> float:
        """Return Var X = σ², in squared steps."""
        return float(self.sigma**2)

    def half_width(self, confidence: Fraction) -> int:
        """Return the least integer h with P(|X| ≤ h) ≥ confidence, in steps."""
        return self.skellam.half_width(confidence)

    def epsilon(self, change_set: ChangeSet) -> Never:
        """Refuse, as every Skellam law must: there is no ε at δ = 0."""
        self.skellam.epsilon(change_set)

    def delta(self, epsilon: Fraction, change_set: ChangeSet) -> float:
        """Return the exact δ(ε) over the whole change set (in steps), rounded up."""
        return self.skellam.delta(epsilon, change_set)

    def epsilon_at(self, delta: Fraction, change_set: ChangeSet) -> float:
        """Return the least ε at which the law is (ε, δ)-DP over the whole change set, rounded up."""
        return self.skellam.epsilon_at(delta, change_set)

    def rdp(self, alpha: Fraction | int, change_set: ChangeSet) -> float:
        """Return the Rényi divergence of order `alpha`, maximised over the change set, rounded up."""
        return self.skellam.rdp(alpha, change_set)

    def table(self, bits: int) -> LatticeTable:
        """Return the certified table of the law, where one fits."""
        return self.skellam.table(bits)

    def losses(self, change: tuple[int, ...]) -> Losses | None:
        """Return the privacy losses of one entry under a shift, or None where no table holds them."""
        return self.skellam.losses(change)

    def tails(self, bits: int) -> Tails:
        """Return masses and tails in units of 2^−bits."""
        return self.skellam.tails(bits)

    def log_pmf_ball(self, k: int, bits: int) -> arb:
        """Return log P(X = k) as a ball of about `bits` bits."""
        return self.skellam.log_pmf_ball(k, bits)

    def log_tail_ball(self, k: int, bits: int) -> arb:
        """Return log P(X ≥ k), k ≥ 1, as a ball of about `bits` bits."""
        return self.skellam.log_tail_ball(k, bits)
