"""How often a report covers the true value and any other one: all that an estimate needs to know of a mechanism."""

from dataclasses import dataclass

__all__ = ["Rates"]


@dataclass(frozen=True, slots=True)
class Rates:
    """t, f and their difference, each by its own formula: no cancellation where signals are small."""

    true: float
    false: float
    gap: float

    def variance(self, domain_size: int) -> float:
        """Return (t(1−t) + (d−1)f(1−f))/(t−f)²: one report's variance, summed over the domain.

        Example:
            >>> Rates(0.75, 0.25, 0.5).variance(3)
            2.25
        """
        t, f = self.true, self.false
        return (t * (1 - t) + (domain_size - 1) * f * (1 - f)) / self.gap**2
