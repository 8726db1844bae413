"""A4 between leaves: whatever a leaf names stands in an earlier leaf, and what is minted once is minted once."""

from app.log.leaves import (
    CreditLeaf,
    DatasetLeaf,
    FreezeLeaf,
    Leaf,
    PlanLeaf,
    ReportLeaf,
    SnapshotLeaf,
    ThawLeaf,
    WithdrawalLeaf,
)
from tiers.audit.findings import Finding

__all__ = ["Relations"]


class Relations:
    """What earlier leaves brought in.

    Draws and sales name chains, products and laws; those are held against plans by A2 and A3.
    """

    def __init__(self) -> None:
        self.snapshots: dict[str, str] = {}
        self._datasets: set[str] = set()
        self._contents: dict[str, str] = {}
        self._products: set[str] = set()
        self._chains: set[str] = set()
        self._frozen: set[str] = set()
        self._withdrawn: set[str] = set()
        self._notes: set[str] = set()
        self._reports: set[str] = set()

    def leaf(self, leaf: Leaf) -> list[Finding]:
        """Take the next leaf; return a finding where it names what no earlier one brought in, or what came before."""
        found: list[Finding] = []

        def need(holds: bool, rule: str, claimed: str, otherwise: str) -> None:
            if not holds:
                found.append(Finding("A4", rule, f"leaf {leaf.index}", claimed[:60], otherwise))

        match leaf:
            case DatasetLeaf():
                self._datasets.add(leaf.lineage)
            case SnapshotLeaf():
                need(leaf.lineage in self._datasets, "dataset-of-snapshot", leaf.lineage, "no earlier dataset's leaf")
                owner = self._contents.setdefault(leaf.content, leaf.snapshot)
                need(owner == leaf.snapshot, "one-content", leaf.snapshot, f"the content of {owner[:60]}")
                need(leaf.snapshot not in self.snapshots, "snapshot-once", leaf.snapshot, "minted before")
                self.snapshots.setdefault(leaf.snapshot, leaf.lineage)
            case PlanLeaf():
                need(leaf.lineage in self._datasets, "dataset-of-plan", leaf.lineage, "no earlier dataset's leaf")
                earlier = self.snapshots.get(leaf.snapshot) == leaf.lineage
                need(earlier, "snapshot-of-plan", leaf.snapshot, "no earlier snapshot of this lineage")
                self._products.add(leaf.product)
                self._chains.add(leaf.chain)
            case WithdrawalLeaf():
                need(leaf.product in self._products, "product-of-withdrawal", leaf.product, "no earlier plan's leaf")
                need(leaf.product not in self._withdrawn, "withdrawn-once", leaf.product, "withdrawn before")
                self._withdrawn.add(leaf.product)
            case CreditLeaf():
                need(leaf.note not in self._notes, "one-note", leaf.note, "noted before")
                self._notes.add(leaf.note)
            case FreezeLeaf():
                need(leaf.chain in self._chains, "chain-of-freeze", leaf.chain, "no earlier plan's leaf")
                self._frozen.add(leaf.chain)
            case ThawLeaf():
                need(leaf.chain in self._frozen, "frozen-before-thaw", leaf.chain, "not frozen by an earlier leaf")
                self._frozen.discard(leaf.chain)
            case ReportLeaf():
                need(leaf.size <= leaf.index, "report-size", f"{leaf.size} leaves", f"at most {leaf.index}")
                need(leaf.report not in self._reports, "one-report", leaf.report, "reported before")
                self._reports.add(leaf.report)
            case _:
                pass
        return found
