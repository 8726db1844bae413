"""Where an audit goes on: from the last report that the log names, if that and the watch beside it are still kept.

Reports and the watch's state lie in the store, the log holds the reports' digests, and each report that of its watch:
whoever deletes, edits or rolls back what is kept would let the noise be tested anew, or an earlier head be forgotten.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.audit.answering import is_panel, thawed
from app.log.heads import TreeHead
from app.log.leaves import ReportLeaf, decode
from app.store.schema import audit_reports, leaves
from tiers.audit.conformance import alarm_rule
from tiers.audit.findings import Finding
from tiers.audit.watch import Watch, WatchState
from tiers.canonical import Document, canonical_bytes

__all__ = ["Resumed", "report_digest", "resume", "watch_digest"]


@dataclass(frozen=True, slots=True)
class Resumed:
    """The watch and the head that an audit goes on from, and what is wrong with what was kept of them."""

    watch: Watch
    head: TreeHead | None
    findings: tuple[Finding, ...]


def resume(connection: Connection) -> Resumed:
    """Return where the last audit ended; where what is kept is not what the log names, a finding and a fresh watch.

    Guarantee:  without a finding, the watch has seen each draw at most once over all audits that the log names.
    """
    newest = select(leaves.c.log_index, leaves.c.body).where(leaves.c.kind == "audit-report")
    logged = connection.execute(newest.order_by(leaves.c.log_index.desc()).limit(1)).one_or_none()
    row = connection.execute(select(audit_reports).order_by(audit_reports.c.leaf_index.desc()).limit(1)).one_or_none()
    if logged is None and row is None:
        return Resumed(Watch(), None, ())
    try:
        if logged is None or row is None or row.leaf_index != logged.log_index:
            raise ValueError("report: expected the last one that the log names, got another or none")
        leaf, report = decode(logged.body), dict(msgspec.json.decode(row.report_json))
        report.pop("signature", None)
        if not isinstance(leaf, ReportLeaf) or leaf.digest != report_digest(report):
            raise ValueError("report: expected the digest in the log, got another")
        if report.get("watch") != watch_digest(row.watch_json):
            raise ValueError("watch: expected the digest in the report, got another")
        watch = Watch.of(msgspec.json.decode(row.watch_json, type=WatchState))
        _answer(connection, watch, report["findings"], row.leaf_index)
        head = None if report["head"] is None else msgspec.convert(report["head"], type=TreeHead)
    except (ValueError, LookupError) as error:
        claimed = "nothing" if logged is None else f"the report of leaf {logged.log_index}"
        return Resumed(Watch(), None, (Finding("A4", "kept-report", "store", claimed, str(error)[:200]),))
    return Resumed(watch, head, ())


def _answer(connection: Connection, watch: Watch, told: list[dict[str, Any]], since: int) -> None:
    """Start anew what raised an alarm that the last report told, where a chain that it was told of was thawed since."""
    alarms = watch.alarms()
    thaws = thawed(connection) if alarms else {}
    later = {chain for chain, leaf in thaws.items() if leaf > since and not is_panel(chain)}
    for alarm in alarms if later else ():
        rule = alarm_rule(alarm)
        chains = {
            each["chain"] for each in told if (each["check"], each["rule"], each["where"]) == ("A5", rule, alarm.pair)
        }
        if chains & later or None in chains:
            watch.answer(alarm)


def report_digest(body: dict[str, Document]) -> str:
    """Return the digest by which the log names a report: of all but its signature."""
    return hashlib.sha256(canonical_bytes(body)).hexdigest()


def watch_digest(state: str) -> str:
    """Return the digest by which a report names the watch's state that is kept beside it."""
    return hashlib.sha256(state.encode()).hexdigest()
