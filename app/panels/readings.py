"""What is read off a tier's counts: linear sums and quantiles, each post-processing of what was bought."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from app.errors import InvalidRequestError
from app.log.axes import Axis
from app.panels.grid_readings import Factors, GridTier, Number, Sides
from app.panels.plans.base import CONFIDENCE, Counts, Plan
from app.panels.plans.bits import BitsPlan
from app.panels.plans.points import PointsPlan
from app.panels.weights import bar_text, bound_text, centred, value_text
from tiers.budget import parse_decimal
from tiers.metric.quantiles import rank_radius, search

__all__ = ["Box", "Count", "Histogram", "Product", "Quantile", "Range", "Reading", "WeightedSum", "read"]

_Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class _Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What every reading has: a type."""


class _OfAxis(_Reading, frozen=True, kw_only=True):
    """What is read along one axis names it, on a panel with axes, and only there."""

    axis: _Key | None = None


class Histogram(_OfAxis, frozen=True, kw_only=True, tag="histogram"):
    """The count of every value; each bar is of its own count alone."""


class Count(_OfAxis, frozen=True, kw_only=True, tag="count"):
    """How many people have one value."""

    key: _Key


class Range(_OfAxis, frozen=True, kw_only=True, tag="range"):
    """How many people have a value from one to another, in the domain's order."""

    first: _Key
    last: _Key


class Quantile(_OfAxis, frozen=True, kw_only=True, tag="quantile"):
    """The value at which the share of the people at or below it reaches `share`, in the domain's order."""

    share: Number


class WeightedSum(_OfAxis, frozen=True, kw_only=True, tag="sum"):
    """The sum over people of their value's weight, a weight a value in the domain's order.

    On a panel with axes: a weight a value of the axis, or, without one, a weight a cell in row-major order.
    """

    weights: Annotated[tuple[Number, ...], Meta(min_length=2, max_length=4_096)]


class Box(_Reading, frozen=True, kw_only=True, tag="box"):
    """How many people are within a range of each axis that has a side: of panels with axes."""

    sides: Sides


class Product(_Reading, frozen=True, kw_only=True, tag="product"):
    """The sum over people of the product of a weight an axis: of panels with axes."""

    factors: Factors


Reading: TypeAlias = Histogram | Count | Range | Quantile | WeightedSum | Box | Product


def read(
    plan: Plan,
    rank: int,
    domain: Sequence[str],
    counts: Counts,
    reports: int,
    wanted: Reading,
    *,
    axes: Sequence[Axis] = (),
) -> list[dict[str, str]]:
    """Return the rows of a reading: key, value and half-width as decimal text; of a quantile the value's key alone.

    A quantile has its radius: how far off in rank it can be, at 95 %. With axes: `app.panels.grid_readings`.

    Raises:     InvalidRequestError: a key outside the domain, a range that ends before it begins, a share out of
                (0, 1], another number of weights than of values, or an axis that the panel has not.
    Example:
        >>> from app.panels.mechanism import plan_of
        >>> from tiers.budget import Ladder
        >>> plan = plan_of("randomized-response", 2, Ladder.parse(["50"]))
        >>> read(plan, 0, ["no", "yes"], np.array([60, 40]), 100, Count(key="yes"))[0]["value"]
        '40.000000'
    """
    if isinstance(plan, PointsPlan):
        return _read_grid(GridTier(plan, rank, axes, counts, reports), wanted)
    if isinstance(wanted, Box | Product) or wanted.axis is not None:
        raise InvalidRequestError("reading: expected one of a panel without axes, got an axis")
    size = len(domain)
    match wanted:
        case Histogram():
            rows = [(key, np.eye(1, size, place)[0]) for place, key in enumerate(domain)]
        case Count():
            rows = [(wanted.key, np.eye(1, size, _place(domain, wanted.key))[0])]
        case Range():
            first, last = _place(domain, wanted.first), _place(domain, wanted.last)
            if last < first:
                raise InvalidRequestError("range: expected a last value at or after the first, got one before it")
            most = 2 * (last + 1 - first) > size  # of whom the rest is counted: all of them are n, without rounding
            inside = np.full(size, -1.0 if most else 0.0)
            inside[first : last + 1] += 1
            value, width = plan.linear(rank, counts, reports, inside)
            return [_row(f"{wanted.first} to {wanted.last}", reports * most + Fraction(value), width)]
        case WeightedSum():
            if len(wanted.weights) != size:
                raise InvalidRequestError(f"weights: expected {size} of them, got {len(wanted.weights)}")
            shared, weights = centred(wanted.weights)
            value, width = plan.linear(rank, counts, reports, weights)
            return [_row("sum", shared * reports + Fraction(value), width)]
        case Quantile():
            found = domain[_quantile(plan, rank, counts, reports, size, _share(wanted)) - 1]
            return [{"key": found, "rank_radius": bound_text(_radius(plan, rank, counts, reports, size))}]
    return [_row(key, *plan.linear(rank, counts, reports, weights)) for key, weights in rows]


