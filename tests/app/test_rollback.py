"""A copy of yesterday while today's answers are with buyers: seen, refused, replayed, the same digits (case 40)."""

import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis as redis_client
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError

from app.audit.verify import verify_export
from app.embedded import EmbeddedRedis
from app.engine import release
from app.errors import ForkedLogError, IntegrityError, StoreBehindError, StoreUnavailableError
from app.founding import found_market, recorder_of
from app.keyring import Keyring
from app.log.heads import TreeHead
from app.log.journal import current_head
from app.market import Market
from app.rollback import replay
from app.settings import Settings
from app.store.database import open_engine, write_once
from app.store.redo import RedoFile, RedoRecord
from app.store.schema import accounts, metadata, redo_position
from tests.conftest import HISTOGRAM, PEOPLE, TOTAL, Fair, open_fair, tiers


def copy_of(settings: Settings, name: str) -> Path:
    """A copy of the database alone, as an administrator's file backup makes it."""
    target = settings.state.parent / name
    target.mkdir()
    for path in settings.state.glob("market.db*"):
        shutil.copy(path, target)
    return target


def put_back(settings: Settings, copy: Path) -> None:
    for path in settings.state.glob("market.db*"):
        path.unlink()
    for path in copy.iterdir():
        shutil.copy(path, settings.state)


def rows_of(settings: Settings) -> dict[str, list[Any]]:
    """Everything in the store, but for quotes, which lapse."""
    engine = open_engine(settings.database_url)
    with engine.connect() as connection:
        tables = [table for table in metadata.sorted_tables if table.name != "quotes"]
        found = {table.name: sorted(map(repr, connection.execute(select(table)))) for table in tables}
    engine.dispose()
    return found


def reopened(settings: Settings, fair: Fair) -> Iterator[Fair]:
    """The market after a restart, with the same people."""
    from litestar.testing import TestClient

    from app.main import build_app

    app = build_app(settings)
    with TestClient(app) as client:
        yield Fair(client, app.state.market, fair.operator, fair.people)


