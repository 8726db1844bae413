"""The auditor's check of a round: it is in the log as its record says, and its tiers follow from each other.

A disclosure is a file of lines: first what the log says of the round and what opens it, from the highest tier sold
down, then that tier's reports, one JSON list a line. It is read in runs: memory does not grow with the round.
"""

import hmac
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, TypeVar

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.log.disclosures import Extent, Signature, first_line
from app.log.heads import TreeHead, public_keys
from app.log.leaf_base import Hex, LeafBase
from app.log.panel_leaves import PanelLeaf, PanelSaleLeaf, RoundLeaf, RoundRecord
from app.log.proofs import Proved
from app.panels.mechanism import read_plan
from app.panels.plans.base import Plan
from app.panels.plans.late import Menu
from app.panels.plans.lists import Lists
from app.panels.rounds import RUN, counts_commitment
from tiers.audit.findings import Finding
from tiers.budget import Ladder
from tiers.errors import TierError
from tiers.local.columns.chain import SAMPLER
from tiers.noise.law import parse_rational

__all__ = [
    "FORMAT",
    "LATE_FORMAT",
    "LINE_LIMIT",
    "Checks",
    "Disclosed",
    "RoundReport",
    "disclosed_tiers",
    "plan_of_record",
    "replay_round",
]

FORMAT = "tiermarket-round/3"
LATE_FORMAT = "tiermarket-round/4"
"""Of a panel that has added tiers: each line holds the reports of several tiers, side by side."""
LINE_LIMIT = 2**24
_LeafKind = TypeVar("_LeafKind", bound=LeafBase)


class Disclosed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A disclosure's first line.

    Args:       sale: of the tier from which on it is disclosed: the highest one sold. openings, counts: what opens the
                commitments to the reports, and to the counts, of that tier and each below. keys: of the steps below it.
                signature: the market's, that this is the highest one sold, and that no tier was added.
    """

    format: str
    head: TreeHead
    panel: Proved
    round: Proved
    sale: Proved
    openings: list[Hex]
    counts: list[Hex]
    keys: list[Hex]
    signature: Signature


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What a replay came to: "verified" where nothing was found.

    Args:       rank: of the highest tier disclosed, from 0. tiers: how many were derived or opened.
    """

    panel: str
    round: int
    rank: int
    tiers: int
    reports: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """Return the outcome in a word."""
        return "refuted" if self.findings else "verified"


def replay_round(lines: Iterable[bytes], publics: Collection[str]) -> RoundReport:
    """Return what a disclosure proves; every tier from the highest one sold down is derived again, bit for bit.

    Args:       lines: the disclosure, line by line. publics: the market's public keys (hex), got from elsewhere; one of
                them must have signed the head, and the round's record.
    Raises:     AuditError: nothing to check, no key, or one that is none.
    """
    trusted = public_keys(publics)
    read = iter(lines)
    from app.panels.late_replay import DisclosedLate, replay_late  # which goes on from here

    kinds: dict[str, type[Disclosed | DisclosedLate]] = {FORMAT: Disclosed, LATE_FORMAT: DisclosedLate}
    shown = first_line("round", next(read, b""), kinds)
    if isinstance(shown, DisclosedLate):
        return replay_late(shown, trusted, read)
    return _Replay(shown, trusted).report(read)


def disclosed_tiers(menu: Menu, number: int) -> tuple[list[int], list[int]]:
    """Return the tiers (by number) that may be shown where one is the highest sold, and which of them are derived.

    A tier is derived where all that it was drawn from is shown; of the others the reports themselves are shown.

    Example:
        >>> from app.panels.mechanism import plan_of
        >>> from app.panels.plans.late import Menu, law_of_late
        >>> opening = plan_of("subset", 16, Ladder.parse(["3", "1"]))
        >>> menu = Menu(opening, (Fraction(2),), (law_of_late(Menu(opening), Fraction(2)),))
        >>> disclosed_tiers(menu, 0), disclosed_tiers(menu, 2)
        (([0, 1, 2], [1, 2]), ([1, 2], []))
    """
    below = [each for each in range(len(menu)) if menu.epsilon(each) <= menu.epsilon(number)]
    return below, [each for each in below if menu.parents(each) and set(menu.parents(each)) <= set(below)]


