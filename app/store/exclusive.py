"""Turns that all processes of a market take: whoever holds one loses it with its life, and no clock is asked."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from app.errors import StoreUnavailableError

__all__ = ["Turns"]

_SLOTS = 256
_Made = TypeVar("_Made")


class Turns:
    """Turns by kind and name. On SQLite a file lock beside the store, on PostgreSQL an advisory lock of the store's.

    A turn saves work and decides nothing: what may happen once only is said by the store's constraints. Names may share
    a turn (there are 256 files a kind), kinds never do, so a turn of one kind may be taken inside one of another.
    """

    def __init__(self, engine: Engine) -> None:
        self._folder: Path | None = None
        self._lines: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        if engine.dialect.name == "postgresql":
            self._engine = create_engine(engine.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        elif engine.url.database:
            self._folder = Path(engine.url.database).resolve().parent / "turns"
            self._folder.mkdir(mode=0o700, exist_ok=True)

    async def in_line(
        self,
        kind: str,
        name: str,
        work: Callable[[], _Made],
        threads: Executor | None = None,
        *,
        first: tuple[str, str] | None = None,
    ) -> _Made:
        """Do work that takes this turn, in a thread; what waits for it in this process holds no thread meanwhile.

        There are few threads, and everybody's requests need them: those who wait for one name would stop all others.

        Args:       threads: of which one does the work, the event loop's unless told. first: kind and name of a turn
                    that the work takes before this one, with a line of its own.
        """
        before = nullcontext() if first is None else self._lines.setdefault(first, asyncio.Lock())
        line = self._lines.setdefault((kind, name), asyncio.Lock())
        async with before, line:
            if threads is None:
                return await asyncio.to_thread(work)
            return await asyncio.get_running_loop().run_in_executor(threads, work)

    @contextmanager
    def held(self, kind: str, name: str, *, wait: bool = True) -> Iterator[bool]:
        """Hold a turn for as long as the block lasts; without `wait`, yield False where another has it.

        Raises:     StoreUnavailableError: the store cannot be asked.
        """
        digest = sha256(f"{kind}/{name}".encode()).digest()
        with self._file(kind, digest, wait) if self._folder else self._advisory(digest, wait) as got:
            yield got

    @contextmanager
    def _file(self, kind: str, digest: bytes, wait: bool) -> Iterator[bool]:
        assert self._folder is not None
        slot = int.from_bytes(digest, "big") % _SLOTS
        handle = os.open(self._folder / f"{kind}-{slot}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(handle)

    @contextmanager
    def _advisory(self, digest: bytes, wait: bool) -> Iterator[bool]:
        number = int.from_bytes(digest[:8], "big", signed=True)
        function = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
        try:
            connection = self._engine.connect()
        except SQLAlchemyError as error:
            raise StoreUnavailableError("store: expected a turn, got none") from error
        with connection:  # the lock goes with the connection
            try:
                got = connection.execute(text(f"SELECT {function}(:number)"), {"number": number}).scalar_one()
            except SQLAlchemyError as error:
                raise StoreUnavailableError("store: expected a turn, got none") from error
            yield got is not False
