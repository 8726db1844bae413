"""Answers about places that are not waited for: one job, one order, people charged once, whoever does it."""

import threading
from typing import Any

import pytest

from app.jobs.orders import LOCATION_ORDER
from app.locations import acts
from app.locations.order_jobs import LocationOrderJob
from tests.app.locating import buy, opened, quoted
from tests.app.test_order_jobs import abandoned, ended, row_after
from tests.conftest import LICENCE, Fair, Person


def ordered(fair: Fair, who: Person, panel: dict[str, Any], quote: str, key: str = "k") -> Any:
    headers = who.headers | {"Idempotency-Key": key, "Prefer": "respond-async"}
    path = f"/v1/locations/{panel['panel']}/orders"
    return fair.client.post(path, json={"quote": quote, "licence": LICENCE}, headers=headers)


def quote_of(fair: Fair, who: Person, panel: dict[str, Any]) -> str:
    return str(quoted(fair, who, panel).json()["quote"])


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """People who are asked only once they are let go."""
    let_go, asked = threading.Event(), acts.answer_question

    def slow(*given: Any) -> None:
        assert let_go.wait(60)
        asked(*given)

    monkeypatch.setattr(acts, "answer_question", slow)
    return let_go


def test_a_new_question_that_is_not_waited_for_is_a_job_and_one_order(fair: Fair, gate: threading.Event) -> None:
    panel, buyer, other = opened(fair, "city"), fair.person(), fair.person()
    quote = quote_of(fair, buyer, panel)
    begun = ordered(fair, buyer, panel, quote)
    job = begun.json()["job"]
    assert (begun.status_code, begun.headers["location"]) == (202, f"/v1/jobs/{job}")
    assert ordered(fair, buyer, panel, quote).json() == {"job": job}, "a retry is the same job"
    assert fair.client.get(f"/v1/jobs/{job}", headers=other.headers).status_code == 404
    assert (fair.stored()["location_orders"], fair.stored()["location_rounds"]) == (0, 0)
    gate.set()
    done = ended(fair, buyer, job)
    assert done["state"] == "done", done
    assert set(done["result"]) == {"order", "panel", "query"}, "no answer: that is read with the right to it"
    retried = ordered(fair, buyer, panel, quote)
    assert (retried.status_code, retried.json()["replayed"]) == (201, True)
    assert retried.json()["receipt"]["order"] == done["result"]["order"]
    path = f"/v1/locations/{panel['panel']}/answers/{done['result']['query']}"
    assert fair.client.get(path, headers=buyer.headers).json()["answer"] == retried.json()["answer"]
    assert fair.stored()["location_orders"] == 1


def test_what_was_answered_is_sold_at_once_and_a_refusal_is_no_job(fair: Fair) -> None:
    panel, poor = opened(fair, "city"), fair.person(deposit=1)
    refused = ordered(fair, poor, panel, quote_of(fair, poor, panel))
    assert (refused.status_code, refused.json()["type"].rsplit("/")[-1]) == (402, "insufficient-funds")
    assert buy(fair, fair.person(), panel).status_code == 201
    buyer = fair.person()
    assert ordered(fair, buyer, panel, quote_of(fair, buyer, panel)).status_code == 201
    assert fair.stored()["jobs"] == 0


def test_orders_that_wait_for_a_panel_hold_up_no_other_jobs(fair: Fair, gate: threading.Event) -> None:
    panel, buyers = opened(fair, "city"), [fair.person() for _ in range(4)]
    waiting = [ordered(fair, each, panel, quote_of(fair, each, panel)).json()["job"] for each in buyers]
    audit = fair.client.post("/v1/audits", headers=fair.operator.headers).json()["job"]
    assert ended(fair, fair.operator, audit)["state"] == "done"
    assert fair.stored()["location_orders"] == 0
    gate.set()
    assert [ended(fair, who, job)["state"] for who, job in zip(buyers, waiting, strict=True)] == ["done"] * 4


def test_jobs_of_one_purse_have_people_of_one_panel_asked(fair: Fair) -> None:
    places, buyer = [opened(fair, name) for name in ("city", "sea", "wood")], fair.person(deposit=500)
    quotes = [quote_of(fair, buyer, panel) for panel in places]
    begun = [
        ordered(fair, buyer, panel, quote, quote).json()["job"] for panel, quote in zip(places, quotes, strict=True)
    ]
    done = [ended(fair, buyer, job) for job in begun]
    assert sorted(job["state"] for job in done) == ["done", "failed", "failed"]
    refused = [job["result"]["type"].rsplit("/")[-1] for job in done if job["state"] == "failed"]
    assert refused == ["insufficient-funds"] * 2
    answered = [fair.client.get(f"/v1/locations/{panel['panel']}", headers=buyer.headers) for panel in places]
    assert sum(each.json()["answered"] for each in answered) == 1


@pytest.mark.parametrize("placed", [False, True], ids=["before the sale", "after the sale"])
def test_an_order_whose_worker_died_asks_people_once(fair: Fair, placed: bool) -> None:
    panel, buyer = opened(fair, "city"), fair.person()
    quote = quote_of(fair, buyer, panel)
    if placed:
        path, headers = f"/v1/locations/{panel['panel']}/orders", buyer.headers | {"Idempotency-Key": "k"}
        assert fair.client.post(path, json={"quote": quote, "licence": LICENCE}, headers=headers).status_code == 201
    wanted = LocationOrderJob(panel=panel["panel"], quote=quote, key="k", licence=LICENCE)
    fair.unwatched()
    left = abandoned(fair, buyer, wanted, LOCATION_ORDER)
    fair.client.blocking_portal.call(fair.market.jobs.take_over)
    done = row_after(fair, left)
    assert (done.state, done.attempts) == ("done", 2)
    stored = fair.stored()
    assert (stored["location_orders"], stored["location_queries"]) == (1, 1)


def test_a_suspended_account_asks_nobody(fair: Fair) -> None:
    panel, buyer = opened(fair, "city"), fair.person()
    wanted = LocationOrderJob(panel=panel["panel"], quote=quote_of(fair, buyer, panel), key="k", licence=LICENCE)
    fair.unwatched()
    left = abandoned(fair, buyer, wanted, LOCATION_ORDER)
    path = f"/v1/accounts/{buyer.account}/suspension"
    assert fair.client.post(path, json={"reason": "r"}, headers=fair.operator.headers).status_code == 201
    fair.client.blocking_portal.call(fair.market.jobs.take_over)
    assert row_after(fair, left).state == "failed"
    assert (fair.stored()["location_orders"], fair.stored()["location_rounds"]) == (0, 0)
