"""Answers kept in a process: nobody reads one for longer than a second after a right was taken away, whoever took it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, create_engine, delete, text, update

from app.cache.issued import IssuedAnswers, Ready
from app.errors import StoreUnavailableError
from app.market import Market
from app.settings import Limits, Settings
from app.store.database import migrate, open_engine, upgrade
from app.store.rights import Rights, rights_epoch
from app.store.schema import accounts, api_keys, entitlements
from tests.conftest import PEOPLE, Fair, Person, open_fair


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """No limits: taking tokens goes the long way now and then, and what is counted here is who goes which way."""
    return replace(Settings.at(tmp_path / "market"), limits=Limits(0, 0, 0))


def counted_answers(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which reads went past the process's own copies."""
    seen: list[str] = []
    answer = Market.answer

    async def counting(self: Market, caller: Any, chain: str, law: str) -> Any:
        seen.append(law)
        return await answer(self, caller, chain, law)

    monkeypatch.setattr(Market, "answer", counting)
    return seen


def bought(fair: Fair) -> tuple[Person, dict[str, Any]]:
    buyer, dataset = fair.person(), fair.dataset()
    return buyer, fair.buy(buyer, fair.product(dataset), "1") | {"dataset": dataset}


def test_a_second_read_is_served_from_the_process_and_is_the_same_in_every_header(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    buyer, sold = bought(fair)
    monkeypatch.setattr(fair.market.rights, "clock", lambda: 0.0)  # no second passes, however slow the machine is
    seen = counted_answers(fair, monkeypatch)
    answer = sold["answer"]
    path = f"/v1/answers/{answer['chain']}/{answer['law']}"
    for extra in ({}, {"Accept": "text/csv"}, {"If-None-Match": "*"}):
        replies = []
        for method in ("GET", "GET", "HEAD"):
            reply = fair.client.request(method, path, headers=buyer.headers | extra)
            kept = {name: value for name, value in reply.headers.items() if name != "x-request-id"}
            replies.append((reply.status_code, kept))
        assert replies[0] == replies[1] == replies[2], extra
    assert len(seen) == 2, "one read past the copies a format; If-None-Match is answered from either"
    assert fair.client.get(f"{path}?format=yaml", headers=buyer.headers).status_code == 406
    assert fair.client.get(path).status_code == 401
    assert fair.client.get(path, headers=fair.person().headers).status_code == 403
    assert fair.client.post(path, headers=buyer.headers).status_code == 405


def test_a_copy_is_asked_for_only_while_the_epoch_is_known_to_stand(
    fair: Fair, monkeypatch: pytest.MonkeyPatch
) -> None:
    buyer, sold = bought(fair)
    now = [time.monotonic() + 100]
    monkeypatch.setattr(fair.market.rights, "clock", lambda: now[0])
    fair.answer(buyer, sold)
    seen = counted_answers(fair, monkeypatch)
    assert fair.answer(buyer, sold).status_code == 200
    assert seen == []
    now[0] += 2
    assert fair.answer(buyer, sold).status_code == 200
    assert len(seen) == 1, "for a second nobody has asked the store"


TAKEN = {
    "key": lambda buyer: update(api_keys).where(api_keys.c.account_id == buyer.account).values(revoked_at="2026"),
    "account": lambda buyer: update(accounts).where(accounts.c.id == buyer.account).values(suspended_at="2026"),
    "entitlement": lambda buyer: delete(entitlements).where(entitlements.c.account_id == buyer.account),
}
REFUSED = {"key": 401, "account": 403, "entitlement": 403}


@pytest.mark.parametrize("what", TAKEN)
def test_a_right_taken_in_this_process_is_gone_with_the_next_request(fair: Fair, what: str) -> None:
    buyer, sold = bought(fair)
    assert [fair.answer(buyer, sold).status_code for _ in range(3)] == [200] * 3
    fair.market.database.submit(lambda connection: connection.execute(TAKEN[what](buyer))).result()
    fair.market.authenticator.forget()
    assert fair.answer(buyer, sold).status_code == REFUSED[what]


@pytest.mark.parametrize("what", TAKEN)
def test_a_right_taken_past_every_process_is_gone_within_a_second(fair: Fair, what: str) -> None:
    """Straight in the database: triggers see it whoever does it."""
    buyer, sold = bought(fair)
    assert [fair.answer(buyer, sold).status_code for _ in range(3)] == [200] * 3
    beside = create_engine(fair.market.settings.database_url)
    with beside.begin() as connection:
        connection.execute(TAKEN[what](buyer))
    beside.dispose()
    until, last = time.monotonic() + 1.0, 200
    while last == 200:
        asked = time.monotonic()
        last = fair.answer(buyer, sold).status_code
        assert last != 200 or asked < until
    assert last == REFUSED[what]


def test_ordinary_sales_take_no_rights_and_cost_no_copies(fair: Fair, monkeypatch: pytest.MonkeyPatch) -> None:
    buyer, sold = bought(fair)
    monkeypatch.setattr(fair.market.rights, "clock", lambda: 0.0)
    fair.answer(buyer, sold)
    seen = counted_answers(fair, monkeypatch)
    before = fair.market.database.read_now(rights_epoch)
    fair.buy(fair.person(), fair.product(sold["dataset"], PEOPLE), "1")
    fair.answer(buyer, sold)
    assert fair.market.database.read_now(rights_epoch) == before
    assert seen == []


class Beat:
    """A clock that stands, and a store that can be asked or not."""

    def __init__(self) -> None:
        self.now, self.epoch, self.away, self.asked = 100.0, 3, False, 0

    async def read(self, _work: Callable[[Connection], int]) -> int:
        self.asked += 1
        if self.away:
            raise StoreUnavailableError("store: expected an answer, got none")
        return self.epoch


async def test_what_is_not_confirmed_within_a_second_does_not_stand() -> None:
    beat = Beat()
    rights = Rights(lambda: beat.now)
    assert rights.standing(beat.read) is None
    await asyncio.sleep(0)
    assert rights.standing(beat.read) == 3
    beat.now += 0.2
    assert rights.standing(beat.read) == 3
    await asyncio.sleep(0)
    assert beat.asked == 1, "asked four times a second at most"
    beat.away = True
    beat.now += 0.79
    assert rights.standing(beat.read) == 3
    await asyncio.sleep(0)
    beat.now += 0.02
    assert rights.standing(beat.read) is None, "a store that cannot be asked closes the copies"
    beat.away = False
    beat.now += 0.3
    rights.standing(beat.read)
    await asyncio.sleep(0)
    assert rights.standing(beat.read) == 3
    rights.confirm(4, beat.now)
    rights.confirm(3, beat.now + 0.5)
    assert rights.standing(beat.read) == 4, "an older epoch says nothing"
    beat.now += 1.01
    assert rights.standing(beat.read) is None
    await rights.close()


async def test_a_second_is_counted_from_where_the_read_began() -> None:
    """A right that was taken while the store was slow to answer is honoured as soon as any other."""
    beat = Beat()
    rights = Rights(lambda: beat.now)

    async def slow(work: Callable[[Connection], int]) -> int:
        beat.now += 0.4
        return await beat.read(work)

    rights.standing(slow)
    await asyncio.sleep(0)
    beat.away = True
    beat.now += 0.59
    assert rights.standing(beat.read) == 3
    beat.now += 0.02
    assert rights.standing(beat.read) is None
    await rights.close()


@pytest.mark.parametrize("what", TAKEN)
def test_a_right_taken_while_its_answer_is_read_is_not_kept_with_it(
    fair: Fair, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    buyer, sold = bought(fair)
    read = Market.answer

    async def then_taken(self: Market, *asked: Any) -> Any:
        found = await read(self, *asked)
        await self.database.write(lambda connection: connection.execute(TAKEN[what](buyer)))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Market, "answer", then_taken)
        assert fair.answer(buyer, sold).status_code == REFUSED[what]
    fair.market.authenticator.forget()
    assert fair.answer(buyer, sold).status_code == REFUSED[what]


@pytest.mark.parametrize("what", TAKEN)
def test_a_copy_is_of_the_epoch_at_which_its_rights_were_read(
    fair: Fair, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The right is taken after it was read and before the copy is made: the copy is of before, and found by nobody."""
    buyer, sold = bought(fair)
    rights_to = Market.rights_to

    async def overtaken(self: Market, *asked: Any) -> Any:
        read = self.database.read

        async def then_taken(work: Any) -> Any:
            found = await read(work)
            if self.database.read is then_taken:
                patched.setattr(self.database, "read", read)
                await self.database.write(lambda connection: connection.execute(TAKEN[what](buyer)))
            return found

        with monkeypatch.context() as patched:
            patched.setattr(self.database, "read", then_taken)
            return await rights_to(self, *asked)

    with monkeypatch.context() as patched:
        patched.setattr(Market, "rights_to", overtaken)
        assert fair.answer(buyer, sold).status_code == 200
    fair.market.authenticator.forget()
    assert fair.answer(buyer, sold).status_code == REFUSED[what]


def test_copies_are_bounded_in_bytes_and_hold_for_one_epoch_and_one_key() -> None:
    issued = IssuedAnswers(limit_bytes=10_000)
    names = [issued.name(b"Bearer k", f"/v1/answers/c/{n}", b"", None) for n in range(9)]
    assert b"Bearer k" not in repr(names).encode(), "the key itself is not kept"
    for name in names:
        issued.keep(name, Ready("r", 1, "acc", "p", '"e"', (), (), bytes(500)))
    held = [name for name in names if issued.find(name, 1)]
    assert held == names[-len(held) :]
    assert 3 <= len(held) <= 6
    assert issued.find(names[-1], 2) is None
    assert issued.find(issued.name(b"Bearer l", "/v1/answers/c/8", b"", None), 1) is None
    assert IssuedAnswers().name(b"Bearer k", "/", b"", None) != IssuedAnswers().name(b"Bearer k", "/", b"", None)


# --- the previous release --------------------------------------------------------------------------------------------


def test_a_store_of_the_previous_release_comes_up_with_all_that_was_sold(settings: Settings) -> None:
    opened = open_fair(settings)
    fair = next(opened)
    buyer, sold = bought(fair)
    before = fair.stored()
    opened.close()
    engine = open_engine(settings.database_url)
    with engine.execution_options(writing=True).begin() as connection:  # what 0004 and later made, unmade: 0003
        names = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars().all()
        assert len(names) == 6
        for name in names:
            connection.execute(text(f"DROP TRIGGER {name}"))
        for column in ("attempts", "request_json"):
            connection.execute(text(f"ALTER TABLE jobs DROP COLUMN {column}"))
        of_panels = text(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'panel%' ORDER BY rowid DESC"
        )
        connection.execute(text("DROP INDEX ix_jobs_account_id_created_at"))
        for table in ("rounds", "quotes", "queries", "orders", "panels"):
            connection.execute(text(f"DROP TABLE location_{table}"))
        for table in connection.execute(of_panels).scalars().all():
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("DROP INDEX ix_orders_sale_id"))
        new = {"quotes": ("discount_minor", "bundle_id", "bundle_version"), "orders": ("discount_minor", "sale_id")}
        for table, columns in new.items():
            for column in columns:
                connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {column}"))
        of_bundles = (
            "export_frames",
            "threshold_quotes",
            "threshold_orders",
            "loans",
            "bundle_sales",
            "bundle_prices",
            "bundle_parts",
            "bundles",
        )
        for table in (*of_bundles, "exports", "audit_reports", "frozen_chains", "redo_records", "rights_epoch"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("DROP INDEX ix_quotes_account_id_expires_at"))
        back = Operations(MigrationContext.configure(connection))
        for table in ("invoices", "credit_notes"):
            with back.batch_alter_table(table) as changed:
                changed.create_foreign_key(f"fk_{table}_order_id", "orders", ["order_id"], ["id"])
        connection.execute(text("UPDATE alembic_version SET version_num = '0003'"))
    engine.dispose()
    again = open_fair(settings)
    new = next(again)
    after = new.stored()
    assert {name for name in before if before[name] != after[name]} == {"accounts", "api_keys"}, "a new operator's"
    assert new.answer(buyer, sold).json() == sold["answer"]
    assert [new.answer(buyer, sold).status_code for _ in range(2)] == [200, 200]
    new.market.database.submit(lambda connection: connection.execute(TAKEN["key"](buyer))).result()
    assert new.answer(buyer, sold).status_code == 401
    again.close()


def test_an_empty_store_of_each_release_comes_up_to_the_newest(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    upgrade(engine, "0001")
    migrate(engine)
    with engine.connect() as connection:
        assert rights_epoch(connection) == 0
    engine.dispose()
