"""An audit of the whole log: run from one consistent read, kept, signed and itself logged; findings freeze chains."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Connection, select

from app.audit.answering import answers_of
from app.audit.digests import report_digest, watch_digest
from app.audit.exporting import export_lines
from app.audit.freezing import freeze
from app.audit.resuming import resume
from app.audit.stopping import body_at, panel_of_finding, stop
from app.audit.verify import AuditReport, verify_export
from app.audit.watching import Watching
from app.clock import new_id, time_text
from app.errors import AuditFindingError, ConflictError, NotFoundError
from app.log.heads import public_key, sign_document, verify_document
from app.log.journal import append, current_head
from app.log.leaves import ReportLeaf, decode
from app.store.schema import audit_reports, products
from tiers.audit.findings import Finding, Severity
from tiers.audit.watch import WatchState
from tiers.canonical import Document, canonical_bytes
from tiers.errors import AuditError

if TYPE_CHECKING:
    from app.market import Market  # which does audits as jobs

__all__ = [
    "AUDIT",
    "audit_market",
    "document_of",
    "kept_report",
    "kept_reports",
    "log_audit",
    "replay_rounds",
    "signed_by",
]

AUDIT = "audit"
_PURPOSE = "audit-report"


def log_audit(market: "Market", progress: Callable[[str], None]) -> Mapping[str, Any]:
    """Audit the whole log as a job does, and return what its row says of the kept report.

    Raises:     ConflictError: there is nothing to audit yet, which the job then says.
    """
    try:
        kept = audit_market(market, progress)
    except AuditError as error:
        raise ConflictError(str(error)) from None
    return {"report": kept["report"], "verdict": kept["verdict"], "findings": len(kept["findings"])}


def audit_market(market: "Market", progress: Callable[[str], None]) -> dict[str, Any]:
    """Audit the log up to its newest head, keep and log the report, freeze what it refutes; return the kept report.

    The log must continue the head that the last report was about, and the watch over the noise (A5) goes on from where
    that report left it: it looks at each draw once in the market's life. What an operator's thaw has answered is told
    as a notice, and a verdict that rests on notices alone is "answered". Runs in the caller's thread.
    """
    resumed = market.database.read_now(resume)
    watching = Watching(resumed.watch)
    size = market.database.read_now(_size)
    public = market.keyring.public_keys()[min(market.keyring.signing)]

    def read(connection: Connection) -> AuditReport:
        return verify_export(
            export_lines(connection, market, withhold=True),
            public,
            earlier=resumed.head,
            edges=(watching,),
            progress=lambda lines: progress(f"{lines} records read; the log has {size} leaves"),
        )

    report = market.database.read_now(read)
    replayed = replay_rounds(market, progress)
    if replayed:
        report = replace(report, verdict="refuted", findings=(*report.findings, *replayed))
    if report.dropped:
        more = Finding("A4", "findings-left-out", "log", f"{len(report.findings)} listed", f"{report.dropped} more")
        report = replace(report, findings=(*report.findings, more))
    if resumed.findings:
        report = replace(report, findings=(*resumed.findings, *report.findings))
    progress("keeping the report")
    at = time_text(market.clock())

    def keep(connection: Connection) -> tuple[dict[str, Any], tuple[Finding, ...], list[str], list[str]]:
        answers = answers_of(connection)
        panel = partial(panel_of_finding, connection)
        found = answers.marked(_of_chain(connection, report.findings), panel)
        breaches = tuple(finding for finding in found if finding.severity is Severity.BREACH)
        verdict = "refuted" if breaches else "answered" if found else "verified"
        told = replace(report, verdict=verdict, findings=found)
        kept = _keep(connection, market, told, watching.watch.state(), at)
        of_chains = tuple(finding for finding in breaches if panel(finding) is None)
        by = str(kept["report"])
        stopped = freeze(connection, market.keyring, of_chains, by, at, spared=answers.settled)
        panels = stop(connection, market.keyring, breaches, by, at, spared=answers.settled)
        return kept, breaches, stopped, panels

    kept, breaches, stopped, panels = market.database.submit(keep).result()
    if breaches:
        market.alarm(breaches, stopped, str(kept["report"]), panels)
    return kept


def replay_rounds(market: "Market", progress: Callable[[str], None]) -> list[Finding]:
    """Derive every round of a panel of which a tier was sold, and every answer about places, again.

    Return what is not as its leaf says.
    """
    from app.locations.disclosing import replay_locations  # which hold the market
    from app.panels.acts import replay_panels

    found: list[Finding] = []
    for panel, number, wrong in replay_panels(market):
        progress(f"round {number} of {panel} replayed" if number else f"what devices of {panel} spent replayed")
        found += (replace(finding, where=f"{panel}/{number}") for finding in wrong)
    for panel, wrong in replay_locations(market):
        progress(f"questions of {panel} replayed")
        found += (replace(finding, where=f"{panel}/{finding.where}") for finding in wrong)
    return found


def document_of(report: AuditReport) -> dict[str, Document]:
    """Return the report as the document that is signed: what may not be replayed is counted by reason."""
    closed = Counter(each.reason for each in report.not_replayable)
    return {
        "chains": report.chains,
        "draws": report.draws,
        "findings": [
            {
                "chain": finding.chain,
                "check": finding.check,
                "claimed": finding.claimed,
                "recomputed": finding.recomputed,
                "rule": finding.rule,
                "severity": finding.severity.value,
                "where": finding.where,
            }
            for finding in report.findings
        ],
        "head": None if report.head is None else msgspec.to_builtins(report.head),
        "leaves": report.leaves,
        "not_replayable": dict(sorted(closed.items())),
        "notes": list(report.notes),
        "opened": report.opened,
        "panels": report.panels,
        "pictures": msgspec.to_builtins(report.pictures),
        "replayed": report.replayed,
        "sales": report.sales,
        "verdict": report.verdict,
    }


def kept_reports(connection: Connection, *, after: int, count: int) -> list[dict[str, Any]]:
    """Return kept reports in brief, in the order of the log, from the one after leaf `after`."""
    wanted = (
        select(audit_reports)
        .where(audit_reports.c.leaf_index > after)
        .order_by(audit_reports.c.leaf_index)
        .limit(count)
    )
    return [
        {"report": row.id, "at": row.at, "size": row.size, "verdict": row.verdict, "leaf_index": row.leaf_index}
        for row in connection.execute(wanted)
    ]


def kept_report(connection: Connection, report: str) -> dict[str, Any]:
    """Return a kept report in full, as it was signed; raises NotFoundError."""
    wanted = select(audit_reports.c.report_json).where(audit_reports.c.id == report)
    text = connection.execute(wanted).scalar_one_or_none()
    if text is None:
        raise NotFoundError("report: expected the id of a kept one, got another")
    return dict(msgspec.json.decode(text))


def signed_by(document: dict[str, Any], public: str) -> bool:
    """Return whether a report's signature is the key's."""
    body = {name: value for name, value in document.items() if name != "signature"}
    return verify_document(_PURPOSE, body, str(document.get("signature")), public_key(public))


def _keep(
    connection: Connection, market: "Market", report: AuditReport, watched: WatchState, at: str
) -> dict[str, Any]:
    name, state = new_id("report"), msgspec.json.encode(watched).decode()
    body: dict[str, Document] = {
        **document_of(report),
        "at": at,
        "key": market.keyring.signing_number,
        "report": name,
        "watch": watch_digest(state),
    }
    digest = report_digest(body)
    size = 0 if report.head is None else report.head.size

    def make(index: int) -> ReportLeaf:
        return ReportLeaf(index=index, at=at, report=name, digest=digest, size=size, verdict=report.verdict)

    (logged,) = append(connection, market.keyring, at, [make])
    signed = {**body, "signature": sign_document(_PURPOSE, body, market.keyring.signer())}
    connection.execute(
        audit_reports.insert().values(
            id=name,
            at=at,
            size=size,
            verdict=report.verdict,
            report_json=canonical_bytes(signed).decode(),
            watch_json=state,
            leaf_index=logged.index,
        )
    )
    return signed


def _of_chain(connection: Connection, findings: Iterable[Finding]) -> Iterable[Finding]:
    """Name the chain of each finding, from the leaf it stands at where the check could not tell."""
    for finding in findings:
        if finding.chain is not None or not finding.where.startswith("leaf "):
            yield finding
            continue
        body = body_at(connection, finding.where)
        yield replace(finding, chain=None if body is None else _chain_of(connection, body))


def _chain_of(connection: Connection, body: bytes) -> str | None:
    try:
        leaf = decode(body)
    except ValueError:
        return None
    chain = getattr(leaf, "chain", None)
    if chain is None and hasattr(leaf, "product"):
        wanted = select(products.c.chain_id).where(products.c.id == leaf.product)
        chain = connection.execute(wanted).scalar_one_or_none()
    return chain


def _size(connection: Connection) -> int:
    head = current_head(connection)
    if head is None:
        raise AuditFindingError("log: expected at least one leaf, got none")
    return head.size
