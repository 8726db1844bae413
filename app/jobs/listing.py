"""Jobs in brief, in pages, newest first: an account's own, or all of them for whoever runs the market."""

import msgspec
from sqlalchemy import Connection, Row, select, true

from app.store.paging import rows_after
from app.store.schema import jobs

__all__ = ["JobView", "list_jobs"]


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job in brief: whose, of which kind, how far. What was asked for and what it gave are its account's alone."""

    job: str
    account: str
    kind: str
    state: str
    progress: str
    created_at: str
    ended_at: str | None


def list_jobs(
    connection: Connection,
    account: str | None,
    *,
    state: str | None,
    kind: str | None,
    after: str | None,
    count: int,
) -> list[JobView]:
    """Return up to `count` jobs, newest first, from the one after job `after`: an account's, or with None everybody's.

    A cursor stays good when its job has left the `state` that is asked for.

    Raises:     InvalidRequestError: `after` is no job of the list.
    """
    wanted = select(jobs)
    if state is not None:
        wanted = wanted.where(jobs.c.state == state)
    if kind is not None:
        wanted = wanted.where(jobs.c.kind == kind)
    mine = true() if account is None else jobs.c.account_id == account
    place = (jobs.c.created_at, jobs.c.id)
    found = rows_after(connection, wanted, place, of=mine, after=after, count=count, newest=True)
    return [_view(row) for row in found]


def _view(row: Row[tuple[object, ...]]) -> JobView:
    return JobView(
        job=row.id,
        account=row.account_id,
        kind=row.kind,
        state=row.state,
        progress=row.progress,
        created_at=row.created_at,
        ended_at=row.ended_at,
    )
