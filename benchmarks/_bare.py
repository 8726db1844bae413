"""The floor: a Litestar endpoint that does one Redis GET and nothing else, on the server that the market runs on."""

import os

from litestar import Litestar, Response, get
from redis.asyncio import BlockingConnectionPool, Redis

KEY = "bare"


def create_app() -> Litestar:
    """Return the application; the Redis is the market's own."""
    pool = BlockingConnectionPool.from_url(os.environ["TIERMARKET_REDIS_URL"], max_connections=32, timeout=1)
    client = Redis(connection_pool=pool)

    @get("/bare")
    async def bare() -> Response[bytes]:
        return Response(await client.get(KEY), media_type="application/json")

    return Litestar([bare], openapi_config=None, logging_config=None)