class Checks:
    """What every disclosure is held against: leaves in the log, and the record that was signed."""

    def __init__(self, trusted: list[Ed25519PublicKey], where: str = "round") -> None:
        self.trusted, self.where, self.found = trusted, where, list[Finding]()

    def need(self, holds: bool, check: str, rule: str, claimed: object, otherwise: object) -> bool:
        """Note a finding where something does not hold."""
        if not holds:
            self.found.append(Finding(check, rule, self.where, str(claimed)[:60], str(otherwise)[:200]))
        return holds

    def named(
        self, head: TreeHead, panel: Proved, closed: Proved, sale: Proved
    ) -> tuple[PanelLeaf, RoundLeaf, PanelSaleLeaf] | None:
        """Return the leaves of panel, round and sale, each in the log under a head that a trusted key signed."""
        signed = any(head.signed_by(key) for key in self.trusted)
        self.need(signed, "A4", "head-signature", f"key {head.key}", "no trusted key")
        of_panel = self.leaf(head, "panel", panel, PanelLeaf)
        of_round = self.leaf(head, "round", closed, RoundLeaf)
        of_sale = self.leaf(head, "sale", sale, PanelSaleLeaf)
        if of_panel is None or of_round is None or of_sale is None:
            return None
        return of_panel, of_round, of_sale

    def leaf(self, head: TreeHead, name: str, proved: Proved, kind: type[_LeafKind]) -> _LeafKind | None:
        """Return a leaf of a kind that is in the log, or none with what is wrong."""
        try:
            leaf, _, included = proved.read(head)
        except (msgspec.MsgspecError, TierError, ValueError, RecursionError):
            self.need(False, "A4", "unreadable-leaf", name, "no leaf of a known kind")
            return None
        self.need(included, "A4", "inclusion", f"{name}: leaf {leaf.index}", "the proof does not lead to the head")
        if not isinstance(leaf, kind):
            self.need(False, "A4", "leaf-kind", name, type(leaf).__name__)
            return None
        return leaf

    def extent(self, extent: Extent, signature: str) -> None:
        """Hold how much a file holds against the market's signature."""
        held = ", ".join(f"{what} {count}" for what, count in extent.holds.items())
        signed = extent.signed(signature, self.trusted)
        self.need(signed, "A4", "disclosure-signature", held, "no trusted key signed that under this head")

    def signed_record(self, leaf: RoundLeaf) -> None:
        """Hold a round's record against its signature."""
        signature, signed = bytes.fromhex(leaf.signature), False
        for key in self.trusted:
            try:
                key.verify(signature, leaf.record.encode())
                signed = True
            except InvalidSignature:
                continue
        self.need(signed, "A4", "round-signature", f"key {leaf.key}", "no trusted key signed the record")

    def round_of(self, panel: PanelLeaf, leaf: RoundLeaf) -> None:
        """Hold a round's record against its panel, and its signature."""
        record = leaf.record
        self.signed_record(leaf)
        self.need(
            panel.panel == record.panel and panel.index < leaf.index, "A4", "panel-of-round", record.panel, panel.panel
        )
        planned = (panel.mechanism, panel.size, [(tier.epsilon, tier.law) for tier in panel.tiers])
        said = (record.mechanism, record.domain_size, [(tier.epsilon, tier.law) for tier in record.tiers])
        self.need(planned == said, "A1", "laws-of-panel", record.mechanism, "the panel opened with others")

    def check_record(self, panel: PanelLeaf, leaf: RoundLeaf, sale: PanelSaleLeaf, tiers: int) -> None:
        """Hold a round's record against its panel, its signature, and a sale of one of its tiers."""
        record = leaf.record
        self.round_of(panel, leaf)
        sold = (sale.panel, sale.round) == (record.panel, record.round) and leaf.index < sale.index
        sold = sold and sale.rank < tiers
        self.need(sold, "A7", "sale-of-round", f"leaf {sale.index}", "no sale of this round")


