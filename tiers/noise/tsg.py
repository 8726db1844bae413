"""The two-sided geometric law: Laplace noise as it is released, on an integer lattice."""

import cmath
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from flint import arb

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError, NoResidualError
from tiers.real import Real, compare, exact, precision, to_float
from tiers.sensitivity import ChangeSet

__all__ = ["TwoSidedGeometric", "ZeroInflated"]

_RATE_LIMIT = Fraction(10**4)


@dataclass(frozen=True, slots=True)
class TwoSidedGeometric:
    """Integer noise X with P(X = k) = (1−p)/(1+p)·p^|k|, p = e^(−rate), rate = ε/Δ₁ an exact rational.

    Law:        pmf(k) = tanh(rate/2)·e^(−rate·|k|); cf(t) = (1−p)²/(1−2p·cos t+p²); variance = 2p/(1−p)².
    Guarantee:  added to every entry of an integer vector it is ε-DP for ε = rate·Δ₁, whatever entries one unit
                touches, since |log P(x)/P(x−d)| ≤ rate·|d| with equality far out; exact on the lattice.
    Args:       rate: ε/Δ₁ > 0, at most 10⁴.
    Raises:     InvalidParameterError: `rate` is not such a rational.
    Reference:  Ghosh, Roughgarden, Sundararajan 2012; Wang et al. 2026 (arXiv 2606.15543), section 4.
    Example:
        >>> round(TwoSidedGeometric(Fraction(1)).pmf(0), 5)
        0.46212
    """

    rate: Fraction
    family: ClassVar[str] = "tsg"

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Fraction) or not 0 < self.rate <= _RATE_LIMIT:
            raise InvalidParameterError("rate", f"a Fraction with 0 < ε/Δ₁ ≤ {_RATE_LIMIT}", self.rate)

    @classmethod
    def at(cls, epsilon: Fraction, change_set: ChangeSet) -> "TwoSidedGeometric":
        """Return the law that is ε-DP for every change in `change_set`: rate ε/Δ₁, exactly."""
        return cls(epsilon / change_set.total)

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"rate": decimal_text(self.rate)}

    def epsilon(self, change_set: ChangeSet) -> Fraction:
        """Return the exact pure ε: the maximum of Σ rate·|d_j| over the change set, which is rate·Δ₁."""
        return self.rate * change_set.total

    def decay(self) -> arb:
        """Return p = e^(−rate) at the working precision."""
        return (-exact(self.rate)).exp()

    def pmf(self, k: int) -> float:
        """Return P(X = k) in [0, 1]; 0.0 where it underflows (use `log_pmf` there)."""
        return math.exp(self.log_pmf(k))

    def log_pmf(self, k: int) -> float:
        """Return log P(X = k), finite for every integer k."""
        rate = float(self.rate)
        return math.log(math.tanh(rate / 2)) - float(self.rate * abs(k))

    def cdf(self, k: int) -> float:
        """Return P(X ≤ k)."""
        return to_float(lambda: self._cdf(k))

    def cf(self, t: float) -> complex:
        """Return E e^(itX), real because the law is symmetric."""
        p = math.exp(-float(self.rate))
        return (1 - p) ** 2 / abs(1 - p * cmath.exp(1j * t)) ** 2 + 0j

    def variance(self) -> float:
        """Return Var X = 2p/(1−p)² = 1/(2·sinh²(rate/2)), in squared steps."""
        return 1 / (2 * math.sinh(float(self.rate) / 2) ** 2)

    def half_width(self, confidence: Fraction) -> int:
        """Return the least integer h with P(|X| ≤ h) ≥ confidence: it covers at least the nominal share.

        Raises:     InvalidParameterError: confidence outside (0, 1).
        Example:
            >>> TwoSidedGeometric(Fraction(1)).half_width(Fraction(95, 100))
            3
        """
        if not 0 < confidence < 1:
            raise InvalidParameterError("confidence", "0 < confidence < 1", confidence)
        miss = 1 - confidence
        guess = math.log(float(miss) * (1 + math.exp(-float(self.rate))) / 2) / -float(self.rate) - 1
        h = max(0, math.floor(guess) - 1)
        while compare(self._outside(h), miss) > 0:
            h += 1
        return h

    def residual_to(self, lower: "TwoSidedGeometric") -> "ZeroInflated":
        """Return the noise s for which `self` + s has exactly the law of `lower`.

        The ratio of the characteristic functions is a constant plus a multiple of the lower law's own.

        Law:        s = 0 with probability w = (1−p′)²p/((1−p)²p′), else s ~ `lower`.
        Guarantee:  the tiers of a chain so built are Markov: any set of them is as private as its best member.
        Raises:     NoResidualError: `lower` is not the noisier law.
        Reference:  Wang et al. 2026 (arXiv 2606.15543), table 1.
        Example:
            >>> upper, lower = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
            >>> round(upper.residual_to(lower).stay_probability(), 6)
            0.196612
        """
        if lower.rate >= self.rate:
            witness = f"the lower rate {lower.rate} is not below {self.rate}, so its variance is not larger"
            raise NoResidualError(repr(self), repr(lower), witness)
        return ZeroInflated(upper=self, lower=lower)

    def _cdf(self, k: int) -> arb:
        p = self.decay()
        if k < 0:
            return exact(self.rate * k).exp() / (1 + p)
        return 1 - (-exact(self.rate * (k + 1))).exp() / (1 + p)

    def _outside(self, h: int) -> Real:
        def probability() -> arb:
            return 2 * (-exact(self.rate * (h + 1))).exp() / (1 + self.decay())

        return probability


@dataclass(frozen=True, slots=True)
class ZeroInflated:
    """The residual between two two-sided geometric tiers: 0 with probability w, else a draw of the lower law.

    Law:        pmf(k) = w·[k = 0] + (1−w)·lower.pmf(k), w = (1−p′)²p/((1−p)²p′) = sinh²(rate′/2)/sinh²(rate/2).
    Example:
        >>> upper, lower = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
        >>> round(upper.residual_to(lower).pmf(0), 4)
        0.5679
    """

    upper: TwoSidedGeometric
    lower: TwoSidedGeometric

    @property
    def stay(self) -> Real:
        """Return w as a ball-valued function, 0 < w < 1."""

        def weight() -> arb:
            return ((exact(self.lower.rate) / 2).sinh() / (exact(self.upper.rate) / 2).sinh()) ** 2

        return weight

    def stay_probability(self) -> float:
        """Return w as a double, for display."""
        return to_float(self.stay)

    def pmf(self, k: int) -> float:
        """Return P(s = k)."""
        w = self.stay_probability()
        return (w if k == 0 else 0.0) + (1 - w) * self.lower.pmf(k)

    def variance(self) -> float:
        """Return Var s = Var lower − Var upper."""
        with precision(160):
            return float(((1 - self.stay()) / (2 * (exact(self.lower.rate) / 2).sinh() ** 2)).mid())
