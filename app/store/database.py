"""One database: one writer thread a process, a few reader threads, migrations on opening."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from app.errors import StoreUnavailableError

__all__ = ["Database", "migrate", "open_engine"]

T = TypeVar("T")
_READERS = 4


def open_engine(url: str) -> Engine:
    """Return an engine whose transactions on SQLite are durable (WAL, FULL) and take the write lock first."""
    engine = create_engine(url, poolclass=QueuePool, pool_size=_READERS + 1, max_overflow=2)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=15000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def migrate(engine: Engine) -> None:
    """Bring the schema to the newest revision; the same path from empty and from any earlier release."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.execution_options(writing=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


class Database:
    """The system of record as handlers see it: `write` runs one transaction at a time, `read` beside it.

    A write is one function of a connection; it commits when the function returns and leaves nothing when it raises.
    """

    def __init__(self, engine: Engine) -> None:
        self._writing = engine.execution_options(writing=True)
        self._reading = engine
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="reader")
        self._queue: queue.SimpleQueue[tuple[Callable[[Connection], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="writer", daemon=True)
        self._writer.start()

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction of the writer thread and return its result once it is durable."""
        return await asyncio.wrap_future(self.submit(work))

    def submit(self, work: Callable[[Connection], T]) -> Future[T]:
        """Queue `work` for the writer thread."""
        done: Future[T] = Future()
        self._queue.put((work, done))
        return done

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a consistent read of the store, in a reader thread."""
        return await asyncio.wrap_future(self._readers.submit(self.read_now, work))

    def read_now(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a consistent read of the store, here."""
        try:
            with self._reading.connect() as connection, connection.begin():
                return work(connection)
        except SQLAlchemyError as error:
            raise StoreUnavailableError("store: expected an answer, got none") from error

    def close(self) -> None:
        """Finish queued writes and let the threads go."""
        self._queue.put(None)
        self._writer.join(timeout=30)
        self._readers.shutdown()
        self._reading.dispose()

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            work, done = item
            if not done.set_running_or_notify_cancel():
                continue
            try:
                with self._writing.begin() as connection:
                    result = work(connection)
            except IntegrityError as error:
                done.set_exception(error)
            except SQLAlchemyError as error:
                failure = StoreUnavailableError("store: expected a durable commit, got none")
                failure.__cause__ = error
                done.set_exception(failure)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(result)
