"""Privacy filters: hard ceilings decided before anything is revealed, in integers of 10⁻⁹.

One rule, three front ends: the sum of the charges stays within a whole number of units. What a unit is, and which
budget stands for the promise, is all that differs: 10⁻⁹ ε for pure ledgers, 10⁻⁹ ρ for zCDP ledgers, and for (ε, δ)
ledgers 10⁻⁹ ρ again, with ρ* (the exact inverse of formula (3)) for the budget. Charges round up, budgets down; no
float decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Self, TypeVar

from tiers.accounting.conversions import is_rational, rho_star_nano, zcdp_admits
from tiers.budget import NANO
from tiers.errors import BudgetExceededError, InvalidParameterError

__all__ = ["ApproxFilter", "Decision", "PureFilter", "ZCDPFilter", "increment", "nano_down", "replay", "replay_latched"]


class Decision(Enum):
    """What a filter says to a request; a refused request reveals nothing."""

    CONT = "CONT"
    HALT = "HALT"


class _Filter:
    """The rule that all filters share; their fields are their own."""

    __slots__ = ()
    budget_nano: int
    spent_nano: int

    @property
    def remaining_nano(self) -> int:
        """Return what may still be charged."""
        return self.budget_nano - self.spent_nano

    def admits(self, charge_nano: int) -> bool:
        """Return whether the charge fits; anything that is not an integer ≥ 0 never does."""
        return type(charge_nano) is int and 0 <= charge_nano <= self.budget_nano - self.spent_nano

    def charge(self, charge_nano: int) -> Self:
        """Return the filter after the charge.

        Raises:     BudgetExceededError: it does not fit; nothing is spent, and a smaller request may still pass.
                    InvalidParameterError: not an integer ≥ 0.
        """
        if type(charge_nano) is not int or charge_nano < 0:
            raise InvalidParameterError("charge_nano", "an integer ≥ 0", charge_nano)
        if not self.admits(charge_nano):
            raise BudgetExceededError(charge_nano, self.remaining_nano)
        return self._after(self.spent_nano + charge_nano)

    def _after(self, spent_nano: int) -> Self:
        """The same filter with another sum: every other field was checked when `self` was made."""
        made = object.__new__(type(self))
        names: tuple[str, ...] = type(self).__slots__
        for name in names:
            object.__setattr__(made, name, getattr(self, name))
        object.__setattr__(made, "spent_nano", spent_nano)
        return made


@dataclass(frozen=True, slots=True)
class PureFilter(_Filter):
    """The filter of a pure ε ledger: admit a charge iff the sum of charges stays within the budget.

    Guarantee:  whatever is admitted, adaptively and in any order, the whole transcript is budget-DP. A refusal does not
                latch: a smaller request may still pass, because a refused request reveals nothing.
    Args:       budget_nano, spent_nano: ε in units of 10⁻⁹, 0 ≤ spent ≤ budget, budget ≥ 1.
    Raises:     InvalidParameterError: not such integers.
    Reference:  Rogers, Roth, Ullman, Vadhan 2016; max-tier rule: docs/architecture.md.
    Example:
        >>> PureFilter(budget_nano=1_000_000_000).charge(400_000_000).remaining_nano
        600000000
    """

    budget_nano: int
    spent_nano: int = 0

    def __post_init__(self) -> None:
        _check_units(self)

    @classmethod
    def of(cls, epsilon: Fraction) -> Self:
        """Return the unspent filter of a budget ε, rounded down to whole units.

        Raises:     InvalidParameterError: not a rational of at least 10⁻⁹ (0, a float and NaN never are).
        Example:
            >>> PureFilter.of(Fraction(1, 3)).budget_nano
            333333333
        """
        return cls(_budget("budget", epsilon))


@dataclass(frozen=True, slots=True)
class ZCDPFilter(_Filter):
    """The filter of a ρ-zCDP ledger: the same rule, in units of 10⁻⁹ ρ.

    Guarantee:  whatever is admitted, adaptively and in any order, the whole transcript is budget-zCDP; no latch.
    Args:       budget_nano, spent_nano: ρ in units of 10⁻⁹, 0 ≤ spent ≤ budget, budget ≥ 1.
    Raises:     InvalidParameterError: not such integers.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, filter (7) and theorem 4.4; Feldman and Zrnic 2021.
    Example:
        >>> ZCDPFilter.of(Fraction(1, 2)).charge(125_000_000).remaining_nano
        375000000
    """

    budget_nano: int
    spent_nano: int = 0

    def __post_init__(self) -> None:
        _check_units(self)

    @classmethod
    def of(cls, rho: Fraction) -> Self:
        """Return the unspent filter of a budget ρ, rounded down; raises as `PureFilter.of`."""
        return cls(_budget("budget", rho))


@dataclass(frozen=True, slots=True)
class ApproxFilter(_Filter):
    """The filter of an (ε, δ) ledger: the zCDP rule with the budget ρ*(ε, δ, Λ), the inverse of formula (3).

    Law:        admit iff formula (3) of the sum of charges is at most ε, that is iff the sum is at most ⌊ρ*·10⁹⌋ units.
    Guarantee:  whatever is admitted, adaptively and in any order, the whole transcript is (ε, δ)-DP; no latch.
    Args:       epsilon, delta, reach: the promise, exact. budget_nano, spent_nano: ρ in units of 10⁻⁹; make it by `of`.
    Raises:     InvalidParameterError: not such numbers, or a budget that formula (3) does not allow for the promise.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, filter (10).
    Example:
        >>> ApproxFilter.of(Fraction(1), Fraction(1, 10**6)).budget_nano
        22360381
    """

    epsilon: Fraction
    delta: Fraction
    reach: Fraction
    budget_nano: int
    spent_nano: int = 0

    def __post_init__(self) -> None:
        _check_units(self)
        if not zcdp_admits(Fraction(self.budget_nano, NANO), self.epsilon, self.delta, self.reach):
            raise InvalidParameterError("budget_nano", "at most ⌊ρ*·10⁹⌋ of the promise", self.budget_nano)

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, reach: Fraction | int = 1) -> Self:
        """Return the unspent filter of a promise (ε, δ) at distances up to `reach`.

        Raises:     InvalidParameterError: not positive rationals, δ outside (0, 1), or a ρ* below 10⁻⁹.
        """
        units = rho_star_nano(epsilon, delta, reach)
        if units < 1:
            raise InvalidParameterError("budget", "a promise that allows at least 10⁻⁹ ρ", (epsilon, delta))
        return cls(Fraction(epsilon), delta, Fraction(reach), units)


def increment(level_nano: int, highest_issued_nano: int) -> int:
    """Return what a sale adds to a chain's charge in a pure ledger: the level above its highest issued one, or 0.

    Guarantee:  sound for adaptive, interleaved sales on pure-ε chains whose coalitions are bounded by their best tier:
                unrevealed tiers integrate out, so a transcript's ratio is at most e^(Σ highest issued ε).
    Example:
        >>> increment(1_000_000_000, 250_000_000), increment(500_000_000, 1_000_000_000)
        (750000000, 0)
    """
    return max(0, level_nano - highest_issued_nano)


def nano_down(amount: Fraction) -> int:
    """Return a budget in units of 10⁻⁹, rounded down: the ledger never allows more than was promised.

    Example:
        >>> nano_down(Fraction(2, 3))
        666666666
    """
    return amount.numerator * NANO // amount.denominator


_AnyFilter = TypeVar("_AnyFilter", PureFilter, ZCDPFilter, ApproxFilter)


def replay(before: _AnyFilter, charges_nano: Iterable[int]) -> tuple[tuple[Decision, ...], _AnyFilter]:
    """Return the decision on each request in turn, and the filter after them: refusals leave the rest usable.

    Example:
        >>> [decision.value for decision in replay(PureFilter(10), [6, 5, 4])[0]]
        ['CONT', 'HALT', 'CONT']
    """
    decisions = []
    for charge in charges_nano:
        admitted = before.admits(charge)
        decisions.append(Decision.CONT if admitted else Decision.HALT)
        before = before.charge(charge) if admitted else before
    return tuple(decisions), before


def replay_latched(before: _AnyFilter, charges_nano: Iterable[int]) -> tuple[tuple[Decision, ...], _AnyFilter]:
    """Return the same when the first refusal is final, as in Liang and Yi's algorithm 1: for analysis only.

    Example:
        >>> [decision.value for decision in replay_latched(PureFilter(10), [6, 5, 4])[0]]
        ['CONT', 'HALT', 'HALT']
    """
    requests = tuple(charges_nano)
    decisions, _ = replay(before, requests)
    kept = decisions.index(Decision.HALT) if Decision.HALT in decisions else len(requests)
    admitted, after = replay(before, requests[:kept])
    return admitted + (Decision.HALT,) * (len(requests) - kept), after


def _check_units(made: _Filter) -> None:
    budget, spent = made.budget_nano, made.spent_nano
    if type(budget) is not int or budget < 1:
        raise InvalidParameterError("budget_nano", "an integer ≥ 1", budget)
    if type(spent) is not int or spent < 0:
        raise InvalidParameterError("spent_nano", "an integer ≥ 0", spent)
    if spent > budget:
        raise InvalidParameterError("spent_nano", f"at most the budget {budget}", spent)


def _budget(name: str, amount: object) -> int:
    units = nano_down(Fraction(amount)) if is_rational(amount) else 0
    if units < 1:
        raise InvalidParameterError(name, "a rational of at least 10⁻⁹", amount)
    return units
