"""Records of a store that several machines write: committed with their transaction, then copied to every redo file."""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import structlog
from sqlalchemy import Connection, create_engine, delete, insert, select

from app.errors import ForkedLogError, StoreBehindError
from app.log.heads import TreeHead
from app.log.journal import current_head
from app.store.redo import ORIGIN, Mark, RedoFile, RedoRecord
from app.store.schema import redo_records

__all__ = ["Outbox"]

_KEPT = 1_000
_log = structlog.get_logger("store")


class Outbox:
    """The newest records, kept in the store itself until the machines have them.

    Guarantee:  a file holds committed records only, and all that this machine acknowledged. So a store that lacks one
                of them, or has another in its place, is behind or forked, whichever machine asks: nothing is ever
                carried out or void, and the files of any two machines are one history, of which each may lack the end.
    """

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url, pool_size=1, max_overflow=1, pool_pre_ping=True)
        self._lock = threading.Lock()

    def compare(self, connection: Connection, file: RedoFile, mark: Mark) -> bool:
        """Compare the store, in a transaction that holds the writers' lock, with this machine's file.

        Returns False where the store no longer has the record to compare with: then the file's signed head decides.
        Raises:     StoreBehindError: the file has more. ForkedLogError: it has another history.
        """
        with self._held(file):
            file.refresh()
            last = file.last
        if last.n > mark.n:
            missing = last.n - mark.n
            raise StoreBehindError(
                f"store: expected all that was acknowledged, got one without the last {missing} (restore replays them)",
                missing=missing,
            )
        if last.n in (0, mark.n):
            digest: str | None = last.digest if last.n == 0 else mark.digest
        else:
            wanted = select(redo_records.c.digest).where(redo_records.c.n == last.n)
            digest = connection.execute(wanted).scalar_one_or_none()
        if digest is not None and digest != last.digest:
            raise ForkedLogError("store: expected the history of the redo file, got another")
        return digest is not None

    def put(self, connection: Connection, record: RedoRecord) -> None:
        """Store a record in its own transaction, and let go of one that is old."""
        row = {"n": record.n, "digest": record.digest, "record": msgspec.json.encode(record)}
        connection.execute(insert(redo_records).values(row))
        connection.execute(delete(redo_records).where(redo_records.c.n <= record.n - _KEPT))

    def copy_to(self, file: RedoFile) -> None:
        """Bring this machine's file to where the store is, and return once that is durable."""
        with self._held(file):
            file.refresh()
            with self._engine.connect() as connection, connection.begin():
                wanted = select(redo_records.c.record).where(redo_records.c.n > file.last.n)
                due = connection.execute(wanted.order_by(redo_records.c.n)).scalars().all()
                head = current_head(connection)
            for raw in due:
                record = msgspec.json.decode(raw, type=RedoRecord)
                if record.previous != file.last.digest:
                    before = Mark(record.n - 1, record.previous)
                    _log.warning("the redo file missed what other machines wrote: back up now", record=record.n)
                    file.append(
                        RedoRecord(n=before.n, previous=ORIGIN, digest=before.digest, heads=[head] if head else [])
                    )
                file.append(record)
            file.sync()

    def compact(self, file: RedoFile, n: int, head: TreeHead | None) -> int:
        """Leave out of the file what a backup holds (see `RedoFile.compact`)."""
        with self._held(file):
            file.refresh()
            return file.compact(n, head)

    def close(self) -> None:
        """Let go of connections."""
        self._engine.dispose()

    @contextmanager
    def _held(self, file: RedoFile) -> Iterator[None]:
        """Hold the file against the other threads and processes of this machine."""
        with self._lock, file.path.with_name(f"{file.path.name}.lock").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield
