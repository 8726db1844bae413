"""A6: what a set of buyers has learnt together, exactly, and what one more purchase would add."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from tiers.accounting.coalition import Loss
from tiers.errors import AuditError, InvalidParameterError
from tiers.guarantee import ApproxDP
from tiers.identity import TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.rank import by_accuracy

__all__ = ["CoalitionLoss", "Purchase", "WhatIf", "coalition_loss", "what_if"]

_ORDERS = (*range(2, 33), 40, 48, 64, 96, 128, 256)
_UP = 1 + 2.0**-40
"""Of a sum of a few thousand doubles that are each rounded up, and of three logarithms."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """One tier of one chain in one buyer's hands.

    Args:       lineage: the dataset's. law: of the tier. slack: τ of the steps to it times the bins a unit touches.
    """

    buyer: str
    lineage: str
    chain: str
    law: TierLaw
    slack: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class CoalitionLoss:
    """What a coalition holds of one lineage: the best tier of each chain, most accurate first where chains are one.

    Guarantee:  all that the coalition holds of the lineage has each of these privacy losses, if it is closed under
                influence: whoever acts visibly on one of its answers belongs to it.
    Args:       best: chain to the best tier held in it.
    """

    best: Mapping[str, Purchase]

    def basic(self) -> Loss:
        """Return (Σ ε_b, Σ δ_b), exact: (Σ ε_b, 0) where all are pure; slack adds (1 + e^ε)·τ to a δ, rounded up.

        Example:
            >>> CoalitionLoss({}).basic()
            Loss(epsilon=Fraction(0, 1), delta=Fraction(0, 1))
        """
        parts = [ApproxDP(each.law.epsilon(), each.law.delta).with_slack(each.slack) for each in self.best.values()]
        return Loss(
            sum((part.epsilon for part in parts), Fraction(0)), sum((part.delta for part in parts), Fraction(0))
        )

    def rho(self) -> Fraction | None:
        """Return Σ ρ_b, exact; None where a tier has no ρ (a Skellam law: its Rényi curve is not linear; any slack).

        Example:
            >>> CoalitionLoss({}).rho()
            Fraction(0, 1)
        """
        parts = [_rho(each) for each in self.best.values()]
        known = [part for part in parts if part is not None]
        return sum(known, Fraction(0)) if len(known) == len(parts) else None

    def renyi(self, order: int) -> float:
        """Return Σ D_α of the best tiers, rounded up.

        Raises:     InvalidParameterError: a tier with slack, whose Rényi divergence nobody bounds.
        """
        if any(each.slack for each in self.best.values()):
            raise InvalidParameterError("slack", "none, for a Rényi divergence", "a tier with slack")
        return _UP * math.fsum(each.law.noise.rdp(order, each.law.change_set) for each in self.best.values())

    def epsilon_at(self, delta: Fraction) -> float:
        """Return the least ε known at which all of it together is (ε, δ)-DP, rounded up.

        Law:        the least of Σ ε_b, where Σ δ_b ≤ δ, and over integer orders α of
                    Σ D_α + log((α − 1)/α) − (log δ + log α)/(α − 1).
        Raises:     InvalidParameterError: δ outside (0, 1).
        Reference:  Canonne, Kamath, Steinke 2020 (arXiv 2004.00010), proposition 12.
        Example:
            >>> CoalitionLoss({}).epsilon_at(Fraction(1, 10**6))
            0.0
        """
        if not isinstance(delta, Fraction) or not 0 < delta < 1:
            raise InvalidParameterError("delta", "a Fraction with 0 < δ < 1", delta)
        basic = self.basic()
        found = [float(basic.epsilon) * _UP] if basic.delta <= delta else []
        if not any(each.slack for each in self.best.values()):
            log_delta = math.log(delta.numerator) - math.log(delta.denominator)
            for order in _ORDERS:
                spread = (log_delta + math.log(order)) / (order - 1)
                found.append((self.renyi(order) + math.log1p(-1 / order) - spread) * _UP + 1e-12)
        if not found:
            raise InvalidParameterError("delta", f"at least the coalition's own {float(basic.delta):.3g}", delta)
        return max(0.0, min(found))


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A lineage's loss before and after one more purchase."""

    before: CoalitionLoss
    after: CoalitionLoss

    def added(self) -> Fraction:
        """Return what the purchase adds to Σ ε_b: 0 for a tier at or below what is held already."""
        return self.after.basic().epsilon - self.before.basic().epsilon