def _read_grid(tier: GridTier, wanted: Reading) -> list[dict[str, str]]:
    if isinstance(wanted, Box):
        return tier.box(wanted.sides)
    if isinstance(wanted, Product):
        return tier.product(wanted.factors)
    if isinstance(wanted, WeightedSum) and wanted.axis is None:
        return tier.cells(wanted.weights)
    if wanted.axis is None:
        raise InvalidRequestError("axis: expected one of the panel's axes, or a box, got none")
    match wanted:
        case Histogram():
            return tier.marginal(wanted.axis)
        case Count():
            return tier.marginal(wanted.axis, wanted.key)
        case Range():
            return tier.range(wanted.axis, wanted.first, wanted.last)
        case WeightedSum():
            return tier.sum(wanted.axis, wanted.weights)
        case Quantile():
            return tier.quantile(wanted.axis, _share(wanted))


def _share(wanted: Quantile) -> Fraction:
    share = parse_decimal("share", wanted.share)
    if not 0 < share <= 1:
        raise InvalidRequestError("share: expected a part above 0 and at most 1, got another")
    return share


def _quantile(plan: Plan, rank: int, counts: Counts, reports: int, size: int, share: Fraction) -> int:
    def prefix(place: int) -> float:
        weights = (np.arange(size) < place).astype(np.float64)
        return plan.linear(rank, counts, reports, weights)[0] if place < size else float(reports)

    return search(prefix, size, share)[-1]


def _radius(plan: Plan, rank: int, counts: Counts, reports: int, size: int) -> float:
    """Return D: with 95 % at least, a quantile j has P(j) ≥ φn − D and P(j−1) < φn + D.

    Law:        of flips `rank_radius`. Else the prefixes hang together, so that all d − 1 of them share the miss: D is
                the widest one's half-width at β/(d − 1).
    Example:
        >>> from app.panels.mechanism import plan_of
        >>> from tiers.budget import Ladder
        >>> plan = plan_of("subset", 2, Ladder.parse(["50"]))  # one prefix, and next to no noise
        >>> round(_radius(plan, 0, np.array([40, 60]), 100, 2), 3)  # by the variance, of almost 0
        2.459
    """
    if isinstance(plan, BitsPlan):
        return rank_radius(plan.grid(rank), reports, 1 - CONFIDENCE)
    miss, prefix, widest = (1 - CONFIDENCE) / (size - 1), np.zeros(size), 0.0
    for end in range(size - 1):
        prefix[end] = 1
        widest = max(widest, plan.linear(rank, counts, reports, prefix, miss)[1])
    return widest


def _place(domain: Sequence[str], key: str) -> int:
    try:
        return domain.index(key)
    except ValueError:
        raise InvalidRequestError("key: expected a value of the panel's domain, got another") from None


def _row(key: str, value: Fraction | float, half_width: float) -> dict[str, str]:
    return {"key": key, "value": value_text(value), "half_width": bar_text(half_width)}
