"""A panel's reports: one file of its own, a row a device and round, and what each device has spent.

Devices stand under keyed digests; rows are kept, and numbered, in the order of these, which says nothing about when a
report came. A delivery is one transaction: all of it is kept, or none.
"""

import hmac
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from app.panels.intake import Batch, Refusal
from app.panels.journal import Journal, Taken

__all__ = ["Delivered", "Reports"]

_SHOWN = 100
_ANY = 2**63 - 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS reports (round INTEGER, tag BLOB, report BLOB, PRIMARY KEY (round, tag)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS devices (tag BLOB PRIMARY KEY, spent_nano INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (id INTEGER PRIMARY KEY CHECK (id = 1), place INTEGER NOT NULL);
"""
_IN_ORDER = "SELECT report FROM reports WHERE round = ? ORDER BY tag"
_BY_PATH = "SELECT report FROM reports WHERE round = ? ORDER BY substr(report, 1, 1), tag"
_DEVICES = "SELECT blind(tag) AS c FROM reports WHERE round = ? ORDER BY c"
_SPENDERS = "SELECT blind(tag) AS c, round FROM reports WHERE round <= ? ORDER BY c, round"
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

    Args:       folder: of the panel, made here. key: under which devices' names are digested. journal: where deliveries
                are written first; what it has and the file has not is taken in whenever the file is opened.
    """

    def __init__(self, folder: Path, key: bytes, journal: Journal) -> None:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path, self._key, self._journal = folder / "reports.db", key, journal

    def add(self, number: int, batches: Iterable[Batch], cost_nano: int, budget_nano: int) -> Delivered:
        """Take the rows of a delivery into a round: one report a device and round, charged to the device.

        A device's ε adds up over rounds, for its reports are independent; what would pass its budget is refused.
        """
        accepted = refused = 0
        shown: list[Refusal] = []
        with self._open() as store, self._journal.delivery() as delivery:
            for batch in batches:
                bad, taken = list(batch.refused), list[Taken]()
                for line, device, report in zip(batch.lines, batch.devices, batch.reports, strict=True):
                    tag = hmac.digest(self._key, device.encode(), sha256)
                    if not _one(store, "INSERT OR IGNORE INTO reports VALUES (?, ?, ?)", (number, tag, report)):
                        bad.append(Refusal(line, "one report a device and round"))
                    elif not _one(store, _SPEND, (tag, cost_nano, budget_nano)):
                        store.execute("DELETE FROM reports WHERE round = ? AND tag = ?", (number, tag))
                        bad.append(Refusal(line, "a device whose budget admits one more round"))
                    else:
                        accepted += 1
                        taken.append(Taken(number, tag, cost_nano, report))
                delivery.take(taken)
                refused += len(bad)
                shown += sorted(bad, key=lambda refusal: refusal.line)[: _SHOWN - len(shown)]
            delivery.end()
            _reach(store, self._journal.size)
        return Delivered(accepted, refused, tuple(shown))

    def count(self, number: int) -> int:
        """Return how many reports a round has."""
        with self._open() as store:
            found: int = store.execute("SELECT count(*) FROM reports WHERE round = ?", (number,)).fetchone()[0]
            return found

    def runs(self, number: int, rows: int, *, by_path: bool = False) -> Iterator[bytes]:
        """Yield a round's reports in their order, `rows` at a time, one after another.

        Args:       by_path: those of a path (a report's first byte) together.
        """
        with self._open() as store:
            found = store.execute(_BY_PATH if by_path else _IN_ORDER, (number,))
            while part := found.fetchmany(rows):
                yield b"".join(report for (report,) in part)

    def devices(self, number: int, blind: Callable[[bytes], bytes]) -> Iterator[bytes]:
        """Yield the commitments of the devices that reported in a round, rising; sorted out of core."""
        with self._open() as store:
            store.create_function("blind", 1, blind, deterministic=True)
            for (commitment,) in store.execute(_DEVICES, (number,)):
                yield commitment

    def spenders(self, last: int, blind: Callable[[bytes], bytes]) -> Iterator[tuple[bytes, list[int]]]:
        """Yield each device's commitment, rising, with its rounds up to `last`; sorted out of core."""
        with self._open() as store:
            store.create_function("blind", 1, blind, deterministic=True)
            for commitment, rows in groupby(store.execute(_SPENDERS, (last,)), key=itemgetter(0)):
                yield commitment, [number for _, number in rows]

    def spent(self, device: str) -> int:
        """Return what a device has spent, in 10⁻⁹ of ε."""
        tag = hmac.digest(self._key, device.encode(), sha256)
        with self._open() as store:
            row = store.execute("SELECT spent_nano FROM devices WHERE tag = ?", (tag,)).fetchone()
            return int(row[0]) if row else 0

    def _catch_up(self, store: sqlite3.Connection) -> None:
        """Take in what the journal has after the place that the file reached: it was admitted then, and is now."""
        reached = store.execute("SELECT place FROM journal").fetchone()
        place = int(reached[0]) if reached else 0
        for taken in self._journal.since(place):
            for row in taken:
                if _one(store, "INSERT OR IGNORE INTO reports VALUES (?, ?, ?)", (row.round, row.tag, row.report)):
                    _one(store, _SPEND, (row.tag, row.cost_nano, _ANY))
        if self._journal.size != place:
            _reach(store, self._journal.size)

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
                self._catch_up(store)
                yield store
            except BaseException:
                store.execute("ROLLBACK")
                raise
            store.execute("COMMIT")
        finally:
            store.close()


def _reach(store: sqlite3.Connection, place: int) -> None:
    store.execute("INSERT INTO journal VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET place = excluded.place", (place,))


def _one(store: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> bool:
    return store.execute(statement, values).rowcount == 1
