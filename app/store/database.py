"""One database: one writer thread a process, a few reader threads, migrations on opening."""

import asyncio
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DataError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from app.errors import InvalidRequestError, StoreUnavailableError
from app.store.changes import note_changes
from app.store.recording import Recorder
from app.store.redo import RedoRecord
from app.store.rights import Rights, rights_epoch
from app.store.transactions import T, Work, transact, unstorable

__all__ = ["Database", "migrate", "open_engine", "upgrade", "write_once"]

_READERS = 4
_MOST_TOGETHER = 32
_MIGRATING = 0x7469657273


def open_engine(url: str) -> Engine:
    """Return an engine whose writing transactions take their turn before they read, and are durable.

    SQLite: WAL, synchronous=FULL, BEGIN IMMEDIATE. PostgreSQL: SERIALIZABLE behind a lock that other writers wait for
    and readers do not; whatever writes beside that lock meets the serialization checks.
    """
    kind = make_url(url).get_backend_name()
    if kind not in ("sqlite", "postgresql"):
        raise InvalidRequestError("TIERMARKET_DATABASE_URL: expected sqlite or postgresql+psycopg, got another")
    # as an argument, not as an option of the engine: that would also hold for what is made of it with another level
    more = {"pool_pre_ping": True, "isolation_level": "REPEATABLE READ"} if kind == "postgresql" else {}
    engine = create_engine(url, poolclass=QueuePool, pool_size=_READERS + 1, max_overflow=2, **more)
    if kind == "sqlite":
        if engine.url.database and not Path(engine.url.database).exists():
            Path(engine.url.database).touch(mode=0o600)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        event.listen(engine, "begin", _begin_postgres)
    note_changes(engine)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=15000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _begin_postgres(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("migrating", False):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATING})")
    elif options.get("writing", False):  # LOCK reads nothing, so the snapshot is taken after it is had
        connection.exec_driver_sql("LOCK TABLE redo_position IN EXCLUSIVE MODE")


def _writing(engine: Engine) -> Engine:
    if engine.dialect.name == "postgresql":
        return engine.execution_options(writing=True, isolation_level="SERIALIZABLE")
    return engine.execution_options(writing=True)


def migrate(engine: Engine) -> None:
    """Bring the schema to the newest revision; the same path from empty and from any earlier release."""
    upgrade(engine, "head")


