"""Jobs: a row a job, a turn a run. A job is its kind and its request, so whoever finds it abandoned can do it."""

import asyncio
from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from sqlalchemy import Connection, select, update

from app.clock import Clock, new_id, time_text
from app.errors import AppError, NotFoundError
from app.store.database import Database
from app.store.exclusive import Turns
from app.store.schema import jobs

__all__ = ["Jobs", "Kinds", "Progress", "Task"]

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Task:
    """A job at work: which, for whom, what was asked for, and, called with a text, how far it is."""

    job: str
    account: str
    request: str
    progress: Progress

    def __call__(self, text: str) -> None:
        """Say how far it is."""
        self.progress(text)


Kinds = Mapping[str, Callable[[Database, Task], Mapping[str, Any]]]
"""The work of each kind of job: a function of the store and of the task."""

_AT_ONCE = 2
_ATTEMPTS = 3
_LOOK_SECONDS = 5.0
_log = structlog.get_logger("jobs")


class Jobs:
    """Starts jobs, does them in turn, and takes over those whose worker died.

    Guarantee:  a job has one result. Whoever works on it holds its turn, which ends with its process; a result is only
                stored while the job has none. A job that ended three workers is failed, so it ends no fourth.
    Args:       waiting: kinds whose work waits for turns of its own; they have their threads, and hold up no others.
    """

    def __init__(
        self, database: Database, clock: Clock, turns: Turns, kinds: Kinds, waiting: Container[str] = ()
    ) -> None:
        self._database, self._clock, self._turns, self._kinds = database, clock, turns, kinds
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="job")
        self._waiting, self._waiters = waiting, ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="waiting-job")
        self._running: dict[str, asyncio.Future[None]] = {}
        self._watching: asyncio.Task[None] | None = None

    async def start(self, account: str, kind: str, request: str = "{}") -> str:
        """Store a job and begin it in a thread; return its id at once.

        While a job of the account's runs with the same kind and request, that is the job.
        """
        same = select(jobs.c.id).where(
            jobs.c.account_id == account,
            jobs.c.kind == kind,
            jobs.c.request_json == request,
            jobs.c.state == "running",
        )
        found: list[str] = []

        def unless_running(connection: Connection) -> str | None:
            found[:] = connection.execute(same.limit(1)).scalars()
            return None if found else account

        return await self.start_for(unless_running, kind, request) or found[0]

    async def start_for(self, owner: Callable[[Connection], str | None], kind: str, request: str = "{}") -> str | None:
        """Start a job for the account that `owner` names, or none; both are decided in one transaction."""
        job, at = new_id("job"), time_text(self._clock())
        row = {"id": job, "kind": kind, "state": "running", "progress": "queued", "created_at": at}
        row["request_json"] = request

        def claim(connection: Connection) -> bool:
            account = owner(connection)
            if account is not None:
                connection.execute(jobs.insert().values(**row, account_id=account))
            return account is not None

        if not await self._database.write(claim):
            return None
        self._begin(job, kind)
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

    def watch(self) -> None:
        """Look for abandoned jobs from now on."""
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def take_over(self) -> None:
        """Begin every job that nobody works on: its worker died, or is about to begin it and will find it taken."""
        wanted = select(jobs.c.id, jobs.c.kind).where(jobs.c.state == "running")
        found = await self._database.read(lambda connection: connection.execute(wanted).all())
        for row in found:
            if row.kind in self._kinds:
                self._begin(row.id, row.kind)

    async def close(self) -> None:
        """Wait for what runs: results are stored before the store is closed."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        for threads in (self._threads, self._waiters):
            await asyncio.to_thread(threads.shutdown)

    async def _watch(self) -> None:
        while True:
            with suppress(AppError):  # a store that is away is looked at again
                await self.take_over()
            await asyncio.sleep(_LOOK_SECONDS)

    def _begin(self, job: str, kind: str) -> None:
        if job in self._running:  # a look found its row before its own worker came here
            return
        threads = self._waiters if kind in self._waiting else self._threads
        running = asyncio.get_running_loop().run_in_executor(threads, self._run_in_turn, job, kind)
        self._running[job] = running
        running.add_done_callback(lambda _: self._running.pop(job, None))

    def _run_in_turn(self, job: str, kind: str) -> None:
        try:
            with self._turns.held("job", job, wait=False) as mine:
                claimed = self._claimed(job) if mine else None
                if claimed is not None:
                    self._run(job, kind, *claimed)
        except AppError as error:
            _log.error("job put off", job=job, error=type(error).__name__)

    def _claimed(self, job: str) -> tuple[str, str] | None:
        at = time_text(self._clock())
        return self._database.submit(lambda connection: _claim(connection, job, at)).result()

    def _run(self, job: str, kind: str, account: str, request: str) -> None:
        last = [""]

        def progress(text: str) -> None:
            if text != last[0]:
                last[0] = text
                self._database.submit(lambda connection: _update(connection, job, progress=text))

        try:
            result = self._kinds[kind](self._database, Task(job, account, request, progress))
        except AppError as refused:
            _log.warning("job refused", job=job, error=type(refused).__name__)
            problem = {"type": refused.kind, "status": refused.status, "detail": refused.detail}
            text = msgspec.json.encode(problem).decode()
            ended: dict[str, str | None] = {"state": "failed", "progress": "failed", "result_json": text}
        except Exception as error:
            _log.error("job failed", job=job, error=type(error).__name__)
            ended = {"state": "failed", "progress": "failed", "result_json": None}
        else:
            ended = {"state": "done", "progress": "done", "result_json": msgspec.json.encode(result).decode()}
        at = time_text(self._clock())
        self._database.submit(lambda connection: _update(connection, job, **ended, ended_at=at)).result()


def _claim(connection: Connection, job: str, at: str) -> tuple[str, str] | None:
    """Count an attempt and return for whom and what it is; None where it has a result, or was tried too often."""
    row = connection.execute(select(jobs).where(jobs.c.id == job)).one()
    if row.state != "running":
        return None
    if row.attempts >= _ATTEMPTS:
        _update(connection, job, state="failed", progress="failed: its workers died", ended_at=at)
        return None
    _update(connection, job, attempts=row.attempts + 1)
    return row.account_id, row.request_json


def _update(connection: Connection, job: str, **values: Any) -> None:
    connection.execute(update(jobs).where(jobs.c.id == job, jobs.c.state == "running").values(**values))
