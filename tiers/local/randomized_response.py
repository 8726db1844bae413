"""Generalised randomised response: a report is one value of the domain, the true one more often than any other."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tiers.errors import NoResidualError
from tiers.local.rates import Rates
from tiers.local.signal import Signal
from tiers.local.subset import check_domain

__all__ = ["RandomizedResponse"]


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """One value of d: the true one with probability s, else a uniform one. It is Subset with k = 1, sent as a number.

    Law:        P(y | x) = s·[y = x] + (1−s)/d; t = e^ε/(e^ε + d − 1), f = (1−s)/d.
    Guarantee:  ε-LDP with e^ε = 1 + s·d/(1−s), attained by every report.
    Args:       domain_size: d, 2 to 4,096. signal: s.
    Raises:     InvalidParameterError: a size out of range.
    Reference:  Warner 1965; Kairouz, Oh, Viswanath 2014.
    Example:
        >>> round(RandomizedResponse.paying(4, Fraction(1)).rates().true, 6)
        0.475367
    """

    domain_size: int
    signal: Signal
    family: ClassVar[str] = "randomized-response"

    def __post_init__(self) -> None:
        check_domain(self.domain_size)

    @classmethod
    def paying(cls, domain_size: int, epsilon: Fraction) -> "RandomizedResponse":
        """Return the mechanism that spends exactly ε; raises as the constructors do."""
        check_domain(domain_size)
        return cls(domain_size, Signal.paying(epsilon, coverage=Fraction(1, domain_size)))

    @property
    def coverage(self) -> Fraction:
        """Return κ = 1/d."""
        return Fraction(1, self.domain_size)

    def rates(self) -> Rates:
        """Return how often a report covers the true value, and any other one."""
        s, rest, d = self.signal.value(), self.signal.rest(), self.domain_size
        return Rates(s + rest / d, rest / d, s, rest * (d - 1) / d)

    def epsilon(self) -> float:
        """Return the ε that is spent, as a double."""
        return self.signal.epsilon_at(self.coverage)

    def probability(self, report: int, value: int) -> Fraction:
        """Return P(report | value) exactly, for a rational signal."""
        s = self.signal.fraction()
        return s * (report == value) + (1 - s) / self.domain_size

    def check_step(self, lower: "RandomizedResponse") -> None:
        """Refuse a tier below that no rescaling reaches: another domain, or a larger signal."""
        if lower.domain_size != self.domain_size or not self.signal.reaches(lower.signal):
            raise NoResidualError(repr(self), repr(lower), "rescaling keeps the domain and never adds signal")

    def parameters(self) -> dict[str, str]:
        """Return the canonical texts that identify the mechanism."""
        return {"domain_size": str(self.domain_size)} | self.signal.parameters()
