"""Privacy losses of a law whose masses are dear: its δ(ε) curve at a few points, joined from above."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tiers.noise.hockey import delta_units, gamma_units
from tiers.noise.losses import Losses, paid, raised
from tiers.noise.tails import Tails

__all__ = ["joined_losses"]


def _largest_loss(tails: Tails, shift: int) -> float:
    """Return the loss at the integer beyond which about 2^−80 remains: what is left is counted as infinite."""
    low, high = 0, tails.reach + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tails.tail(middle) >> (tails.bits - 80) else (low, middle)
    while high > 0 and tails.mass(high + shift) <= tails.error:
        high -= 1 + high // 64
    return math.log(max(2, tails.mass(max(0, high))) / max(1, tails.mass(max(0, high) + shift))) + 1e-9


def joined_losses(tails: Tails, shift: int, points: int) -> Losses:
    """Return the law whose δ curve joins the exact one at multiples of a width by straight lines in e^ε: it is above.

    The masses are the rises of the curve's slope, in integers rounded up; doubles only at the end.

    Args:       tails: of a symmetric log-concave law. shift: d ≥ 1. points: on each side of 0.
    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> from tiers.sensitivity import ChangeSet
        >>> noise = Skellam(Fraction(5))
        >>> law, exact = joined_losses(noise.tails(192), 1, 64), noise.delta(Fraction(1, 2), ChangeSet.scalar(1))
        >>> 0 <= law.delta(0.5) - exact < 1e-2
        True
    """
    largest = _largest_loss(tails, shift)
    width = Fraction(largest / points)
    one, count = 1 << tails.bits, points + 1
    growth, shrink = gamma_units(width, tails.bits), gamma_units(-width, tails.bits)
    upper, below = [], []
    gamma, inverse = one, one  # floored powers: δ at a smaller γ is not smaller, and `place` units bound the inverse
    for place in range(count + 1):
        value, error = delta_units(tails, shift, gamma)
        upper.append(value + error)
        below.append(one - inverse + ((inverse + place + 1) * upper[-1] >> tails.bits) + 1)
        gamma, inverse = gamma * growth >> tails.bits, inverse * shrink >> tails.bits
    curve = [*below[:0:-1], *upper]
    rises = [after - before for before, after in pairwise(curve)]
    masses = [((rises[0] << tails.bits) // (growth + 1 - one)) + one - curve[0] + 2]
    for before, after in zip(rises, [*rises[1:], 0], strict=True):
        masses.append((((after << tails.bits) - (growth + 1) * before) // (growth - one)) + 2)
    sizes = np.array([max(0, mass) / one for mass in masses]) * paid(0)
    places = float(width) * np.arange(-count, count + 1, dtype=np.float64)
    return Losses(raised(places), sizes, curve[-1] / one * paid(0))
