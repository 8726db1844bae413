"""Snapshot files, opened once and checked against their seal before each truth is read."""

import threading

from app.engine.state import ChainState
from app.engines.duckdb_engine import DuckDBSnapshot, seal
from app.errors import IntegrityError
from app.keyring import Keyring

__all__ = ["SnapshotFiles"]


class SnapshotFiles:
    """The open snapshots of this process."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._open: dict[str, DuckDBSnapshot] = {}
        self._lock = threading.Lock()

    def truth(self, chain: ChainState) -> tuple[int, ...]:
        """Return the exact answer of a chain's question, from the very bytes that were sealed.

        Raises:     IntegrityError: the file is missing or altered; nothing is read from it.
        """
        if seal(chain.file, self._keyring.content) != chain.seal:
            raise IntegrityError("snapshot: expected the content that was sealed, got other content")
        with self._lock:
            if chain.snapshot not in self._open:
                self._open[chain.snapshot] = DuckDBSnapshot(chain.file)
            snapshot = self._open[chain.snapshot]
        return snapshot.answer(chain.query)

    def close(self) -> None:
        """Close every file."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
