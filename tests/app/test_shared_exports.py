"""Exports on two machines of one store: made on one, read, dropped, taken over and swept on the other."""

import io
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from app.exports import work
from app.exports.requests import AnswersExport
from app.exports.work import request_text
from app.jobs.runner import Task
from app.settings import Settings
from app.store.schema import export_frames, exports, jobs
from tests.app.test_exports import ANSWERS, act, blobs_of, fetch, job, left, made, settle
from tests.app.test_rollback import reopened
from tests.conftest import Fair, Person, open_fair
from tests.postgres import postgres

__all__ = ["postgres"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Fair, Fair]]:
    """Two machines with folders of their own; on SQLite, which is one machine's, two processes that share it."""
    one = Settings.at(tmp_path / "a")
    two = replace(Settings.at(tmp_path / "b"), database_url=one.database_url, redo_file=one.redo)
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres")(f"exports_{secrets.token_hex(6)}")
        one, two = replace(one, database_url=url), replace(two, database_url=url, redo_file=None)
    opened = open_fair(one)
    first = next(opened)
    two.prepare()
    shutil.copy(one.keys, two.keys)
    others = reopened(two, first)
    second = next(others)
    for fair in (first, second):  # these tests say themselves who takes a job over, and when
        watching = fair.market.jobs._watching
        assert watching is not None
        fair.client.blocking_portal.call(watching.cancel)
    yield first, second
    others.close()
    opened.close()


def buyer_of(fair: Fair) -> Person:
    buyer = fair.person()
    fair.buy(buyer, fair.product(fair.dataset()), "1")
    return buyer


def count(fair: Fair) -> int:
    return fair.stored()["export_frames"]


def test_an_export_is_the_same_on_every_machine_and_gone_from_all_at_once(machines: tuple[Fair, Fair]) -> None:
    one, two = machines
    buyer = buyer_of(one)
    export = made(one, buyer, ANSWERS)
    here, there = fetch(one, buyer, export), fetch(two, buyer, export)
    assert (here.status_code, there.status_code) == (200, 200)
    assert (here.content, here.headers["etag"]) == (there.content, there.headers["etag"])
    assert zipfile.ZipFile(io.BytesIO(there.content)).testzip() is None
    assert fetch(two, buyer, export, **{"If-None-Match": export["etag"]}).status_code == 304
    assert fetch(two, one.person(), export).status_code == 404
    assert made(two, buyer, ANSWERS) == export, "the other machine finds what was made"
    assert two.client.delete(export["path"], headers=buyer.headers).status_code == 200
    assert [fetch(fair, buyer, export).status_code for fair in machines] == [404, 404]
    assert count(one) == 0
    for fair in machines:
        assert not (fair.market.settings.state / "exports").exists(), "nothing is on one machine alone"


def test_an_export_whose_machine_died_in_the_middle_is_made_by_the_other(
    machines: tuple[Fair, Fair], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines
    buyer = buyer_of(one)
    name = left(one, buyer, ANSWERS)
    put = work.put_frames

    def dies(connection: Any, blob: str, task: str, place: int, frames: Sequence[bytes]) -> None:
        put(connection, blob, task, place, frames[:1])

    monkeypatch.setattr(work, "put_frames", dies)
    monkeypatch.setattr(work, "keep", lambda *_: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception):
        work.export_job(one.market, Task(name, buyer.account, request_text(AnswersExport()), lambda _: None))
    monkeypatch.undo()
    assert (count(one), one.stored()["exports"]) == (1, 0)
    assert one.client.get("/v1/exports", headers=buyer.headers).json() == []
    two.client.blocking_portal.call(work.sweep_exports, two.market)
    assert count(one) == 1, "what a running job has written is left alone"
    two.client.blocking_portal.call(two.market.jobs.take_over)
    settle(two)
    ended = job(one, buyer, name)
    assert (ended["state"], blobs_of(one)) == ("done", [ended["result"]["export"]])
    assert fetch(one, buyer, ended["result"]).content == fetch(two, buyer, ended["result"]).content


def test_frames_that_are_not_all_there_are_not_announced(
    machines: tuple[Fair, Fair], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines
    buyer, put = buyer_of(one), work.put_frames
    monkeypatch.setattr(work, "put_frames", lambda c, b, t, p, frames: put(c, b, t, p, frames[:1]))
    name = one.client.post("/v1/exports", json={"what": ANSWERS}, headers=buyer.headers).json()["job"]
    settle(one)
    assert job(one, buyer, name)["state"] == "failed"
    assert one.stored()["exports"] == 0
    monkeypatch.undo()
    one.client.blocking_portal.call(work.sweep_exports, one.market)
    assert count(one) == 0


def test_of_two_machines_at_one_job_the_first_is_kept_and_nothing_of_the_other(machines: tuple[Fair, Fair]) -> None:
    one, two = machines
    buyer = buyer_of(one)
    task = Task(left(one, buyer, ANSWERS), buyer.account, request_text(AnswersExport()), lambda _: None)
    rows = [work._make(fair.market, task, AnswersExport(), 0) for fair in machines]
    assert rows[0]["blob"] != rows[1]["blob"]
    assert rows[0]["etag"] == rows[1]["etag"]
    for fair, row in zip(machines, rows, strict=True):
        kept = fair.market.database.submit(lambda c, row=row: work.keep(c, row, "2026")).result()
        assert kept.blob == rows[0]["blob"]
    held = one.market.database.read_now(lambda c: set(c.execute(select(export_frames.c.blob)).scalars()))
    assert held == {rows[0]["blob"]}
    assert fetch(two, buyer, {"path": f"/v1/exports/{rows[0]['id']}"}).status_code == 200


def test_what_has_lapsed_is_swept_by_any_machine_and_nothing_else(machines: tuple[Fair, Fair]) -> None:
    one, two = machines
    buyer = buyer_of(one)
    old, new = made(one, buyer, ANSWERS), made(one, buyer, ANSWERS | {"format": "json"})
    two.client.blocking_portal.call(work.sweep_exports, two.market)
    assert blobs_of(one) == sorted([old["export"], new["export"]])
    act(one, update(exports).where(exports.c.id == old["export"]).values(expires_at="2026"))
    assert fetch(two, buyer, old).status_code == 404
    two.client.blocking_portal.call(work.sweep_exports, two.market)
    assert (blobs_of(one), one.stored()["exports"]) == ([new["export"]], 1)
    assert fetch(one, buyer, new).status_code == 200
    act(one, update(jobs).values(state="done"))
    act(one, export_frames.insert().values(blob="blob_1", place=0, job_id="job_gone", sealed=b"x"))
    two.client.blocking_portal.call(work.sweep_exports, two.market)
    assert blobs_of(one) == [new["export"]], "frames of a job that nobody does any more"
