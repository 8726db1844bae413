"""The drill with a panel: back up, sell on, lose the machine, restore; the same reports, readings and replay."""

import shutil
import sqlite3
import stat
import tarfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.audit.reports import audit_market
from app.backup import Manifest, back_up, restore
from app.errors import IntegrityError
from app.panels.acts import _folder, _reports
from app.panels.journal import journals_of
from app.panels.replay import replay_round
from app.settings import Settings
from app.store.copying import dump_rows, tiers_of_copy
from app.store.database import open_engine
from tests.app.panelling import buy, close, deliver, disclosure, opened, reading, reports, rows
from tests.app.test_backup import rewritten
from tests.app.test_rollback import reopened
from tests.conftest import Fair, Person, open_fair

HISTOGRAM = {"type": "histogram"}


class PanelDrill:
    """A market with a panel: one round closed and sold, one open with reports in it; backed up, and sold on."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.vault = settings, settings.state.parent / "vault"
        self.vault.mkdir()
        self.backup, self.keys, self.redo = (self.vault / name for name in ("backup.tar", "keys", "redo"))
        opening = open_fair(settings)
        self.fair = fair = next(opening)
        self.panel = opened(fair)
        self.ada: Person = fair.person()
        self.bob: Person = fair.person()
        deliver(fair, self.panel, reports=rows(self.panel, [place % 5 for place in range(60)]))
        close(fair, self.panel)
        assert buy(fair, self.ada, self.panel, "1.5").status_code == 201
        deliver(fair, self.panel, round=2, reports=rows(self.panel, [0, 1, 2]))
        self.manifest = back_up(settings, self.backup, keys=self.keys)
        assert buy(fair, self.bob, self.panel, "0.5").status_code == 201
        self.files = self.held()
        self.seen = self.look(fair)
        opening.close()
        shutil.copy(settings.redo, self.redo)

    def held(self) -> dict[str, bytes]:
        """The files of rounds, byte by byte."""
        folder = self.settings.state / "panels"
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.bin")}

    def look(self, fair: Fair) -> list[Any]:
        """What buyers and an auditor read."""
        shown, public = disclosure(fair, self.panel)
        return [
            reading(fair, self.ada, self.panel, "1.5", HISTOGRAM).json(),
            reading(fair, self.bob, self.panel, "0.5", HISTOGRAM).json(),
            reports(fair, self.ada, self.panel, 1).content,
            reports(fair, self.bob, self.panel, 2).content,
            shown,
            replay_round(shown, [public]).findings,
        ]

    def restore(self, backup: Path | None = None) -> Manifest:
        return restore(self.settings, backup or self.backup, keys=self.keys, redo=self.redo)[0]


def test_a_panel_comes_back_with_its_reports_its_readings_and_its_replay(settings: Settings) -> None:
    drill = PanelDrill(settings)
    shutil.rmtree(settings.state)
    assert drill.restore() == drill.manifest
    name = f"panels/{drill.panel['panel']}"
    expected = {f"{name}/reports.db", *(f"{name}/round-1/{rank}.bin" for rank in range(3))}
    assert {file for file in drill.manifest.files if file.startswith("panels/")} == expected
    assert drill.held() == drill.files
    for path in (settings.state / "panels").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    opening = reopened(settings, drill.fair)
    fair: Fair = next(opening)
    assert drill.seen[-1] == ()
    assert drill.look(fair) == drill.seen
    kept = _reports(fair.market, drill.panel["panel"])
    assert (kept.count(1), kept.count(2), kept.spent("d0"), kept.spent("d9")) == (60, 3, 6 * 10**9, 3 * 10**9)
    again = deliver(fair, drill.panel, round=2, reports=rows(drill.panel, [0, 1, 2, 3], seed=2)).json()
    assert (again["accepted"], again["refused"]) == (1, 3), "what a device gave and spent is not forgotten"
    assert close(fair, drill.panel).json()["open_round"] == 3
    opening.close()


def test_files_that_are_there_still_are_newer_and_stay(settings: Settings) -> None:
    drill = PanelDrill(settings)
    opening = reopened(settings, drill.fair)
    deliver(next(opening), drill.panel, round=2, reports=rows(drill.panel, [3], first=3))
    opening.close()
    shutil.copy(settings.redo, drill.vault / "redo2")
    for path in settings.state.glob("market.db*"):
        path.unlink()
    shutil.rmtree(settings.state / "panels" / drill.panel["panel"] / "round-1")
    restore(settings, drill.backup)
    assert drill.held() == drill.files
    opening = reopened(settings, drill.fair)
    kept = _reports(next(opening).market, drill.panel["panel"]).count(2)
    opening.close()
    assert kept == 4


def test_files_that_stay_start_new_journals_where_theirs_are_gone(settings: Settings) -> None:
    drill = PanelDrill(settings)
    opening = reopened(settings, drill.fair)
    fair = next(opening)
    later = opened(fair)
    deliver(fair, later, reports=rows(later, [0, 1, 2]))
    opening.close()
    for path in settings.state.glob("market.db*"):
        path.unlink()
    shutil.rmtree(journals_of(settings.redo))
    restore(settings, drill.backup)
    opening = reopened(settings, drill.fair)
    fair = next(opening)
    told = [deliver(fair, drill.panel, round=2, reports=rows(drill.panel, [3], first=3)).json()]
    told += [deliver(fair, later, reports=rows(later, [3], first=3)).json()]
    opening.close()
    assert [each.get("accepted") for each in told] == [1, 1]


def test_what_a_closing_left_that_failed_is_not_what_the_round_was_closed_with(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup between a crash and the closing that succeeded: its files of the round, and of a tier, are of neither."""
    vault = settings.state.parent / "vault"
    vault.mkdir()
    for fair in open_fair(settings):
        panel, ada = opened(fair, mechanism="subset"), fair.person()
        deliver(fair, panel, reports=rows(panel, [0, 1, 2, 3] * 5))
        add = f"/v1/panels/{panel['panel']}/tiers"
        with monkeypatch.context() as patch:
            patch.setattr("app.panels.acts.store_round", _killed)
            assert close(fair, panel).status_code == 500
        deliver(fair, panel, reports=rows(panel, [4] * 3, seed=9, first=20), round=1)
        earlier = vault / "earlier.tar"
        back_up(settings, earlier)
        deliver(fair, panel, reports=rows(panel, [4] * 3, seed=8, first=30), round=1)
        assert close(fair, panel).status_code == 201
        with monkeypatch.context() as patch:
            patch.setattr("app.panels.acts.store_tier", _killed)
            sent = {"epsilon": "1", "price_minor": 200}
            assert fair.client.post(add, json=sent, headers=fair.owner().headers).status_code == 500
        later = vault / "later.tar"
        back_up(settings, later)
        assert f"panels/{panel['panel']}/round-1/3.bin" in back_up(settings, vault / "again.tar").files
        sent = {"epsilon": "2", "price_minor": 400}
        assert fair.client.post(add, json=sent, headers=fair.owner().headers).status_code == 201
        for epsilon in ("3", "2"):
            assert buy(fair, ada, panel, epsilon).status_code == 201
        seen = [reports(fair, ada, panel, rank).content for rank in (0, 3)]
    for backup in (earlier, later):
        placed = Settings.at(settings.state.parent / backup.stem)
        restore(placed, backup, keys=settings.keys, redo=settings.redo)
        for again in open_fair(placed):
            assert [reports(again, ada, panel, rank).content for rank in (0, 3)] == seen
            assert audit_market(again.market, lambda _: None)["verdict"] == "verified"


