"""What a seller without chains may charge: prices when every tier is a fresh draw and copies can be averaged."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf, isfinite

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from pricing.errors import InvalidDemandError
from pricing.limit import UNLIMITED, Limit

__all__ = ["SPREAD", "IndependentMenu", "cheapest_copies", "menu_independent"]

SPREAD = 1e9
"""Precisions that are further apart are no question for a solver: so many copies nobody draws."""

_EQUAL = 1e-9  # copies whose summed precision is this close count as enough
_OPTIMAL = 0  # the solver's word for "solved"; at its time limit it may have a menu, and says 1
_ROUNDS = 200
_Row = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IndependentMenu:
    """Prices (rank 1 first, not rounded) and revenue of a seller whose tiers are independent draws.

    Example:
                >>> IndependentMenu((2.0, 1.0), 3.0, proven=True).revenue
                3.0
    """

    prices: tuple[float, ...]
    revenue: float
    proven: bool


def cheapest_copies(
    prices: Sequence[float], precisions: Sequence[float], needed: float
) -> tuple[float, tuple[int, ...]]:
    """Return the cheapest numbers of copies whose precisions (1/variance) add up to `needed`: a covering knapsack.

    Raises:     InvalidDemandError: shapes differ, a negative price, a precision that is not positive, or one of which
                more than 10⁹ copies would be needed.
    Example:
                >>> cheapest_copies([9.0, 1.0], [4.0, 1.0], 4.0)
                (4.0, (0, 4))
    """
    if not prices or len(prices) != len(precisions) or not all(isfinite(price) and price >= 0 for price in prices):
        raise InvalidDemandError("prices", "at least one, and one number ≥ 0 a precision", list(prices))
    _check_precisions([needed, *precisions])
    share = np.array(precisions) / needed
    most = [ceil(1 / each) for each in share]
    result = milp(
        np.array(prices, dtype=float),
        constraints=LinearConstraint(share[None, :], 1 - _EQUAL, np.inf),
        bounds=Bounds(0, most),
        integrality=np.ones(len(prices)),
    )
    copies = tuple(round(count) for count in result.x)
    return float(np.dot(prices, copies)), copies


def menu_independent(
    valuations: Sequence[Sequence[int]], precisions: Sequence[float], limit: Limit = UNLIMITED
) -> IndependentMenu:
    """Return the menu that earns most from threshold buyers when no mix of copies may undercut a tier.

    The yardstick for `menu.menu_threshold`: without a chain a price must be monotone *and* subadditive in precision.
    Mixed-integer programme; bundles that undercut are added as constraints until none does.

    Guarantee:  proven: the optimum, to the solver's 10⁻⁶. Out of time nothing is claimed: no prices, revenue 0.
    Args:       valuations: as `menu_threshold`, rank 1 first. precisions: 1/variance of each tier's independent draw,
                falling along the ranks, at most 10⁹ apart. limit: over all rounds.
    Raises:     InvalidDemandError: shapes differ, no buyer, or precisions that do not fall or are too far apart.
    Example:
                >>> menu_independent([[100], [10]], [2.0, 1.0]).revenue
                100.0
    """
    counts = [Counter(row) for row in valuations]
    top = max((value for row in counts for value in row), default=0)
    if top <= 0 or len(precisions) != len(counts):
        raise InvalidDemandError("demand", "a buyer with a positive valuation, and one precision a tier", len(counts))
    _check_precisions(precisions)
    if any(low >= high for high, low in pairwise(precisions)):
        raise InvalidDemandError("precisions", "numbers that fall along the ranks", list(precisions))
    groups = [(tier, value / top, count) for tier, row in enumerate(counts) for value, count in row.items() if value]
    known = {(tier + 1, tuple(int(other == tier) for other in range(len(counts)))) for tier in range(len(counts) - 1)}
    for step in range(_ROUNDS):
        limit.progress("independent menu", step, step + 1)
        bundles = [_difference(tier, copies) for tier, copies in sorted(known)]
        best = None if limit.is_over() else _best_prices(len(counts), groups, bundles, limit)
        if best is None:
            break
        prices, earned = best
        cheapest = [cheapest_copies(prices.tolist(), precisions, needed) for needed in precisions]
        broken = {(tier, copies) for tier, (cost, copies) in enumerate(cheapest) if cost < prices[tier] - 1e-7}
        if broken <= known:  # what is left is within the solver's tolerance of a constraint it already has
            asked = tuple(float(round(price * top, 6)) for price in prices)
            return IndependentMenu(asked, round(earned * top, 3), proven=True)
        known |= broken
    return IndependentMenu((0.0,) * len(counts), 0.0, proven=False)


def _check_precisions(precisions: Sequence[float]) -> None:
    if not all(0 < each < inf for each in precisions):
        raise InvalidDemandError("precisions", "positive numbers", list(precisions))
    if max(precisions) / min(precisions) > SPREAD:
        raise InvalidDemandError("precisions", "numbers at most 10⁹ apart", list(precisions))


def _difference(tier: int, copies: Sequence[int]) -> _Row:
    """Return the row of price(tier) − Σ copies·price ≤ 0."""
    row = -np.array(copies, dtype=float)
    row[tier] += 1
    return row


def _best_prices(
    tiers: int, groups: list[tuple[int, float, int]], bundles: list[_Row], limit: Limit
) -> tuple[_Row, float] | None:
    """Return the optimal prices (in units of the largest valuation) under the bundles known so far; None: no time."""
    number = len(groups)  # variables: prices, then who buys, then what each group's buyer pays
    rows: list[_Row] = []
    right: list[float] = []
    for index, (tier, value, _) in enumerate(groups):
        buys, pays = tiers + index, tiers + number + index
        for entries, bound in (
            ({tier: 1.0, buys: 1 - value}, 1.0),  # who buys is not asked for more than the valuation
            ({pays: 1.0, tier: -1.0}, 0.0),
            ({pays: 1.0, buys: -value}, 0.0),
        ):
            row = np.zeros(tiers + 2 * number)
            row[list(entries)] = list(entries.values())
            rows.append(row)
            right.append(bound)
    for bundle in bundles:
        rows.append(np.append(bundle, np.zeros(2 * number)))
        right.append(0.0)
    objective = np.concatenate([np.zeros(tiers + number), [-float(count) for _, _, count in groups]])
    integral = np.concatenate([np.zeros(tiers), np.ones(number), np.zeros(number)])
    seconds = limit.seconds_left()
    result = milp(
        objective,
        constraints=LinearConstraint(np.vstack(rows), -np.inf, right),
        bounds=Bounds(0, 1),
        integrality=integral,
        options={"mip_rel_gap": 0.0} | ({} if seconds == inf else {"time_limit": max(seconds, 0.0)}),
    )
    if result.x is None or result.status != _OPTIMAL:
        return None
    return np.asarray(result.x[:tiers], dtype=float), float(-result.fun)
