"""One filter a person: arrays of integers, decided for a whole round at once, before anybody's noise is drawn."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiers.accounting.charges import LedgerKind
from tiers.accounting.conversions import is_rational, rho_star_nano
from tiers.accounting.filters import nano_down
from tiers.accounting.metric import EVERY, Reach
from tiers.errors import InvalidParameterError

__all__ = ["Nanos", "People", "PeopleLedger"]

Nanos: TypeAlias = npt.NDArray[np.int64]
People: TypeAlias = npt.NDArray[np.intp]
_MOST = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class PeopleLedger:
    """Everybody's own filter: budgets and spent sums in units of 10⁻⁹, a ledger after each round.

    Guarantee:  each person's own transcript keeps their budget, whoever else is asked and whatever is answered: a
                person's decision depends on charges alone. Refusals do not latch; what was not spent stays theirs.
    Args:       kind, reach: what the units measure, and up to which distance. budget, spent: int64, 0 ≤ spent ≤ budget.
    Raises:     InvalidParameterError: other arrays (a float never is a budget), or nobody.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, algorithms 1 and 2; Feldman and Zrnic 2021.
    Example:
        >>> ledger = PeopleLedger.even(LedgerKind.ZCDP, 3, Fraction(1))
        >>> ledger, admitted = ledger.charge(np.array([0, 2]), np.array([10**9, 10**9 + 1]))
        >>> admitted.tolist(), ledger.remaining.tolist()
        ([True, False], [0, 1000000000, 1000000000])
    """

    kind: LedgerKind
    budget: Nanos
    spent: Nanos
    reach: Reach = EVERY

    def __post_init__(self) -> None:
        for name in ("budget", "spent"):
            _check_nanos(name, getattr(self, name))
        if len(self.budget) != len(self.spent) or not len(self.budget):
            raise InvalidParameterError("people", "one budget and one spent sum each, of at least one", len(self.spent))
        if (self.spent > self.budget).any():
            raise InvalidParameterError("spent", "at most each person's budget", "more")

    @classmethod
    def even(cls, kind: LedgerKind, people: int, budget: Fraction, reach: Reach = EVERY) -> "PeopleLedger":
        """Return unspent ledgers of one budget, rounded down to whole units.

        Raises:     InvalidParameterError: nobody, a budget below 10⁻⁹ that is not a rational, or an (ε, δ) ledger (see
                    `promising`).
        """
        if kind is LedgerKind.APPROX:
            raise InvalidParameterError("kind", "pure or zCDP; (ε, δ) ledgers are made by `promising`", kind.value)
        units = nano_down(Fraction(budget)) if is_rational(budget) else 0
        if not 1 <= units <= _MOST:
            raise InvalidParameterError("budget", "a rational from 10⁻⁹ to 4·10⁹", budget)
        return cls._unspent(kind, people, units, reach)

    @classmethod
    def promising(cls, people: int, epsilon: Fraction, delta: Fraction, reach: Fraction) -> "PeopleLedger":
        """Return unspent ledgers that promise everybody (ε, δ, Λ)-GP: budgets of ⌊ρ*·10⁹⌋ units.

        Example:
            >>> PeopleLedger.promising(2, Fraction(1), Fraction(1, 10**6), Fraction(1)).budget.tolist()
            [22360381, 22360381]
        """
        units = rho_star_nano(epsilon, delta, reach)
        if units < 1:
            raise InvalidParameterError("budget", "a promise that allows at least 10⁻⁹ ρ", (epsilon, delta))
        return cls._unspent(LedgerKind.APPROX, people, units, reach)

    @classmethod
    def _unspent(cls, kind: LedgerKind, people: int, units: int, reach: Reach) -> "PeopleLedger":
        if type(people) is not int or people < 1:
            raise InvalidParameterError("people", "an integer ≥ 1", people)
        return cls(kind, np.full(people, units, np.int64), np.zeros(people, np.int64), reach)

    def __len__(self) -> int:
        return len(self.budget)

    @property
    def remaining(self) -> Nanos:
        """Return what each person may still be charged."""
        left: Nanos = self.budget - self.spent
        return left

    def admits(self, who: People, charges: Nanos) -> npt.NDArray[np.bool_]:
        """Return for whom of `who` the charge fits; nothing is spent.

        Raises:     InvalidParameterError: people that do not rise strictly within the ledger, charges that are not
                    int64 ≥ 0, one each.
        """
        self._check(who, charges)
        left = self.budget[who]
        left -= self.spent[who]
        fits: npt.NDArray[np.bool_] = charges <= left
        return fits

    def charge(self, who: People, charges: Nanos) -> tuple["PeopleLedger", npt.NDArray[np.bool_]]:
        """Return the ledger after a round, and who was admitted: the others spend nothing. Raises as `admits`."""
        admitted = self.admits(who, charges)
        spent = self.spent.copy()
        spent[who[admitted]] += charges[admitted]
        return self._after(spent), admitted

    def _after(self, spent: Nanos) -> "PeopleLedger":
        """The same ledger with other sums, which `charge` has kept within the budgets: they are not checked again."""
        made = object.__new__(PeopleLedger)
        for name in ("kind", "budget", "reach"):
            object.__setattr__(made, name, getattr(self, name))
        object.__setattr__(made, "spent", spent)
        return made

    def _check(self, who: People, charges: Nanos) -> None:
        _check_nanos("charges", charges)
        if who.ndim != 1 or who.dtype.kind != "i" or len(who) != len(charges):
            raise InvalidParameterError("people", "an integer index and a charge each", (who.dtype, who.shape))
        if len(who) and not (who[0] >= 0 and who[-1] < len(self.budget) and (who[1:] > who[:-1]).all()):
            raise InvalidParameterError("people", "indices that rise strictly within the ledger", "others")


def _check_nanos(name: str, units: Nanos) -> None:
    if not isinstance(units, np.ndarray) or units.dtype != np.int64 or units.ndim != 1:
        raise InvalidParameterError(name, "a vector of int64, in units of 10⁻⁹", getattr(units, "dtype", type(units)))
    if len(units) and not (units.min() >= 0 and units.max() <= _MOST):
        raise InvalidParameterError(name, "integers from 0 to 2⁶²", "others")
