"""How far this process knows which rights stand: what it keeps of them is good only as long as it knows that."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sqlalchemy import Connection

from app.errors import StoreUnavailableError

__all__ = ["Rights", "rights_epoch"]

_HONOURED_SECONDS = 1.0
_ASK_SECONDS = 0.25
_EPOCH = "SELECT epoch FROM rights_epoch"

Reader = Callable[[Callable[[Connection], int]], Awaitable[int]]


def rights_epoch(connection: Connection) -> int:
    """Return how often rights were taken away, as this transaction sees it; it only ever rises."""
    found = connection.exec_driver_sql(_EPOCH).scalar_one_or_none()
    return 0 if found is None else int(found)


class Rights:
    """The newest epoch that this process has seen, and until when that may be relied on.

    Guarantee:  `standing` returns an epoch only while the store was seen to stand at it by a read that began less than
                a second ago: what was read at that epoch has lost no right for longer. A write of this process raises
                it before anybody is told of the write. Where the store cannot be asked, it soon returns None.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._epoch = 0
        self._asked = self._good_until = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def standing(self, read: Reader) -> int | None:
        """Return the epoch that stands, or None where that is not known; ask the store where it is time to."""
        now = self.clock()
        if now - self._asked > _ASK_SECONDS and (self._asking is None or self._asking.done()):
            self._asked = now
            self._asking = asyncio.get_running_loop().create_task(self._ask(read, now))
        return self._epoch if now < self._good_until else None

    def confirm(self, epoch: int, asked: float) -> None:
        """Note the epoch that a read found which began at `asked`; an older epoch than is known says nothing."""
        if epoch >= self._epoch:
            self._epoch = epoch
            self._good_until = max(self._good_until, asked + _HONOURED_SECONDS)

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self, read: Reader, asked: float) -> None:
        with suppress(StoreUnavailableError):  # what is kept lapses by itself
            self.confirm(await read(rights_epoch), asked)
