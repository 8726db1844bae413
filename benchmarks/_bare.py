"""The floor: a Litestar endpoint that does one Redis GET and nothing else, on the server that the market runs on."""

import os

from litestar import Litestar, Response, get
from redis.asyncio import Redis

KEY = "bare"


def create_app() -> Litestar:
    """Return the application; the Redis is the market's own."""
    client = Redis.from_url(os.environ["TIERMARKET_REDIS_URL"])

    @get("/bare")
    async def bare() -> Response[bytes]:
        return Response(await client.get(KEY), media_type="application/json")

    return Litestar([bare], openapi_config=None, logging_config=None)
