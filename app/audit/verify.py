"""Offline verification of an export: A4 over the file, then A1, A2, A3 and A7 over what it says."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from app.audit.export import FORMAT, Header, HeadRecord, KeyRecord, LeafRecord, OpeningRecord, decode_line
from app.audit.questions import check_questions
from app.audit.reading import UNREADABLE, read_history
from app.audit.relations import check_relations
from app.audit.signers import check_signature, trusted_keys
from app.audit.signing import announced_keys, check_announced, check_times
from app.audit.trade import check_trade
from app.log import leaves as log_leaves
from app.log.heads import TreeHead, public_key
from app.log.leaves import Leaf
from app.log.merkle import Frontier, leaf_hash
from tiers.audit.findings import Finding
from tiers.audit.ledger import check_ledger
from tiers.audit.plans import check_plans
from tiers.audit.provenance import check_provenance
from tiers.audit.records import Evidence
from tiers.audit.replay import NotReplayable, Replay, replay
from tiers.canonical import canonical_bytes
from tiers.errors import AuditError

__all__ = ["LINE_LIMIT", "AuditReport", "verify_export"]

LINE_LIMIT = 2**26
_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The outcome: `verdict` is "verified" only if something was checked and nothing was found.

    Args:       chains: how many the log plans, drawn or not. notes: what a reader should know of a verdict that rests
                on little.
    """

    verdict: str
    findings: tuple[Finding, ...]
    leaves: int
    chains: int
    draws: int
    sales: int
    opened: int
    replayed: int
    not_replayable: tuple[NotReplayable, ...]
    head: TreeHead | None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _File:
    """The export while it is read, line by line."""

    header: Header | None = None
    leaves: list[Leaf] = field(default_factory=list)
    openings: dict[tuple[str, str], tuple[bytes, tuple[int, ...]]] = field(default_factory=dict)
    keys: dict[tuple[str, str], bytes] = field(default_factory=dict)
    frontier: Frontier = field(default_factory=Frontier)
    earlier_root: bytes | None = None
    checkpoints: list[TreeHead] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)


def verify_export(lines: Iterable[bytes], public: str, *, earlier: TreeHead | None = None) -> AuditReport:
    """Return the report on an export.

    Args:       lines: the export, one record a line. public: the market's public key (64 hex digits), got from
                elsewhere than the export. earlier: a head seen before, of which this log must be a continuation.
    Raises:     AuditError: nothing to check (no line, no chain), or a key that is none.
    """
    try:
        public_key(public)
    except ValueError:
        raise AuditError("public key: expected 64 hex digits of an Ed25519 key, got something else") from None
    file = _File()
    for number, line in enumerate(lines, start=1):
        _read(file, number, line, earlier)
    if file.header is None and not file.leaves and not file.found:
        raise AuditError("export: expected a header and leaves, got an empty file")
    _check_head(file, public, earlier)
    history, unreadable = read_history(file.leaves)
    if not history.plans and not file.found and not unreadable:
        raise AuditError("export: expected at least one chain to audit, got none")
    evidence = Evidence(file.openings, file.keys)
    replayed, broken = _guarded(lambda: replay(history, evidence), Replay(0, 0, (), ()))
    nothing: tuple[Finding, ...] = ()
    checks: tuple[Callable[[], tuple[Finding, ...]], ...] = (
        lambda: check_relations(file.leaves),
        lambda: check_questions(file.leaves, history),
        lambda: check_plans(history),
        lambda: check_provenance(history),
        lambda: check_ledger(history),
        lambda: check_trade(file.leaves, history),
    )
    checked = [found for check in checks for part in _guarded(check, nothing) for found in part]
    found = (*file.found, *unreadable, *checked, *replayed.findings, *broken)
    return AuditReport(
        verdict="refuted" if found else "verified",
        findings=found,
        leaves=len(file.leaves),
        chains=len({plan.chain for plan in history.plans}),
        draws=len(history.draws),
        sales=len(history.sales),
        opened=replayed.opened,
        replayed=replayed.replayed,
        not_replayable=replayed.not_replayable,
        head=file.header.head if file.header else None,
        notes=() if history.sales else ("the log holds plans but no sale: nothing was charged, opened or replayed",),
    )


def _guarded(check: Callable[[], _Outcome], otherwise: _Outcome) -> tuple[_Outcome, tuple[Finding, ...]]:
    """Run one check; where a log that nobody foresaw breaks it, that is a finding and not a crash."""
    try:
        return check(), ()
    except (*UNREADABLE, LookupError, AssertionError) as error:
        return otherwise, (Finding("A4", "unreadable-log", "log", "one that can be checked", type(error).__name__),)


