"""Rounds that are tiers of one chain: in a pure ledger the next round costs only the difference.

Each person's number gets two-sided geometric noise at the highest tier, and residuals from there down; rounds reveal
the tiers from the lowest up. A coalition of tiers knows what its best one tells, so a transcript's ratio is at most e
to the highest revealed level, and a round is charged the increment to it: sound for pure ε, whoever decides to stop.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tiers.accounting.charges import LedgerKind
from tiers.accounting.filters import increment
from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.elimination import Intervals
from tiers.adaptive.release import Streams
from tiers.adaptive.widths import tsg_width
from tiers.budget import Ladder, nano_up
from tiers.errors import InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.sampling.choose import DIGITS, sampler_for, sampler_named, vector_sampler

__all__ = ["TierRounds", "tier_intervals", "tier_laws"]


def tier_laws(ladder: Ladder, stretch: Fraction = Fraction(1)) -> tuple[TwoSidedGeometric, ...]:
    """Return the laws of a ladder's tiers, lowest first: ε-GP for integers that move by at most `stretch` a unit.

    Args:       ladder: budgets ε a unit of distance. stretch: steps that a released integer moves a unit, at most.
    Raises:     InvalidParameterError: a stretch that is not a positive rational.
    Example:
        >>> [str(law.rate) for law in tier_laws(Ladder.parse(["1", "0.5"]))]
        ['1/2', '1']
    """
    if not isinstance(stretch, Fraction) or stretch <= 0:
        raise InvalidParameterError("stretch", "a positive Fraction", stretch)
    return tuple(TwoSidedGeometric(epsilon / stretch) for epsilon in reversed(ladder.epsilons))


def tier_intervals(laws: Sequence[TwoSidedGeometric], people: int, step: float, beta: float) -> Intervals:
    """Return the intervals of tiers revealed from the lowest up: the newest value alone counts.

    Law:        width_j = step·h_j, h_j the least integer with P(|noise of tier j| > h_j) ≤ β; exact, both sides.
    Args:       step: of the integers, in units; half of one is added for the rounding of a distance where step ≠ 1.
    Example:
        >>> tier_intervals(tier_laws(Ladder.parse(["1", "0.25"])), 1, 1.0, 0.05).width.tolist()
        [[12.0, 3.0]]
    """
    widths = [(tsg_width(law, Fraction(beta)) + (step != 1.0)) * step for law in laws]
    sigmas = [step * law.variance() ** 0.5 for law in laws]
    ones = np.ones((1, len(laws)))
    return Intervals(np.zeros(people, np.int32), ones, np.array([sigmas]), np.array([widths]))


class TierRounds:
    """Reveals everybody's tiers from the lowest up, and charges each person the increment before it shows anything.

    All tiers are drawn when this is made, from the top down, and kept: a tier is one number for ever.

    Guarantee:  a person's transcript is ε-GP for the highest level revealed of theirs, within their pure budget.
    Args:       values: int64, one a person, in steps. ladder, stretch: see `tier_laws`. ledger: pure, of these people.
                streams: of this query.
    Raises:     InvalidParameterError: other people, or a ledger that is not pure (there increments are unsound).
    """

    __slots__ = ("_charges", "_step", "_tiers", "ledger")

    def __init__(
        self,
        values: npt.NDArray[np.int64],
        ladder: Ladder,
        ledger: PeopleLedger,
        streams: Streams,
        *,
        stretch: Fraction = Fraction(1),
        step: float = 1.0,
    ) -> None:
        if values.shape != (len(ledger),) or values.dtype != np.int64:
            raise InvalidParameterError("values", "an int64 a person of the ledger", values.shape)
        if ledger.kind is not LedgerKind.PURE:
            raise InvalidParameterError("ledger", "pure: elsewhere increments are unsound", ledger.kind.value)
        levels = [0, *(nano_up(epsilon) for epsilon in reversed(ladder.epsilons))]
        self._charges = [increment(level, before) for before, level in pairwise(levels)]
        self._tiers = _drawn(values, tier_laws(ladder, stretch), streams)
        self._step, self.ledger = step, ledger

    def __call__(self, place: int, who: People) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Charge a round and show it to those admitted; raises as the ledger does."""
        charges: Nanos = np.full(len(who), self._charges[place], np.int64)
        self.ledger, admitted = self.ledger.charge(who, charges)
        return np.multiply(self._tiers[place][who[admitted]], self._step, dtype=np.float64), admitted


def _drawn(
    values: npt.NDArray[np.int64], laws: Sequence[TwoSidedGeometric], streams: Streams
) -> list[npt.NDArray[np.int64]]:
    """Return the tiers, lowest first; they are drawn from the highest down."""
    tiers = [_noisy(values, laws[-1], streams, "base")]
    for lower, upper in reversed(list(pairwise(laws))):
        tiers.append(_noisy(tiers[-1], upper.residual_to(lower), streams, "residual"))
    return tiers[::-1]


def _noisy(
    values: npt.NDArray[np.int64], law: TwoSidedGeometric | ZeroInflated, streams: Streams, role: str
) -> npt.NDArray[np.int64]:
    rates = (law.upper.rate, law.lower.rate) if isinstance(law, ZeroInflated) else (law.rate,)
    words = streams({"law": [str(rate) for rate in rates], "people": str(len(values)), "role": role})
    name = sampler_for(law, len(values))
    if name == DIGITS:
        return values + np.array(sampler_named(name, law).draw(words, len(values)), np.int64)
    return vector_sampler(name, law).add_to(words, values, np.empty_like(values))
