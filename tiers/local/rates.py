"""How often a report covers the true value and any other one: all that an estimate needs to know of a mechanism."""

from dataclasses import dataclass

__all__ = ["Rates"]


@dataclass(frozen=True, slots=True)
class Rates:
    """t, f and their difference, each by its own formula: no cancellation where signals are small."""

    true: float
    false: float
    gap: float
