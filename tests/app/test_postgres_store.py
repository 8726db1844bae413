"""PostgreSQL as the system of record: the tests of one answer, races, crashes and rotation, word for word, and its own."""

import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import Column, Connection, Table, event, func, select, text
from sqlalchemy.exc import IntegrityError

from app.backup import back_up, restore
from app.engine.release import ReleaseEngine
from app.errors import ConflictError, InvalidRequestError, StoreBehindError, StoreUnavailableError
from app.founding import recorder_of
from app.market import Market
from app.settings import Settings
from app.store import transactions
from app.store.copying import dump_rows
from app.store.database import migrate, open_engine, write_once
from app.store.schema import accounts, leaves, metadata
from tests.app import test_promises, test_rotation
from tests.app.test_simulator import QUIET, MarketMachine, check, killed_at
from tests.conftest import TOTAL, Fair, open_fair
from tests.postgres import postgres

pytestmark = pytest.mark.long
__all__ = ["postgres"]

# Its SQLite form looks for the database's file; the PostgreSQL form is below.
ELSEWHERE = {"test_no_unissued_answer_and_no_truth_stands_in_clear_in_redis_store_or_log"}
for module in (test_promises, test_rotation):
    for name, value in list(vars(module).items()):
        if (name.startswith("test_") and name not in ELSEWHERE) or name in ("drawn", "two_workers", "everything"):
            globals()[name] = value


@pytest.fixture
def url(postgres: Callable[[str], str]) -> str:
    return postgres(f"market_{secrets.token_hex(6)}")


@pytest.fixture
def settings(tmp_path: Path, url: str) -> Settings:
    return replace(Settings.at(tmp_path / "market"), database_url=url)


def test_migrations_from_empty_make_exactly_the_declared_schema(url: str) -> None:
    engine = open_engine(url)
    migrate(engine)
    migrate(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_processes_that_found_one_market_at_once_found_it_once(settings: Settings) -> None:
    from app.founding import found_market

    found_market(settings)
    with ThreadPoolExecutor(4) as pool:
        rings = list(pool.map(lambda _: found_market(settings).public_hex(), range(4)))
    assert len(set(rings)) == 1
    engine = open_engine(settings.database_url)
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(leaves)).scalar_one() == 2
    engine.dispose()


