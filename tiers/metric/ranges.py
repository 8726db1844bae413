"""Counts over ranges of D ordered attributes, from reports of flipped threshold bits: 2^D look-ups a range."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

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
    """Values 1 … m in each of D attributes, and the flip of each threshold bit.

    A person with value x holds bit k of attribute d as +1 if k ≥ x[d], else −1; bit m is always +1 and is not sent.

    Law:        moving x[d] by t changes t bits, so the reports of x and y differ by ε·‖x − y‖₁ at most, attained.
    Args:       values: m, at least 2. attributes: D, at least 1; m^D at most 2²⁶.
    Raises:     InvalidParameterError: sizes out of range.
    Reference:  Xiang et al. 2019 (arXiv 1909.11778), section 4; edge-aware estimates are ours.
    Example:
        >>> from fractions import Fraction
        >>> round(Grid(5, 1, Flips(Fraction(1))).signal, 6)
        0.462117
    """

    values: int
    attributes: int
    flips: Flips

    def __post_init__(self) -> None:
        for name, value, least in (("values", self.values, 2), ("attributes", self.attributes, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidParameterError(name, f"an integer of at least {least}", value)
        if self.attributes * math.log2(self.values) > math.log2(_TABLE_LIMIT) + 1e-9:
            raise InvalidParameterError("grid", f"at most {_TABLE_LIMIT} cells", f"{self.values}^{self.attributes}")

    @property
    def signal(self) -> float:
        """Return α = tanh(ε/2): how much of a bit survives its flip."""
        return self.flips.signal.value()

    @property
    def excess(self) -> float:
        """Return 1/(cosh ε − 1) = (1/α² − 1)/2: the variance of an interior range per person in one dimension."""
        half = math.sinh(float(self.flips.epsilon) / 2)
        return 1 / (2 * half * half)

    def observe(self, reports: Bits) -> Table:
        """Return o[k₁, …, k_D] = Σ_i Π_d R_i[d, k_d]: all that any range needs, exact integers as doubles.

        Args:       reports: ±1, shape (n, D, m), bit m included (as +1 or as it was reported).
        Raises:     InvalidParameterError: an empty panel, a wrong shape, or entries other than ±1.
        Example:
            >>> from fractions import Fraction
            >>> Grid(3, 1, Flips(Fraction(1))).observe(encode([[1], [3]], 3)).tolist()
            [0.0, 0.0, 2.0]
        """
        shape = (len(reports), self.attributes, self.values)
        if reports.ndim != 3 or reports.shape != shape or not len(reports):
            raise InvalidParameterError(
                "reports", f"at least one, of {self.attributes} × {self.values} bits", reports.shape
            )
        if not (np.abs(reports) == 1).all():
            raise InvalidParameterError("report", "bits of −1 and +1", "another number")
        total = np.zeros((self.values,) * self.attributes)
        rows = max(1, 2**22 // self.values ** (self.attributes - 1))
        for at in range(0, len(reports), rows):
            part = reports[at : at + rows].astype(np.float64)
            joined = part[:, 0]
            for attribute in range(1, self.attributes - 1):
                joined = (joined[:, :, None] * part[:, attribute, None, :]).reshape(len(part), -1)
            last = joined.sum(axis=0) if self.attributes == 1 else joined.T @ part[:, -1]
            total += last.reshape(total.shape)
        return total

    def corners(self, wanted: tuple[int, int]) -> dict[int, float]:
        """Return the look-ups of one attribute's range: coefficient by place k (from 1)."""
        left, right = wanted
        if not 1 <= left <= right <= self.values:
            raise InvalidParameterError("range", f"1 ≤ l ≤ r ≤ {self.values}", wanted)
        found = {right: 1.0}
        place = left - 1 if left >= 2 else self.values
        found[place] = found.get(place, 0.0) + (-1.0 if left >= 2 else 1.0)
        return found


def encode(values: Sequence[Sequence[int]], size: int) -> Bits:
    """Return everybody's true bits: shape (n, D, m), +1 where k ≥ x[d].

    Raises:     InvalidParameterError: a value outside 1 … m.
    Example:
        >>> encode([[3]], 5)[0, 0].tolist()
        [-1, -1, 1, 1, 1]
    """
    places = np.asarray(values)
    if places.ndim != 2 or not places.size or places.dtype.kind not in "iu" or places.min() < 1 or places.max() > size:
        raise InvalidParameterError("value", f"integers from 1 to {size} in every attribute", "another, or none")
    found: Bits = np.where(np.arange(1, size + 1) >= places[:, :, None], 1, -1).astype(np.int8)
    return found


