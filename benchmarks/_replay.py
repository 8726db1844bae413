"""The statements of one sale, recorded, and a bare script that commits them again and again through the same driver."""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, UniqueConstraint, create_engine, event
from sqlalchemy.pool import NullPool

from app.store.schema import metadata

__all__ = ["Statement", "commit_again", "recording"]

_INSERT = re.compile(r'INSERT INTO "?(\w+)"? \(([^)]*)\)')


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as its driver got it; a commit has no text."""

    text: str
    parameters: Any
    many: bool


def recording(engine: Engine, work: Callable[[], None]) -> list[Statement]:
    """Return what an engine's writing transactions execute while `work` runs, commits included."""
    noted: list[Statement] = []

    def executed(_c: Any, _cursor: Any, text: str, parameters: Any, _context: Any, many: bool) -> None:
        noted.append(Statement(text, parameters, many))

    def committed(_connection: Any) -> None:
        noted.append(Statement("", None, False))

    event.listen(engine, "before_cursor_execute", executed)
    event.listen(engine, "commit", committed)
    try:
        work()
    finally:
        event.remove(engine, "before_cursor_execute", executed)
        event.remove(engine, "commit", committed)
    return noted


def commit_again(url: str, noted: list[Statement], *, sales: int, clients: int) -> float:
    """Run the recorded transactions `sales` times over `clients` connections; return sales a second.

    Each time, what must be unique is made so: one column of every key of every inserted row. Nothing else is done.
    Foreign keys are not checked, to the script's advantage: the rows they would name are not there.
    """
    engine = create_engine(url, poolclass=NullPool)
    sqlite = engine.dialect.name == "sqlite"
    due = iter(range(1, sales + 1))
    lock, failures = threading.Lock(), list[BaseException]()

    def client() -> None:
        raw: Any = engine.raw_connection()
        connection = raw.driver_connection
        try:
            cursor = connection.cursor()
            if sqlite:
                connection.isolation_level = None
                for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=OFF", "busy_timeout=60000"):
                    cursor.execute(f"PRAGMA {pragma}")
            else:
                cursor.execute("SET session_replication_role = replica")
                cursor.execute("SET default_transaction_isolation = 'repeatable read'")
                connection.commit()
            while True:
                with lock:
                    number = next(due, None)
                if number is None:
                    return
                _sale(cursor, noted, number)
        except BaseException as error:
            failures.append(error)
        finally:
            raw.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if failures:
        raise failures[0]
    return sales / seconds


def _sale(cursor: Any, noted: list[Statement], number: int) -> None:
    begun = False
    for statement in noted:
        if not statement.text:
            cursor.execute("COMMIT")
            begun = False
            continue
        if not begun and not statement.text.startswith("BEGIN"):
            cursor.execute("BEGIN")
        begun = True
        parameters = _fresh(statement, number)
        if statement.many:
            cursor.executemany(statement.text, parameters)
        else:
            cursor.execute(statement.text, parameters)
        if statement.text.lstrip().startswith("SELECT"):
            cursor.fetchall()


def _fresh(statement: Statement, number: int) -> Any:
    found = _INSERT.match(statement.text)
    if found is None:
        return statement.parameters
    names = [name.strip().strip('"') for name in found[2].split(",")]
    unique = _unique_columns(found[1])
    rows = statement.parameters if statement.many else [statement.parameters]
    fresh = []
    for place, row in enumerate(rows):
        serial = number * 100 + place
        if isinstance(row, dict):
            fresh.append({n: _other(v, serial, place) if n.partition("__")[0] in unique else v for n, v in row.items()})
        else:
            width = len(names)
            fresh.append(
                tuple(_other(v, serial, i // width) if names[i % width] in unique else v for i, v in enumerate(row))
            )
    return fresh if statement.many else fresh[0]


def _other(value: Any, serial: int, place: int) -> Any:
    if isinstance(value, str):
        return f"{serial:0{len(value)}x}{place}"[-max(len(value), 12) :]
    return 10**9 + serial * 10 + place


def _unique_columns(table: str) -> set[str]:
    """One column of each key of a table, which made different makes the whole key different."""
    if table not in metadata.tables:
        return set()
    found = metadata.tables[table]
    keys = [[str(c.name) for c in found.primary_key.columns]]
    keys += [[str(c.name) for c in k.columns] for k in found.constraints if isinstance(k, UniqueConstraint)]
    return {key[-1] for key in keys if key}
