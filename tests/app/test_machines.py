"""Several machines on one PostgreSQL: nothing in common but the store, the key file and copies of the snapshots."""

import secrets
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from app.audit.verify import verify_export
from app.backup import back_up, restore
from app.errors import ForkedLogError, StoreBehindError
from app.founding import found_market, recorder_of
from app.settings import Settings
from app.store.database import open_engine, write_once
from app.store.outbox import Outbox
from app.store.redo import RedoFile
from app.store.schema import draws, orders, redo_position, redo_records
from tests.app.test_postgres_store import all_rows
from tests.app.test_rollback import reopened
from tests.conftest import TOTAL, Fair, open_fair
from tests.postgres import postgres

pytestmark = pytest.mark.long
__all__ = ["postgres"]


class Machines:
    """Two machines of one market: each has its own folder and redo file."""

    def __init__(self, folder: Path, url: str) -> None:
        self.settings = [replace(Settings.at(folder / name), database_url=url) for name in ("a", "b")]
        first = open_fair(self.settings[0])
        one = next(first)
        self.settings[1].prepare()
        shutil.copy(self.settings[0].keys, self.settings[1].keys)
        second = reopened(self.settings[1], one)
        self.fairs: list[Fair] = [one, next(second)]
        self._opened = [first, second]
        self.queries: list[str] = []
        for fair in self.fairs:
            compute = fair.market.engine.compute

            def counted(chain: Any, tier: Any, compute: Any = compute) -> Any:
                self.queries.append(chain.id)
                return compute(chain, tier)

            fair.market.engine.compute = counted  # type: ignore[method-assign]

    def product(self, dataset: str, *arguments: Any) -> dict[str, Any]:
        made = self.fairs[0].product(dataset, *arguments)
        for path in self.settings[0].snapshots.iterdir():
            if not (self.settings[1].snapshots / path.name).exists():
                shutil.copy(path, self.settings[1].snapshots)
        return made

    def marks(self) -> list[int]:
        found = []
        for settings in self.settings:
            file = RedoFile(settings.redo)
            file.refresh()
            found.append(file.last.n)
            file.close()
        return found

    def close(self) -> None:
        for opened in self._opened:
            opened.close()


@pytest.fixture
def url(postgres: Callable[[str], str]) -> str:
    return postgres(f"machines_{secrets.token_hex(6)}")


@pytest.fixture
def machines(tmp_path: Path, url: str) -> Iterator[Machines]:
    made = Machines(tmp_path, url)
    yield made
    made.close()


def test_machines_that_sell_in_turn_write_one_log_and_each_file_holds_all_of_it(machines: Machines) -> None:
    one, two = machines.fairs
    dataset = one.dataset()
    product, other = machines.product(dataset), machines.product(dataset, TOTAL)
    buyers = [one.person() for _ in range(4)]
    sold = [fair.buy(buyer, product, "1") for fair, buyer in zip((one, two, one, two), buyers, strict=True)]
    assert len({str(each["answer"]) for each in sold}) == 1
    late = two.buy(buyers[0], other, "2")
    assert one.answer(buyers[0], late).json() == late["answer"]
    assert machines.queries == [product["chain"], other["chain"]]
    assert verify_export(*one.export()).findings == ()
    records = []
    for settings in machines.settings:
        file = RedoFile(settings.redo)
        records.append(list(file.records()))
        file.close()
    shorter = min(map(len, records))
    assert shorter > 10
    assert records[0][-shorter + 2 :] != records[0][:1]
    by_number = [{record.n: record for record in each if record.changes is not None} for each in records]
    shared = by_number[0].keys() & by_number[1].keys()
    assert len(shared) > 10
    assert all(by_number[0][n] == by_number[1][n] for n in shared), "the files are one history"


