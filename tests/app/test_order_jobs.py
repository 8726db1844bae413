"""Orders that do not wait for their draw: a job each, one order, no answer in the job, and taken over when it is left."""

import asyncio
import threading
import time
from typing import Any

import pytest
from sqlalchemy import select

from app.engine.release import ReleaseEngine
from app.jobs import runner
from app.jobs.orders import ORDER, OrderJob
from app.store.schema import jobs
from tests.conftest import LICENCE, TOTAL, Fair, Person


def ordered(fair: Fair, who: Person, quote: str, key: str = "k", prefer: str = "respond-async") -> Any:
    headers = who.headers | {"Idempotency-Key": key, "Prefer": prefer}
    return fair.client.post("/v1/orders", json={"quote": quote, "licence": LICENCE}, headers=headers)


def ended(fair: Fair, who: Person, job: str) -> dict[str, Any]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        seen = dict(fair.client.get(f"/v1/jobs/{job}", headers=who.headers).json())
        if seen["state"] != "running":
            return seen
        time.sleep(0.05)
    raise AssertionError("the job did not end")


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that are left are taken over where a test says so, and not by the market's own look every few seconds."""
    monkeypatch.setattr(runner, "_LOOK_SECONDS", 1e6)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Draws that wait until they are let go."""
    let_go, compute = threading.Event(), ReleaseEngine.compute

    def slow(self: ReleaseEngine, chain: Any, tier: Any) -> Any:
        assert let_go.wait(120)
        return compute(self, chain, tier)

    monkeypatch.setattr(ReleaseEngine, "compute", slow)
    return let_go


def test_a_first_sale_that_is_not_waited_for_is_a_job_and_one_order(fair: Fair, gate: threading.Event) -> None:
    product = fair.product(fair.dataset())
    buyer, other = fair.person(), fair.person()
    quote = fair.quote(buyer, product, "1")
    begun = ordered(fair, buyer, quote, prefer="wait=1, Respond-Async; x=1")
    job = begun.json()["job"]
    assert (begun.status_code, begun.headers["location"]) == (202, f"/v1/jobs/{job}")
    assert begun.headers["preference-applied"] == "respond-async"
    assert ordered(fair, buyer, quote).json() == {"job": job}, "a retry is the same job"
    assert fair.client.get(f"/v1/jobs/{job}", headers=other.headers).status_code == 404
    assert fair.stored()["orders"] == 0
    gate.set()
    done = ended(fair, buyer, job)
    assert (done["state"], done["progress"]) == ("done", "done")
    assert set(done["result"]) == {"order", "product", "chain", "law"}, "no answer: that is read with the right to it"
    retried = ordered(fair, buyer, quote)
    assert (retried.status_code, retried.json()["replayed"]) == (201, True)
    assert retried.json()["receipt"]["order"] == done["result"]["order"]
    assert fair.answer(buyer, retried.json()).json() == retried.json()["answer"]
    stored = fair.stored()
    assert (stored["orders"], stored["jobs"], stored["draws"]) == (1, 1, 4)


def test_a_drawn_tier_is_sold_at_once_and_a_refusal_is_no_job(fair: Fair) -> None:
    dataset = fair.dataset(budget="2")
    product, other = fair.product(dataset), fair.product(dataset, TOTAL)
    buyer = fair.person()
    fair.buy(buyer, product, "2")
    assert ordered(fair, buyer, fair.quote(buyer, product, "1")).status_code == 201
    refused = ordered(fair, buyer, fair.quote(buyer, other, "0.1"), "over")
    assert (refused.status_code, refused.json()["type"].endswith("budget-refused")) == (409, True)
    poor = fair.person(deposit=1)
    assert ordered(fair, poor, fair.quote(poor, product, "1")).status_code == 402
    assert fair.stored()["jobs"] == 0


def test_a_job_that_meets_a_refusal_says_which_and_leaves_nothing(fair: Fair, gate: threading.Event) -> None:
    dataset = fair.dataset(budget="2")
    product, other = fair.product(dataset), fair.product(dataset, TOTAL)
    ada, bruno = fair.person(), fair.person()
    first = ordered(fair, ada, fair.quote(ada, product, "2")).json()["job"]
    second = ordered(fair, bruno, fair.quote(bruno, other, "2")).json()["job"]
    gate.set()
    seen = [ended(fair, ada, first), ended(fair, bruno, second)]
    assert sorted(job["state"] for job in seen) == ["done", "failed"]
    (problem,) = [job["result"] for job in seen if job["state"] == "failed"]
    assert (problem["type"], problem["status"]) == ("budget-refused", 409)
    assert fair.stored()["orders"] == 1
    assert fair.ledger(dataset)["spent"] == "2"


def test_a_suspended_account_gets_no_order_from_its_job(fair: Fair, gate: threading.Event) -> None:
    product = fair.product(fair.dataset())
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    left = abandoned(fair, buyer, OrderJob(quote=quote, key="k", licence=LICENCE))
    path = f"/v1/accounts/{buyer.account}/suspension"
    assert fair.client.post(path, json={"reason": "r"}, headers=fair.operator.headers).status_code == 201
    gate.set()
    fair.client.blocking_portal.call(fair.market.jobs.take_over)
    assert row_after(fair, left).state == "failed"
    assert fair.stored()["orders"] == 0


def test_a_look_between_a_job_s_row_and_its_beginning_begins_it_once(
    fair: Fair, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is in the store a moment before its own worker begins: who waits for what runs must wait for that run."""
    market, begun, run = fair.market, list[str](), runner.Jobs._run_in_turn
    write = market.database.write

    def counted(self: runner.Jobs, job: str, kind: str) -> None:
        begun.append(job)
        run(self, job, kind)

    async def looked_at(work: Any) -> Any:
        done = await write(work)
        await market.jobs.take_over()
        return done

    monkeypatch.setattr(runner.Jobs, "_run_in_turn", counted)
    monkeypatch.setattr(market.database, "write", looked_at)
    buyer = fair.person()
    quote = fair.quote(buyer, fair.product(fair.dataset()), "1")
    job = ordered(fair, buyer, quote).json()["job"]
    running = list(market.jobs._running.values())
    assert len(running) == 1
    gate.set()
    fair.client.blocking_portal.call(asyncio.gather, *running)
    assert (begun, row_after(fair, job).state) == ([job], "done")


