"""Sums over people of a product of weights, one weight an attribute: boxes, moments and everything between them.

With W_d = the weights of attribute d, a person counts Π_d W_d(x_d). A box has weights 0 and 1, a whole side only ones.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.metric.ranges import Grid, Table

__all__ = [
    "Weights",
    "box_weights",
    "cell_half_width",
    "cell_sum",
    "half_width",
    "product_sum",
    "product_variance",
    "product_variance_bound",
    "product_variance_estimate",
]

Weights = Sequence[Sequence[float] | npt.NDArray[np.float64]]
_Rows = list[npt.NDArray[np.float64]]


def box_weights(grid: Grid, wanted: Sequence[tuple[int, int]]) -> _Rows:
    """Return the weights of a box: 1 from l to r in each attribute, else 0.

    Raises:     InvalidParameterError: a box outside the grid.
    Example:
        >>> from tiers.local.flips import Flips
        >>> [side.tolist() for side in box_weights(Grid((3, 2), Flips(Fraction(1))), [(2, 3), (1, 1)])]
        [[0.0, 1.0, 1.0], [1.0, 0.0]]
    """
    if len(wanted) != grid.attributes or not all(
        1 <= low <= high <= size for (low, high), size in zip(wanted, grid.sizes, strict=True)
    ):
        raise InvalidParameterError("box", "a range within each attribute", wanted)
    found = [np.zeros(size) for size in grid.sizes]
    for side, (low, high) in zip(found, wanted, strict=True):
        side[low - 1 : high] = 1
    return found


def product_sum(grid: Grid, observed: Table, weights: Weights) -> float:
    """Return the unbiased Σ_i Π_d W_d(x_i[d]).

    Law:        Σ_k o[k]·Π_d g_d[k_d], with g[k] = (w_k − w_{k+1})/(2α) for k < m and g[m] = (w_1 + w_m)/2: bits are
                flipped on their own, so the product of unbiased factors is unbiased.
    Raises:     InvalidParameterError: weights that are not one finite number a value.
    Example:
        >>> from tiers.local.flips import Flips
        >>> from tiers.metric.ranges import encode
        >>> grid = Grid((3, 2), Flips(Fraction(30)))
        >>> observed = grid.observe(encode([[2, 2], [3, 1]], grid.sizes))
        >>> round(product_sum(grid, observed, [[1, 2, 3], [1, 2]]), 6)
        7.0
    """
    left = observed
    for factor in _factors(grid, _checked(grid, weights)):
        left = np.tensordot(factor, left, axes=(0, 0))
    return float(left)


def product_variance(grid: Grid, values: Sequence[Sequence[int]], weights: Weights) -> float:
    """Return the exact variance for these people. It depends on them: publish `product_variance_bound`.

    Law:        Σ_i [Π_d (W_d(x)² + v_d) − Π_d W_d(x)²], v_d = (1/α² − 1)/4·Σ_k (w_k − w_{k+1})²: a factor's variance is
                that of independent bits, the same for every value.
    Example:
        >>> from tiers.local.flips import Flips
        >>> grid = Grid((5,), Flips(Fraction(1)))
        >>> round(product_variance(grid, [[2], [5]], box_weights(grid, [(2, 4)])), 6)
        3.682694
    """
    places = np.asarray(values)
    rows = _checked(grid, weights)
    squares = [row[places[:, attribute] - 1] ** 2 for attribute, row in enumerate(rows)]
    return float(_beyond(squares, _spreads(grid, rows)).sum())


def product_variance_bound(grid: Grid, people: int, weights: Weights) -> float:
    """Return the largest variance that any n people give. It may be published.

    Law:        n[Π_d (max W_d² + v_d) − Π_d max W_d²]: the difference rises with each square.
    Guarantee:  at least the variance for every data set, attained where everybody has the largest squares; the variance
                itself for every data set where all attributes but one have equal weights throughout.
    Example:
        >>> from tiers.local.flips import Flips
        >>> grid = Grid((9, 9), Flips(Fraction(1)))
        >>> round(product_variance_bound(grid, 10, box_weights(grid, [(2, 4), (3, 5)])), 2)
        70.73
    """
    rows = _checked(grid, weights)
    most = [(row**2).max(keepdims=True) for row in rows]
    return _people(people) * float(_beyond(most, _spreads(grid, rows))[0])


def product_variance_estimate(grid: Grid, observed: Table, weights: Weights) -> float:
    """Return the unbiased estimate of `product_variance`, read off the same reports: it tells no more than they do.

    Law:        Σ over proper subsets A of the attributes of Π_{d∉A} v_d · (the unbiased Σ_i Π_{d∈A} W_d(x_i[d])²).
    Args:       observed: of the people whose variance it is; of few of them it may fall outside what any can give.
    Example:
        >>> from tiers.local.flips import Flips
        >>> from tiers.metric.ranges import encode
        >>> grid = Grid((4, 4), Flips(Fraction(1)))
        >>> observed = grid.observe(encode([[2, 2], [3, 1]], grid.sizes))
        >>> round(product_variance_estimate(grid, observed, box_weights(grid, [(2, 3), (1, 4)])), 6)
        3.682694
    """
    rows = _checked(grid, weights)
    spreads, total = _spreads(grid, rows), 0.0
    for size in range(grid.attributes):
        for kept in combinations(range(grid.attributes), size):
            scale = math.prod(spread for at, spread in enumerate(spreads) if at not in kept)
            if scale:
                squares = [row**2 if at in kept else np.ones(len(row)) for at, row in enumerate(rows)]
                total += scale * product_sum(grid, observed, squares)
    return total


def half_width(grid: Grid, people: int, weights: Weights, miss: Fraction) -> float:
    """Return t: the sum is within t of the truth with probability 1 − β at least, whoever the n people are.

    Law:        the least of Hoeffding's √(nL/2)·r, Bernstein's Lr/3 + √((Lr/3)² + 2nVL), and, where one factor alone
                varies, Kearns and Saul's √(2nL·c²·Σg²·2α/ε); L = ln(2/β), r how far one report can move the sum, V the
                bound of its variance, c the other factors.
    Guarantee:  data enter nowhere, so it may be published; each of the three holds for every n and every data set.
    Raises:     InvalidParameterError: no people, or a β outside (0, 1).
    Reference:  Hoeffding 1963, theorem 2; Bernstein's inequality as in Boucheron et al. 2013, section 2.8; Kearns and
                Saul 1998.
    Example:
        >>> from tiers.local.flips import Flips
        >>> grid = Grid((256, 256), Flips(Fraction(1)))
        >>> round(half_width(grid, 10_000, box_weights(grid, [(20, 90), (3, 200)]), Fraction(1, 20)))
        734
    """
    if not 0 < miss < 1:
        raise InvalidParameterError("miss", "a part between 0 and 1", miss)
    rows, count = _checked(grid, weights), _people(people)
    tail = math.log(2 / float(miss))
    low, high, others, varying = 1.0, 1.0, 1.0, list[float]()
    for factor in _factors(grid, rows):
        room, middle = float(np.abs(factor[:-1]).sum()), float(factor[-1])
        ends = [end * other for end in (low, high) for other in (middle - room, middle + room)]
        low, high = min(ends), max(ends)
        if room:
            varying.append(float(factor[:-1] @ factor[:-1]))
        else:
            others *= middle
    if not varying:
        return 0.0
    span, spread = high - low, product_variance_bound(grid, 1, rows)
    first = tail * span / 3
    found = [math.sqrt(count * tail / 2) * span, first + math.sqrt(first * first + 2 * count * spread * tail)]
    if len(varying) == 1:
        proxy = varying[0] * others * others * 2 * grid.signal / float(grid.flips.epsilon)
        found.append(math.sqrt(2 * count * tail * proxy))
    return min(found)


def cell_sum(grid: Grid, observed: Table, weights: npt.NDArray[np.float64]) -> float:
    """Return the unbiased Σ_i W(x_i), for any weight a cell.

    Law:        Σ_k o[k]·G[k], G being W with `product_sum`'s factor taken along each attribute in turn.
    Args:       weights: W, of the grid's shape.
    Raises:     InvalidParameterError: weights of another shape, or not finite.
    Example:
        >>> from tiers.local.flips import Flips
        >>> from tiers.metric.ranges import encode
        >>> grid = Grid((3, 2), Flips(Fraction(30)))
        >>> round(cell_sum(grid, grid.observe(encode([[2, 2], [3, 1]], (3, 2))), np.arange(6.0).reshape(3, 2)), 6)
        7.0
    """
    return float((_corner_weights(grid, weights) * observed).sum())


def cell_half_width(grid: Grid, people: int, weights: npt.NDArray[np.float64], miss: Fraction) -> float:
    """Return t: `cell_sum` is within t of the truth with probability 1 − β at least, whoever the people are.

    Law:        √(nL/2 · Σ over bits r²), L = ln(2/β), r how far one bit can move a report's part of the sum:
                2Σ|G| over the corners that have it; of one attribute `half_width`, which is less.
    Guarantee:  as `half_width`.
    Reference:  McDiarmid 1989: bounded differences of independent bits.
    Example:
        >>> from tiers.local.flips import Flips
        >>> cell_half_width(Grid((3, 2), Flips(Fraction(1))), 10, np.ones((3, 2)), Fraction(1, 20))
        0.0
    """
    if grid.attributes == 1:
        return half_width(grid, people, [weights], miss)
    if not 0 < miss < 1:
        raise InvalidParameterError("miss", "a part between 0 and 1", miss)
    corners, squares = np.abs(_corner_weights(grid, weights)), 0.0
    for attribute in range(grid.attributes):
        moved = 2 * corners.sum(axis=tuple(other for other in range(grid.attributes) if other != attribute))[:-1]
        squares += float(moved @ moved)
    whole = 2 * float(corners.sum() - corners.reshape(-1)[-1])
    return math.sqrt(_people(people) * math.log(2 / float(miss)) / 2 * min(squares, whole * whole))


def _corner_weights(grid: Grid, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found = np.asarray(weights, np.float64)
    if found.shape != grid.sizes or not np.isfinite(found).all():
        raise InvalidParameterError("weights", "a finite number for each cell", "others")
    for _ in grid.sizes:  # each turn takes the first axis, and leaves it the last
        turned = np.concatenate([(found[:-1] - found[1:]) / (2 * grid.signal), (found[:1] + found[-1:]) / 2])
        found = np.moveaxis(turned, 0, -1)
    return found


def _checked(grid: Grid, weights: Weights) -> _Rows:
    rows = [np.asarray(row, np.float64) for row in weights]
    if [row.shape for row in rows] != [(size,) for size in grid.sizes] or not all(
        np.isfinite(row).all() for row in rows
    ):
        raise InvalidParameterError("weights", "a finite number for each value of each attribute", "others")
    return rows


def _factors(grid: Grid, rows: _Rows) -> Iterator[npt.NDArray[np.float64]]:
    for row in rows:
        yield np.append((row[:-1] - row[1:]) / (2 * grid.signal), (row[0] + row[-1]) / 2)


def _spreads(grid: Grid, rows: _Rows) -> list[float]:
    return [grid.excess / 2 * float(np.diff(row) @ np.diff(row)) for row in rows]


def _beyond(squares: _Rows, spreads: Sequence[float]) -> npt.NDArray[np.float64]:
    """Π (square + spread) − Π square, as a sum of parts of one sign: weights far from 0 would lose the difference."""
    known, found = np.ones(len(squares[0])), np.zeros(len(squares[0]))
    for square, spread in zip(squares, spreads, strict=True):
        found, known = found * (square + spread) + known * spread, known * square
    return found


def _people(people: int) -> int:
    if isinstance(people, bool) or not isinstance(people, int) or people < 1:
        raise InvalidParameterError("people", "at least 1", people)
    return people
