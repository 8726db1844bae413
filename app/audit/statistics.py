"""Where statistical checks (A5) and coalitions (A6) are connected: what an auditor may open, edge by edge, and no more.

`verify_export(..., edges=...)` hands every opened edge to every check, in the order of the file. A check sees answers
at or below the highest issued tier alone. An alarm at the market's rate freezes a chain as any breach does.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from app.audit.export import LeafRecord, decode_line
from app.log.leaves import PlanLeaf, SaleLeaf, decode
from tiers.audit.findings import Finding
from tiers.audit.records import ChainKey, DrawRecord, SaleRecord
from tiers.canonical import canonical_bytes
from tiers.identity import Role, TierLaw

__all__ = ["EdgeCheck", "Holding", "OpenedEdge", "holdings_of", "offers_of", "opened_edges"]


@dataclass(frozen=True, slots=True)
class OpenedEdge:
    """One draw beside the neighbours it was drawn from, all opened: what its noise was, given what was known.

    Args:       leaf: of the draw. parents, answers: as in the draw's spec, upper first; `answer` is the draw's own.
    """

    chain: str
    leaf: int
    role: Role
    law: TierLaw
    parents: tuple[TierLaw, ...]
    answer: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]


class EdgeCheck(Protocol):
    """A statistical check that looks on as the log is read and edges open; it is asked when all has been read."""

    def read(self, record: DrawRecord | SaleRecord) -> None:
        """Read the next draw or sale of the log."""

    def take(self, edge: OpenedEdge) -> None:
        """Look at the next edge."""

    def findings(self) -> Iterable[Finding]:
        """Return the alarms so far, at the rate that the check was made with."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One tier that one account holds: what `coalition` adds up."""

    buyer: str
    lineage: str
    chain: str
    law: TierLaw


def opened_edges(draws: Iterable[DrawRecord], answers: Mapping[ChainKey, tuple[int, ...]]) -> Iterator[OpenedEdge]:
    """Yield the edges of one chain whose both ends are open; truth draws are none."""
    for draw in draws:
        spec = draw.spec
        names = [(spec.chain, law.identity) for law in (spec.law, *spec.parents)]
        if spec.role.reads_truth or not all(name in answers for name in names):
            continue
        own, *others = (answers[name] for name in names)
        yield OpenedEdge(spec.chain, draw.leaf, spec.role, spec.law, spec.parents, own, tuple(others))


def holdings_of(lines: Iterable[bytes], pseudonyms: Collection[str]) -> tuple[Holding, ...]:
    """Return what a set of accounts holds together, from an export that has been verified; each tier once an account.

    Raises:     UNREADABLE: the export holds something that no verified one does.
    """
    wanted, held = frozenset(pseudonyms), {}
    offers: dict[ChainKey, tuple[str, TierLaw]] = {}
    for leaf in _plans_and_sales(lines):
        if isinstance(leaf, PlanLeaf):
            offers.update(_offers(leaf))
        elif leaf.pseudonym in wanted:
            lineage, law = offers[leaf.chain, leaf.law]
            held[leaf.pseudonym, leaf.chain, leaf.law] = Holding(leaf.pseudonym, lineage, leaf.chain, law)
    return tuple(held.values())


def offers_of(lines: Iterable[bytes]) -> dict[ChainKey, tuple[str, TierLaw]]:
    """Return the lineage and the law of every tier that a plan of an export offers; raises as `holdings_of`."""
    offers: dict[ChainKey, tuple[str, TierLaw]] = {}
    for leaf in _plans_and_sales(lines):
        if isinstance(leaf, PlanLeaf):
            offers.update(_offers(leaf))
    return offers


def _offers(leaf: PlanLeaf) -> dict[ChainKey, tuple[str, TierLaw]]:
    laws = [TierLaw.from_document(tier.law) for tier in leaf.tiers]
    return {(leaf.chain, law.identity): (leaf.lineage, law) for law in laws}


def _plans_and_sales(lines: Iterable[bytes]) -> Iterator[PlanLeaf | SaleLeaf]:
    for line in lines:
        if b'"sale"' not in line and b'"product-plan"' not in line:
            continue
        try:
            record = decode_line(line)
        except msgspec.MsgspecError as error:
            raise ValueError("export: expected records of its format, got something else") from error
        leaf = decode(canonical_bytes(msgspec.json.decode(record.leaf))) if isinstance(record, LeafRecord) else None
        if isinstance(leaf, PlanLeaf | SaleLeaf):
            yield leaf
