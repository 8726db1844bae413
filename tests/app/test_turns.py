"""Writes that wait for the same turn commit together, and a turn is held by one."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from app.errors import ConflictError
from app.store.database import Database, migrate, open_engine
from app.store.exclusive import Turns
from app.store.schema import accounts


def test_writes_that_wait_commit_together_and_one_that_fails_leaves_the_others(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    migrate(engine)
    database = Database(engine)
    commits: list[int] = []
    from sqlalchemy import event

    event.listen(database._writing, "commit", lambda _: commits.append(1))
    inside, leave = threading.Event(), threading.Event()

    def first(_connection: Connection) -> None:
        inside.set()
        leave.wait(60)

    def add(name: str) -> Callable[[Connection], str]:
        def work(connection: Connection) -> str:
            values = {"id": name, "role": "buyer", "name": name, "pseudonym": name, "currency": "EUR"}
            connection.execute(accounts.insert().values(**values, balance_minor=0, created_at="2026"))
            if name.startswith("bad"):
                raise ConflictError(name)
            return name

        return work

    held = database.submit(first)
    assert inside.wait(60)
    done = {name: database.submit(add(name)) for name in ("a", "bad", "b", "c")}
    leave.set()
    held.result()
    assert [done[name].result() for name in ("a", "b", "c")] == ["a", "b", "c"]
    with pytest.raises(ConflictError, match="bad"):
        done["bad"].result()
    assert len(commits) == 2, "the one that held the turn, and all that waited for it"
    inside.clear()
    leave.clear()
    held = database.submit(first)
    assert inside.wait(60)
    again = [database.submit(add(name)) for name in ("d", "a", "e")]
    leave.set()
    assert (again[0].result(), again[2].result()) == ("d", "e")
    with pytest.raises(Exception, match="UNIQUE"):
        again[1].result()
    kept = database.read_now(lambda connection: set(connection.execute(select(accounts.c.id)).scalars()))
    assert kept == {"a", "b", "c", "d", "e"}
    database.close()


def test_a_turn_is_held_by_one_and_lost_with_its_holder(tmp_path: Path) -> None:
    turns = [Turns(open_engine(f"sqlite:///{tmp_path / 'a.db'}")) for _ in range(2)]
    with turns[0].held("draw", "x") as mine, turns[1].held("draw", "x", wait=False) as theirs:
        assert (mine, theirs) == (True, False)
        with turns[1].held("job", "x", wait=False) as other:
            assert other, "kinds do not share"
        for number in range(2_000):  # names of a kind do share, so one of these would meet it
            with turns[1].held("job", f"y{number}", wait=False) as other:
                assert other, "kinds do not share, whatever is named"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys,time\nfrom app.store.exclusive import Turns\nfrom app.store.database import open_engine\n"
            f"with Turns(open_engine('sqlite:///{tmp_path / 'a.db'}')).held('draw', 'x'):\n"
            "    print('held', flush=True); time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with turns[0].held("draw", "x", wait=False) as mine:
        assert not mine
    holder.kill()
    holder.wait()
    with turns[0].held("draw", "x") as mine:
        assert mine
    holder.stdout.close()
