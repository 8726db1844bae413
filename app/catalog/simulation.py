"""The owner's price simulator: what menus would have earned on the owner's own demand data, and no promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pricing.envy import menu_envy_free
from pricing.errors import InvalidDemandError
from pricing.independent import SPREAD, menu_independent
from pricing.limit import Limit
from pricing.menu import Menu, check_demand, menu_revenue, menu_threshold

__all__ = ["Demand", "simulate"]

LABEL = (
    "up to: revenue if buyers value tiers as stated and take the one with the largest surplus; the lower figure is for "
    "buyers who walk away when a price is exactly their value (a unit less keeps them); not a forecast"
)


@dataclass(frozen=True, slots=True)
class Demand:
    """Buyer types: how many there are, and what each values every tier at (most accurate first), in minor units."""

    counts: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]


def simulate(
    demand: Demand, current: Sequence[int] | None, limit: Limit, variances: Sequence[float] | None = None
) -> Mapping[str, Any]:
    """Return menus and what each would earn when buyers choose for themselves, ties going to the cheaper tier.

    Args:       variances: of each tier's noise; with them, what the same needs would bring a seller whose tiers are
                independent draws, so that copies undercut the dear ones (None: not solved in time, or tiers too far
                apart for copies to be a question).
    Raises: InvalidDemandError: empty or ragged demand, negative or fractional numbers, prices that rise or do not fit.
    """
    values, counts = check_demand(demand.values, demand.counts), list(demand.counts)
    menus: dict[str, Menu] = {
        "threshold": menu_threshold(_needs(demand), limit),
        "envy_free": menu_envy_free(values, counts, limit),
        "single_tier": _single(demand),
    }
    outcome = {name: _outcome(demand, menu.prices, menu.revenue, proven=menu.proven) for name, menu in menus.items()}
    if current is not None:
        if any(dearer < cheaper for dearer, cheaper in pairwise(current)):
            raise InvalidDemandError("current prices", "none above the tier before it", list(current))
        outcome["current"] = _outcome(demand, tuple(current), None, proven=True)
    best = max(outcome, key=lambda name: int(outcome[name]["self_selected_at_best_minor"]))
    told: dict[str, Any] = {"label": LABEL, "menus": outcome, "best": best}
    if variances is not None and len(variances) == len(demand.values[0]) and any(map(any, demand.values)):
        told["independent_draws_predicted_minor"] = _independent(demand, [1 / each for each in variances], limit)
    return told


def _independent(demand: Demand, precisions: Sequence[float], limit: Limit) -> int | None:
    if max(precisions) > SPREAD * min(precisions):
        return None
    alone = menu_independent(_needs(demand), precisions, limit)
    return round(alone.revenue) if alone.proven else None


def _needs(demand: Demand) -> list[list[int]]:
    """Read types as buyers who need the cheapest tier at which their value is already the largest."""
    needs: list[list[int]] = [[] for _ in demand.values[0]] if demand.values else []
    for count, row in zip(demand.counts, demand.values, strict=True):
        place = max(rank for rank, value in enumerate(row) if value == max(row))
        needs[place].extend([row[place]] * count)
    return needs


def _single(demand: Demand) -> Menu:
    best: Menu | None = None
    tiers = len(demand.values[0])
    for rank in range(tiers):
        for price in sorted({row[rank] for row in demand.values}):
            prices = tuple(price if place == rank else None for place in range(tiers))
            revenue = menu_revenue(demand.values, demand.counts, prices)
            if best is None or revenue > best.revenue:
                best = Menu(prices, revenue, float(revenue), proven=True)
    assert best is not None
    return best


def _outcome(demand: Demand, prices: Sequence[int | None], claimed: int | None, *, proven: bool) -> dict[str, Any]:
    return {
        "prices_minor": list(prices),
        "predicted_minor": claimed,
        "self_selected_minor": menu_revenue(demand.values, demand.counts, prices, "cheaper"),
        "self_selected_at_best_minor": menu_revenue(demand.values, demand.counts, prices, "dearer"),
        "proven": proven,
    }
