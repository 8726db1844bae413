"""Issued answers in Redis, each under a MAC bound to its key: a forged, swapped or stale value is refused."""

import asyncio
import hmac
import time
from typing import Any, Protocol

import structlog
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import MaxConnectionsError, RedisError, ResponseError

from app.keyring import Keyring

__all__ = ["AnswerCache", "NoCache", "RedisCache", "answer_key"]

_MAC_BYTES = 32
_PAUSE_SECONDS = 1.0
_WAIT_SECONDS = 1.0
_MOST_AT_ONCE = 128
_log = structlog.get_logger("cache")


def answer_key(chain: str, law: str) -> str:
    """Return the cache key of one issued answer."""
    return f"market:v1:answer:{chain}:{law}"


class AnswerCache(Protocol):
    """What the service asks of a cache; every method may do nothing."""

    async def get(self, chain: str, law: str) -> bytes | None:
        """Return an answer's body, or None where it is absent, unreadable or not what was put."""
        ...

    async def put(self, chain: str, law: str, body: bytes) -> None:
        """Keep an issued answer's body."""
        ...

    async def alive(self) -> bool:
        """Return whether the cache answers."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class NoCache:
    """No Redis: every answer comes from the store."""

    async def get(self, chain: str, law: str) -> bytes | None:
        """Return None."""
        return None

    async def put(self, chain: str, law: str, body: bytes) -> None:
        """Do nothing."""

    async def alive(self) -> bool:
        """Return False."""
        return False

    async def close(self) -> None:
        """Do nothing."""


class RedisCache:
    """A Redis that is asked once, without retries, and left alone for a second after it failed.

    Requests that meet while Redis is being asked are asked for together, in one MGET: under load most of what a lookup
    costs is the round trip, not the value.
    """

    def __init__(self, url: str, keyring: Keyring) -> None:
        pool = ConnectionPool.from_url(
            url,
            max_connections=256,
            socket_timeout=_WAIT_SECONDS,
            socket_connect_timeout=_WAIT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._redis: Redis = Redis(connection_pool=pool)
        self._keyring = keyring
        self._asleep_until = 0.0
        self._waiting: dict[str, list[asyncio.Future[object]]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def get(self, chain: str, law: str) -> bytes | None:
        """Return the body under a valid MAC; a value that fails it counts as absent and is overwritten."""
        if time.monotonic() < self._asleep_until:
            return None
        name = answer_key(chain, law)
        value = await self._ask(name)
        if not isinstance(value, bytes):
            return None
        mac, body = value[:_MAC_BYTES], value[_MAC_BYTES:]
        if hmac.compare_digest(mac, self._keyring.mac(name, body)):
            return body
        _log.warning("cache value refused", key=name)
        return None

    async def put(self, chain: str, law: str, body: bytes) -> None:
        """Store the body with its MAC; a failure is a slower next read, nothing else."""
        if time.monotonic() < self._asleep_until:
            return
        name = answer_key(chain, law)
        try:
            await self._redis.set(name, self._keyring.mac(name, body) + body)
        except (MaxConnectionsError, ResponseError):
            return
        except (RedisError, OSError):
            self._fell_asleep()

    async def alive(self) -> bool:
        """Return whether Redis answers a ping."""
        try:
            return bool(await self._redis.ping())
        except (RedisError, OSError):
            return False

    async def close(self) -> None:
        """Close the pool; who still waits is told that nothing is here."""
        if self._asking is not None:
            self._asking.cancel()
        self._tell_all()
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    def _ask(self, name: str) -> asyncio.Future[object]:
        """Return what will hold the value: a future for each request, so that one that is cut off ends no other."""
        found: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(found)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_together())
        return found

    async def _ask_together(self) -> None:
        try:
            while self._waiting:
                names = list(self._waiting)[:_MOST_AT_ONCE]
                values = await self._values(names)
                for name in names:
                    self._tell(name, values.get(name))
        finally:  # whatever went wrong, nobody waits for ever
            self._tell_all()

    async def _values(self, names: list[str]) -> dict[str, object]:
        if time.monotonic() < self._asleep_until:
            return {}
        try:
            return dict(zip(names, await self._redis.mget(list[Any](names)), strict=True))
        except (MaxConnectionsError, ResponseError, TypeError, ValueError):
            return {}  # a crowd, or a reply that does not fit: answered from the store
        except (RedisError, OSError):
            self._fell_asleep()
            return {}

    def _tell_all(self) -> None:
        for name in list(self._waiting):
            self._tell(name, None)

    def _tell(self, name: str, value: object) -> None:
        for found in self._waiting.pop(name):
            if not found.done():
                found.set_result(value)

    def _fell_asleep(self) -> None:
        self._asleep_until = time.monotonic() + _PAUSE_SECONDS
        _log.warning("cache unreachable", pause_seconds=_PAUSE_SECONDS)
