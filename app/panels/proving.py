"""What proves things of a panel: an order's bundle for its buyer, a round's disclosure for an auditor."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from app.auth.accounts import Caller
from app.errors import NotFoundError
from app.keyring import Keyring
from app.log.journal import current_head, leaf_bodies, leaf_hashes
from app.log.merkle import inclusion_proof
from app.log.panel_leaves import RoundRecord
from app.panels.desk import Panel, counts_of, panel_of, round_of
from app.panels.plans.lists import Lists
from app.panels.replay import FORMAT
from app.panels.rounds import COUNTS, opening_of
from app.panels.sales import record_of
from app.store.panel_schema import panel_orders

__all__ = ["bundle_of", "disclosed_round", "head_line", "lines_of", "proved", "report_lines"]


def bundle_of(connection: Connection, keyring: Keyring, caller: Caller, order: str) -> dict[str, Any]:
    """Return one of the caller's panel orders with all that proves it, as `app.audit.panel_receipts` reads it.

    Raises:     NotFoundError: no such order of the caller's.
    """
    wanted = select(panel_orders).where(panel_orders.c.id == order, panel_orders.c.account_id == caller.id)
    row = connection.execute(wanted).one_or_none()
    if row is None or row.leaf_index is None:
        raise NotFoundError("order: expected one of the caller's own, got another id")
    panel, closed = panel_of(connection, row.panel_id), round_of(connection, row.panel_id, row.number)
    secret = keyring.owner_secret(panel.owner, record_of(closed).epoch)
    shown = proved(connection, {"panel": panel.leaf_index, "round": closed.leaf_index, "sale": row.leaf_index})
    return {
        "receipt": msgspec.Raw(row.receipt_json.encode()),
        **shown,
        "opening": opening_of(secret, f"{panel.id}/{row.number}", row.rank, COUNTS).hex(),
        "counts": counts_of(connection, keyring, panel.id, row.number, row.rank).tolist(),
    }


def disclosed_round(connection: Connection, panel: str, number: int) -> tuple[Panel, RoundRecord, int, dict[str, Any]]:
    """Return a panel, a round's record, the highest rank sold of it, and their leaves with proofs.

    Raises:     NotFoundError: no such round, or none of whose tiers was sold. ConflictError: it is not in the log.
    """
    found, row = panel_of(connection, panel), round_of(connection, panel, number)
    record = record_of(row)
    if row.highest_rank is None:
        raise NotFoundError("round: expected one of which a tier was sold, got one without a sale")
    mine = (panel_orders.c.panel_id == panel) & (panel_orders.c.number == number)
    first = select(func.min(panel_orders.c.leaf_index)).where(mine, panel_orders.c.rank == row.highest_rank)
    sold = connection.execute(first).scalar_one()
    shown = proved(connection, {"panel": found.leaf_index, "round": row.leaf_index, "sale": sold})
    return found, record, row.highest_rank, shown


def head_line(keyring: Keyring, found: Panel, record: RoundRecord, rank: int, proved: dict[str, Any]) -> dict[str, Any]:
    """Return a disclosure's first line: leaves and proofs, and what opens the tiers from a rank down."""
    secret, name = keyring.owner_secret(found.owner, record.epoch), f"{found.id}/{record.round}"
    below = range(rank, len(record.tiers))
    return {
        "format": FORMAT,
        **proved,
        "openings": [opening_of(secret, name, place).hex() for place in below],
        "counts": [opening_of(secret, name, place, COUNTS).hex() for place in below],
        "keys": [key.hex() for key in found.plan.keys(secret, name)[rank:]],
    }


def lines_of(head: dict[str, Any], runs: Iterator[Lists]) -> Iterator[bytes]:
    """Yield a head and then each report, one JSON record a line."""
    yield msgspec.json.encode(head) + b"\n"
    for run in runs:
        yield report_lines(run.rows())


def report_lines(rows: Sequence[Sequence[int]]) -> bytes:
    """Return reports as NDJSON: one list a line."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def proved(connection: Connection, places: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the newest head, and leaves as they are in the log with their paths to it."""
    head = current_head(connection)
    assert head is not None
    hashes, found = leaf_hashes(connection, head.size), dict[str, Any]()
    for name, index in places.items():
        assert index is not None
        ((_, body, _),) = list(leaf_bodies(connection, index, 1))
        proof = [step.hex() for step in inclusion_proof(hashes, index)]
        found[name] = {"leaf": msgspec.Raw(body), "proof": proof}
    return {"head": msgspec.to_builtins(head), **found}
