"""The noise of every round, and its price: lattice Gaussian laws for whatever each person may spend.

Budgets differ from person to person, and each σ needs tables of its own, so people are put into classes: what a person
may spend is rounded down to a level of a geometric ladder, and what is lost by that stays in their ledger.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tiers.accounting.lattice import lattice_rho
from tiers.accounting.people import Nanos
from tiers.adaptive.elimination import Intervals, averaging
from tiers.adaptive.space import Space
from tiers.adaptive.widths import Table, lattice_widths
from tiers.budget import NANO, nano_up
from tiers.errors import InvalidParameterError

__all__ = ["CLASS_RATIO", "Mode", "RoundLaw", "Schedule", "budget_levels", "least_budget", "round_law", "schedule"]

CLASS_RATIO = Fraction(21, 20)
_SIGMA_LEAST, _SIGMA_MOST = 1024, 94_000_000  # where a lattice law is Gaussian enough, and has a vector sampler
_CLASSES_MOST = 4096


class Mode(Enum):
    """What of a person is released: the point itself, or its signed distance from something public."""

    POINT = "point"
    DISTANCE = "distance"


@dataclass(frozen=True, slots=True)
class RoundLaw:
    """One round's noise: σ in noise steps, and what it costs, in units of 10⁻⁹ ρ a squared unit of distance.

    Example:
        >>> RoundLaw(2048, 10**9).sigma
        2048
    """

    sigma: int
    cost_nano: int

    def precision(self, step: Fraction) -> float:
        """Return 1/(2σ²), σ in units: the weight of the round in an average."""
        return 1 / (2 * (self.sigma * float(step)) ** 2)


@lru_cache(maxsize=65536)
def round_law(budget_nano: int, space: Space, mode: Mode) -> RoundLaw:
    """Return noise, in whole steps, whose cost is at most the budget.

    It is hardly more than the least such noise, but where the box is wider than about σ² steps: there a price falls by
    leaps, σ is up to a fifth wider, and a smaller budget may be spent better.

    Law:        a point moves by multiples of the grain in each coordinate; a distance, rounded to a step, by at most
                (1 + 2/fine) times the places' distance (a step for rounding, one for floating point). Either way the
                cost is Skellam's own bound for such changes up to the box's diagonal (`tiers.accounting.lattice`).
    Guarantee:  the released value is cost-CGP over all pairs of places of the space.
    Args:       budget_nano: at least 1, in units of 10⁻⁹ ρ a squared unit.
    Returns:    never less than 1,024 steps of noise, whatever the budget: the rest is not spent.
    Raises:     InvalidParameterError: a budget so small for this grid that σ would exceed 9.4·10⁷ steps.
    Example:
        >>> space = Space((Fraction(0), Fraction(0)), Fraction(1, 100), (1001, 1001))
        >>> law = round_law(500_000_000, space, Mode.DISTANCE)  # a Gaussian of ρ = 1/2 has σ = 1: 102,400 steps
        >>> law.sigma, law.cost_nano <= 500_000_000
        (102602, True)
    """
    if type(budget_nano) is not int or budget_nano < 1:
        raise InvalidParameterError("budget", "an integer ≥ 1, in units of 10⁻⁹", budget_nano)
    law = _law_within(budget_nano, space, mode)
    if law is None:
        raise InvalidParameterError("budget", f"one whose σ is at most {_SIGMA_MOST} noise steps here", budget_nano)
    return law


def least_budget(space: Space, mode: Mode) -> int:
    """Return a budget of a round that the grid can meet, hardly above the price of the widest noise there is.

    Example:
        >>> space = Space((Fraction(0),), Fraction(1, 100), (1001,))
        >>> least = least_budget(space, Mode.POINT)
        >>> round_law(least, space, Mode.POINT).cost_nano <= least
        True
    """
    units = _cost(_SIGMA_MOST, space, mode)
    while _law_within(units, space, mode) is None:
        units += units // 100 + 1
    return units


def _law_within(budget_nano: int, space: Space, mode: Mode) -> RoundLaw | None:
    """Begin with the Gaussian's σ, rounded up, and widen it until the lattice's price fits."""
    square = Fraction(NANO, 2 * budget_nano) / space.step**2 * _stretch(space, mode) ** 2
    sigma = max(math.isqrt(math.floor(square)) + 1, _SIGMA_LEAST)
    while sigma <= _SIGMA_MOST:
        cost = _cost(sigma, space, mode)
        if cost <= budget_nano:
            return RoundLaw(sigma, cost)
        sigma = max(sigma + 1, math.ceil(sigma * math.sqrt(cost / budget_nano)))
    return None


def _stretch(space: Space, mode: Mode) -> Fraction:
    return 1 + Fraction(2, space.fine) if mode is Mode.DISTANCE else Fraction(1)


def _cost(sigma: int, space: Space, mode: Mode) -> int:
    stretch = _stretch(space, mode)
    reach = math.ceil(space.reach_steps * stretch)
    return nano_up(lattice_rho(sigma * sigma, reach, space.fine) * stretch**2 / space.step**2)


def budget_levels(allowed: Nanos, ratio: Fraction = CLASS_RATIO) -> tuple[npt.NDArray[np.int32], tuple[int, ...]]:
    """Return each person's class and the classes' budgets: what is allowed, rounded down to a power of the ratio.

    The powers are those of the ratio times the largest allowance, so equal allowances are one class and lose nothing.

    Raises:     InvalidParameterError: an allowance below 1 unit (such people cannot be asked), or over 4,096 classes.
    Example:
        >>> budget_levels(np.array([1000, 995, 500]), Fraction(101, 100))[1]
        (498, 990, 1000)
    """
    top = int(allowed.max(initial=0))
    if not len(allowed) or int(allowed.min()) < 1:
        raise InvalidParameterError("allowance", "at least 1 unit each", int(allowed.min(initial=0)))
    span = math.log(top / int(allowed.min())) / math.log(ratio)
    if span > _CLASSES_MOST:
        raise InvalidParameterError("allowances", f"at most {_CLASSES_MOST} classes of ratio {ratio}", math.ceil(span))
    levels = [top]
    while levels[-1] > int(allowed.min()):
        levels.append(min(levels[-1] - 1, top * ratio.denominator ** len(levels) // ratio.numerator ** len(levels)))
    rising = np.array(levels[::-1], np.int64)
    place = np.searchsorted(rising, allowed, side="right") - 1
    used = np.unique(place)
    return np.searchsorted(used, place).astype(np.int32), tuple(rising[used].tolist())


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Who may spend what in which round: classes of people, a law for each class and round, and their prices.

    `classes` holds for the people of `members` only, in their order; `laws` has a row a class.
    """

    space: Space
    mode: Mode
    classes: npt.NDArray[np.int32]
    laws: tuple[tuple[RoundLaw, ...], ...]

    @property
    def rounds(self) -> int:
        """Return c."""
        return len(self.laws[0])

    @property
    def costs(self) -> Nanos:
        """Return the price of each class and round, in units of 10⁻⁹."""
        return np.array([[law.cost_nano for law in row] for row in self.laws], np.int64)

    @property
    def precision(self) -> Table:
        """Return 1/(2σ²) of each class and round, σ in units."""
        return np.array([[law.precision(self.space.step) for law in row] for row in self.laws])

    def intervals(self, beta: float) -> Intervals:
        """Return the weights and widths of an estimate that stretches no distance; each width misses with β at most."""
        released = self.space.dimensions if self.mode is Mode.POINT else 1
        step = float(self.space.step)
        widths = [lattice_widths([law.sigma for law in row], released, step, beta) for row in self.laws]
        return averaging(self.classes, self.precision, np.array(widths))


def schedule(
    space: Space, mode: Mode, allowed: Nanos, parts: Sequence[Fraction], ratio: Fraction = CLASS_RATIO
) -> Schedule:
    """Return the rounds of one query: each class's budget split into parts, a law for each.

    Args:       allowed: what each person may spend on the query, ≥ 1. parts: of 1, one a round.
    Raises:     InvalidParameterError: parts that are not positive rationals of sum 1 at most; as `round_law`.
    Example:
        >>> space = Space((Fraction(0),), Fraction(1, 100), (1001,))
        >>> made = schedule(space, Mode.POINT, np.array([10**9, 10**9]), [Fraction(1, 2), Fraction(1, 2)])
        >>> made.rounds, int(made.costs.sum()) <= 10**9
        (2, True)
    """
    if not parts or any(not isinstance(part, Fraction) or part <= 0 for part in parts) or sum(parts) > 1:
        raise InvalidParameterError("parts", "positive Fractions of sum 1 at most, one a round", tuple(parts))
    classes, levels = budget_levels(allowed, ratio)
    laws = tuple(tuple(round_law(math.floor(level * part), space, mode) for part in parts) for level in levels)
    return Schedule(space, mode, classes, laws)
