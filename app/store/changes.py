"""What a transaction changed: its statements, noted as they run, packed for a record, carried out again."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, Engine, event

from app.errors import IntegrityError

__all__ = ["begin_changes", "carry_out", "drop_changes", "note_changes", "packed", "take_changes"]

_UNRECORDED = {"leaves", "heads", "quotes", "export_frames", "redo_position", "redo_records"}
_READS = re.compile(r"\s*(SELECT|PRAGMA|EXPLAIN|LOCK|SAVEPOINT|RELEASE|ROLLBACK)\b", re.IGNORECASE)
_CHANGES = re.compile(r'\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM)\s+"?(\w+)', re.IGNORECASE)
_NOTES = "tiermarket.changes"
_Change: TypeAlias = tuple[str, Any, bool]


def note_changes(engine: Engine) -> None:
    """Note the statements of recorded transactions as they run; quotes and what exports hold lapse and are left out."""

    def executed(
        connection: Connection, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool
    ) -> None:
        notes = connection.info.get(_NOTES)
        if notes is None or _READS.match(statement):
            return
        changed = _CHANGES.match(statement)
        if changed is None or changed[1] not in _UNRECORDED:
            notes.append((statement, parameters, many))

    def opened(connection: Connection, _name: Any) -> None:
        if _NOTES in connection.info:
            connection.info[_NOTES].append(None)

    def ended(connection: Connection, _name: Any, _context: Any, *, kept: bool) -> None:
        notes = connection.info.get(_NOTES, [])
        if None in notes:  # savepoints end in the reverse of their order, so the last mark is this one's
            since = len(notes) - notes[::-1].index(None)
            notes[since - 1 :] = notes[since:] if kept else []

    event.listen(engine, "after_cursor_execute", executed)
    event.listen(engine, "savepoint", opened)
    event.listen(engine, "release_savepoint", partial(ended, kept=True))
    event.listen(engine, "rollback_savepoint", partial(ended, kept=False))


def begin_changes(connection: Connection) -> None:
    """Note what the transaction at hand changes from here on."""
    connection.info[_NOTES] = []


def take_changes(connection: Connection) -> list[_Change]:
    """Return what was noted, and note no more."""
    noted: list[_Change] = connection.info.pop(_NOTES)
    return noted


def drop_changes(connection: Connection) -> None:
    """Forget what was noted, if anything was, and note no more."""
    connection.info.pop(_NOTES, None)


def packed(changes: list[_Change]) -> bytes:
    """Return changes as a record holds them; raises IntegrityError where a value is no number, text or bytes."""
    return msgspec.msgpack.encode(changes, enc_hook=_plain)


def carry_out(connection: Connection, raw: bytes) -> None:
    """Carry out the changes that a record holds."""
    for statement, parameters, many in msgspec.msgpack.decode(raw, type=list[_Change]):
        connection.exec_driver_sql(statement, _driver_parameters(parameters, many))


def _plain(value: Any) -> Any:
    """Return what a driver wrapped for itself, as bytes."""
    if isinstance(value, memoryview):
        return bytes(value)
    held = getattr(value, "obj", None)
    if isinstance(held, bytes | bytearray):
        return bytes(held)
    raise IntegrityError("redo record: expected numbers, text and bytes, got another type")


def _driver_parameters(parameters: Any, many: bool) -> Any:
    """Return parameters as the drivers take them: MessagePack gave lists where they want tuples."""

    def one(row: Any) -> Any:
        return tuple(row) if isinstance(row, Sequence) and not isinstance(row, str) else row

    return [one(row) for row in parameters] if many else one(parameters)
