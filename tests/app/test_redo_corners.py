"""Corners of the redo file: a refused commit that another process carried out, and a backup that the file never reached."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from app.errors import ForkedLogError, StoreUnavailableError
from app.founding import recorder_of
from app.log.heads import TreeHead
from app.market import Market
from app.settings import Settings
from app.store import redo
from app.store.database import open_engine, write_once
from app.store.redo import ORIGIN, Mark, RedoFile, RedoRecord
from tests.app.test_rollback import named, names, read


@pytest.fixture
def market(settings: Settings) -> Iterator[Market]:
    market = Market(settings)
    yield market
    market.database.close()


def test_a_refused_commit_that_another_process_carried_out_is_not_made_void(market: Market) -> None:
    def full(_connection: Any) -> None:
        raise OperationalError("COMMIT", {}, Exception("disk full"))

    event.listen(market.database._writing, "commit", full)
    with pytest.raises(StoreUnavailableError):
        market.database.submit(named("a")).result()
    event.remove(market.database._writing, "commit", full)
    other, engine = recorder_of(market.settings, market.keyring), open_engine(market.settings.database_url)
    write_once(engine, other, lambda _: None)
    assert names(market) == ["a"], "recorded, so the next writer finished it"
    market.database.submit(lambda _: None).result()
    market.database.submit(named("b")).result()
    assert not [record for record in read(market.settings) if record.void]
    write_once(engine, other, named("c"))
    assert (names(market), market.database.standing) == (["a", "b", "c"], "current")
    other.close()
    engine.dispose()


def written(path: Path, count: int) -> RedoFile:
    file, mark = RedoFile(path), Mark()
    for place in range(count):
        record = RedoRecord.of(mark, [], [], bytes([place]))
        file.append(record)
        mark = record.mark
    return file


def test_a_record_s_digest_is_over_all_that_it_says() -> None:
    head = TreeHead(size=7, root="a" * 64, at="2026-01-01", key=1, signature="b" * 128)
    record = RedoRecord.of(Mark(3, "c" * 64), [head], ["leaf"], b"changes")
    assert record.whole
    others: list[dict[str, Any]] = [{"n": 5}, {"previous": "d" * 64}, {"heads": []}, {"leaves": []}]
    for other in (*others, {"changes": b"others"}, {"changes": None}, {"digest": "e" * 64}):
        assert not msgspec.structs.replace(record, **other).whole, other


def test_a_void_record_takes_the_one_before_it_away(tmp_path: Path) -> None:
    file = written(tmp_path / "redo", 2)
    file.append(RedoRecord(n=2, previous=ORIGIN, digest=file.last.digest, void=True))
    assert [record.changes for record in file.records()] == [b"\x00"]
    file.append(RedoRecord.of(next(file.records()).mark, [], [], b"another"))
    assert [record.changes for record in file.records()] == [b"\x00", b"another"]
    file.close()


@pytest.mark.parametrize("beyond", [4, 9])
def test_a_file_that_does_not_reach_a_backup_is_left_as_it_is(tmp_path: Path, beyond: int) -> None:
    file = written(tmp_path / "redo", 3)
    before = (tmp_path / "redo").read_bytes()
    with pytest.raises(ForkedLogError, match="history that the backup holds"):
        file.compact(beyond, None)
    assert (tmp_path / "redo").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["redo"]
    assert file.compact(2, None) == 1, "the second stays as a mark of where the file begins"
    assert [record.n for record in file.records()] == [2, 3]
    with pytest.raises(ForkedLogError):
        file.compact(1, None)
    file.close()


def test_a_compacted_file_still_knows_the_head_that_the_backup_was_signed_at(tmp_path: Path) -> None:
    file = written(tmp_path / "redo", 3)
    head = TreeHead(size=7, root="a" * 64, at="2026-01-01", key=1, signature="b" * 128)
    file.compact(3, head)
    assert (file.head, file.last.n) == (head, 3)
    file.close()
    again = RedoFile(tmp_path / "redo")
    again.refresh()
    assert (again.head, again.last.n) == (head, 3), "so that a store without it is seen to be behind"
    again.close()


@pytest.mark.parametrize("taken", [0, 1, 40])
def test_a_record_of_which_the_disk_takes_a_part_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    file, write = written(tmp_path / "redo", 2), os.write
    before, record = (tmp_path / "redo").read_bytes(), RedoRecord.of(file.last, [], [], b"x")
    with monkeypatch.context() as patch:
        patch.setattr(redo.os, "write", lambda handle, line: write(handle, line[:taken]))
        with pytest.raises(StoreUnavailableError, match="room for a record"):
            file.append(record)
    assert (tmp_path / "redo").read_bytes() == before
    assert file.last.n == 2
    file.append(record)
    assert [each.n for each in file.records()] == [1, 2, 3]
    file.close()


def test_a_write_is_on_the_disk_before_anybody_is_told(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, fsync = list[int](), os.fsync

    def watched(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(redo.os, "fsync", watched)
    market.database.submit(named("a")).result(60)
    assert market.settings.redo.stat().st_ino in synced


def test_a_writer_takes_its_turn_before_it_reads_anything(tmp_path: Path) -> None:
    """Else what it decides by may be older than what it writes over."""
    path = tmp_path / "a.db"
    engine = open_engine(f"sqlite:///{path}")
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        with engine.connect() as reading, reading.begin():
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        with (
            engine.execution_options(writing=True).connect() as writing,
            writing.begin(),
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("BEGIN IMMEDIATE")
    engine.dispose()
