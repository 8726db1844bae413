"""The floors, on the server that the market runs on: one Redis GET, a fixed answer, and no framework at all."""

import os
from typing import Any

from litestar import Litestar, Response, get
from redis.asyncio import Redis

KEY = "bare"
_FIXED = b'{"fixed":"%s"}' % (b"x" * 800)  # of the length of an answer of eight numbers


def create_app() -> Litestar:
    """Return an endpoint that does one GET of the market's own Redis."""
    client = Redis.from_url(os.environ["TIERMARKET_REDIS_URL"])

    @get("/bare")
    async def bare() -> Response[bytes]:
        return Response(await client.get(KEY), media_type="application/json")

    return Litestar([bare], openapi_config=None, logging_config=None)


def create_fixed() -> Litestar:
    """Return an endpoint that answers the same bytes for ever."""

    @get("/bare")
    async def fixed() -> Response[bytes]:
        return Response(_FIXED, media_type="application/json")

    return Litestar([fixed], openapi_config=None, logging_config=None)


def create_asgi() -> Any:
    """Return what any ASGI application costs at least."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(_FIXED)).encode())]

    async def plain(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": _FIXED, "more_body": False})

    return plain
