"""The files of panels in a backup: which there are, a copy of one moment of each, and their way back."""

import re
import sqlite3
from collections.abc import Container, Iterator
from contextlib import closing
from pathlib import Path

__all__ = ["FOLDER", "is_panel_file", "panel_files", "place_panels"]

FOLDER = "panels"
_REPORTS = "reports.db"
_TIER = re.compile(r"([^/]+)/round-([0-9]+)/([0-9]+)\.bin")
_NAME = re.compile(r"panels/[A-Za-z0-9_-]+/(?:reports\.db|round-[0-9]+/[0-9]+\.bin)")


def is_panel_file(name: str) -> bool:
    """Return whether a backup may hold a file of this name as one of a panel.

    >>> is_panel_file("panels/panel_1/round-2/0.bin"), is_panel_file("panels/../reports.db")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def panel_files(panel: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield the names in a backup of one panel's files, and where to read each: reports first, in a copy of one moment.

    Whoever calls holds the panel's turn: no round closes meanwhile, so that a round's folder is whole or not there.

    Args:       panel: its folder. scratch: a new file, for the copy.
    """
    if (panel / _REPORTS).is_file():
        scratch.touch(mode=0o600, exist_ok=False)
        with closing(sqlite3.connect(panel / _REPORTS, timeout=60)) as held, closing(sqlite3.connect(scratch)) as copy:
            held.backup(copy)
        yield f"{FOLDER}/{panel.name}/{_REPORTS}", scratch
    for path in sorted(panel.glob("round-*/*.bin")):
        name = path.relative_to(panel.parent.parent).as_posix()
        if is_panel_file(name) and path.is_file() and not path.is_symlink():
            yield name, path


def place_panels(source: Path, target: Path, journals: Path, closed: Container[tuple[str, int, int]]) -> None:
    """Move restored files where none are; those that are there already are as new as the backup or newer, and stay.

    A tier's file that the backup's store does not know is left out, and derived again where it is due: a closing that
    failed, or a tier that was not added after all, left it, and what has its name by the end of the replay may be
    another.

    Args:       journals: folder of the panels' journals: a file whose journal is gone starts a new one, one that stays
                too. closed: the tiers that the backup's store knows, by panel, round and rank.
    """
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        tier = _TIER.fullmatch(path.relative_to(source).as_posix())
        if tier is not None and (tier[1], int(tier[2]), int(tier[3])) not in closed:
            continue
        place = target / path.relative_to(source)
        for folder in (target, target / path.relative_to(source).parts[0], place.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        if place.exists():
            continue
        if place.name == _REPORTS:  # a journal that outlived its file would be played into this one
            place.with_name(f"{_REPORTS}-journal").unlink(missing_ok=True)
        path.replace(place)
    for place in target.glob(f"*/{_REPORTS}"):
        if not (journals / f"{place.parent.name}.jsonl").exists():
            with closing(sqlite3.connect(place, timeout=60)) as held, held:
                held.execute("DROP TABLE IF EXISTS journal")
