"""What a thaw answers: a finding that was told in a report before an operator let its chain or panel be sold again.

A log is never mended: what is wrong at one of its leaves is found by every later audit. So what has been answered is
told again, as a notice: it freezes nothing a second time and calls for nobody. What is new freezes as ever, and so does
what an audit did not find in between: it was mended, and has broken again.

Only what stands for good can be answered: a leaf, a record of the log, an alarm of the noise. A head, a file, a check
that broke are other ones at every audit, whatever their findings are called, and so is what a replay finds of a panel's
rounds or questions. No chain's thaw speaks for a panel, and no panel's for a chain; panels are of devices or of places.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection, func, select, union_all

from app.audit.digests import report_of
from app.log.leaves import ReportLeaf, ThawLeaf, decode
from app.log.panel_leaves import PanelThawLeaf
from app.store.location_schema import location_panels
from app.store.panel_schema import panels
from app.store.schema import audit_reports, chains, leaves, products
from tiers.audit.findings import Finding, Severity

__all__ = ["Answers", "answers_of", "concerns", "is_panel", "panels_opened"]

_Key = tuple[str, str, str, str, str | None]
_OPENED = union_all(
    select(panels.c.id, panels.c.leaf_index).where(panels.c.leaf_index.is_not(None)),
    select(location_panels.c.id, location_panels.c.leaf_index),
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Which findings have been answered on which chains and panels.

    Args:       thawed: the leaf of the last thaw of each chain or panel. planned: the leaf of each chain's first plan,
                and of each panel. told: by finding, the leaf of the first report of those that have told it without a
                break until now.
    """

    thawed: Mapping[str, int]
    planned: Mapping[str, int]
    told: Mapping[_Key, int]

    def settled(self, finding: Finding, chain: str) -> bool:
        """Return whether a finding is answered on a chain, or a panel: told, and that thawed since.

        A finding of the whole log, once it has been answered on some chain, says nothing of chains planned after it.
        """
        told = self.told.get(_key(finding, finding.chain), self.told.get(_key(finding, None)))
        if told is None or not _lasts(finding):
            return False
        later = finding.chain is None and self.planned.get(chain, -1) > told and max(self.thawed.values()) > told
        return later or self.thawed.get(chain, -1) > told

    def begun(self, finding: Finding) -> bool:
        """Return whether a finding is answered on any chain that it is about."""
        chains_of = (chain for chain in self.thawed if concerns(finding, chain))
        return any(self.settled(finding, chain) for chain in (chains_of if finding.chain is None else [finding.chain]))

    def marked(self, findings: Iterable[Finding], panel: Callable[[Finding], str | None]) -> tuple[Finding, ...]:
        """Return findings, those that are answered wherever they hold as notices; `panel` names a finding's panel."""
        return tuple(
            replace(finding, severity=Severity.NOTICE)
            if finding.severity is Severity.BREACH and self._everywhere(finding, panel(finding))
            else finding
            for finding in findings
        )

    def _everywhere(self, finding: Finding, panel: str | None) -> bool:
        one = finding.chain or panel
        about = [each for each in self.planned if concerns(finding, each)] if one is None else [one]
        return bool(about) and all(self.settled(finding, each) for each in about)


def concerns(finding: Finding, chain: str) -> bool:
    """Return whether a finding of the whole log is about a chain or panel: A5 watches the noise of chains alone.

    Example:
        >>> [concerns(Finding(check, "", "log", "", ""), "panel_1") for check in ("A4", "A5")]
        [True, False]
    """
    return not (finding.check == "A5" and is_panel(chain))


def is_panel(name: str) -> bool:
    """Return whether a name is a panel's, of either kind: a chain's is hex.

    Example:
        >>> [is_panel(name) for name in ("panel_1", "location_1", "c0ffee")]
        [True, True, False]
    """
    return name.startswith(("panel_", "location_"))


def panels_opened(connection: Connection) -> dict[str, int]:
    """Return the panels in the log, of either kind, each with the leaf by which it opened."""
    return {row[0]: row[1] for row in connection.execute(_OPENED)}


def answers_of(connection: Connection) -> Answers:
    """Read from the store which findings the thaws in the log have answered."""
    first, last = _thaws(connection)
    if first is None:
        return Answers({}, {}, {})
    told: dict[_Key, int] = {}
    for leaf, findings in _reports_about(connection, first):
        told = {_key(found, found.chain): leaf for found in findings} | {
            key: told[key] for found in findings if (key := _key(found, found.chain)) in told
        }
    planned = select(chains.c.id, func.coalesce(func.min(products.c.leaf_index), -1))
    of_products = planned.outerjoin_from(chains, products, products.c.chain_id == chains.c.id).group_by(chains.c.id)
    found = {row[0]: row[1] for row in connection.execute(of_products)}
    return Answers(last, found | panels_opened(connection), told)


def _thaws(connection: Connection) -> tuple[int | None, dict[str, int]]:
    """The leaf of the first thaw of all, and that of each chain's or panel's last one."""
    thaws = leaves.c.kind.in_(("thaw", "panel-thaw"))
    wanted = select(leaves.c.log_index, leaves.c.body).where(thaws).order_by(leaves.c.log_index)
    first, last = None, {}
    for index, body in connection.execute(wanted):
        leaf = decode(body)
        if isinstance(leaf, ThawLeaf | PanelThawLeaf):
            of = leaf.chain if isinstance(leaf, ThawLeaf) else leaf.panel
            first, last[of] = index if first is None else first, index
    return first, last


def _reports_about(connection: Connection, thaw: int) -> Iterator[tuple[int, list[Finding]]]:
    """The leaf and the findings of each report that the log names, from the newest before a thaw on, oldest first.

    A report that is kept no more, or otherwise than the log says, has told nothing.
    """
    reported = leaves.c.kind == "audit-report"
    before = select(func.max(leaves.c.log_index)).where(reported, leaves.c.log_index < thaw)
    start = connection.execute(before).scalar_one() or 0
    wanted = (
        select(leaves.c.log_index, leaves.c.body, audit_reports.c.report_json)
        .outerjoin_from(leaves, audit_reports, audit_reports.c.leaf_index == leaves.c.log_index)
        .where(reported, leaves.c.log_index >= start)
    )
    for index, body, text in connection.execute(wanted.order_by(leaves.c.log_index)):
        yield index, [] if text is None else _told(body, text)


def _told(body: bytes, text: str) -> list[Finding]:
    try:
        leaf = decode(body)
        digest = leaf.digest if isinstance(leaf, ReportLeaf) else ""
        return msgspec.convert(report_of(text, digest)["findings"], type=list[Finding])
    except (ValueError, LookupError, TypeError):
        return []


def _lasts(finding: Finding) -> bool:
    """Whether what is found stays the same thing from audit to audit; what a replay of a panel finds does not."""
    if is_panel(finding.where):
        return False
    if finding.where.startswith("chain ") and finding.rule != "unreadable-log":
        return True
    return finding.check == "A5" or finding.where.startswith("leaf ") or finding.claimed.startswith("leaf ")


def _key(finding: Finding, chain: str | None) -> _Key:
    of_leaf = finding.where.startswith("leaf ")  # which says of which chain it is
    return finding.check, finding.rule, finding.where, finding.claimed, None if of_leaf else chain
