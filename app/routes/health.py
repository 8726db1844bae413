"""Is it up, and can it decide? Redis is not needed for either: without it answers are only slower."""

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from sqlalchemy import text

from app.audit.freezing import count_frozen
from app.audit.stopping import count_stopped
from app.errors import AppError
from app.market import Market

__all__ = ["live", "ready"]


@get("/health/live", opt={"public": True, "unlimited": True})
async def live() -> dict[str, str]:
    """Return that the process answers."""
    return {"status": "live"}


@get("/health/ready", opt={"public": True, "unlimited": True})
async def ready(market: NamedDependency[Market]) -> Response[dict[str, Any]]:
    """Return whether the system of record and the cache answer, and whether an audit has stopped anything."""
    cache = "up" if await market.cache.alive() else "down (answers come from the store)"
    try:
        await market.database.read(lambda connection: connection.execute(text("SELECT 1")).scalar_one())
    except AppError:
        return Response({"status": "not ready", "store": "down", "cache": cache}, status_code=503)
    standing = await market.standing()
    if standing != "current":
        return Response({"status": "not ready", "store": standing, "cache": cache}, status_code=503)
    chains, panels = await market.database.read(lambda held: (count_frozen(held), count_stopped(held)))
    told = [f"{chains} chains are frozen"] if chains else []
    told += [f"{panels} panels are stopped"] if panels else []
    audit = ", ".join(told) or "clear"
    return Response({"status": "ready", "store": "up", "cache": cache, "audit": audit})
