"""What the same sales of a chain would have cost by each rule: for owners who choose a ledger, never for a ledger."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tiers.accounting.charges import ChargeRule, LedgerKind, charge_nano
from tiers.accounting.levels import LevelRule, tier_level
from tiers.accounting.upgrades import HIGHEST_RATE, conditional_charge_nano
from tiers.errors import InvalidParameterError
from tiers.identity import TierLaw
from tiers.noise.tsg import TwoSidedGeometric

__all__ = ["RuleCosts", "Sold", "rule_costs"]


@dataclass(frozen=True, slots=True)
class Sold:
    """A tier of a chain and how many sales of it there were.

    Raises:     InvalidParameterError: no law, or not an integer ≥ 1.
    Example:
        >>> from fractions import Fraction
        >>> from tiers.sensitivity import ChangeSet
        >>> Sold(TierLaw(TwoSidedGeometric(Fraction(1)), ChangeSet.scalar(1)), 3).times
        3
    """

    law: TierLaw
    times: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.law, TierLaw):
            raise InvalidParameterError("law", "a tier's law", self.law)
        if type(self.times) is not int or self.times < 1:
            raise InvalidParameterError("times", "an integer ≥ 1", self.times)


@dataclass(frozen=True, slots=True)
class RuleCosts:
    """What a chain's sales cost by each rule, in units of 10⁻⁹ ε or ρ; None where a rule says nothing of such laws.

    `increment`: ε, upgrades by difference (a pure ledger). `epsilon_apart`: ε, every sale a draw of its own.
    `reserve`: ρ, the top once. `conditional`: ρ, upgrades by their worst conditional loss. `rho_apart`: ρ, every sale a
    draw of its own. `difference`: ρ, upgrades by the difference of ρ, which is unsound: no ledger may charge so.
    """

    increment: int | None
    epsilon_apart: int | None
    reserve: int
    conditional: int | None
    rho_apart: int
    difference: int


def rule_costs(planned: Collection[TierLaw], sold: Sequence[Sold], by: LevelRule = LevelRule.LATTICE) -> RuleCosts:
    """Return what a chain's sales cost by each rule.

    A tier that was added later, above what was planned, counts as reserved from the start: a reserving ledger would
    not have sold it otherwise.

    Args:       planned: the chain's tiers when it was opened. sold: the tiers that were sold, each once, in the order
                of their first sales. by: the rule of the chain's levels.
    Raises:     InvalidParameterError: nothing sold, a law twice, or one that no ledger charges for.
    Example:
        >>> from fractions import Fraction
        >>> from tiers.sensitivity import ChangeSet
        >>> low, top = (TierLaw(TwoSidedGeometric(Fraction(e)), ChangeSet.scalar(1)) for e in ("0.5", "1"))
        >>> costs = rule_costs([top, low], [Sold(low, 3), Sold(top)])
        >>> costs.increment, costs.epsilon_apart, costs.reserve, costs.conditional
        (1000000000, 2500000000, 500000000, 563327124)
    """
    laws = [each.law for each in sold]
    if not laws or len(set(laws)) < len(laws):
        raise InvalidParameterError("sold", "at least one tier, each once", tuple(law.identity for law in laws))
    rho = [tier_level(LedgerKind.ZCDP, law, by) for law in laws]
    top = max(tier_level(LedgerKind.ZCDP, law, by) for law in {*planned, *laws})
    pure = [tier_level(LedgerKind.PURE, law) for law in laws] if all(_pure(law) for law in laws) else None
    return RuleCosts(
        increment=None if pure is None else _charged(ChargeRule.INCREMENT, pure, max(pure)),
        epsilon_apart=None if pure is None else _apart(pure, sold),
        reserve=_charged(ChargeRule.RESERVE, rho, top),
        conditional=_conditional(laws, rho[0]),
        rho_apart=_apart(rho, sold),
        difference=_charged(ChargeRule.INCREMENT, rho, top),
    )


def _pure(law: TierLaw) -> bool:
    return law.pure and not law.delta


def _charged(rule: ChargeRule, levels: Sequence[int], top: int) -> int:
    charged = 0
    for level in levels:
        charged += charge_nano(rule, level, top, charged)
    return charged


def _apart(levels: Sequence[int], sold: Sequence[Sold]) -> int:
    return sum(level * each.times for level, each in zip(levels, sold, strict=True))


def _conditional(laws: Sequence[TierLaw], first: int) -> int | None:
    """The first tier at its level and each step up at its worst loss, where a pair of inputs is a randomised bit, and
    one that doubles tell from a certain one."""
    rates = []
    for law in laws:
        if not isinstance(law.noise, TwoSidedGeometric) or law.change_set.total > 1:
            return None
        rates.append(law.noise.rate)
    charged, best = first, rates[0]
    for rate in rates[1:]:
        if rate > max(best, HIGHEST_RATE):
            return None
        if rate > best:
            charged, best = charged + conditional_charge_nano(rate, best), rate
    return charged
