"""Who are the k nearest to a public point."""

import math
from dataclasses import dataclass

import numpy as np

from tiers.accounting.people import People
from tiers.adaptive.elimination import Elimination, Fate
from tiers.adaptive.widths import chi_width, chi_width_bound
from tiers.errors import InvalidParameterError

__all__ = ["NearestReading", "nearest_bound", "read_nearest"]


@dataclass(frozen=True, slots=True, eq=False)
class NearestReading:
    """The people chosen, nearest first by their last estimates; `exact` where with 1 − β they are the k nearest."""

    chosen: People
    exact: bool
    candidates: int
    dropped: int


def read_nearest(ended: Elimination, nearest: int) -> NearestReading:
    """Return the k of those left with the least noisy distances, ties by place in the list.

    Guarantee:  with 1 − β0 − β1 the s-th chosen is at most 2·width farther than the s-th nearest, width being the
                largest of the n that hold with 1 − β1; with 1 − β0 alone it is the k nearest, where only k are left.
    Raises:     InvalidParameterError: fewer than k are left (others dropped out).
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, algorithm 8.
    Example:
        >>> fate, answered = np.array([0, 0, 2], np.int8), np.ones(3, np.int16)
        >>> found = np.array([3.0, 1.0, 9.0])
        >>> read_nearest(Elimination(1, fate, answered, found, found), 1).chosen.tolist()
        [1]
    """
    left = ended.of(Fate.UNDECIDED)
    dropped = len(ended.of(Fate.DROPPED))
    if len(left) < nearest:
        raise InvalidParameterError("k", f"at most the {len(left)} who did not drop out", nearest)
    order = np.argsort(ended.estimate[left], kind="stable")[:nearest]
    return NearestReading(left[order], len(left) == nearest and not dropped, len(left), dropped)


def nearest_bound(rho: float, dimensions: int, beta: float, people: int, *, bound: bool = False) -> float:
    """Return how much farther, at most, the s-th chosen is than the s-th nearest, all s at once, with 1 − β.

    Law:        √(2/ρ)·λ(d, β/n), ρ the least that anybody spent; d = 1 for distances.
    Args:       bound: take the classical bound for λ.
    Raises:     InvalidParameterError: ρ that is not positive, nobody, or β outside (0, 1).
    Example:
        >>> round(nearest_bound(0.5, 2, 0.1, 1000, bound=True), 6)
        10.771174
    """
    if not (isinstance(rho, float) and 0 < rho < math.inf) or type(people) is not int or people < 1:
        raise InvalidParameterError("rho", "a finite float > 0, and at least one person", (rho, people))
    width = chi_width_bound if bound else chi_width
    return math.sqrt(2 / rho) * width(dimensions, beta / people)
