"""What pure ε-DP gives: the worst change of a law whose loss steps up once a scale, and its Rényi bound."""

import math
from fractions import Fraction

from tiers.errors import InvalidParameterError
from tiers.guarantee import hockey_stick
from tiers.noise.calibrate import check_delta, check_loss
from tiers.noise.hockey import float_above
from tiers.noise.renyi import check_order
from tiers.noise.table import LatticeTable
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

__all__ = ["PureLattice", "pure_renyi", "scales_crossed"]


class PureLattice:
    """What ε-DP lattice laws that pay once for every started scale have in common; it holds no state.

    Example:
        >>> from tiers.noise.staircase import Staircase
        >>> Staircase(3, 1, Fraction(2)).rho(ChangeSet.scalar(3))
        Fraction(2, 1)
    """

    __slots__ = ()

    def epsilon(self, change_set: ChangeSet) -> Fraction:
        """Return the pure ε of the change set; each law has its own."""
        raise NotImplementedError

    def table(self, bits: int) -> LatticeTable:
        """Return the certified table of the law; each law has its own."""
        raise NotImplementedError

    def delta(self, epsilon: Fraction, change_set: ChangeSet) -> float:
        """Return δ(ε), rounded up: exact for one entry, maximised over all its shifts; 0.0 from the pure ε on.

        Raises:     InvalidParameterError: several entries below the pure ε, where no exact δ is computed.
        Example:
            >>> from tiers.noise.msdlap import MultiScaleDiscreteLaplace
            >>> law = MultiScaleDiscreteLaplace(2, Fraction(4))
            >>> f"{law.delta(Fraction(3), ChangeSet.scalar(2)):.6g}"
            '0.603418'
        """
        if check_loss(epsilon) >= self.epsilon(change_set):
            return 0.0
        if change_set.bins > 1:
            raise InvalidParameterError("change set", "one entry, for δ below the pure ε of this law", change_set)
        table = self.table(128)
        return max(hockey_stick(table, shift, epsilon) for shift in range(1, change_set.total + 1))

    def epsilon_at(self, delta: Fraction, change_set: ChangeSet) -> float:
        """Return an ε at which the law is (ε, δ)-DP, rounded up: the least for one entry; the pure ε for several.

        Example:
            >>> from tiers.noise.staircase import Staircase
            >>> law, change = Staircase(3, 1, Fraction(2)), ChangeSet.scalar(3)
            >>> law.epsilon_at(Fraction(0), change), round(law.epsilon_at(Fraction(1, 10), change), 9)
            (2.0, 1.858491626)
        """
        pure = float_above(self.epsilon(change_set))
        if delta == 0:
            return pure
        check_delta(delta)
        if change_set.bins > 1:
            return pure
        low, high = 0.0, pure
        if self.delta(Fraction(0), change_set) <= delta:
            return 0.0
        while high - low > 1e-12 * pure:
            middle = (low + high) / 2
            holds = self.delta(Fraction(middle), change_set) <= delta
            low, high = (low, middle) if holds else (middle, high)
        return high

    def rdp(self, alpha: Fraction | int, change_set: ChangeSet) -> float:
        """Return a bound on the Rényi divergence of order α: the most that any ε-DP law has."""
        return pure_renyi(self.epsilon(change_set), alpha)

    def rho(self, change_set: ChangeSet) -> Fraction:
        """Return ρ = ε²/2, at which every ε-DP law is ρ-zCDP."""
        return self.epsilon(change_set) ** 2 / 2


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
