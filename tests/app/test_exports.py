"""Exports: jobs whose one result is kept sealed for a while, read by who asked while the right to all in it stands."""

import asyncio
import csv
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from litestar.testing import TestClient
from sqlalchemy import delete, select

from app.audit.verify import verify_export
from app.auth.accounts import Role, create_account
from app.clock import utc_now
from app.errors import IntegrityError
from app.exports import sealed, work
from app.exports.requests import AnswersExport
from app.exports.sealed import Sealer, unsealed
from app.exports.shelf import MOST_KEPT
from app.exports.work import EXPORT, request_text
from app.jobs.runner import Task
from app.keyring import Keyring
from app.main import build_app
from app.settings import Settings
from app.store.schema import entitlements, export_frames, exports, jobs
from app.wire import ExportRequest
from tests.app.test_readings import LADDER, MEANS, MEDIAN, REACHED
from tests.conftest import HISTOGRAM, TOTAL, Fair, Person

ANSWERS = {"type": "answers", "format": "csv"}
LOG = {"type": "log"}


def ask(fair: Fair, who: Person, what: dict[str, Any]) -> Any:
    return fair.client.post("/v1/exports", json={"what": what}, headers=who.headers)


def settle(fair: Fair) -> None:
    fair.client.blocking_portal.call(asyncio.gather, *fair.market.jobs._running.values())


def job(fair: Fair, who: Person, name: str) -> dict[str, Any]:
    return dict(fair.client.get(f"/v1/jobs/{name}", headers=who.headers).json())


def made(fair: Fair, who: Person, what: dict[str, Any]) -> dict[str, Any]:
    begun = ask(fair, who, what)
    assert begun.status_code == 202, begun.text
    name = begun.json()["job"]
    assert begun.headers["location"] == f"/v1/jobs/{name}"
    settle(fair)
    ended = job(fair, who, name)
    assert ended["state"] == "done", ended
    return dict(ended["result"])


def fetch(fair: Fair, who: Person, export: dict[str, Any], **headers: str) -> Any:
    return fair.client.get(export["path"], headers=who.headers | headers)


def blobs_of(fair: Fair) -> list[str]:
    """The exports whose frames are in the store, and "" for frames of none."""
    blobs = select(export_frames.c.blob, exports.c.id).outerjoin(exports, exports.c.blob == export_frames.c.blob)
    found = fair.market.database.read_now(lambda c: c.execute(blobs.distinct()).all())
    return sorted(row.id or "" for row in found)


def act(fair: Fair, statement: Any) -> None:
    fair.market.database.submit(lambda connection: connection.execute(statement) and None).result()


@pytest.mark.parametrize(
    ("role", "kind"), [("buyer", "json"), ("buyer", "csv"), ("buyer", "arrow"), ("analyst", "parquet")]
)
def test_answers_and_readings_are_the_bytes_that_each_gives_alone(fair: Fair, role: str, kind: str) -> None:
    dataset = fair.dataset(budget="40")
    who, other = fair.person(role), fair.person()
    for query in (HISTOGRAM, MEANS, MEDIAN, REACHED):
        product = fair.product(dataset, query, tiers=LADDER)
        fair.buy(other, product, "2")
        fair.buy(who, product, "1")
        fair.buy(who, product, "0.5")
    export = made(fair, who, {"type": "answers", "format": kind})
    got = fetch(fair, who, export)
    assert (got.status_code, got.headers["content-type"]) == (200, "application/zip")
    assert int(got.headers["content-length"]) == len(got.content) == export["bytes"]
    archive = zipfile.ZipFile(io.BytesIO(got.content))
    assert archive.testzip() is None
    index = json.loads(archive.read("index.json"))
    assert index["log_size"] == export["log_size"]
    assert {entry["file"] for entry in index["files"]} | {"index.json"} == set(archive.namelist())
    answers = [entry for entry in index["files"] if entry["file"].startswith("answers/")]
    readings = [entry for entry in index["files"] if entry["file"].startswith("readings/")]
    assert (len(answers), len(readings)) == (10, 6), "five chains, two tiers each, and not the third that others hold"
    for entry in answers:
        alone = fair.client.get(f"/v1/answers/{entry['chain']}/{entry['law']}?format={kind}", headers=who.headers)
        assert (archive.read(entry["file"]), entry["etag"]) == (alone.content, alone.headers["etag"])
    for entry in readings:
        path = f"/v1/products/{entry['product']}/readings/{entry['law']}?format={kind}"
        alone = fair.client.get(path, headers=who.headers)
        assert (archive.read(entry["file"]), entry["etag"]) == (alone.content, alone.headers["etag"])


