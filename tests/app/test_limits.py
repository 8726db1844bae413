"""Rate limits: exact over all workers, stricter without Redis, never decided by a Redis that lies, told by 429."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from redis.asyncio import Redis

from app.auth.guard import address_of
from app.cache.limits import TAKE, Limiter, LocalBuckets, RedisBuckets, Taken
from app.embedded import EmbeddedRedis
from app.errors import InvalidRequestError, TooManyRequestsError
from app.settings import Limits, Settings
from tests.conftest import Fair, open_fair


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def admitted(limiter: Limiter, name: str, rate: int, requests: int) -> int:
    count = 0
    for _ in range(requests):
        try:
            await limiter.admit(name, rate, "reads")
        except TooManyRequestsError:
            continue
        else:
            count += 1
    return count


@pytest.fixture
async def shared(redis: EmbeddedRedis) -> AsyncIterator[list[RedisBuckets]]:
    made = [RedisBuckets(redis.url, LocalBuckets(4)) for _ in range(4)]
    yield made
    for buckets in made:
        await buckets.close()


def gained(rate: int, since: float) -> int:
    """The most that a bucket of `rate` a minute can have gained since then."""
    return math.ceil((time.monotonic() - since) * rate / 60)


async def test_four_workers_together_admit_the_limit_and_no_more(shared: list[RedisBuckets]) -> None:
    limiters, began = [Limiter(buckets) for buckets in shared], time.monotonic()
    counts = await asyncio.gather(*(admitted(limiter, "read:a", 6, 30) for limiter in limiters for _ in range(3)))
    assert 6 <= sum(counts) < 6 + gained(6, began), "one more only where ten seconds have passed"
    began = time.monotonic()
    others = await admitted(limiters[0], "read:b", 6, 30)
    assert 6 <= others < 6 + gained(6, began), "another caller has a bucket of its own"


async def test_leases_grow_and_still_never_pass_the_limit(shared: list[RedisBuckets]) -> None:
    limiters, began = [Limiter(buckets) for buckets in shared], time.monotonic()
    counts = await asyncio.gather(*(admitted(limiter, "read:a", 400, 300) for limiter in limiters))
    assert 300 <= sum(counts) <= 400 + gained(400, began), "the bucket, and its refill at most"


async def test_a_request_that_is_sent_twice_takes_once(redis: EmbeddedRedis) -> None:
    client = Redis.from_url(redis.url)
    script = client.register_script(TAKE)
    first = await script(keys=["b", "b:1"], args=[2, 1])  # half a minute a token
    assert await script(keys=["b", "b:1"], args=[2, 1]) == first == [1, 0]
    assert await script(keys=["b", "b:2"], args=[2, 2]) == [1, 0]
    given, wait = await script(keys=["b", "b:3"], args=[2, 1])
    assert (given, 0 < wait <= 30_000) == (0, True)
    assert await script(keys=["b", "b:3"], args=[2, 1]) == [0, wait]
    assert 30_000 < await client.pttl("b") <= 61_000, "an emptied bucket is remembered until it were full again"
    await client.aclose()


@pytest.mark.parametrize("bad", ["nonsense", "-5 1", "99999999999999999999 1", "1e9 0", ""])
async def test_a_bucket_that_redis_made_up_gives_no_more_than_the_limit(redis: EmbeddedRedis, bad: str) -> None:
    redis_client.Redis.from_url(redis.url).set("market:v1:limit:{read:a}", bad)
    buckets, began = RedisBuckets(redis.url, LocalBuckets(1)), time.monotonic()
    assert await admitted(Limiter(buckets), "read:a", 6, 40) < 6 + gained(6, began)
    await buckets.close()


class Lying:
    """A script whose replies nobody should believe."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def __call__(self, **_: Any) -> Any:
        return self.reply


@pytest.mark.parametrize("reply", [[10**9, 0], [-1, 0], [0, 0], [0, 10**9], ["x", "y"], [], None, b"1", [1, 2, 3]])
async def test_a_reply_that_the_script_cannot_give_counts_as_no_redis(redis: EmbeddedRedis, reply: Any) -> None:
    buckets = RedisBuckets(redis.url, LocalBuckets(2, Clock()))
    buckets._script = Lying(reply)  # type: ignore[assignment]
    assert await admitted(Limiter(buckets), "read:a", 6, 40) == 3, "this worker's half"
    await buckets.close()


