"""Rate limits over all workers: a token bucket in Redis, from which each worker takes a few tokens at a time."""

import asyncio
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from app.errors import TooManyRequestsError

__all__ = ["TAKE", "Buckets", "Limiter", "LocalBuckets", "RedisBuckets", "Taken"]

_LEASE_SECONDS = 1.0
_LEASE_MOST = 1_024
_AHEAD_FROM = 64
_PAUSE_SECONDS = 1.0
_WAIT_SECONDS = 1.0
_KEPT = 20_000
_UNIT = 60_000  # a token in parts: a bucket of n a minute gains n parts a millisecond, exactly
_log = structlog.get_logger("limits")

TAKE = """
local replayed = redis.call('GET', KEYS[2])
if replayed then return {tonumber(string.match(replayed, '^[0-9]+')), tonumber(string.match(replayed, '[0-9]+$'))} end
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local rate, want = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = rate * 60000
local held, at = full, now
local kept = redis.call('GET', KEYS[1])
if kept then
  held, at = tonumber(string.match(kept, '^[0-9]+')), tonumber(string.match(kept, '[0-9]+$'))
  if now > at then held = math.min(full, held + (now - at) * rate) else now = at end
end
local given = math.min(want, math.floor(held / 60000))
held = held - given * 60000
local wait = 0
if given == 0 then wait = math.ceil((60000 - held) / rate) end
redis.call('SET', KEYS[1], string.format('%.0f %.0f', held, now), 'PX', 61000)
redis.call('SET', KEYS[2], string.format('%d %d', given, wait), 'PX', 10000)
return {given, wait}
"""
"""KEYS: bucket, request. ARGV: tokens a minute, wanted. Returns tokens given and, for none, milliseconds to wait.

The reply is kept under the request's id, so a request that is sent twice takes once.
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a bucket gave: some tokens, or none and the milliseconds until there is one."""

    given: int
    wait_milliseconds: int


class Buckets(Protocol):
    """Where tokens come from."""

    async def take(self, name: str, rate: int, want: int) -> Taken:
        """Take up to `want` tokens of a bucket that holds and gains `rate` a minute."""
        ...