def test_both_kinds_of_a_stores_copy_say_which_tiers_it_knows(settings: Settings, tmp_path: Path) -> None:
    drill = PanelDrill(settings)
    engine = open_engine(settings.database_url)
    with (tmp_path / "rows").open("wb") as file:
        dump_rows(engine, file)
    engine.dispose()
    with tarfile.open(drill.backup) as archive:
        archive.extract("store/market.db", tmp_path, filter="data")
    known = {(drill.panel["panel"], 1, rank) for rank in range(3)}
    assert tiers_of_copy(tmp_path / "rows") == tiers_of_copy(tmp_path / "store" / "market.db") == known


def _killed(*_: Any, **__: Any) -> None:
    raise SystemError


def test_a_journal_that_outlived_its_reports_is_not_played_into_the_restored_ones(settings: Settings) -> None:
    drill = PanelDrill(settings)
    folder = _folder(drill.fair.market, drill.panel["panel"])
    with closing(sqlite3.connect(folder / "reports.db", isolation_level=None)) as store:
        store.execute("PRAGMA cache_size=1")
        store.execute("BEGIN IMMEDIATE")
        store.execute("UPDATE reports SET report = x'00'")
        journal = (folder / "reports.db-journal").read_bytes()
        store.execute("ROLLBACK")
    shutil.rmtree(settings.state)
    folder.mkdir(parents=True)
    (folder / "reports.db-journal").write_bytes(journal)
    drill.restore()
    assert not (folder / "reports.db-journal").exists()