def coalition_loss(purchases: Iterable[Purchase], buyers: Collection[str]) -> Mapping[str, CoalitionLoss]:
    """Return, per lineage, what these buyers hold together; lineages of which they hold nothing are left out.

    The best tier of a chain is the most accurate one by its exact law, never the one with the largest label ε.

    Args:       purchases: of all buyers. buyers: the coalition, closed under influence.
    Raises:     AuditError: no buyer. InvalidParameterError: one chain under two lineages, or one tier with two slacks.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), definition 3.1.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.sensitivity import ChangeSet
        >>> two, one = (TierLaw(TwoSidedGeometric(Fraction(rate)), ChangeSet.scalar(1)) for rate in (2, 1))
        >>> held = [Purchase("ada", "flights", "a", two), Purchase("bo", "flights", "a", one)]
        >>> held.append(Purchase("bo", "flights", "b", one))
        >>> [str(coalition_loss(held, who)["flights"].basic().epsilon) for who in (["ada"], ["bo"], ["ada", "bo"])]
        ['2', '2', '3']
    """
    if not buyers:
        raise AuditError("coalition: expected at least one buyer, got none")
    wanted = frozenset(buyers)
    return _losses(each for each in purchases if each.buyer in wanted)


def what_if(purchases: Iterable[Purchase], buyers: Collection[str], more: Purchase) -> WhatIf:
    """Return a coalition's loss on a lineage before and after one more purchase by one of its members.

    Raises:     AuditError: the buyer is not of the coalition. As `coalition_loss` else.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.sensitivity import ChangeSet
        >>> two, one = (TierLaw(TwoSidedGeometric(Fraction(rate)), ChangeSet.scalar(1)) for rate in (2, 1))
        >>> what_if([Purchase("ada", "d", "a", one)], ["ada"], Purchase("ada", "d", "a", two)).added()
        Fraction(1, 1)
    """
    if more.buyer not in buyers:
        raise AuditError(f"purchase: expected a buyer of the coalition, got {more.buyer!r}")
    held = list(purchases)
    nothing = CoalitionLoss({})
    before = coalition_loss(held, buyers).get(more.lineage, nothing)
    return WhatIf(before, coalition_loss([*held, more], buyers)[more.lineage])


def _rho(held: Purchase) -> Fraction | None:
    if held.slack:
        return None
    if isinstance(held.law.noise, DiscreteGaussian):
        return held.law.noise.rho(held.law.change_set)
    return held.law.epsilon() ** 2 / 2 if held.law.pure else None


def _losses(purchases: Iterable[Purchase]) -> dict[str, CoalitionLoss]:
    chains: dict[str, dict[str, Purchase]] = {}
    for each in purchases:
        held = chains.setdefault(each.chain, {})
        first = next(iter(held.values()), each)
        if first.lineage != each.lineage:
            raise InvalidParameterError("chain", f"one of lineage {first.lineage}", each.lineage)
        if held.setdefault(each.law.identity, each).slack != each.slack:
            raise InvalidParameterError("slack", "one for each tier", each.slack)
    best: dict[str, dict[str, Purchase]] = {}
    for chain, held in chains.items():
        top = held[by_accuracy(purchase.law for purchase in held.values())[0].identity]
        best.setdefault(top.lineage, {})[chain] = top
    return {lineage: CoalitionLoss(held) for lineage, held in best.items()}
