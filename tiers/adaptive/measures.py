"""How experiments are judged: what was saved, and how far off an answer is."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError

__all__ = ["absolute_error", "count_error", "distance_error", "saved_share"]


def saved_share(spent: npt.ArrayLike, allowed: npt.ArrayLike) -> float:
    """Return PrivSav: the mean over people of the share of their allowance that was not spent.

    Law:        (1/n)·Σ (allowed_i − spent_i)/allowed_i.
    Raises:     InvalidParameterError: nobody, an allowance that is not positive, or more spent than allowed.
    Example:
        >>> saved_share([1, 4], [4, 4])
        0.375
    """
    used, whole = np.asarray(spent, np.float64), np.asarray(allowed, np.float64)
    if used.shape != whole.shape or not used.size or not ((whole > 0) & (used >= 0) & (used <= whole)).all():
        raise InvalidParameterError("spent", "0 to the allowance of each, of at least one", "others")
    return float(np.mean((whole - used) / whole))


def count_error(estimate: float, true: int) -> float:
    """Return CountErr = |estimate − true|/true.

    Raises:     InvalidParameterError: a true count of 0: there is no relative error.
    Example:
        >>> count_error(90, 100)
        0.1
    """
    if true <= 0:
        raise InvalidParameterError("true count", "above 0", true)
    return abs(estimate - true) / true


def absolute_error(estimate: float, true: float) -> float:
    """Return ℓ1-Err = |estimate − true|.

    Example:
        >>> absolute_error(0.25, 0.5)
        0.25
    """
    return abs(estimate - true)


def distance_error(chosen: Sequence[float], nearest: Sequence[float]) -> float:
    """Return DistErr: how much farther the chosen are in all than the k nearest, relative to these.

    Law:        (Σ chosen − Σ nearest)/Σ nearest, of true distances.
    Raises:     InvalidParameterError: other numbers of them, or the nearest all at the point itself.
    Example:
        >>> distance_error([1.0, 4.0], [1.0, 3.0])
        0.25
    """
    total = sum(nearest)
    if len(chosen) != len(nearest) or not total > 0:
        raise InvalidParameterError("nearest", "as many as chosen, with a positive sum", (len(chosen), total))
    return (sum(chosen) - total) / total
