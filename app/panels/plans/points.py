"""Reports of points of a grid: the threshold bits of every axis, each flipped on its own; ε is promised a step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from app.errors import InvalidRequestError
from app.log.axes import AXES_LIMIT, VALUES_LIMIT
from app.panels.plans.base import CONFIDENCE, Counts, Law, Weights, signal_of
from app.panels.plans.bits import FlippedPlan
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.flips import Flips
from tiers.metric.products import cell_half_width, cell_sum
from tiers.metric.ranges import Grid

__all__ = ["CELLS_LIMIT", "PointsPlan", "sizes_of"]

CELLS_LIMIT = 2**16
"""Cells of a grid: a tier's table has a number for each, and travels with every order of it."""
THRESHOLDS_LIMIT = 2**12
_AT_ONCE = 2**24


@dataclass(frozen=True)
class PointsPlan(FlippedPlan):
    """Flips of a grid's axes; a report lists the thresholds that are 1, those of the first axis first.

    Guarantee:  tier i tells points x and y apart by ε_i·‖x − y‖₁ at most, attained; every coalition of tiers has its
                best one's ε.
    Args:       domain_size: the number of points. sizes: values on each axis; cells are in row-major order.
    """

    sizes: tuple[int, ...] = ()

    @classmethod
    def over(cls, sizes: tuple[int, ...], ladder: Ladder) -> "PointsPlan":
        """Return the plan of a grid.

        Raises:     InvalidRequestError: too many axes, values, thresholds or cells.
        Example:
            >>> PointsPlan.over((256, 256), Ladder.parse(["1", "0.5"])).metric.diameter
            510
        """
        if not 1 <= len(sizes) <= AXES_LIMIT or not all(2 <= size <= VALUES_LIMIT for size in sizes):
            raise InvalidRequestError(
                f"axes: expected 1 to {AXES_LIMIT}, each of 2 to {VALUES_LIMIT} values, got others"
            )
        if math.prod(sizes) > CELLS_LIMIT or sum(sizes) - len(sizes) > THRESHOLDS_LIMIT:
            raise InvalidRequestError(
                f"axes: expected at most {CELLS_LIMIT} cells and {THRESHOLDS_LIMIT} steps in all, got more"
            )
        return cls("points", math.prod(sizes), ladder, tuple(Flips(epsilon) for epsilon in ladder), sizes)

    @classmethod
    def read(cls, domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> "PointsPlan":
        """Return the plan that stored laws name; raises InvalidParameterError where they are not its own."""
        sizes = sizes_of(laws[0]) if laws else ()
        if math.prod(sizes) != domain_size:
            raise InvalidParameterError("laws", f"a grid of {domain_size} cells", "another")
        plan = cls.over(sizes, ladder)
        named = [(sizes_of(law), signal_of(law)) for law in laws]
        if named != [(sizes, flips.signal) for flips in plan.flips]:
            raise InvalidParameterError("laws", "the flips of each ε, on one grid", "others")
        return plan

    @property
    def laws(self) -> tuple[Grid, ...]:
        """Return the law of each tier."""
        return tuple(Grid(self.sizes, flips) for flips in self.flips)

    def count(self, rank: int, raw: bytes) -> Counts:
        """Return, for each corner k of the grid, how many reports have an even number of bits k_d that are 0.

        Of one axis: how many hold each threshold. The last one is the number of reports.
        """
        reports = len(raw) // self.width
        if len(self.sizes) == 1:
            return np.append(self._held(raw), reports)
        observed, rows = np.zeros(self.sizes), max(1, _AT_ONCE // self.bits)
        for at in range(0, reports, rows):
            observed += self.grid(rank).observe(self._signs(raw[at * self.width : (at + rows) * self.width]))
        return ((observed + reports) / 2).astype(np.int64).reshape(-1)

    def observed(self, counts: Counts, reports: int) -> npt.NDArray[np.float64]:
        """Return a tier's table of observations, from its counts: what every estimate is read off."""
        return (2 * counts - reports).astype(np.float64).reshape(self.sizes)

    def linear(
        self, rank: int, counts: Counts, reports: int, weights: Weights, miss: Fraction = 1 - CONFIDENCE
    ) -> tuple[float, float]:
        """Return the unbiased Σ over people of their cell's weight, with its bar."""
        grid, shaped = self.grid(rank), np.asarray(weights, np.float64).reshape(self.sizes)
        total = cell_sum(grid, self.observed(counts, reports), shaped)
        return total, cell_half_width(grid, reports, shaped, miss)

    def _signs(self, raw: bytes) -> list[npt.NDArray[np.int8]]:
        """Return each axis's bits as ±1, the certain one among them."""
        rows = np.frombuffer(raw, np.uint8).reshape(-1, self.width)
        bits = np.unpackbits(rows, axis=1, count=self.bits, bitorder="little").astype(np.int8)
        found, at = list[npt.NDArray[np.int8]](), 0
        for size in self.sizes:
            found.append(np.ones((len(rows), size), np.int8))
            found[-1][:, :-1] = 2 * bits[:, at : at + size - 1] - 1
            at += size - 1
        return found


def sizes_of(law: Law) -> tuple[int, ...]:
    """Return how many values each axis has, by one tier's texts.

    Raises:     InvalidParameterError: texts that name no grid.
    Example:
        >>> sizes_of({"family": "points", "sizes": "24,8"})
        (24, 8)
    """
    text = law.get("sizes", "")
    parts = text.split(",")
    plain = all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts)
    sizes = tuple(int(part) for part in parts) if plain and len(parts) <= AXES_LIMIT else ()
    if law.get("family") != Grid.family or not sizes or ",".join(map(str, sizes)) != text:
        raise InvalidParameterError("law", "one of a grid, with its sizes", "another")
    return sizes
