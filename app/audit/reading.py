"""From leaves to the records that the pure checks read; every text is bounded and canonical before it is a number."""

from collections.abc import Iterable
from fractions import Fraction

from app.log.leaves import (
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
from tiers.accounting.charges import LedgerKind
from tiers.accounting.levels import rho_above
from tiers.audit.findings import Finding
from tiers.audit.records import BudgetRecord, ClaimedTier, CreditRecord, DrawRecord, History, PlanRecord, SaleRecord
from tiers.budget import decimal_text, parse_decimal
from tiers.errors import InvalidParameterError, TierError
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.noise.law import parse_whole
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.tsg import TwoSidedGeometric

__all__ = ["UNREADABLE", "read_history"]

UNREADABLE = (TierError, ValueError, ArithmeticError, TypeError, RecursionError)
"""What reading hostile text may raise: each becomes a finding."""

_FAMILIES = {"discrete-gaussian", "lattice-gaussian", "msdlap", "skellam", "tsg"}
_SCALES, _VARIANCE, _VECTORS, _DELTA = 16, 2.0**60, 2**20, Fraction(1, 10**30)


def read_history(leaves: Iterable[Leaf]) -> tuple[History, tuple[Finding, ...]]:
    """Return the history, and a finding for every leaf that has no audit reading."""
    read = _Reader()
    found: list[Finding] = []
    for leaf in leaves:
        try:
            read.one(leaf)
        except UNREADABLE as error:
            rule = "unreadable-leaf"
            found.append(Finding("A4", rule, f"leaf {leaf.index}", type(leaf).__name__, str(error)[:200]))
    return read.history(), tuple(found)


class _Reader:
    """What has been read so far."""

    def __init__(self) -> None:
        self.budgets: dict[str, BudgetRecord] = {}
        self.snapshots: dict[str, str] = {}
        self.epochs: dict[int, int] = {}
        self.plans: list[PlanRecord] = []
        self.draws: list[DrawRecord] = []
        self.sales: list[SaleRecord] = []
        self.withdrawn: dict[str, int] = {}
        self.credits: list[CreditRecord] = []

    def one(self, leaf: Leaf) -> None:
        match leaf:
            case DatasetLeaf():
                self._budget(leaf)
            case SnapshotLeaf():
                if leaf.snapshot in self.snapshots:
                    raise ValueError("snapshot: expected an id minted once, got it again")
                self.snapshots[leaf.snapshot] = leaf.lineage
            case EpochLeaf():
                if leaf.purpose == "noise":
                    self.epochs.setdefault(leaf.epoch, leaf.index)
            case PlanLeaf():
                self.plans.append(_plan(leaf))
            case DrawLeaf():
                self.draws.append(_draw(leaf))
            case SaleLeaf():
                self.sales.append(_sale(leaf))
            case WithdrawalLeaf():
                self.withdrawn.setdefault(leaf.product, leaf.index)
            case CreditLeaf():
                self.credits.append(CreditRecord(leaf.index, leaf.order, leaf.amount_minor))
            case _:
                pass  # a price book has no record here: `app.audit.trade` reads it

    def _budget(self, leaf: DatasetLeaf) -> None:
        kind = LedgerKind(leaf.budget_kind)
        if (kind is LedgerKind.APPROX) != (leaf.promise is not None):
            raise ValueError("promise: expected one of an approximate budget, and of no other, got another")
        if leaf.budget_nano < 1:
            raise ValueError("budget: expected at least 10⁻⁹, got none")
        if leaf.lineage in self.budgets:
            raise ValueError("lineage: expected one budget a lineage, got a second")
        self.budgets[leaf.lineage] = BudgetRecord(leaf.index, leaf.lineage, leaf.budget_nano, kind)

    def history(self) -> History:
        return History(
            tuple(self.budgets.values()),
            self.snapshots,
            self.epochs,
            tuple(self.plans),
            tuple(self.draws),
            tuple(self.sales),
            self.withdrawn,
            tuple(self.credits),
        )


def _law(document: object) -> TierLaw:
    """Read a law that this version sells: its work is bounded, whatever its parameters."""
    if not isinstance(document, dict) or document.get("family") not in _FAMILIES:
        raise InvalidParameterError("law", f"a law of a family of {sorted(_FAMILIES)}", "another law")
    law = TierLaw.from_document(document)
    noise = law.noise
    if not isinstance(noise, TwoSidedGeometric):
        scales = noise.scales if isinstance(noise, MultiScaleDiscreteLaplace) else 1
        step, bins = law.change_set.step, law.change_set.bins
        if scales > _SCALES or not noise.variance() < _VARIANCE or (not law.pure and max(step, bins) > _VECTORS):
            raise InvalidParameterError("law", "one of bounded scales, variance and change set", "a larger one")
        if not law.pure and law.delta < _DELTA:
            raise InvalidParameterError("delta", "at least 10⁻³⁰", "a smaller one")
        law.epsilon()  # raises here, where that is a finding, or never
        rho_above(law)
    return law


def _plan(leaf: PlanLeaf) -> PlanRecord:
    tiers = []
    for tier in leaf.tiers:
        epsilon = parse_decimal("epsilon", tier.epsilon)
        if decimal_text(epsilon) != tier.epsilon:
            raise InvalidParameterError("epsilon", decimal_text(epsilon), tier.epsilon)
        half_width = parse_whole("half width", tier.half_width)
        tiers.append(ClaimedTier(tier.rank, _law(tier.law), epsilon, tier.level_nano, half_width))
    return PlanRecord(leaf.index, leaf.product, leaf.chain, leaf.lineage, leaf.snapshot, leaf.fingerprint, tuple(tiers))


def _draw(leaf: DrawLeaf) -> DrawRecord:
    spec = DrawSpec(
        chain=leaf.chain,
        epoch=leaf.epoch,
        role=Role(leaf.role),
        law=_law(leaf.law),
        parents=tuple(_law(parent) for parent in leaf.parents),
        grain=leaf.grain,
        length=leaf.length,
        sampler=leaf.sampler,
    )
    if leaf.stream != spec.document()["stream"]:
        raise ValueError(f"stream layout: expected version {spec.document()['stream']}, got {leaf.stream}")
    return DrawRecord(leaf.index, spec, leaf.place, tuple(leaf.parent_commitments), leaf.commitment, leaf.key_hash)


def _sale(leaf: SaleLeaf) -> SaleRecord:
    return SaleRecord(leaf.index, leaf.order, leaf.product, leaf.chain, leaf.law, leaf.charge_nano, leaf.price_minor)
