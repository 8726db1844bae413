"""Backups: a consistent copy of the store while it serves, snapshots, data, panels; keys in a file of their own."""

import hashlib
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
from sqlalchemy import Engine, inspect, make_url, text

from app.clock import time_text, utc_now
from app.errors import ConflictError, IntegrityError, InvalidRequestError, StoreBehindError, StoreUnavailableError
from app.files import copy_private, digest, private, publish
from app.founding import recorder_of
from app.keyring import Keyring
from app.log.heads import TreeHead
from app.log.journal import current_head
from app.panels.copying import FOLDER, is_panel_file, panel_files, place_panels
from app.panels.journal import journals_of
from app.rollback import Replayed, replay
from app.settings import Settings
from app.store.copying import dump_rows, head_of_rows, load_rows, tiers_of_copy
from app.store.database import open_engine, write_once
from app.store.exclusive import Turns
from app.store.recording import read_position

__all__ = ["Manifest", "back_up", "compact_redo", "restore"]

FORMAT = "tiermarket-backup/1"
_MANIFEST, _SQLITE, _ROWS = "manifest.json", "store/market.db", "store/rows.msgpack"


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup holds: how far its store had come, and a digest of every file."""

    format: str
    at: str
    revision: str
    written: int
    head: TreeHead | None
    files: dict[str, str]


def back_up(settings: Settings, target: Path, *, keys: Path | None = None) -> Manifest:
    """Write a backup to a new file that its owner alone can read; the market may serve meanwhile.

    The store is copied first: every snapshot and closed round that the copy names exists by then, and none is ever
    changed. A panel's deliveries wait while its own files are copied.

    Args:       keys: a second new file, for the key ring; it belongs in another place than the backup.
    Raises:     ConflictError: a file of this name exists. StoreUnavailableError: the store cannot be read.
    """
    for path in (target, keys):
        if path is not None and path.exists():
            raise ConflictError(f"backup: expected a new file, got one that exists ({path.name})")
    if settings.database_url.startswith("sqlite") and not _sqlite_path(settings).exists():
        raise StoreUnavailableError("backup: expected a market in the state folder, got none")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder:
        copied = Path(folder) / "store"
        name = _copy_store(settings, copied)
        revision, written, head = _inspect(settings, copied, name)
        files: dict[str, str] = {}
        packed = Path(folder) / "packed"
        with private(packed) as raw, tarfile.open(fileobj=raw, mode="w") as archive:
            files[name] = _add(archive, name, copied)
            for part, source in (("snapshots", settings.snapshots), ("data", settings.data)):
                for path in sorted(source.iterdir()):
                    if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                        files[f"{part}/{path.name}"] = _add(archive, f"{part}/{path.name}", path)
            for name, path in _panel_files(settings, Path(folder)):
                files[name] = _add(archive, name, path)
            manifest = Manifest(
                format=FORMAT, at=time_text(utc_now()), revision=revision, written=written, head=head, files=files
            )
            listed = Path(folder) / _MANIFEST
            listed.write_bytes(msgspec.json.encode(manifest))
            _add(archive, _MANIFEST, listed)
        publish(packed, target)
    if keys is not None:
        copy_private(settings.keys, keys)
    return manifest


def restore(
    settings: Settings, source: Path, *, keys: Path | None = None, redo: Path | None = None, without_redo: bool = False
) -> tuple[Manifest, Replayed]:
    """Bring a backup back where no store is, and replay what was acknowledged after it was made.

    Args:       keys: a copy of the key ring, where the market's own is lost. redo: a copy of the redo file, likewise,
                with the journals of panels beside it, where there are any.
                without_redo: there is none, and what it held is given up; Redis, where it still is, may object.
    Raises:     ConflictError: there is a store already. StoreBehindError: no redo file. IntegrityError: the backup is
                not what was written.
    """
    settings.prepare()
    _refuse_store(settings)
    for given, place in ((keys, settings.keys), (redo, settings.redo)):
        if given is not None:
            copy_private(given, place)
    if redo is not None and journals_of(redo).is_dir():
        journals_of(settings.redo).mkdir(mode=0o700, exist_ok=True)
        for path in sorted(journals_of(redo).glob("*.jsonl")):
            if not (journals_of(settings.redo) / path.name).exists():
                copy_private(path, journals_of(settings.redo) / path.name)
    Keyring.load(settings.keys)
    if not without_redo and not settings.redo.exists():
        raise StoreBehindError("restore: expected the redo file beside the backup (or --without-redo), got none")
    with tempfile.TemporaryDirectory(dir=settings.state, prefix=".restore-") as folder:
        manifest = _unpack(source, Path(folder))
        for part, place in (("snapshots", settings.snapshots), ("data", settings.data)):
            for path in sorted((Path(folder) / part).iterdir()):
                if not (place / path.name).exists():
                    path.replace(place / path.name)
        closed = {tier for copied in (Path(folder) / "store").iterdir() for tier in tiers_of_copy(copied)}
        place_panels(Path(folder) / FOLDER, settings.state / FOLDER, journals_of(settings.redo), closed)
        _place_store(settings, manifest, Path(folder) / "store")
    return manifest, replay(settings)


def compact_redo(settings: Settings, source: Path) -> int:
    """Leave out of the redo file what a backup holds, once the backup is read and whole; return how many records.

    Raises:     IntegrityError: the backup is not what was written. ForkedLogError: it is not of this market's history.
    """
    keyring = Keyring.load(settings.keys)
    with tempfile.TemporaryDirectory(dir=settings.state, prefix=".compact-") as folder:
        manifest = _unpack(source, Path(folder))
    engine, recorder = open_engine(settings.database_url), recorder_of(settings, keyring)
    try:
        return write_once(engine, recorder, lambda _: recorder.compact(manifest.written, manifest.head))
    finally:
        recorder.close()
        engine.dispose()


def _copy_store(settings: Settings, target: Path) -> str:
    engine = open_engine(settings.database_url)
    try:
        if engine.dialect.name != "sqlite":
            with private(target) as file:
                dump_rows(engine, file)
            return _ROWS
        with engine.connect() as connection, closing(sqlite3.connect(target)) as copy:
            held: Any = connection.connection.dbapi_connection
            held.backup(copy)
        target.chmod(0o600)
        return _SQLITE
    finally:
        engine.dispose()


def _panel_files(settings: Settings, scratch: Path) -> Iterator[tuple[str, Path]]:
    engine = open_engine(settings.database_url)
    try:
        turns = Turns(engine)
        for panel in sorted((settings.state / FOLDER).glob("*")):
            with turns.held("panel", panel.name):
                yield from panel_files(panel, scratch / f"{FOLDER}-{panel.name}")
    finally:
        engine.dispose()


def _inspect(settings: Settings, copied: Path, name: str) -> tuple[str, int, TreeHead | None]:
    """Read from the copy itself how far it has come: the store may be further by now."""
    if name == _ROWS:
        with copied.open("rb") as file:
            return head_of_rows(file)
    engine = open_engine(f"sqlite:///{copied}")
    try:
        with engine.connect() as connection:
            revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
            return str(revision), read_position(connection).mark.n, current_head(connection)
    finally:
        engine.dispose()


def _refuse_store(settings: Settings) -> None:
    engine: Engine | None = None
    try:
        if settings.database_url.startswith("sqlite"):
            path = _sqlite_path(settings)
            held = any(path.with_name(path.name + end).exists() for end in ("", "-wal"))
        else:
            engine = open_engine(settings.database_url)
            with engine.connect() as connection:
                held = bool(inspect(connection).get_table_names())
    finally:
        if engine is not None:
            engine.dispose()
    if held:
        raise ConflictError("restore: expected a place without a store, got one that holds one (move it away first)")


def _place_store(settings: Settings, manifest: Manifest, folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    wanted = Path(_SQLITE).name if settings.database_url.startswith("sqlite") else Path(_ROWS).name
    if names != {wanted}:
        raise InvalidRequestError("restore: expected a backup of the same kind of database, got another kind's")
    if wanted == Path(_SQLITE).name:
        publish(folder / wanted, _sqlite_path(settings))
        return
    engine = open_engine(settings.database_url)
    try:
        with (folder / wanted).open("rb") as file:
            load_rows(engine, file, manifest.revision)
    finally:
        engine.dispose()


def _sqlite_path(settings: Settings) -> Path:
    path = make_url(settings.database_url).database
    if not path:
        raise InvalidRequestError("TIERMARKET_DATABASE_URL: expected a file, got none")
    return Path(path)


def _unpack(source: Path, folder: Path) -> Manifest:
    """Unpack into a folder of our own: plain files in four places, each with the digest that the manifest names."""
    for part in ("store", "snapshots", "data", FOLDER):
        (folder / part).mkdir(mode=0o700)
    found: dict[str, str] = {}
    manifest: Manifest | None = None
    try:
        with tarfile.open(source, mode="r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                part, _, name = member.name.partition("/")
                if content is None:
                    raise IntegrityError("backup: expected plain files, got something else")
                if member.name == _MANIFEST:
                    manifest = msgspec.json.decode(content.read(), type=Manifest)
                    continue
                plain = part in ("store", "snapshots", "data") and name not in ("", ".", "..") and "/" not in name
                if not (plain or is_panel_file(member.name)) or member.name in found:
                    raise IntegrityError("backup: expected files of a backup, got other names")
                if not plain:
                    (folder / part / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with private(folder / part / name) as target:
                    shutil.copyfileobj(content, target)
                if part == "snapshots":
                    (folder / part / name).chmod(0o444)
                found[member.name] = digest(folder / part / name)
    except (tarfile.TarError, msgspec.MsgspecError, EOFError):
        raise IntegrityError("backup: expected a whole backup, got another file") from None
    if manifest is None or manifest.format != FORMAT or manifest.files != found:
        raise IntegrityError("backup: expected the files that its manifest names, got others")
    return manifest


def _add(archive: tarfile.TarFile, name: str, path: Path) -> str:
    member = tarfile.TarInfo(name)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        member.size, member.mode = os.fstat(file.fileno()).st_size, 0o600
        archive.addfile(member, _Counted(file, digest.update))  # type: ignore[arg-type]
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Counted:
    """A file that shows what is read of it to somebody else, too."""

    file: IO[bytes]
    seen: Callable[[bytes], None]

    def read(self, size: int) -> bytes:
        block = self.file.read(size)
        self.seen(block)
        return block
