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
from tiers.audit.records import ChainKey, DrawRecord
from tiers.canonical import canonical_bytes
from tiers.identity import Role, TierLaw

__all__ = ["EdgeCheck", "Holding", "OpenedEdge", "holdings_of", "opened_edges"]


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
    """A statistical check that looks on as edges open; it may be asked at any time, and again."""

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
    laws: dict[ChainKey, TierLaw] = {}
    lineages: dict[str, str] = {}
    for line in lines:
        if b'"kind":"sale"' not in line and b'"kind":"product-plan"' not in line:
            continue
        try:
            record = decode_line(line)
        except msgspec.MsgspecError as error:
            raise ValueError("export: expected records of its format, got something else") from error
        leaf = decode(canonical_bytes(msgspec.json.decode(record.leaf))) if isinstance(record, LeafRecord) else None
        if isinstance(leaf, PlanLeaf):
            lineages.setdefault(leaf.chain, leaf.lineage)
            for tier in leaf.tiers:
                law = TierLaw.from_document(tier.law)
                laws[leaf.chain, law.identity] = law
        elif isinstance(leaf, SaleLeaf) and leaf.pseudonym in wanted:
            law = laws[leaf.chain, leaf.law]
            held[leaf.pseudonym, leaf.chain, leaf.law] = Holding(leaf.pseudonym, lineages[leaf.chain], leaf.chain, law)
    return tuple(held.values())
