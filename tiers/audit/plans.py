"""A1: every plan recomputed from its parameters alone; nothing it claims is trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tiers.accounting.charges import LedgerKind
from tiers.accounting.levels import ANY_RULE, LevelRule, newest, tier_level
from tiers.audit.findings import Finding
from tiers.audit.records import ClaimedTier, PlanRecord, joined
from tiers.budget import EPSILON_CEILING, EPSILON_FLOOR, decimal_text
from tiers.chain import CONFIDENCE
from tiers.errors import InvalidParameterError, NoResidualError, SlackNotAllowedError
from tiers.identity import TierLaw, chain_identity
from tiers.rank import by_accuracy
from tiers.residual.plan import residual

__all__ = ["PlanAudit"]

_KEPT = 4096


class PlanAudit:
    """The plans of a log that is read once, in order; a law's certificate is recomputed once, for all its plans."""

    def __init__(self) -> None:
        self._planned: dict[str, int] = {}
        self._laws: dict[str, Mapping[str, TierLaw]] = {}
        self._rules: dict[str, frozenset[LevelRule]] = {}
        self._sound: dict[tuple[LedgerKind, tuple[ClaimedTier, ...]], frozenset[LevelRule]] = {}
        self._certificates: dict[tuple[LedgerKind, TierLaw], _Certificate] = {}
        self._steps: dict[tuple[TierLaw, TierLaw], str | None] = {}

    def plan(self, plan: PlanRecord, lineage_of_snapshot: str | None, kind: LedgerKind) -> list[Finding]:
        """Take the next plan, in a ledger of a kind, and return what is wrong with it."""
        found = []
        if plan.product in self._planned:
            claimed = f"planned at leaf {self._planned[plan.product]}"
            found.append(Finding("A1", "planned-once", f"leaf {plan.leaf}", claimed, "planned again"))
        self._planned[plan.product] = plan.leaf
        found += _identity(plan, lineage_of_snapshot)
        before = self._laws.get(plan.chain)
        self._laws[plan.chain] = joined(before, plan.laws)
        ladder, wrong = (kind, plan.tiers), list[Finding]()
        rules = self._sound.get(ladder) if before is None else None
        if rules is None:
            wrong, rules = self._ladder(plan, kind)
            if before is None and not wrong and len(self._sound) < _KEPT:
                self._sound[ladder] = rules  # a first plan is judged by its tiers alone
        if rules != ANY_RULE:
            self._rules[plan.chain] = rules
        return found + wrong

    def _ladder(self, plan: PlanRecord, kind: LedgerKind) -> tuple[list[Finding], frozenset[LevelRule]]:
        """What is wrong with a plan's tiers, and the rules that its chain's levels may still be by."""
        found, rules = [], self._rules.get(plan.chain, ANY_RULE)
        if len({tier.law.change_set for tier in plan.tiers}) > 1:
            found.append(Finding("A1", "one-change-set", f"leaf {plan.leaf}", "one set of change vectors", "several"))
        found += self._order(plan)
        for tier in plan.tiers:
            wrong, rules = self._tier(plan, tier, kind, rules)
            found += wrong
        return found + self._ranks(plan), rules

    def _ranks(self, plan: PlanRecord) -> list[Finding]:
        """A law's rank is its place, by accuracy, among the laws that its chain's plans have named by then."""
        where, known = f"leaf {plan.leaf}", by_accuracy(self._laws[plan.chain].values())
        due = {law.identity: rank for rank, law in enumerate(known, start=1)}
        return [
            Finding("A1", "rank-of-chain", where, f"rank {tier.rank}", f"rank {due[tier.law.identity]}")
            for tier in plan.tiers
            if tier.rank != due[tier.law.identity]
        ]

    def _step(self, upper: TierLaw, lower: TierLaw) -> str | None:
        """The witness against a residual between two laws, or None where there is one."""
        pair = upper, lower
        if pair not in self._steps:
            self._steps[pair] = _witness(*pair)
        return self._steps[pair]

    def _order(self, plan: PlanRecord) -> list[Finding]:
        where = f"leaf {plan.leaf}"
        found = []
        ranks = [tier.rank for tier in plan.tiers]
        if not ranks or ranks != sorted(set(ranks)) or ranks[0] < 1:
            found.append(Finding("A1", "ranks", where, str(ranks), "distinct ranks, rising, from 1"))
        if len({tier.law.delta for tier in plan.tiers}) > 1:
            found.append(Finding("A1", "one-delta", where, "one nominal δ", "several"))
        for upper, lower in pairwise(plan.tiers):
            if lower.law.epsilon() >= upper.law.epsilon():
                claimed = f"tier {lower.rank} below tier {upper.rank}"
                found.append(Finding("A1", "falling-epsilon", where, claimed, decimal_text(lower.law.epsilon())))
                continue
            witness = self._step(upper.law, lower.law)
            if witness is not None:
                found.append(Finding("A1", "residual", where, f"tier {upper.rank} reaches {lower.rank}", witness))
        return found

    def _tier(
        self, plan: PlanRecord, tier: ClaimedTier, kind: LedgerKind, rules: frozenset[LevelRule]
    ) -> tuple[list[Finding], frozenset[LevelRule]]:
        where = f"leaf {plan.leaf}, tier {tier.rank}"
        epsilon = tier.law.epsilon()
        if not EPSILON_FLOOR <= epsilon <= EPSILON_CEILING:
            limits = f"{decimal_text(EPSILON_FLOOR)} to {decimal_text(EPSILON_CEILING)}"
            return [Finding("A1", "epsilon-range", where, f"ε of {epsilon.numerator.bit_length()} bits", limits)], rules
        if (kind, tier.law) not in self._certificates:
            self._certificates[kind, tier.law] = _Certificate.of(kind, tier.law)
        due = self._certificates[kind, tier.law]
        found = []
        if due.epsilon != tier.epsilon:
            found.append(Finding("A1", "guarantee", where, decimal_text(tier.epsilon), decimal_text(epsilon)))
        if isinstance(due.levels, str):
            found.append(Finding("A1", "chargeable", where, tier.law.noise.family, due.levels))
        elif by := frozenset(rule for rule in rules if due.levels[rule] == tier.level_nano):
            rules = by
        else:
            found.append(Finding("A1", "level", where, str(tier.level_nano), str(due.levels[newest(rules)])))
        if due.half_width != tier.half_width:
            found.append(Finding("A1", "error-bar", where, str(tier.half_width), str(due.half_width)))
        if tier.law.delta != 0 and kind is LedgerKind.PURE:
            found.append(Finding("A1", "pure", where, decimal_text(tier.law.delta), "0 in a pure ledger"))
        return found, rules


