"""A4 between leaves: whatever a leaf names stands in an earlier leaf, and what is minted once is minted once."""

from collections.abc import Iterable

from app.log.leaves import CreditLeaf, DatasetLeaf, Leaf, PlanLeaf, SnapshotLeaf, WithdrawalLeaf
from tiers.audit.findings import Finding

__all__ = ["check_relations"]


def check_relations(leaves: Iterable[Leaf]) -> tuple[Finding, ...]:
    """Return every leaf that names what no earlier leaf brought in, and every identity or content that comes twice.

    Draws and sales name chains, products and laws; those are held against plans by A2 and A3.
    """
    datasets: set[str] = set()
    snapshots: dict[str, str] = {}
    contents: dict[str, str] = {}
    products: set[str] = set()
    withdrawn: set[str] = set()
    notes: set[str] = set()
    found: list[Finding] = []

    def need(holds: bool, rule: str, leaf: Leaf, claimed: str, otherwise: str) -> None:
        if not holds:
            found.append(Finding("A4", rule, f"leaf {leaf.index}", claimed[:60], otherwise))

    for leaf in leaves:
        match leaf:
            case DatasetLeaf():
                datasets.add(leaf.lineage)
            case SnapshotLeaf():
                need(leaf.lineage in datasets, "dataset-of-snapshot", leaf, leaf.lineage, "no earlier dataset's leaf")
                owner = contents.setdefault(leaf.content, leaf.snapshot)
                need(owner == leaf.snapshot, "one-content", leaf, leaf.snapshot, f"the content of {owner[:60]}")
                snapshots.setdefault(leaf.snapshot, leaf.lineage)
            case PlanLeaf():
                need(leaf.lineage in datasets, "dataset-of-plan", leaf, leaf.lineage, "no earlier dataset's leaf")
                earlier = snapshots.get(leaf.snapshot) == leaf.lineage
                need(earlier, "snapshot-of-plan", leaf, leaf.snapshot, "no earlier snapshot of this lineage")
                products.add(leaf.product)
            case WithdrawalLeaf():
                need(leaf.product in products, "product-of-withdrawal", leaf, leaf.product, "no earlier plan's leaf")
                need(leaf.product not in withdrawn, "withdrawn-once", leaf, leaf.product, "withdrawn before")
                withdrawn.add(leaf.product)
            case CreditLeaf():
                need(leaf.note not in notes, "one-note", leaf, leaf.note, "noted before")
                notes.add(leaf.note)
            case _:
                pass
    return tuple(found)
