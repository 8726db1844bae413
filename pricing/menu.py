"""Which prices a whole chain should carry: optimal menus for buyers with thresholds and for buyers who choose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pricing.errors import InvalidDemandError, TimeLimitError
from pricing.limit import UNLIMITED, Limit
from pricing.money import MONEY_LIMIT

__all__ = ["Menu", "check_demand", "menu_revenue", "menu_single", "menu_threshold"]

_WHOLE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Menu:
    """Prices of a chain's tiers, rank 1 first; None = do not list it (no demand is known for it).

    No menu of its kind earns more than `upper_bound`; `proven`: that is `revenue`, as near as the search was asked.

    Example:
                >>> Menu(prices=(500, None), revenue=1000, upper_bound=1000.0, proven=True).listed
                (True, False)
    """

    prices: tuple[int | None, ...]
    revenue: int
    upper_bound: float
    proven: bool

    @property
    def listed(self) -> tuple[bool, ...]:
        """Which tiers to put on sale."""
        return tuple(price is not None for price in self.prices)


def menu_threshold(valuations: Sequence[Sequence[int]], limit: Limit = UNLIMITED) -> Menu:
    """Return the menu that earns most from buyers who each need one given tier and pay at most their valuation for it.

    Prices may be any that never fall with accuracy: in a chain nothing else is arbitrage. Dynamic programme over the
    observed valuations, from the least accurate tier up; of equal menus the one with the lower prices.

    Law:        best(tier, c) = c·#{valuations of the tier ≥ c} + max over c' ≤ c of best(tier below, c').
    Guarantee:  the optimum over all monotone integer menus, for *these* buyers. Buyers who may also trade down pay less
                than it predicts: check with `menu_revenue`, or use `envy.menu_envy_free`.
    Args:       valuations: for each tier, rank 1 first, what its buyers would pay, in minor units.
    Raises:     InvalidDemandError: no buyer at all, negative or fractional valuations, sums beyond 2⁶³.
                TimeLimitError: time ran out before the last tier.
    Example:
                >>> menu_threshold([[2000], [300, 300, 300], [900, 100]]).prices
                (2000, 300, 300)
    """
    tiers = [_valuations(rank, row) for rank, row in enumerate(valuations, start=1)]
    filled = [row for row in tiers if row.size]
    if not filled:
        raise InvalidDemandError("demand", "at least one buyer", valuations)
    together = np.sort(np.concatenate(filled))
    candidates = together[np.append(True, together[1:] > together[:-1])]  # np.unique hashes: ten times slower here
    if int(candidates[-1]) * sum(row.size for row in filled) > _WHOLE:
        raise InvalidDemandError("demand", "highest valuation × buyers < 2⁶³", int(candidates[-1]))
    best = np.zeros(candidates.size, dtype=np.int64)
    records: list[NDArray[np.bool_]] = []  # where a tier's running best strictly rises: one bit of history a candidate
    for done, row in enumerate(reversed(tiers)):
        if limit.is_over():
            raise TimeLimitError("menu", done, len(tiers))
        ends = np.append(np.searchsorted(candidates, np.sort(row)), candidates.size - 1)
        buyers = np.repeat(np.arange(row.size, -1, -1), np.diff(ends, prepend=-1))  # with a valuation of at least each
        np.multiply(candidates, buyers, out=buyers)
        buyers += best
        np.maximum.accumulate(buyers, out=best)
        records.append(np.append(True, best[1:] > best[:-1]))
        limit.progress("menu", done + 1, len(tiers))
    prices: list[int | None] = []
    place, revenue = candidates.size - 1, int(best[-1])
    for row, record in zip(tiers, reversed(records), strict=True):
        place = int(np.flatnonzero(record[: place + 1])[-1])
        price = int(candidates[place])
        prices.append(price if row.size and int(row.max()) >= price > 0 else None)
    return Menu(tuple(prices), revenue, float(revenue), proven=True)


def menu_single(values: Sequence[Sequence[int]], counts: Sequence[int]) -> Menu:
    """Return the menu that earns most of those that list one tier only; of equal ones the more accurate, then cheaper.

    Law:        max over tiers t and prices p of p·#{buyers who value t at p or more}; p is one of the values.
    Args:       values, counts: as `menu_revenue`.
    Raises:     InvalidDemandError: shapes differ, or negative or fractional numbers, or no buyer.
    Example:
                >>> menu_single([[20, 6], [4, 3]], [1, 5]).prices
                (4, None)
    """
    table = check_demand(values, counts)
    best, place, asked = 0, 0, 0
    for rank in range(len(table[0])):
        left = sum(counts)
        for price, count in sorted((row[rank], count) for row, count in zip(table, counts, strict=True)):
            if price * left > best:
                best, place, asked = price * left, rank, price
            left -= count
    prices = tuple(asked if best and rank == place else None for rank in range(len(table[0])))
    return Menu(prices, best, float(best), proven=True)


def menu_revenue(
    values: Sequence[Sequence[int]],
    counts: Sequence[int],
    prices: Sequence[int | None],
    ties: Literal["dearer", "cheaper"] = "dearer",
) -> int:
    """Return what a menu earns when every buyer takes the tier with the largest surplus, or none below zero.

    Args:       values: one row a buyer type: its value of each tier, rank 1 first. counts: buyers of each type.
                prices: the menu; None = not listed. ties: what buyers do between equal surpluses: theory lets them take
                the dearer one, caution the cheaper one.
    Raises:     InvalidDemandError: shapes differ, or negative or fractional numbers.
    Example:
                >>> values, counts, prices = [[10, 6], [4, 3]], [1, 5], [7, 3]
                >>> menu_revenue(values, counts, prices), menu_revenue(values, counts, prices, "cheaper")
                (22, 3)
    """
    table = check_demand(values, counts)
    if len(prices) != len(table[0]):
        raise InvalidDemandError("prices", f"{len(table[0])}, one a tier", len(prices))
    for price in prices:
        if price is not None:
            _check_whole("price", price)
    sign = 1 if ties == "dearer" else -1
    revenue = 0
    for row, count in zip(table, counts, strict=True):
        offers = [(value - price, sign * price) for value, price in zip(row, prices, strict=True) if price is not None]
        revenue += count * sign * max([*offers, (0, 0)])[1]
    return revenue


def check_demand(values: Sequence[Sequence[int]], counts: Sequence[int]) -> list[list[int]]:
    """Return `values` as lists once every row has one integer ≥ 0 a tier, one row a type, and someone exists.

    Raises:     InvalidDemandError: otherwise.
    Example:
                >>> check_demand([[10, 6]], [3])
                [[10, 6]]
    """
    table = [[_check_whole("value", value) for value in row] for row in values]
    if not table or not table[0] or len({len(row) for row in table}) != 1:
        widths = [len(row) for row in table]
        raise InvalidDemandError("values", "one row a buyer type, each with one value a tier", widths)
    if len(counts) != len(table):
        raise InvalidDemandError("counts", f"{len(table)}, one a buyer type", len(counts))
    if not sum(_check_whole("count", count) for count in counts):
        raise InvalidDemandError("demand", "at least one buyer", tuple(counts))
    return table


def _valuations(rank: int, row: Sequence[int]) -> NDArray[np.int64]:
    """Return one tier's valuations as integers of 64 bits, refused rather than rounded."""
    name = f"valuations of rank {rank}"
    rule = "integers from 0 to 2⁵³−1"
    if len(row) == 0:
        return np.empty(0, dtype=np.int64)
    given = np.asarray(row if hasattr(row, "dtype") else [_check_whole(name, value) for value in row])
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidDemandError(name, rule, row)
    if given.min() < 0 or given.max() > MONEY_LIMIT:
        raise InvalidDemandError(name, rule, int(given.min() if given.min() < 0 else given.max()))
    return given.astype(np.int64)


def _check_whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= MONEY_LIMIT:
        raise InvalidDemandError(name, "an integer from 0 to 2⁵³−1", value)
    return int(value)
