"""Jobs: one result each, whoever does them; a worker that died is replaced, by another or by the next start."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from app.demo.run import open_operator
from app.errors import StoreUnavailableError
from app.jobs import runner
from app.jobs.runner import Jobs
from app.settings import Settings
from app.store.database import open_engine
from app.store.schema import jobs
from tests.conftest import Fair, open_fair
from tests.processes import end, quiet_port, serve

PATIENCE = 300  # seconds that a slow machine may take


def row_of(fair: Fair, job: str) -> Any:
    return fair.market.database.read_now(
        lambda connection: connection.execute(select(jobs).where(jobs.c.id == job)).one()
    )


def abandoned(fair: Fair, kind: str = "price-audit", attempts: int = 1) -> str:
    """A job as a worker leaves it that is killed in the middle; nobody takes it over unasked."""
    fair.unwatched()
    values = {"id": f"job_{kind.replace('-', '')}{attempts}", "account_id": fair.owner().account, "kind": kind}
    values |= {"state": "running", "progress": "half way", "created_at": "2026", "attempts": attempts}
    fair.market.database.submit(lambda connection: connection.execute(jobs.insert().values(**values))).result()
    return str(values["id"])


def until(fair: Fair, job: str, state: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and row_of(fair, job).state != state:
        time.sleep(0.05)
    return row_of(fair, job)


def call(fair: Fair, act: Callable[[], Any]) -> None:
    fair.client.blocking_portal.call(act)


def test_a_job_whose_worker_died_is_done_by_another_and_has_one_result(fair: Fair) -> None:
    fair.product(fair.dataset())
    job = abandoned(fair)
    call(fair, fair.market.jobs.take_over)
    done = until(fair, job, "done")
    assert (done.state, done.attempts, done.progress) == ("done", 2, "done")
    seen = fair.client.get(f"/v1/jobs/{job}", headers=fair.owner().headers).json()
    assert seen["result"]["verdict"] == "safe"
    call(fair, fair.market.jobs.take_over)
    assert row_of(fair, job) == done, "what is done stays as it is"


def test_a_job_that_somebody_works_on_is_left_alone(fair: Fair) -> None:
    job = abandoned(fair)
    with fair.market.turns.held("job", job):
        call(fair, fair.market.jobs.take_over)
        time.sleep(0.3)
        assert row_of(fair, job).attempts == 1
    call(fair, fair.market.jobs.take_over)
    assert until(fair, job, "done").attempts == 2


def test_a_job_that_ended_three_workers_ends_no_fourth(fair: Fair) -> None:
    job = abandoned(fair, attempts=3)
    call(fair, fair.market.jobs.take_over)
    failed = until(fair, job, "failed")
    assert (failed.state, failed.attempts, failed.result_json) == ("failed", 3, None)


def test_two_workers_that_find_one_job_do_it_once(fair: Fair) -> None:
    runs: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def slow(_database: Any, progress: Callable[[str], None]) -> dict[str, int]:
        runs.append("run")
        inside.set()
        leave.wait(PATIENCE)
        progress("nearly")
        return {"n": len(runs)}

    market = fair.market
    workers = [Jobs(market.database, market.clock, market.turns, {"slow": slow}) for _ in range(2)]
    job = abandoned(fair, kind="slow")
    call(fair, workers[0].take_over)
    assert inside.wait(PATIENCE)
    call(fair, workers[1].take_over)
    time.sleep(0.3)
    leave.set()
    assert until(fair, job, "done").result_json == '{"n":1}'
    assert runs == ["run"]
    for worker in workers:
        call(fair, worker.close)


def test_a_result_that_comes_after_another_is_not_stored(fair: Fair) -> None:
    from app.jobs.runner import _update

    job = abandoned(fair)
    values = {"state": "done", "result_json": '{"first":1}'}
    for result in ('{"first":1}', '{"second":2}'):
        given = values | {"result_json": result}
        fair.market.database.submit(lambda connection, given=given: _update(connection, job, **given)).result()
    assert row_of(fair, job).result_json == '{"first":1}'
    back = update(jobs).where(jobs.c.id == job).values(state="failed")
    fair.market.database.submit(lambda connection: connection.execute(back)).result()


def test_a_job_is_the_same_for_one_account_kind_and_request_while_it_runs(fair: Fair) -> None:
    leave = threading.Event()

    def slow(_database: Any, _task: Any) -> dict[str, int]:
        leave.wait(PATIENCE)
        return {}

    market = fair.market
    worker = Jobs(market.database, market.clock, market.turns, {"a": slow, "b": slow})
    accounts = fair.owner().account, fair.operator.account
    asked = [(account, kind, request) for account in accounts for kind in "ab" for request in ("{}", '{"n":1}')]

    def start(each: tuple[str, str, str]) -> str:
        return str(fair.client.blocking_portal.call(worker.start, *each))

    begun = [start(each) for each in asked]
    assert len(set(begun)) == len(asked)
    assert [start(each) for each in asked] == begun
    leave.set()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and any(row_of(fair, job).state == "running" for job in begun):
        call(fair, worker.take_over)  # names may share a turn: one is put off then
        time.sleep(0.05)
    assert {row_of(fair, job).state for job in begun} == {"done"}
    assert start(asked[0]) not in begun, "what has ended is not begun again: it is another job"
    call(fair, worker.close)


def test_how_far_a_job_is_is_told_and_what_breaks_ends_it_without_a_word(fair: Fair) -> None:
    leave = threading.Event()

    def breaks(_database: Any, progress: Callable[[str], None]) -> dict[str, int]:
        progress("a third")
        leave.wait(PATIENCE)
        raise RuntimeError("tm_secret")

    market = fair.market
    worker = Jobs(market.database, market.clock, market.turns, {"slow": breaks})
    job = abandoned(fair, kind="slow")
    call(fair, worker.take_over)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and row_of(fair, job).progress != "a third":
        time.sleep(0.05)
    assert row_of(fair, job).progress == "a third"
    leave.set()
    failed = until(fair, job, "failed")
    assert (failed.state, failed.progress, failed.result_json) == ("failed", "failed", None)
    call(fair, worker.close)


def test_closing_waits_for_what_runs(fair: Fair) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow(_database: Any, _task: Any) -> dict[str, int]:
        inside.set()
        leave.wait(PATIENCE)
        return {}

    worker = Jobs(fair.market.database, fair.market.clock, fair.market.turns, {"slow": slow})
    job = abandoned(fair, kind="slow")
    call(fair, worker.take_over)
    assert inside.wait(PATIENCE)
    threading.Timer(0.2, leave.set).start()
    call(fair, worker.close)
    assert row_of(fair, job).state == "done"


def test_whoever_looks_goes_on_looking_after_the_store_was_away(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_LOOK_SECONDS", 0.01)
    worker = Jobs(fair.market.database, fair.market.clock, fair.market.turns, {"slow": lambda *_: {}})
    look, looks = worker.take_over, list[int]()

    async def away_at_first() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise StoreUnavailableError("store: expected an answer, got none")
        await look()

    monkeypatch.setattr(worker, "take_over", away_at_first)
    job = abandoned(fair, kind="slow")

    async def begin() -> None:
        worker.watch()

    call(fair, begin)
    assert until(fair, job, "done").state == "done"
    call(fair, worker.close)


def test_a_market_that_starts_looks_for_what_was_left(settings: Settings) -> None:
    first = open_fair(settings)
    fair = next(first)
    fair.product(fair.dataset())
    account = fair.owner().account
    first.close()
    engine = open_engine(settings.database_url)
    values = {"id": "job_left", "account_id": account, "kind": "price-audit", "state": "running"}
    with engine.begin() as connection:
        connection.execute(jobs.insert().values(**values, progress="half way", created_at="2026", attempts=1))
    engine.dispose()
    second = open_fair(settings)
    assert until(next(second), "job_left", "done").attempts == 2
    second.close()


def text_of(path: Path) -> str:
    """What a process says of itself, if it is still there."""
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.mark.long
def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path / "market")
    open_operator(settings)
    port = quiet_port()
    server = serve(settings, port, tmp_path / "log", "--workers", "1")

    def ready() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def wait_ready() -> bool:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if ready():
                return True
            time.sleep(0.2)
        return False

    def workers() -> list[int]:
        children = Path(f"/proc/{server.pid}/task").glob("*/children")
        pids = [int(pid) for path in children for pid in text_of(path).split()]
        return [pid for pid in pids if "resource_tracker" not in text_of(Path(f"/proc/{pid}/cmdline"))]

    try:
        assert wait_ready()
        time.sleep(1.5)
        (worker,) = workers()
        os.kill(worker, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and workers() in ([], [worker]):
            time.sleep(0.2)
        assert workers() not in ([], [worker])
        assert wait_ready()
    finally:
        end(server)
