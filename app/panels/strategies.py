"""What linear counting queries cost under a metric: strategy matrices with Laplace noise beside flips.

A planning tool that reads no data. Strategies are an analysis in floating point, and no panel sells their reports,
which are real numbers: they tell an owner what flips at the best ε a step are held against.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta
from rich.table import Table

from app.errors import InvalidRequestError
from tiers.budget import EPSILON_CEILING, Ladder, decimal_text, parse_decimal
from tiers.local.flips import Flips
from tiers.metric.linear import (
    Strategy,
    identity_scales,
    line_metric,
    optimal_scales,
    prefix_strategy,
    residual_stay,
    secret_metric,
)
from tiers.metric.products import product_variance_bound
from tiers.metric.ranges import Grid

__all__ = [
    "AnyTwo",
    "Cost",
    "Distances",
    "Line",
    "Secret",
    "StrategyPlan",
    "StrategyRequest",
    "plan_strategies",
    "table_of",
]

Matrix = npt.NDArray[np.float64]
_Number: TypeAlias = Annotated[str, Meta(max_length=30, pattern=r"^-?[0-9]+(\.[0-9]+)?\Z")]
_VALUES = 40
_Size: TypeAlias = Annotated[int, Meta(ge=2, le=_VALUES)]
_Rows: TypeAlias = Annotated[
    tuple[Annotated[tuple[_Number, ...], Meta(min_length=2, max_length=_VALUES)], ...],
    Meta(min_length=1, max_length=1_000),
]


class _Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Closed to unknown names."""


class Line(_Struct, frozen=True, kw_only=True, tag="line"):
    """ε for each step between two values."""


class AnyTwo(_Struct, frozen=True, kw_only=True, tag="any"):
    """ε for any two values."""


class Secret(_Struct, frozen=True, kw_only=True, tag="secret"):
    """ε between two values of which one is among the first `secret`, 2ε between two others."""

    secret: Annotated[int, Meta(ge=0, le=_VALUES)]


class Distances(_Struct, frozen=True, kw_only=True, tag="table"):
    """A distance for each pair of values; ε is promised for each unit of it."""

    rows: _Rows


class StrategyRequest(_Struct, frozen=True, kw_only=True):
    """Values, a metric for one unit of ε, a menu, and queries: a row of weights each, or all of a kind."""

    values: _Size
    metric: Line | AnyTwo | Secret | Distances
    epsilons: Annotated[tuple[_Number, ...], Meta(min_length=1, max_length=20)]
    queries: Literal["ranges", "prefixes", "values"] | _Rows


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy's variances, a person: in all, the worst query's, and each query's.

    Args:       sold: the mechanism of a panel that gives these reports, and its ε a step; None for an analysis.
    """

    strategy: str
    total: float
    worst: float
    errors: list[float]
    sold: str | None = None
    epsilon_step: str | None = None


class StrategyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Each tier's strategies, best first, and how often a Laplace strategy's step to the next tier adds nothing.

    Args:       stay: for each step of the menu, of the best Laplace strategy; the residual is 0 so often in every
                coordinate that has noise, else Laplace at the lower scale.
    """

    values: int
    queries: int
    epsilons: list[str]
    tiers: list[list[Cost]]
    stay: list[float]


def plan_strategies(request: StrategyRequest) -> StrategyPlan:
    """Return what the queries cost at each ε, by every strategy that is known here.

    Raises:     InvalidRequestError: a metric that is none, or queries of another length. InvalidParameterError,
                BudgetOrderError: a menu's ε.
    Example:
        >>> asked = StrategyRequest(values=6, metric=Line(), epsilons=("2", "1"), queries="ranges")
        >>> [(cost.strategy, round(cost.total, 2)) for cost in plan_strategies(asked).tiers[1]][:2]
        [('flips', 27.62), ('prefixes', 60.0)]
    """
    ladder, unit, workload = Ladder.parse(list(request.epsilons)), _metric(request), _workload(request)
    known = _strategies(request, unit, workload)
    best = min(known, key=lambda name: known[name].total_error(1))
    scaled = [_scaled(known[best], float(epsilon)) for epsilon in ladder]
    stays = [residual_stay(upper, lower) for upper, lower in pairwise(scaled)]
    return StrategyPlan(
        values=request.values,
        queries=len(workload),
        epsilons=[decimal_text(epsilon) for epsilon in ladder],
        tiers=[_tier(known, _least_step(request, unit), workload, epsilon) for epsilon in ladder],
        stay=[float(stay.min()) for stay in stays],
    )


