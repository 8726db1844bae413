"""Privacy losses of one shifted entry as arrays of doubles, which vectors compose; all is rounded to the safe side.

L(x) = log P(x)/P(x + d) rises with x for a log-concave law, so one sorted array holds all losses, and sums from its
end are tails. All sums are of positive terms; the few roundings of a term are paid for by a factor on the masses and a
shift of the losses.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tiers.noise.tails import TableTails

__all__ = ["LOSS_UP", "MASS_UP", "Losses", "losses_of_table"]

MASS_UP = 1 + 1e-12  # thousands of roundings of 2⁻⁵³ each
LOSS_UP = 1e-12
_CERTAIN = 1 << 56

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses in ascending order with their masses, and a mass whose loss counts as infinite.

    Law:        δ(ε) = infinite + Σ_{ℓ > ε} mass·(1 − e^(ε − ℓ)), never below the true one.
    Example:
        >>> law = Losses(np.array([-1.0, 1.0]), np.array([0.25, 0.75]), 0.0)
        >>> round(float(law.deltas(np.array([0.0]))[0]), 6)
        0.47409
    """

    values: Array
    masses: Array
    infinite: float

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        """Return Σ_{ℓ ≥ value} of the masses and of mass·e^(−ℓ), from the end."""
        other = self.masses * np.exp(-np.minimum(np.maximum(self.values, -700.0), 700.0))
        both = (np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in (self.masses, other))
        here, there = both
        return here, there

    def deltas(self, epsilons: Array) -> Array:
        """Return δ at each ε, of any sign, rounded up."""
        here, there = self._sums
        place = np.searchsorted(self.values, epsilons, side="right")
        moved = np.exp(np.minimum(epsilons, 700.0)) * there[place]
        return self.infinite + np.maximum(here[place] * MASS_UP - moved * (2 - MASS_UP), 0.0)


def losses_of_table(tails: TableTails, shift: int) -> Losses:
    """Return the losses of a symmetric log-concave table under a shift; what is too small to be sure is infinite.

    Example:
        >>> from fractions import Fraction
        >>> from tiers.noise.skellam import Skellam
        >>> from tiers.sensitivity import ChangeSet
        >>> noise = Skellam(Fraction(5))
        >>> law = losses_of_table(noise.tails(192), 1)
        >>> abs(float(law.deltas(np.array([0.5]))[0]) - noise.delta(Fraction(1, 2), ChangeSet.scalar(1))) < 1e-12
        True
    """
    one, half = float(1 << tails.bits), tails.masses[:-1]
    sure = next((k for k, mass in enumerate(half) if mass < _CERTAIN), len(half))
    logs = np.array([math.log(mass) for mass in half[:sure]])
    sizes = np.array([mass / one for mass in half[:sure]])
    places = np.arange(-(sure - 1), sure - shift)  # both x and x + shift lie within the certain masses
    if not len(places):
        return Losses(np.zeros(0), np.zeros(0), 1.0)
    here, there = np.abs(places), np.abs(places + shift)
    lost = (tails.tail(sure - shift) + tails.tail(sure) + 2 * tails.error) / one
    slack = LOSS_UP + 4 * 2.0**-53 * logs[0]
    return Losses(logs[here] - logs[there] + slack, sizes[here] * MASS_UP, lost * MASS_UP)