def test_an_export_of_one_dataset_holds_no_other(fair: Fair) -> None:
    first, second = (
        fair.dataset(),
        fair.dataset(name="more", table="person,city,amount,score,day\np,Cork,1,1,2026-01-01\n"),
    )
    buyer = fair.person()
    sold = [fair.buy(buyer, fair.product(dataset), "1") for dataset in (first, second)]
    export = made(fair, buyer, ANSWERS | {"dataset": second})
    index = json.loads(zipfile.ZipFile(io.BytesIO(fetch(fair, buyer, export).content)).read("index.json"))
    assert [entry["chain"] for entry in index["files"]] == [sold[1]["answer"]["chain"]]


def test_an_auditors_log_is_the_export_and_verifies(fair: Fair) -> None:
    fair.buy(fair.person(), fair.product(fair.dataset()), "1")
    auditor = fair.person("auditor")
    export = made(fair, auditor, LOG)
    got = fetch(fair, auditor, export)
    assert got.headers["content-type"].startswith("application/x-ndjson")
    assert got.content == fair.client.get("/v1/audit/export", headers=auditor.headers).content
    assert verify_export(got.content.splitlines(), fair.export()[1]).findings == ()


def test_an_owner_gets_the_sales_and_nobody_who_bought(fair: Fair) -> None:
    dataset, buyer = fair.dataset(), fair.person()
    product = fair.product(dataset, title="=Rows")
    sold = fair.buy(buyer, product, "1")
    order = sold["receipt"]["order"]
    credit = {"amount_minor": 500, "reason": "pricing error"}
    fair.client.post(f"/v1/orders/{order}/credits", json=credit, headers=fair.operator.headers)
    owner = fair.owner()
    raw = fetch(fair, owner, made(fair, owner, {"type": "sales", "dataset": dataset, "format": "parquet"})).content
    (row,) = pq.read_table(io.BytesIO(raw)).to_pylist()
    assert (row["order"], row["title"], row["amount_minor"], row["credited_minor"]) == (order, "=Rows", 3000, 500)
    assert (row["charged"], row["epsilon"], row["currency"]) == ("1", "1", "EUR")
    text = fetch(fair, owner, made(fair, owner, {"type": "sales", "dataset": dataset})).content.decode()
    (cells,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (cells["title"], cells["amount_minor"]) == ("'=Rows", "3000")
    assert buyer.account not in text
    assert sold["receipt"]["pseudonym"] not in text


@pytest.mark.parametrize(
    ("role", "what"),
    [
        ("owner", ANSWERS),
        ("auditor", ANSWERS),
        ("buyer", LOG),
        ("analyst", LOG),
        ("owner", LOG),
        ("buyer", {"type": "sales", "dataset": "data_1"}),
        ("auditor", {"type": "sales", "dataset": "data_1"}),
    ],
)
def test_an_export_is_for_its_roles_only(fair: Fair, role: str, what: dict[str, Any]) -> None:
    person = fair.person(role)
    before = fair.stored()
    assert ask(fair, person, what).status_code == 403
    assert fair.stored() == before


def test_other_peoples_exports_and_datasets_are_not_there(fair: Fair) -> None:
    dataset = fair.dataset()
    buyer, stranger, rival = fair.person(), fair.person(), fair.person("owner")
    fair.buy(buyer, fair.product(dataset), "1")
    export = made(fair, buyer, ANSWERS)
    assert fetch(fair, stranger, export).status_code == 404
    assert fetch(fair, stranger, export, **{"If-None-Match": "*"}).status_code == 404
    assert fair.client.delete(export["path"], headers=stranger.headers).status_code == 404
    assert fair.client.get("/v1/exports", headers=stranger.headers).json() == []
    assert ask(fair, rival, {"type": "sales", "dataset": dataset}).status_code == 404
    assert fair.client.get("/v1/exports", headers=buyer.headers).json() == [export]
    for path in ("export_x", "..", "%2e%2e%2fmarket.db"):
        assert fair.client.get(f"/v1/exports/{path}", headers=buyer.headers).status_code in (400, 404)


def test_a_strong_etag_saves_the_body_and_a_lost_right_closes_the_export(fair: Fair) -> None:
    buyer = fair.person()
    fair.buy(buyer, fair.product(fair.dataset()), "1")
    export = made(fair, buyer, ANSWERS)
    got = fetch(fair, buyer, export)
    assert got.headers["etag"] == export["etag"]
    assert (export["etag"][0], export["etag"][-1]) == ('"', '"')
    same = fetch(fair, buyer, export, **{"If-None-Match": f'"x", {export["etag"]}'})
    assert (same.status_code, same.content) == (304, b"")
    taken = delete(entitlements).where(entitlements.c.account_id == buyer.account)
    fair.market.database.submit(lambda connection: connection.execute(taken) and None).result()
    for headers in ({}, {"If-None-Match": "*"}):
        assert fetch(fair, buyer, export, **headers).status_code == 403


def test_the_same_request_is_the_same_export_until_the_log_grows(fair: Fair) -> None:
    buyer = fair.person()
    product = fair.product(fair.dataset())
    fair.buy(buyer, product, "1")
    first = made(fair, buyer, ANSWERS)
    assert made(fair, buyer, ANSWERS) == first
    assert fair.stored()["exports"] == 1
    fair.buy(buyer, product, "0.5")
    second = made(fair, buyer, ANSWERS)
    assert second["export"] != first["export"]
    assert len(zipfile.ZipFile(io.BytesIO(fetch(fair, buyer, second).content)).namelist()) == 3
    again = made(fair, buyer, ANSWERS | {"format": "json"})
    assert len({first["etag"], second["etag"], again["etag"]}) == 3


def left(fair: Fair, who: Person, what: dict[str, Any], name: str = "job_00") -> str:
    """A job as a worker leaves it that is killed in the middle; nobody takes it over unasked."""
    fair.unwatched()
    request = request_text(msgspec.convert({"what": what}, ExportRequest).what)
    values = {"id": name, "account_id": who.account, "kind": EXPORT, "request_json": request, "state": "running"}
    values |= {"progress": "1 of 2 answers", "created_at": "2026", "attempts": 1}
    fair.market.database.submit(lambda connection: connection.execute(jobs.insert().values(**values)) and None).result()
    return name


@pytest.mark.parametrize("died", ["in its frames", "before the row", "after the row"])
def test_an_export_whose_worker_died_is_made_once_by_the_next(
    fair: Fair, died: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    buyer = fair.person()
    fair.buy(buyer, fair.product(fair.dataset()), "1")
    name = left(fair, buyer, ANSWERS)
    if died == "in its frames":
        act(fair, export_frames.insert().values(blob="blob_1", place=0, job_id=name, sealed=b"half"))
    elif died == "before the row":
        monkeypatch.setattr(work, "keep", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            work.export_job(fair.market, Task(name, buyer.account, request_text(AnswersExport()), lambda _: None))
        monkeypatch.undo()
        assert blobs_of(fair) == [""]
    fair.client.blocking_portal.call(fair.market.jobs.take_over)
    settle(fair)
    if died == "after the row":
        values = {"state": "running", "result_json": None}
        again = jobs.update().where(jobs.c.id == name).values(**values)
        fair.market.database.submit(lambda connection: connection.execute(again) and None).result()
        monkeypatch.setattr(work, "_make", lambda *_: pytest.fail("it was made already"))
        fair.client.blocking_portal.call(fair.market.jobs.take_over)
        settle(fair)
    ended = job(fair, buyer, name)
    assert (ended["state"], ended["result"]["export"]) == ("done", "export_00")
    assert (fair.stored()["exports"], blobs_of(fair)) == (1, ["export_00"])
    assert zipfile.ZipFile(io.BytesIO(fetch(fair, buyer, ended["result"]).content)).testzip() is None


def test_a_suspended_account_gets_no_export_from_its_job(fair: Fair) -> None:
    buyer = fair.person()
    name = left(fair, buyer, ANSWERS)
    path = f"/v1/accounts/{buyer.account}/suspension"
    assert fair.client.post(path, json={"reason": "r"}, headers=fair.operator.headers).status_code == 201
    fair.client.blocking_portal.call(fair.market.jobs.take_over)
    settle(fair)
    row = fair.market.database.read_now(lambda c: c.execute(select(jobs).where(jobs.c.id == name)).one())
    assert row.state == "failed"
    assert (fair.stored()["exports"], blobs_of(fair)) == (0, [])


def test_nothing_of_an_answer_is_in_clear_at_rest(fair: Fair) -> None:
    buyer = fair.person()
    sold = fair.buy(buyer, fair.product(fair.dataset(), TOTAL), "1")
    made(fair, buyer, ANSWERS)
    (digits,) = sold["answer"]["values"]
    for table in (exports, export_frames):
        rows = fair.market.database.read_now(lambda c, table=table: str(c.execute(select(table)).all()))
        assert rows != "[]"
        assert digits not in rows


@pytest.mark.parametrize("lost", [export_frames.c.place >= 0, export_frames.c.place == 1])
def test_lost_frames_are_said_and_made_again(fair: Fair, lost: Any) -> None:
    buyer = fair.person()
    fair.buy(buyer, fair.product(fair.dataset()), "1")
    first = made(fair, buyer, ANSWERS)
    act(fair, delete(export_frames).where(lost))
    assert fetch(fair, buyer, first).status_code == 503
    second = made(fair, buyer, ANSWERS)
    assert second["export"] != first["export"]
    assert second["etag"] == first["etag"], "the same answers, the same bytes"
    assert fetch(fair, buyer, second).status_code == 200


def test_beyond_the_most_kept_the_oldest_gives_way(fair: Fair) -> None:
    buyer, other = fair.person(), fair.person()
    dataset = fair.dataset()
    fair.buy(buyer, fair.product(dataset), "1")
    kept = [made(fair, buyer, ANSWERS)]
    others = made(fair, other, ANSWERS)
    for _ in range(MOST_KEPT):
        fair.product(dataset)
        kept.append(made(fair, buyer, ANSWERS))
    listed = fair.client.get("/v1/exports", headers=buyer.headers).json()
    assert {row["export"] for row in listed} <= {row["export"] for row in kept}
    assert len(listed) == MOST_KEPT
    assert fetch(fair, other, others).status_code == 200
    dropped = fair.client.delete(kept[-1]["path"], headers=buyer.headers)
    assert dropped.json() == {"export": kept[-1]["export"]}
    assert kept[-1]["export"] not in blobs_of(fair)
    assert "" not in blobs_of(fair)
    assert fetch(fair, buyer, kept[-1]).status_code == 404


def test_an_export_lapses_with_its_time(tmp_path: Path) -> None:
    ahead = [timedelta(0)]

    def clock() -> datetime:
        return utc_now() + ahead[0]

    app = build_app(replace(Settings.at(tmp_path / "market"), export_hours=2), clock=clock)
    with TestClient(app) as client:
        market = app.state.market

        def account(role: Role) -> Person:
            work_ = market.database.submit(
                lambda c: create_account(c, market.keyring, role=role, name="n", currency="EUR", at="2026-01-01")
            )
            account = work_.result()
            return Person(account.id, role, account.api_key)

        fair, auditor = Fair(client, market, account(Role.OPERATOR)), account(Role.AUDITOR)
        export = made(fair, auditor, LOG)
        assert fetch(fair, auditor, export).status_code == 200
        ahead[0] = timedelta(hours=2, seconds=2)
        assert fetch(fair, auditor, export).status_code == 404
        assert client.get("/v1/exports", headers=auditor.headers).json() == []
        second = made(fair, auditor, LOG)
        assert second["export"] != export["export"]
        made(fair, auditor, LOG)
        assert blobs_of(fair) == [second["export"]], "the lapsed one's row and frames are gone"


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "keys.json")


def written(ring: Keyring, name: str, size: int) -> tuple[bytes, list[bytes]]:
    """Contents, and the frames that they are sealed in."""
    body, stored = bytes(range(256)) * (size // 256), list[bytes]()

    def put(place: int, frames: Sequence[bytes]) -> None:
        assert place == len(stored)
        stored.extend(frames)

    with Sealer(put, ring, name, b"label") as out:
        for start in range(0, size, 100_000):
            out.write(body[start : start + 100_000])
    assert (out.frames, out.size) == (len(stored), size)
    return body, stored


def read(ring: Keyring, name: str, frames: Sequence[bytes]) -> list[bytes]:
    return list(unsealed(dict(enumerate(frames)).get, len(frames), ring, name))


@pytest.mark.parametrize("size", [0, 256, 2**18, 2**18 + 256, 2**20, 2**21])
def test_sealed_frames_give_what_was_written(ring: Keyring, size: int) -> None:
    body, frames = written(ring, "a", size)
    label, *rest = read(ring, "a", frames)
    assert (label, b"".join(rest)) == (b"label", body)


def test_frames_that_are_cut_swapped_renamed_or_altered_are_refused(ring: Keyring) -> None:
    _, parts = written(ring, "a", 2**20)
    assert len(parts) == 5
    flipped = bytearray(parts[2])
    flipped[100] ^= 1
    bad = [
        parts[:-1],
        parts[:1],
        [],
        [parts[0], parts[2], parts[1], *parts[3:]],
        [*parts[:2], bytes(flipped), *parts[3:]],
    ]
    for broken in [*bad, [*parts, parts[-1]], [*parts[:-1], parts[-1][:-3]]]:
        with pytest.raises(IntegrityError):
            read(ring, "a", broken)
    with pytest.raises(IntegrityError):
        read(ring, "b", parts)
    assert len(read(ring, "a", parts)) == 5
    del (held := dict(enumerate(parts)))[3]
    with pytest.raises(IntegrityError):
        list(unsealed(held.get, len(parts), ring, "a"))


def test_a_failed_writer_seals_no_last_frame(ring: Keyring) -> None:
    stored: list[bytes] = []

    def dies() -> None:
        with Sealer(lambda _, frames: stored.extend(frames), ring, "a", b"") as out:
            out.write(bytes(2**20))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        dies()
    with pytest.raises(IntegrityError):
        read(ring, "a", stored)


def test_an_export_that_is_too_large_is_refused_by_its_size(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    fair.buy(fair.person(), fair.product(fair.dataset()), "1")
    auditor = fair.person("auditor")
    monkeypatch.setattr(sealed, "MOST_BYTES", 2_000)
    name = ask(fair, auditor, LOG).json()["job"]
    settle(fair)
    ended = job(fair, auditor, name)
    assert (ended["state"], ended["result"]["type"]) == ("failed", "conflict")
    assert "2000 bytes" in ended["result"]["detail"]
    assert fair.client.get("/v1/exports", headers=auditor.headers).json() == []
    monkeypatch.undo()
    fair.client.blocking_portal.call(work.sweep_exports, fair.market)
    assert (fair.stored()["exports"], blobs_of(fair)) == (0, [])
