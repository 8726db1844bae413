"""Jobs: an account's own, one by one with what they gave, or in brief; everybody's in brief to operators."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from app.asks import JobsQuery
from app.auth.accounts import Caller, Role
from app.jobs.listing import JobView, list_jobs
from app.market import Market
from app.routes.accounts import EVERYBODY
from app.routes.paging import page, read_query

__all__ = ["job", "jobs"]


@get("/v1/jobs", opt={"roles": EVERYBODY, "query": JobsQuery})
async def jobs(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> Response[list[JobView]]:
    """Return jobs in brief, newest first, in pages: the caller's own, to operators everybody's.

    `after`: the last `job` seen. `state`, `kind`: jobs of these only. What a job was asked and gave is not shown here.
    """
    wanted = read_query(request, JobsQuery)
    account = None if request.user.role is Role.OPERATOR else request.user.id
    found = await market.database.read(
        lambda connection: list_jobs(
            connection, account, state=wanted.state, kind=wanted.kind, after=wanted.after, count=wanted.count + 1
        )
    )
    return page(request, found, wanted.count, lambda each: each.job)


@get("/v1/jobs/{job:str}", opt={"roles": EVERYBODY})
async def job(
    request: Request[Caller, Any, Any], job: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return a job of the caller's: its state, its progress and, once it is done, its result."""
    return await market.jobs.view(request.user.id, job)
