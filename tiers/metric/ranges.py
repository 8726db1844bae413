"""Counts over ranges of D ordered attributes, from reports of flipped threshold bits: 2^D look-ups a range."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.local.flips import Flips

__all__ = ["Grid", "Range", "covariance", "encode", "range_estimate", "variance", "variance_bound", "weighted_sum"]

Bits = npt.NDArray[np.int8]
Table = npt.NDArray[np.float64]
Range = Sequence[tuple[int, int]]
_TABLE_LIMIT = 2**26


@dataclass(frozen=True, slots=True)
class Grid:
    """Values 1 … m_d in each attribute d, and the flip of each threshold bit.

    A person with value x holds bit k of attribute d as +1 if k ≥ x[d], else −1; bit m_d is always +1 and is not sent.

    Law:        moving x[d] by t changes t bits, so the reports of x and y differ by ε·‖x − y‖₁ at most, attained.
    Args:       sizes: m_1 … m_D, each at least 2, at least one; their product at most 2²⁶.
    Raises:     InvalidParameterError: sizes out of range.
    Reference:  Xiang et al. 2019 (arXiv 1909.11778), section 4; edge-aware estimates are ours.
    Example:
        >>> from fractions import Fraction
        >>> round(Grid((5,), Flips(Fraction(1))).signal, 6)
        0.462117
    """

    sizes: tuple[int, ...]
    flips: Flips
    family: ClassVar[str] = "points"

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise InvalidParameterError("sizes", "at least one attribute's", self.sizes)
        for size in self.sizes:
            if isinstance(size, bool) or not isinstance(size, int) or size < 2:
                raise InvalidParameterError("values", "an integer of at least 2", size)
        if self.cells > _TABLE_LIMIT:
            raise InvalidParameterError("grid", f"at most {_TABLE_LIMIT} cells", self.cells)

    @property
    def attributes(self) -> int:
        """Return D."""
        return len(self.sizes)

    @property
    def cells(self) -> int:
        """Return how many points the grid has."""
        return math.prod(self.sizes)

    @property
    def diameter(self) -> int:
        """Return the steps between the two points farthest apart, which are the bits of a report: Σ (m_d − 1)."""
        return sum(self.sizes) - len(self.sizes)

    def parameters(self) -> dict[str, str]:
        """Return the canonical texts that identify the mechanism."""
        return {"sizes": ",".join(str(size) for size in self.sizes)} | self.flips.parameters()

    @property
    def signal(self) -> float:
        """Return α = tanh(ε/2): how much of a bit survives its flip."""
        return self.flips.signal.value()

    @property
    def excess(self) -> float:
        """Return 1/(cosh ε − 1) = (1/α² − 1)/2: the variance of an interior range per person in one dimension."""
        half = math.sinh(float(self.flips.epsilon) / 2)
        return 1 / (2 * half * half)

    def observe(self, reports: Sequence[Bits]) -> Table:
        """Return o[k₁, …, k_D] = Σ_i Π_d R_i[d, k_d]: all that any range needs, exact integers as doubles.

        Args:       reports: ±1, of shape (n, m_d) for each attribute, the last bit included (as +1 or as reported).
        Raises:     InvalidParameterError: an empty panel, a wrong shape, or entries other than ±1.
        Example:
            >>> from fractions import Fraction
            >>> Grid((3,), Flips(Fraction(1))).observe(encode([[1], [3]], (3,))).tolist()
            [0.0, 0.0, 2.0]
        """
        shapes = [part.shape for part in reports]
        people = shapes[0][0] if shapes and shapes[0] else 0
        if not people or shapes != [(people, size) for size in self.sizes]:
            raise InvalidParameterError("reports", f"at least one, of {' + '.join(map(str, self.sizes))} bits", shapes)
        if not all((np.abs(part) == 1).all() for part in reports):
            raise InvalidParameterError("report", "bits of −1 and +1", "another number")
        total = np.zeros(self.sizes)
        rows = max(1, 2**22 // max(sum(self.sizes), math.prod(self.sizes[:-1])))
        for at in range(0, people, rows):  # sums of fewer than 2²⁴ ones are exact in single precision
            *joining, last = [part[at : at + rows].astype(np.float32) for part in reports]
            joined = np.ones((len(last), 1), np.float32)
            for part in joining:
                joined = (joined[:, :, None] * part[:, None, :]).reshape(len(part), -1)
            total += (joined.T @ last).reshape(self.sizes)
        return total

    def corners(self, attribute: int, wanted: tuple[int, int]) -> dict[int, float]:
        """Return the look-ups of one attribute's range: coefficient by place k (from 1)."""
        left, right, values = *wanted, self.sizes[attribute]
        if not 1 <= left <= right <= values:
            raise InvalidParameterError("range", f"1 ≤ l ≤ r ≤ {values}", wanted)
        found = {right: 1.0}
        place = left - 1 if left >= 2 else values
        found[place] = found.get(place, 0.0) + (-1.0 if left >= 2 else 1.0)
        return found

    def marginal(self, observed: Table, attribute: int) -> "tuple[Grid, Table]":
        """Return one attribute's own grid, and its part of the table: where every other bit is the certain one.

        Example:
            >>> from fractions import Fraction
            >>> grid = Grid((2, 3), Flips(Fraction(1)))
            >>> grid.marginal(grid.observe(encode([[1, 2]], (2, 3))), 1)[1].tolist()
            [-1.0, 1.0, 1.0]
        """
        place = tuple(slice(None) if other == attribute else -1 for other in range(self.attributes))
        return Grid((self.sizes[attribute],), self.flips), observed[place]


