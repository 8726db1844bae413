"""New keys: a number more in the key file, a leaf in the log, and nothing that an old key did is undone."""

from collections.abc import Callable
from typing import Any, TypeAlias

from sqlalchemy import Column, Connection, Row, and_, select, update

from app.engine.release import answer_context
from app.founding import found_market, recorder_of
from app.keyring import Keyring, add_key
from app.locations.desk import answered_context, round_context, spent_context
from app.log.epochs import logged_numbers
from app.panels.desk import context_of
from app.settings import Settings
from app.store.database import open_engine, write_once
from app.store.location_schema import location_panels, location_queries, location_rounds
from app.store.panel_schema import panel_tiers
from app.store.schema import draws

__all__ = ["reseal", "rotate"]

_Place: TypeAlias = Callable[["Row[Any]"], str]
_SEALED: tuple[tuple["Column[Any]", _Place], ...] = (
    (draws.c.sealed_answer, lambda row: answer_context(row.chain_id, row.law)),
    (panel_tiers.c.sealed_counts, lambda row: context_of(row.panel_id, row.number, row.rank)),
    (location_panels.c.sealed_spent, lambda row: spent_context(row.id, row.answered)),
    (location_rounds.c.sealed_charges, lambda row: round_context(row.panel_id, row.query, row.place)),
    (location_queries.c.sealed_answer, lambda row: answered_context(row.panel_id, row.query)),
)
"""What the store keeps sealed, and what each is bound to. Exports lapse, and keep the key that they were made with."""


def rotate(settings: Settings, purpose: str) -> int:
    """Add a key of a purpose and log it; return its number. Running workers must be restarted: they write no more.

    A crash in between is made good by the next start, which logs every key that the log does not know.

    Raises:     InvalidRequestError: a purpose that is not rotated. StoreBehindError and ForkedLogError: not now.
    """
    keyring = found_market(settings)
    engine, recorder = open_engine(settings.database_url), recorder_of(settings, keyring)
    try:
        known = write_once(engine, recorder, logged_numbers)
    finally:
        recorder.close()
        engine.dispose()
    ring = add_key(settings.keys, purpose, above=known.get(purpose, 0))
    found_market(settings)
    return ring.numbers[purpose]


def reseal(settings: Settings) -> int:
    """Seal answers, panels' counts and people's ledgers under the newest storage key; return how many were not."""
    keyring = found_market(settings)
    engine, recorder = open_engine(settings.database_url), recorder_of(settings, keyring)
    try:
        return write_once(engine, recorder, lambda connection: _reseal(connection, keyring))
    finally:
        recorder.close()
        engine.dispose()


def _reseal(connection: Connection, keyring: Keyring) -> int:
    newest, changed = keyring.numbers["storage"], 0
    for column, context in _SEALED:
        key = column.table.primary_key.columns
        for found in connection.execute(select(*key).where(column.is_not(None))).all():
            here = and_(*(each == value for each, value in zip(key, found, strict=True)))
            row = connection.execute(select(column.table).where(here)).one()
            sealed, place = getattr(row, column.name), context(row)
            if keyring.sealed_under(sealed) == newest:
                continue
            again = keyring.seal(keyring.unseal(sealed, place), place)
            connection.execute(update(column.table).where(here).values({column: again}))
            changed += 1
    return changed
