"""The drill: back up while serving, sell on, lose the machine, restore, replay, and nothing that was sold is missing."""

import io
import json
import shutil
import stat
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.audit.verify import verify_export
from app.backup import Manifest, back_up, restore
from app.cli import main
from app.errors import ConflictError, IntegrityError, InvalidRequestError, StoreBehindError, StoreUnavailableError
from app.log.journal import current_head
from app.settings import Settings
from tests.app.test_rollback import reopened, rows_of
from tests.conftest import PEOPLE, TOTAL, Fair, Person, open_fair


class Drill:
    """A market that was backed up, sold on, and lost, all but its redo file and a copy of its keys elsewhere."""

    def __init__(self, settings: Settings, *, lose: bool = True) -> None:
        self.settings = settings
        self.vault = settings.state.parent / "vault"
        self.vault.mkdir()
        self.backup, self.keys, self.redo = (self.vault / name for name in ("backup.tar", "keys", "redo"))
        opened = open_fair(settings)
        fair = next(opened)
        self.dataset = fair.dataset(budget="6")
        self.products = [fair.product(self.dataset), fair.product(self.dataset, PEOPLE)]
        self.ada: Person = fair.person()
        self.early = fair.buy(self.ada, self.products[0], "0.5")
        self.manifest = back_up(settings, self.backup, keys=self.keys)
        self.late = fair.buy(self.ada, self.products[1], "1")
        self.balance = fair.client.get("/v1/whoami", headers=self.ada.headers).text
        self.lines, self.public = fair.export()
        self.head = fair.market.database.read_now(current_head)
        self.fair = fair
        opened.close()
        self.today = rows_of(settings)
        shutil.copy(settings.redo, self.redo)
        if lose:
            shutil.rmtree(settings.state)

    def reopen(self) -> Any:
        return reopened(self.settings, self.fair)


def test_a_lost_machine_comes_back_whole_from_backup_keys_and_redo_file(settings: Settings) -> None:
    drill = Drill(settings)
    manifest, done = restore(settings, drill.backup, keys=drill.keys, redo=drill.redo)
    assert manifest == drill.manifest
    assert done.redrawn == (drill.products[1]["chain"],)
    assert rows_of(settings) == drill.today
    opened = drill.reopen()
    fair: Fair = next(opened)
    assert fair.client.get("/health/ready").status_code == 200
    for sold in (drill.early, drill.late):
        assert fair.answer(drill.ada, sold).json() == sold["answer"]
    assert fair.client.get("/v1/whoami", headers=drill.ada.headers).text == drill.balance
    assert fair.buy(fair.person(), drill.products[1], "1")["answer"] == drill.late["answer"]
    assert fair.buy(drill.ada, fair.product(drill.dataset, TOTAL), "0.1"), "the snapshot came back and is drawn from"
    lines, public = fair.export()
    report = verify_export(lines, public, earlier=drill.head)
    assert report.verdict == "verified", report.findings
    assert settings.data.joinpath("people.csv").exists()
    opened.close()


def test_without_the_redo_file_nothing_is_restored_unless_the_operator_gives_up_what_it_held(
    settings: Settings,
) -> None:
    drill = Drill(settings)
    with pytest.raises(StoreBehindError):
        restore(settings, drill.backup, keys=drill.keys)
    assert not list(settings.state.glob("market.db*"))
    restore(settings, drill.backup, keys=drill.keys, without_redo=True)
    opened = drill.reopen()
    fair: Fair = next(opened)
    assert fair.answer(drill.ada, drill.early).json() == drill.early["answer"]
    assert fair.answer(drill.ada, drill.late).status_code == 403, "given up: the order is gone"
    del fair.people["auditor"]  # whose account was made since
    lines, public = fair.export()
    findings = verify_export(lines, public, earlier=drill.head).findings
    assert {finding.rule for finding in findings} == {"consistency"}, "whoever kept a head sees it"
    assert fair.buy(drill.ada, drill.products[1], "1")["answer"] == drill.late["answer"], "the same digits even so"
    opened.close()


def test_a_backup_taken_while_sales_go_on_is_one_moment_of_the_store(settings: Settings, tmp_path: Path) -> None:
    opened = open_fair(settings)
    fair = next(opened)
    product, buyer = fair.product(fair.dataset()), fair.person()
    fair.buy(buyer, product, "0.1", key="first")
    taken: list[Manifest] = []

    def take() -> None:
        taken.extend(back_up(settings, tmp_path / f"b{number}.tar") for number in range(5))

    thread = threading.Thread(target=take)
    thread.start()
    sold = 1
    while thread.is_alive():
        fair.buy(buyer, product, "0.1", key=f"again-{sold}")
        sold += 1
    thread.join()
    fair.buy(buyer, product, "0.5", key="last")
    opened.close()
    today = rows_of(settings)
    shutil.copy(settings.redo, tmp_path / "redo")
    for number, manifest in enumerate(taken):
        again = Settings.at(tmp_path / f"again{number}")
        restored, done = restore(again, tmp_path / f"b{number}.tar", keys=settings.keys, redo=tmp_path / "redo")
        assert restored.written == manifest.written
        assert done.transactions >= 1
        assert rows_of(again) == today


