"""Privacy losses of one shifted entry as arrays of doubles, which vectors compose; all is rounded to the safe side.

L(x) = log P(x)/P(x + d) rises with x for a log-concave law, so one sorted array holds all losses, and sums from its
end are tails. δ rises with every loss and every mass, so both are rounded up, and what is subtracted is rounded down.

All sums are of terms ≥ 0. With u = 2^−53, a sum or product of n such terms, in any order, is right to the factor
(1 + u)^n ≤ 1 + 2nu for nu < 1/4, so `paid(n)` = 1 + 2^−51·(n + 64) is more than twice what n roundings and 64 further
ones (an exponential counts as 8, a quotient or a conversion as 1) can take away. What underflows is below 10^−300.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tiers.noise.tails import TableTails

__all__ = ["Losses", "losses_of_table", "paid", "raised"]

_CERTAIN = 1 << 56
_EXPONENT = 700.0  # e^±700 and its products with masses are normal doubles

Array = NDArray[np.float64]


def paid(count: int) -> float:
    """Return the factor that pays for the roundings of `count` terms of one sign, and for 64 more.

    Example:
        >>> paid(0) == 1 + 2.0**-45, paid(10**6) < 1 + 1e-9
        (True, True)
    """
    return 1.0 + (count + 64) * 2.0**-51


def raised(losses: Array) -> Array:
    """Return losses that stay above the exact ones when each came from at most 16 roundings of numbers of its size."""
    return losses + 2.0**-48 * np.abs(losses)


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses in ascending order with their masses, and a mass whose loss counts as infinite.

    Law:        δ(ε) = infinite + Σ_{ℓ > ε} mass·(1 − e^(ε − ℓ)), never below the true one.
    Example:
        >>> law = Losses(np.array([-1.0, 1.0]), np.array([0.25, 0.75]), 0.0)
        >>> round(float(law.deltas(np.array([0.0]))[0]), 6), round(law.delta(0.0), 6)
        (0.47409, 0.47409)
    """

    values: Array
    masses: Array
    infinite: float

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        """Return Σ_{ℓ ≥ value} of the masses and of mass·e^(−ℓ), from the end; beyond e^±700 the second is smaller."""
        falls = np.where(self.values > _EXPONENT, 0.0, np.exp(-np.clip(self.values, -_EXPONENT, _EXPONENT)))
        here, there = (np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in (self.masses, self.masses * falls))
        return here, there

    def deltas(self, epsilons: Array) -> Array:
        """Return δ at each ε, of any sign, rounded up: within about n·2^−50 of P(ℓ > ε)."""
        here, there = self._sums
        factor = paid(len(self.values))
        place = np.searchsorted(self.values, epsilons, side="right")
        moved = np.exp(np.minimum(epsilons, _EXPONENT)) * there[place]
        return self.infinite + np.maximum(here[place] * factor - moved * (2 - factor), 0.0)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up: term by term, so that nothing cancels where losses lie just above ε."""
        first = int(np.searchsorted(self.values, epsilon, side="right"))
        excess = np.nextafter(self.values[first:] - epsilon, math.inf)
        gained = self.masses[first:] * -np.expm1(-excess)
        return float(self.infinite + gained.sum()) * paid(len(excess)) + 1e-300


def losses_of_table(tails: TableTails, shift: int) -> Losses:
    """Return the losses of a symmetric log-concave table under a shift; what is too small to be sure is infinite.

    A mass of at least 2^56 units that is off by 1 unit is off by the factor 1 + 2^−56 < `paid(0)`, and its logarithm by
    2^−56; so a loss is off by 2^−55 and by the 16 roundings of two logarithms that are at most logs[0].

    Example:
        >>> from fractions import Fraction
        >>> from tiers.noise.skellam import Skellam
        >>> from tiers.sensitivity import ChangeSet
        >>> noise = Skellam(Fraction(5))
        >>> law = losses_of_table(noise.tails(192), 1)
        >>> abs(float(law.deltas(np.array([0.5]))[0]) - noise.delta(Fraction(1, 2), ChangeSet.scalar(1))) < 1e-12
        True
    """
    logs, sizes = _certain(tails)
    sure = len(logs)
    places = np.arange(-(sure - 1), sure - shift)  # both x and x + shift lie within the certain masses
    if not len(places):
        return Losses(np.zeros(0), np.zeros(0), 1.0)
    here, there = np.abs(places), np.abs(places + shift)
    lost = (tails.tail(sure - shift) + tails.tail(sure) + 2 * tails.error) / float(1 << tails.bits)
    slack = 2.0**-54 + 2.0**-48 * logs[0]
    values = np.maximum.accumulate(logs[here] - logs[there] + slack)  # sorted, whatever was rounded: never lowered
    return Losses(values, sizes[here] * paid(0), lost * paid(0))


@lru_cache(maxsize=4)
def _certain(tails: TableTails) -> tuple[Array, Array]:
    """Return the logarithms (of units) and the sizes of the masses at 0, 1, … that are sure."""
    half, least = tails.masses[:-1], _CERTAIN * tails.unit_error
    sure = next((k for k, mass in enumerate(half) if mass < least), len(half))
    # a quotient of an integer by a power of two rounds once
    sizes = np.array(half[:sure], dtype=object).astype(np.float64) * 2.0**-tails.bits
    return np.array(list(map(math.log, half[:sure]))), sizes
