"""Quantiles of one ordered attribute: a search over prefix estimates, and how far off in rank it can be."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.metric.ranges import Grid

__all__ = ["prefixes", "quantile", "rank_radius", "search", "visited"]


def prefixes(grid: Grid, observed: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the estimates of how many people are at or below each value; the last is n, exactly.

    Law:        (o[k]/α + n)/2 for k < m; variance n/(2(cosh ε − 1)).
    Raises:     InvalidParameterError: more than one attribute.
    Example:
        >>> from tiers.local.flips import Flips
        >>> from tiers.metric.ranges import encode
        >>> grid = Grid((3,), Flips(Fraction(30)))
        >>> [round(float(count), 6) for count in prefixes(grid, grid.observe(encode([[1], [3]], (3,))))]
        [1.0, 1.0, 2.0]
    """
    if grid.attributes != 1:
        raise InvalidParameterError("grid", "one attribute", grid.attributes)
    found: npt.NDArray[np.float64] = (observed / grid.signal + observed[-1]) / 2
    found[-1] = observed[-1]
    return found


def quantile(prefix: Sequence[float] | npt.NDArray[np.float64], share: Fraction) -> int:
    """Return the φ-quantile by binary search: the least value, on the path of the search, whose prefix reaches φn.

    Args:       prefix: estimates at 1 … m, the last one n. share: φ, above 0 and at most 1.
    Raises:     InvalidParameterError: a share out of range, or no prefix.
    Example:
        >>> quantile([3.2, 9.8, 15.1, 14.7, 22.0, 30.9, 36.2, 40], Fraction(1, 2))
        5
    """
    return visited(prefix, share)[-1]


def visited(prefix: Sequence[float] | npt.NDArray[np.float64], share: Fraction) -> list[int]:
    """Return the values that the search tests, then the answer.

    Example:
        >>> visited([3.2, 9.8, 15.1, 14.7, 22.0, 30.9, 36.2, 40], Fraction(1, 2))
        [4, 6, 5, 5]
    """
    if not isinstance(share, Fraction) or not 0 < share <= 1:
        raise InvalidParameterError("share", "a Fraction with 0 < φ ≤ 1", share)
    if not len(prefix) or not np.isfinite(np.asarray(prefix, np.float64)).all():
        raise InvalidParameterError("prefix", "finite estimates, at least one", "none, or another")
    return search(lambda place: float(prefix[place - 1]), len(prefix), share)


def search(prefix: Callable[[int], float], values: int, share: Fraction) -> list[int]:
    """Return the values that the search tests, then the answer, asking for ⌈log₂ m⌉ + 1 prefixes and no others.

    Args:       prefix: the estimate at a value of 1 … m; the last is n. values: m. share: φ, above 0 and at most 1.
    Example:
        >>> search(lambda place: 10.0 * place, 8, Fraction(1, 2))
        [4, 2, 3, 4]
    """
    low, high, path = 1, values, []
    wanted = share * Fraction(prefix(values))
    while low < high:
        middle = (low + high) // 2
        path.append(middle)
        if Fraction(prefix(middle)) >= wanted:
            high = middle
        else:
            low = middle + 1
    return [*path, low]


def rank_radius(grid: Grid, people: int, miss: Fraction, *, everywhere: bool = False) -> float:
    """Return D: with probability 1 − β the answer j has P(j) ≥ φn − D and P(j−1) < φn + D.

    The bits at different places are independent, so each prefix on the path is a fresh sum of n independent bits, whose
    centred bit is sub-Gaussian with proxy 2α/ε (Kearns and Saul).

    Law:        D = √(n·ln(2L/β)/(ε·tanh(ε/2))), L = ⌈log₂ m⌉ places on the path, or m − 1 for all at once.
    Raises:     InvalidParameterError: no people, or a β outside (0, 1).
    Reference:  Kearns and Saul 1998; the paper's section 4.4 has a log² m more.
    Example:
        >>> from tiers.local.flips import Flips
        >>> round(rank_radius(Grid((64,), Flips(Fraction(1))), 5000, Fraction(1, 10)), 3)
        227.595
    """
    if isinstance(people, bool) or not isinstance(people, int) or people < 1:
        raise InvalidParameterError("people", "at least 1", people)
    if not 0 < miss < 1:
        raise InvalidParameterError("miss", "a part between 0 and 1", miss)
    if grid.attributes != 1:
        raise InvalidParameterError("grid", "one attribute", grid.attributes)
    places = grid.diameter if everywhere else grid.diameter.bit_length()
    spread = people * math.log(2 * places / float(miss))
    return math.sqrt(spread / (float(grid.flips.epsilon) * grid.signal))