def _read(file: _File, number: int, line: bytes, earlier: TreeHead | None) -> None:
    where = f"line {number}"
    try:
        if len(line) > LINE_LIMIT:
            raise ValueError("line: expected a shorter one")
        record = decode_line(line)
    except (msgspec.MsgspecError, *UNREADABLE):
        file.found.append(Finding("A4", "unreadable-line", where, "a record of the export format", "something else"))
        return
    match record:
        case Header():
            if number != 1 or file.header is not None:
                file.found.append(Finding("A4", "header", where, "one header, first", "a header elsewhere"))
            elif record.format != FORMAT:
                file.found.append(Finding("A4", "header", where, record.format[:60], FORMAT))
            file.header = file.header or record
        case LeafRecord():
            _leaf(file, record, where, earlier)
        case HeadRecord():
            if record.head.size == file.frontier.size and record.head.root == file.frontier.root().hex():
                file.checkpoints.append(record.head)
            else:
                file.found.append(Finding("A4", "head-in-place", where, f"size {record.head.size}", "another log's"))
        case OpeningRecord():
            if (record.chain, record.law) in file.openings:
                file.found.append(Finding("A4", "repeated-record", where, "one opening a tier", "a second"))
            answer = tuple(int(value) for value in record.answer)
            file.openings[record.chain, record.law] = (bytes.fromhex(record.opening), answer)
        case KeyRecord():
            if (record.chain, record.law) in file.keys:
                file.found.append(Finding("A4", "repeated-record", where, "one key a draw", "a second"))
            file.keys[record.chain, record.law] = bytes.fromhex(record.key)


def _leaf(file: _File, record: LeafRecord, where: str, earlier: TreeHead | None) -> None:
    expected = file.frontier.size
    if record.index != expected:
        rule = "repeated-leaf" if record.index < expected else "missing-leaf"
        file.found.append(Finding("A4", rule, where, f"leaf {record.index}", f"leaf {expected} is due"))
    try:
        raw = canonical_bytes(record.leaf)
        leaf = log_leaves.decode(raw)
    except (msgspec.MsgspecError, *UNREADABLE):
        file.found.append(Finding("A4", "unreadable-leaf", where, f"leaf {record.index}", "no leaf of a known kind"))
        return
    digest = leaf_hash(raw)
    if digest.hex() != record.hash:
        file.found.append(Finding("A4", "leaf-hash", f"leaf {record.index}", record.hash[:16], digest.hex()[:16]))
    if leaf.index != record.index:
        file.found.append(Finding("A4", "leaf-index", f"leaf {record.index}", str(record.index), str(leaf.index)))
    file.leaves.append(msgspec.structs.replace(leaf, index=expected))  # so that every leaf has an index of its own
    file.frontier = file.frontier.append(digest)
    if earlier is not None and file.frontier.size == earlier.size:
        file.earlier_root = file.frontier.root()


def _check_head(file: _File, public: str, earlier: TreeHead | None) -> None:
    if file.header is None:
        file.found.append(Finding("A4", "header", "line 1", "a header with a signed head", "none"))
        return
    head, root = file.header.head, file.frontier.root().hex()
    trusted, unproved = trusted_keys(public, head, file.leaves, file.checkpoints)
    file.found += unproved
    if file.header.public_key not in trusted.values():
        file.found.append(Finding("A4", "public-key", "header", file.header.public_key[:16], public[:16]))
    keys, unsound = announced_keys(file.leaves)
    file.found += (*unsound, *check_announced(head, public, keys), *check_times(file.leaves, head))
    file.found += check_signature("head", head, trusted, file.leaves)
    if head.size != file.frontier.size:
        file.found.append(Finding("A4", "log-size", "header", f"{head.size} leaves", f"{file.frontier.size} leaves"))
    if head.root != root:
        file.found.append(Finding("A4", "root", "header", head.root[:16], root[:16]))
    if earlier is None:
        return
    file.found += check_signature("earlier", earlier, trusted, file.leaves)
    if file.earlier_root is None or file.earlier_root.hex() != earlier.root:
        seen = file.earlier_root.hex()[:16] if file.earlier_root else f"{file.frontier.size} leaves only"
        file.found.append(Finding("A4", "consistency", f"size {earlier.size}", earlier.root[:16], seen))
