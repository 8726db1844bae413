"""Panels of either kind that an audit stopped: nothing more of them is sold; stop and thaw are leaves, as a chain's."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, union_all

from app.audit.answering import concerns, is_panel, panels_opened
from app.errors import ChainFrozenError, ConflictError
from app.keyring import Keyring
from app.log.journal import append
from app.log.leaves import decode
from app.log.panel_leaves import PanelStopLeaf, PanelThawLeaf, RoundLeaf
from app.store.location_schema import location_panels
from app.store.panel_schema import panel_stops, panels
from app.store.schema import leaves
from tiers.audit.findings import Finding

__all__ = [
    "body_at",
    "count_stopped",
    "panel_of_finding",
    "refuse_stopped",
    "stop",
    "stopped",
    "thaw_panel",
]

_TEXT = 80
_STOPPED = select(panel_stops.c.panel_id).where(panel_stops.c.panel_id == bindparam("panel"))
_KNOWN = union_all(*(select(each.c.id).where(each.c.id == bindparam("panel")) for each in (panels, location_panels)))


def stop(
    connection: Connection,
    keyring: Keyring,
    findings: Iterable[Finding],
    found_by: str,
    at: str,
    *,
    spared: Callable[[Finding, str], bool] = lambda _finding, _panel: False,
) -> list[str]:
    """Stop every panel that a finding names, or all in the log where one names none; return those that were not yet.

    Args:       found_by: the id of a report. spared: whether a finding has been answered on a panel.
    """
    wanted: dict[str, Finding] = {}
    everything = panels_opened(connection)
    for finding in findings:
        named = panel_of_finding(connection, finding)
        of_log = named is None and finding.chain is None
        for panel in everything if of_log else () if named is None else (named,):
            if concerns(finding, panel) and not spared(finding, panel):
                wanted.setdefault(panel, finding)
    held = set(connection.execute(select(panel_stops.c.panel_id)).scalars())
    new = [panel for panel in wanted if panel not in held]
    if not new:
        return []
    logged = append(connection, keyring, at, [partial(_leaf, at, panel, wanted[panel]) for panel in new])
    rows = [
        {
            "panel_id": panel,
            "finding": f"{wanted[panel].check} {wanted[panel].rule}"[:_TEXT],
            "found_by": found_by,
            "at": at,
            "leaf_index": leaf.index,
        }
        for panel, leaf in zip(new, logged, strict=True)
    ]
    connection.execute(panel_stops.insert(), rows)
    return new


def thaw_panel(connection: Connection, keyring: Keyring, panel: str, reason: str, at: str) -> None:
    """Let a panel be sold again: an operator's act, with its reason in the log.

    A stop from before stops were leaves is logged first, so that no thaw stands without one.

    Raises:     ConflictError: the panel is not stopped.
    """
    row = connection.execute(select(panel_stops).where(panel_stops.c.panel_id == panel)).one_or_none()
    if row is None:
        raise ConflictError("panel: expected a stopped one, got another")
    connection.execute(delete(panel_stops).where(panel_stops.c.panel_id == panel))
    makers: list[Any] = [lambda index: PanelThawLeaf(index=index, at=at, panel=panel, reason=reason)]
    if row.leaf_index is None:
        check, _, rule = row.finding.partition(" ")
        makers.insert(0, lambda index: PanelStopLeaf(index=index, at=at, panel=panel, check=check, rule=rule))
    append(connection, keyring, at, makers)


def count_stopped(connection: Connection) -> int:
    """Return how many panels are stopped."""
    return int(connection.execute(select(func.count()).select_from(panel_stops)).scalar_one())


def stopped(connection: Connection, *, after: int, count: int) -> list[dict[str, Any]]:
    """Return up to `count` stopped panels, longest first, from the one after the stop of leaf `after`.

    A stop from before stops were leaves counts as one of leaf 0.
    """
    leaf = func.coalesce(panel_stops.c.leaf_index, 0)
    wanted = select(panel_stops).where(leaf > after).order_by(leaf, panel_stops.c.panel_id).limit(count)
    return [
        {
            "panel": row.panel_id,
            "finding": row.finding,
            "found_by": row.found_by,
            "at": row.at,
            "leaf_index": row.leaf_index,
        }
        for row in connection.execute(wanted)
    ]


def refuse_stopped(connection: Connection, panel: str) -> None:
    """Raise ChainFrozenError where a panel is stopped."""
    if connection.execute(_STOPPED, {"panel": panel}).one_or_none() is not None:
        raise ChainFrozenError("panel: expected one that may be sold, got one that an audit has stopped")


def panel_of_finding(connection: Connection, finding: Finding) -> str | None:
    """Return the panel that a finding is about, by its round, question or leaf; none where the store has no such."""
    if finding.chain is not None:
        return None
    named = finding.where.partition("/")[0] if is_panel(finding.where) else None
    if named is None and finding.where.startswith("leaf "):
        named = _panel_at(connection, finding.where)
    known = named is not None and connection.execute(_KNOWN, {"panel": named}).one_or_none() is not None
    return named if known else None


def body_at(connection: Connection, where: str) -> bytes | None:
    """Return the body of the leaf that a finding stands at ("leaf 7"), if there is one."""
    index = int(where.removeprefix("leaf ").partition(",")[0])
    body: bytes | None = connection.execute(
        select(leaves.c.body).where(leaves.c.log_index == index)
    ).scalar_one_or_none()
    return body


def _panel_at(connection: Connection, where: str) -> str | None:
    body = body_at(connection, where)
    try:
        leaf = None if body is None else decode(body)
    except ValueError:
        return None
    return leaf.record.panel if isinstance(leaf, RoundLeaf) else getattr(leaf, "panel", None)


def _leaf(at: str, panel: str, finding: Finding, index: int) -> PanelStopLeaf:
    return PanelStopLeaf(index=index, at=at, panel=panel, check=finding.check, rule=finding.rule)
