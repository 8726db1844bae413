"""Gaussian noise as it is released: a Skellam law on a lattice at least 1,024 times finer than σ."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.noise.skellam import Skellam

__all__ = ["LatticeGaussian"]

_SIGMA_LEAST = Fraction(1024)
_SIGMA_MOST = Fraction(10**14)


@dataclass(frozen=True, slots=True)
class LatticeGaussian:
    """Integer noise with the law Skellam(σ²/2), σ in steps of the lattice: Gaussian to 1 in 10⁶, and exactly tiered.

    Law:        pmf(k) = e^(−σ²)·I_|k|(σ²); cf(t) = e^(σ²(cos t − 1)); variance = σ².
    Args:       sigma: standard deviation in steps, a Fraction from 1,024 to 10¹⁴ (so the grain is at most σ/1024).
    Raises:     InvalidParameterError: `sigma` is not such a rational.
    Example:
        >>> LatticeGaussian(Fraction(2000)).variance()
        4000000.0
    """

    sigma: Fraction
    family: ClassVar[str] = "lattice-gaussian"

    def __post_init__(self) -> None:
        if not isinstance(self.sigma, Fraction) or not _SIGMA_LEAST <= self.sigma <= _SIGMA_MOST:
            raise InvalidParameterError("sigma", "a Fraction with 1024 ≤ σ ≤ 10¹⁴ steps", self.sigma)

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

    def variance(self) -> float:
        """Return Var X = σ², in squared steps."""
        return float(self.sigma**2)