async def test_without_redis_a_worker_has_its_part_of_the_limit(redis: EmbeddedRedis) -> None:
    redis_client.Redis.from_url(redis.url).shutdown(nosave=True)
    buckets = RedisBuckets(redis.url, LocalBuckets(3, Clock()))
    assert await admitted(Limiter(buckets), "read:a", 6, 40) == 2
    assert await admitted(Limiter(buckets), "read:b", 1, 40) == 1, "one at least"
    await buckets.close()


async def test_a_local_bucket_refills_exactly() -> None:
    clock = Clock()
    buckets = LocalBuckets(1, clock)
    assert await buckets.take("a", 60, 100) == Taken(60, 0)
    assert await buckets.take("a", 60, 1) == Taken(0, 1_000)
    clock.now += 0.999
    assert await buckets.take("a", 60, 1) == Taken(0, 1)
    clock.now += 0.001
    assert await buckets.take("a", 60, 9) == Taken(1, 0)
    clock.now -= 500
    assert (await buckets.take("a", 60, 1)).given == 0, "a clock that goes back gives nothing"
    clock.now += 10_000
    assert (await buckets.take("a", 60, 1_000)).given == 60, "a bucket never holds more than its rate"


async def test_tokens_that_were_not_spent_within_a_second_are_lost() -> None:
    clock = Clock()
    limiter = Limiter(LocalBuckets(1, clock), clock)
    for _ in range(20):
        await limiter.admit("a", 1_200, "reads")
    assert limiter._leases["a"].tokens > 0
    assert limiter.spend("a", 1_200)
    clock.now += 1.01
    assert not limiter.spend("a", 1_200)


