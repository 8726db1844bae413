"""Costs and filters over any metric: what a mechanism promises a unit of distance, and the ledger that adds it up.

(ε, Λ)-GP: D_∞ ≤ ε·dist for pairs within Λ. (ρ, Λ)-CGP: D_α ≤ ρ·α·dist² for every α > 1, within Λ. Differential privacy
is the metric that counts people, with Λ = 1. A cost is a property of a mechanism and of the worst pair of inputs, never
of the data: a refusal says nothing.
"""

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

from tiers.accounting.charges import LedgerKind
from tiers.accounting.conversions import positive, pure_to_zcdp, zcdp_to_epsilon
from tiers.accounting.filters import ApproxFilter, PureFilter, ZCDPFilter
from tiers.budget import NANO, nano_up
from tiers.errors import InvalidParameterError
from tiers.noise.hockey import float_above

__all__ = ["EVERY", "Cost", "Every", "Measure", "MetricFilter", "Reach", "cost_nano", "covers"]


class Every(Enum):
    """The reach of a promise that holds at every distance."""

    DISTANCE = "every distance"


EVERY = Every.DISTANCE
Reach: TypeAlias = Fraction | Every


class Measure(Enum):
    """What a cost's rate is: ε a unit of distance, or ρ a squared unit."""

    GP = "gp"
    CGP = "cgp"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one mechanism costs on one component of the data, whatever the data are.

    Law:        GP: D_∞ ≤ rate·dist; CGP: D_α ≤ rate·α·dist² for every real α > 1; both for dist ≤ reach.
    Args:       rate: ε or ρ, exact. reach: Λ in units of distance, or `EVERY`.
    Raises:     InvalidParameterError: a rate or a reach that is not a positive rational.
    Example:
        >>> Cost(Measure.GP, Fraction(1, 10)).concentrated().rate
        Fraction(1, 200)
    """

    measure: Measure
    rate: Fraction
    reach: Reach = EVERY

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        if self.reach is not EVERY:
            positive("reach", self.reach)

    def after(self, lipschitz: Fraction) -> "Cost":
        """Return the cost on x of the mechanism applied to φ(x), where φ stretches no distance more than K-fold.

        Law:        rate·K for GP, rate·K² for CGP; the reach shrinks to Λ/K.
        Example:
            >>> Cost(Measure.CGP, Fraction(1, 2), Fraction(6)).after(Fraction(3))
            Cost(measure=<Measure.CGP: 'cgp'>, rate=Fraction(9, 2), reach=Fraction(2, 1))
        """
        stretch = positive("lipschitz", lipschitz)
        rate = self.rate * (stretch if self.measure is Measure.GP else stretch**2)
        return replace(self, rate=rate, reach=self.reach if isinstance(self.reach, Every) else self.reach / stretch)

    def concentrated(self) -> "Cost":
        """Return the CGP cost: of a GP mechanism exactly ε²/2, pair by pair.

        Reference:  Liang and Yi, Adaptive Privacy Budgeting, lemma 3.1.
        """
        return self if self.measure is Measure.CGP else replace(self, measure=Measure.CGP, rate=pure_to_zcdp(self.rate))


def covers(promised: Reach, wanted: Reach) -> bool:
    """Return whether a promise up to one distance serves a ledger that promises up to another.

    Example:
        >>> covers(Fraction(5), Fraction(4)), covers(Fraction(5), EVERY), covers(EVERY, EVERY)
        (True, False, True)
    """
    if isinstance(promised, Every):
        return True
    return not isinstance(wanted, Every) and promised >= wanted


def cost_nano(cost: Cost, kind: LedgerKind, reach: Reach) -> int:
    """Return what a mechanism costs in a ledger's units of 10⁻⁹ (ε a unit, or ρ a squared unit), rounded up once.

    Raises:     InvalidParameterError: a CGP cost in a pure ledger (no ρ is worth an ε), or a promise that ends before
                the ledger's reach.
    Example:
        >>> cost_nano(Cost(Measure.GP, Fraction(1, 3)), LedgerKind.PURE, EVERY)
        333333334
        >>> cost_nano(Cost(Measure.GP, Fraction(1, 10)), LedgerKind.ZCDP, Fraction(1))
        5000000
    """
    if not covers(cost.reach, reach):
        raise InvalidParameterError("reach", f"a mechanism whose promise holds up to {reach}", cost.reach)
    if kind is not LedgerKind.PURE:
        return nano_up(cost.concentrated().rate)
    if cost.measure is not Measure.GP:
        raise InvalidParameterError("measure", "GP in a pure ledger: no ρ is worth an ε", cost.measure.value)
    return nano_up(cost.rate)


@dataclass(frozen=True, slots=True)
class MetricFilter:
    """A filter with the distances that its promise is for: one rule for GP, CGP and (ε, δ, Λ)-GP.

    Guarantee:  whatever is admitted, adaptively and in any order, the whole transcript is B-GP, B-CGP or (ε, δ)-GP at
                every distance up to the reach; no latch: a refusal is decided by costs alone and reveals nothing.
    Args:       filter: the budget a unit of distance. reach: Λ; of an (ε, δ) filter its own.
    Raises:     InvalidParameterError: an (ε, δ) filter of another reach.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, filters (7) and (10).
    Example:
        >>> ledger = MetricFilter(ZCDPFilter.of(Fraction(1, 2)), Fraction(8))
        >>> ledger.charge(Cost(Measure.GP, Fraction(1, 2), Fraction(10))).filter.remaining_nano
        375000000
    """

    filter: PureFilter | ZCDPFilter | ApproxFilter
    reach: Reach = EVERY

    def __post_init__(self) -> None:
        if self.reach is not EVERY:
            positive("reach", self.reach)
        if isinstance(self.filter, ApproxFilter) and self.filter.reach != self.reach:
            raise InvalidParameterError("reach", f"the (ε, δ) filter's own, {self.filter.reach}", self.reach)

    @property
    def kind(self) -> LedgerKind:
        """Return what the filter's units measure."""
        match self.filter:
            case PureFilter():
                return LedgerKind.PURE
            case ZCDPFilter():
                return LedgerKind.ZCDP
            case ApproxFilter():
                return LedgerKind.APPROX

    def admits(self, cost: Cost) -> bool:
        """Return whether the cost fits; raises as `cost_nano` for one that this ledger cannot count at all."""
        return self.filter.admits(cost_nano(cost, self.kind, self.reach))

    def charge(self, cost: Cost) -> "MetricFilter":
        """Return the ledger after the cost.

        Raises:     BudgetExceededError: it does not fit; nothing is spent. InvalidParameterError: as `cost_nano`.
        """
        return replace(self, filter=self.filter.charge(cost_nano(cost, self.kind, self.reach)))

    def epsilon_at(self, delta: Fraction) -> float:
        """Return an ε such that all spent so far is (ε·dist, δ)-indistinguishable within the reach, rounded up.

        Law:        formula (3) of the spent ρ; of a pure ledger its ε, whatever δ.
        Raises:     InvalidParameterError: no reach (formula (3) needs one), or δ outside (0, 1).
        Example:
            >>> spent = MetricFilter(ZCDPFilter(10**9, 10**8), Fraction(1))
            >>> round(spent.epsilon_at(Fraction(1, 10**5)), 5)
            2.01364
        """
        spent = Fraction(self.filter.spent_nano, NANO)
        if self.kind is LedgerKind.PURE or not spent:
            return float_above(spent)
        if isinstance(self.reach, Every):
            raise InvalidParameterError("reach", "a finite Λ for an (ε, δ) promise", self.reach.value)
        return zcdp_to_epsilon(spent, delta, self.reach)
