"""Two stores of one market that both serve: one Redis is enough for one of them to stop, whatever the steps they keep."""

import shutil
from pathlib import Path

import pytest
import redis as redis_client

from app.embedded import EmbeddedRedis
from app.errors import ForkedLogError, StoreBehindError, StoreUnavailableError
from app.founding import found_market
from app.log.journal import append
from app.log.leaves import ThawLeaf
from app.market import Market
from app.settings import Settings

pytestmark = pytest.mark.redis


def log(market: Market, reason: str) -> None:
    """One transaction with a leaf of its own, and one without, by whose end the first one's head was shown to Redis."""

    def leaf(index: int) -> ThawLeaf:
        return ThawLeaf(index=index, at="2026-01-01T00:00:00Z", chain="0" * 64, reason=reason)

    market.database.submit(
        lambda connection: append(connection, market.keyring, "2026-01-01T00:00:00Z", [leaf])
    ).result(300)
    market.database.submit(lambda _: None).result(300)


@pytest.fixture
def forks(tmp_path: Path, redis: EmbeddedRedis) -> tuple[Settings, Settings]:
    """Two copies of one market, each with its redo file, beside one Redis."""
    first, second = (Settings.at(tmp_path / name, redis_url=redis.url) for name in ("first", "second"))
    found_market(first)
    shutil.copytree(first.state, second.state)
    return first, second


def serving(settings: Settings) -> Market:
    """A market that has looked at its witness already, and has no suspicion left."""
    market = Market(settings)
    market.database.submit(lambda _: None).result(300)
    assert market.database.standing == "current"
    return market


def writes_until_stopped(markets: list[Market], steps: list[int]) -> list[StoreUnavailableError]:
    stopped: list[StoreUnavailableError] = []
    for place, turn in enumerate(steps):
        try:
            log(markets[turn], f"{turn}/{place}")
        except (StoreBehindError, ForkedLogError) as error:
            stopped.append(error)
    return stopped


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([0, 1, 1], ForkedLogError),
        ([0, 1, 0, 1, 0, 1], StoreUnavailableError),  # forked or behind, by which write looks first
        ([0, 0, 0, 1, 1, 1], StoreBehindError),
        ([1, 0, 0, 0, 1, 1], ForkedLogError),
    ],
    ids=["alike", "in step", "behind", "alike, the other first"],
)
def test_of_two_forks_that_serve_one_stops_by_its_second_write(
    forks: tuple[Settings, Settings], steps: list[int], kind: type[Exception]
) -> None:
    markets = [serving(settings) for settings in forks]
    stopped = writes_until_stopped(markets, steps)
    assert stopped
    assert isinstance(stopped[0], kind)
    standings = sorted(market.database.standing for market in markets)
    assert standings[0] == "behind" or "forked" in standings
    assert "current" in standings, "the other one goes on"
    for market in markets:
        market.database.close()


def test_a_redis_that_repeats_the_newest_head_raises_no_suspicion(
    forks: tuple[Settings, Settings], redis: EmbeddedRedis
) -> None:
    market = serving(forks[0])
    client = redis_client.Redis.from_url(redis.url)
    for place in range(4):
        log(market, str(place))
        (name,) = client.keys("market:v1:head:*")
        kept = client.get(name)
        assert int(bytes(kept).partition(b" ")[0]) == 3 + place
        if place == 2:
            client.flushall()
    assert market.database.standing == "current"
    market.database.close()
