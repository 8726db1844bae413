"""Is a count below a threshold? Cheap tiers first, and no further than the answer needs."""

from dataclasses import dataclass

import numpy as np

from tiers.adaptive.elimination import Elimination, Fate
from tiers.errors import InvalidParameterError

__all__ = ["ThresholdAnswer", "halfway", "read_threshold"]


@dataclass(frozen=True, slots=True)
class ThresholdAnswer:
    """Whether the count is below the threshold, whether that is certain with 1 − β, and after how many rounds."""

    below: bool
    decided: bool
    rounds: int


def halfway(at: int) -> float:
    """Return the bound about which to eliminate: a whole number is below `at` exactly where it is below at − ½.

    Raises:     InvalidParameterError: not an integer within ±2⁵⁰.
    Example:
        >>> halfway(100)
        99.5
    """
    if type(at) is not int or abs(at) > 2**50:
        raise InvalidParameterError("threshold", "an integer within ±2⁵⁰", at)
    return at - 0.5


def read_threshold(ended: Elimination, at: int, place: int = 0) -> ThresholdAnswer:
    """Return the answer for one count of an elimination about `halfway(at)`.

    Law:        S₁ means below, S₀ not below; undecided, the last value against the threshold.
    Guarantee:  with 1 − β a decided answer is right.
    Args:       place: of the count among those that were eliminated together.
    Raises:     InvalidParameterError: nothing was revealed of it.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, algorithm 9, read by lemma 5.2 (S₀ is above).
    Example:
        >>> ended = Elimination(2, np.array([1], np.int8), np.array([2], np.int16), np.array([7.0]), np.array([7.0]))
        >>> read_threshold(ended, 20)
        ThresholdAnswer(below=True, decided=True, rounds=2)
    """
    bound = halfway(at)
    fate, rounds = Fate(int(ended.fate[place])), int(ended.answered[place])
    if not rounds or not np.isfinite(ended.estimate[place]):
        raise InvalidParameterError("threshold", "a count of which something was revealed", "nothing")
    match fate:
        case Fate.BELOW | Fate.ABOVE:
            return ThresholdAnswer(fate is Fate.BELOW, True, rounds)
        case Fate.UNDECIDED | Fate.DROPPED:
            return ThresholdAnswer(bool(ended.estimate[place] < bound), False, rounds)