class LocalBuckets:
    """Buckets of this process alone: each holds this worker's part of the rate, rounded down, but one at least."""

    def __init__(self, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._workers, self._clock = workers, clock
        self._held: OrderedDict[str, tuple[int, int]] = OrderedDict()

    async def take(self, name: str, rate: int, want: int) -> Taken:
        """Take tokens by the same arithmetic as the script."""
        rate, now = max(1, rate // self._workers), int(self._clock() * 1000)
        held, at = self._held.pop(name, (rate * _UNIT, now))
        held = min(rate * _UNIT, held + max(0, now - at) * rate)
        given = min(want, held // _UNIT)
        held -= given * _UNIT
        self._held[name] = (held, max(at, now))
        while len(self._held) > _KEPT:
            self._held.popitem(last=False)
        return Taken(given, 0 if given else math.ceil((_UNIT - held) / rate))


class RedisBuckets:
    """Buckets that all workers share; while Redis is away, this process's own part of them."""

    def __init__(self, url: str, local: LocalBuckets) -> None:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=16,
            timeout=_WAIT_SECONDS,
            socket_timeout=_WAIT_SECONDS,
            socket_connect_timeout=_WAIT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._redis: Redis = Redis(connection_pool=pool)
        self._script = self._redis.register_script(TAKE)
        self._local = local
        self._asleep_until = 0.0

    async def take(self, name: str, rate: int, want: int) -> Taken:
        """Take tokens in one round trip; a reply that is none of the script's counts as no Redis."""
        if time.monotonic() >= self._asleep_until:
            bucket = f"market:v1:limit:{{{name}}}"
            try:
                reply = await self._script(keys=[bucket, f"{bucket}:{secrets.token_hex(8)}"], args=[rate, want])
                given, wait = (int(part) for part in reply)
                if 0 <= given <= want and (given > 0 or 0 < wait <= _UNIT):
                    return Taken(given, wait)
            except (RedisError, OSError, TypeError, ValueError):
                pass
            self._asleep_until = time.monotonic() + _PAUSE_SECONDS
            _log.warning("shared limits unreachable", pause_seconds=_PAUSE_SECONDS)
        return await self._local.take(name, rate, want)

    async def close(self) -> None:
        """Close the pool."""
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()


@dataclass(slots=True)
class _Lease:
    tokens: int = 0
    until: float = 0.0
    size: int = 0
    refused_until: float = 0.0
    filling: bool = False


class Limiter:
    """Admits requests. Tokens are taken before they are spent, so all workers together never exceed a bucket.

    A worker takes one token at first and doubles what it takes while it spends all of it within a second; what it has
    not spent by then is lost, to the caller's disadvantage, never to the limit's. Who spends much has more taken when
    half is spent: else each lease's end would send all requests of that moment the long way at once.
    """

    def __init__(self, buckets: Buckets, clock: Callable[[], float] = time.monotonic) -> None:
        self._buckets, self._clock = buckets, clock
        self._leases: OrderedDict[str, _Lease] = OrderedDict()
        self._filling: set[asyncio.Task[None]] = set()

    def spend(self, name: str, rate: int) -> bool:
        """Spend a token that this process holds already, if it does: the fast path, no await."""
        if not rate:
            return True
        lease = self._leases.get(name)
        if lease is None or not lease.tokens or lease.until < self._clock():
            return False
        lease.tokens -= 1
        if lease.size >= _AHEAD_FROM and lease.tokens * 2 < lease.size and not lease.filling:
            lease.filling = True
            task = asyncio.get_running_loop().create_task(self._fill(name, rate, lease))
            self._filling.add(task)
            task.add_done_callback(self._filling.discard)
        return True

    async def admit(self, name: str, rate: int, what: str) -> None:
        """Spend one token of a bucket of `rate` a minute; raises TooManyRequestsError with the time to wait."""
        if self.spend(name, rate):
            return
        lease = self._leases.setdefault(name, _Lease())
        self._leases.move_to_end(name)
        while len(self._leases) > _KEPT:
            self._leases.popitem(last=False)
        now = self._clock()
        if lease.refused_until > now:
            self._refuse(what, lease.refused_until - now)
        if lease.until < now:
            lease.tokens = lease.size = 0
        lease.size = _grown(lease.size, rate)
        taken = await self._buckets.take(name, rate, lease.size)
        if not taken.given:
            lease.size = 0
            lease.refused_until = self._clock() + min(taken.wait_milliseconds / 1000, _LEASE_SECONDS)
            self._refuse(what, taken.wait_milliseconds / 1000)
        lease.until = self._clock() + _LEASE_SECONDS
        lease.tokens += taken.given - 1

    async def close(self) -> None:
        """Wait for what is being taken."""
        await asyncio.gather(*self._filling, return_exceptions=True)

    async def _fill(self, name: str, rate: int, lease: _Lease) -> None:
        """Take more for a lease that is half spent; where there is none, its end will say so."""
        try:
            size = _grown(lease.size, rate)
            taken = await self._buckets.take(name, rate, size)
            lease.size = size if taken.given else 0
            if taken.given:
                lease.tokens += taken.given
                lease.until = self._clock() + _LEASE_SECONDS
        finally:
            lease.filling = False

    def _refuse(self, what: str, seconds: float) -> None:
        whole = max(1, math.ceil(seconds))
        raise TooManyRequestsError(
            f"{what}: expected fewer requests a minute, got more; try again in {whole} s", retry_after_seconds=whole
        )


def _grown(size: int, rate: int) -> int:
    return max(1, min(size * 2, _LEASE_MOST, rate // 20))