def test_sixteen_buyers_on_two_machines_get_one_draw_and_cost_one_charge(machines: Machines) -> None:
    one = machines.fairs[0]
    product = machines.product(one.dataset())
    buyers = [one.person() for _ in range(16)]
    quotes = [one.quote(buyer, product, "1") for buyer in buyers]

    def order(place: int) -> Any:
        return machines.fairs[place % 2].order(buyers[place], quotes[place])

    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(order, range(16)))
    assert {reply.status_code for reply in replies} == {201}
    assert len({str(reply.json()["answer"]) for reply in replies}) == 1
    assert machines.queries == [product["chain"]]

    def read(connection: Any) -> tuple[int, int]:
        charged = select(func.count()).where(orders.c.charge_nano > 0)
        return (
            connection.execute(select(func.count()).select_from(draws)).scalar_one(),
            connection.execute(charged).scalar_one(),
        )

    assert one.market.database.read_now(read) == (4, 1)
    assert verify_export(*one.export()).findings == ()


def test_a_machine_that_fails_before_its_file_has_the_record_told_nobody_and_loses_nothing(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines.fairs
    product = machines.product(one.dataset())
    buyer = one.person()
    quote = one.quote(buyer, product, "1")

    def full(*_: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Outbox, "copy_to", full)
        assert one.order(buyer, quote).status_code == 503
    again = two.order(buyer, quote)
    assert again.json()["replayed"] is True, "it was committed, and there is one order"
    one.person()
    two.person()
    assert machines.marks()[0] == machines.marks()[1] - 2, "each file has all up to its own last write"


def test_a_store_put_back_is_refused_by_every_machine_and_replayed_from_the_longest_file(
    machines: Machines, postgres: Callable[[str], str], tmp_path: Path
) -> None:
    one, two = machines.fairs
    dataset = one.dataset()
    product = machines.product(dataset)
    buyer = one.person()
    back_up(machines.settings[0], tmp_path / "backup.tar")
    one.buy(buyer, product, "0.5")
    late = two.buy(buyer, product, "1")
    today, people = all_rows(machines.settings[0]), one.people
    machines.close()
    url = postgres(f"back_{secrets.token_hex(6)}")
    behind = [replace(settings, database_url=url) for settings in machines.settings]
    longest = behind[machines.marks().index(max(machines.marks()))]
    fresh = replace(longest, state=tmp_path / "c", keys=longest.keys, redo_file=longest.redo)
    restore(fresh, tmp_path / "backup.tar")
    assert all_rows(fresh) == today
    again = reopened(replace(fresh), Fair(one.client, one.market, one.operator, people))
    assert next(again).answer(buyer, late).json() == late["answer"]
    again.close()


@pytest.mark.parametrize("pruned", [False, True])
def test_a_store_that_goes_another_way_or_back_is_refused_by_the_machine_that_knows_better(
    machines: Machines, *, pruned: bool
) -> None:
    one, two = machines.fairs
    one.person()
    two.person()
    engine = open_engine(machines.settings[0].database_url)
    keyring = found_market(machines.settings[0])
    recorders = [recorder_of(settings, keyring) for settings in machines.settings]
    with engine.connect() as connection:
        at = connection.execute(select(redo_position)).one()
    with engine.begin() as connection:
        connection.execute(update(redo_position).values(written=at.written - 1))
    with pytest.raises(StoreBehindError):
        write_once(engine, recorders[1], lambda _: None)
    with engine.begin() as connection:
        connection.execute(update(redo_position).values(written=at.written + 1))
        changed = redo_records.c.n == at.written
        if pruned:
            connection.execute(redo_records.delete().where(redo_records.c.n <= at.written))
        else:
            connection.execute(update(redo_records).where(changed).values(digest="f" * 64))
    if pruned:  # only the signed head is left to compare with, and it still fits
        write_once(engine, recorders[1], lambda _: None)
    else:
        with pytest.raises(ForkedLogError):
            write_once(engine, recorders[1], lambda _: None)
    for recorder in recorders:
        recorder.close()
    engine.dispose()