def _tier(known: dict[str, Strategy], least: Fraction, workload: Matrix, epsilon: Fraction) -> list[Cost]:
    costs = [_cost(name, _scaled(strategy, float(epsilon)).errors(1)) for name, strategy in known.items()]
    step = min(_floor(epsilon * least), EPSILON_CEILING)
    if step:
        grid = Grid((workload.shape[1],), Flips(step))
        flips = np.array([product_variance_bound(grid, 1, [row]) for row in workload])
        costs.append(_cost("flips", flips, sold="flips", epsilon_step=decimal_text(step)))
    return sorted(costs, key=lambda cost: cost.total)


def _least_step(request: StrategyRequest, unit: Matrix) -> Fraction:
    """Return the largest ε a step that is below no pair's distance, exactly: flips then keep the whole metric."""
    table = request.metric.rows if isinstance(request.metric, Distances) else unit.tolist()
    pairs = [(x, y) for x in range(request.values) for y in range(x)]
    return min(Fraction(table[x][y]) / (x - y) for x, y in pairs)


def _floor(epsilon: Fraction) -> Fraction:
    return Fraction(math.floor(epsilon * 10**6), 10**6)


def _cost(name: str, errors: Matrix, *, sold: str | None = None, epsilon_step: str | None = None) -> Cost:
    return Cost(
        strategy=name,
        total=float(errors.sum()),
        worst=float(errors.max()),
        errors=errors.tolist(),
        sold=sold,
        epsilon_step=epsilon_step,
    )


def _strategies(request: StrategyRequest, unit: Matrix, workload: Matrix) -> dict[str, Strategy]:
    """Return strategies at ε = 1: in closed form where that is known to be the best, else by the convex solver."""
    one, below = np.eye(request.values), np.tril(np.ones((request.values, request.values)))
    reader = workload @ np.linalg.inv(below)
    found = {"values": optimal_scales(one, workload, unit), "prefixes": optimal_scales(below, reader, unit)}
    if isinstance(request.metric, Secret) and request.queries == "values":
        on, off = identity_scales(request.values, request.metric.secret, 1.0)
        scales = np.where(np.arange(request.values) < request.metric.secret, on, off)
        found["values"] = Strategy(one, scales, workload)
    if isinstance(request.metric, Line):
        found["prefixes"] = Strategy(below, prefix_strategy(request.values, 1.0).scales, reader)
    if not isinstance(request.queries, str) and len(workload) <= _VALUES:
        found["queries"] = optimal_scales(workload, np.eye(len(workload)), unit)
    return found


def _scaled(strategy: Strategy, epsilon: float) -> Strategy:
    return Strategy(strategy.rows, strategy.scales / epsilon, strategy.reader)


def _metric(request: StrategyRequest) -> Matrix:
    match request.metric:
        case Line():
            return line_metric(request.values, 1.0)
        case AnyTwo():
            return secret_metric(request.values, request.values, 1.0)
        case Secret():
            return secret_metric(request.values, request.metric.secret, 1.0)
        case Distances():
            found = _matrix("metric", request.metric.rows, request.values)
            if len(found) != request.values or (found != found.T).any() or (np.diag(found) != 0).any():
                raise InvalidRequestError("metric: expected a symmetric table with 0 on its diagonal, got another")
            if (found + np.eye(request.values) <= 0).any():
                raise InvalidRequestError("metric: expected distances above 0 between any two values, got another")
            return found


def _workload(request: StrategyRequest) -> Matrix:
    size = request.values
    if not isinstance(request.queries, str):
        found = _matrix("queries", request.queries, size)
        if not np.ptp(found, axis=1).any():
            raise InvalidRequestError("queries: expected one that tells two values apart, got none")
        return found
    if request.queries == "values":
        return np.eye(size)
    if request.queries == "prefixes":
        return np.tril(np.ones((size, size)))
    places = np.arange(size)
    ranges = [(low, high) for low in range(size) for high in range(low, size)]
    return np.array([(places >= low) & (places <= high) for low, high in ranges], np.float64)


def _matrix(name: str, rows: Sequence[Sequence[str]], size: int) -> Matrix:
    if any(len(row) != size for row in rows):
        raise InvalidRequestError(f"{name}: expected {size} numbers a row, got another number of them")
    return np.array([[float(parse_decimal(name, text)) for text in row] for row in rows])


def table_of(plan: StrategyPlan) -> Table:
    """Return the plan as a table: a line a tier and strategy."""
    table = Table(title=f"{plan.queries} queries over {plan.values} values: variance a person")
    for name in ("ε", "strategy", "in all", "worst query", "sold as"):
        table.add_column(name, justify="left" if name in ("strategy", "sold as") else "right")
    for epsilon, costs in zip(plan.epsilons, plan.tiers, strict=True):
        for cost in costs:
            sold = "analysis only" if cost.sold is None else f"panel of {cost.sold}, ε = {cost.epsilon_step} a step"
            table.add_row(epsilon, cost.strategy, f"{cost.total:.6g}", f"{cost.worst:.6g}", sold)
    return table