def encode(values: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[Bits]:
    """Return everybody's true bits: of shape (n, m_d) for each attribute, +1 where k ≥ x[d].

    Raises:     InvalidParameterError: a value outside 1 … m_d.
    Example:
        >>> encode([[3]], (5,))[0].tolist()
        [[-1, -1, 1, 1, 1]]
    """
    places = np.asarray(values)
    shaped = places.ndim == 2 and places.size and places.dtype.kind in "iu" and places.shape[1] == len(sizes)
    if not shaped or (places < 1).any() or (places > np.asarray(sizes)).any():
        raise InvalidParameterError("value", "integers from 1 to the size of each attribute", "another, or none")
    return [
        np.where(np.arange(1, size + 1) >= places[:, attribute, None], 1, -1).astype(np.int8)
        for attribute, size in enumerate(sizes)
    ]


def range_estimate(grid: Grid, observed: Table, wanted: Range, *, edges: bool = True) -> float:
    """Return the unbiased count of people within a range: 2^D look-ups.

    Law:        (1/2)^D Σ over corners of Π_d coef_d·o[corner], where a bit is divided by α unless it is bit m, which is
                exactly +1 (`edges`); without that, every bit is divided by α: the paper's B⁻¹, never better.
    Raises:     InvalidParameterError: a range outside the grid.
    Example:
        >>> from fractions import Fraction
        >>> grid = Grid((3,), Flips(Fraction(1)))
        >>> range_estimate(grid, grid.observe(encode([[1], [3]], (3,))), [(1, 3)])
        2.0
    """
    sides = _sides(grid, wanted)
    scale = [
        {k: 1.0 if edges and k == size else 1 / grid.signal for k in side}
        for side, size in zip(sides, grid.sizes, strict=True)
    ]
    total = 0.0
    for corner in product(*sides):
        weight = math.prod(side[k] * part[k] for side, part, k in zip(sides, scale, corner, strict=True))
        total += weight * float(observed[tuple(k - 1 for k in corner)])
    return float(total / 2**grid.attributes)


def variance(grid: Grid, values: Sequence[Sequence[int]], wanted: Range, *, edges: bool = True) -> float:
    """Return the exact variance of a range's estimate for these people. It depends on them: publish `variance_bound`.

    Law:        Σ_i [Π_d w_d(x_i) − 1{x_i in R}], C = cosh ε; w_d inside / outside: interior C/(C−1), 1/(C−1); at one
                edge 1/(2(C−1)) + 1, 1/(2(C−1)); the whole side 1; without `edges` the whole side (C+1)/(C−1), any other
                one as interior.
    Example:
        >>> from fractions import Fraction
        >>> round(variance(Grid((5,), Flips(Fraction(1))), [[2], [5]], [(2, 4)]), 6)
        3.682694
    """
    places = np.asarray(values)
    _sides(grid, wanted)
    weight, inside = np.ones(len(places)), np.ones(len(places), np.bool_)
    for attribute, side in enumerate(wanted):
        here = (places[:, attribute] >= side[0]) & (places[:, attribute] <= side[1])
        weight *= np.where(here, *_weights(grid, attribute, side, edges=edges))
        inside &= here
    return float(np.where(inside, _inside(grid, wanted, edges=edges), weight).sum())


def variance_bound(grid: Grid, people: int, wanted: Range, *, edges: bool = True) -> float:
    """Return the largest variance that any n people give: everybody inside. It may be published.

    Law:        n(Π_d w_d(inside) − 1), since an outside weight is the inside one less 1, or there is no outside.
    Example:
        >>> from fractions import Fraction
        >>> round(variance_bound(Grid((9, 9), Flips(Fraction(1))), 10, [(2, 4), (3, 5)]), 2)
        70.73
    """
    if isinstance(people, bool) or not isinstance(people, int) or people < 1:
        raise InvalidParameterError("people", "at least 1", people)
    _sides(grid, wanted)
    return people * _inside(grid, wanted, edges=edges)


def covariance(grid: Grid, values: Sequence[Sequence[int]], one: Range, other: Range) -> float:
    """Return the exact covariance of two ranges' edge-aware estimates for these people.

    Law:        Σ_i [Π_d ¼ Σ_{u, v} coef_u·coef′_v·m_uv − 1{x_i in both}]; m_uv = 1/α² where u = v < m, 1 where
                u = v = m, else the product of the person's true bits.
    Example:
        >>> from fractions import Fraction
        >>> grid, people = Grid((5,), Flips(Fraction(1))), [[2], [5]]
        >>> abs(covariance(grid, people, [(2, 4)], [(2, 4)]) - variance(grid, people, [(2, 4)])) < 1e-12
        True
    """
    bits, places = encode(values, grid.sizes), np.asarray(values)
    weight, inside = np.ones(len(places)), np.ones(len(places), np.bool_)
    for attribute, (first, second) in enumerate(zip(_sides(grid, one), _sides(grid, other), strict=True)):
        part = np.zeros(len(places))
        for u, v in product(first, second):
            same = 1.0 if u == grid.sizes[attribute] else 1 / grid.signal**2
            seen = bits[attribute][:, u - 1].astype(np.float64) * bits[attribute][:, v - 1]
            part += first[u] * second[v] * (same if u == v else seen)
        weight *= part / 4
        for side in (one[attribute], other[attribute]):
            inside &= (places[:, attribute] >= side[0]) & (places[:, attribute] <= side[1])
    return float((weight - inside).sum())


def weighted_sum(grid: Grid, observed: Table, weights: Sequence[float]) -> tuple[float, float]:
    """Return the unbiased Σ_i w(x_i) of one attribute, and its variance per person, which no data change.

    Law:        n(w_m + w_1)/2 + Σ_{k<m} (w_k − w_{k+1})·o[k]/(2α); variance n(1/α² − 1)/4·Σ (w_k − w_{k+1})².
    Raises:     InvalidParameterError: more than one attribute, or not m weights.
    Example:
        >>> from fractions import Fraction
        >>> grid = Grid((3,), Flips(Fraction(20)))
        >>> round(weighted_sum(grid, grid.observe(encode([[1], [3]], (3,))), [1.0, 2.0, 3.0])[0], 6)
        4.0
    """
    if grid.attributes != 1 or len(weights) != grid.sizes[0]:
        raise InvalidParameterError("weights", f"{grid.sizes[0]} of them for one attribute", len(weights))
    steps = np.diff(np.asarray(weights, np.float64))
    people = float(observed[-1])
    total = people * (weights[-1] + weights[0]) / 2 - float(steps @ observed[:-1]) / (2 * grid.signal)
    return total, grid.excess / 2 * float(steps @ steps)


def _sides(grid: Grid, wanted: Range) -> list[dict[int, float]]:
    if len(wanted) != grid.attributes:
        raise InvalidParameterError("range", f"{grid.attributes} sides", len(wanted))
    return [grid.corners(attribute, side) for attribute, side in enumerate(wanted)]


def _inside(grid: Grid, wanted: Range, *, edges: bool) -> float:
    """Return Π_d w_d − 1 of somebody inside, w_d = 1 + the weight outside: a sum of parts, for w_d may be next to 1."""
    found = 0.0
    for attribute, side in enumerate(wanted):
        beyond = _weights(grid, attribute, side, edges=edges)[1]
        found += beyond + found * beyond
    return found


def _weights(grid: Grid, attribute: int, side: tuple[int, int], *, edges: bool) -> tuple[float, float]:
    values = grid.sizes[attribute]
    whole, edge = side == (1, values), side[0] == 1 or side[1] == values
    if whole:
        return (1.0, 0.0) if edges else (1 + 2 * grid.excess, 2 * grid.excess)
    outside = grid.excess / 2 if edges and edge else grid.excess
    return outside + 1, outside
