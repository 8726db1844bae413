"""Menus for buyers who choose among all tiers: the revenue optimum under self-selection, by mixed-integer programme."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from pricing.errors import InvalidDemandError
from pricing.limit import UNLIMITED, Limit
from pricing.menu import Menu, check_demand, menu_revenue

__all__ = ["menu_envy_free"]

_SLACK = 1e-6  # what a solver's bound may be short of the truth
_SIZE_LIMIT = 20_000  # types × tiers²: beyond it the programme is not a question of seconds


def menu_envy_free(
    values: Sequence[Sequence[int]], counts: Sequence[int], limit: Limit = UNLIMITED, gap: float = 1e-3
) -> Menu:
    """Return the menu that earns most when every buyer type takes the tier with the largest surplus.

    The programme decides only who buys what. Prices are then recomputed in integers as the largest ones under which
    nobody prefers another choice (shortest paths in the graph of price differences), and the revenue is the simulated
    one, so a solver's tolerance cannot enter a price.

    Guarantee:  revenue = menu_revenue(values, counts, prices), never below the best single tier's; prices never fall
                with accuracy. proven: the search ended by itself, and upper_bound, which no menu earns more than, is
                within `gap` of revenue, and the solver's 10⁻⁶.
    Args:       values: one row a buyer type, rank 1 first, minor units. counts: buyers of each type. gap: relative gap
                at which to stop.
    Raises:     InvalidDemandError: shapes, negative or fractional numbers, no buyer, or types × tiers² > 20 000.
    Example:
                >>> menu_envy_free([[20, 6], [4, 3]], [1, 5]).prices
                (17, 3)
    """
    table = check_demand(values, counts)
    types, tiers = len(table), len(table[0])
    if types * tiers * tiers > _SIZE_LIMIT:
        raise InvalidDemandError("demand", f"types × tiers² ≤ {_SIZE_LIMIT}", types * tiers * tiers)
    menus = [_single(table, counts, rank) for rank in range(tiers)]
    limit.progress("envy-free menu", 0, 1)
    bound = float(sum(count * max(row) for row, count in zip(table, counts, strict=True)))
    seconds = limit.seconds_left()
    solved = False
    if seconds > 0:
        choices, bound, solved = _solve(table, counts, bound, seconds, gap)
        menus.extend(_priced(table, choice) for choice in choices)
    limit.progress("envy-free menu", 1, 1)
    best = max(menus, key=lambda prices: menu_revenue(table, counts, prices))
    revenue = menu_revenue(table, counts, best)
    bound = max(bound, float(revenue))
    return Menu(tuple(best), revenue, bound, proven=solved and bound - revenue <= (gap + 2 * _SLACK) * bound)


def _single(table: list[list[int]], counts: Sequence[int], rank: int) -> list[int | None]:
    """Return the best menu that lists one tier only."""
    earned = {row[rank]: 0 for row in table}
    for price in earned:
        earned[price] = price * sum(count for row, count in zip(table, counts, strict=True) if row[rank] >= price)
    best = max(earned, key=lambda price: (earned[price], -price))
    return [best if other == rank and best > 0 else None for other in range(len(table[0]))]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the variables are: price of a tier, choice and payment of a type at a tier."""

    types: int
    tiers: int

    def price(self, tier: int) -> int:
        return tier

    def choice(self, kind: int, tier: int) -> int:
        return self.tiers + kind * self.tiers + tier

    def payment(self, kind: int, tier: int) -> int:
        return self.tiers * (1 + self.types) + kind * self.tiers + tier

    @property
    def count(self) -> int:
        return self.tiers * (1 + 2 * self.types)


_Row = tuple[dict[int, float], float]  # Σ coefficient·variable ≤ bound


def _rows(table: list[list[int]], at: _Columns, top: float) -> list[_Row]:
    """Return the programme's constraints, values in units of the largest one."""
    rows: list[_Row] = []
    tiers = range(at.tiers)
    for kind, row in enumerate(table):
        value = [entry / top for entry in row]
        rows.append(({at.choice(kind, tier): 1.0 for tier in tiers}, 1.0))
        for tier in tiers:
            x, r, p = at.choice(kind, tier), at.payment(kind, tier), at.price(tier)
            rows.append(({r: 1.0, x: -value[tier]}, 0.0))  # pays at most its value, and only if it chose the tier
            rows.append(({r: 1.0, p: -1.0}, 0.0))
            rows.append(({p: 1.0, r: -1.0, x: 1.0}, 1.0))  # and pays the whole price: without it the surplus is fake
            envy = {at.price(tier): -1.0}
            for other in tiers:
                envy[at.choice(kind, other)] = -value[other]
                envy[at.payment(kind, other)] = 1.0
            rows.append((envy, -value[tier]))  # surplus ≥ value of the tier − its price
    rows.extend(({at.price(tier + 1): 1.0, at.price(tier): -1.0}, 0.0) for tier in range(at.tiers - 1))
    return rows


def _solve(
    table: list[list[int]], counts: Sequence[int], most: float, seconds: float, gap: float
) -> tuple[list[list[int | None]], float, bool]:
    """Return who buys what (at most one candidate), an upper bound on revenue, and whether the solver finished."""
    at = _Columns(len(table), len(table[0]))
    top = float(max(map(max, table))) or 1.0
    rows = _rows(table, at, top)
    triples = [(number, column, value) for number, (row, _) in enumerate(rows) for column, value in row.items()]
    number, column, value = zip(*triples, strict=True)
    matrix = coo_array((value, (number, column)), shape=(len(rows), at.count)).tocsr()
    whole = sum(counts)
    objective, integral = np.zeros(at.count), np.zeros(at.count)
    for kind, count in enumerate(counts):
        for tier in range(at.tiers):
            objective[at.payment(kind, tier)] = -count / whole
            integral[at.choice(kind, tier)] = 1
    options = {"mip_rel_gap": gap} | ({} if seconds == inf else {"time_limit": seconds})
    result = milp(
        objective,
        constraints=LinearConstraint(matrix, -np.inf, [bound for _, bound in rows]),
        bounds=Bounds(0, 1),
        integrality=integral,
        options=options,
    )
    dual = getattr(result, "mip_dual_bound", None)
    bound = most if dual is None or not np.isfinite(dual) else min(most, -float(dual) * whole * top * (1 + _SLACK))
    if result.x is None:
        return [], bound, False
    chosen: list[int | None] = []
    for kind in range(at.types):
        picks = [tier for tier in range(at.tiers) if result.x[at.choice(kind, tier)] > 0.5]
        chosen.append(picks[0] if picks else None)
    return [chosen], bound, bool(result.status == 0)


def _priced(table: list[list[int]], chosen: Sequence[int | None]) -> list[int | None]:
    """Return the largest integer prices under which each type's choice is (weakly) its best; unlisted where unsold.

    Every condition is a bound on one price or on a difference of two, so the largest solution is a shortest path and
    integral. Conditions of types that buy nothing are lower bounds; the simulation judges them.
    """
    sold = sorted({tier for tier in chosen if tier is not None})
    price: dict[int, int] = {}
    for tier in sold:
        price[tier] = min(row[tier] for row, choice in zip(table, chosen, strict=True) if choice == tier)
    for _ in sold:
        for tier in sold:
            for row, choice in zip(table, chosen, strict=True):
                if choice == tier:
                    price[tier] = min([price[tier], *(price[other] + row[tier] - row[other] for other in sold)])
            price[tier] = min([price[tier], *(price[better] for better in sold if better < tier)])
    return [price[tier] if price.get(tier, 0) > 0 else None for tier in range(len(table[0]))]
