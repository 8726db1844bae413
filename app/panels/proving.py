"""What proves things of a panel: an order's bundle for its buyer, a round's disclosure for an auditor."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from app.auth.accounts import Caller
from app.errors import NotFoundError
from app.keyring import Keyring
from app.log.disclosures import Extent
from app.log.heads import TreeHead
from app.log.journal import current_head, leaf_bodies, leaf_hashes
from app.log.merkle import inclusion_proof
from app.log.panel_leaves import RoundRecord
from app.panels.desk import Panel, counts_of, panel_of, round_of
from app.panels.late_tiers import late_leaves, whole_record
from app.panels.plans.lists import Lists
from app.panels.replay import FORMAT, LATE_FORMAT, disclosed_tiers
from app.panels.rounds import COUNTS, opening_of
from app.panels.spending import FORMAT as SPENDING_FORMAT
from app.store.panel_schema import panel_orders, panel_rounds

__all__ = [
    "bundle_of",
    "disclosed_round",
    "head_line",
    "lines_of",
    "proved",
    "report_lines",
    "shown_spending",
    "spending_panels",
]


def bundle_of(connection: Connection, keyring: Keyring, caller: Caller, order: str) -> dict[str, Any]:
    """Return one of the caller's panel orders with all that proves it, as `app.audit.panel_receipts` reads it.

    Raises:     NotFoundError: no such order of the caller's.
    """
    wanted = select(panel_orders).where(panel_orders.c.id == order, panel_orders.c.account_id == caller.id)
    row = connection.execute(wanted).one_or_none()
    if row is None or row.leaf_index is None:
        raise NotFoundError("order: expected one of the caller's own, got another id")
    panel, closed = panel_of(connection, row.panel_id), round_of(connection, row.panel_id, row.number)
    secret = keyring.owner_secret(panel.owner, whole_record(connection, closed).epoch)
    shown = proved(connection, {"panel": panel.leaf_index, "round": closed.leaf_index, "sale": row.leaf_index})
    late = {}
    if row.rank in panel.menu.late:
        late = _late(connection, panel.id, row.number, row.rank - panel.menu.late.start + 1)
    return {
        "receipt": msgspec.Raw(row.receipt_json.encode()),
        **shown,
        **late,
        "opening": opening_of(secret, f"{panel.id}/{row.number}", row.rank, COUNTS).hex(),
        "counts": counts_of(connection, keyring, panel.id, row.number, row.rank).tolist(),
    }


def disclosed_round(connection: Connection, panel: str, number: int) -> tuple[Panel, RoundRecord, int, dict[str, Any]]:
    """Return a panel, a round's record, the highest rank sold of it, and their leaves with proofs.

    Raises:     NotFoundError: no such round, or none of whose tiers was sold. ConflictError: it is not in the log.
    """
    found, row = panel_of(connection, panel), round_of(connection, panel, number)
    record = whole_record(connection, row)
    if row.highest_rank is None:
        raise NotFoundError("round: expected one of which a tier was sold, got one without a sale")
    mine = (panel_orders.c.panel_id == panel) & (panel_orders.c.number == number)
    first = select(func.min(panel_orders.c.leaf_index)).where(mine, panel_orders.c.rank == row.highest_rank)
    sold = connection.execute(first).scalar_one()
    shown = proved(connection, {"panel": found.leaf_index, "round": row.leaf_index, "sale": sold})
    if found.menu.late:
        shown |= _late(connection, panel, number)
    return found, record, row.highest_rank, shown


def head_line(
    keyring: Keyring, found: Panel, record: RoundRecord, rank: int, proved: dict[str, Any]
) -> tuple[dict[str, Any], list[int]]:
    """Return a disclosure's first line, and the tiers (by number) whose reports follow it, side by side.

    The line has leaves and proofs, and what opens the tiers from one down. The key of a step or of a late draw is shown
    only where all that it was drawn from is. Which tier is the highest sold, and how many were added, is signed.
    """
    secret, name = keyring.owner_secret(found.owner, record.epoch), f"{found.id}/{record.round}"
    holds = {"round": record.round, "rank": rank, "added": len(proved.get("added", ()))}
    steps = found.plan.keys(secret, name)
    if found.menu.late:
        below, derived = disclosed_tiers(found.menu, rank)
        keys = {each: steps[each - 1] if each <= len(steps) else found.menu.key(secret, name, each) for each in derived}
        line = {
            "format": LATE_FORMAT,
            **proved,
            "openings": {str(each): opening_of(secret, name, each).hex() for each in below},
            "counts": {str(each): opening_of(secret, name, each, COUNTS).hex() for each in below},
            "keys": {str(each): key.hex() for each, key in keys.items()},
        }
        return _signed(keyring, found.id, line, holds), [each for each in below if each not in derived]
    below = list(range(rank, len(record.tiers)))
    line = {
        "format": FORMAT,
        **proved,
        "openings": [opening_of(secret, name, place).hex() for place in below],
        "counts": [opening_of(secret, name, place, COUNTS).hex() for place in below],
        "keys": [key.hex() for key in steps[rank:]],
    }
    return _signed(keyring, found.id, line, holds), [rank]


def spending_panels(connection: Connection) -> list[str]:
    """Return the panels of which a round in the log binds what devices spent."""
    bound = panel_rounds.c.leaf_index.is_not(None) & panel_rounds.c.record.contains('"spent"')
    return list(connection.execute(select(panel_rounds.c.panel_id).where(bound).distinct()).scalars())


def shown_spending(
    connection: Connection, keyring: Keyring, panel: str, owner: Caller | None
) -> tuple[Panel, int, dict[str, Any]]:
    """Return a panel, its last round in the log, and the first line of what its devices spent.

    Raises:     NotFoundError: no panel of the owner's, or no round of it in the log.
    """
    found = panel_of(connection, panel, owner)
    here = (panel_rounds.c.panel_id == panel) & panel_rounds.c.leaf_index.is_not(None)
    wanted = select(panel_rounds.c.number, panel_rounds.c.leaf_index).where(here).order_by(panel_rounds.c.number)
    rounds = connection.execute(wanted).all()
    if not rounds:
        raise NotFoundError("panel: expected one with a closed round in the log, got one without")
    shown = proved(connection, {"panel": found.leaf_index} | {str(row.number): row.leaf_index for row in rounds})
    leaves = [shown[str(row.number)] for row in rounds]
    told = {"format": SPENDING_FORMAT, "head": shown["head"], "panel": shown["panel"], "rounds": leaves}
    return found, rounds[-1].number, _signed(keyring, panel, told, {"rounds": len(leaves)})


def lines_of(head: dict[str, Any], tiers: Sequence[Iterator[Lists]]) -> Iterator[bytes]:
    """Yield a head and then each report, one JSON record a line; where there are late tiers, a list of reports."""
    yield msgspec.json.encode(head) + b"\n"
    for runs in zip(*tiers, strict=True):
        rows = [run.rows() for run in runs]
        beside: Any = rows[0] if head["format"] == FORMAT else list(zip(*rows, strict=True))
        yield report_lines(beside)


def report_lines(rows: Sequence[Sequence[int]]) -> bytes:
    """Return reports as NDJSON: one list a line."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def _signed(keyring: Keyring, panel: str, line: dict[str, Any], holds: dict[str, int]) -> dict[str, Any]:
    """Return a first line with the market's signature over how much its file holds."""
    extent = Extent(line["format"], panel, msgspec.convert(line["head"], TreeHead), holds)
    return line | {"signature": extent.sign(keyring)}


def _late(connection: Connection, panel: str, number: int, tiers: int | None = None) -> dict[str, Any]:
    """The leaves of a panel's added tiers, and of their draws in a round, with proofs; the first ones, where told."""
    added, drawn = (indices[:tiers] for indices in late_leaves(connection, panel, number))
    places: dict[str, int | None] = {
        f"{kind} {index}": index for kind in "ad" for index in (added if kind == "a" else drawn)
    }
    shown = proved(connection, places)
    return {
        "added": [shown[f"a {index}"] for index in added],
        "drawn": [shown[f"d {index}"] for index in drawn],
    }


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
