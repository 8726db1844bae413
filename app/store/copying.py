"""The rows of a store as one stream, from one consistent read: how a PostgreSQL store is backed up and restored."""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import msgspec
from sqlalchemy import Connection, Engine, MetaData, func, insert, select, text

from app.errors import IntegrityError
from app.log.heads import TreeHead
from app.log.journal import current_head
from app.store.database import migrate, upgrade, write_once
from app.store.location_schema import location_panels  # noqa: F401 - the location panels' tables join the metadata
from app.store.panel_schema import panels  # noqa: F401 - the panels' tables join the metadata
from app.store.recording import read_position
from app.store.schema import export_frames, metadata

__all__ = ["dump_rows", "head_of_rows", "load_rows", "tiers_of_copy"]

_LENGTH = struct.Struct(">Q")
_PAGE = 500
_SQLITE, _TIERS = b"SQLite format 3\0", "panel_tiers"


def dump_rows(engine: Engine, file: IO[bytes]) -> None:
    """Write every row of every table, parents before children, as of one moment; not what exports hold."""
    with engine.connect() as connection, connection.begin():
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        _put(file, [str(revision), read_position(connection).mark.n, current_head(connection)])
        for table in metadata.sorted_tables:
            if table is export_frames:
                continue
            columns = [str(column.name) for column in table.columns]
            with connection.execution_options(yield_per=_PAGE).execute(select(table)) as result:
                for page in result.partitions():
                    _put(file, [str(table.name), columns, [list(row) for row in page]])


def head_of_rows(file: IO[bytes]) -> tuple[str, int, TreeHead | None]:
    """Return a stream's schema revision, how many transactions it holds, and its newest head."""
    revision, written, head = next(_records(file), (None, None, None))
    return str(revision), int(written or 0), None if head is None else msgspec.convert(head, TreeHead)


def tiers_of_copy(path: Path) -> set[tuple[str, int, int]]:
    """Return the tiers of closed rounds that a copy of a store knows, SQLite's file or a stream: panel, round, rank."""
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            file.seek(0)
            records = _records(file)
            next(records, None)
            named = [
                dict(zip(columns, row, strict=True))
                for name, columns, rows in records
                if name == _TIERS
                for row in rows
            ]
            return {(row["panel_id"], row["number"], row["rank"]) for row in named}
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as held:
        known = held.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (_TIERS,)).fetchone()
        return set(held.execute("SELECT panel_id, number, rank FROM panel_tiers") if known else ())


def load_rows(engine: Engine, file: IO[bytes], revision: str) -> None:
    """Fill an empty database with a stream's rows, under the schema they were read from, then migrate it."""
    upgrade(engine, revision)
    records = _records(file)
    next(records)
    tables = MetaData()
    tables.reflect(engine)

    def fill(connection: Connection) -> None:
        for name, columns, rows in records:
            connection.execute(insert(tables.tables[name]), [dict(zip(columns, row, strict=True)) for row in rows])
        for table in tables.sorted_tables:
            _advance(connection, table)

    write_once(engine, None, fill)
    migrate(engine)


def _advance(connection: Connection, table: Any) -> None:
    """Let the numbers that the store gives go on after those that were given."""
    for column in table.primary_key.columns:
        sequence = connection.execute(select(func.pg_get_serial_sequence(table.name, column.name))).scalar_one()
        if sequence is not None:
            newest = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(sequence, newest, text("false"))))


def _put(file: IO[bytes], record: Any) -> None:
    raw = msgspec.msgpack.encode(record)
    file.write(_LENGTH.pack(len(raw)) + raw)


def _records(file: IO[bytes]) -> Iterator[Any]:
    while prefix := file.read(_LENGTH.size):
        raw = file.read(_LENGTH.unpack(prefix)[0]) if len(prefix) == _LENGTH.size else b""
        try:
            yield msgspec.msgpack.decode(raw)
        except msgspec.MsgspecError:
            raise IntegrityError("backup: expected whole rows, got a part") from None
