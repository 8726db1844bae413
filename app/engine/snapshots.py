"""Snapshots, files or tables, opened once and checked against their seal before each truth is read."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from app.engine.state import ChainState
from app.engines.duckdb_engine import DuckDBSnapshot, named_numbers, seal
from app.engines.errors import EngineError
from app.engines.postgres_engine import PostgresSnapshot
from app.engines.rendering import PostgresTable
from app.errors import IntegrityError, SnapshotAbsentError
from app.keyring import Keyring
from app.sources import Source

__all__ = ["Kept", "SnapshotFiles"]


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a snapshot is: a file of this machine, or a table of the server `source`; and what it was sealed as."""

    snapshot: str
    file: Path
    source: str | None
    seal: str


class SnapshotFiles:
    """The open snapshots of this process."""

    def __init__(self, keyring: Keyring, sources: Mapping[str, Source] = MappingProxyType({})) -> None:
        self._keyring, self._sources = keyring, sources
        self._open: dict[str, DuckDBSnapshot | PostgresSnapshot] = {}
        self._lock = threading.Lock()

    def truth(self, chain: ChainState) -> tuple[int, ...]:
        """Return the exact answer of a chain's question, from the very bytes that were sealed.

        Raises:     SnapshotAbsentError: the file is not on this machine. IntegrityError: file or table are altered;
                    nothing is read from them.
                    EngineError: the server that keeps the table does not answer, or is no longer named.
        """
        if chain.source is not None:
            kept = self._kept(chain.source, chain.snapshot)
            return kept.checked(chain.query, self._keyring.content, chain.seal)
        self._sealed(chain.file, chain.seal)
        with self._lock:
            if chain.snapshot not in self._open:
                self._open[chain.snapshot] = DuckDBSnapshot(chain.file)
            snapshot = self._open[chain.snapshot]
        return snapshot.answer(chain.query)

    def named_numbers(self, kept: Kept, question: exp.Select) -> tuple[list[str], npt.NDArray[np.float64]]:
        """Return a compiled question's rows: the texts that come first, and the numbers after them, NaN for none.

        Raises:     as `truth`.
        """
        if kept.source is None:
            self._sealed(kept.file, kept.seal)
            return named_numbers(kept.file, question)
        held = self._kept(kept.source, kept.snapshot)
        rows = held.checked_rows(question, self._keyring.content, kept.seal)
        numbers = np.array([row[1:] for row in rows], np.float64)
        return [str(row[0]) for row in rows], numbers.reshape(len(rows), len(question.selects) - 1)

    def _sealed(self, file: Path, expected: str) -> None:
        if not file.is_file():
            raise SnapshotAbsentError("snapshot: expected its file on this machine, got none")
        if seal(file, self._keyring.content) != expected:
            raise IntegrityError("snapshot: expected the content that was sealed, got other content")

    def _kept(self, source: str, snapshot: str) -> PostgresSnapshot:
        if source not in self._sources:
            raise EngineError
        named = self._sources[source]
        with self._lock:
            opened = self._open.get(snapshot)
            if not isinstance(opened, PostgresSnapshot):
                opened = PostgresSnapshot(named.reader, PostgresTable(named.schema, snapshot))
                self._open[snapshot] = opened
            return opened

    def close(self) -> None:
        """Close every file."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
