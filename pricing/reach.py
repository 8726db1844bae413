"""Which answers can be computed from which purchases: the geometry behind the arbitrage check.

Buying a share z of each product lets an attacker estimate row b with variance v(z) = bᵀ M(z)⁺ b, where
M(z) = Σ zᵢ Rᵢᵀ Rᵢ / Vᵢ. For every vector y, v(z) ≤ V implies Σ zᵢ·gᵢ(y) ≥ 1 with gᵢ(y) = (V/Vᵢ)·|Rᵢ y|²/(b·y)²: a
linear *cut* that is true for any y whatever, however it was found. A solver may be wrong about y and the bound holds.

Both answers are therefore checked: a purchase yields the target when weights were found that estimate it (`reaches`),
and does not when a cut says so (`unmet`). Where rounding leaves neither proof, nobody claims anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from pricing.catalogue import Catalogue, Good

__all__ = ["REACH", "RIGHT", "Market", "Need", "market_for", "one_cut_bound", "yields"]

REACH = 1e-9  # a variance within this share of the target's counts as reaching it: the attacker's side
RIGHT = 1 / (1 + REACH)
_RANK = 1e-10
_SPAN = 1e-7  # a row this close to the span of others counts as derivable
_Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """One row of the target and the variance to reach.

    Example:
                >>> Need(np.array([1.0, 1.0]), 2.0).variance
                2.0
    """

    row: _Vector
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """One target's question: the goods an attacker may buy, the products inside them, the rows needed.

    Example:
                >>> from pricing.catalogue import Product
                >>> rows = {"east": (1, 0), "west": (0, 1)}
                >>> bins = [Product(name, name, (rows[name],), 8.0, 10, "EUR") for name in rows]
                >>> total = Product("total", "t", ((1, 1),), 16.0, 25, "EUR")
                >>> market = market_for("total", Catalogue((*bins, total)))
                >>> market.reaches(market.goods), market.reaches(market.goods[:1])
                (True, False)
    """

    goods: tuple[Good, ...]
    rows: tuple[_Vector, ...]  # by product
    variances: _Vector
    chains: tuple[str, ...]
    needs: tuple[Need, ...]

    @property
    def prices(self) -> list[int]:
        """What each good costs."""
        return [good.price for good in self.goods]

    def shares(self, goods: Sequence[Good]) -> _Vector:
        """Return 1 for the best tier of each chain in `goods`, 0 elsewhere: lower tiers add nothing."""
        best: dict[str, int] = {}
        for part in (part for good in goods for part in good.parts):
            held = best.setdefault(self.chains[part], part)
            if self.variances[part] < self.variances[held]:
                best[self.chains[part]] = part
        shares = np.zeros(len(self.rows))
        shares[list(best.values())] = 1.0
        return shares

    def direction(self, need: Need, shares: _Vector) -> tuple[float, _Vector]:
        """Return the variance of the best estimate of `need` from `shares` (inf: none), and a y that proves it."""
        used = [index for index, share in enumerate(shares) if share > 0]
        if not used:
            return inf, need.row
        scaled = np.vstack([self.rows[index] * sqrt(shares[index] / self.variances[index]) for index in used])
        _, singular, right = np.linalg.svd(scaled, full_matrices=False)
        keep = singular > _RANK * singular[0]
        inside = right[keep] @ need.row
        outside = need.row - right[keep].T @ inside
        if np.linalg.norm(outside) > _SPAN * np.linalg.norm(need.row):
            return inf, outside
        weighted = inside / singular[keep]
        return float(weighted @ weighted), right[keep].T @ (weighted / singular[keep])

    def unmet(self, shares: _Vector) -> list[tuple[Need, _Vector]]:
        """Return the needs that `shares` do not reach, each with the direction of a cut that they break."""
        used = shares > 0
        ways = [(need, self.direction(need, shares)[1]) for need in self.needs]
        return [(need, y) for need, y in ways if float(self.cut(need, y)[used] @ shares[used]) < RIGHT]

    def reaches(self, goods: Sequence[Good]) -> bool:
        """Tell whether `goods` together yield the target, by weights that do it."""
        shares = self.shares(goods)
        return all(self.direction(need, shares)[0] <= need.variance * (1 + REACH) for need in self.needs)

    def cut(self, need: Need, y: _Vector) -> _Vector:
        """Return gᵢ(y): any purchase that yields `need` has Σ zᵢ·gᵢ ≥ RIGHT; inf where y says nothing."""
        along = float(need.row @ y) ** 2
        if not along > 1e-16 * float(need.row @ need.row) * float(y @ y):
            return np.full(len(self.rows), inf)
        power = np.array([float(np.sum((rows @ y) ** 2)) for rows in self.rows])
        weights: _Vector = need.variance / self.variances * power / along
        return weights


def market_for(target: str, catalogue: Catalogue, below: int | None = None) -> Market:
    """Return the market in which `target` could be undercut.

    Goods that yield the target by themselves (its own chain at least as accurate) are left out: no bundle that
    holds one is cheaper than it alone, so they are compared by price, not searched.
    `below`: leave out goods that cost as much.

    Raises:     UnknownTierError: no such target.
    """
    sought = catalogue.good(target)
    products = catalogue.products
    goods = [
        good
        for good in catalogue.goods
        if not yields(good, sought, catalogue) and (below is None or good.price < below)
    ]
    places = sorted({part for good in goods for part in good.parts})
    new = {old: index for index, old in enumerate(places)}
    needs = {(row, products[part].variance) for part in sought.parts for row in products[part].rows}
    return Market(
        goods=tuple(Good(good.name, good.price, tuple(new[part] for part in good.parts)) for good in goods),
        rows=tuple(np.array(products[part].rows, dtype=float) for part in places),
        variances=np.array([float(products[part].variance) for part in places]),
        chains=tuple(products[part].chain_id for part in places),
        needs=tuple(Need(np.array(row, dtype=float), float(variance)) for row, variance in sorted(needs)),
    )


def yields(good: Good, sought: Good, catalogue: Catalogue) -> bool:
    """Tell whether `good` alone gives `sought` because it holds each of its chains at least as accurately."""
    products = catalogue.products
    best: dict[str, float] = {}
    for part in good.parts:
        best[products[part].chain_id] = min(best.get(products[part].chain_id, inf), products[part].variance)
    return all(best.get(products[part].chain_id, inf) <= products[part].variance for part in sought.parts)


def one_cut_bound(market: Market, need: Need) -> tuple[float, _Vector]:
    """Return the best lower bound on cost that a single cut gives (unlimited copies allowed), and its y.

    max b·y subject to |Rᵢ y| ≤ cᵢ = √(pᵢVᵢ) is the dual of min Σ|wᵢ|cᵢ subject to Σ wᵢRᵢ = b; by Cauchy-Schwarz its
    square over V bounds every bundle's cost. The bound returned is recomputed from y alone.
    """
    cost: dict[str, float] = {}
    rows: dict[str, _Vector] = {}
    for good in market.goods:
        count = sum(len(market.rows[part]) for part in good.parts)
        for part in good.parts:
            chain = market.chains[part]  # tiers of a chain share their rows: only the cheapest bound binds
            rows[chain] = market.rows[part]
            cost[chain] = min(cost.get(chain, inf), sqrt(good.price * market.variances[part] / count))
    top = max(cost.values()) or 1.0
    matrix = np.vstack(list(rows.values()))
    limit = np.repeat([cost[chain] / top for chain in rows], [len(block) for block in rows.values()])
    result = linprog(
        -need.row,
        A_ub=np.vstack([matrix, -matrix]),
        b_ub=np.concatenate([limit, limit]),
        bounds=(None, None),
        method="highs",
    )
    y = need.row if result.x is None else np.asarray(result.x, dtype=float)
    return _ratio_bound(market, market.cut(need, y)), y


def _ratio_bound(market: Market, cut: _Vector) -> float:
    """Return min pᵍ/gᵍ over goods, times the cut's right side: no mix of goods meets the cut for less."""
    rates = [good.price / weight for good in market.goods if (weight := float(sum(cut[list(good.parts)]))) > 0]
    return min(rates, default=inf) * RIGHT
