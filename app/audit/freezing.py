"""Frozen chains: nothing more of them is sold, what was sold stays readable; both freeze and thaw are leaves."""

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select

from app.errors import ChainFrozenError, ConflictError
from app.keyring import Keyring
from app.log.journal import append
from app.log.leaves import FreezeLeaf, ThawLeaf
from app.store.schema import audit_reports, chains, frozen_chains
from tiers.audit.findings import Finding

__all__ = ["count_frozen", "freeze", "frozen", "refuse_frozen", "refuse_older", "thaw"]

_TEXT = 80
_FROZEN = select(frozen_chains.c.chain_id).where(frozen_chains.c.chain_id == bindparam("chain"))


def freeze(
    connection: Connection,
    keyring: Keyring,
    findings: Iterable[Finding],
    found_by: str,
    at: str,
    *,
    spared: Callable[[Finding, str], bool] = lambda _finding, _chain: False,
) -> list[str]:
    """Freeze every chain that a finding names, or all chains where one names none; return those that were not yet.

    Args:       found_by: the gate, or the id of a report. spared: whether a finding has been answered on a chain.
    """
    wanted: dict[str, Finding] = {}
    everything: list[str] = []
    for finding in findings:
        if finding.chain is None and not everything:
            everything = list(connection.execute(select(chains.c.id)).scalars())
        for chain in everything if finding.chain is None else (finding.chain,):
            if not spared(finding, chain):
                wanted.setdefault(chain, finding)
    known = set(connection.execute(select(chains.c.id)).scalars()) if wanted else set()
    held = set(connection.execute(select(frozen_chains.c.chain_id)).scalars())
    new = [chain for chain in wanted if chain in known and chain not in held]
    if not new:
        return []

    def maker(chain: str) -> Any:
        finding = wanted[chain]
        return lambda index: FreezeLeaf(index=index, at=at, chain=chain, check=finding.check, rule=finding.rule)

    logged = append(connection, keyring, at, [maker(chain) for chain in new])
    rows = [
        {
            "chain_id": chain,
            "finding": f"{wanted[chain].check} {wanted[chain].rule}"[:_TEXT],
            "found_by": found_by,
            "at": at,
            "leaf_index": leaf.index,
        }
        for chain, leaf in zip(new, logged, strict=True)
    ]
    connection.execute(frozen_chains.insert(), rows)
    return new


def thaw(connection: Connection, keyring: Keyring, chain: str, reason: str, at: str) -> None:
    """Let a chain be sold again: an operator's act, with its reason in the log.

    Raises:     ConflictError: the chain is not frozen.
    """
    done = connection.execute(delete(frozen_chains).where(frozen_chains.c.chain_id == chain))
    if done.rowcount == 0:
        raise ConflictError("chain: expected a frozen one, got another")
    append(connection, keyring, at, [lambda index: ThawLeaf(index=index, at=at, chain=chain, reason=reason)])


def refuse_older(connection: Connection, report: str | None) -> None:
    """Refuse a thaw that cites a report which is not the newest: it would answer what nobody has read.

    Raises:     ConflictError: a newer report is kept, or none of this id.
    """
    newest = select(audit_reports.c.id).order_by(audit_reports.c.leaf_index.desc()).limit(1)
    if report is not None and connection.execute(newest).scalar_one_or_none() != report:
        raise ConflictError("report: expected the newest one, got another (a thaw answers all that was told by now)")


def count_frozen(connection: Connection) -> int:
    """Return how many chains are frozen."""
    return int(connection.execute(select(func.count()).select_from(frozen_chains)).scalar_one())


def frozen(connection: Connection, *, after: int, count: int) -> list[dict[str, Any]]:
    """Return up to `count` frozen chains, longest first, from the one after the freeze of leaf `after`."""
    wanted = select(frozen_chains).where(frozen_chains.c.leaf_index > after)
    wanted = wanted.order_by(frozen_chains.c.leaf_index).limit(count)
    return [
        {
            "chain": row.chain_id,
            "finding": row.finding,
            "found_by": row.found_by,
            "at": row.at,
            "leaf_index": row.leaf_index,
        }
        for row in connection.execute(wanted)
    ]


def refuse_frozen(connection: Connection, chain: str) -> None:
    """Raise ChainFrozenError where a chain is frozen."""
    if connection.execute(_FROZEN, {"chain": chain}).one_or_none() is not None:
        raise ChainFrozenError("chain: expected one that may be sold, got one that an audit has frozen", chain=chain)
