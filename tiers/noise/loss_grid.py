"""Laws of losses on a grid, which add by convolution: doubles, always rounded to the safe side (see `losses`)."""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tiers.noise.losses import Losses, paid

__all__ = ["Grid", "gridded", "plus", "power"]

Grid: TypeAlias = tuple[NDArray[np.float64], float]


def gridded(law: Losses, width: float, points: int) -> Grid:
    """Return the law whose δ curve joins the exact one at multiples of `width` by straight lines in e^ε: it is above.

    A loss ℓ is split between g and g + width in the shares 1 − s and s. By Jensen that dominates whenever
    (1 − s)e^(−g) + s·e^(−g−width) ≤ e^(−ℓ), that is s ≥ (1 − e^(g−ℓ))/(1 − e^(−width)), wherever g lies. The losses are
    raised by 16 roundings of the largest, which the five of ℓ, of g, of their difference and of the last grid cannot
    undo, and s by 2^−44, which the 20 roundings of the quotient of two expm1 cannot.

    Args:       law: the losses. width: of the grid, > 0. points: on each side of 0; what lies above them is infinite.
    Example:
        >>> masses, infinite = gridded(Losses(np.array([0.5]), np.ones(1), 0.0), 1.0, 1)
        >>> [round(float(mass), 6) for mass in masses], infinite
        ([0.0, 0.377541, 0.622459], 0.0)
    """
    masses = np.zeros(2 * points + 1)
    values = law.values + 2.0**-48 * max(float(np.abs(law.values).max(initial=0.0)), width * points)
    place = np.floor(values / width).astype(np.int64)
    upper = np.clip(np.expm1(place * width - values) / math.expm1(-width), 0.0, 1.0)
    upper = np.minimum(1.0, upper + 2.0**-44)
    infinite, factor = law.infinite, paid(len(values))
    for share, at in ((1 - upper, place), (upper, place + 1)):
        weight = law.masses * share * factor
        infinite += float(weight[at > points].sum())
        within = at <= points
        np.add.at(masses, np.maximum(at[within], -points) + points, weight[within])
    return masses, infinite * factor


def plus(one: Grid, other: Grid, points: int) -> Grid:
    """Return the law of the sum of two independent losses; below the grid counts as its end, above as infinite.

    Each entry is a sum of at most 2·points + 1 products, and the ends are sums of these.

    Example:
        >>> fair = (np.array([0.5, 0.0, 0.5]), 0.0)
        >>> [round(float(mass), 6) for mass in plus(fair, fair, 1)[0]], round(plus(fair, fair, 1)[1], 6)
        ([0.25, 0.5, 0.0], 0.25)
    """
    factor = paid(4 * points)
    (first, left), (second, right) = _trimmed(one[0]), _trimmed(other[0])
    sums = np.zeros(4 * points + 1)
    sums[first + second : first + second + len(left) + len(right) - 1] = np.convolve(left, right)
    masses = sums[points : 3 * points + 1].copy()
    masses[0] += sums[:points].sum()
    total = float(one[0].sum()) * other[1] + one[1] * (float(other[0].sum()) + other[1])
    return masses * factor, (float(sums[3 * points + 1 :].sum()) + total) * factor


def _trimmed(masses: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
    """Return the first place with mass, and the masses from there to the last."""
    places = np.flatnonzero(masses)
    return (int(places[0]), masses[places[0] : places[-1] + 1]) if len(places) else (0, masses[:1])


def power(law: Grid, count: int, points: int) -> Grid:
    """Return the law of the sum of `count` ≥ 1 independent losses of one law, by squaring.

    Example:
        >>> masses, _ = power((np.array([0.0, 0.0, 0.5, 0.5, 0.0]), 0.0), 2, 2)
        >>> [round(float(mass), 6) for mass in masses]
        [0.0, 0.0, 0.25, 0.5, 0.25]
    """
    result, square = None, law
    while count:
        if count & 1:
            result = square if result is None else plus(result, square, points)
        count >>= 1
        square = plus(square, square, points) if count else square
    assert result is not None
    return result
