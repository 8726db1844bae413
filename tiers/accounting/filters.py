"""Privacy filters: hard ceilings decided before anything is revealed, in integers of 10⁻⁹."""

from dataclasses import dataclass

from tiers.errors import BudgetExceededError, InvalidParameterError

__all__ = ["PureFilter", "increment"]


@dataclass(frozen=True, slots=True)
class PureFilter:
    """The filter of a pure ε ledger: admit a charge iff the sum of charges stays within the budget.

    Guarantee:  whatever is admitted, adaptively and in any order, the whole transcript is budget-DP. A refusal does not
                latch: a smaller request may still pass, because a refused request reveals nothing.
    Args:       budget_nano, spent_nano: ε in units of 10⁻⁹, 0 ≤ spent ≤ budget.
    Raises:     InvalidParameterError: not such integers.
    Reference:  Rogers, Roth, Ullman, Vadhan 2016; max-tier rule: docs/architecture.md.
    Example:
        >>> PureFilter(budget_nano=1_000_000_000).charge(400_000_000).remaining_nano
        600000000
    """

    budget_nano: int
    spent_nano: int = 0

    def __post_init__(self) -> None:
        for name in ("budget_nano", "spent_nano"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidParameterError(name, "an integer ≥ 0", value)
        if self.spent_nano > self.budget_nano:
            raise InvalidParameterError("spent_nano", f"at most the budget {self.budget_nano}", self.spent_nano)

    @property
    def remaining_nano(self) -> int:
        """Return what may still be charged."""
        return self.budget_nano - self.spent_nano

    def admits(self, charge_nano: int) -> bool:
        """Return whether the charge fits; anything that is not an integer ≥ 0 never does."""
        valid = isinstance(charge_nano, int) and not isinstance(charge_nano, bool) and charge_nano >= 0
        return valid and charge_nano <= self.remaining_nano

    def charge(self, charge_nano: int) -> "PureFilter":
        """Return the filter after the charge.

        Raises:     BudgetExceededError: it does not fit; nothing is spent.
        """
        if isinstance(charge_nano, bool) or not isinstance(charge_nano, int) or charge_nano < 0:
            raise InvalidParameterError("charge_nano", "an integer ≥ 0", charge_nano)
        if not self.admits(charge_nano):
            raise BudgetExceededError(charge_nano, self.remaining_nano)
        return PureFilter(self.budget_nano, self.spent_nano + charge_nano)


def increment(level_nano: int, highest_issued_nano: int) -> int:
    """Return what a sale adds to a chain's charge in a pure ledger: the level above its highest issued one, or 0.

    Guarantee:  sound for adaptive, interleaved sales on pure-ε chains whose coalitions are bounded by their best tier:
                unrevealed tiers integrate out, so a transcript's ratio is at most e^(Σ highest issued ε).
    Example:
        >>> increment(1_000_000_000, 250_000_000), increment(500_000_000, 1_000_000_000)
        (750000000, 0)
    """
    return max(0, level_nano - highest_issued_nano)
