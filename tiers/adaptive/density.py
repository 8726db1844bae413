"""Gaussian kernel density at a public point, from noisy points or distances."""

import math
from dataclasses import dataclass

import numpy as np

from tiers.adaptive.elimination import Elimination, Estimator, Fate, Intervals, Values
from tiers.errors import InvalidParameterError

__all__ = [
    "FAR",
    "LEFT_OUT",
    "DensityReading",
    "plug_in_mean",
    "read_density",
    "unbiased_kernel",
]

FAR = 6.0  # bandwidths: who is surely farther is not asked again
LEFT_OUT = math.exp(-18)  # what such a person adds to the sum, at most


@dataclass(frozen=True, slots=True)
class DensityReading:
    """A density in [0, 1] per person, before noise; with how many people it rests on."""

    estimate: float
    far: int
    near: int
    dropped: int


def read_density(
    ended: Elimination,
    intervals: Intervals,
    distance: Estimator,
    bandwidth: float,
    dimensions: int,
    *,
    unbiased: bool = False,
) -> DensityReading:
    """Return (1/n)·Σ exp(−‖x − p‖²/2b²) over those who did not drop out, after an elimination above 6b.

    Those surely farther than 6b are counted as e^−18 each, which is at most what they add. The plug-in estimate puts
    noisy distances into the kernel; its bias is known exactly (`plug_in_mean`). The unbiased one puts them into
    `unbiased_kernel`; it is exactly unbiased where nobody was eliminated (one round, the baseline), and elsewhere but
    for what the eliminated, each at most e^−18 with 1 − β, would have added.

    Args:       distance: g, from averages to noisy distances from p. dimensions: of what was released, 1 for distances.
    Raises:     InvalidParameterError: a bandwidth that is not positive, everybody dropped, or noise too large for the
                unbiased kernel (σ ≥ b).
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, algorithm 7.
    Example:
        >>> from tiers.adaptive.elimination import averaging, eliminate_far
        >>> intervals = averaging(np.zeros(2, np.int32), np.full((1, 1), 1e6), np.full((1, 1), 0.01))
        >>> ended = eliminate_far(
        ...     intervals, lambda _, who: (np.array([1.0, 9.0]), who >= 0), lambda v: v, low=-np.inf, high=6.0
        ... )
        >>> round(read_density(ended, intervals, lambda v: v, 1.0, 1).estimate, 6)
        0.303265
    """
    _positive("bandwidth", bandwidth)
    near, far = ended.of(Fate.UNDECIDED), len(ended.of(Fate.ABOVE))
    asked = len(near) + far
    dropped = len(ended.fate) - asked
    if not asked:
        raise InvalidParameterError("people", "at least one whose budget admitted a round", 0)
    if not len(near):
        return DensityReading(0.0, far, 0, dropped)
    away = np.asarray(distance(ended.average[near]), np.float64)
    if unbiased:
        sigma = intervals.sigma[intervals.classes[near], ended.answered[near] - 1]
        terms = unbiased_kernel(away, bandwidth, sigma, dimensions)
    else:
        terms = np.exp(-0.5 * (away / bandwidth) ** 2)
    return DensityReading((float(terms.sum()) + far * LEFT_OUT) / asked, far, len(near), dropped)


def plug_in_mean(distance: float, bandwidth: float, sigma: float, dimensions: int) -> float:
    """Return what the plug-in kernel of a noisy point is on average: lower at the centre, flatter about it.

    Law:        E exp(−‖x + σZ − p‖²/2b²) = (b²/(b² + σ²))^(d/2)·exp(−‖x − p‖²/(2(b² + σ²))).
    Raises:     InvalidParameterError: a bandwidth or σ that is not positive.
    Example:
        >>> plug_in_mean(0.0, 2.0, 1.5, 3)
        0.512
    """
    wide = _positive("bandwidth", bandwidth) ** 2 + _positive("sigma", sigma) ** 2
    return float((bandwidth**2 / wide) ** (dimensions / 2) * math.exp(-(distance**2) / (2 * wide)))


def unbiased_kernel(noisy: Values, bandwidth: float, sigma: Values | float, dimensions: int) -> Values:
    """Return the function of a noisy distance whose mean is the kernel of the true one.

    Law:        (b²/(b² − σ²))^(d/2)·exp(−noisy²/(2(b² − σ²))), for σ < b.
    Raises:     InvalidParameterError: σ ≥ b: there is no such function.
    Example:
        >>> unbiased_kernel(np.array([0.5]), 2.0, 1.5, 3).round(6).tolist()
        [3.217451]
    """
    left = _positive("bandwidth", bandwidth) ** 2 - np.asarray(sigma, np.float64) ** 2
    if not (left > 0).all():
        raise InvalidParameterError("sigma", f"below the bandwidth {bandwidth}", float(np.max(sigma)))
    terms: Values = (bandwidth**2 / left) ** (dimensions / 2) * np.exp(-(noisy**2) / (2 * left))
    return terms


def _positive(name: str, value: float) -> float:
    if not (isinstance(value, float) and 0 < value < math.inf):
        raise InvalidParameterError(name, "a finite float > 0", value)
    return value