class Yesterday:
    """A market that was copied, sold on, and was put back as it had been."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        opened = open_fair(settings)
        fair = next(opened)
        self.dataset = fair.dataset(budget="6")
        self.first = fair.product(self.dataset)
        self.ada, self.bruno = fair.person(), fair.person()
        self.early = fair.buy(self.ada, self.first, "0.5")
        opened.close()
        copy = copy_of(settings, "yesterday")
        opened = reopened(settings, fair)
        fair = next(opened)
        self.second = fair.product(self.dataset, PEOPLE)
        self.late = [
            (self.bruno, fair.buy(self.bruno, self.first, "2")),
            (self.ada, fair.buy(self.ada, self.second, "1")),
        ]
        self.new = fair.person(deposit=70_000)
        self.lines, self.public = fair.export()
        self.head = fair.market.database.read_now(current_head)
        self.fair = fair
        opened.close()
        self.today = rows_of(settings)
        put_back(settings, copy)


@pytest.fixture
def yesterday(settings: Settings) -> Yesterday:
    return Yesterday(settings)


def test_a_restored_copy_of_yesterday_is_seen_and_sells_draws_and_writes_nothing(yesterday: Yesterday) -> None:
    before = rows_of(yesterday.settings)
    opened = reopened(yesterday.settings, yesterday.fair)
    fair = next(opened)
    ready = fair.client.get("/health/ready")
    assert ready.status_code == 503
    assert ready.json()["store"] == "behind"
    product = {"product": yesterday.first["product"], "epsilon": "1"}
    for refused in (
        fair.client.post("/v1/quotes", json=product, headers=yesterday.ada.headers),
        fair.client.post(
            f"/v1/accounts/{yesterday.ada.account}/deposits",
            json={"amount_minor": 1, "currency": "EUR", "reference": "x"},
            headers=fair.operator.headers,
        ),
    ):
        assert refused.status_code == 503
        assert refused.json()["type"].endswith("store-behind")
        assert refused.json()["missing"] > 1
    assert fair.answer(yesterday.ada, yesterday.early).json() == yesterday.early["answer"], "what was sold is read"
    opened.close()
    assert rows_of(yesterday.settings) == before


def test_replay_brings_back_every_row_and_the_same_digits_and_the_log_verifies(yesterday: Yesterday) -> None:
    done = replay(yesterday.settings)
    assert done.transactions > 3
    assert set(done.redrawn) == {yesterday.second["chain"]}
    assert done.not_redrawn == ()
    assert rows_of(yesterday.settings) == yesterday.today
    opened = reopened(yesterday.settings, yesterday.fair)
    fair = next(opened)
    assert fair.client.get("/health/ready").status_code == 200
    for buyer, sold in yesterday.late:
        assert fair.answer(buyer, sold).json() == sold["answer"]
    assert fair.ledger(yesterday.dataset)["spent"] == "3"
    assert fair.buy(yesterday.new, yesterday.second, "1")["answer"] == yesterday.late[1][1]["answer"]
    lines, public = fair.export()
    report = verify_export(lines, public, earlier=yesterday.head)
    assert report.verdict == "verified", report.findings
    opened.close()


def test_a_service_that_runs_on_a_copy_sells_again_once_it_is_replayed_beside_it(yesterday: Yesterday) -> None:
    opened = reopened(yesterday.settings, yesterday.fair)
    fair = next(opened)
    assert fair.client.get("/health/ready").status_code == 503
    replay(yesterday.settings)
    assert fair.client.get("/health/ready").status_code == 200
    assert fair.buy(yesterday.new, yesterday.first, "2")["answer"] == yesterday.late[0][1]["answer"]
    opened.close()


def test_replaying_twice_changes_nothing(yesterday: Yesterday) -> None:
    replay(yesterday.settings)
    after = rows_of(yesterday.settings)
    assert replay(yesterday.settings).transactions == 0
    assert rows_of(yesterday.settings) == after


def test_an_emptied_store_is_behind_too_and_is_replayed_from_nothing(yesterday: Yesterday) -> None:
    for path in yesterday.settings.state.glob("market.db*"):
        path.unlink()
    market = Market(yesterday.settings)
    with pytest.raises(StoreBehindError):
        market.database.submit(lambda _: None).result()
    market.database.close()
    replay(yesterday.settings)
    assert rows_of(yesterday.settings) == yesterday.today


def test_a_draw_that_comes_out_different_stops_the_replay_and_nothing_is_kept(
    yesterday: Yesterday, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(yesterday.settings)
    secret = Keyring.owner_secret
    monkeypatch.setattr(Keyring, "owner_secret", lambda self, owner, epoch: secret(self, owner + "x", epoch))
    with pytest.raises(IntegrityError, match="digits"):
        replay(yesterday.settings)
    assert rows_of(yesterday.settings) == before


def test_what_was_sold_comes_back_without_secret_or_snapshot_and_the_replay_says_so(yesterday: Yesterday) -> None:
    for file in yesterday.settings.snapshots.iterdir():
        file.unlink()
    done = replay(yesterday.settings)
    assert (done.redrawn, done.not_redrawn) == ((), (yesterday.second["chain"],))
    assert rows_of(yesterday.settings) == yesterday.today


def test_a_replayed_answer_that_does_not_open_stops_the_replay(
    yesterday: Yesterday, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be drawn again, what was committed to is all that a stored answer can be held against."""
    for file in yesterday.settings.snapshots.iterdir():
        file.unlink()
    before = rows_of(yesterday.settings)
    monkeypatch.setattr(release, "commitment", lambda *_: "0" * 64)
    with pytest.raises(IntegrityError, match="committed"):
        replay(yesterday.settings)
    assert rows_of(yesterday.settings) == before


