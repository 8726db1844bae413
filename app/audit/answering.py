"""What a thaw answers: a finding that was told in a report before an operator let its chain or panel be sold again.

A log is never mended: what is wrong at one of its leaves is found by every later audit. So what has been answered is
told again, as a notice: it freezes nothing a second time and calls for nobody. What is new freezes as ever, and so does
what an audit did not find in between: it was mended, and has broken again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection, func, select

from app.log.leaves import ThawLeaf, decode
from app.log.panel_leaves import PanelThawLeaf
from app.store.panel_schema import panels
from app.store.schema import audit_reports, leaves, products
from tiers.audit.findings import Finding, Severity

__all__ = ["Answers", "answers_of", "concerns", "is_panel", "thawed"]

_Key = tuple[str, str, str, str, str | None]


class _Report(msgspec.Struct, frozen=True):
    """Of a kept report, what it found."""

    findings: list[Finding]


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
        if told is None:
            return False
        return self.thawed.get(chain, -1) > told or (finding.chain is None and self.planned.get(chain, -1) > told)

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
        chains = [each for each in self.planned if concerns(finding, each)] if one is None else [one]
        return bool(chains) and all(self.settled(finding, chain) for chain in chains)


def concerns(finding: Finding, chain: str) -> bool:
    """Return whether a finding of the whole log is about a chain or panel: A5 watches the noise of chains alone.

    Example:
        >>> [concerns(Finding(check, "", "log", "", ""), "panel_1") for check in ("A4", "A5")]
        [True, False]
    """
    return not (finding.check == "A5" and is_panel(chain))


def is_panel(name: str) -> bool:
    """Return whether a name is a panel's: a chain's is hex.

    Example:
        >>> is_panel("panel_1")
        True
    """
    return name.startswith("panel_")


def answers_of(connection: Connection) -> Answers:
    """Read from the store which findings the thaws in the log have answered."""
    last = thawed(connection)
    told: dict[_Key, int] = {}
    for leaf, findings in _reports_about(connection, last.values()):
        told = {_key(found, found.chain): leaf for found in findings} | {
            key: told[key] for found in findings if (key := _key(found, found.chain)) in told
        }
    first = select(products.c.chain_id, func.min(products.c.leaf_index)).group_by(products.c.chain_id)
    opened = select(panels.c.id, panels.c.leaf_index).where(panels.c.leaf_index.is_not(None))
    planned: dict[str, int] = {}
    for wanted in (first, opened) if told else ():
        planned.update((row[0], row[1]) for row in connection.execute(wanted))
    return Answers(last, planned, told)


def thawed(connection: Connection) -> dict[str, int]:
    """Return the leaf of the last thaw of each chain or panel."""
    thaws = leaves.c.kind.in_(("thaw", "panel-thaw"))
    wanted = select(leaves.c.log_index, leaves.c.body).where(thaws).order_by(leaves.c.log_index)
    found = {}
    for index, body in connection.execute(wanted):
        leaf = decode(body)
        if isinstance(leaf, ThawLeaf):
            found[leaf.chain] = index
        elif isinstance(leaf, PanelThawLeaf):
            found[leaf.panel] = index
    return found


def _reports_about(connection: Connection, thaws: Collection[int]) -> Iterator[tuple[int, list[Finding]]]:
    """The leaf and the findings of each report from the newest before all these thaws on, oldest first."""
    if not thaws:
        return
    before = select(func.max(audit_reports.c.leaf_index)).where(audit_reports.c.leaf_index < min(thaws))
    start = connection.execute(before).scalar_one() or 0
    wanted = select(audit_reports.c.leaf_index, audit_reports.c.report_json).where(audit_reports.c.leaf_index >= start)
    for row in connection.execute(wanted.order_by(audit_reports.c.leaf_index)):
        yield row.leaf_index, msgspec.json.decode(row.report_json, type=_Report).findings


def _key(finding: Finding, chain: str | None) -> _Key:
    of_leaf = finding.where.startswith("leaf ")  # which says of which chain it is
    return finding.check, finding.rule, finding.where, finding.claimed, None if of_leaf else chain
