"""The log's own file: one line a transaction, with signed heads and leaves in clear and the other changes sealed.

A line is written inside the transaction, before its commit, while the writers' lock is held: the file can be ahead of
the store by transactions that nobody was told of, never behind by one that somebody was (see docs/operations.md).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from app.errors import ForkedLogError, StoreUnavailableError
from app.files import sync
from app.log.heads import TreeHead
from app.log.leaf_base import Hex, Natural

__all__ = ["ORIGIN", "Mark", "RedoFile", "RedoRecord"]

ORIGIN = "0" * 64


class RedoRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One transaction: the `n`th that was recorded, chained to the one before by its digest.

    `changes` holds sealed statements; None marks a place where the store was found ahead of the file. `void` says that
    the store refused the transaction for certain.
    """

    n: Natural
    previous: Hex
    digest: Hex
    heads: list[TreeHead] = []
    leaves: list[str] = []
    changes: bytes | None = None
    void: bool = False

    @classmethod
    def of(cls, mark: "Mark", heads: list[TreeHead], leaves: list[str], changes: bytes) -> "RedoRecord":
        """Return the record that follows a mark."""
        n = mark.n + 1
        body = msgspec.json.encode([n, mark.digest, heads, leaves, changes])
        digest = sha256(b"tiermarket/redo/1\n" + body).hexdigest()
        return cls(n=n, previous=mark.digest, digest=digest, heads=heads, leaves=leaves, changes=changes)

    @property
    def mark(self) -> "Mark":
        """Return where this record leaves the store."""
        return Mark(self.n, self.digest)

    @property
    def whole(self) -> bool:
        """Return whether the digest is that of what the record holds."""
        before = Mark(self.n - 1, self.previous)
        return self.changes is not None and self == RedoRecord.of(before, self.heads, self.leaves, self.changes)


@dataclass(frozen=True, slots=True)
class Mark:
    """How many transactions were recorded, and the digest that chains them all."""

    n: int = 0
    digest: str = ORIGIN


@dataclass(frozen=True, slots=True)
class _End:
    """What the file's end says: where the store must be, its head, and the record that led there."""

    mark: Mark
    head: TreeHead | None
    record: RedoRecord | None


_DECODER = msgspec.json.Decoder(RedoRecord)
_PIECE = 2**20


class RedoFile:
    """The file of one machine. All but `sync` and `records` are called with the writers' lock held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open()

    def _open(self) -> None:
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._read = 0
        self._ends = [_End(Mark(), None, None)]

    @property
    def last(self) -> Mark:
        """Return the mark of the last transaction in the file."""
        return self._ends[-1].mark

    @property
    def head(self) -> TreeHead | None:
        """Return the newest signed head in the file."""
        return self._ends[-1].head

    @property
    def newest(self) -> RedoRecord | None:
        """Return the last record."""
        return self._ends[-1].record

    def refresh(self) -> None:
        """Read what other processes have written since; a line that a crash cut short is taken off.

        Memory is that of the longest record, however much was written.

        Raises:     ForkedLogError: the file holds something that is no record.
        """
        self._reopen_if_replaced()
        begun: list[bytes] = []
        at = self._read
        while piece := os.pread(self._handle, _PIECE, at):
            at += len(piece)
            first, *later = piece.split(b"\n")
            begun.append(first)
            for rest in later:
                line = b"".join(begun)
                self._take(_decode(line))
                self._read += len(line) + 1
                begun = [rest]
        if at > self._read:
            os.ftruncate(self._handle, self._read)

    def append(self, record: RedoRecord) -> None:
        """Write a record; it is durable after the next `sync`.

        Raises:     StoreUnavailableError: it could not be written; the file is as it was.
        """
        line = msgspec.json.encode(record) + b"\n"
        try:
            written = os.write(self._handle, line)
        except OSError:
            written = -1
        if written != len(line):
            os.ftruncate(self._handle, self._read)
            raise StoreUnavailableError("redo file: expected room for a record, got none")
        self._read += written
        self._take(record)

    def sync(self) -> None:
        """Return once everything that was written is durable."""
        os.fsync(self._handle)

    def records(self) -> Iterator[RedoRecord]:
        """Yield the records that stand, in order: a void one takes the one before it away."""
        pending: RedoRecord | None = None
        with self.path.open("rb") as lines:
            for line in lines:
                record = _decode(line)
                if pending is not None and not record.void:
                    yield pending
                pending = None if record.void else record
        if pending is not None:
            yield pending

    def compact(self, n: int, head: TreeHead | None) -> int:
        """Leave out the records up to number `n`, which a backup with this head holds; return how many were left out.

        The file is replaced in one step; other processes go on with the new one. An older backup can no longer be
        replayed from it.

        Raises:     ForkedLogError: the file knows another history of that length.
        """
        kept: list[RedoRecord] = []
        last: RedoRecord | None = None
        known, count = None, 0
        for record in self.records():
            if record.n > n:
                kept.append(record)
                continue
            last, count = record, count + 1
            known = record.heads[-1] if record.heads else known
        if last is None or last.n != n or (head is not None and known is not None and known.root != head.root):
            raise ForkedLogError("redo file: expected the history that the backup holds, got another")
        first = RedoRecord(n=n, previous=ORIGIN, digest=last.digest, heads=[head] if head else [])
        partial = self.path.with_name(f".{self.path.name}.partial")
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.writelines(msgspec.json.encode(record) + b"\n" for record in (first, *kept))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)
        sync(self.path.parent)
        self.refresh()
        return count - 1

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _take(self, record: RedoRecord) -> None:
        before = self._ends[-1]
        if record.void:
            self._ends = self._ends[:1]
        else:
            head = record.heads[-1] if record.heads else before.head
            self._ends = [before, _End(record.mark, head, record)]

    def _reopen_if_replaced(self) -> None:
        held = os.fstat(self._handle)
        try:
            named = self.path.stat()
        except FileNotFoundError:
            named = None
        if named is None or (named.st_ino, named.st_dev) != (held.st_ino, held.st_dev) or held.st_size < self._read:
            os.close(self._handle)
            self._open()


def _decode(line: bytes) -> RedoRecord:
    try:
        return _DECODER.decode(line)
    except msgspec.MsgspecError:
        raise ForkedLogError("redo file: expected one record a line, got something else") from None