def test_sales_on_the_copy_where_its_redo_file_was_away_are_a_fork_that_is_refused(yesterday: Yesterday) -> None:
    """Somebody sold on yesterday's copy on another machine; then today's redo file is put beside it."""
    settings = yesterday.settings
    kept = settings.redo.rename(settings.state / "today.ndjson")
    opened = reopened(settings, yesterday.fair)
    fair = next(opened)
    for number in range(8):
        fair.buy(yesterday.ada, yesterday.first, "0.1", key=f"fork-{number}")
    opened.close()
    settings.redo.unlink()
    kept.rename(settings.redo)
    opened = reopened(settings, yesterday.fair)
    fair = next(opened)
    assert fair.client.get("/health/ready").json()["store"] == "forked"
    refused = fair.client.post(
        "/v1/quotes", json={"product": yesterday.first["product"], "epsilon": "1"}, headers=yesterday.ada.headers
    )
    assert refused.json()["type"].endswith("log-forked")
    opened.close()
    with pytest.raises(ForkedLogError):
        replay(settings)


@pytest.mark.parametrize("behind", [0, 1, 3])
def test_another_history_of_any_length_is_a_fork_not_a_store_that_is_behind(market: Market, behind: int) -> None:
    for name in "abcd":
        market.database.submit(named(name)).result()
    engine = open_engine(market.settings.database_url)
    change = redo_position.update().values(written=redo_position.c.written - behind, digest="1" * 64)
    write_once(engine, None, lambda connection: connection.execute(change))
    engine.dispose()
    with pytest.raises(ForkedLogError):
        market.database.submit(named("e")).result()
    with pytest.raises(ForkedLogError):
        replay(market.settings)


@pytest.mark.parametrize("place", ["changes", "leaves", "heads", "order", "end", "digest"])
def test_a_redo_file_that_was_altered_is_not_replayed(yesterday: Yesterday, place: str) -> None:
    settings = yesterday.settings
    lines = settings.redo.read_bytes().splitlines(keepends=True)
    known = len(lines) - 1
    with_leaves = max(n for n, line in enumerate(lines) if msgspec.json.decode(line)["leaves"])
    record = msgspec.json.decode(lines[with_leaves])
    if place == "changes":
        record["changes"] = record["changes"][:-8] + "AAAAAAA="
    if place == "leaves":
        record["leaves"][0] = record["leaves"][0].replace('"at"', '"At"')
    if place == "heads":
        record["heads"] = record["heads"][:-1]
    lines[with_leaves] = msgspec.json.encode(record) + b"\n"
    if place == "order":
        lines[known - 1], lines[known - 2] = lines[known - 2], lines[known - 1]
    if place == "end":
        del lines[known - 2]
    if place == "digest":
        lines[known] = msgspec.json.encode(msgspec.json.decode(lines[known]) | {"digest": "f" * 64}) + b"\n"
    settings.redo.write_bytes(b"".join(lines))
    before = rows_of(settings)
    with pytest.raises((ForkedLogError, StoreBehindError, IntegrityError)):
        replay(settings)
    assert rows_of(settings) == before


@pytest.mark.parametrize("place", ["signature", "leaf", "more", "fewer"])
def test_a_record_forged_with_a_fitting_digest_is_not_replayed_without_the_market_s_signature(
    yesterday: Yesterday, place: str
) -> None:
    settings = yesterday.settings
    records = read(settings)
    last = max(n for n, record in enumerate(records) if record.leaves)
    record = records[last]
    signed, leaves = list(record.heads), list(record.leaves)
    if place == "signature":
        signed[-1] = msgspec.structs.replace(signed[-1], signature="0" * 128)
    if place == "leaf":
        leaves[-1] = leaves[-1].replace('"at":"2', '"at":"3')
    if place == "more":
        leaves.append(leaves[-1])
    if place == "fewer":
        del leaves[-1]
    assert record.changes is not None
    forged = RedoRecord.of(records[last - 1].mark, signed, leaves, record.changes)
    assert forged.whole
    lines = [msgspec.json.encode(each) for each in (*records[:last], forged)]
    settings.redo.write_bytes(b"\n".join(lines) + b"\n")
    before = rows_of(settings)
    with pytest.raises(ForkedLogError, match="signed head"):
        replay(settings)
    assert rows_of(settings) == before