class _Replay(Checks):
    """One disclosure while it is read."""

    def __init__(self, shown: Disclosed, trusted: list[Ed25519PublicKey]) -> None:
        super().__init__(trusted)
        self.shown = shown

    def report(self, lines: Iterator[bytes]) -> RoundReport:
        named = self.named(self.shown.head, self.shown.panel, self.shown.round, self.shown.sale)
        if named is None:
            return RoundReport("", 0, 0, 0, 0, tuple(self.found))
        panel, leaf, sale = named
        record, reports = leaf.record, 0
        holds = {"round": record.round, "rank": sale.rank, "added": 0}
        self.extent(Extent(FORMAT, record.panel, self.shown.head, holds), self.shown.signature)
        self.check_record(panel, leaf, sale, len(record.tiers))
        try:
            plan = plan_of_record(record)
            reports = self._derive(plan, record, sale.rank, lines)
        except (TierError, ValueError, LookupError, ArithmeticError) as error:
            self.need(False, "A7", "unreadable-round", "one that can be replayed", type(error).__name__)
        tiers = max(0, len(record.tiers) - sale.rank)
        return RoundReport(record.panel, record.round, sale.rank, tiers, reports, tuple(self.found))

    def _derive(self, plan: Plan, record: RoundRecord, rank: int, lines: Iterator[bytes]) -> int:
        """Derive every tier below the disclosed one again, and hold each against its commitments."""
        shown, below = self.shown, record.tiers[rank:]
        keys = [bytes.fromhex(key) for key in shown.keys]
        if not (len(shown.openings) == len(shown.counts) == len(below) == len(keys) + 1):
            self.need(False, "A7", "evidence", f"{len(below)} tiers", "openings and keys for others")
            return 0
        for place, key in enumerate(keys, start=rank + 1):
            same = sha256(key).hexdigest() == record.tiers[place].key_hash
            self.need(same, "A7", "key", f"tier {place}", "another key than the step's")
        digests = [hmac.new(bytes.fromhex(opening), digestmod=sha256) for opening in shown.openings]
        counts = [np.zeros(0, np.int64) for _ in below]
        first = 0
        for run in _runs(lines):
            packed, faults = plan.pack(run, None, rank)
            for broken, rule in faults:
                if not self.need(
                    not broken.any(), "A7", "report-of-law", rule, f"report {first + int(broken.argmax())}"
                ):
                    return first
            for place, stored in enumerate(plan.derive(keys, first, packed.tobytes(), start=rank)):
                digests[place].update(stored)
                counted = plan.count(rank + place, stored)
                counts[place] = counted + counts[place] if len(counts[place]) else counted
            first += len(run)
        self.need(first == record.reports, "A7", "reports", record.reports, first)
        for place, tier in enumerate(below):
            same = digests[place].hexdigest() == tier.commitment
            self.need(same, "A7", "tier", f"tier {rank + place} as committed to", "other reports")
            counted_as = counts_commitment(bytes.fromhex(shown.counts[place]), counts[place])
            self.need(counted_as == tier.counts, "A7", "counts", f"tier {rank + place} as committed to", "other counts")
        return first


def plan_of_record(record: RoundRecord) -> Plan:
    """Return the plan that a round's record names, every ε and step checked; raises TierError, ValueError."""
    if record.sampler != SAMPLER:
        raise ValueError(f"sampler: expected {SAMPLER}, got another")
    ladder = Ladder.parse([parse_rational("epsilon", tier.epsilon) for tier in record.tiers])
    return read_plan(record.mechanism, record.domain_size, ladder, [tier.law for tier in record.tiers])


def _runs(lines: Iterator[bytes]) -> Iterator[Lists]:
    decoder, rows = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0, lt=2**32)]]), list[list[int]]()
    for line in lines:
        if len(line) > LINE_LIMIT:
            raise ValueError("line: expected a shorter one")
        rows.append(decoder.decode(line))
        if len(rows) == RUN:
            yield Lists.of(rows)
            rows = []
    if rows:
        yield Lists.of(rows)
