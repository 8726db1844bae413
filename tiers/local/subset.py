"""The Subset mechanism: a report is a set of k values of d, and holds the true one more often than not."""

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import ClassVar

from tiers.errors import InvalidParameterError, NoResidualError
from tiers.local.rates import Rates
from tiers.local.signal import Signal

__all__ = ["DOMAIN_LIMIT", "Subset", "check_domain", "expanded"]

DOMAIN_LIMIT = 2**12


@dataclass(frozen=True, slots=True)
class Subset:
    """Subset(d, k): with probability s the true value and k−1 uniform others, else a uniform set of k values.

    Law:        P(S | x) = s·[x ∈ S]/C(d−1, k−1) + (1−s)/C(d, k); covers x with t = s + (1−s)k/d and any other value
                with f = s(k−1)/(d−1) + (1−s)k/d.
    Guarantee:  ε-LDP with e^ε = 1 + s·d/((1−s)k), attained by every report; a set carries membership and no order.
    Args:       domain_size: d, 2 to 4,096. subset_size: k, 1 to d−1. signal: s.
    Raises:     InvalidParameterError: a size out of range.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), section 5; Ye and Barg 2018.
    Example:
        >>> law = Subset.paying(10, 1, Fraction(2))
        >>> round(law.rates().true, 6), round(law.rates().false, 6)
        (0.450853, 0.061016)
    """

    domain_size: int
    subset_size: int
    signal: Signal
    family: ClassVar[str] = "subset"

    def __post_init__(self) -> None:
        check_domain(self.domain_size)
        size = self.subset_size
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size < self.domain_size:
            raise InvalidParameterError("subset size", f"an integer from 1 to {self.domain_size - 1}", size)

    @classmethod
    def paying(cls, domain_size: int, subset_size: int, epsilon: Fraction) -> "Subset":
        """Return the mechanism that spends exactly ε; raises as the constructors do."""
        cls(domain_size, subset_size, Signal.rational(Fraction(1, 2)))
        return cls(domain_size, subset_size, Signal.paying(epsilon, coverage=Fraction(subset_size, domain_size)))

    @property
    def coverage(self) -> Fraction:
        """Return κ = k/d."""
        return Fraction(self.subset_size, self.domain_size)

    def rates(self) -> Rates:
        """Return how often a report covers the true value, and any other one."""
        s, rest, d, k = self.signal.value(), self.signal.rest(), self.domain_size, self.subset_size
        true, false = s + rest * k / d, s * (k - 1) / (d - 1) + rest * k / d
        return Rates(true, false, s * (d - k) / (d - 1), rest * (d - k) / d)

    def epsilon(self) -> float:
        """Return the ε that is spent, as a double."""
        return self.signal.epsilon_at(self.coverage)

    def variance(self) -> float:
        """Return the paper's variance of a report: (t(1−t) + (d−1)f(1−f))/(t−f)², summed over the domain."""
        return self.rates().variance(self.domain_size)

    def probability(self, report: int, value: int) -> Fraction:
        """Return P(report | value) exactly, for a rational signal; a report is its bits, value v in bit v."""
        s, d, k = self.signal.fraction(), self.domain_size, self.subset_size
        if report.bit_count() != k or report >> d:
            return Fraction(0)
        return s * (report >> value & 1) / comb(d - 1, k - 1) + (1 - s) / comb(d, k)

    def check_step(self, lower: "Subset") -> None:
        """Refuse a tier below that no expansion and rescaling reaches.

        The nesting law: (k, s) reaches (k′, s′) iff k′ ≥ k and s′ ≤ s, which is k′(e^ε′ − 1) ≤ k(e^ε − 1).

        Raises:     NoResidualError: another domain, a smaller set, or a larger signal.
        """
        if lower.domain_size != self.domain_size:
            raise NoResidualError(repr(self), repr(lower), f"domains of {self.domain_size} and {lower.domain_size}")
        if lower.subset_size < self.subset_size:
            witness = f"expansion never shrinks a set, and {lower.subset_size} < {self.subset_size}"
            raise NoResidualError(repr(self), repr(lower), witness)
        if not self.signal.reaches(lower.signal):
            witness = f"the signal below ({lower.signal.value():.6g}) is larger than {self.signal.value():.6g}"
            raise NoResidualError(repr(self), repr(lower), witness)

    def parameters(self) -> dict[str, str]:
        """Return the canonical texts that identify the mechanism."""
        sizes = {"domain_size": str(self.domain_size), "subset_size": str(self.subset_size)}
        return sizes | self.signal.parameters()


def check_domain(size: int) -> int:
    """Return a domain size; refuses a domain without a choice, or beyond the limit."""
    if isinstance(size, bool) or not isinstance(size, int) or not 2 <= size <= DOMAIN_LIMIT:
        raise InvalidParameterError("domain size", f"an integer from 2 to {DOMAIN_LIMIT}", size)
    return size


def expanded(law: Subset, subset_size: int) -> Subset:
    """Return the law after expansion: uniform values from outside are added, and the signal stays.

    Law:        k′(e^ε′ − 1) = k(e^ε − 1), so one step gives e^ε′ = (k·e^ε + 1)/(k + 1).
    Raises:     NoResidualError: a smaller set. InvalidParameterError: a size out of range.
    Example:
        >>> round(expanded(Subset.paying(10, 1, Fraction(2)), 2).epsilon(), 6)
        1.433781
    """
    lower = Subset(law.domain_size, subset_size, law.signal)
    law.check_step(lower)
    return lower
