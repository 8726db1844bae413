"""What is read off a tier's counts: linear sums and quantiles, each post-processing of what was bought."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from app.errors import InvalidRequestError
from app.panels.plans.base import Counts, Plan
from tiers.budget import parse_decimal
from tiers.metric.quantiles import search

__all__ = ["Count", "Histogram", "Quantile", "Range", "Reading", "WeightedSum", "read"]

_Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
_Number: TypeAlias = Annotated[str, Meta(max_length=30, pattern=r"^-?[0-9]+(\.[0-9]+)?\Z")]


class _Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What every reading has: a type."""


class Histogram(_Reading, frozen=True, kw_only=True, tag="histogram"):
    """The count of every value; each bar is of its own count alone."""


class Count(_Reading, frozen=True, kw_only=True, tag="count"):
    """How many people have one value."""

    key: _Key


class Range(_Reading, frozen=True, kw_only=True, tag="range"):
    """How many people have a value from one to another, in the domain's order."""

    first: _Key
    last: _Key


class Quantile(_Reading, frozen=True, kw_only=True, tag="quantile"):
    """The value at which the share of the people at or below it reaches `share`, in the domain's order."""

    share: _Number


class WeightedSum(_Reading, frozen=True, kw_only=True, tag="sum"):
    """The sum over people of their value's weight, a weight a value in the domain's order."""

    weights: Annotated[tuple[_Number, ...], Meta(min_length=2, max_length=4_096)]


Reading: TypeAlias = Histogram | Count | Range | Quantile | WeightedSum


def read(
    plan: Plan, rank: int, domain: Sequence[str], counts: Counts, reports: int, wanted: Reading
) -> list[dict[str, str]]:
    """Return the rows of a reading: key, value and half-width as decimal text; of a quantile the value's key alone.

    Raises:     InvalidRequestError: a key outside the domain, a range that ends before it begins, a share out of
                (0, 1], or another number of weights than of values.
    Example:
        >>> from app.panels.mechanism import plan_of
        >>> from tiers.budget import Ladder
        >>> plan = plan_of("randomized-response", 2, Ladder.parse(["50"]))
        >>> read(plan, 0, ["no", "yes"], np.array([60, 40]), 100, Count(key="yes"))[0]["value"]
        '40.000000'
    """
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
            inside = np.zeros(size)
            inside[first : last + 1] = 1
            rows = [(f"{wanted.first} to {wanted.last}", inside)]
        case WeightedSum():
            if len(wanted.weights) != size:
                raise InvalidRequestError(f"weights: expected {size} of them, got {len(wanted.weights)}")
            rows = [("sum", np.array([float(text) for text in wanted.weights]))]
        case Quantile():
            share = parse_decimal("share", wanted.share)
            if not 0 < share <= 1:
                raise InvalidRequestError("share: expected a part above 0 and at most 1, got another")
            return [{"key": domain[_quantile(plan, rank, counts, reports, size, share) - 1]}]
    return [_row(key, *plan.linear(rank, counts, reports, weights)) for key, weights in rows]


def _quantile(plan: Plan, rank: int, counts: Counts, reports: int, size: int, share: Fraction) -> int:
    def prefix(place: int) -> float:
        weights = np.arange(size) < place
        return plan.linear(rank, counts, reports, weights.tolist())[0] if place < size else float(reports)

    return search(prefix, size, share)[-1]


def _place(domain: Sequence[str], key: str) -> int:
    try:
        return domain.index(key)
    except ValueError:
        raise InvalidRequestError("key: expected a value of the panel's domain, got another") from None


def _row(key: str, value: float, half_width: float) -> dict[str, str]:
    return {"key": key, "value": f"{value:.6f}", "half_width": f"{half_width:.6f}"}
