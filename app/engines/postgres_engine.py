"""Snapshots kept in PostgreSQL: the same questions, the same integers, asked by a role that cannot write."""

import threading
from decimal import Decimal
from types import TracebackType
from typing import Any, Self

from app.engines.errors import EngineError
from app.engines.postgres_connection import connect_reading, fetch
from app.engines.rendering import PostgresTable, for_postgres
from app.queries.canonical import CanonicalQuery
from app.queries.compile import compile_query

__all__ = ["PostgresSnapshot"]

_MAY_WRITE = (
    "SELECT rolsuper OR has_table_privilege(current_user, to_regclass(%s), 'INSERT, UPDATE, DELETE, TRUNCATE') "
    "FROM pg_roles WHERE rolname = current_user"
)


class PostgresSnapshot:
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
        answers = tuple(_whole(answer) for _, answer in rows)
        if len(answers) != canonical.length:
            raise EngineError
        return answers

    def close(self) -> None:
        """Close the session."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

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


def _whole(value: object) -> int:
    """Sums are numeric there, exact at any size; anything that is not whole is no answer."""
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    if type(value) is int:
        return value
    raise EngineError
