"""A redo file that a backup has caught up with: shorter, and it still brings that backup to today."""

import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from app.backup import back_up, compact_redo, restore
from app.errors import ForkedLogError, IntegrityError, StoreBehindError
from app.settings import Settings
from app.store.redo import Mark, RedoFile, RedoRecord
from tests.app.test_rollback import rows_of
from tests.conftest import TOTAL, open_fair


def numbers(settings: Settings) -> list[int]:
    file = RedoFile(settings.redo)
    found = [record.n for record in file.records()]
    file.close()
    return found


def test_a_compacted_file_brings_the_backup_to_today_while_the_market_sells_on(
    settings: Settings, tmp_path: Path
) -> None:
    opened = open_fair(settings)
    fair = next(opened)
    dataset = fair.dataset()
    product, other = fair.product(dataset), fair.product(dataset, TOTAL)
    back_up(settings, tmp_path / "older.tar")
    buyer = fair.person()
    fair.buy(buyer, product, "0.5")
    manifest = back_up(settings, tmp_path / "backup.tar")
    fair.buy(buyer, product, "1")
    before = numbers(settings)
    count = compact_redo(settings, tmp_path / "backup.tar")
    assert count == len([n for n in before if n <= manifest.written]) - 1
    assert numbers(settings) == [n for n in before if n >= manifest.written]
    late: dict[str, Any] = fair.buy(buyer, other, "1")  # the process that serves goes on with the new file
    assert fair.client.get("/health/ready").status_code == 200
    assert compact_redo(settings, tmp_path / "backup.tar") == 0, "a second time leaves nothing out"
    with pytest.raises(ForkedLogError):
        compact_redo(settings, tmp_path / "older.tar")
    opened.close()
    today = rows_of(settings)
    redo = shutil.copy(settings.redo, tmp_path / "redo.copy")
    for name, whole in (("backup", True), ("older", False)):
        elsewhere = Settings.at(tmp_path / name)
        if whole:
            restore(elsewhere, tmp_path / f"{name}.tar", keys=settings.keys, redo=Path(redo))
            assert rows_of(elsewhere) == today
            again = open_fair(elsewhere)
            assert next(again).answer(buyer, late).json() == late["answer"]
            again.close()
        else:
            with pytest.raises(StoreBehindError):
                restore(elsewhere, tmp_path / f"{name}.tar", keys=settings.keys, redo=Path(redo))


def test_a_backup_that_is_damaged_or_another_market_s_takes_nothing_off_the_file(
    settings: Settings, tmp_path: Path
) -> None:
    for place in (settings, Settings.at(tmp_path / "other")):
        opened = open_fair(place)
        next(opened).person()
        back_up(place, tmp_path / f"{place.state.name}.tar")
        opened.close()
    before = settings.redo.read_bytes()
    with pytest.raises(ForkedLogError):
        compact_redo(settings, tmp_path / "other.tar")
    raw = bytearray((tmp_path / "market.tar").read_bytes())
    raw[len(raw) // 3] ^= 1
    (tmp_path / "damaged.tar").write_bytes(bytes(raw))
    with pytest.raises(IntegrityError):
        compact_redo(settings, tmp_path / "damaged.tar")
    assert settings.redo.read_bytes() == before


def test_a_long_file_is_read_in_pieces(tmp_path: Path) -> None:
    """However much was written while nobody looked, one record is held at a time; a line that was cut short goes."""
    path, size = tmp_path / "redo.ndjson", 40_000
    writer, mark = RedoFile(path), Mark()
    for _ in range(200):
        record = RedoRecord.of(mark, [], [], bytes(size))
        writer.append(record)
        mark = record.mark
    writer.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"n":201,')
    reader = RedoFile(path)
    tracemalloc.start()
    reader.refresh()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reader.last == mark
    assert most < len(whole) / 3
    assert path.read_bytes() == whole
    reader.close()