def test_a_sale_killed_before_any_of_its_writes_leaves_nothing_and_sells_the_same_digits_after(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record waits in the store's own transaction, so a kill at the commit, too, leaves nothing to carry out."""
    dataset = fair.dataset(budget="50")
    buyer = fair.person()
    fair.buy(buyer, fair.product(dataset, TOTAL), "1")
    product = fair.product(dataset)
    quote = fair.quote(buyer, product, "1")
    before, offered = fair.stored(), set[tuple[str, ...]]()
    install = ReleaseEngine.install

    def watched(self: ReleaseEngine, connection: Connection, chain: Any, computed: Any, at: str) -> Any:
        offered.add(tuple(draw.commitment for draw in computed))
        return install(self, connection, chain, computed, at)

    monkeypatch.setattr(ReleaseEngine, "install", watched)
    place = 0
    while True:
        with killed_at(fair, place) as ran:
            answered = fair.order(buyer, quote, "k")
        if answered.status_code == 201:
            break
        assert answered.status_code in (500, 503), place
        assert fair.stored() == before, place
        place += 1
    assert len(ran) == place > 40
    assert ran[-1] == "COMMIT", "the last kill was at the commit"
    sold = answered.json()
    assert (sold["replayed"], sold["receipt"]["charge_nano"]) == (False, 10**9)
    assert len(offered) == 1, "every attempt drew the same digits"
    assert fair.order(buyer, quote, "k").json() == sold | {"replayed": True}
    assert fair.answer(buyer, sold).json() == sold["answer"]
    check(fair, dataset)


def test_random_lives_of_markets_on_postgres_agree_with_their_model(postgres: Callable[[str], str]) -> None:
    class PostgresMachine(MarketMachine):
        database = staticmethod(lambda: postgres(f"life_{secrets.token_hex(6)}"))

    profile = hypothesis.settings(
        max_examples=5, stateful_step_count=15, deadline=None, derandomize=True, suppress_health_check=QUIET
    )
    run_state_machine_as_test(PostgresMachine, settings=profile)


def row(name: str, balance: int = 0) -> dict[str, Any]:
    return {
        "id": name,
        "role": "buyer",
        "name": name,
        "pseudonym": name,
        "currency": "EUR",
        "balance_minor": balance,
        "created_at": "2026",
    }


@pytest.fixture
def markets(settings: Settings) -> Iterator[list[Market]]:
    """Two workers of one market."""
    made = [Market(settings), Market(settings)]
    yield made
    for market in made:
        market.database.close()


def test_writers_of_two_processes_take_turns_and_no_update_is_lost(markets: list[Market]) -> None:
    """Case 41: each reads, waits and writes; readers meanwhile are not held up."""
    markets[0].database.submit(lambda c: c.execute(accounts.insert().values(row("a")))).result()

    def increase(connection: Connection) -> None:
        held = connection.execute(select(accounts.c.balance_minor)).scalar_one()
        connection.execute(accounts.update().values(balance_minor=held + 1))

    done = [markets[place % 2].database.submit(increase) for place in range(60)]
    seen = [markets[0].database.read_now(lambda c: c.execute(select(accounts.c.balance_minor)).scalar_one())]
    for future in done:
        future.result()
    assert 0 <= seen[0] <= 60
    assert markets[1].database.read_now(lambda c: c.execute(select(accounts.c.balance_minor)).scalar_one()) == 60


def test_a_reader_is_not_held_up_by_a_writer_and_sees_one_moment(markets: list[Market]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        connection.execute(accounts.insert().values(row("slow")))
        inside.set()
        leave.wait(120)

    done = markets[0].database.submit(slow)
    assert inside.wait(120)

    def twice(connection: Connection) -> tuple[int, int]:
        before = connection.execute(select(func.count()).select_from(accounts)).scalar_one()
        leave.set()
        done.result(120)
        return before, connection.execute(select(func.count()).select_from(accounts)).scalar_one()

    assert markets[1].database.read_now(twice) == (0, 0)
    assert markets[1].database.read_now(lambda c: c.execute(select(func.count()).select_from(accounts)).scalar_one())


def test_writers_are_serializable_readers_see_one_moment_and_migrations_the_newest(settings: Settings) -> None:
    engine = open_engine(settings.database_url)

    def level(connection: Connection) -> str:
        return str(connection.exec_driver_sql("SHOW transaction_isolation").scalar_one())

    migrate(engine)
    levels = []
    event.listen(engine, "begin", lambda connection: levels.append(level(connection)))
    assert write_once(engine, None, level) == "serializable"
    with engine.connect() as connection:
        assert level(connection) == "repeatable read"
    levels.clear()
    migrate(engine)
    assert levels[0] == "read committed"
    engine.dispose()


def test_a_writer_beside_the_lock_meets_serialization_and_the_work_runs_again_from_the_start(
    markets: list[Market], settings: Settings
) -> None:
    database = markets[0].database
    database.submit(lambda c: c.execute(accounts.insert().values(row("a", 10)))).result()
    beside = open_engine(settings.database_url).execution_options(isolation_level="SERIALIZABLE")
    runs: list[int] = []

    def work(connection: Connection) -> None:
        held = connection.execute(select(accounts.c.balance_minor)).scalar_one()
        runs.append(held)
        if len(runs) == 1:
            with beside.begin() as other:
                other.execute(accounts.update().values(balance_minor=accounts.c.balance_minor + 5))
        connection.execute(accounts.update().values(balance_minor=held + 1))

    database.submit(work).result()
    assert runs == [10, 15]
    assert database.read_now(lambda c: c.execute(select(accounts.c.balance_minor)).scalar_one()) == 16
    beside.dispose()


def test_the_work_runs_a_bounded_number_of_times_and_then_the_store_is_unavailable(
    markets: list[Market], settings: Settings
) -> None:
    database = markets[0].database
    database.submit(lambda c: c.execute(accounts.insert().values(row("a", 10)))).result()
    beside = open_engine(settings.database_url).execution_options(isolation_level="SERIALIZABLE")
    runs: list[int] = []

    def always(connection: Connection) -> None:
        runs.append(connection.execute(select(accounts.c.balance_minor)).scalar_one())
        with beside.begin() as other:
            other.execute(accounts.update().values(balance_minor=accounts.c.balance_minor + 5))
        connection.execute(accounts.update().values(balance_minor=0))

    with pytest.raises(StoreUnavailableError):
        database.submit(always).result()
    assert len(runs) == transactions._ATTEMPTS
    database.submit(lambda _: None).result()
    beside.dispose()


def test_a_unique_key_that_stays_taken_is_still_an_integrity_error(markets: list[Market]) -> None:
    database = markets[0].database
    database.submit(lambda c: c.execute(accounts.insert().values(row("a")))).result()
    with pytest.raises(IntegrityError):
        database.submit(lambda c: c.execute(accounts.insert().values(row("a")))).result()


def test_text_that_postgres_cannot_hold_is_a_bad_request_not_an_outage(markets: list[Market]) -> None:
    for bad in (row("a") | {"name": "x\x00y"}, row("b" * 90)):
        with pytest.raises(InvalidRequestError):
            markets[0].database.submit(lambda c, bad=bad: c.execute(accounts.insert().values(bad))).result()


def test_a_connection_that_the_server_cut_is_replaced(markets: list[Market], settings: Settings) -> None:
    database = markets[0].database
    database.submit(lambda c: c.execute(accounts.insert().values(row("a")))).result()
    beside = open_engine(settings.database_url)
    with beside.connect() as connection:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(text(cut))
    database.submit(lambda c: c.execute(accounts.insert().values(row("b")))).result()
    assert database.read_now(lambda c: c.execute(select(func.count()).select_from(accounts)).scalar_one()) == 2
    beside.dispose()


def test_a_database_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        open_engine("mysql+pymysql://localhost/x")


def test_no_unissued_answer_stands_in_clear_in_the_rows(fair: Fair) -> None:
    product = fair.product(fair.dataset(), TOTAL)
    sold = fair.buy(fair.person(), product, "0.5")
    hidden = {value for answer in test_promises.unissued(fair, product["chain"]).values() for value in answer}
    hidden |= set(test_promises.truth_of(fair, product["chain"]))
    hidden -= {int(value) for value in sold["answer"]["values"]}
    heap = BytesIO()
    engine = open_engine(fair.market.settings.database_url)
    dump_rows(engine, heap)
    engine.dispose()
    raw = heap.getvalue() + fair.market.settings.redo.read_bytes()
    assert b"draws" in raw
    assert hidden
    for value in hidden:
        for form in test_promises.forms(value):
            assert form not in raw


def given(table: Table) -> list[Column[Any]]:
    return [
        column for column in table.columns if column is not table.autoincrement_column or table.name == "redo_position"
    ]


def all_rows(settings: Settings) -> dict[str, list[str]]:
    """Every row but quotes, without the numbers that PostgreSQL itself gives: they have gaps where work was undone."""
    engine = open_engine(settings.database_url)
    with engine.connect() as connection:
        tables = [table for table in metadata.sorted_tables if table.name != "quotes"]
        found = {
            table.name: sorted(repr(connected) for connected in connection.execute(select(*given(table))))
            for table in tables
        }
    engine.dispose()
    return found


def test_a_backup_is_restored_into_an_empty_database_and_replayed(
    settings: Settings, postgres: Callable[[str], str], tmp_path: Path
) -> None:
    opened = open_fair(settings)
    fair = next(opened)
    dataset = fair.dataset()
    product, other = fair.product(dataset), fair.product(dataset, TOTAL)
    buyer = fair.person()
    fair.buy(buyer, product, "0.5")
    manifest = back_up(settings, tmp_path / "backup.tar")
    late = fair.buy(buyer, other, "1")
    opened.close()
    today = all_rows(settings)
    with pytest.raises(ConflictError):
        restore(settings, tmp_path / "backup.tar")
    elsewhere = replace(settings, database_url=postgres(f"again_{secrets.token_hex(6)}"))
    _, done = restore(elsewhere, tmp_path / "backup.tar")
    assert manifest.head is not None
    assert done.redrawn == (other["chain"],)
    assert all_rows(elsewhere) == today
    again = open_fair(elsewhere)
    market = next(again)
    assert market.answer(buyer, late).json() == late["answer"]
    assert market.buy(market.person(), product, "0.1")
    again.close()


def test_a_copy_that_is_behind_its_redo_file_is_refused_here_too(
    settings: Settings, postgres: Callable[[str], str]
) -> None:
    opened = open_fair(settings)
    next(opened).person()
    opened.close()
    empty = replace(settings, database_url=postgres(f"empty_{secrets.token_hex(6)}"))
    engine = open_engine(empty.database_url)
    migrate(engine)
    market = Market(settings)
    recorder = recorder_of(empty, market.keyring)
    with pytest.raises(StoreBehindError):
        write_once(engine, recorder, lambda _: None)
    recorder.close()
    engine.dispose()
    market.database.close()
