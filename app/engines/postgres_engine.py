"""Snapshots kept in PostgreSQL: the same questions, the same integers, asked by a role that cannot write."""

import hashlib
import threading
from decimal import Decimal
from typing import Any

from sqlglot import exp

from app.engines.errors import EngineError
from app.engines.postgres_connection import connect_reading, driver, fetch, guarded
from app.engines.rendering import PostgresTable, for_postgres
from app.engines.session import Session
from app.errors import IntegrityError
from app.queries.canonical import CanonicalQuery
from app.queries.compile import compile_query

__all__ = ["PostgresSnapshot"]

_COLUMNS = (
    "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
    "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attname"
)
_MAY_WRITE = (
    "SELECT rolsuper OR has_table_privilege(current_user, to_regclass(%s), 'INSERT, UPDATE, DELETE, TRUNCATE') "
    "FROM pg_roles WHERE rolname = current_user"
)


class PostgresSnapshot(Session):
    """One snapshot in a table that `app.engines.postgres_ingest` wrote, open for reading.

    Safe to share between threads: answers wait for one another. A session that was lost is opened again at the next
    question.

    Args:       address: a connection string of libpq, for a role that may read the table and not write it.
    Raises:     EngineError: no such server or table, or a role that could change what it reads.
    """

    def __init__(self, address: str, table: PostgresTable) -> None:
        self._address, self._table = address, table
        self._asking = threading.Lock()
        self._connection = self._opened()

    def answer(self, canonical: CanonicalQuery) -> tuple[int, ...]:
        """Return the exact answer: one integer a key or range in canonical order, or one alone without groups.

        Guarantee:  the integers are those of `app.engines.duckdb_engine` on the same rows, in any order.
        Raises:     EngineError: the engine failed; nothing of the data is in the message, the fields or the cause.
        """
        statement = for_postgres(compile_query(canonical), self._table)
        with self._asking:
            if self._connection.closed:
                self._connection = self._opened()
            rows = fetch(self._connection, statement)
        return _answers(rows, canonical)

    def checked(self, canonical: CanonicalQuery, key: bytes, expected: str) -> tuple[int, ...]:
        """Return the exact answer, from rows of the expected digest: both are read in one transaction.

        Raises:     IntegrityError: the table holds other rows. EngineError: as `answer`.
        """
        return _answers(self.checked_rows(compile_query(canonical), key, expected), canonical)

    def checked_rows(self, question: exp.Expression, key: bytes, expected: str) -> list[tuple[Any, ...]]:
        """Return what a compiled question selects, from rows of the expected digest; raises as `checked`."""
        statement = for_postgres(question, self._table)

        def read() -> list[tuple[Any, ...]]:
            with self._connection.transaction():
                if _rows_digest(self._connection, self._table, key) != expected:
                    raise IntegrityError("snapshot: expected the content that was sealed, got other content")
                return fetch(self._connection, statement)

        with self._asking:
            if self._connection.closed:
                self._connection = self._opened()
            return guarded(read)

    def digest(self, key: bytes) -> str:
        """Return the keyed digest of the table's rows; raises EngineError."""

        def read() -> str:
            with self._connection.transaction():
                return _rows_digest(self._connection, self._table, key)

        with self._asking:
            return guarded(read)

    def _opened(self) -> Any:
        connection = connect_reading(self._address)
        try:
            allowed = fetch(connection, _MAY_WRITE, (self._table.quoted(),)) == [(False,)]
        except EngineError:
            connection.close()
            raise
        if not allowed:
            connection.close()
            raise EngineError
        return connection


def _rows_digest(connection: Any, table: PostgresTable, key: bytes) -> str:
    """Return a keyed BLAKE2b, in hex, of a table's rows: equal for equal multisets of rows, in whatever order.

    SHA-256 of each row's fields by column (text, length-prefixed, null marked), sorted. The key never enters SQL.
    """
    columns = connection.execute(_COLUMNS, (table.quoted(),)).fetchall()
    if not columns:
        raise EngineError
    sql = driver().sql
    fields = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name, _ in columns)
    rows = sql.SQL("SELECT {} FROM {}").format(fields, sql.Identifier(table.schema, table.name))
    digests = []
    with connection.cursor(name="digest") as cursor:
        cursor.execute(rows)
        for row in cursor:
            texts = ("-" if value is None else f"{len(value)}:{value}" for value in row)
            digests.append(hashlib.sha256("".join(texts).encode()).digest())
    digest = hashlib.blake2b(repr(columns).encode(), key=key, digest_size=32)
    for each in sorted(digests):
        digest.update(each)
    return digest.hexdigest()


def _answers(rows: list[tuple[Any, ...]], canonical: CanonicalQuery) -> tuple[int, ...]:
    answers = tuple(_whole(answer) for _, answer in rows)
    if len(answers) != canonical.length:
        raise EngineError
    return answers


def _whole(value: object) -> int:
    """Sums are numeric there, exact at any size; anything that is not whole is no answer."""
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    if type(value) is int:
        return value
    raise EngineError
