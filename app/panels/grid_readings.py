"""What is read off a tier of points: boxes, marginals, quantiles and sums of products, each with its bars.

The half-width of a bar and the bound of a variance come from the mechanism and the number of reports alone. The
variance beside them is an estimate from the reports that were bought: it tells no more than they do,
and is held between 0 and the bound.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from app.errors import InvalidRequestError
from app.log.axes import AXES_LIMIT, VALUES_LIMIT, Axis
from app.panels.plans.base import CONFIDENCE, Counts
from app.panels.plans.points import PointsPlan
from app.panels.weights import bar_text, bound_text, centred, value_text
from tiers.metric.products import (
    Weights,
    box_weights,
    half_width,
    product_sum,
    product_variance_bound,
    product_variance_estimate,
)
from tiers.metric.quantiles import prefixes, quantile, rank_radius
from tiers.metric.ranges import Grid, Table, range_estimate, variance_bound, weighted_sum

__all__ = ["Factor", "Factors", "GridTier", "Number", "Side", "Sides"]

_Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Number: TypeAlias = Annotated[str, Meta(max_length=30, pattern=r"^-?[0-9]+(\.[0-9]+)?\Z")]
Row: TypeAlias = dict[str, str]
MISS = 1 - CONFIDENCE
_FARTHEST = 10**9
"""Weights of a product are multiplied as doubles: what they share, so many times as large, may drown their noise."""


class Side(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One side of a box: an axis, and its values from one to another; an axis without a side counts whole."""

    axis: _Key
    first: _Key
    last: _Key