def range_estimate(grid: Grid, observed: Table, wanted: Range, *, edges: bool = True) -> float:
    """Return the unbiased count of people within a range: 2^D look-ups.

    Law:        (1/2)^D Σ over corners of Π_d coef_d·o[corner], where a bit is divided by α unless it is bit m, which is
                exactly +1 (`edges`); without that, every bit is divided by α: the paper's B⁻¹, never better.
    Raises:     InvalidParameterError: a range outside the grid.
    Example:
        >>> from fractions import Fraction
        >>> grid = Grid(3, 1, Flips(Fraction(1)))
        >>> range_estimate(grid, grid.observe(encode([[1], [3]], 3)), [(1, 3)])
        2.0
    """
    sides = _sides(grid, wanted)
    scale = [{k: 1.0 if edges and k == grid.values else 1 / grid.signal for k in side} for side in sides]
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
        >>> round(variance(Grid(5, 1, Flips(Fraction(1))), [[2], [5]], [(2, 4)]), 6)
        3.682694
    """
    places = np.asarray(values)
    _sides(grid, wanted)
    weight, inside = np.ones(len(places)), np.ones(len(places), np.bool_)
    for attribute, side in enumerate(wanted):
        here = (places[:, attribute] >= side[0]) & (places[:, attribute] <= side[1])
        weight *= np.where(here, *_weights(grid, side, edges=edges))
        inside &= here
    return float((weight - inside).sum())


def variance_bound(grid: Grid, people: int, wanted: Range, *, edges: bool = True) -> float:
    """Return the largest variance that any n people give: everybody inside. It may be published.

    Law:        n(Π_d w_d(inside) − 1), since an outside weight is the inside one less 1, or there is no outside.
    Example:
        >>> from fractions import Fraction
        >>> round(variance_bound(Grid(9, 2, Flips(Fraction(1))), 10, [(2, 4), (3, 5)]), 2)
        70.73
    """
    if isinstance(people, bool) or not isinstance(people, int) or people < 1:
        raise InvalidParameterError("people", "at least 1", people)
    _sides(grid, wanted)
    return people * (math.prod(_weights(grid, side, edges=edges)[0] for side in wanted) - 1)


def covariance(grid: Grid, values: Sequence[Sequence[int]], one: Range, other: Range) -> float:
    """Return the exact covariance of two ranges' edge-aware estimates for these people.

    Law:        Σ_i [Π_d ¼ Σ_{u, v} coef_u·coef′_v·m_uv − 1{x_i in both}]; m_uv = 1/α² where u = v < m, 1 where
                u = v = m, else the product of the person's true bits.
    Example:
        >>> from fractions import Fraction
        >>> grid, people = Grid(5, 1, Flips(Fraction(1))), [[2], [5]]
        >>> abs(covariance(grid, people, [(2, 4)], [(2, 4)]) - variance(grid, people, [(2, 4)])) < 1e-12
        True
    """
    bits, places = encode(values, grid.values), np.asarray(values)
    weight, inside = np.ones(len(places)), np.ones(len(places), np.bool_)
    for attribute, (first, second) in enumerate(zip(_sides(grid, one), _sides(grid, other), strict=True)):
        part = np.zeros(len(places))
        for u, v in product(first, second):
            same = 1.0 if u == grid.values else 1 / grid.signal**2
            seen = bits[:, attribute, u - 1].astype(np.float64) * bits[:, attribute, v - 1]
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
        >>> grid = Grid(3, 1, Flips(Fraction(20)))
        >>> round(weighted_sum(grid, grid.observe(encode([[1], [3]], 3)), [1.0, 2.0, 3.0])[0], 6)
        4.0
    """
    if grid.attributes != 1 or len(weights) != grid.values:
        raise InvalidParameterError("weights", f"{grid.values} of them for one attribute", len(weights))
    steps = np.diff(np.asarray(weights, np.float64))
    people = float(observed[-1])
    total = people * (weights[-1] + weights[0]) / 2 - float(steps @ observed[:-1]) / (2 * grid.signal)
    return total, grid.excess / 2 * float(steps @ steps)


def _sides(grid: Grid, wanted: Range) -> list[dict[int, float]]:
    if len(wanted) != grid.attributes:
        raise InvalidParameterError("range", f"{grid.attributes} sides", len(wanted))
    return [grid.corners(side) for side in wanted]


def _weights(grid: Grid, side: tuple[int, int], *, edges: bool) -> tuple[float, float]:
    whole, edge = side == (1, grid.values), side[0] == 1 or side[1] == grid.values
    if whole:
        return (1.0, 0.0) if edges else (1 + 2 * grid.excess, 2 * grid.excess)
    outside = grid.excess / 2 if edges and edge else grid.excess
    return outside + 1, outside