@dataclass(frozen=True, slots=True)
class _Certificate:
    """What a law's parameters say of it; instead of its level by each rule, why the ledger has none for it."""

    epsilon: Fraction
    levels: Mapping[LevelRule, int] | str
    half_width: int

    @classmethod
    def of(cls, kind: LedgerKind, law: TierLaw) -> "_Certificate":
        try:
            levels: Mapping[LevelRule, int] | str = {rule: tier_level(kind, law, rule) for rule in LevelRule}
        except InvalidParameterError as error:
            levels = str(error)[:200]
        return cls(law.epsilon(), levels, law.noise.half_width(CONFIDENCE))


def _identity(plan: PlanRecord, lineage_of_snapshot: str | None) -> list[Finding]:
    where = f"leaf {plan.leaf}"
    found = []
    chain = chain_identity(plan.lineage, plan.snapshot, plan.fingerprint)
    if chain != plan.chain:
        found.append(Finding("A1", "chain-identity", where, plan.chain, chain))
    if lineage_of_snapshot != plan.lineage:
        found.append(Finding("A1", "snapshot-of-lineage", where, plan.snapshot, "no such snapshot of this lineage"))
    return found


def _witness(upper: TierLaw, lower: TierLaw) -> str | None:
    try:
        residual(upper.noise, lower.noise)
    except NoResidualError as error:
        return error.witness
    except (SlackNotAllowedError, InvalidParameterError) as error:
        return str(error)
    return None
