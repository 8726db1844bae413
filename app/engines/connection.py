"""Opening DuckDB so that it can read one file and nothing else, and failing without telling why."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from app.engines.errors import EngineError

__all__ = ["fetch_all", "open_snapshot"]

_LOCKED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "lock_configuration": "true",
}


def open_snapshot(path: Path) -> Any:
    """Return a connection that reads the DuckDB file `path`, with no way to files, networks or settings.

    Raises:     EngineError: there is no such file, or it is not a DuckDB file.
    """
    connection = None
    if path.is_file():
        try:
            connection = duckdb.connect(str(path), read_only=True, config=_LOCKED)
        except duckdb.Error:
            connection = None
    if connection is None:
        raise EngineError
    return connection


def fetch_all(cursor: Any, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a statement.

    Raises:     EngineError: whatever DuckDB raised; raised outside the handler, for DuckDB's texts hold values of rows
                and a chained exception would carry them into a traceback.
    """
    rows: list[tuple[Any, ...]] | None
    try:
        rows = cursor.execute(statement, list(parameters)).fetchall()
    except duckdb.Error:
        rows = None
    if rows is None:
        raise EngineError
    return rows
