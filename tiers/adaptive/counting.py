"""How many people are inside: exactly counted where rounds decide, estimated where they do not."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import norm

from tiers.adaptive.elimination import Elimination, Fate, Intervals
from tiers.adaptive.widths import Table
from tiers.errors import InvalidParameterError

__all__ = ["CountReading", "calibrated_threshold", "read_count", "thresholds_of"]


@dataclass(frozen=True, slots=True)
class CountReading:
    """A count with what it rests on: decided inside, decided outside, undecided, and dropped for want of budget.

    `estimate` counts the undecided by their last values and the dropped not at all; the true count lies in
    [certain, certain + undecided + dropped] with 1 − β. `margin` is the largest distance from the border at which
    somebody who was asked to the end may be on the wrong side.
    """

    estimate: int
    certain: int
    outside: int
    undecided: int
    dropped: int
    margin: float


def read_count(ended: Elimination, intervals: Intervals, thresholds: npt.ArrayLike = 0.0) -> CountReading:
    """Return the count of people whose signed distance is negative, after an elimination about 0.

    Law:        |S₁| + #{undecided: estimate < η}, η = 0 (which alone carries the margin's guarantee) or one a class.
    Guarantee:  with 1 − β every decided person is on the right side, and every undecided one whose distance from the
                border exceeds the width (with η = 0).
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, algorithm 6; a baseline is an elimination of one round that
                decides nobody.
    Example:
        >>> from tiers.adaptive.elimination import averaging, eliminate_far
        >>> intervals = averaging(np.zeros(2, np.int32), np.ones((1, 1)), np.full((1, 1), 0.5))
        >>> ended = eliminate_far(intervals, lambda _, who: (np.array([-2.0, -0.1]), who >= 0), lambda v: v)
        >>> read_count(ended, intervals).estimate, read_count(ended, intervals).certain
        (2, 1)
    """
    each = np.broadcast_to(np.asarray(thresholds, np.float64), (len(intervals.width),))
    left = ended.of(Fate.UNDECIDED)
    classes = intervals.classes[left]
    certain = len(ended.of(Fate.BELOW))
    widths = intervals.width[classes, ended.answered[left] - 1]
    return CountReading(
        estimate=certain + int(np.count_nonzero(ended.estimate[left] < each[classes])),
        certain=certain,
        outside=len(ended.of(Fate.ABOVE)),
        undecided=len(left),
        dropped=len(ended.of(Fate.DROPPED)),
        margin=float(widths.max(initial=0.0)),
    )


def calibrated_threshold(inradius: float, sigma: float, dimensions: int) -> float:
    """Return the η at which counting noisy distances below η is unbiased for people spread evenly about the shape.

    A count at η = 0 is far too high at large noise: more people are outside than inside. η depends on the shape and the
    noise alone, so it is private.

    Law:        E[(T + σZ)₊^d] = ω^d, η = T − ω; d = 1: TΦ(T/σ) + σφ(T/σ) = ω; d = 2: (T² + σ²)Φ(T/σ) + Tσφ(T/σ) = ω².
    Args:       inradius: ω, of the disc (d = 2) or slab (d = 1). sigma: of the noise of a distance; both in units, > 0.
    Raises:     InvalidParameterError: not such numbers, or another dimension than 1 or 2.
    Example:
        >>> round(calibrated_threshold(1.0, 1.0, 2), 3), round(calibrated_threshold(1.0, 4.0, 2), 2)
        (-0.529, -5.33)
    """
    if dimensions not in (1, 2):
        raise InvalidParameterError("dimensions", "1 or 2", dimensions)
    for name, value in (("inradius", inradius), ("sigma", sigma)):
        if not (isinstance(value, float) and 0 < value < math.inf):
            raise InvalidParameterError(name, "a finite float > 0", value)
    want = (inradius / sigma) ** dimensions  # in units of σ

    def excess(t: float) -> float:
        below, density = float(norm.cdf(t)), float(norm.pdf(t))
        moment = t * below + density if dimensions == 1 else (t * t + 1) * below + t * density
        return moment - want

    low = -1.0
    while excess(low) > 0:
        low *= 2
        if low < -30:
            raise InvalidParameterError("sigma", "at most what a threshold can be found for", sigma)
    root = brentq(excess, low, want ** (1 / dimensions) + 1, xtol=1e-15, rtol=1e-15)
    return float(root) * sigma - inradius


def thresholds_of(intervals: Intervals, inradius: float, dimensions: int) -> Table:
    """Return each class's calibrated threshold after its last round.

    Example:
        >>> from tiers.adaptive.elimination import averaging
        >>> twice = averaging(np.zeros(1, np.int32), np.array([[0.25, 0.25]]), np.ones((1, 2)))
        >>> thresholds_of(twice, 1.0, 2).round(3).tolist()
        [-0.529]
    """
    return np.array([calibrated_threshold(inradius, float(sigma), dimensions) for sigma in intervals.sigma[:, -1]])
