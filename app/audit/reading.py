"""From leaves to the records that the pure checks read."""

from collections.abc import Iterable
from fractions import Fraction

from app.log.leaves import (
    BookLeaf,
    CreditLeaf,
    DatasetLeaf,
    DrawLeaf,
    EpochLeaf,
    Leaf,
    PlanLeaf,
    SaleLeaf,
    SnapshotLeaf,
    WithdrawalLeaf,
)
from tiers.audit.findings import Finding
from tiers.audit.records import BudgetRecord, ClaimedTier, CreditRecord, DrawRecord, History, PlanRecord, SaleRecord
from tiers.errors import TierError
from tiers.identity import DrawSpec, Role, TierLaw

__all__ = ["read_history"]


def read_history(leaves: Iterable[Leaf]) -> tuple[History, tuple[Finding, ...]]:
    """Return the history, and a finding for every leaf that has no audit reading."""
    budgets: list[BudgetRecord] = []
    snapshots: dict[str, str] = {}
    epochs: dict[int, int] = {}
    plans: list[PlanRecord] = []
    draws: list[DrawRecord] = []
    sales: list[SaleRecord] = []
    withdrawn: dict[str, int] = {}
    credits: list[CreditRecord] = []
    found: list[Finding] = []
    for leaf in leaves:
        try:
            match leaf:
                case DatasetLeaf():
                    if leaf.budget_kind != "pure":
                        raise ValueError(f"budget kind: expected pure, got {leaf.budget_kind}")
                    if leaf.budget_nano < 1:
                        raise ValueError("budget: expected at least 10⁻⁹, got none")
                    if any(record.lineage == leaf.lineage for record in budgets):
                        raise ValueError("lineage: expected one budget a lineage, got a second")
                    budgets.append(BudgetRecord(leaf.index, leaf.lineage, leaf.budget_nano))
                case SnapshotLeaf():
                    if leaf.snapshot in snapshots:
                        raise ValueError("snapshot: expected an id minted once, got it again")
                    snapshots[leaf.snapshot] = leaf.lineage
                case EpochLeaf():
                    if leaf.purpose == "noise":
                        epochs.setdefault(leaf.epoch, leaf.index)
                case PlanLeaf():
                    plans.append(_plan(leaf))
                case DrawLeaf():
                    draws.append(_draw(leaf))
                case SaleLeaf():
                    sales.append(_sale(leaf))
                case WithdrawalLeaf():
                    withdrawn.setdefault(leaf.product, leaf.index)
                case BookLeaf():
                    pass  # prices are checked where they are sold: a sale's own leaf carries its price and version
                case CreditLeaf():
                    credits.append(CreditRecord(leaf.index, leaf.order, leaf.amount_minor))
        except (TierError, ValueError, ZeroDivisionError) as error:
            found.append(Finding("A4", "unreadable-leaf", f"leaf {leaf.index}", type(leaf).__name__, str(error)))
    history = History(
        tuple(budgets), snapshots, epochs, tuple(plans), tuple(draws), tuple(sales), withdrawn, tuple(credits)
    )
    return history, tuple(found)


def _plan(leaf: PlanLeaf) -> PlanRecord:
    tiers = tuple(
        ClaimedTier(
            rank=tier.rank,
            law=TierLaw.from_document(tier.law),
            epsilon=Fraction(tier.epsilon),
            level_nano=tier.level_nano,
            half_width=int(tier.half_width),
        )
        for tier in leaf.tiers
    )
    return PlanRecord(leaf.index, leaf.product, leaf.chain, leaf.lineage, leaf.snapshot, leaf.fingerprint, tiers)


def _draw(leaf: DrawLeaf) -> DrawRecord:
    spec = DrawSpec(
        chain=leaf.chain,
        epoch=leaf.epoch,
        role=Role(leaf.role),
        law=TierLaw.from_document(leaf.law),
        parents=tuple(TierLaw.from_document(parent) for parent in leaf.parents),
        grain=leaf.grain,
        length=leaf.length,
        sampler=leaf.sampler,
    )
    if leaf.stream != spec.document()["stream"]:
        raise ValueError(f"stream layout: expected version {spec.document()['stream']}, got {leaf.stream}")
    return DrawRecord(leaf.index, spec, leaf.place, tuple(leaf.parent_commitments), leaf.commitment, leaf.key_hash)


def _sale(leaf: SaleLeaf) -> SaleRecord:
    return SaleRecord(leaf.index, leaf.order, leaf.product, leaf.chain, leaf.law, leaf.charge_nano, leaf.price_minor)
