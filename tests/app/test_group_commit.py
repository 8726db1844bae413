"""Writes that wait for one turn commit together, and yet each ends as if it had been alone."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, select

from app.errors import ConflictError, InvalidRequestError, StoreUnavailableError
from app.store.database import Database, migrate, open_engine
from app.store.schema import accounts

Work = Callable[[Connection], str]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    migrate(engine)
    database = Database(engine)
    yield database
    database.close()


def add(name: str, then: Callable[[Connection], None] = lambda _: None) -> Work:
    """An account of this name, and then whatever else happens in the same work."""

    def work(connection: Connection) -> str:
        values = {"id": name, "role": "buyer", "name": name, "pseudonym": name, "currency": "EUR"}
        connection.execute(accounts.insert().values(**values, balance_minor=0, created_at="2026"))
        then(connection)
        return name

    return work


def together(database: Database, works: list[Work]) -> tuple[list[Future[str]], int]:
    """Let works wait behind one that holds the turn; return how each ended, and how many commits that took."""
    inside, leave, commits = threading.Event(), threading.Event(), list[int]()

    def first(_: Connection) -> None:
        inside.set()
        assert leave.wait(300)

    def committed(_: Any) -> None:
        commits.append(1)

    held = database.submit(first)
    assert inside.wait(300)
    done = [database.submit(work) for work in works]
    event.listen(database._writing, "commit", committed)
    leave.set()
    held.result(300)
    for future in done:
        future.exception(300)
    event.remove(database._writing, "commit", committed)
    return done, len(commits) - 1  # less the one that held the turn


def kept(database: Database) -> set[str]:
    return database.read_now(lambda connection: set(connection.execute(select(accounts.c.id)).scalars()))


def ends(done: list[Future[str]]) -> list[str]:
    return [future.result() if future.exception() is None else type(future.exception()).__name__ for future in done]


def no_table(connection: Connection) -> None:
    connection.exec_driver_sql("SELECT * FROM nowhere")


def refuse(_: Connection) -> None:
    raise ConflictError("refused")


def unreadable(_: Connection) -> None:
    raise InvalidRequestError("unreadable")


def test_each_work_of_a_group_ends_as_it_does_alone(database: Database) -> None:
    faults = [no_table, refuse, unreadable]
    alone = ends([database.submit(add(f"alone-{place}", fault)) for place, fault in enumerate(faults)])
    assert alone == [kind.__name__ for kind in (StoreUnavailableError, ConflictError, InvalidRequestError)]
    for place, fault in enumerate(faults):
        done, _ = together(database, [add(f"a{place}"), add(f"bad{place}", fault), add(f"b{place}")])
        assert ends(done) == [f"a{place}", alone[place], f"b{place}"]
    assert kept(database) == {f"{name}{place}" for name in "ab" for place in range(len(faults))}


def test_a_group_is_one_commit_of_at_most_thirty_two_works(database: Database) -> None:
    for size, commits in ((2, 1), (32, 1), (33, 2), (70, 3)):
        names = [f"{size}-{place}" for place in range(size)]
        done, counted = together(database, [add(name) for name in names])
        assert ends(done) == names, "each is told its own result"
        assert counted == commits, size
    assert len(kept(database)) == 2 + 32 + 33 + 70


def test_a_work_whose_caller_is_gone_is_left_out_and_ends_no_other(database: Database) -> None:
    def gone(_: Connection) -> str:
        raise AssertionError("nobody waits for it")

    inside, leave = threading.Event(), threading.Event()

    def first(_: Connection) -> None:
        inside.set()
        assert leave.wait(300)

    held = database.submit(first)
    assert inside.wait(300)
    done = [database.submit(add("a")), database.submit(gone), database.submit(add("b"))]
    assert done[1].cancel()
    leave.set()
    held.result(300)
    assert (done[0].result(300), done[2].result(300)) == ("a", "b")
    assert kept(database) == {"a", "b"}