class Counting(LocalBuckets):
    """Buckets that answer a turn of the loop later, and say how much was taken."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(1, clock)
        self.taken, self.asked = 0, 0

    async def take(self, name: str, rate: int, want: int) -> Taken:
        await asyncio.sleep(0)
        found = await super().take(name, rate, want)
        self.taken, self.asked = self.taken + found.given, self.asked + 1
        return found


async def test_who_spends_much_is_never_without_tokens_and_never_passes_the_limit() -> None:
    clock, rate = Clock(), 60_000
    buckets = Counting(clock)
    limiter = Limiter(buckets, clock)
    long_way = spent = 0
    for _ in range(50_000):
        if not limiter.spend("a", rate):
            await limiter.admit("a", rate, "reads")
            long_way += 1
        spent += 1
        await asyncio.sleep(0)
    assert long_way <= 7, "1, 2, 4, ... 64, and from there more is taken ahead"
    assert buckets.asked < 50_000 / 400
    assert spent <= buckets.taken <= rate
    refused = 0
    for _ in range(20_000):
        try:
            await limiter.admit("a", rate, "reads")
        except TooManyRequestsError:
            refused += 1
        await asyncio.sleep(0)
    assert (buckets.taken, 20_000 - refused + spent) == (rate, rate), "the bucket whole, and not one more"
    await limiter.close()
    assert not limiter._filling


async def test_a_limit_of_zero_is_none() -> None:
    assert await admitted(Limiter(LocalBuckets()), "a", 0, 1_000) == 1_000


# --- over HTTP -----------------------------------------------------------------------------------------------------


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Fair]:
    """A market of few requests a minute, of which no second passes."""
    for fair in open_fair(replace(Settings.at(tmp_path / "market"), limits=Limits(reads=8, acts=20, failures=4))):
        clock = Clock()
        fair.market.limits._limiter = Limiter(LocalBuckets(1, clock), clock)
        yield fair


def test_a_caller_over_its_limit_is_told_when_to_come_back_and_others_are_served(strict: Fair) -> None:
    one, other = strict.person("owner"), strict.person("owner")
    before = strict.stored()
    answers = [strict.client.get("/v1/account", headers=one.headers) for _ in range(12)]
    assert [answer.status_code for answer in answers] == [200] * 8 + [429] * 4
    refused = answers[-1]
    assert refused.headers["content-type"] == "application/problem+json"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.json()["retry_after_seconds"] == int(refused.headers["retry-after"])
    assert refused.json()["type"].endswith("/too-many-requests")
    assert strict.client.get("/v1/account", headers=other.headers).status_code == 200
    assert strict.stored() == before


def test_acts_are_counted_apart_and_refused_before_anything_is_stored(strict: Fair) -> None:
    one = strict.person("owner")
    for _ in range(20):
        strict.client.post("/v1/datasets", json={}, headers=one.headers)
    before = strict.stored()
    body = {"name": "x"}
    assert strict.client.post("/v1/datasets", json=body, headers=one.headers).status_code == 429
    assert strict.client.get("/v1/account", headers=one.headers).status_code == 200
    assert strict.stored() == before


def test_bad_keys_cost_their_address_and_lock_no_neighbour_out(strict: Fair) -> None:
    who = strict.person("owner")
    bad = [strict.client.get("/v1/account", headers={"Authorization": f"Bearer tm_{n}"}) for n in range(7)]
    assert [answer.status_code for answer in bad] == [401] * 4 + [429] * 3
    assert bad[0].headers["www-authenticate"].startswith("Bearer")
    assert strict.client.get("/v1/account").status_code == 429
    assert strict.client.get("/v1/account", headers=who.headers).status_code == 200


def test_public_pages_are_limited_by_address_and_health_is_not(strict: Fair) -> None:
    assert [strict.client.get("/v1/keys").status_code for _ in range(10)] == [200] * 8 + [429] * 2
    assert {strict.client.get("/health/live").status_code for _ in range(30)} == {200}


def test_two_workers_with_one_redis_share_a_limit(tmp_path: Path, redis: EmbeddedRedis) -> None:
    settings = replace(Settings.at(tmp_path / "market", redis_url=redis.url), limits=Limits(reads=6), workers=2)
    with contextmanager(open_fair)(settings) as here, contextmanager(open_fair)(settings) as there:
        who = here.person("owner")
        began = time.monotonic()
        statuses = [(here, there)[n % 2].client.get("/v1/account", headers=who.headers).status_code for n in range(20)]
        assert 6 <= statuses.count(200) < 6 + gained(6, began)
        names = redis_client.Redis.from_url(redis.url).keys("market:v1:limit:*")
        assert names
        assert not any(b"testclient" in name or who.key.encode() in name for name in names)


def test_limits_come_from_the_environment(tmp_path: Path) -> None:
    environment = {
        "TIERMARKET_STATE": str(tmp_path),
        "TIERMARKET_READS_PER_MINUTE": "7",
        "TIERMARKET_ACTS_PER_MINUTE": "0",
        "TIERMARKET_FAILURES_PER_MINUTE": "3",
        "TIERMARKET_WORKERS": "4",
    }
    found = Settings.from_environment(environment)
    assert (found.limits, found.workers) == (Limits(reads=7, acts=0, failures=3), 4)
    for bad in ("-1", "x", "1e3", "٣", "", "9" * 30):
        with pytest.raises(InvalidRequestError):
            Settings.from_environment(environment | {"TIERMARKET_READS_PER_MINUTE": bad})


class Asked:
    """Buckets that give all that is asked for, and remember how much that was."""

    def __init__(self) -> None:
        self.wants: list[int] = []

    async def take(self, name: str, rate: int, want: int) -> Taken:
        self.wants.append(want)
        return Taken(want, 0)


@pytest.mark.parametrize(("rate", "most"), [(1, 1), (39, 1), (400, 20), (60_000, 1_024), (10**9, 1_024)])
async def test_no_worker_takes_more_than_a_twentieth_of_a_minute_at_once(rate: int, most: int) -> None:
    buckets = Asked()
    limiter = Limiter(buckets, Clock())
    for _ in range(5_000):
        await limiter.admit("read:a", rate, "reads")
    assert max(buckets.wants) == most
    assert buckets.wants == sorted(buckets.wants), "doubled while all is spent"


@dataclass
class Caught:
    """A connection of which only the peer is known."""

    host: str | None

    @property
    def client(self) -> Any:
        return None if self.host is None else self


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "192.0.2.1", False),
        (None, "", True),
    ],
)
def test_whoever_has_a_whole_network_to_choose_from_is_one_address(
    one: str | None, other: str | None, *, same: bool
) -> None:
    first, second = (address_of(Caught(host)) for host in (one, other))  # type: ignore[arg-type]
    assert (first == second) is same


def test_no_address_is_in_redis(cached_fair: Fair, redis: EmbeddedRedis) -> None:
    assert cached_fair.client.get("/v1/keys").status_code == 200
    assert cached_fair.client.get("/v1/account", headers={"Authorization": "Bearer tm_no"}).status_code == 401
    keys = redis_client.Redis.from_url(redis.url).keys("market:v1:limit:*")
    for kind in (b"visit", b"fail"):
        assert [key for key in keys if kind in key], "both were counted"
    assert not [key for key in keys if b"testclient" in key]
