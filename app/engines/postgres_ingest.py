"""A snapshot file becomes a table in PostgreSQL, once: copied whole, readable by one role, written by nobody."""

from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from app.engines.connection import open_snapshot
from app.engines.errors import IngestError
from app.engines.postgres_connection import connect_writing, driver, guarded
from app.engines.rendering import PostgresTable, postgres_name
from app.queries.compile import ROWS_TABLE
from app.queries.schema import Column, ColumnType, DatasetSchema

__all__ = ["copy_to_postgres", "drop_from_postgres"]

_TYPES: dict[ColumnType, str] = {
    "integer": "bigint",
    "real": "double precision",
    "text": 'text COLLATE "C"',
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
}
_ROWS_AT_ONCE = 10_000


def copy_to_postgres(source: Path, schema: DatasetSchema, address: str, table: PostgresTable, reader: str) -> None:
    """Write the declared columns of a snapshot file to a new table, in one transaction, and let `reader` read it.

    The file has passed the rules of `app.engines.ingest`, so that both engines hold the same values: text is compared
    code point by code point (COLLATE "C"), reals are the same binary64, years before 1 are written as PostgreSQL has
    them. The right to write is taken from everybody, its owner included: what is left is what an administrator takes
    upon himself.

    Args:       source: written by `ingest_csv` or `ingest_parquet`. address: of a role that owns, or may create, the
                table's schema. reader: an existing role, to be used for answering and nothing else.
    Raises:     EngineError: the file or the server cannot be opened. IngestError: the table exists, the reader does
                not, or a text holds a NUL, which PostgreSQL cannot; the message holds no value, row or count.
    """
    snapshot = open_snapshot(source)
    connection = None
    try:
        connection = connect_writing(address)
        written = _written(connection, snapshot, schema, table, reader)
    finally:
        snapshot.close()
        if connection is not None:
            connection.close()
    if not written:
        raise IngestError("table: expected a new one, a reader that exists, and text without NUL, got another")


def drop_from_postgres(address: str, table: PostgresTable) -> None:
    """Drop a snapshot's table that no dataset came to name; raises EngineError."""
    connection = connect_writing(address)
    sql = driver().sql
    try:
        name = sql.Identifier(table.schema, table.name)
        guarded(lambda: connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name)))
    finally:
        connection.close()


def _written(connection: Any, snapshot: Any, schema: DatasetSchema, table: PostgresTable, reader: str) -> bool:
    """Whether all went well; the engines' own texts hold values of rows, so they end here."""
    psycopg = driver()
    try:
        with connection.transaction():
            for statement in _before(psycopg.sql, schema, table):
                connection.execute(statement)
            _copy(connection, snapshot, schema, table)
            for statement in _after(psycopg.sql, table, reader):
                connection.execute(statement)
    except (psycopg.Error, duckdb.Error):
        return False
    return True


def _before(sql: Any, schema: DatasetSchema, table: PostgresTable) -> list[Any]:
    columns = [
        sql.SQL("{} " + _TYPES[column.type]).format(sql.Identifier(postgres_name(column.stable_id)))
        for column in schema.columns
    ]
    name = sql.Identifier(table.schema, table.name)
    return [
        sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(table.schema)),
        sql.SQL("CREATE TABLE {} ({})").format(name, sql.SQL(", ").join(columns)),
    ]


def _after(sql: Any, table: PostgresTable, reader: str) -> list[Any]:
    name, role = sql.Identifier(table.schema, table.name), sql.Identifier(reader)
    return [
        sql.SQL("ANALYZE {}").format(name),
        sql.SQL("REVOKE ALL ON {} FROM PUBLIC, CURRENT_USER").format(name),
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(table.schema), role),
        sql.SQL("GRANT SELECT ON {} TO {}").format(name, role),
    ]


def _copy(connection: Any, snapshot: Any, schema: DatasetSchema, table: PostgresTable) -> None:
    selected = exp.select(*(_selected(column) for column in schema.columns)).from_(ROWS_TABLE)
    rows = snapshot.execute(selected.sql(dialect="duckdb"))
    with connection.cursor().copy(f"COPY {table.quoted()} FROM STDIN") as copy:
        while batch := rows.fetchmany(_ROWS_AT_ONCE):
            for row in batch:
                copy.write_row(row)


def _selected(column: Column) -> exp.Expression:
    """The column as Python has it; times as text, for Python's own begin with the year 1."""
    value = exp.column(column.stable_id, quoted=True)
    if column.type not in ("date", "timestamp"):
        return value
    text = exp.cast(value, "TEXT")
    return exp.func("REPLACE", text, exp.Literal.string(" (BC)"), exp.Literal.string(" BC"))
