"""Sensitivity as a set of integer change vectors, never as one number for a vector."""

from dataclasses import dataclass

from tiers.errors import InvalidParameterError

__all__ = ["ChangeSet"]

_STEP_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All d by which one unit may change an integer vector: ≤ `bins` entries not 0, |d_j| ≤ `step`, Σ|d_j| ≤ `total`.

    Args:       bins: most entries a unit touches (g). step: largest change of one entry, in steps of the grain (c).
                total: largest ℓ₁ change in steps (Δ₁); at least `step`, at most `bins`·`step`.
    Raises:     InvalidParameterError: a bound that is not a positive integer, or that no other bound lets be reached.
    Reference:  Dwork and Roth 2014, definition 3.1, as a set: a law's cost is its maximum over this set.
    Example:
        >>> ChangeSet(bins=2, step=10, total=10).total
        10
    """

    bins: int
    step: int
    total: int

    def __post_init__(self) -> None:
        for name in ("bins", "step", "total"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _STEP_LIMIT:
                raise InvalidParameterError(name, "an integer from 1 to 2⁶²", value)
        if not self.step <= self.total <= self.bins * self.step:
            raise InvalidParameterError("total", f"{self.step} ≤ Δ₁ ≤ bins·step = {self.bins * self.step}", self.total)

    @classmethod
    def scalar(cls, sensitivity: int) -> "ChangeSet":
        """Return the change set of one number: |d| ≤ `sensitivity`."""
        return cls(bins=1, step=sensitivity, total=sensitivity)
