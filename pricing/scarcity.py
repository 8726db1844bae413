"""A budget that never grows back as scarce supply: reserves that rise with use, and caps planned from history."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from pricing.errors import InvalidDemandError, InvalidPriceError, TimeLimitError
from pricing.limit import UNLIMITED, Limit
from pricing.money import MONEY_LIMIT, check_minor
from tiers.budget import NANO
from tiers.errors import BudgetExceededError

__all__ = ["CapPlan", "ReserveCurve", "compensation", "history_values", "plan_caps"]

_EXACT = Context(prec=50)  # C(u) has at most 16 digits before the point: over 30 correct ones behind it
_BUDGET_LIMIT = 10**15
_BPS = 10_000
_E_ABOVE = 2_718_281_828_459_046  # e·10¹⁵, rounded up


@dataclass(frozen=True, slots=True)
class ReserveCurve:
    """The least a sale must bring for the budget it uses: the threshold ψ(z) = (L/e)·(U·e/L)^z, z = share used.

    The cumulative cost is one integer function R of the budget used, so what a stretch of budget costs does not depend
    on how it is cut into sales: R(a→c) = R(a→b) + R(b→c), to the cent.

    Law:        C(u) = B·(L/e)·(exp(k·u/B) − 1)/k with k = ln(U·e/L), R(u) = ⌈C(u)⌉; B in whole ε, u ≤ B.
    Args:       low, high: range of list prices per 1.0 of budget, in minor units, 0 < low ≤ high (5th and 95th
                percentile of the catalogue, say). total_nano: the lifetime budget in 10⁻⁹.
    Raises:     InvalidPriceError: out of range, or not integers.
    Reference:  Zhou, Chakrabarty, Lukose 2008, "Budget constrained bidding in keyword auctions and online knapsack
                problems" (threshold Ψ); the integer cumulative form is ours.
    Example:
                >>> curve = ReserveCurve(100, 2000, 10 * NANO)
                >>> curve.cumulative(NANO // 2), curve.cumulative(NANO), curve.between(NANO // 2, NANO)
                (21, 46, 25)
    """

    low: int
    high: int
    total_nano: int

    def __post_init__(self) -> None:
        check_minor("reserve low", self.low, low=1)
        check_minor("reserve high", self.high, low=1)
        if self.high < self.low:
            raise InvalidPriceError("reserve high", f"at least the low end {self.low}", self.high)
        _check_nano("total budget", self.total_nano, low=1)

    def cumulative(self, used_nano: int) -> int:
        """Return R(used): what all the budget used so far had to bring, in minor units, rounded up.

        Raises:     BudgetExceededError: more than the total. InvalidPriceError: negative, not an integer, or R > 2⁵³−1.
        """
        _check_nano("used budget", used_nano)
        if used_nano > self.total_nano:
            raise BudgetExceededError(used_nano, self.total_nano)
        if used_nano == 0:
            return 0
        k, scale = _constants(self.low, self.high)
        growth = _EXACT.exp(_EXACT.divide(_EXACT.multiply(k, used_nano), self.total_nano))
        cost = _EXACT.divide(_EXACT.multiply(_EXACT.multiply(scale, self.total_nano), _EXACT.subtract(growth, 1)), NANO)
        return check_minor("reserve", int(cost.to_integral_value(rounding=ROUND_CEILING)))

    def between(self, used_nano: int, after_nano: int) -> int:
        """Return the reserve of the sale that moves the budget used from `used_nano` to `after_nano`.

        Raises:     InvalidPriceError: `after_nano` is below `used_nano`. Others as `cumulative`.
        """
        if after_nano < used_nano:
            raise InvalidPriceError("budget after the sale", f"at least the {used_nano} used before", after_nano)
        return self.cumulative(after_nano) - self.cumulative(used_nano)

    def threshold(self, used_share: float) -> float:
        """Return ψ(z), minor units per 1.0 of budget at the margin: for pictures and explanations, never for a charge.

        Example:
                >>> [round(ReserveCurve(100, 2000, NANO).threshold(z), 4) for z in (0, 0.5, 1)]
                [36.7879, 271.2488, 2000.0]
        """
        return self.low * exp(used_share * (1 + log(self.high / self.low)) - 1)


def compensation(rate: int, fee_bps: int) -> int:
    """Return the least `low` of a reserve that pays owners `rate` for every 1.0 of budget, whenever it is used.

    Law:        C′(u) rises from low/e, so with low = ⌈e·rate/(1 − fee)⌉ all budget used so far has brought
                R(u) ≥ rate·u/(1 − fee): what owners must receive, and the market's fee on it.
    Args:       rate: minor units per 1.0 of budget, summed over the owners in scope. fee_bps: the market's, below 10⁴.
    Raises:     InvalidPriceError: out of range, or not integers.
    Reference:  Li, Li, Miklau, Suciu 2017, "A Theory of Pricing Private Data" (cost recovery).
    Example:
                >>> compensation(250, 1500)
                800
    """
    check_minor("rate", rate)
    if check_minor("fee", fee_bps) >= _BPS:
        raise InvalidPriceError("fee", f"below {_BPS} basis points", fee_bps)
    return check_minor("compensation", -(-rate * _BPS * _E_ABOVE // ((_BPS - fee_bps) * 10**15)))


@dataclass(frozen=True, slots=True)
class CapPlan:
    """The best rank each query may sell up to (None: do not open it), and what a unit of budget is worth.

    Example:
                >>> plan = plan_caps([[900, 500], [300, 200]], [[NANO, NANO // 2], [NANO, NANO // 2]], NANO)
                >>> plan.caps, plan.used_nano
                ((1, None), 1000000000)
    """

    caps: tuple[int | None, ...]
    used_nano: int
    value: int
    upper_bound: float
    shadow_price: float


def history_values(bought: Sequence[Sequence[Collection[int]]], prices: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return what each query would have earned had its best rank been capped: tiers at or below the cap sell as before.

    Law:        value(cap) = Σ over buyers of the price of the best of their tiers at or below the cap: an upgrade pays
                the difference, so a buyer of several tiers pays in all for the best of them.
    Args:       bought: for each query, the ranks each buyer holds in the end (1 = most accurate). prices: one row a
                query, rank 1 first: list prices.
    Raises:     InvalidDemandError: shapes differ, a rank that is not priced, or a negative or fractional price.
    Example:
                >>> history_values([[{2}, {1, 2}, {2}]], [[900, 200]])
                [[1300, 600]]
    """
    _check_rows("prices", prices)
    if len(bought) != len(prices):
        raise InvalidDemandError("buyers", f"those of each of {len(prices)} queries", len(bought))
    values = []
    for buyers, price in zip(bought, prices, strict=True):
        row = [0] * len(price)
        for ranks in buyers:
            for rank in ranks:
                if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= len(price):
                    raise InvalidDemandError("rank", f"an integer from 1 to {len(price)}", rank)
            for cap in range(1, max(ranks, default=0) + 1):
                row[cap - 1] += price[min(rank for rank in ranks if rank >= cap) - 1]
        values.append(row)
    return values


def plan_caps(
    values: Sequence[Sequence[int]], cost_nano: Sequence[Sequence[int]], total_nano: int, limit: Limit = UNLIMITED
) -> CapPlan:
    """Return which tier each query may sell up to so that all of them fit the budget (multiple-choice knapsack).

    The linear relaxation splits at most one query between two caps; that one takes the best cap that still fits.

    Guarantee:  the caps' costs add up to at most `total_nano`, in integers; value ≤ optimum ≤ upper_bound (to 10⁻⁶).
    Args:       values: one row a query, rank 1 first: expected revenue with the cap there (`history_values`).
                cost_nano: the budget each cap uses, 10⁻⁹, never rising along a row. total_nano: the budget to plan.
    Raises:     InvalidDemandError: shapes differ, negative or fractional entries, a cost that rises along the ranks.
                TimeLimitError: the relaxation was not solved in time.
    Example:
                >>> plan_caps([[1000, 400]], [[2 * NANO, NANO]], NANO).caps
                (2,)
    """
    _check_rows("values", values)
    _check_rows("cost", cost_nano)
    if [len(row) for row in values] != [len(row) for row in cost_nano]:
        raise InvalidDemandError("cost", "one for each value", [len(row) for row in cost_nano])
    for row in cost_nano:
        if list(row) != sorted(row, reverse=True):
            raise InvalidDemandError("cost", "budgets that never rise along the ranks", list(row))
    _check_nano("total budget", total_nano)
    shares, bound, shadow = _relaxation(values, cost_nano, total_nano, limit)
    caps: list[int | None] = [None] * len(values)
    left = total_nano
    whole = [query for query, row in enumerate(shares) if row.size and row.max() > 1 - 1e-6]
    for query in whole + [query for query in range(len(values)) if query not in set(whole)]:
        wanted = int(np.argmax(shares[query])) if query in set(whole) else 0
        fits = [rank for rank in range(wanted, len(values[query])) if cost_nano[query][rank] <= left]
        best = max(fits, key=lambda rank: (values[query][rank], rank), default=None)
        if best is not None and values[query][best] > 0:
            caps[query], left = best + 1, left - cost_nano[query][best]
    value = sum(values[query][cap - 1] for query, cap in enumerate(caps) if cap is not None)
    limit.progress("caps", 1, 1)
    return CapPlan(tuple(caps), total_nano - left, value, bound, shadow)


@lru_cache(maxsize=256)
def _constants(low: int, high: int) -> tuple[Decimal, Decimal]:
    """Return k = ln(U·e/L) and L/(e·k)."""
    k = _EXACT.add(_EXACT.ln(_EXACT.divide(Decimal(high), Decimal(low))), 1)
    return k, _EXACT.divide(Decimal(low), _EXACT.multiply(_EXACT.exp(Decimal(1)), k))


def _relaxation(
    values: Sequence[Sequence[int]], cost_nano: Sequence[Sequence[int]], total_nano: int, limit: Limit
) -> tuple[list[NDArray[np.float64]], float, float]:
    """Return the LP's share of each cap, its value, and revenue per 1.0 of budget at the margin."""
    limit.progress("caps", 0, 1)
    if limit.is_over():
        raise TimeLimitError("tier caps", 0, 1)
    lengths = [len(row) for row in values]
    worth = np.array([value for row in values for value in row], dtype=float)
    cost = np.array([nano / NANO for row in cost_nano for nano in row])
    query = np.repeat(np.arange(len(lengths)), lengths)
    count = worth.size
    rows = np.concatenate([query, np.full(count, len(lengths))])
    columns = np.tile(np.arange(count), 2)
    matrix = coo_array((np.concatenate([np.ones(count), cost]), (rows, columns)), shape=(len(lengths) + 1, count))
    right = np.append(np.ones(len(lengths)), total_nano / NANO)
    seconds = limit.seconds_left()
    options = {} if seconds == inf else {"time_limit": max(seconds, 0.0)}
    result = linprog(-worth, A_ub=matrix.tocsr(), b_ub=right, bounds=(0, 1), method="highs", options=options)
    if result.x is None or result.status != 0:
        raise TimeLimitError("tier caps", 0, 1)
    return np.split(result.x, np.cumsum(lengths)[:-1]), float(-result.fun), float(-result.ineqlin.marginals[-1])


def _check_rows(name: str, rows: Sequence[Sequence[int]]) -> None:
    if not rows or not any(len(row) for row in rows):
        raise InvalidDemandError(name, "at least one query with one tier", rows)
    for row in rows:
        for entry in row:
            if isinstance(entry, bool) or not isinstance(entry, int) or not 0 <= entry <= MONEY_LIMIT:
                raise InvalidDemandError(name, "integers from 0 to 2⁵³−1", entry)


def _check_nano(name: str, nano: int, low: int = 0) -> None:
    if isinstance(nano, bool) or not isinstance(nano, int) or not low <= nano <= _BUDGET_LIMIT:
        raise InvalidPriceError(name, f"an integer of 10⁻⁹ from {low} to {Fraction(_BUDGET_LIMIT, NANO)}·10⁹", nano)
