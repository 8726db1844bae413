"""The outbox by itself, on any store: what it keeps, what it compares, and what it does for a file that was away."""

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from app.errors import ForkedLogError, StoreBehindError
from app.keyring import Keyring
from app.log.heads import TreeHead
from app.store import outbox as module
from app.store import redo
from app.store.database import migrate, open_engine
from app.store.outbox import Outbox
from app.store.recording import Position, Recorder
from app.store.redo import Mark, RedoFile, RedoRecord
from app.store.schema import redo_records


@dataclass
class Shelf:
    """A store with an outbox, and one machine's file."""

    engine: Engine
    outbox: Outbox
    file: RedoFile
    made: list[RedoRecord]

    def put(self, count: int) -> None:
        with self.engine.execution_options(writing=True).begin() as connection:
            for _ in range(count):
                mark = self.made[-1].mark if self.made else Mark()
                self.made.append(RedoRecord.of(mark, [], [], str(len(self.made)).encode()))
                self.outbox.put(connection, self.made[-1])

    def compare(self, mark: Mark) -> bool:
        with self.engine.begin() as connection:
            return self.outbox.compare(connection, self.file, mark)

    def kept(self) -> tuple[int, int]:
        wanted = select(func.count(), func.min(redo_records.c.n)).select_from(redo_records)
        with self.engine.begin() as connection:
            return tuple(connection.execute(wanted).one())


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    engine = open_engine(url)
    migrate(engine)
    made = Shelf(engine, Outbox(url), RedoFile(tmp_path / "redo"), [])
    yield made
    made.outbox.close()
    made.file.close()
    engine.dispose()


def other_history(count: int) -> list[RedoRecord]:
    made: list[RedoRecord] = []
    for place in range(count):
        made.append(RedoRecord.of(made[-1].mark if made else Mark(), [], [], b"other" + bytes([place])))
    return made


def test_the_newest_thousand_records_are_kept(shelf: Shelf) -> None:
    shelf.put(1_000)
    assert shelf.kept() == (1_000, 1)
    shelf.put(3)
    assert shelf.kept() == (1_000, 4)


def test_a_file_receives_every_record_once_in_order_and_on_the_disk(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, turns = list[int](), list[tuple[str, int]]()
    fsync, flock = os.fsync, fcntl.flock

    def watched(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    def held(turn: Any, how: int) -> None:
        turns.append((Path(turn.name).name, how))
        flock(turn, how)

    monkeypatch.setattr(redo.os, "fsync", watched)
    monkeypatch.setattr(module.fcntl, "flock", held)
    for count in (3, 0, 2):
        shelf.put(count)
        synced.clear()
        turns.clear()
        shelf.outbox.copy_to(shelf.file)
        assert list(shelf.file.records()) == shelf.made
        assert shelf.file.path.stat().st_ino in synced
        assert turns == [("redo.lock", fcntl.LOCK_EX)], "one process of this machine at a time"


def test_a_file_that_was_away_for_too_long_starts_anew_and_says_where(shelf: Shelf) -> None:
    shelf.put(2)
    shelf.outbox.copy_to(shelf.file)
    shelf.put(1_003)
    shelf.outbox.copy_to(shelf.file)
    found = list(shelf.file.records())
    gap = found[2]
    assert (gap.n, gap.changes, gap.digest) == (5, None, shelf.made[4].digest)
    assert found[:2] + found[3:] == shelf.made[:2] + shelf.made[5:]
    assert shelf.compare(shelf.made[-1].mark)


def test_another_history_of_any_length_is_a_fork_and_a_shorter_store_is_behind(shelf: Shelf) -> None:
    shelf.put(4)
    here = shelf.made
    assert shelf.compare(here[3].mark), "a new file knows nothing else"
    for record in here[:3]:
        shelf.file.append(record)
    assert shelf.compare(here[3].mark)
    assert shelf.compare(here[2].mark)
    with pytest.raises(StoreBehindError):
        shelf.compare(here[1].mark)
    with pytest.raises(ForkedLogError):
        shelf.compare(other_history(3)[2].mark)
    shelf.file.append(other_history(4)[3])
    with pytest.raises(ForkedLogError):
        shelf.compare(here[3].mark)
    shelf.put(1)
    with pytest.raises(ForkedLogError):
        shelf.compare(shelf.made[4].mark)
    shelf.put(1_000)
    assert not shelf.compare(shelf.made[-1].mark), "the store no longer has what could be compared"


@pytest.mark.parametrize("known", [True, False])
def test_where_records_cannot_be_compared_any_more_the_file_s_signed_head_decides(
    shelf: Shelf, tmp_path: Path, *, known: bool
) -> None:
    head = TreeHead(size=9, root="a" * 64, at="2026-01-01", key=1, signature="b" * 128)
    first = RedoRecord.of(Mark(), [head] if known else [], [], b"x")
    shelf.file.append(first)
    shelf.put(1_002)
    recorder = Recorder(Keyring.create(tmp_path / "keys.json"), shelf.file, None, shelf.outbox)
    position = Position(shelf.made[-1].mark, 0, 0)
    with shelf.engine.begin() as connection:
        if known:
            with pytest.raises(StoreBehindError, match="leaves that were signed"):
                recorder._in_step(connection, position)
        else:
            assert recorder._in_step(connection, position) == position
