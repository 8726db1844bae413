"""What a thaw answers: a finding that was told in a report before an operator let its chain be sold again.

A log is never mended: what is wrong at one of its leaves is found by every later audit. So what has been answered is
told again, as a notice: it freezes nothing a second time and calls for nobody. What is new freezes as ever.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from app.log.leaves import ThawLeaf, decode
from app.store.schema import audit_reports, leaves, products
from tiers.audit.findings import Finding, Severity

__all__ = ["Answers", "answers_of", "thawed"]

_Key = tuple[str, str, str, str, str | None]


@dataclass(frozen=True, slots=True)
class Answers:
    """Which findings have been answered on which chains.

    Args:       thawed: the leaf of each chain's last thaw. planned: the leaf of each chain's first plan. told: by
                finding, the leaf of the first report that told it and that a thaw followed.
    """

    thawed: Mapping[str, int]
    planned: Mapping[str, int]
    told: Mapping[_Key, int]

    def settled(self, finding: Finding, chain: str) -> bool:
        """Return whether a finding is answered on a chain: told, and the chain thawed since.

        A finding of the whole log, once it has been answered on some chain, says nothing of chains planned after it.
        """
        told = self.told.get(_key(finding, finding.chain), self.told.get(_key(finding, None)))
        if told is None:
            return False
        return self.thawed.get(chain, -1) > told or (finding.chain is None and self.planned.get(chain, -1) > told)

    def marked(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return findings, those that are answered wherever they hold as notices."""
        return tuple(
            replace(finding, severity=Severity.NOTICE)
            if finding.severity is Severity.BREACH and self._everywhere(finding)
            else finding
            for finding in findings
        )

    def _everywhere(self, finding: Finding) -> bool:
        chains = self.planned if finding.chain is None else (finding.chain,)
        return bool(chains) and all(self.settled(finding, chain) for chain in chains)


def answers_of(connection: Connection) -> Answers:
    """Read from the store which findings the thaws in the log have answered."""
    last = thawed(connection)
    told: dict[_Key, int] = {}
    for row in _reports_before(connection, last.values()):
        for found in msgspec.json.decode(row.report_json)["findings"]:
            told.setdefault(_key(msgspec.convert(found, Finding), found["chain"]), row.leaf_index)
    first = select(products.c.chain_id, func.min(products.c.leaf_index)).group_by(products.c.chain_id)
    planned = {row.chain_id: row[1] for row in connection.execute(first)} if told else {}
    return Answers(last, planned, told)


def thawed(connection: Connection) -> dict[str, int]:
    """Return the leaf of each chain's last thaw."""
    wanted = select(leaves.c.log_index, leaves.c.body).where(leaves.c.kind == "thaw").order_by(leaves.c.log_index)
    found = {}
    for index, body in connection.execute(wanted):
        leaf = decode(body)
        if isinstance(leaf, ThawLeaf):
            found[leaf.chain] = index
    return found


def _reports_before(connection: Connection, places: Iterable[int]) -> list[Any]:
    """The newest report before each of some leaves, oldest first, each once."""
    found = {}
    for place in places:
        newest = select(audit_reports).where(audit_reports.c.leaf_index < place)
        row = connection.execute(newest.order_by(audit_reports.c.leaf_index.desc()).limit(1)).one_or_none()
        if row is not None:
            found[row.leaf_index] = row
    return [found[index] for index in sorted(found)]


def _key(finding: Finding, chain: str | None) -> _Key:
    of_leaf = finding.where.startswith("leaf ")  # which says of which chain it is
    return finding.check, finding.rule, finding.where, finding.claimed, None if of_leaf else chain
