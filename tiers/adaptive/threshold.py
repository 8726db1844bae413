"""Is a count below a threshold? Cheap tiers first, and no further than the answer needs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tiers.adaptive.elimination import Elimination, Fate
from tiers.errors import InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric

__all__ = [
    "HalfWidthLaw",
    "ThresholdAnswer",
    "ending_chances",
    "halfway",
    "read_looks",
    "read_threshold",
    "tier_widths",
]


class HalfWidthLaw(Protocol):
    """What a tier's law is asked here."""

    def half_width(self, confidence: Fraction) -> int:
        """Return an h with P(|noise| ≤ h) ≥ confidence."""


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


def tier_widths(laws: Sequence[HalfWidthLaw], beta: Fraction) -> tuple[int, ...]:
    """Return the half-widths within which the noise of all n tiers that may be looked at lies, with 1 − β at once.

    Each tier's may fail with β/n, whether it will be looked at or not: which tiers are, the same noise decides.

    Law:        h_i is the least integer with P(|noise_i| > h_i) ≤ β/n, by the tier's own exact law.
    Guarantee:  P(|noise_i| ≤ h_i for all i) ≥ 1 − β, however the tiers depend on one another.
    Args:       laws: of a chain's tiers, in any order.
    Raises:     InvalidParameterError: no tier, or β not a Fraction in (0, 1).
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> tier_widths([TwoSidedGeometric(Fraction(1, 4)), TwoSidedGeometric(Fraction(1))], Fraction(1, 20))
        (15, 4)
    """
    if not laws:
        raise InvalidParameterError("laws", "at least one tier", "none")
    if not isinstance(beta, Fraction) or not 0 < beta < 1:
        raise InvalidParameterError("beta", "a Fraction with 0 < β < 1", beta)
    return tuple(law.half_width(1 - beta / len(laws)) for law in laws)


def read_looks(values: Sequence[int], widths: Sequence[int], at: int) -> ThresholdAnswer:
    """Return what a chain's tiers, revealed from the lowest up, say of one count, and after which of them.

    The first tier whose interval value ± h lies on one side of `halfway(at)` decides; undecided, the last value against
    it. Values beyond the one that decides are not read.

    Guarantee:  with widths from `tier_widths`, P(some decided answer is wrong) ≤ β: for all truths, and for all `at`
                together, also such as were chosen by what the tiers had shown.
    Args:       values: revealed so far, lowest tier first. widths: of all tiers that may be, in that order.
    Raises:     InvalidParameterError: nothing revealed, more values than widths, or `at` as `halfway` says.
    Example:
        >>> read_looks([131], [15, 4], 120)
        ThresholdAnswer(below=False, decided=False, rounds=1)
        >>> read_looks([131, 124], [15, 4], 120)
        ThresholdAnswer(below=False, decided=True, rounds=2)
    """
    halfway(at)
    if not 0 < len(values) <= len(widths):
        raise InvalidParameterError("values", f"1 to {len(widths)}, one a tier", len(values))
    for place, (value, width) in enumerate(zip(values, widths, strict=False), start=1):
        if value + width < at or value - width >= at:
            return ThresholdAnswer(value < at, True, place)
    return ThresholdAnswer(values[-1] < at, False, len(values))


def ending_chances(
    laws: Sequence[TwoSidedGeometric], widths: Sequence[int], distance: int
) -> tuple[tuple[float, float], ...]:
    """Return with what chance each tier is the last one looked at: having decided rightly, and having decided wrongly.

    What is missing to 1 is undecided after the last tier. The tiers are a Markov chain in either direction, so the
    chance that a value is not yet decided, given the value, is carried upwards, from the lowest tier on.

    Law:        P(upper = u | lower = l) = P_upper(u)·s(l − u)/P_lower(l), s the residual between the two.
    Args:       laws, widths: lowest tier first. distance: the count less `at`; 0 is the least that is not below.
    Returns:    doubles, a pair a tier; values beyond 40 standard deviations are left out (below 10⁻²⁰ in all).
    Example:
        >>> chain = [TwoSidedGeometric(Fraction(1, 2)), TwoSidedGeometric(Fraction(2))]
        >>> [[round(chance, 4) for chance in tier] for tier in ending_chances(chain, (8, 2), 9)]
        [[0.771, 0.0001], [0.2289, 0.0]]
    """
    reach = 40 * max(1, math.ceil(max(law.variance() for law in laws) ** 0.5))
    steps = np.arange(-reach, reach + 1)
    open_ = np.ones(len(steps))  # of each value of the tier below, the chance that none up to it decided, given it
    found = []
    for place, (law, width) in enumerate(zip(laws, widths, strict=True)):
        if place:
            residual = law.residual_to(laws[place - 1])
            onto = np.array([residual.pmf(k) for k in range(reach + 1)])
            open_ = np.convolve(open_, np.concatenate((onto[:0:-1], onto)), "same")
        here = _masses(law, reach) * open_
        above, below = distance + steps - width >= 0, distance + steps + width < 0
        ends = (float(here[above].sum()), float(here[below].sum()))
        found.append(ends if distance >= 0 else ends[::-1])
        open_ = np.where(above | below, 0.0, open_)
    return tuple(found)


def _masses(law: TwoSidedGeometric, reach: int) -> npt.NDArray[np.float64]:
    """P(noise = k) for |k| ≤ reach."""
    half = np.array([law.pmf(k) for k in range(reach + 1)])
    return np.concatenate((half[:0:-1], half))
