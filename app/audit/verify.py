"""Offline verification of an export in one pass: A4 over the file, A1 to A3 leaf by leaf, A7 chain by chain."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from app.audit.export import FORMAT, Header, HeadRecord, KeyRecord, LeafRecord, OpeningRecord, decode_line, read_leaf
from app.audit.opened import OpenedChains
from app.audit.pictures import ChainPicture
from app.audit.reading import UNREADABLE
from app.audit.signers import check_signature, trusted_keys
from app.audit.signing import check_announced
from app.audit.statistics import EdgeCheck
from app.audit.stream import BROKEN, LogAudit
from app.log import leaves as log_leaves
from app.log.heads import TreeHead, public_keys
from app.log.leaves import Leaf
from app.log.merkle import Accumulator, leaf_hash
from tiers.audit.findings import Finding
from tiers.audit.replay import NotReplayable
from tiers.canonical import canonical_bytes
from tiers.errors import AuditError

__all__ = ["FINDINGS_LIMIT", "LINE_LIMIT", "AuditReport", "ExportAudit", "verify_export"]

LINE_LIMIT = 2**26
FINDINGS_LIMIT = 10_000
"""A log that is wrong everywhere is refuted by this many findings; the rest is counted."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The outcome: `verdict` is "verified" only if something was checked and nothing was found.

    Args:       chains: how many the log plans, drawn or not. panels: how many it opens, location panels too. sales: of
                all. notes: what a reader should know of a verdict that rests on little. pictures: of the first chains,
                and of those with findings. dropped: findings beyond the limit, which are counted and not listed.
    """

    verdict: str
    findings: tuple[Finding, ...]
    leaves: int
    chains: int
    panels: int
    draws: int
    sales: int
    opened: int
    replayed: int
    not_replayable: tuple[NotReplayable, ...]
    head: TreeHead | None
    notes: tuple[str, ...] = ()
    pictures: tuple[ChainPicture, ...] = ()
    dropped: int = 0


def verify_export(
    lines: Iterable[bytes],
    public: str,
    *,
    earlier: TreeHead | None = None,
    edges: Sequence[EdgeCheck] = (),
    progress: Callable[[int], None] | None = None,
) -> AuditReport:
    """Return the report on an export.

    Args:       lines: the export, one record a line. public: the market's public key (64 hex digits), got from
                elsewhere than the export. earlier: a head seen before, of which this log must be a continuation.
                edges: statistical checks that look on (`app.audit.statistics`). progress: told the lines read so far.
    Raises:     AuditError: nothing to check (no line, no chain), or a key that is none.
    """
    audit = ExportAudit(public, earlier=earlier, edges=edges)
    for number, line in enumerate(lines, start=1):
        audit.line(number, line)
        if progress is not None and number % 10_000 == 0:
            progress(number)
    return audit.report()


class ExportAudit:
    """An export while it is read, line by line; no leaf, opening or key is kept longer than its chain needs it."""

    def __init__(self, public: str, *, earlier: TreeHead | None, edges: Sequence[EdgeCheck]) -> None:
        public_keys([public])
        self._public, self._earlier, self._edges = public, earlier, edges
        self._header: Header | None = None
        self._log = LogAudit(edges)
        self._frontier = Accumulator()
        self._earlier_root: bytes | None = None
        self._checkpoints: list[TreeHead] = []
        self._found: list[Finding] = []
        self._dropped = 0
        self._opened = OpenedChains(self._log, edges, self._say)

    def line(self, number: int, line: bytes) -> None:
        """Take the next line."""
        if len(line) <= LINE_LIMIT and (read := read_leaf(line)) is not None:
            raw = log_leaves.encode_read(read.leaf)
            digest = leaf_hash(raw)
            if digest.hex() == read.hash:
                self._leaf(read.index, digest, read.leaf, number)
                return
        try:
            if len(line) > LINE_LIMIT:
                raise ValueError("line: expected a shorter one")
            record = decode_line(line)
        except (msgspec.MsgspecError, *UNREADABLE):
            where = f"line {number}"
            self._say(Finding("A4", "unreadable-line", where, "a record of the export format", "something else"))
            return
        if type(record) is LeafRecord:
            self._raw_leaf(record, number)
        else:
            self._other(record, f"line {number}")

    def report(self) -> AuditReport:
        """Return the outcome, once every line has been taken."""
        if self._header is None and self._log.leaves == 0 and not self._found:
            raise AuditError("export: expected a header and leaves, got an empty file")
        self._check_head()
        self._opened.finish()
        for finding in self._log.finish():
            self._say(finding)
        self._dropped += self._log.dropped
        if self._log.empty and not self._found:
            raise AuditError("export: expected at least one chain or panel to audit, got none")
        for check in self._edges:
            self._conclude(check)
        sold_nothing = not self._log.sales and not self._log.empty
        notes = ["the log holds plans but no sale: nothing was charged, opened or replayed"] if sold_nothing else []
        if self._dropped:
            notes.append(f"{self._dropped} more findings than are listed")
        return AuditReport(
            verdict="refuted" if self._found else "verified",
            findings=tuple(self._found),
            leaves=self._log.leaves,
            chains=len(self._log.plans),
            panels=self._log.panels,
            draws=self._log.draws,
            sales=self._log.sales,
            opened=self._opened.opened,
            replayed=self._opened.replayed,
            not_replayable=tuple(self._opened.closed),
            head=self._header.head if self._header else None,
            notes=tuple(notes),
            pictures=self._opened.pictures,
            dropped=self._dropped,
        )

    def _conclude(self, check: EdgeCheck) -> None:
        try:
            found = list(check.findings())
        except BROKEN as error:
            found = [Finding("A4", "unreadable-log", "log", "noise that can be tested", type(error).__name__)]
        for finding in found:
            self._say(finding)

    def _say(self, finding: Finding) -> None:
        if len(self._found) < FINDINGS_LIMIT:
            self._found.append(finding)
        else:
            self._dropped += 1

    def _other(self, record: Header | HeadRecord | OpeningRecord | KeyRecord | LeafRecord, where: str) -> None:
        match record:
            case Header():
                if self._header is not None or where != "line 1":
                    self._say(Finding("A4", "header", where, "one header, first", "a header elsewhere"))
                elif record.format != FORMAT:
                    self._say(Finding("A4", "header", where, record.format[:60], FORMAT))
                self._header = self._header or record
            case HeadRecord():
                size, announced = self._frontier.size, self._log.announced.leaves
                due = bool(announced) and announced[-1].index + 1 == size  # right after a key's leaf, once
                fits = record.head.size == size and due and all(point.size != size for point in self._checkpoints[-1:])
                if fits and record.head.root == self._frontier.root().hex():
                    self._checkpoints.append(record.head)
                else:
                    claimed = f"size {record.head.size}"
                    self._say(Finding("A4", "head-in-place", where, claimed, "another log's"))
            case OpeningRecord() | KeyRecord():
                self._opened.take(record, where)

    def _raw_leaf(self, record: LeafRecord, number: int) -> None:
        """Take a leaf that is not written as a market writes it, or whose hash is another."""
        try:
            raw, leaf = _read_leaf(bytes(record.leaf))
        except (msgspec.MsgspecError, *UNREADABLE):
            claimed = f"leaf {record.index}"
            self._say(Finding("A4", "unreadable-leaf", f"line {number}", claimed, "no leaf of a known kind"))
            return
        digest = leaf_hash(raw)
        if digest.hex() != record.hash:
            self._say(Finding("A4", "leaf-hash", f"leaf {record.index}", record.hash[:16], digest.hex()[:16]))
        self._leaf(record.index, digest, leaf, number)

    def _leaf(self, index: int, digest: bytes, leaf: Leaf, number: int) -> None:
        expected = self._frontier.size
        if self._opened.begun:
            self._say(
                Finding("A4", "record-order", f"line {number}", "leaves before openings and keys", "a leaf after")
            )
        if index != expected:
            rule = "repeated-leaf" if index < expected else "missing-leaf"
            self._say(Finding("A4", rule, f"line {number}", f"leaf {index}", f"leaf {expected} is due"))
        if leaf.index != index:
            self._say(Finding("A4", "leaf-index", f"leaf {index}", str(index), str(leaf.index)))
        if leaf.index != expected:
            leaf = msgspec.structs.replace(leaf, index=expected)  # so that every leaf has an index of its own
        self._log.leaf(leaf)
        self._frontier.append(digest)
        if self._earlier is not None and self._frontier.size == self._earlier.size:
            self._earlier_root = self._frontier.root()

    def _check_head(self) -> None:
        if self._header is None:
            self._say(Finding("A4", "header", "line 1", "a header with a signed head", "none"))
            return
        head, root = self._header.head, self._frontier.root().hex()
        announced = self._log.announced.leaves
        trusted, found = trusted_keys(self._public, head, announced, self._checkpoints)
        if self._header.public_key not in trusted.values():
            claimed = self._header.public_key[:16]
            found.append(Finding("A4", "public-key", "header", claimed, self._public[:16]))
        found += check_announced(head, self._public, self._log.announced.keys)
        found += self._log.times.take("header", head.at)
        found += check_signature("head", head, trusted, announced)
        if head.size != self._frontier.size:
            seen = f"{self._frontier.size} leaves"
            found.append(Finding("A4", "log-size", "header", f"{head.size} leaves", seen))
        if head.root != root:
            found.append(Finding("A4", "root", "header", head.root[:16], root[:16]))
        if self._earlier is not None:
            found += check_signature("earlier", self._earlier, trusted, announced)
            if self._earlier_root is None or self._earlier_root.hex() != self._earlier.root:
                seen = self._earlier_root.hex()[:16] if self._earlier_root else f"{self._frontier.size} leaves only"
                where = f"size {self._earlier.size}"
                found.append(Finding("A4", "consistency", where, self._earlier.root[:16], seen))
        for finding in found:
            self._say(finding)


def _read_leaf(raw: bytes) -> tuple[bytes, Leaf]:
    """Return the canonical bytes of a leaf, and the leaf: blanks and key order in the file do not matter."""
    try:
        return raw, log_leaves.decode(raw)
    except ValueError:
        canonical = canonical_bytes(msgspec.json.decode(raw))
        return canonical, log_leaves.decode(canonical)
