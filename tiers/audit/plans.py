"""A1: every plan recomputed from its parameters alone; nothing it claims is trusted."""

from itertools import pairwise

from tiers.accounting.charges import LedgerKind
from tiers.accounting.levels import tier_level
from tiers.audit.findings import Finding
from tiers.audit.records import ClaimedTier, History, PlanRecord
from tiers.budget import EPSILON_CEILING, EPSILON_FLOOR, decimal_text
from tiers.chain import CONFIDENCE
from tiers.errors import InvalidParameterError, NoResidualError, SlackNotAllowedError
from tiers.identity import TierLaw, chain_identity
from tiers.rank import by_accuracy
from tiers.residual.plan import residual

__all__ = ["check_plans"]


def check_plans(history: History) -> tuple[Finding, ...]:
    """Return what is wrong with the plans: identity, order, ranks, residuals, exact ε, levels, bars, change sets."""
    found: list[Finding] = []
    planned: dict[str, int] = {}
    kinds = history.kinds()
    for plan in history.plans:
        if plan.product in planned:
            claimed = f"planned at leaf {planned[plan.product]}"
            found.append(Finding("A1", "planned-once", f"leaf {plan.leaf}", claimed, "planned again"))
        planned[plan.product] = plan.leaf
        found += _identity(plan, history)
        found += _order(plan)
        for tier in plan.tiers:
            found += _tier(plan, tier, kinds.get(plan.lineage, LedgerKind.PURE))
    return (*found, *_ranks(history))


def _ranks(history: History) -> list[Finding]:
    """A law's rank is its place, by accuracy, among the laws that its chain's plans have named by then."""
    laws: dict[str, dict[str, TierLaw]] = {}
    found = []
    for plan in history.plans:
        known = laws.setdefault(plan.chain, {})
        known.update({tier.law.identity: tier.law for tier in plan.tiers})
        due = {law.identity: rank for rank, law in enumerate(by_accuracy(known.values()), start=1)}
        for tier in plan.tiers:
            rank = due[tier.law.identity]
            if tier.rank != rank:
                where = f"leaf {plan.leaf}"
                found.append(Finding("A1", "rank-of-chain", where, f"rank {tier.rank}", f"rank {rank}"))
    return found


def _identity(plan: PlanRecord, history: History) -> list[Finding]:
    where = f"leaf {plan.leaf}"
    found = []
    chain = chain_identity(plan.lineage, plan.snapshot, plan.fingerprint)
    if chain != plan.chain:
        found.append(Finding("A1", "chain-identity", where, plan.chain, chain))
    if history.snapshots.get(plan.snapshot) != plan.lineage:
        found.append(Finding("A1", "snapshot-of-lineage", where, plan.snapshot, "no such snapshot of this lineage"))
    if len({tier.law.change_set for tier in plan.tiers}) > 1:
        found.append(Finding("A1", "one-change-set", where, "one set of change vectors", "several"))
    return found


def _order(plan: PlanRecord) -> list[Finding]:
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
        try:
            residual(upper.law.noise, lower.law.noise)
        except (NoResidualError, SlackNotAllowedError, InvalidParameterError) as error:
            witness = error.witness if isinstance(error, NoResidualError) else str(error)
            found.append(Finding("A1", "residual", where, f"tier {upper.rank} reaches {lower.rank}", witness))
    return found


def _tier(plan: PlanRecord, tier: ClaimedTier, kind: LedgerKind) -> list[Finding]:
    where = f"leaf {plan.leaf}, tier {tier.rank}"
    epsilon = tier.law.epsilon()
    if not EPSILON_FLOOR <= epsilon <= EPSILON_CEILING:
        limits = f"{decimal_text(EPSILON_FLOOR)} to {decimal_text(EPSILON_CEILING)}"
        return [Finding("A1", "epsilon-range", where, f"ε of {epsilon.numerator.bit_length()} bits", limits)]
    found = []
    if epsilon != tier.epsilon:
        found.append(Finding("A1", "guarantee", where, decimal_text(tier.epsilon), decimal_text(epsilon)))
    try:
        level = tier_level(kind, tier.law)
    except InvalidParameterError as error:
        found.append(Finding("A1", "chargeable", where, tier.law.noise.family, str(error)[:200]))
    else:
        if level != tier.level_nano:
            found.append(Finding("A1", "level", where, str(tier.level_nano), str(level)))
    half_width = tier.law.noise.half_width(CONFIDENCE)
    if half_width != tier.half_width:
        found.append(Finding("A1", "error-bar", where, str(tier.half_width), str(half_width)))
    if tier.law.delta != 0 and kind is LedgerKind.PURE:
        found.append(Finding("A1", "pure", where, decimal_text(tier.law.delta), "0 in a pure ledger"))
    return found