def test_changes_are_carried_out_in_their_own_place_only(yesterday: Yesterday) -> None:
    """A forger of records, who cannot seal, may not repeat what was sealed for another one."""
    settings = yesterday.settings
    records = read(settings)
    last, before = records[-1], rows_of(settings)
    other = next(record.changes for record in reversed(records[:-1]) if record.changes is not None)
    forged = RedoRecord.of(records[-2].mark, last.heads, last.leaves, other)
    settings.redo.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in (*records[:-1], forged)))
    with pytest.raises(IntegrityError, match="what was sealed"):
        replay(settings)
    assert rows_of(settings) == before


# --- a crash between the two writes ---------------------------------------------------------------------------------


@pytest.fixture
def market(settings: Settings) -> Iterator[Market]:
    made = Market(settings)
    yield made
    made.database.close()


def named(name: str) -> Callable[[Any], None]:
    def work(connection: Any) -> None:
        row = {"id": name, "role": "buyer", "name": name, "pseudonym": name, "currency": "EUR", "balance_minor": 0}
        connection.execute(accounts.insert().values(**row, created_at="2026"))

    return work


def names(market: Market) -> list[str]:
    wanted = select(accounts.c.id).order_by(accounts.c.id)
    return list(market.database.read_now(lambda connection: connection.execute(wanted).scalars()))


def test_a_process_that_dies_between_its_record_and_its_commit_is_finished_by_the_next_writer(market: Market) -> None:
    engine = open_engine(market.settings.database_url)
    recorder = recorder_of(market.settings, market.keyring)
    with engine.execution_options(writing=True).connect() as connection:
        transaction = connection.begin()
        position = recorder.begin(connection)
        named("a")(connection)
        assert recorder.finish(connection, position) is not None
        transaction.rollback()  # what the store does with a process that dies here
    market.database.submit(named("b")).result()
    assert names(market) == ["a", "b"]
    recorder.close()
    engine.dispose()


def test_a_commit_that_the_store_refuses_is_void_and_never_carried_out(market: Market) -> None:
    def full(_connection: Any) -> None:
        raise OperationalError("COMMIT", {}, Exception("disk full"))

    event.listen(market.database._writing, "commit", full)
    with pytest.raises(StoreUnavailableError):
        market.database.submit(named("a")).result()
    event.remove(market.database._writing, "commit", full)
    market.database.submit(named("b")).result()
    assert names(market) == ["b"]
    assert [record.void for record in read(market.settings)].count(True) == 1
    fresh, engine = recorder_of(market.settings, market.keyring), open_engine(market.settings.database_url)
    write_once(engine, fresh, named("c"))
    assert names(market) == ["b", "c"]
    fresh.close()
    engine.dispose()


def read(settings: Settings) -> list[RedoRecord]:
    return [msgspec.json.decode(line, type=RedoRecord) for line in settings.redo.read_bytes().splitlines()]


def test_a_torn_last_line_is_taken_off_and_the_file_goes_on_from_the_store(market: Market) -> None:
    market.database.submit(named("a")).result()
    whole = market.settings.redo.read_bytes()
    market.settings.redo.write_bytes(whole[:-20])
    market.database.submit(named("b")).result()
    assert names(market) == ["a", "b"]
    assert read(market.settings)[-1].mark.n == read(market.settings)[-2].mark.n + 1
    assert list(RedoFile(market.settings.redo).records())[-1].changes is not None


def test_a_work_that_raises_or_rolls_a_savepoint_back_leaves_nothing_in_the_file(market: Market) -> None:
    def fails(connection: Any) -> None:
        named("a")(connection)
        raise RuntimeError("killed")

    before = market.settings.redo.read_bytes()
    with pytest.raises(RuntimeError):
        market.database.submit(fails).result()
    market.database.submit(lambda _: None).result()
    assert market.settings.redo.read_bytes() == before

    def half(connection: Any) -> None:
        named("b")(connection)
        nested = connection.begin_nested()
        named("c")(connection)
        nested.rollback()
        with connection.begin_nested():
            named("d")(connection)

    market.database.submit(half).result()
    assert names(market) == ["b", "d"]
    market.database.close()
    for path in market.settings.state.glob("market.db*"):
        path.unlink()
    replay(market.settings)
    engine = open_engine(market.settings.database_url)
    with engine.connect() as connection:
        assert connection.execute(select(accounts.c.id)).scalars().all() == ["b", "d"]
    engine.dispose()


