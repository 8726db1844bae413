"""Answers that are asked for together: each request gets its own, whatever happens to the others or to Redis."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from app.cache import answers
from app.cache.answers import RedisCache, answer_key
from app.embedded import EmbeddedRedis
from app.keyring import Keyring
from tests.conftest import FOREVER

Mget = Callable[..., Awaitable[list[Any]]]


@pytest_asyncio.fixture
async def cache(redis: EmbeddedRedis, tmp_path: Path) -> AsyncIterator[RedisCache]:
    made = RedisCache(redis.url, Keyring.create(tmp_path / "keys.json"))
    yield made
    await made.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The names of every MGET."""
    seen: list[tuple[str, ...]] = []
    real: Mget = Redis.mget

    async def counted(self: Redis, names: list[str]) -> list[Any]:
        seen.append(tuple(names))
        return await real(self, names)

    monkeypatch.setattr(Redis, "mget", counted)
    return seen


async def test_requests_that_meet_are_asked_together_and_each_gets_its_own(
    cache: RedisCache, asked: list[tuple[str, ...]]
) -> None:
    laws = [f"l{number}" for number in range(300)]
    for law in laws[:299]:
        await cache.put("c", law, law.encode())
    found = await asyncio.wait_for(asyncio.gather(*(cache.get("c", law) for law in laws * 3)), 300)
    assert found == [*(law.encode() for law in laws[:299]), None] * 3
    assert [len(names) for names in asked] == [128, 128, 44]
    assert sorted(name for names in asked for name in names) == sorted(answer_key("c", law) for law in laws)


async def test_a_value_is_that_of_one_tier_of_one_chain(cache: RedisCache) -> None:
    await cache.put("c", "l", b"body")
    assert [await cache.get(*place) for place in (("d", "l"), ("c", "m"), ("c", "l"))] == [None, None, b"body"]


async def test_a_request_that_is_cut_off_ends_no_other(cache: RedisCache) -> None:
    await cache.put("c", "l", b"body")
    requests = [asyncio.create_task(cache.get("c", "l")) for _ in range(4)]
    await asyncio.sleep(0)
    requests[0].cancel()
    requests[2].cancel()
    found = await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 300)
    assert [found[1], found[3]] == [b"body", b"body"]
    assert all(isinstance(found[place], asyncio.CancelledError) for place in (0, 2))
    assert await cache.get("c", "l") == b"body"


async def test_a_value_of_another_type_or_a_forged_one_hurts_no_neighbour(
    cache: RedisCache, redis: EmbeddedRedis
) -> None:
    for law in ("good", "typed", "forged"):
        await cache.put("c", law, law.encode())
    client = Redis.from_url(redis.url)
    await client.delete(answer_key("c", "typed"))
    await client.lpush(answer_key("c", "typed"), "x")  # type: ignore[misc]
    await client.set(answer_key("c", "forged"), await client.get(answer_key("c", "good")))
    await client.aclose()
    found = await asyncio.gather(*(cache.get("c", law) for law in ("typed", "good", "forged")))
    assert found == [None, b"good", None]


@pytest.mark.parametrize("failure", [RedisConnectionError("gone"), OSError("gone"), ResponseError("no")])
async def test_a_redis_that_fails_is_no_answer_for_all_who_wait(
    cache: RedisCache, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    await cache.put("c", "l", b"body")
    times = 0

    async def fails(self: Redis, names: list[str]) -> list[Any]:
        nonlocal times
        times += 1
        await asyncio.sleep(0)
        raise failure

    monkeypatch.setattr(Redis, "mget", fails)
    monkeypatch.setattr(answers, "_PAUSE_SECONDS", FOREVER)
    found = await asyncio.wait_for(asyncio.gather(*(cache.get("c", f"l{number}") for number in range(300))), 300)
    assert found == [None] * 300
    assert times == (3 if isinstance(failure, ResponseError) else 1), "a Redis that is gone is left alone"


@pytest.mark.parametrize("reply", [[], [None] * 500])
async def test_a_reply_that_does_not_fit_leaves_nobody_waiting(
    cache: RedisCache, monkeypatch: pytest.MonkeyPatch, reply: list[Any]
) -> None:
    async def odd(self: Redis, names: list[str]) -> list[Any]:
        return reply

    with monkeypatch.context() as patched:
        patched.setattr(Redis, "mget", odd)
        found = await asyncio.wait_for(asyncio.gather(*(cache.get("c", f"l{number}") for number in range(200))), 300)
    assert found == [None] * 200
    await cache.put("c", "l", b"body")
    assert await cache.get("c", "l") == b"body"


@pytest.mark.parametrize("pause", [0, 0.01], ids=["before Redis is asked", "while it is asked"])
async def test_closing_tells_those_who_wait(cache: RedisCache, monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    async def never(self: Redis, names: list[str]) -> list[Any]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(Redis, "mget", never)
    requests = [asyncio.create_task(cache.get("c", f"l{number}")) for number in range(200)]
    await asyncio.sleep(pause)
    await cache.close()
    assert await asyncio.wait_for(asyncio.gather(*requests), 300) == [None] * 200
