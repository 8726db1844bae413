"""The gate: A1, A2 and A3 of a release, from the log's own leaves, inside the sale's transaction.

What it knows of other sales is read from leaves that have committed; a transaction that fails leaves no trace in it.
"""

from collections import OrderedDict
from dataclasses import replace

from sqlalchemy import Connection, bindparam, select

from app.audit.reading import UNREADABLE, Reader
from app.audit.stream import LogAudit
from app.engine.state import ChainState
from app.log.leaves import (
    DatasetLeaf,
    EpochLeaf,
    FreezeLeaf,
    Leaf,
    PlanLeaf,
    SaleLeaf,
    SnapshotLeaf,
    ThawLeaf,
    WithdrawalLeaf,
    decode,
)
from app.store.schema import draws, leaves, products
from tiers.audit.findings import Finding
from tiers.audit.ledger import LedgerReplay
from tiers.audit.records import BudgetRecord, PlanRecord, SaleRecord

__all__ = ["Gate"]

_FOLLOWED = ("key-epoch", "dataset", "snapshot", "product-plan", "sale", "withdrawal", "freeze", "thaw")
_CERTIFIED = ("A1", "A2")
_KEPT = 10_000
_LEAF = select(leaves.c.body, leaves.c.leaf_hash).where(leaves.c.log_index == bindparam("place"))
_SINCE = (
    select(leaves.c.log_index, leaves.c.body, leaves.c.leaf_hash)
    .where(leaves.c.log_index >= bindparam("since"), leaves.c.log_index < bindparam("until"))
    .where(leaves.c.kind.in_(_FOLLOWED))
    .order_by(leaves.c.log_index)
)
_PLANNED = (
    select(products.c.leaf_index).where(products.c.chain_id == bindparam("chain")).order_by(products.c.leaf_index)
)


class Gate:
    """The gate of one process. Its first release reads the log's leaves once; every later one, those since.

    Memory: a lineage's and a chain's numbers, 32 bytes a sale, and which chains were certified.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._size = 0
        self._last: bytes | None = None
        self._ledger = LedgerReplay()
        self._reader = Reader()
        self._epochs: list[EpochLeaf] = []
        self._data: dict[str, list[DatasetLeaf | SnapshotLeaf]] = {}
        self._certified: OrderedDict[tuple[object, ...], None] = OrderedDict()

    def check(self, connection: Connection, chain: ChainState, sold: int) -> tuple[Finding, ...]:
        """Return what is wrong with the release that the sale's leaf at index `sold` logs.

        Args:       chain: as stored, its draws included. sold: the last leaf of this transaction; before it, the
                    transaction has logged draws at most.
        """
        try:
            self.follow(connection, sold)
            sale = self._sale(connection, sold)
            found = [*self._certify(connection, chain), *self._ledger.judge(sale)]
        except UNREADABLE as error:
            found = [Finding("A4", "unreadable-leaf", f"leaf {sold}", "leaves that can be read", type(error).__name__)]
        return tuple(replace(finding, chain=chain.id) for finding in found)

    def follow(self, connection: Connection, size: int) -> None:
        """Read what was logged since the last release, up to a size.

        Writes that commit together are seen before they do: where the last leaf seen is another one now, or none, what
        was seen has been undone, and all is read again.
        """
        if self._last is not None:
            seen = connection.execute(_LEAF, {"place": self._size - 1}).one_or_none()
            if seen is None or seen.leaf_hash != self._last:
                self._forget()
        for index, body, digest in connection.execute(_SINCE, {"since": self._size, "until": size}):
            self._take(decode(body))
            self._size, self._last = index + 1, digest

    def _take(self, leaf: Leaf) -> None:
        record = None if isinstance(leaf, SnapshotLeaf) else self._reader.read(leaf)
        match record:
            case SaleRecord():
                self._ledger.sale(record)
            case PlanRecord():
                self._ledger.plan(record)
            case BudgetRecord():
                self._ledger.budget(record)
        match leaf:
            case EpochLeaf():
                self._epochs.append(leaf)
            case DatasetLeaf() | SnapshotLeaf():
                self._data.setdefault(leaf.lineage, []).append(leaf)
            case WithdrawalLeaf():
                self._ledger.withdraw(leaf.product, leaf.index)
            case FreezeLeaf():
                self._ledger.freeze(leaf.chain, leaf.index)
            case ThawLeaf():
                self._ledger.thaw(leaf.chain)

    def _sale(self, connection: Connection, sold: int) -> SaleRecord:
        leaf = decode(connection.execute(_LEAF, {"place": sold}).one().body)
        record = self._reader.read(leaf) if isinstance(leaf, SaleLeaf) else None
        if not isinstance(record, SaleRecord):
            raise ValueError("leaf: expected a sale, got another kind")
        return record

    def _certify(self, connection: Connection, chain: ChainState) -> list[Finding]:
        """A1 and A2 of one chain; once for the same plans and the same commitments."""
        planned = tuple(connection.execute(_PLANNED, {"chain": chain.id}).scalars())
        name = (chain.id, planned, tuple(tier.commitment for tier in chain.tiers))
        if name in self._certified:
            self._certified.move_to_end(name)
            return []
        drawn = connection.execute(select(draws.c.leaf_index).where(draws.c.chain_id == chain.id)).scalars()
        places = (*planned, *drawn)
        bodies = connection.execute(select(leaves.c.body).where(leaves.c.log_index.in_(places))).scalars()
        of_chain = [decode(body) for body in bodies]
        lineages = {leaf.lineage for leaf in of_chain if isinstance(leaf, PlanLeaf)}
        around = [leaf for lineage in lineages for leaf in self._data.get(lineage, [])]
        audit = LogAudit()
        for leaf in sorted((*self._epochs, *around, *of_chain), key=lambda each: each.index):
            audit.leaf(leaf)
        found = [finding for finding in audit.finish() if finding.check in _CERTIFIED]
        found += _differing(chain, audit)
        if not found:
            self._certified[name] = None
            while len(self._certified) > _KEPT:
                self._certified.popitem(last=False)
        return found


def _differing(chain: ChainState, audit: LogAudit) -> list[Finding]:
    """Tiers whose stored answer is committed to otherwise than the log says: another one would be sold."""
    drawn = audit.provenance.chains.get(chain.id)
    logged = {} if drawn is None else {law: draw.commitment for law, draw in drawn.draws.items()}
    return [
        Finding(
            "A2", "stored-answer", f"tier {tier.rank}", str(tier.commitment)[:16], logged.get(tier.law, "none")[:16]
        )
        for tier in chain.tiers
        if tier.commitment != logged.get(tier.law)
    ]
