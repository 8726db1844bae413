"""Why upgrades cannot be charged by the difference of ρ: adaptive upgrades of randomised response, computed exactly.

Between two neighbouring counts a two-sided geometric tier (Δ = 1) says no more than one randomised bit, true with
probability e^ε/(1+e^ε), and the tier below is that bit flipped again. So every transcript of upgrades is a walk over
bits, and the worst buyer, who after each bit upgrades or spends the rest on Gaussians, is a dynamic programme.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tiers.accounting.conversions import positive
from tiers.errors import BudgetOrderError, InvalidParameterError

__all__ = ["Step", "adaptive_loss", "first_bit", "naive_increment", "reveal_step", "upgrade_charge"]

_LEAST_ORDER = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Step:
    """The bit that an upgrade reveals, given the bit below: the chances of 1 when the truth is 1 and when it is 0.

    Example:
        >>> round(Step(0.75, 0.25).divergence(1.0), 6), round(Step(0.75, 0.25).divergence(2.0), 6)
        (0.549306, 0.847298)
    """

    if_one: float
    if_zero: float

    def divergence(self, order: float) -> float:
        """Return the Rényi divergence of an order ≥ 1, truth 1 against truth 0; order 1 is Kullback and Leibler's."""
        if order <= _LEAST_ORDER:
            return self._mean(
                math.log(self.if_one / self.if_zero), math.log1p(-self.if_one) - math.log1p(-self.if_zero)
            )
        return self.log_moment(order, 0.0, 0.0) / (order - 1)

    def max_loss(self) -> float:
        """Return the largest |log ratio| of the two laws."""
        ratios = math.log(self.if_one / self.if_zero), math.log1p(-self.if_one) - math.log1p(-self.if_zero)
        return max(abs(ratio) for ratio in ratios)

    def log_moment(self, order: float, after_one: float, after_zero: float) -> float:
        """Return log E_0[(P_1/P_0)^order · e^after], the continuation's own log moment added to each outcome."""
        one = order * math.log(self.if_one) + (1 - order) * math.log(self.if_zero) + after_one
        zero = order * math.log1p(-self.if_one) + (1 - order) * math.log1p(-self.if_zero) + after_zero
        top = max(one, zero)
        return top + math.log(math.exp(one - top) + math.exp(zero - top))

    def _mean(self, one: float, zero: float) -> float:
        return self.if_one * one + (1 - self.if_one) * zero


def reveal_step(upper: Fraction, lower: Fraction) -> tuple[Step, Step]:
    """Return what an upgrade from tier `lower` to tier `upper` reveals, given that the lower bit is 1, and given 0.

    Law:        P(upper bit = 1 | lower bit, truth), the lower bit being the upper one flipped with probability
                (1 − tanh(ε′/2)/tanh(ε/2))/2.
    Raises:     BudgetOrderError: the lower tier is not below. InvalidParameterError: not positive rationals.
    Example:
        >>> [round(step.divergence(1.0), 4) for step in reveal_step(Fraction(1), Fraction(1, 2))]
        [0.2969, 0.4101]
    """
    _check((lower, upper))
    high, low = float(upper), float(lower)
    flip = (1 - math.tanh(low / 2) / math.tanh(high / 2)) / 2
    true, kept = 1 / (1 + math.exp(-high)), 1 / (1 + math.exp(-low))
    given_one = Step(true * (1 - flip) / kept, (1 - true) * (1 - flip) / (1 - kept))
    given_zero = Step(true * flip / (1 - kept), (1 - true) * flip / kept)
    return given_one, given_zero


def first_bit(epsilon: Fraction) -> Step:
    """Return the bit that the first tier reveals: randomised response, true with probability e^ε/(1 + e^ε).

    Example:
        >>> round(first_bit(Fraction(1)).max_loss(), 12)
        1.0
    """
    true = 1 / (1 + math.exp(-float(positive("epsilon", epsilon))))
    return Step(true, 1 - true)


def naive_increment(upper: Fraction, lower: Fraction) -> Fraction:
    """Return the difference of the two tiers' ρ: what an unsound ledger would charge for the upgrade.

    Example:
        >>> naive_increment(Fraction(1), Fraction(1, 2))
        Fraction(3, 8)
    """
    _check((lower, upper))
    return (Fraction(upper) ** 2 - Fraction(lower) ** 2) / 2


def upgrade_charge(upper: Fraction, lower: Fraction) -> float:
    """Return the least ρ that covers an upgrade whatever was seen below, to about 10⁻¹²: for analysis, not for ledgers.

    Law:        sup over the lower bit, both directions and α > 1 of D_α(upper bit given lower)/α.
    Raises:     as `reveal_step`.
    Example:
        >>> round(upgrade_charge(Fraction(1), Fraction(1, 2)), 6)
        0.438327
    """
    laws = [law for step in reveal_step(upper, lower) for law in (step, Step(step.if_zero, step.if_one))]
    return max(_supremum(law) for law in laws)


def adaptive_loss(epsilons: Sequence[Fraction], order: float) -> float:
    """Return the worst D_α of a buyer who goes up the tiers and, after any bit, may spend the rest on Gaussians.

    The buyer is charged ε²/2 for the first tier and `naive_increment` for each upgrade, within the top tier's ε²/2.

    Law:        a dynamic programme over (tier, bit): value = max(α(α−1)·rest, log moment of the next bit's values).
    Args:       epsilons: the tiers, lowest first. order: α ≥ 1; 1 is Kullback and Leibler's.
    Raises:     BudgetOrderError, InvalidParameterError: tiers that do not rise, fewer than two, an order below 1.
    Example:
        >>> round(adaptive_loss([Fraction(1, 2), Fraction(1)], 1.0), 6)
        0.510714
    """
    _check(epsilons)
    if not 1 <= order < math.inf:
        raise InvalidParameterError("order", "1 ≤ α < ∞", order)
    budget = Fraction(epsilons[-1]) ** 2 / 2
    kullback = order <= _LEAST_ORDER
    scale = 1.0 if kullback else order * (order - 1)
    after_one = after_zero = 0.0
    for lower, upper in reversed(list(pairwise(epsilons))):
        stop = scale * float(budget - Fraction(lower) ** 2 / 2)
        values = []
        for step in reveal_step(upper, lower):
            if kullback:
                go = step.divergence(1.0) + step.if_one * after_one + (1 - step.if_one) * after_zero
            else:
                go = step.log_moment(order, after_one, after_zero)
            values.append(max(stop, go))
        after_one, after_zero = values
    first = first_bit(epsilons[0])
    if kullback:
        return first.divergence(1.0) + first.if_one * after_one + (1 - first.if_one) * after_zero
    return first.log_moment(order, after_one, after_zero) / (order - 1)


def _supremum(law: Step) -> float:
    """The maximum over α of D_α/α: a grid in log(α − 1), then golden section about its best point."""

    def value(x: float) -> float:
        order = 1 + math.exp(x)
        return law.divergence(order) / order

    best = max((-12 + 0.05 * i for i in range(480)), key=value)
    low, high, ratio = best - 0.05, best + 0.05, (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if value(left) > value(right) else (left, high)
    return max(value((low + high) / 2), law.divergence(1.0))


def _check(epsilons: Sequence[Fraction]) -> None:
    if len(epsilons) < 2:
        raise InvalidParameterError("tiers", "at least two", len(epsilons))
    for epsilon in epsilons:
        positive("epsilon", epsilon)
    for tier, (lower, upper) in enumerate(pairwise(epsilons), start=2):
        if lower >= upper:
            raise BudgetOrderError(tier, upper, lower)
