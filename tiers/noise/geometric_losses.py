"""Privacy losses of two-sided geometric vectors: multiples of the rate, on which any composition is exact."""

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from tiers.noise.calibrate import gaussian_variance
from tiers.noise.losses import Losses, paid, raised
from tiers.sensitivity import ChangeSet

__all__ = ["TOTAL_LIMIT", "geometric_losses", "rate_guess"]

TOTAL_LIMIT = 1 << 14


@lru_cache(maxsize=256)
def geometric_losses(rate: Fraction, change: tuple[int, ...]) -> Losses | None:
    """Return the losses of a vector of two-sided geometrics under a change, or None where they are too many.

    Law:        one entry under a shift d: rate·(d − 2j) with probability p^d/(1 + p) at j = d, (1 − p)/(1 + p)·p^j
                between, 1/(1 + p) at j = 0; entries are independent, so the j add and their laws convolve.
    Example:
        >>> law = geometric_losses(Fraction(1), (1, 1))
        >>> [round(float(value), 6) for value in law.values], [round(float(mass), 6) for mass in law.masses]
        ([-2.0, 0.0, 2.0], [0.072329, 0.393224, 0.534447])
    """
    total = sum(change)
    if total > TOTAL_LIMIT:
        return None
    shares = [_power(_one(float(rate), shift), count) for shift, count in Counter(change).items()]
    masses = reduce(np.convolve, shares)
    factor = paid(total + 8 * len(change)) ** len(change)
    values = float(rate) * (total - 2 * np.arange(total, -1, -1, dtype=np.float64))
    return Losses(raised(values), masses[::-1] * factor, 0.0)


def _one(rate: float, shift: int) -> NDArray[np.float64]:
    """Return the masses at j = 0 … shift; e^(−rate·j) is off by rate·j·u of itself, so far out it is paid in full."""
    end, places = 1 / (1 + math.exp(-rate)), np.arange(1, shift, dtype=np.float64)
    falls = np.exp(-rate * places * (1 - 2.0**-50))
    return np.concatenate([[end], falls * math.tanh(rate / 2), [math.exp(-rate * shift * (1 - 2.0**-50)) * end]])


def _power(masses: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    result, square = np.ones(1), masses
    while count:
        if count & 1:
            result = np.convolve(result, square)
        count >>= 1
        square = np.convolve(square, square) if count else square
    return result


def rate_guess(epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> Fraction:
    """Return about the greatest rate at which the law is (ε, δ)-DP: where to start a calibration.

    Law:        the largest loss alone gives δ ≥ (1 − e^(ε − rate·Δ₁))/(1 + p)^bins, so that rate is not below the
                wanted one; for many bins that of the Gaussian with the same variance is nearer.
    Example:
        >>> round(float(rate_guess(Fraction(1), Fraction(1, 100), ChangeSet.scalar(1))), 9)
        1.01372238
    """
    total, bins = change_set.total, min(change_set.bins, change_set.total)
    rate = pure = float(epsilon) / total
    for _ in range(30):
        lost = float(delta) * (1 + math.exp(-rate)) ** bins if bins < 1000 else 1.0
        rate = pure - math.log1p(-min(lost, 0.999)) / total
    near_gaussian = 2 * math.asinh((2 * gaussian_variance(epsilon, delta, change_set)) ** -0.5)
    return Fraction(min(rate, near_gaussian) if near_gaussian > pure else rate)
