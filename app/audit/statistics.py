"""Where statistical checks (A5) and coalitions (A6) are connected: what an auditor may open, edge by edge, and no more.

`verify_export(..., edges=...)` hands every opened edge to every check, in the order of the file. A check sees answers
at or below the highest issued tier alone. An alarm at the market's rate freezes a chain as any breach does.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from app.audit.export import LeafRecord, decode_line
from app.audit.reading import Reader
from app.log.leaves import Leaf, PlanLeaf, SaleLeaf, decode
from app.log.location_leaves import LocationSaleLeaf
from app.log.panel_leaves import PanelSaleLeaf
from tiers.audit.findings import Finding
from tiers.audit.records import ChainKey, DrawRecord, SaleRecord
from tiers.canonical import canonical_bytes
from tiers.identity import Role, TierLaw

__all__ = ["EdgeCheck", "Holding", "OpenedEdge", "holdings_of", "opened_edges", "panel_buyers"]


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


def holdings_of(
    read: Callable[[], Iterable[bytes]], pseudonyms: Collection[str], also: ChainKey | None = None
) -> tuple[tuple[Holding, ...], tuple[str, TierLaw] | None]:
    """Return what a set of accounts holds together, each tier once an account, and one more tier as a plan offers it.

    An export that has been verified is read twice, line by line: for what these accounts bought, then for the plans of
    those chains. Memory grows with what they hold, whatever the export's size.

    Args:       read: gives the export's lines from the first. also: chain and law of the further tier.
    Returns:    the holdings, and lineage and law of the further tier; None where no plan offers it.
    Raises:     UNREADABLE: the export holds something that no verified one does.
    """
    wanted = frozenset(pseudonyms)
    bought = dict.fromkeys(
        (leaf.pseudonym, leaf.chain, leaf.law)
        for leaf in _leaves_of(read(), b'"sale"')
        if isinstance(leaf, SaleLeaf) and leaf.pseudonym in wanted
    )
    needed = {chain for _, chain, _ in bought} | ({also[0]} if also else set())
    offers: dict[ChainKey, tuple[str, TierLaw]] = {}
    reader = Reader()
    for leaf in _leaves_of(read(), b'"product-plan"'):
        if isinstance(leaf, PlanLeaf) and leaf.chain in needed:
            laws = (reader.law(tier.law) for tier in leaf.tiers)
            offers.update({(leaf.chain, law.identity): (leaf.lineage, law) for law in laws})
    held = []
    for buyer, chain, name in bought:
        if (chain, name) not in offers:
            raise ValueError("export: expected a plan of what was sold, got none")
        lineage, law = offers[chain, name]
        held.append(Holding(buyer, lineage, chain, law))
    return tuple(held), None if also is None else offers.get(also)


def panel_buyers(read: Callable[[], Iterable[bytes]]) -> frozenset[str]:
    """Return who bought of a panel or a location panel, which are no datasets; raises UNREADABLE as `holdings_of`."""
    kinds = (PanelSaleLeaf, b'"panel-sale"'), (LocationSaleLeaf, b'"location-sale"')
    return frozenset(
        leaf.pseudonym for form, kind in kinds for leaf in _leaves_of(read(), kind) if isinstance(leaf, form)
    )


def _leaves_of(lines: Iterable[bytes], kind: bytes) -> Iterator[Leaf]:
    """The leaves of the lines that a kind's name stands in."""
    for line in lines:
        if kind not in line:
            continue
        try:
            record = decode_line(line)
        except msgspec.MsgspecError as error:
            raise ValueError("export: expected records of its format, got something else") from error
        if isinstance(record, LeafRecord):
            yield decode(canonical_bytes(msgspec.json.decode(record.leaf)))
