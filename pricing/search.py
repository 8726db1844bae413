"""The search for one target's cheapest bundle: cuts, the bounds they prove, and whole purchases that meet them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from pricing.catalogue import Good
from pricing.limit import Limit
from pricing.proof import Multipliers, Proof
from pricing.reach import RIGHT, Market, Need, one_cut_bound

__all__ = ["Cheapest", "Search"]

_ROUNDS = 60
_SMALL = 1e-9
_EXACT_PRICES = 10**9  # up to here the solver tells two integers half a unit apart
_SHORT = 1e4  # what a cut not met costs in a proof, in highest prices
_Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest bundle found (cost None: none found) and a bound that no bundle undercuts (inf: none exists).

    `proven`: the bundle is the cheapest there is, or there is none (below the asked price, if one was asked).

    Example:
                >>> Cheapest(11000, ("a", "b"), 10999.5, proven=True).cost
                11000
    """

    cost: int | None
    names: tuple[str, ...]
    lower_bound: float
    proven: bool


class Search:
    """Cuts found so far for one target, and the bounds they give: mutable, and alive for one target only."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.cuts: list[_Vector] = []
        self.shares: _Vector = np.zeros(len(market.goods))
        goods, parts = len(market.goods), len(market.rows)
        self.scale = float(max(market.prices, default=0)) or 1.0
        self.cost = np.concatenate([np.array(market.prices, dtype=float) / self.scale, np.zeros(parts)])
        chains = sorted(set(market.chains))
        self.fixed = np.zeros((parts + len(chains), goods + parts))  # a part needs a good; one tier a chain
        for number, good in enumerate(market.goods):
            self.fixed[list(good.parts), number] = -1
        for part in range(parts):
            self.fixed[part, goods + part] = 1
            self.fixed[parts + chains.index(market.chains[part]), goods + part] = 1
        self.right = np.append(np.zeros(parts), np.ones(len(chains)))
        self.proof = Proof(market)
        self.lost: list[_Vector] = []  # over goods: at least one outside a set that is known not to reach
        self.best = Multipliers(
            np.zeros(0), np.zeros(parts), np.zeros(len(chains)), np.zeros(0)
        )  # of the best bound so far

    def certifies(self, price: int) -> bool:
        """Tell whether whole numbers prove, from what was found so far, that no bundle costs less than `price`."""
        every = np.ones(len(self.market.goods), dtype=bool)
        return self.proof.bound(self.best) >= price or self.proof.fails(every)

    def one_cut(self) -> float:
        """Stage 1: the best bound of one cut a need, kept as the first cuts of what follows; inf if out of reach."""
        market = self.market
        unmet = market.unmet(market.shares(market.goods))
        for need, y in unmet:
            self._add(need, y)
        if unmet:
            return inf
        best = 0.0
        for need in market.needs:
            bound, y = one_cut_bound(market, need)
            self._add(need, y)
            if bound > best:
                best, parts = bound, bound * self.cuts[-1]
                alone = np.append(np.zeros(len(self.cuts) - 1), bound)
                self.best = Multipliers(alone, parts, self.best.chains, self.best.sets)
        return best

    def relaxation(self, limit: Limit, goal: float) -> float:
        """Stage 2: add cuts until the relaxed purchase meets them all, the bound reaches `goal`, or time is up."""
        market, goods = self.market, len(self.market.goods)
        best = 0.0
        for _ in range(_ROUNDS):
            if limit.is_over():
                break
            matrix, right = self._system()
            result = linprog(self.cost, A_ub=matrix, b_ub=right, bounds=(0, 1), method="highs")
            if result.x is None:
                break
            multipliers = np.maximum(0.0, -result.ineqlin.marginals)
            bound = self._dual_bound(matrix, right, multipliers)
            if bound > best:
                best, self.best = bound, self._named(multipliers)
            self.shares = np.asarray(result.x[:goods])
            broken = market.unmet(np.where(result.x[goods:] > _SMALL, result.x[goods:], 0.0))
            if not broken or best >= goal:
                break
            for need, y in broken:
                self._add(need, y)
        return best

    def rounded(self, bound: float) -> Cheapest:
        """Return a bundle near the relaxed purchase, made minimal: quick, and no proof that nothing is cheaper."""
        market = self.market
        bought: list[Good] = []
        for number in np.argsort(-self.shares, kind="stable"):
            bought.append(market.goods[int(number)])
            if market.reaches(bought):
                bought = self._minimal(bought)
                names = tuple(good.name for good in bought)
                return Cheapest(sum(good.price for good in bought), names, bound, proven=False)
        return Cheapest(None, (), bound, proven=False)

    def integer(self, limit: Limit, bound: float, below: int | None) -> Cheapest:
        """Stage 3: whole goods; cheapest purchase that meets the cuts, more cuts while it does not reach the target."""
        market, goods = self.market, len(self.market.goods)
        coarse = 1 + max(market.prices) // _EXACT_PRICES  # floors of quotients: a cheaper bundle stays within the row
        prices = np.append(np.array([price // coarse for price in market.prices], float), np.zeros(len(market.rows)))
        for step in range(10**6):
            limit.progress("arbitrage search", step, step + 1)
            if limit.is_over():
                break
            matrix, right = self._system(lost=True)
            if below is not None:
                matrix, right = np.vstack([matrix, prices]), np.append(right, (below - 1) // coarse + 0.5)
            result = milp(
                self.cost,
                constraints=LinearConstraint(matrix, -np.inf, right),
                bounds=Bounds(0, 1),
                integrality=np.append(np.ones(goods), np.zeros(len(market.rows))),
                options={"mip_rel_gap": 0.0} | limit.options(),
            )
            if result.status == 2 and below is not None:
                proven = self.none_below(below, limit)
                return Cheapest(None, (), float(below) if proven else bound, proven)
            if result.x is None or result.status != 0:
                break
            bought = [good for good, share in zip(market.goods, result.x, strict=False) if share > 0.5]
            broken = market.unmet(market.shares(bought))
            if not broken and not market.reaches(bought):
                break  # rounding hides the answer: claim nothing
            if not broken:
                bought = self._minimal(bought)
                cost = sum(good.price for good in bought)
                names = tuple(good.name for good in bought)
                proven = self.none_below(cost, limit)
                return Cheapest(cost, names, float(cost) if proven else bound, proven)
            for need, y in broken:
                self._add(need, y)
            self._exclude(bought)
        return Cheapest(None, (), bound, proven=False)

    def none_below(self, price: int, limit: Limit) -> bool:
        """Tell whether whole numbers prove that no bundle costs less: branch on goods, and close every branch.

        A branch is closed by a bound from its relaxation's multipliers, or because all that it may still buy does not
        reach. Cuts not met cost a lot instead of being forbidden, so that there always are multipliers.
        """
        goods = len(self.market.goods)
        pending = [(np.zeros(goods, dtype=bool), np.ones(goods, dtype=bool))]
        while pending:
            if limit.is_over():
                return False
            low, high = pending.pop()
            if self.proof.fails(high):
                continue
            matrix, right = self._system(lost=True)
            fixed = len(self.right)
            short = np.vstack([np.zeros((fixed, len(right) - fixed)), -np.eye(len(right) - fixed)])
            penalties = np.full(len(right) - fixed, _SHORT)
            whole = np.concatenate([low, np.zeros(len(self.market.rows)), np.zeros_like(penalties)])
            most = np.concatenate([high, np.ones(len(self.market.rows)), np.ones_like(penalties)])
            result = linprog(
                np.concatenate([self.cost, penalties]),
                A_ub=np.hstack([matrix, short]),
                b_ub=right,
                bounds=np.column_stack([whole, most]),
                method="highs",
            )
            if result.x is None:
                return False
            by = self._named(np.maximum(0.0, -result.ineqlin.marginals))
            if self.proof.bound(by, low, high) >= price:
                continue
            share = np.asarray(result.x[:goods])
            if np.all(np.minimum(share, 1 - share) < _SMALL):
                bought = [good for good, part in zip(self.market.goods, share, strict=True) if part > 0.5]
                if sum(good.price for good in bought) < price and self.market.reaches(bought):
                    return False
                if self._learn(share > 0.5):
                    pending.append((low, high))
                    continue
            free = np.flatnonzero(low < high)
            if not free.size:
                return False  # a whole purchase below the price, and nothing proves that it falls short
            chosen = free[np.argmin(np.abs(share[free] - 0.5))]
            for value in (False, True):
                branch = (low.copy(), high.copy())
                branch[0][chosen] = branch[1][chosen] = value
                pending.append(branch)
        return True

    def _learn(self, taken: NDArray[np.bool_]) -> bool:
        """Learn why a purchase does not reach the target; tell whether that is proved, and new."""
        bought = [good for good, has in zip(self.market.goods, taken, strict=True) if has]
        for need, y in self.market.unmet(self.market.shares(bought)):
            self._add(need, y)
        known = any(not np.any(outside[taken]) for outside in self.lost)
        if known or not self.proof.fails(taken):
            return False
        self._exclude(bought)
        return True

    def _add(self, need: Need, y: _Vector) -> None:
        """Keep a cut. A product alone worth more than the whole right side is worth the right side: goods are whole."""
        self.cuts.append(np.minimum(self.market.cut(need, y), RIGHT))
        self.proof.learn(need, y)

    def _exclude(self, bought: Sequence[Good]) -> None:
        """Ask for a good outside a full set that holds `bought` and does not reach the target, with why it does not."""
        market, held = self.market, list(bought)
        for good in sorted(market.goods, key=lambda good: good.price):
            if good not in held and market.unmet(market.shares([*held, good])):
                held.append(good)
        for need, y in market.unmet(market.shares(held)):
            self._add(need, y)
        outside = np.array([0.0 if good in held else 1.0 for good in market.goods])
        self.lost.append(outside)
        self.proof.exclude(outside)

    def _named(self, multipliers: _Vector) -> Multipliers:
        """Return a solver's multipliers of `_system` in minor units."""
        parts, chains, cuts = len(self.market.rows), len(self.right), len(self.right) + len(self.cuts)
        scaled = multipliers * self.scale
        return Multipliers(scaled[chains:cuts], scaled[:parts], scaled[parts:chains], scaled[cuts:])

    def _system(self, *, lost: bool = False) -> tuple[_Vector, _Vector]:
        """Return A, r of A·(goods, parts) ≤ r. Tiny coefficients move to the right, where they help the attacker."""
        goods, parts = len(self.market.goods), len(self.market.rows)
        rows, right = [self.fixed], [self.right]
        for cut in self.cuts:
            tiny = cut < _SMALL
            rows.append(np.append(np.zeros(goods), -np.where(tiny, 0.0, cut))[None, :])
            right.append(np.array([-RIGHT + float(cut[tiny].sum())]))
        for outside in self.lost if lost else ():
            rows.append(np.append(-outside, np.zeros(parts))[None, :])
            right.append(np.array([-1.0]))
        return np.vstack(rows), np.concatenate(right)

    def _dual_bound(self, matrix: _Vector, right: _Vector, multipliers: _Vector) -> float:
        """Return the bound that multipliers ≥ 0 prove for variables in [0, 1], whatever the solver meant by them."""
        reduced = self.cost + multipliers @ matrix
        return float(-(multipliers @ right) + np.minimum(reduced, 0.0).sum()) * self.scale

    def _minimal(self, goods: Sequence[Good]) -> list[Good]:
        """Drop what is not needed, dearest first."""
        kept = list(goods)
        for good in sorted(goods, key=lambda good: -good.price):
            fewer = [other for other in kept if other is not good]
            if self.market.reaches(fewer):
                kept = fewer
        return kept
