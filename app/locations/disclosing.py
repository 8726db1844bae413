"""What an auditor may have of a location panel: leaves with proofs, openings, and every value that was released.

All of it was charged for when it was drawn, so it costs nobody anything; of places it holds what the promise allows.
"""

import base64
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, Row, select

from app.audit.outages import asked_again
from app.errors import AppError, ConflictError, IntegrityError
from app.locations.acts import places_of
from app.locations.desk import Due, LocationPanel, Settled, answer_of, charged_rounds, location_of, table_of
from app.locations.people import Table
from app.locations.replay import FORMAT, replay_location
from app.locations.running import run_question
from app.locations.transcript import ANSWER, LEDGER, TRANSCRIPT, opening
from app.log.disclosures import Extent
from app.log.heads import TreeHead
from app.market import Market
from app.panels.proving import proved
from app.store.location_schema import location_panels, location_queries
from tiers.accounting.people import Nanos, People, PeopleLedger
from tiers.adaptive.space import Places
from tiers.audit.findings import Finding
from tiers.errors import AuditError, TierError

__all__ = ["disclose", "replay_locations"]

_OPENED = (TRANSCRIPT, LEDGER, ANSWER)


def disclose(market: Market, panel: str) -> Iterator[bytes]:
    """Yield what an auditor may have of a panel's answered questions, one JSON record a line, derived again.

    The first line says how many there are, signed: a file with fewer is none of the market's.

    Raises:     NotFoundError: no such panel. ConflictError: no question was answered. SnapshotAbsentError,
                IntegrityError: the places are gone, or what is derived from them is not what was committed to.
    """
    found, table, rows, shown = market.database.read_now(lambda connection: _answered(connection, market, panel))
    places = places_of(market, found, table)
    return _lines(market, found, places, rows, shown)


def replay_locations(market: Market) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Yield each panel of which a question was answered with what its replay found: a part of the log's audit."""
    publics = list(market.keyring.public_keys().values())

    def of_panel(panel: str) -> tuple[Finding, ...]:
        return replay_location(disclose(market, panel), publics).findings

    wanted = select(location_panels.c.id).where(location_panels.c.answered > 0).order_by(location_panels.c.leaf_index)
    for panel in market.database.read_now(lambda connection: list(connection.execute(wanted).scalars())):
        try:
            found = asked_again(partial(of_panel, panel))
        except (AppError, AuditError, TierError) as error:
            found = (Finding("A7", "location-withheld", "panel", "a panel that was asked", type(error).__name__),)
        yield panel, found


def _answered(
    connection: Connection, market: Market, panel: str
) -> tuple[LocationPanel, Table, list[Row[Any]], dict[str, Any]]:
    found = location_of(connection, panel)
    here = (location_queries.c.panel_id == panel) & location_queries.c.leaf_index.is_not(None)
    rows = list(connection.execute(select(location_queries).where(here).order_by(location_queries.c.number)))
    if not rows:
        raise ConflictError("location panel: expected one of which a question was answered, got one without")
    shown = proved(connection, {"panel": found.leaf_index} | {str(row.number): row.leaf_index for row in rows})
    return found, table_of(connection, market.settings.snapshots, found), rows, shown


def _lines(
    market: Market, panel: LocationPanel, places: Places, rows: list[Row[Any]], shown: dict[str, Any]
) -> Iterator[bytes]:
    extent = Extent(FORMAT, panel.id, msgspec.convert(shown["head"], TreeHead), {"answers": len(rows)})
    told = {"head": shown["head"], "panel": shown["panel"], **extent.holds, "signature": extent.sign(market.keyring)}
    yield msgspec.json.encode({"format": FORMAT, **told}) + b"\n"
    secret, ledger = market.keyring.owner_secret(panel.owner, panel.epoch), panel.terms.unspent
    for row in rows:
        kept: list[bytes] = []

        def keep(place: int, who: People, values: Places, kept: list[bytes] = kept) -> None:
            kept.append(_round_line(place, panel.terms.people, who, values))

        settled, ledger = _derived(market, panel, row, secret, places, ledger, keep)
        if (settled.leaf.transcript, settled.leaf.answer) != _logged(shown[str(row.number)]["leaf"]):
            raise IntegrityError("location panel: expected what was committed to, got another derivation")
        openings = {what: opening(secret, panel.id, row.query, what).hex() for what in _OPENED}
        stored = answer_of(market.keyring, panel.id, row)
        yield msgspec.json.encode({"leaf": shown[str(row.number)], "openings": openings, "answer": stored}) + b"\n"
        yield from kept


def _derived(
    market: Market, panel: LocationPanel, row: Row[Any], secret: bytes, places: Places, ledger: PeopleLedger, keep: Any
) -> tuple[Settled, PeopleLedger]:
    """Run a question again, every round of it written before, from the ledger that it began with."""
    charged = market.database.read_now(lambda connection: charged_rounds(connection, market.keyring, panel, row.query))
    due = Due(row.query, row.question, row.budget_nano)
    settled = run_question(
        replace(panel, answered=row.number - 1), due, secret, places, ledger, charged, _nothing_new, keep
    )
    return settled, panel.terms.ledger(ledger.spent + sum(charged, np.zeros(panel.terms.people, np.int64)))


def _nothing_new(_place: int, _charges: Nanos) -> None:
    raise IntegrityError("location ledger: expected the rounds that were charged, got one more")


def _logged(leaf: Any) -> tuple[str, str]:
    read = msgspec.json.decode(bytes(leaf), type=dict[str, Any])
    return read["transcript"], read["answer"]


def _round_line(place: int, people: int, who: People, values: Places) -> bytes:
    """Return a round as JSON: a bit a person, and the values of those whose bit is set, packed."""
    asked = np.zeros(people, np.bool_)
    asked[who] = True
    raw = np.ascontiguousarray(values, "<i8").tobytes()
    record = {
        "round": place + 1,
        "asked": base64.b64encode(zlib.compress(np.packbits(asked).tobytes(), 1)).decode(),
        "values": base64.b64encode(zlib.compress(raw, 1)).decode(),
    }
    return msgspec.json.encode(record) + b"\n"
