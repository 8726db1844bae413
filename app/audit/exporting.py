"""Write the auditor's export: the log, the openings of issued ranks, the keys that tiers may be replayed with."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from sqlalchemy import Connection, select

from app.audit.export import FORMAT, Header, HeadRecord, KeyRecord, LeafRecord, OpeningRecord, encode_line
from app.audit.reading import UNREADABLE, Reader
from app.errors import IntegrityError
from app.log.journal import current_head, head_at, leaf_bodies
from app.log.leaves import DrawLeaf, Leaf
from app.store.schema import chains, datasets, draws, leaves
from tiers.audit.records import DrawRecord
from tiers.audit.replay import openable, replayable
from tiers.identity import TierLaw
from tiers.rank import more_accurate

if TYPE_CHECKING:
    from app.market import Market  # which does audits as jobs

__all__ = ["export_lines"]

_T = TypeVar("_T")
_BATCH = 1_000
_LEAF = msgspec.json.Decoder(Leaf)  # whoever reads the export checks that leaves are in their one form


class _Law(msgspec.Struct, frozen=True, tag_field="kind", tag="draw"):
    chain: str
    law: dict[str, Any]


class _Sold(msgspec.Struct, frozen=True, tag_field="kind", tag="sale"):
    chain: str
    law: str


class _Key(msgspec.Struct, frozen=True, tag_field="kind", tag="key-epoch"):
    purpose: str


_GLANCE = msgspec.json.Decoder(_Law | _Sold | _Key)


def export_lines(connection: Connection, market: "Market", *, withhold: bool = False) -> Iterator[bytes]:
    """Yield the lines of an export of the whole log, from one consistent read.

    What it discloses is decided from the log itself by the same rules that the verifier applies. Memory grows with
    draws, never with leaves or answers.

    Args:       withhold: leave out what cannot be opened, so that a verifier misses it by name, instead of failing.
    Raises:     IntegrityError: a stored answer is not what the log committed to.
    """
    head = current_head(connection)
    if head is None:
        raise IntegrityError("log: expected at least one leaf, got none")
    yield encode_line(Header(format=FORMAT, head=head, public_key=market.keyring.public_hex()))
    known = _Known()
    for index, body, digest in leaf_bodies(connection, 0, head.size):
        leaf = _read(known.take, body, withhold=withhold)
        yield encode_line(LeafRecord(index=index, hash=digest.hex(), leaf=msgspec.Raw(body)))
        if isinstance(leaf, _Key) and leaf.purpose == "signing" and index > 0:
            yield encode_line(HeadRecord(head=head_at(connection, index + 1)))
    wanted = (
        select(draws.c.law, draws.c.sealed_answer, draws.c.commitment, datasets.c.owner_id, leaves.c.body)
        .join(chains, chains.c.id == draws.c.chain_id)
        .join(datasets, datasets.c.id == chains.c.dataset_id)
        .join(leaves, leaves.c.log_index == draws.c.leaf_index)
        .order_by(draws.c.chain_id, draws.c.place)
        .execution_options(yield_per=_BATCH)
    )
    opened = 0
    for row in connection.execute(wanted):
        draw = _read(known.draw, row.body, withhold=withhold)
        if draw is None or draw.spec.law.identity != row.law:
            if withhold:
                continue
            raise IntegrityError("store: expected draws that the log announces, got another")
        issued = known.issued.get(draw.spec.chain)
        if openable(draw.spec.law, issued):
            opened += 1
            try:
                yield _opening(market, draw, row.sealed_answer, row.commitment)
            except IntegrityError:
                if not withhold:
                    raise
            if replayable(draw, issued) is None:
                key = market.engine.replay_key(row.owner_id, draw.spec)
                yield encode_line(KeyRecord(chain=draw.spec.chain, law=row.law, key=key.hex()))
    if opened < known.openable() and not withhold:
        raise IntegrityError("store: expected the answer that the log says was drawn, got none")


def _read(reading: Callable[[bytes], _T | None], body: bytes, *, withhold: bool) -> _T | None:
    """Return what is read of a leaf; one that cannot be read is nothing to withhold from, or the store's fault."""
    try:
        return reading(body)
    except UNREADABLE:
        if withhold:
            return None
        raise IntegrityError("log: expected leaves that can be read, got another") from None


class _Known:
    """What an export must know of the log: the laws drawn of each chain, and the highest issued one."""

    def __init__(self) -> None:
        self.issued: dict[str, TierLaw] = {}
        self._drawn: dict[str, dict[str, TierLaw]] = {}
        self._reader = Reader()

    def take(self, body: bytes) -> _Law | _Sold | _Key | None:
        """Read what matters of a leaf; returns that where it was read. Raises UNREADABLE."""
        if not any(kind in body for kind in (b'"kind":"draw"', b'"kind":"sale"', b'"kind":"key-epoch"')):
            return None
        leaf: _Law | _Sold | _Key = _GLANCE.decode(body)
        if isinstance(leaf, _Law):
            law = self._reader.law(leaf.law)
            self._drawn.setdefault(leaf.chain, {})[law.identity] = law
        elif isinstance(leaf, _Sold):
            sold = self._drawn.get(leaf.chain, {}).get(leaf.law)
            known = self.issued.get(leaf.chain)
            if sold is not None and (known is None or more_accurate(sold, known)):
                self.issued[leaf.chain] = sold
        return leaf

    def draw(self, body: bytes) -> DrawRecord | None:
        """Return the draw of a leaf, or None where it is none. Raises UNREADABLE."""
        leaf = _LEAF.decode(body)
        record = self._reader.read(leaf) if isinstance(leaf, DrawLeaf) else None
        return record if isinstance(record, DrawRecord) else None

    def openable(self) -> int:
        """Return how many answers an auditor must be given."""
        return sum(
            openable(law, self.issued.get(chain)) for chain, laws in self._drawn.items() for law in laws.values()
        )


def _opening(market: "Market", draw: DrawRecord, sealed: bytes | None, committed: str) -> bytes:
    if sealed is None or committed != draw.commitment:
        raise IntegrityError("store: expected the answer that the log says was drawn, got another or none")
    unsealed = market.engine.open(draw.spec.chain, draw.spec.law, sealed, committed)
    return encode_line(
        OpeningRecord(
            chain=draw.spec.chain,
            law=draw.spec.law.identity,
            opening=unsealed.opening.hex(),
            answer=[str(value) for value in unsealed.answer],
        )
    )
