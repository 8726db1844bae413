"""Rounds that were released already, taken again by whoever holds their values: charges and decisions, no noise."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.asking import Opening
from tiers.adaptive.rounds import Schedule
from tiers.adaptive.space import Places

__all__ = ["Released", "ReplayedRounds", "replaying"]

Released: TypeAlias = Callable[[int, People, Nanos], Places]
"""What was released in a round to those who are due, in steps; it is told what they are charged, and may raise."""


class ReplayedRounds:
    """Charges each round as it was charged, by every person's own filter, and reads its values where they are kept.

    Guarantee:  what follows is a function of the values and of the budgets before: the same people are asked, the same
                charges made, the same answer read, by whoever holds them.
    """

    __slots__ = ("_members", "_released", "_schedule", "ledger")

    def __init__(self, schedule: Schedule, ledger: PeopleLedger, members: People, released: Released) -> None:
        self._schedule, self._members, self._released = schedule, members, released
        self.ledger = ledger

    def __call__(self, place: int, who: People) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return a round's values in units, and who was admitted; raises what `released` does."""
        charges = self._schedule.costs[:, place][self._schedule.classes[who]]
        self.ledger, admitted = self.ledger.charge(self._members[who], charges)
        values = self._released(place, self._members[who[admitted]], charges[admitted])
        return np.multiply(values, float(self._schedule.space.step), dtype=np.float64), admitted


def replaying(ledger: PeopleLedger, released: Released) -> Opening:
    """Return what opens rounds that were released before.

    Example:
        >>> from fractions import Fraction
        >>> from tiers.accounting.charges import LedgerKind
        >>> from tiers.adaptive.queries import Plan, count_rounds
        >>> from tiers.adaptive.rounds import Mode
        >>> from tiers.adaptive.shapes import Disc
        >>> from tiers.adaptive.space import Space
        >>> plan = Plan(Space((Fraction(0),), Fraction(1, 8), (801,)), Mode.DISTANCE, (Fraction(1),), 0.1)
        >>> ledger = PeopleLedger.even(LedgerKind.ZCDP, 2, Fraction(1))
        >>> kept = lambda place, who, charges: np.array([-9 * 8192, 30 * 8192])  # the disc's border is 9 and 30 away
        >>> answer = count_rounds(plan, Disc((50.0,), 20.0), ledger.remaining, ledger, replaying(ledger, kept))
        >>> answer.reading.certain, answer.reading.outside
        (1, 1)
    """
    return lambda schedule, members: ReplayedRounds(schedule, ledger, members, released)
