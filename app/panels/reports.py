"""A panel's reports: one file of its own, a row a device and round, and what each device has spent.

Devices stand under keyed digests; rows are kept, and numbered, in the order of these, which says nothing about when a
report came. A delivery is one transaction: all of it is kept, or none.
"""

import hmac
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from app.panels.intake import Batch, Refusal

__all__ = ["Delivered", "Reports"]

_SHOWN = 100
_SCHEMA = """
CREATE TABLE IF NOT EXISTS reports (round INTEGER, tag BLOB, report BLOB, PRIMARY KEY (round, tag)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS devices (tag BLOB PRIMARY KEY, spent_nano INTEGER NOT NULL) WITHOUT ROWID;
"""
_SPEND = (
    "INSERT INTO devices VALUES (?, ?) ON CONFLICT (tag) DO UPDATE SET spent_nano = spent_nano + excluded.spent_nano "
    "WHERE spent_nano + excluded.spent_nano <= ?"
)


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of a delivery: rows taken, rows refused, and the first refusals."""

    accepted: int
    refused: int
    refusals: tuple[Refusal, ...]


class Reports:
    """The file of one panel.

    Args:       folder: of the panel, made here. key: under which devices' names are digested.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path, self._key = folder / "reports.db", key

    def add(self, number: int, batches: Iterable[Batch], cost_nano: int, budget_nano: int) -> Delivered:
        """Take the rows of a delivery into a round: one report a device and round, charged to the device.

        A device's ε adds up over rounds, for its reports are independent; what would pass its budget is refused.
        """
        accepted = refused = 0
        shown: list[Refusal] = []
        with self._open() as store:
            for batch in batches:
                bad = list(batch.refused)
                for line, device, report in zip(batch.lines, batch.devices, batch.reports, strict=True):
                    tag = hmac.digest(self._key, device.encode(), sha256)
                    if not _one(store, "INSERT OR IGNORE INTO reports VALUES (?, ?, ?)", (number, tag, report)):
                        bad.append(Refusal(line, "one report a device and round"))
                    elif not _one(store, _SPEND, (tag, cost_nano, budget_nano)):
                        store.execute("DELETE FROM reports WHERE round = ? AND tag = ?", (number, tag))
                        bad.append(Refusal(line, "a device whose budget admits one more round"))
                    else:
                        accepted += 1
                refused += len(bad)
                shown += sorted(bad, key=lambda refusal: refusal.line)[: _SHOWN - len(shown)]
        return Delivered(accepted, refused, tuple(shown))

    def count(self, number: int) -> int:
        """Return how many reports a round has."""
        with self._open() as store:
            found: int = store.execute("SELECT count(*) FROM reports WHERE round = ?", (number,)).fetchone()[0]
            return found

    def runs(self, number: int, rows: int) -> Iterator[bytes]:
        """Yield a round's reports in their order, `rows` at a time, one after another."""
        with self._open() as store:
            found = store.execute("SELECT report FROM reports WHERE round = ? ORDER BY tag", (number,))
            while part := found.fetchmany(rows):
                yield b"".join(report for (report,) in part)

    def spent(self, device: str) -> int:
        """Return what a device has spent, in 10⁻⁹ of ε."""
        tag = hmac.digest(self._key, device.encode(), sha256)
        with self._open() as store:
            row = store.execute("SELECT spent_nano FROM devices WHERE tag = ?", (tag,)).fetchone()
            return int(row[0]) if row else 0

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            self._path.touch(mode=0o600)
        store = sqlite3.connect(self._path, isolation_level=None, timeout=60)
        try:
            store.execute("PRAGMA synchronous=FULL")
            store.executescript(_SCHEMA)
            store.execute("BEGIN IMMEDIATE")
            try:
                yield store
            except BaseException:
                store.execute("ROLLBACK")
                raise
            store.execute("COMMIT")
        finally:
            store.close()


def _one(store: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> bool:
    return store.execute(statement, values).rowcount == 1