def test_the_backup_holds_no_key_and_every_file_is_its_owner_s_alone(settings: Settings) -> None:
    drill = Drill(settings, lose=False)
    secrets = [key for ring in json.loads(settings.keys.read_text()).values() for key in ring.values()]
    raw = drill.backup.read_bytes()
    for secret in secrets:
        assert secret.encode() not in raw
        assert bytes.fromhex(secret) not in raw
    assert drill.keys.read_bytes() == settings.keys.read_bytes()
    for path in (drill.backup, drill.keys):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    shutil.rmtree(settings.state)
    restore(settings, drill.backup, keys=drill.keys, redo=drill.redo)
    for path in settings.state.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir():
            assert mode == 0o700
        else:
            assert mode in (0o600, 0o444), path
    assert {path.name for path in drill.vault.iterdir()} == {"backup.tar", "keys", "redo"}


def test_the_live_store_s_files_are_its_owner_s_alone(fair: Fair) -> None:
    fair.buy(fair.person(), fair.product(fair.dataset()), "1")
    files = list(fair.market.settings.state.glob("*.*"))
    assert {path.name for path in files} >= {"market.db", "keys.json", "redo.ndjson"}
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_nothing_is_written_over(settings: Settings) -> None:
    drill = Drill(settings, lose=False)
    before = rows_of(settings)
    for refused in (
        lambda: back_up(settings, drill.backup),
        lambda: back_up(settings, drill.vault / "new.tar", keys=drill.keys),
        lambda: restore(settings, drill.backup),
    ):
        with pytest.raises(ConflictError):
            refused()
    assert rows_of(settings) == before


def test_there_is_nothing_to_back_up_where_no_market_is(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        back_up(settings, tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()


def rewritten(source: Path, target: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> Path:
    members = []
    with tarfile.open(source) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            members.append((member, content.read()))
    change(members)
    with tarfile.open(target, "w") as archive:
        for member, raw in members:
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return target


def flip(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    member, raw = members[0]
    members[0] = (member, raw[:100] + bytes([raw[100] ^ 1]) + raw[101:])


def drop(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    del members[1]


def escape(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.insert(0, (tarfile.TarInfo("data/../../escaped"), b"x"))


def absolute(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.insert(0, (tarfile.TarInfo("/data/escaped"), b"x"))


def link(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    member = tarfile.TarInfo("data/link")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    members.insert(0, (member, b""))


def no_manifest(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.pop()


def twice(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.insert(0, members[0])


def more(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.insert(0, (tarfile.TarInfo("data/more.csv"), b"x"))


def another_format(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    manifest = json.loads(members[-1][1]) | {"format": "tiermarket-backup/2"}
    members[-1] = (members[-1][0], json.dumps(manifest).encode())


@pytest.mark.parametrize("change", [flip, drop, escape, absolute, link, no_manifest, twice, more, another_format])
def test_a_backup_that_was_altered_is_refused_and_leaves_no_store(
    settings: Settings, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]
) -> None:
    drill = Drill(settings)
    bad = rewritten(drill.backup, drill.vault / "bad.tar", change)
    with pytest.raises(IntegrityError):
        restore(settings, bad, keys=drill.keys, redo=drill.redo)
    assert not list(settings.state.glob("market.db*"))
    assert not list(settings.state.parent.rglob("escaped"))
    assert list(settings.snapshots.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a backup", b"\x00" * 2048])
def test_another_file_is_no_backup(settings: Settings, content: bytes) -> None:
    drill = Drill(settings)
    (drill.vault / "x").write_bytes(content)
    with pytest.raises(IntegrityError):
        restore(settings, drill.vault / "x", keys=drill.keys, redo=drill.redo)


def test_a_backup_of_another_kind_of_database_is_refused(settings: Settings) -> None:
    drill = Drill(settings)

    def rows(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members[0][0].name = "store/rows.msgpack"
        manifest = json.loads(members[-1][1])
        manifest["files"]["store/rows.msgpack"] = manifest["files"].pop("store/market.db")
        members[-1] = (members[-1][0], json.dumps(manifest).encode())

    other = rewritten(drill.backup, drill.vault / "other.tar", rows)
    with pytest.raises(InvalidRequestError):
        restore(settings, other, keys=drill.keys, redo=drill.redo)


def test_the_commands_do_the_whole_drill(settings: Settings) -> None:
    drill = Drill(settings, lose=False)
    state, vault = str(settings.state), drill.vault

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, list(words))

    done = run("backup", "--state", state, "--to", str(vault / "b2"), "--keys", str(vault / "k2"))
    assert done.exit_code == 0, done.output
    assert "backed up" in done.output
    again = run("backup", "--state", state, "--to", str(vault / "b2"))
    assert again.exit_code == 1
    shutil.rmtree(settings.state)
    lost = run("restore", "--state", state, "--from", str(vault / "b2"))
    assert lost.exit_code == 1
    words = ["restore", "--state", state, "--from", str(drill.backup), "--keys", str(vault / "k2")]
    back = run(*words, "--redo", str(drill.redo))
    assert back.exit_code == 0, back.output
    assert "1 chains drawn again" in back.output
    assert rows_of(settings) == drill.today
    nothing = run("restore", "--state", state)
    assert "replayed: 0 transactions" in nothing.output
