"""What a running market does by the clock, of itself, and again after a look that failed; and how long it searches."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from app.audit.reports import AUDIT
from app.catalog import auditing
from app.errors import StoreUnavailableError
from app.jobs import schedule
from app.jobs.runner import Jobs
from app.routes import prices
from app.settings import Settings
from app.store.schema import jobs
from pricing.limit import Limit
from tests.app.test_commerce import DEMAND
from tests.conftest import HISTOGRAM, Fair, open_fair

NIGHT = datetime(2026, 5, 1, 2, 30, tzinfo=UTC)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (schedule, auditing):
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)


def until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def started(fair: Fair, kinds: set[str]) -> bool:
    return kinds <= set(fair.market.database.read_now(lambda store: store.execute(select(jobs.c.kind)).scalars().all()))


@pytest.mark.usefixtures("quick")
def test_a_market_that_runs_audits_its_log_and_its_prices_of_itself(settings: Settings) -> None:
    for fair in open_fair(settings, clock=lambda: NIGHT):
        fair.product(fair.dataset())
        until(partial(started, fair, {AUDIT, auditing.AUDIT}))


@pytest.mark.usefixtures("quick")
def test_a_look_that_failed_is_followed_by_others(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is away for a moment: what is done by the clock is not over for the life of the process."""
    looks = {"audits": 0, "sweeps": 0, "prices": 0}

    def away(name: str) -> Callable[..., Any]:
        async def look(*_: Any) -> None:
            looks[name] += 1
            raise StoreUnavailableError("store: expected it to answer, got nothing")

        return look

    monkeypatch.setattr(schedule, "audit_if_due", away("audits"))
    monkeypatch.setattr(schedule, "sweep_exports", away("sweeps"))
    monkeypatch.setattr(Jobs, "start_for", away("prices"))
    for _ in open_fair(settings, clock=lambda: NIGHT):
        until(lambda: min(looks.values()) > 2)


def test_owners_searches_end_within_the_seconds_that_a_request_has(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = fair.dataset()
    fair.product(dataset, HISTOGRAM)
    given = list[float]()

    def spent(seconds: float, clock: Callable[[], float]) -> Limit:
        assert clock is time.monotonic
        given.append(seconds)
        return Limit(seconds_left=lambda: 0.0)

    simulated: dict[str, Any] = {"demand": DEMAND}
    settled = fair.client.post("/v1/price-simulations", json=simulated, headers=fair.owner().headers).json()
    monkeypatch.setattr(prices, "limit_of", spent)
    monkeypatch.setattr(prices, "_SIMULATION_SECONDS", 5.0)
    hasty = fair.client.post("/v1/price-simulations", json=simulated, headers=fair.owner().headers).json()
    assert hasty != settled, "no menu is searched for once the time is over"
    capped = fair.client.post(f"/v1/datasets/{dataset}/tier-caps", headers=fair.owner().headers)
    assert "within the time limit" in capped.json()["detail"]
    assert given == [5.0, 5.0]
