"""Sessions with PostgreSQL: fixed settings, and failures that tell nothing of the data. Needs the extra `postgres`."""

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from app.engines.errors import EngineError

__all__ = ["connect_reading", "connect_writing", "driver", "fetch", "guarded"]

T = TypeVar("T")
_SETTINGS = {
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "jit": "off",
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
}
_READING = {"default_transaction_read_only": "on", "default_transaction_isolation": r"repeatable\ read"}


def driver() -> Any:
    """Return psycopg, imported when first asked for: a market on DuckDB runs without it."""
    return importlib.import_module("psycopg")


def connect_reading(address: str) -> Any:
    """Return a session in which nothing can be written.

    Raises:     EngineError: no such server, role or database, or one that does not keep text in UTF-8.
    """
    return _connect(address, _SETTINGS | _READING)


def connect_writing(address: str) -> Any:
    """Return a session of the owner of the market's schema; raises as `connect_reading`."""
    return _connect(address, _SETTINGS)


def fetch(connection: Any, statement: str, parameters: tuple[object, ...] | None = None) -> list[tuple[Any, ...]]:
    """Return all rows of a statement.

    Raises:     EngineError: whatever PostgreSQL raised; raised outside the handler, for its texts hold values of rows
                and a chained exception would carry them into a traceback.
    """
    rows: list[tuple[Any, ...]] | None
    try:
        rows = connection.execute(statement, parameters).fetchall()
    except driver().Error:
        rows = None
    if rows is None:
        raise EngineError
    return rows


def guarded(work: Callable[[], T]) -> T:
    """Return what `work` does; raises EngineError for whatever PostgreSQL raised, outside the handler, as `fetch`."""
    done: list[T] = []
    try:
        done.append(work())
    except driver().Error:
        done.clear()
    if not done:
        raise EngineError
    return done[0]


def _connect(address: str, settings: dict[str, str]) -> Any:
    connection = None
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    try:
        connection = driver().connect(address, autocommit=True, options=options)
    except driver().Error:
        connection = None
    if connection is None:
        raise EngineError
    if fetch(connection, "SHOW server_encoding") != [("UTF8",)]:
        connection.close()
        raise EngineError
    return connection
