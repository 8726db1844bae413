"""Run the service: the market's folder, its Redis, and granian over the application."""

import os
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels

from app.embedded import embedded_redis
from app.founding import found_market
from app.instance import claim_port, claim_state, write_address
from app.settings import Settings

__all__ = ["serve"]


def serve(settings: Settings, *, host: str, port: int, workers: int, embed: bool, otherwise_free: bool = False) -> None:
    """Serve until a signal ends it; everything it started ends with it.

    Args:       embed: run a Redis below the state folder where the settings name none. otherwise_free: take a free
                port where the wanted one is taken; where it listens stands in the state folder.
    Raises:     ConflictError: the state folder or the port is another service's.
    """
    settings.prepare()
    with ExitStack() as stack:
        stack.enter_context(claim_state(settings.state))
        port = stack.enter_context(claim_port(host, port, otherwise_free=otherwise_free))
        write_address(settings.state, host, port)
        found_market(settings)
        url = settings.redis_url
        if embed and not url:
            url = stack.enter_context(embedded_redis(settings.state)).url
        os.environ["TIERMARKET_STATE"] = str(settings.state)
        os.environ["TIERMARKET_REDIS_URL"] = url
        os.environ["TIERMARKET_DATABASE_URL"] = settings.database_url
        os.environ["TIERMARKET_KEYS"] = str(settings.keys)
        os.environ["TIERMARKET_REDO"] = str(settings.redo)
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
            respawn_failed_workers=True,
        ).serve()
