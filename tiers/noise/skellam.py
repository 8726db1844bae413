"""The Skellam law: the difference of two Poisson counts, closed under addition, never ε-DP without a δ."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.noise.saddle import log_pmf_ball
from tiers.real import precision

__all__ = ["Skellam"]

_RATE_LEAST = Fraction(1, 10**30)
_RATE_MOST = Fraction(10**30)


@dataclass(frozen=True, slots=True)
class Skellam:
    """Integer noise X = A − B with A, B ~ Poisson(rate) independent.

    Law:        pmf(k) = e^(−2λ)·I_|k|(2λ); cf(t) = e^(2λ(cos t − 1)); variance = 2λ.
    Args:       rate: λ, a Fraction from 10⁻³⁰ to 10³⁰.
    Raises:     InvalidParameterError: `rate` is not such a rational.
    Reference:  Agarwal, Kairouz, Liu 2021 (arXiv 2110.04995).
    Example:
        >>> round(Skellam(Fraction(5)).pmf(0), 6)
        0.127833
    """

    rate: Fraction
    family: ClassVar[str] = "skellam"

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Fraction) or not _RATE_LEAST <= self.rate <= _RATE_MOST:
            raise InvalidParameterError("rate", "a Fraction with 10⁻³⁰ ≤ λ ≤ 10³⁰", self.rate)

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"rate": decimal_text(self.rate)}

    def pmf(self, k: int) -> float:
        """Return P(X = k), right to the last digits at any rate; 0.0 only where it underflows."""
        with precision(_working_bits(self.rate, k)):
            return float(log_pmf_ball(self.rate, k, 64).exp().mid())

    def variance(self) -> float:
        """Return Var X = 2λ, in squared steps."""
        return float(2 * self.rate)


def _working_bits(rate: Fraction, k: int) -> int:
    return 192 + 2 * (int(rate) + abs(k) + 1).bit_length()