def test_a_full_disk_refuses_the_sale_and_leaves_file_and_store_in_step(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    from app.store import redo

    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(redo.os, "write", lambda handle, line: write(handle, line[:7]))
        with pytest.raises(StoreUnavailableError):
            market.database.submit(named("a")).result()
    market.database.submit(named("b")).result()
    assert names(market) == ["b"]


def test_a_result_is_given_only_after_its_record_is_durable(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: RedoFile) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(RedoFile, "sync", fails)
    with pytest.raises(StoreUnavailableError):
        market.database.submit(named("a")).result()


def test_the_file_is_its_owner_s_alone_and_holds_no_name_and_no_answer_in_clear(fair: Fair) -> None:
    product = fair.product(fair.dataset(), TOTAL, tiers=tiers(("2", 90), ("1", 30)))
    sold = fair.buy(fair.person(), product, "1")
    raw = fair.market.settings.redo.read_bytes()
    assert stat.S_IMODE(fair.market.settings.redo.stat().st_mode) == 0o600
    for secret in (b"a buyer", sold["answer"]["values"][0].encode(), fair.operator.key.encode()):
        assert secret not in raw


# --- Redis as a witness ---------------------------------------------------------------------------------------------


@pytest.mark.redis
def test_redis_alone_betrays_a_copy_of_yesterday(tmp_path: Path, redis: EmbeddedRedis) -> None:
    yesterday = Yesterday(Settings.at(tmp_path / "market", redis_url=redis.url))
    settings = yesterday.settings
    kept = settings.redo.rename(settings.state / "kept.ndjson")
    market = Market(settings)
    with pytest.raises(StoreBehindError, match="leaves"):
        market.database.submit(lambda _: None).result()
    market.database.close()
    with pytest.raises(StoreBehindError):
        replay(settings)
    settings.redo.unlink()
    kept.rename(settings.redo)
    replay(settings)
    assert rows_of(settings) == yesterday.today


@pytest.mark.redis
def test_a_lying_or_empty_redis_stops_nothing(tmp_path: Path, redis: EmbeddedRedis) -> None:
    settings = Settings.at(tmp_path / "market", redis_url=redis.url)
    found_market(settings)
    client = redis_client.Redis.from_url(redis.url)
    market = Market(settings)
    market.database.submit(lambda _: None).result()
    opened = open_fair(settings)
    fair = next(opened)
    fair.product(fair.dataset(), HISTOGRAM)
    market.database.close()
    (name,) = client.keys("market:v1:head:*")
    forged = TreeHead(size=999_999, root="0" * 64, at="2026-01-01", key=1, signature="0" * 128)
    unsigned = b"999999 " + msgspec.json.encode(forged)
    unknown = b"999999 " + msgspec.json.encode(msgspec.structs.replace(forged, key=7))
    for place, lie in enumerate((b"999999999 {}", b"", b"junk", b'7 {"size":7}', unsigned, unknown)):
        client.set(name, lie)
        table = f"person,city,amount,score,day\np{place},Cork,1,1,2026-01-01\n"
        fair.product(fair.dataset(name=f"d{place}", table=table))
        client.set(name, lie)
        again = Market(settings)
        again.database.submit(lambda _: None).result()
        assert again.database.standing == "current", lie
        again.database.close()
    opened.close()


def test_a_market_without_its_key_ring_is_not_given_another(settings: Settings) -> None:
    found_market(settings)
    settings.keys.unlink()
    with pytest.raises(StoreUnavailableError):
        found_market(settings)
    assert not settings.keys.exists()