def upgrade(engine: Engine, revision: str) -> None:
    """Bring the schema to a revision."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    level = {"isolation_level": "READ COMMITTED"} if engine.dialect.name == "postgresql" else {}
    with engine.execution_options(writing=True, migrating=True, **level).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def write_once(engine: Engine, recorder: Recorder | None, work: Work[T]) -> T:
    """Run `work` in a transaction here, recorded, and return its result once it is durable."""
    result, record = transact(_writing(engine), recorder, work)
    if recorder is not None:
        recorder.acknowledge(record)
    return result


class Database:
    """The system of record as handlers see it: `write` runs one transaction at a time, `read` beside it.

    A write is one function of a connection; it commits when the function returns and leaves nothing when it raises.
    Where another process was faster in a way that the store refuses, the function runs again from the start. Writes
    that wait for the same turn commit together, each behind a savepoint of its own: one wait for the disk for all.
    """

    def __init__(self, engine: Engine, recorder: Recorder | None = None, rights: Rights | None = None) -> None:
        self.recorder, self._rights = recorder, rights
        self._writing, self._reading = _writing(engine), engine
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="reader")
        self._queue: queue.SimpleQueue[tuple[Work[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._committed: queue.SimpleQueue[_Committed | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._write_all, name="writer", daemon=True),
            threading.Thread(target=self._acknowledge_all, name="acknowledger", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction of the writer thread and return its result once it is durable."""
        return await asyncio.wrap_future(self.submit(work))

    def submit(self, work: Work[T]) -> Future[T]:
        """Queue `work` for the writer thread."""
        done: Future[T] = Future()
        self._queue.put((work, done))
        return done

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent read of the store, in a reader thread."""
        return await asyncio.wrap_future(self._readers.submit(self.read_now, work))

    def read_now(self, work: Work[T]) -> T:
        """Run `work` on a consistent read of the store, here."""
        try:
            with self._reading.connect() as connection, connection.begin():
                return work(connection)
        except DataError:
            raise unstorable() from None
        except SQLAlchemyError as error:
            raise StoreUnavailableError("store: expected an answer, got none") from error

    @property
    def standing(self) -> str:
        """Return how the store stood when it was last compared with what is known of it: current, behind or forked."""
        return "unrecorded" if self.recorder is None else self.recorder.standing

    def close(self) -> None:
        """Finish queued writes and let the threads go."""
        self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=30)
        self._readers.shutdown()
        self._reading.dispose()
        if self.recorder is not None:
            self.recorder.close()

    def _write_all(self) -> None:
        ended = False
        while not ended:
            items = [self._queue.get()]
            while len(items) < _MOST_TOGETHER and not self._queue.empty():
                items.append(self._queue.get())
            ended = items[-1] is None
            due = [item for item in items if item is not None and item[1].set_running_or_notify_cancel()]
            try:
                self._write(due)
            except _MemberFailedError:
                for item in due:
                    self._write([item])
        self._committed.put(None)

    def _write(self, due: list[tuple[Work[Any], Future[Any]]]) -> None:
        """Run one work as it is, several in one transaction."""
        works = [work for work, _ in due]
        try:
            outcomes, record = self._commit(works[0] if len(works) == 1 else partial(_run_each, works=works))
        except _MemberFailedError:
            raise
        except BaseException as error:
            for _, done in due:
                done.set_exception(error)
        else:
            outcomes = [_Outcome(outcomes)] if len(works) == 1 else outcomes
            told = [(outcome, done) for outcome, (_, done) in zip(outcomes, due, strict=True)]
            self._committed.put(_Committed(record, told))

    def _commit(self, work: Work[Any]) -> tuple[Any, RedoRecord | None]:
        rights = self._rights
        if rights is None:
            return transact(self._writing, self.recorder, work)
        asked = rights.clock()
        (result, epoch), record = transact(
            self._writing, self.recorder, lambda connection: (work(connection), rights_epoch(connection))
        )
        rights.confirm(epoch, asked)
        return result, record

    def _acknowledge_all(self) -> None:
        """Wait for the disk beside the writer, once for all transactions that have committed meanwhile."""
        ended = False
        while not ended:
            batch = [self._committed.get()]
            while not self._committed.empty():
                batch.append(self._committed.get())
            ended = batch[-1] is None
            self._acknowledge([item for item in batch if item is not None])

    def _acknowledge(self, batch: list["_Committed"]) -> None:
        records = [item.record for item in batch if item.record is not None]
        failure: Exception | None = None
        try:
            if self.recorder is not None:
                self.recorder.acknowledge(records[-1] if records else None)
        except (OSError, SQLAlchemyError):
            failure = StoreUnavailableError("redo file: expected a durable record, got none")
        for item in batch:
            for outcome, done in item.told:
                if failure is not None and item.record is not None:
                    done.set_exception(failure)
                elif outcome.error is not None:
                    done.set_exception(outcome.error)
                else:
                    done.set_result(outcome.result)
        if self.recorder is not None:
            self.recorder.show([record for record in records if record.heads][-1:])


class _MemberFailedError(Exception):
    """A work among several met an error of the store's: nothing was kept, and each is due on its own."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a work returned, or why it was refused and left nothing."""

    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Committed:
    """A transaction that has committed, and who is told what once its record is durable."""

    record: RedoRecord | None
    told: list[tuple[_Outcome, Future[Any]]]


def _run_each(connection: Connection, works: list[Work[Any]]) -> list[_Outcome]:
    """Run works in one transaction; one that raises leaves nothing and the others stand."""
    outcomes = []
    for work in works:
        try:
            with connection.begin_nested():
                outcomes.append(_Outcome(work(connection)))
        except SQLAlchemyError as error:
            raise _MemberFailedError from error
        except Exception as error:
            outcomes.append(_Outcome(error=error))
    return outcomes
