"""What pure ε-DP gives: the worst change of a law whose loss steps up once a scale, and its Rényi bound."""

import math
from fractions import Fraction

from tiers.noise.renyi import check_order
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

__all__ = ["pure_renyi", "scales_crossed"]


def scales_crossed(change_set: ChangeSet, scale: int) -> int:
    """Return max Σ_j ⌈|d_j|/scale⌉ over the change set: the losses of a law that pays once for every started scale.

    One step in each bin pays a whole scale; each further scale's worth of steps pays one more, as far as both Δ₁ and
    the step limit reach.

    Example:
        >>> scales_crossed(ChangeSet(bins=3, step=10, total=20), 10)
        3
    """
    touched = min(change_set.bins, change_set.total)
    more = min(touched * ((change_set.step - 1) // scale), (change_set.total - touched) // scale)
    return touched + more


def pure_renyi(epsilon: Fraction, alpha: Fraction | int) -> float:
    """Return the largest D_α of any ε-DP mechanism, rounded up: that of randomised response.

    Law:        D_α ≤ log((sinh αε − sinh (α−1)ε)/sinh ε)/(α − 1), with equality for randomised response.
    Reference:  Mironov 2017 (arXiv 1702.07476), proposition 10 in its exact form.
    Example:
        >>> round(pure_renyi(Fraction(1), 2), 9)
        0.735325664
    """
    order = check_order(alpha)
    with precision(256 + 4 * math.ceil(epsilon)):
        top = exact(order * epsilon).sinh() - exact((order - 1) * epsilon).sinh()
        ball = (top / exact(epsilon).sinh()).log() / exact(order - 1)
        return math.nextafter(float(ball.mid()), math.inf)
