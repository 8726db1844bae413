"""Proofs in whole numbers that no bundle is cheaper. Solvers propose; what they proposed is checked without floats.

Rows, variances and directions are floats, so exact fractions. A cut Σ zᵢ·gᵢ ≥ R of direction y is true for any y; in
units of 2⁻ˢ its weights are rounded up and R down: every rounding is the attacker's. Then for multipliers u (cuts),
l (a part needs a good), a (one tier a chain), w (a good outside a set that does not reach), all ≥ 0 whatever they
are, weak duality bounds what whole goods cost:

    Σ uₖR + Σ wⱼ − Σ a + Σ_goods min over x of (p − Σ l − Σ w)·x + Σ_parts min(0, l + a − Σ uₖgₖ).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, lcm

import numpy as np
from numpy.typing import NDArray

from pricing.reach import Market, Need

__all__ = ["Multipliers", "Proof"]

_SHIFT = 80  # weights of cuts: units of 2⁻⁸⁰
_MONEY = 40  # multipliers: units of 2⁻⁴⁰ minor units
_BITS = 52
_Vector = NDArray[np.float64]
_Whole = NDArray[np.object_]
_Set = NDArray[np.bool_]  # of goods


@dataclass(frozen=True, slots=True, eq=False)
class Multipliers:
    """What a solver or a formula proposes, in minor units; the last cuts or sets of a proof may be missing.

    Example:
                >>> Multipliers(np.array([2.5]), np.zeros(1), np.zeros(1), np.zeros(0)).cuts
                array([2.5])
    """

    cuts: _Vector
    parts: _Vector
    chains: _Vector
    sets: _Vector


class Proof:
    """The cuts of one target in whole numbers, and what follows from them.

    Example:
                >>> from pricing.catalogue import Catalogue, Product
                >>> from pricing.reach import market_for
                >>> rows = {"east": (1, 0), "west": (0, 1)}
                >>> bins = [Product(name, name, (rows[name],), 8.0, 10, "EUR") for name in rows]
                >>> market = market_for("total", Catalogue((*bins, Product("total", "t", ((1, 1),), 16.0, 25, "EUR"))))
                >>> proof = Proof(market)
                >>> proof.learn(market.needs[0], np.array([1.0, 1.0]))
                >>> proof.bound(Multipliers(np.array([20.0]), np.array([10.0, 10.0]), np.zeros(2), np.zeros(0)))
                20
                >>> proof.fails(np.array([True, False])), proof.fails(np.array([True, True]))
                (True, False)
    """

    def __init__(self, market: Market) -> None:
        self.market = market
        self.chains = sorted(set(market.chains))
        self.place = np.array([self.chains.index(chain) for chain in market.chains], dtype=int)
        blocks = [market.rows[market.chains.index(chain)] for chain in self.chains]  # a chain's tiers share their rows
        numbers = [float(entry) for block in blocks for entry in block.flat] + [
            float(entry) for need in market.needs for entry in need.row
        ]
        self.scale = lcm(*(Fraction(number).denominator for number in numbers))
        self.blocks = [self._whole(block) for block in blocks]
        self.variances = [Fraction(variance) for variance in market.variances.tolist()]
        self.right = (10**9 << _SHIFT) // (10**9 + 1)
        self.cuts: list[_Whole] = []
        self.sets: list[_Whole | None] = []  # None: one that proves nothing

    def learn(self, need: Need, direction: _Vector) -> None:
        """Keep the cut of a direction; one that says nothing is kept as a cut that every purchase meets."""
        self.cuts.append(self._cut(need, direction))

    def bound(self, by: Multipliers, low: _Set | None = None, high: _Set | None = None) -> int:
        """Return a whole number that no purchase of all `low` and nothing beyond `high` (every set if not given) costs
        less than.
        """
        goods = self.market.goods
        most = np.ones(len(goods), dtype=bool) if high is None else high
        least = np.zeros(len(goods), dtype=bool) if low is None else low
        cuts, parts, chains, sets = (_units(each) for each in (by.cuts, by.parts, by.chains, by.sets))
        outside = [(count, each) for count, each in zip(sets, self.sets, strict=False) if each is not None]
        total = sum(cuts) * self.right + ((sum(count for count, _ in outside) - sum(chains)) << _SHIFT)
        used = [(count, cut) for count, cut in zip(cuts, self.cuts, strict=False) if count]
        for part, place in enumerate(self.place):
            weight = sum(count * cut[part] for count, cut in used)
            total += min(0, ((parts[part] + chains[place]) << _SHIFT) - weight)
        for number, good in enumerate(goods):
            rest = (good.price << _MONEY) - sum(parts[part] for part in good.parts)
            rest -= sum(count * each[number] for count, each in outside)
            if (least if rest > 0 else most)[number]:
                total += rest << _SHIFT
        return -(-total >> (_SHIFT + _MONEY))

    def fails(self, bought: _Set) -> bool:
        """Tell whether some cut says that these goods do not reach the target, all tiers of a chain counted once."""
        held = sorted({part for good, has in zip(self.market.goods, bought, strict=True) if has for part in good.parts})
        for cut in self.cuts:
            best = [0] * len(self.chains)
            for part in held:
                best[self.place[part]] = max(best[self.place[part]], cut[part])
            if sum(best) < self.right:
                return True
        return False

    def exclude(self, outside: _Vector) -> None:
        """Keep "at least one of the goods outside", if the others are known not to reach the target; else nothing."""
        known = self.fails(outside < 0.5)
        self.sets.append(np.array([int(each > 0.5) for each in outside], dtype=object) if known else None)

    def _whole(self, values: _Vector) -> _Whole:
        exact = [int(Fraction(float(value)) * self.scale) for value in values.flat]
        return np.array(exact, dtype=object).reshape(values.shape)

    def _cut(self, need: Need, direction: _Vector) -> _Whole:
        top = float(np.max(np.abs(direction), initial=0.0))
        nothing = np.array([self.right] * len(self.place), dtype=object)
        if not isfinite(top) or top == 0:
            return nothing
        y = np.array([int(each) for each in np.rint(direction / top * 2**_BITS)], dtype=object)
        along = int(self._whole(need.row) @ y) ** 2
        if along == 0:
            return nothing
        power = [int(np.sum((block @ y) ** 2)) for block in self.blocks]
        sought = Fraction(need.variance)
        cut = []
        for part, variance in enumerate(self.variances):
            above = (sought.numerator * variance.denominator * power[self.place[part]]) << _SHIFT
            below = sought.denominator * variance.numerator * along
            cut.append(min(self.right, -(-above // below)))
        return np.array(cut, dtype=object)


def _units(values: Sequence[float] | _Vector) -> list[int]:
    """Multipliers rounded down to units, never below 0; what is no number is 0."""
    return [max(0, int(Fraction(float(value)) * 2**_MONEY)) if isfinite(value) else 0 for value in values]
