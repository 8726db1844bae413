"""Run the service: the market's folder, its Redis, and granian over the application."""

import os
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels

from app.embedded import embedded_redis
from app.market import found_market
from app.settings import Settings

__all__ = ["serve"]


def serve(settings: Settings, *, host: str, port: int, workers: int, embed: bool) -> None:
    """Serve until a signal ends it; everything it started ends with it.

    Args:       embed: run a Redis below the state folder where the settings name none.
    """
    found_market(settings)
    with ExitStack() as stack:
        url = settings.redis_url
        if embed and not url:
            url = stack.enter_context(embedded_redis(settings.state)).url
        os.environ["TIERMARKET_STATE"] = str(settings.state)
        os.environ["TIERMARKET_REDIS_URL"] = url
        os.environ["TIERMARKET_DATABASE_URL"] = settings.database_url
        os.environ["TIERMARKET_KEYS"] = str(settings.keys)
        os.environ["TIERMARKET_FEE_BPS"] = str(settings.fee_bps)
        os.environ["TIERMARKET_WORKERS"] = str(workers)
        os.environ.setdefault("TIERMARKET_ACCESS_LOG", "stderr")
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = stack.enter_context(TemporaryDirectory(prefix="tm-metrics-"))
        Granian(
            "app.main:create_app",
            factory=True,
            interface=Interfaces.ASGI,
            address=host,
            port=port,
            workers=workers,
            loop=Loops.uvloop,
            log_level=LogLevels.warning,
            websockets=False,
        ).serve()
