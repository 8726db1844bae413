"""Exports: asked for, listed, fetched and dropped by who asked for them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.response import Stream

from app.auth.accounts import Caller, Role
from app.clock import time_text
from app.errors import NotEntitledError, NotFoundError
from app.exports.shelf import drop, exports_of
from app.exports.work import EXPORT, admit, opened, request_text
from app.market import Market
from app.routes.representation import matches
from app.wire import ExportRequest

__all__ = ["ask", "discard", "fetch", "kept"]

_ROLES = (Role.BUYER, Role.ANALYST, Role.OWNER, Role.AUDITOR)


@post("/v1/exports", opt={"roles": _ROLES, "refuses": (NotFoundError,)}, status_code=202)
async def ask(
    request: Request[Caller, Any, Any], data: JSONBody[ExportRequest], market: NamedDependency[Market]
) -> Response[bytes]:
    """Begin an export as a job: 202 and where the job is; its result says where the export is, and until when.

    The same request while its job runs is that job; after it, and before the log has grown, the same export.
    """
    caller, wanted = request.user, data.what
    await market.database.read(lambda connection: admit(connection, caller, wanted))
    job = await market.jobs.start(caller.id, EXPORT, request_text(wanted))
    body = msgspec.json.encode({"job": job})
    return Response(body, status_code=202, media_type="application/json", headers={"Location": f"/v1/jobs/{job}"})


@get("/v1/exports", opt={"roles": _ROLES})
async def kept(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> list[dict[str, Any]]:
    """Return the caller's exports that are still kept, newest first (eight at most)."""
    now = time_text(market.clock())
    return await market.database.read(lambda connection: exports_of(connection, request.user.id, now))


@get("/v1/exports/{export:str}", opt={"roles": _ROLES, "refuses": (NotEntitledError,)})
async def fetch(
    request: Request[Caller, Any, Any], export: FromPath[str], market: NamedDependency[Market]
) -> Response[Any]:
    """Return an export of the caller's, under its strong ETag; the right to all that is in it is checked first."""
    row, (media, ending), frames = await asyncio.to_thread(opened, market, request.user, export)
    headers = {"ETag": row.etag, "Cache-Control": "private, no-cache"}
    none_match = request.headers.get("if-none-match")
    if none_match is not None and matches(none_match, row.etag):
        return Response(b"", status_code=304, headers=headers)
    headers |= {
        "Content-Length": str(row.size),
        "Content-Disposition": f'attachment; filename="{row.id}.{ending}"',
    }
    return Stream(_sent(frames), media_type=media, headers=headers)


@delete("/v1/exports/{export:str}", opt={"roles": _ROLES}, status_code=200)
async def discard(
    request: Request[Caller, Any, Any], export: FromPath[str], market: NamedDependency[Market]
) -> dict[str, str]:
    """Drop an export of the caller's; what was sold stays held."""
    now = time_text(market.clock())
    await market.database.write(lambda connection: drop(connection, request.user.id, export, now))
    return {"export": export}


async def _sent(frames: Iterator[bytes]) -> AsyncIterator[bytes]:
    while frame := await asyncio.to_thread(next, frames, b""):
        yield frame