def test_a_backup_while_reports_come_and_rounds_close_has_whole_deliveries_and_whole_rounds(
    settings: Settings, tmp_path: Path
) -> None:
    opening = open_fair(settings)
    fair = next(opening)
    panel, taken = opened(fair, budget="50"), []
    deliver(fair, panel, reports=rows(panel, [0] * 40))
    thread = threading.Thread(
        target=lambda: taken.extend((at, back_up(settings, tmp_path / f"b{at}.tar")) for at in range(6))
    )
    thread.start()
    number, first = 1, 40
    while (
        thread.is_alive() and number < 50
    ):  # turns are not queued: whoever writes without a pause may go first each time
        deliver(fair, panel, round=number, reports=rows(panel, [1] * 40, first=first))
        close(fair, panel)
        number, first = number + 1, first + 40
    thread.join()
    opening.close()
    assert len(taken) == 6
    for at, _ in taken:
        folder = tmp_path / f"unpacked{at}"
        with tarfile.open(tmp_path / f"b{at}.tar") as archive:
            archive.extractall(folder, filter="data")
        with closing(sqlite3.connect(folder / "store" / "market.db")) as store:
            closed = dict(store.execute("SELECT number, reports FROM panel_rounds").fetchall())
        inside = folder / "panels" / panel["panel"]
        with closing(sqlite3.connect(inside / "reports.db")) as held:
            (count,) = held.execute("SELECT count(*) FROM reports").fetchone()
            (spent,) = held.execute("SELECT sum(spent_nano) FROM devices").fetchone()
            kept = dict(held.execute("SELECT round, count(*) FROM reports GROUP BY round").fetchall())
        assert count % 40 == 0
        assert spent == count * 3 * 10**9
        for closed_round, expected in closed.items():
            assert kept[closed_round] == expected
        for round_folder in inside.glob("round-*"):
            sizes = [path.stat().st_size for path in sorted(round_folder.iterdir())]
            assert sizes == [2 * kept[int(round_folder.name.removeprefix("round-"))]] * 3, "two bytes a report"
        assert {f"round-{closed_round}" for closed_round in closed} <= {path.name for path in inside.glob("round-*")}


Members = list[tuple[tarfile.TarInfo, bytes]]


def flip_reports(members: Members) -> None:
    at = next(at for at, (member, _) in enumerate(members) if member.name.endswith("reports.db"))
    member, raw = members[at]
    members[at] = (member, raw[:-1] + bytes([raw[-1] ^ 1]))


def flip_tier(members: Members) -> None:
    at = next(at for at, (member, _) in enumerate(members) if member.name.endswith("1.bin"))
    member, raw = members[at]
    members[at] = (member, bytes([raw[0] ^ 1]) + raw[1:])


def drop_tier(members: Members) -> None:
    del members[next(at for at, (member, _) in enumerate(members) if member.name.endswith("2.bin"))]


def climb(members: Members) -> None:
    members.insert(0, (tarfile.TarInfo("panels/../reports.db"), b"x"))


def deepen(members: Members) -> None:
    members.insert(0, (tarfile.TarInfo("panels/p/../../../../escaped"), b"x"))


@pytest.mark.parametrize("change", [flip_reports, flip_tier, drop_tier, climb, deepen])
def test_a_backup_whose_panel_was_altered_is_refused_and_leaves_nothing(
    settings: Settings, change: Callable[[Members], None]
) -> None:
    drill = PanelDrill(settings)
    shutil.rmtree(settings.state)
    bad = rewritten(drill.backup, drill.vault / "bad.tar", change)
    with pytest.raises(IntegrityError):
        drill.restore(bad)
    assert not list(settings.state.glob("market.db*"))
    assert not (settings.state / "panels").exists()
    assert not list(settings.state.parent.rglob("escaped"))
