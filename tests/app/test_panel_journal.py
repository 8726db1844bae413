"""Deliveries survive their panel's file: what the journal has is taken in again, once; tiers are derived anew."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.backup import back_up, restore
from app.errors import IntegrityError
from app.panels.acts import _folder, _reports
from app.panels.intake import Batch
from app.panels.journal import Journal, journals_of
from app.panels.reports import Reports
from app.settings import Settings
from tests.app.panelling import buy, close, deliver, disclosure, lines, opened, reports, rows
from tests.app.test_rollback import reopened
from tests.conftest import Fair, open_fair


@pytest.fixture
def shop(settings: Settings) -> Iterator[Fair]:
    yield from open_fair(settings)


def batch(first: int, count: int) -> Batch:
    devices = [f"d{place}" for place in range(first, first + count)]
    return Batch(range(1, count + 1), devices, [bytes([place % 250, 1]) for place in range(first, first + count)], [])


def kept(shop: Fair) -> Reports:
    return _reports(shop.market, "panel_1")


def rows_of(held: Reports, number: int = 1) -> bytes:
    return b"".join(held.runs(number, 7))


def test_a_file_that_is_lost_is_made_again_from_the_journal(shop: Fair) -> None:
    kept(shop).add(1, [batch(0, 5), batch(5, 4)], 10, 100)
    kept(shop).add(2, [batch(0, 3)], 10, 100)
    expected = rows_of(kept(shop)), rows_of(kept(shop), 2)
    (_folder(shop.market, "panel_1") / "reports.db").unlink()
    held = kept(shop)
    assert (rows_of(held), rows_of(held, 2)) == expected
    assert (held.count(1), held.spent("d0"), held.spent("d8")) == (9, 20, 10)
    assert held.add(1, [batch(8, 2)], 10, 100).accepted == 1, "what was taken once is not taken again"


def test_a_delivery_that_was_written_and_not_committed_is_taken_in_before_the_next(shop: Fair) -> None:
    kept(shop).add(1, [batch(0, 2)], 10, 100)
    file = _folder(shop.market, "panel_1") / "reports.db"
    before = file.read_bytes()
    kept(shop).add(1, [batch(2, 2)], 10, 100)
    file.write_bytes(before)  # a crash after the journal, before the commit
    assert kept(shop).count(1) == 4
    assert kept(shop).add(1, [batch(3, 2)], 10, 100).accepted == 1


def test_a_delivery_without_its_end_was_never_acknowledged_and_is_cut_off(shop: Fair) -> None:
    kept(shop).add(1, [batch(0, 2)], 10, 100)
    path = journals_of(shop.market.settings.redo) / "panel_1.jsonl"
    whole = path.read_bytes()
    rows_line, end_line = whole.splitlines(keepends=True)
    path.write_bytes(whole + rows_line + end_line[:-3])
    assert kept(shop).count(1) == 2
    assert path.read_bytes() == whole


def test_a_delivery_that_fails_half_way_leaves_nothing(shop: Fair) -> None:
    def broken() -> Iterator[Batch]:
        yield batch(0, 3)
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends"):
        kept(shop).add(1, broken(), 10, 100)
    assert (kept(shop).count(1), kept(shop).spent("d0")) == (0, 0)
    assert kept(shop).add(1, [batch(0, 3)], 10, 100).accepted == 3


def test_a_journal_that_is_shorter_changed_or_of_another_market_is_refused(shop: Fair) -> None:
    kept(shop).add(1, [batch(0, 2)], 10, 100)
    path = journals_of(shop.market.settings.redo) / "panel_1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(IntegrityError, match="shorter"):
        kept(shop).count(1)
    path.unlink()
    with pytest.raises(IntegrityError, match="journal"):
        kept(shop).count(1)
    (_folder(shop.market, "panel_1") / "reports.db").unlink()
    for spoilt in (
        whole.replace(b'"end":1', b'"end":2'),
        b"hearsay\n" + whole,
        whole.replace(b'"rows":"', b'"rows":"AAAA'),
    ):
        path.write_bytes(spoilt)
        with pytest.raises(IntegrityError):
            kept(shop).count(1)
    path.write_bytes(whole)
    assert kept(shop).count(1) == 2
    other = Journal(path, shop.market.keyring, "panel-journal/panel_2")
    with pytest.raises(IntegrityError):
        list(other.since(0))


def test_no_device_and_no_report_stands_in_the_journal_in_clear(shop: Fair) -> None:
    kept(shop).add(1, [Batch([1], ["a-telling-name"], [b"a-telling-report"], [])], 10, 100)
    raw = (journals_of(shop.market.settings.redo) / "panel_1.jsonl").read_bytes()
    assert b"telling" not in raw
    assert kept(shop).count(1) == 1


def test_tiers_whose_files_are_gone_are_derived_again_or_refused(shop: Fair) -> None:
    panel, buyer = opened(shop), shop.person()
    deliver(shop, panel, reports=rows(panel, [place % 5 for place in range(60)]))
    close(shop, panel)
    buy(shop, buyer, panel, "1.5")
    seen, shown = lines(reports(shop, buyer, panel, 1)), disclosure(shop, panel)
    folder = _folder(shop.market, panel["panel"])
    shutil.rmtree(folder / "round-1")
    (folder / "reports.db").unlink()
    assert lines(reports(shop, buyer, panel, 1)) == seen
    assert disclosure(shop, panel) == shown
    shutil.rmtree(folder)
    (journals_of(shop.market.settings.redo) / f"{panel['panel']}.jsonl").unlink()
    assert reports(shop, buyer, panel, 1).status_code == 500, "without a report nothing can be derived"
    assert not (folder / "round-1").exists()


def test_a_restored_market_has_the_reports_and_rounds_that_came_after_the_backup(settings: Settings) -> None:
    opening = open_fair(settings)
    fair = next(opening)
    panel, buyer, vault = opened(fair, budget="50"), fair.person(), settings.state.parent / "vault"
    vault.mkdir()
    deliver(fair, panel, reports=rows(panel, [0, 1, 2]))
    back_up(settings, vault / "backup.tar", keys=vault / "keys")
    deliver(fair, panel, reports=rows(panel, [place % 5 for place in range(3, 40)], first=3))
    close(fair, panel)
    assert buy(fair, buyer, panel, "1.5").status_code == 201
    deliver(fair, panel, round=2, reports=rows(panel, [1, 2]))
    seen, shown = reports(fair, buyer, panel, 1).content, disclosure(fair, panel)
    opening.close()
    shutil.copy(settings.redo, vault / "redo")
    shutil.copytree(journals_of(settings.redo), journals_of(vault / "redo"))
    shutil.rmtree(settings.state)
    restore(settings, vault / "backup.tar", keys=vault / "keys", redo=vault / "redo")
    again: Any = reopened(settings, fair)
    fair = next(again)
    held = _reports(fair.market, panel["panel"])
    assert (held.count(1), held.count(2), held.spent("d0")) == (40, 2, 6 * 10**9)
    assert reports(fair, buyer, panel, 1).content == seen
    assert disclosure(fair, panel) == shown
    again.close()


def test_a_market_restored_without_its_journals_starts_new_ones(settings: Settings, tmp_path: Path) -> None:
    opening = open_fair(settings)
    fair = next(opening)
    panel = opened(fair)
    deliver(fair, panel, reports=rows(panel, [0, 1, 2]))
    back_up(settings, tmp_path / "backup.tar", keys=tmp_path / "keys")
    opening.close()
    shutil.copy(settings.redo, tmp_path / "redo")
    shutil.rmtree(settings.state)
    restore(settings, tmp_path / "backup.tar", keys=tmp_path / "keys", redo=tmp_path / "redo")
    again: Any = reopened(settings, fair)
    fair = next(again)
    assert deliver(fair, panel, reports=rows(panel, [1, 2], first=2)).json()["accepted"] == 1
    assert _reports(fair.market, panel["panel"]).count(1) == 4
    again.close()