@pytest.mark.parametrize("placed", [False, True], ids=["before the sale", "after the sale"])
def test_an_order_whose_worker_died_is_placed_once_by_the_next(fair: Fair, placed: bool) -> None:
    dataset = fair.dataset()
    product = fair.product(dataset)
    buyer = fair.person()
    quote = fair.quote(buyer, product, "1")
    if placed:
        assert fair.order(buyer, quote, "k").status_code == 201
    left = abandoned(fair, buyer, OrderJob(quote=quote, key="k", licence=LICENCE))
    fair.client.blocking_portal.call(fair.market.jobs.take_over)
    done = row_after(fair, left)
    assert (done.state, done.attempts) == ("done", 2)
    assert fair.stored()["orders"] == 1
    assert fair.ledger(dataset)["spent"] == "1"
    assert fair.order(buyer, quote, "k").json()["replayed"] is True


def abandoned(fair: Fair, who: Person, wanted: OrderJob, kind: str = ORDER) -> str:
    """A job as a worker leaves it that is killed in the middle."""
    values = {"id": "job_left", "account_id": who.account, "kind": kind, "request_json": wanted.text()}
    values |= {"state": "running", "progress": "drawing", "created_at": "2026", "attempts": 1}
    fair.market.database.submit(lambda connection: connection.execute(jobs.insert().values(**values))).result()
    return str(values["id"])


def row_after(fair: Fair, job: str) -> Any:
    wanted, deadline = select(jobs).where(jobs.c.id == job), time.monotonic() + 300
    while time.monotonic() < deadline:
        row = fair.market.database.read_now(lambda connection: connection.execute(wanted).one())
        if row.state != "running":
            return row
        time.sleep(0.05)
    raise AssertionError("the job did not end")
