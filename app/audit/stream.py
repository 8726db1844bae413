"""A log audited while it is read: every check takes each leaf once, in order, and keeps what later leaves need."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain as joined

from app.audit.locations import LocationAudit
from app.audit.panels import PanelAudit
from app.audit.questions import Questions
from app.audit.reading import UNREADABLE, Reader, Record
from app.audit.relations import Relations
from app.audit.signing import Announcements, Times
from app.audit.statistics import EdgeCheck
from app.audit.stopped import StopAudit
from app.audit.trade import Trade
from app.log.leaves import (
    BookLeaf,
    CreditLeaf,
    DatasetLeaf,
    DrawLeaf,
    EpochLeaf,
    FreezeLeaf,
    Leaf,
    PlanLeaf,
    SaleLeaf,
    ThawLeaf,
    WithdrawalLeaf,
)
from app.log.location_leaves import LocationAnswerLeaf, LocationLeaf, LocationSaleLeaf
from app.log.panel_leaves import (
    LateDrawLeaf,
    LateTierLeaf,
    PanelLeaf,
    PanelSaleLeaf,
    PanelStopLeaf,
    PanelThawLeaf,
    RoundLeaf,
)
from tiers.audit.findings import Finding
from tiers.audit.ledger import LedgerReplay
from tiers.audit.plans import PlanAudit
from tiers.audit.provenance import Provenance
from tiers.audit.records import BudgetRecord, CreditRecord, DrawRecord, PlanRecord, SaleRecord

__all__ = ["BROKEN", "FOUND_LIMIT", "LogAudit"]

FOUND_LIMIT = 10_000
"""Findings that are kept of a log; the rest is counted."""

BROKEN = (*UNREADABLE, LookupError, AssertionError)
"""What a log that nobody foresaw may raise in a check: a finding, never a crash."""


class LogAudit:
    """A1 to A4 of the leaves, in one pass. Memory grows with plans, draws and 50 bytes a sale, not with the log's text.

    `found` gathers what is wrong; `finish` adds what only the whole log shows.
    """

    def __init__(self, edges: Sequence[EdgeCheck] = ()) -> None:
        self._edges = edges
        self.found: list[Finding] = []
        self.dropped = 0
        self.announced = Announcements()
        self.times = Times()
        self.provenance = Provenance()
        self.ledger = LedgerReplay()
        self.plans: dict[str, list[PlanRecord]] = {}
        self.leaves = self.draws = self.sales = 0
        self._reader = Reader()
        self._relations = Relations()
        self._questions = Questions()
        self._certificates = PlanAudit()
        self._trade = Trade()
        self._panels = PanelAudit()
        self._locations = LocationAudit()
        self._stops = StopAudit(self._panels.panels, self._locations.panels)
        self._epochs: set[int] = set()
        self._steps: dict[type, Callable[[Leaf, Record | None], None]] = {
            SaleLeaf: self._sale,
            DrawLeaf: self._draw,
            PlanLeaf: self._plan,
            EpochLeaf: self._epoch,
            DatasetLeaf: self._dataset,
            BookLeaf: self._book,
            CreditLeaf: self._credit,
            PanelLeaf: self._panel,
            RoundLeaf: self._round,
            PanelSaleLeaf: self._panel_sale,
            LocationLeaf: self._location,
            LocationAnswerLeaf: self._location_answer,
            LocationSaleLeaf: self._location_sale,
        }

    @property
    def panels(self) -> int:
        """Return how many panels, of either kind, the log opened so far."""
        return len(self._panels.panels) + len(self._locations.panels)

    @property
    def empty(self) -> bool:
        """Return whether no chain was planned so far and no panel opened: nothing to audit."""
        return not (self.plans or self.panels)

    def leaf(self, leaf: Leaf) -> None:
        """Take the next leaf of the log."""
        if self.leaves == 0 and not (isinstance(leaf, EpochLeaf) and leaf.purpose == "signing"):
            self.found.append(
                Finding("A4", "first-leaf", "leaf 0", "the announcement of a signing key", "another leaf")
            )
        self.leaves += 1
        before = len(self.found)
        if leaf.at != self.times.above:
            self.found += self.times.take(leaf.index, leaf.at)
        try:
            record = self._reader.read(leaf)
        except UNREADABLE as error:
            rule = "unreadable-leaf"
            self.found.append(Finding("A4", rule, f"leaf {leaf.index}", type(leaf).__name__, str(error)[:200]))
            record = None
        try:
            self._steps.get(type(leaf), self._other)(leaf, record)
        except BROKEN as error:
            wanted = "one that can be checked"
            self.found.append(Finding("A4", "unreadable-log", f"leaf {leaf.index}", wanted, type(error).__name__))
        if len(self.found) > before:
            chain = getattr(leaf, "chain", None)
            self.found[before:] = [replace(finding, chain=chain) for finding in self.found[before:]]
            self.dropped += max(0, len(self.found) - FOUND_LIMIT)
            del self.found[FOUND_LIMIT:]

    def finish(self) -> list[Finding]:
        """Return all findings of A1 to A4 between leaves."""
        ends: tuple[Callable[[], list[Finding]], ...] = (
            self.provenance.finish,
            self.ledger.finish,
            lambda: self._trade.finish(self.ledger.orders),
        )
        for end in ends:
            try:
                self.found += end()
            except BROKEN as error:
                wanted = "one that can be checked"
                self.found.append(Finding("A4", "unreadable-log", "log", wanted, type(error).__name__))
        return self.found

    def chains(self) -> Iterator[str]:
        """Yield every chain that the log plans or draws, each once."""
        yield from dict.fromkeys(joined(self.plans, self.provenance.chains))

    def _sale(self, leaf: Leaf, record: Record | None) -> None:
        assert isinstance(leaf, SaleLeaf)
        assert isinstance(record, SaleRecord)
        self.sales += 1
        found = self.ledger.sale(record)
        early = self.provenance.sale(record)
        if found or early:
            self.found += (*found, *early)
        self._trade.sale(leaf)
        for check in self._edges:
            check.read(record)

    def _draw(self, leaf: Leaf, record: Record | None) -> None:
        if isinstance(record, DrawRecord):
            self.draws += 1
            self.found += self.provenance.draw(record)
            self.found += self.ledger.draw(record)
            self.found += self._questions.draw(record)
            for check in self._edges:
                check.read(record)

    def _plan(self, leaf: Leaf, record: Record | None) -> None:
        assert isinstance(leaf, PlanLeaf)
        self.found += self._relations.leaf(leaf)
        self.found += self._locations.plan(leaf)
        if isinstance(record, PlanRecord):
            self.plans.setdefault(record.chain, []).append(record)
            lineage = self._relations.snapshots.get(record.snapshot)
            self.found += self._certificates.plan(record, lineage, self.ledger.kind(record.lineage))
            self.provenance.plan(record)
            self.found += self.ledger.plan(record)
        self.found += self._questions.plan(leaf, record if isinstance(record, PlanRecord) else None)
        self._trade.plan(leaf, record if isinstance(record, PlanRecord) else None)

    def _epoch(self, leaf: Leaf, _record: Record | None) -> None:
        assert isinstance(leaf, EpochLeaf)
        self.found += self.announced.take(leaf)
        if leaf.purpose == "noise":
            self.provenance.epoch(leaf.epoch)
            self._epochs.add(leaf.epoch)

    def _dataset(self, leaf: Leaf, record: Record | None) -> None:
        assert isinstance(leaf, DatasetLeaf)
        self.found += self._relations.leaf(leaf)
        if isinstance(record, BudgetRecord):
            self.found += self.ledger.budget(record)
        self.found += self._questions.dataset(leaf)
        self._trade.dataset(leaf)

    def _book(self, leaf: Leaf, _record: Record | None) -> None:
        assert isinstance(leaf, BookLeaf)
        self._trade.reprice(leaf)

    def _credit(self, leaf: Leaf, record: Record | None) -> None:
        assert isinstance(leaf, CreditLeaf)
        assert isinstance(record, CreditRecord)
        self.found += self._relations.leaf(leaf)
        self.ledger.credit(record)
        self._trade.credit(leaf)

    def _panel(self, leaf: Leaf, _record: Record | None) -> None:
        assert isinstance(leaf, PanelLeaf)
        self.found += self._panels.panel(leaf)

    def _round(self, leaf: Leaf, _record: Record | None) -> None:
        assert isinstance(leaf, RoundLeaf)
        self.found += self._panels.round(leaf, self._epochs, self.announced.keys)

    def _panel_sale(self, leaf: Leaf, _record: Record | None) -> None:
        assert isinstance(leaf, PanelSaleLeaf)
        self.sales += 1
        self.found += self._panels.sale(leaf) + self._stops.act(leaf)
        self.ledger.paid(leaf.order, leaf.index, leaf.price_minor)
        self._trade.paid(leaf.currency)

    def _location(self, leaf: Leaf, _record: Record | None) -> None:
        assert isinstance(leaf, LocationLeaf)
        self.found += self._locations.panel(leaf, self._relations.snapshots)

    def _location_answer(self, leaf: Leaf, _record: Record | None) -> None:
        assert isinstance(leaf, LocationAnswerLeaf)
        self.found += self._locations.answer(leaf) + self._stops.act(leaf)

    def _location_sale(self, leaf: Leaf, _record: Record | None) -> None:
        assert isinstance(leaf, LocationSaleLeaf)
        self.sales += 1
        self.found += self._locations.sale(leaf) + self._stops.act(leaf)
        self.ledger.paid(leaf.order, leaf.index, leaf.price_minor)
        self._trade.paid(leaf.currency)

    def _other(self, leaf: Leaf, _record: Record | None) -> None:
        self.found += self._relations.leaf(leaf)
        match leaf:
            case WithdrawalLeaf():
                self.ledger.withdraw(leaf.product, leaf.index)
            case FreezeLeaf():
                self.ledger.freeze(leaf.chain, leaf.index)
            case ThawLeaf():
                self.ledger.thaw(leaf.chain)
            case PanelStopLeaf():
                self.found += self._stops.stop(leaf)
            case PanelThawLeaf():
                self.found += self._stops.thaw(leaf)
            case LateTierLeaf():
                self.found += self._panels.late_tier(leaf) + self._stops.act(leaf)
            case LateDrawLeaf():
                self.found += self._panels.late_draw(leaf)
            case _:
                pass
