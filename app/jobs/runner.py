"""Jobs: a row a job, a thread a run, progress as text."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog
from sqlalchemy import Connection, select

from app.clock import Clock, new_id, time_text
from app.errors import NotFoundError
from app.store.database import Database
from app.store.schema import jobs

__all__ = ["Jobs", "Progress"]

Progress = Callable[[str], None]
_log = structlog.get_logger("jobs")


class Jobs:
    """Starts jobs of this process and reads those of all."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._running: set[asyncio.Task[None]] = set()

    async def start(self, account: str, kind: str, work: Callable[[Progress], Mapping[str, Any]]) -> str:
        """Store a job and run `work` in a thread; return its id at once."""
        job = await self.claim(account, kind, work, lambda _: True)
        assert job is not None
        return job

    async def claim(
        self,
        account: str,
        kind: str,
        work: Callable[[Progress], Mapping[str, Any]],
        due: Callable[[Connection], bool],
    ) -> str | None:
        """Start a job if it is due, decided in the transaction that stores it: of several processes, one starts it."""
        job = new_id("job")
        row = {"id": job, "account_id": account, "kind": kind, "state": "running", "progress": "queued"}
        at = time_text(self._clock())

        def store(connection: Connection) -> bool:
            wanted = due(connection)
            if wanted:
                connection.execute(jobs.insert().values(**row, created_at=at))
            return wanted

        if not await self._database.write(store):
            return None
        task = asyncio.create_task(self._run(job, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return job

    async def view(self, account: str, job: str) -> dict[str, Any]:
        """Return a job of the account's; raises NotFoundError."""
        wanted = select(jobs).where(jobs.c.id == job, jobs.c.account_id == account)
        row = await self._database.read(lambda connection: connection.execute(wanted).one_or_none())
        if row is None:
            raise NotFoundError("job: expected one of the caller's own, got another id")
        return {
            "job": row.id,
            "kind": row.kind,
            "state": row.state,
            "progress": row.progress,
            "result": None if row.result_json is None else msgspec.json.decode(row.result_json),
        }

    async def close(self) -> None:
        """Wait for what runs: results are stored before the store is closed."""
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, job: str, work: Callable[[Progress], Mapping[str, Any]]) -> None:
        last = [""]

        def progress(text: str) -> None:
            if text != last[0]:
                last[0] = text
                self._database.submit(lambda connection: _update(connection, job, progress=text))

        try:
            result = await asyncio.to_thread(work, progress)
        except Exception as error:
            _log.error("job failed", job=job, error=type(error).__name__)
            ended = {"state": "failed", "progress": "failed", "result_json": None}
        else:
            ended = {"state": "done", "progress": "done", "result_json": msgspec.json.encode(result).decode()}
        at = time_text(self._clock())
        await self._database.write(lambda connection: _update(connection, job, **ended, ended_at=at))


def _update(connection: Connection, job: str, **values: Any) -> None:
    connection.execute(jobs.update().where(jobs.c.id == job).values(**values))