class Factor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One factor of a product: an axis, and a weight a value in its order; an axis without a factor counts 1."""

    axis: _Key
    weights: Annotated[tuple[Number, ...], Meta(min_length=2, max_length=VALUES_LIMIT)]


class GridTier:
    """One tier of a round of points, to be read off.

    Args:       rank: of the tier. counts: its table, as bought. reports: how many there are.
    """

    def __init__(self, plan: PointsPlan, rank: int, axes: Sequence[Axis], counts: Counts, reports: int) -> None:
        self.axes, self.reports, self._linear = axes, reports, partial(plan.linear, rank, counts, reports)
        self.grid: Grid = plan.grid(rank)
        self.observed: Table = plan.observed(counts, reports)

    def box(self, sides: Sequence[Side]) -> list[Row]:
        """Return the count of people within a box, by 2^D look-ups."""
        wanted = [(1, size) for size in self.grid.sizes]
        for place, side in self._placed([side.axis for side in sides]):
            first, last = (self._value(place, key) for key in (sides[side].first, sides[side].last))
            wanted[place] = self._ordered(first, last)
        named = ", ".join(f"{side.axis}: {side.first} to {side.last}" for side in sides)
        bound = variance_bound(self.grid, self.reports, wanted)
        value = range_estimate(self.grid, self.observed, wanted)
        return [self._row(self.grid, self.observed, named, value, box_weights(self.grid, wanted), bound)]

    def marginal(self, axis: str, key: str | None = None) -> list[Row]:
        """Return the counts of an axis's values, all or one, whatever the others are."""
        place, grid, observed = self._margin(axis)
        keys = self.axes[place].values if key is None else (key,)
        return [self._range(grid, observed, each, (at, at)) for each in keys for at in [self._value(place, each)]]

    def range(self, axis: str, first: str, last: str) -> list[Row]:
        """Return the count of people from one value of an axis to another."""
        place, grid, observed = self._margin(axis)
        wanted = self._ordered(self._value(place, first), self._value(place, last))
        return [self._range(grid, observed, f"{first} to {last}", wanted)]

    def quantile(self, axis: str, share: Fraction) -> list[Row]:
        """Return the value of an axis at which the share is reached, and how far off in rank it can be at 95 %."""
        place, grid, observed = self._margin(axis)
        found = quantile(prefixes(grid, observed), share)
        radius = rank_radius(grid, self.reports, MISS)
        return [{"key": self.axes[place].values[found - 1], "rank_radius": bound_text(radius)}]

    def sum(self, axis: str, weights: Sequence[str]) -> list[Row]:
        """Return the sum over people of their value's weight on an axis; its variance is the same for all people."""
        place, grid, observed = self._margin(axis)
        self._check(weights, self.grid.sizes[place])
        shared, wanted = centred(weights)
        value, each = weighted_sum(grid, observed, wanted.tolist())
        total = shared * self.reports + Fraction(value)
        return [self._row(grid, observed, "sum", total, [wanted], self.reports * each)]

    def cells(self, weights: Sequence[str]) -> list[Row]:
        """Return the sum over people of their cell's weight, in row-major order; its variance has no short form."""
        self._check(weights, self.grid.cells)
        shared, wanted = centred(weights)
        value, width = self._linear(wanted)
        total = shared * self.reports + Fraction(value)
        return [{"key": "sum", "value": value_text(total), "half_width": bar_text(width)}]

    def product(self, factors: Sequence[Factor]) -> list[Row]:
        """Return the sum over people of the product of their values' weights, an axis each."""
        rows = [np.ones(size) for size in self.grid.sizes]
        for place, factor in self._placed([factor.axis for factor in factors]):
            rows[place] = self._factor(place, factors[factor].weights)
        bound = product_variance_bound(self.grid, self.reports, rows)
        value: Fraction | float = product_sum(self.grid, self.observed, rows)
        if not any(np.ptp(row) for row in rows):  # a bar of 0 is of the exact product
            value = self.reports * math.prod((Fraction(factor.weights[0]) for factor in factors), start=Fraction(1))
        return [self._row(self.grid, self.observed, "product", value, rows, bound)]

    def _range(self, grid: Grid, observed: Table, key: str, wanted: tuple[int, int]) -> Row:
        bound = variance_bound(grid, self.reports, [wanted])
        return self._row(
            grid, observed, key, range_estimate(grid, observed, [wanted]), box_weights(grid, [wanted]), bound
        )

    def _row(
        self, grid: Grid, observed: Table, key: str, value: Fraction | float, weights: Weights, bound: float
    ) -> Row:
        width = half_width(grid, self.reports, weights, MISS)
        spread = min(max(product_variance_estimate(grid, observed, weights), 0.0), bound)
        told = {"key": key, "value": value_text(value), "half_width": bar_text(width)}
        return told | {"variance_bound": bound_text(bound), "variance": bound_text(spread)}

    def _margin(self, axis: str) -> tuple[int, Grid, Table]:
        ((place, _),) = self._placed([axis])
        return place, *self.grid.marginal(self.observed, place)

    def _placed(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return the place of each axis, and where it is named."""
        known = [axis.name for axis in self.axes]
        if len(set(names)) != len(names) or not set(names) <= set(known):
            raise InvalidRequestError("axis: expected the panel's, each at most once, got others")
        return [(known.index(name), at) for at, name in enumerate(names)]

    def _value(self, place: int, key: str) -> int:
        values = self.axes[place].values
        if key not in values:
            raise InvalidRequestError("key: expected a value of the axis, got another")
        return values.index(key) + 1

    def _ordered(self, first: int, last: int) -> tuple[int, int]:
        if last < first:
            raise InvalidRequestError("range: expected a last value at or after the first, got one before it")
        return first, last

    def _factor(self, place: int, weights: Sequence[str]) -> npt.NDArray[np.float64]:
        self._check(weights, self.grid.sizes[place])
        shared, apart = centred(weights)
        spread = float(np.ptp(apart))
        if 0 < spread * _FARTHEST < abs(float(shared)):
            raise InvalidRequestError(
                f"weights: expected what they share to be at most {_FARTHEST:,} times what they differ by, got more"
            )
        return np.array([float(text) for text in weights])

    @staticmethod
    def _check(weights: Sequence[str], size: int) -> None:
        if len(weights) != size:
            raise InvalidRequestError(f"weights: expected {size} of them, got {len(weights)}")


Sides: TypeAlias = Annotated[tuple[Side, ...], Meta(min_length=1, max_length=AXES_LIMIT)]
Factors: TypeAlias = Annotated[tuple[Factor, ...], Meta(min_length=1, max_length=AXES_LIMIT)]
