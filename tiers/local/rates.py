"""How often a report covers the true value and any other one: all that an estimate needs to know of a mechanism."""

from dataclasses import dataclass

__all__ = ["Rates"]


@dataclass(frozen=True, slots=True)
class Rates:
    """t, f, t − f and 1 − t, each by its own formula: no cancellation where signals are small, or near 1."""

    true: float
    false: float
    gap: float
    missed: float | None = None  # 1 − t, where it is known better than from t

    @property
    def kept_spread(self) -> float:
        """Return t(1−t): how much the report of a value varies in covering it."""
        return self.true * self._missed

    @property
    def false_spread(self) -> float:
        """Return f(1−f), 1 − f = (t − f) + (1 − t): how much any other report varies in covering it."""
        return self.false * (self.gap + self._missed)

    @property
    def _missed(self) -> float:
        return 1 - self.true if self.missed is None else self.missed

    def variance(self, domain_size: int) -> float:
        """Return (t(1−t) + (d−1)f(1−f))/(t−f)²: one report's variance, summed over the domain.

        Example:
            >>> Rates(0.75, 0.25, 0.5).variance(3)
            2.25
        """
        return (self.kept_spread + (domain_size - 1) * self.false_spread) / self.gap**2
