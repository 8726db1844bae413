"""Deliveries on their way to a panel's file: written beside the redo file first, so that a lost disk loses no report.

A delivery is lines of sealed rows and then its end, which says how many there were. One that has no end was never
acknowledged, and is cut off. Where the panel's file is older than the journal (it is from a backup, or a crash came
between the two), what it lacks is taken in before anything else is.
"""

import base64
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from app.errors import IntegrityError
from app.keyring import Keyring
from app.settings import Settings

__all__ = ["Delivery", "Journal", "Taken", "journals_of"]


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """A report that was taken: its round, its device's digest, what it cost, itself."""

    round: int
    tag: bytes
    cost_nano: int
    report: bytes


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows of a delivery, sealed; or, at its end, how many such lines there were."""

    rows: str | None = None
    end: int | None = None


_ROWS = msgspec.msgpack.Decoder(list[Taken])
_LINES = msgspec.json.Decoder(_Line)


def journals_of(redo: Path) -> Path:
    """Return the folder of panels' journals that belongs to a redo file."""
    return redo.with_name(f"{redo.name}-panels")


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one panel. Whoever writes holds the panel's turn."""

    path: Path
    keyring: Keyring
    context: str

    @classmethod
    def of(cls, settings: Settings, keyring: Keyring, panel: str) -> "Journal":
        """Return the journal of a panel: beside the redo file, under the panel's name."""
        return cls(journals_of(settings.redo) / f"{panel}.jsonl", keyring, f"panel-journal/{panel}")

    def since(self, place: int) -> Iterator[list[Taken]]:
        """Yield the rows of whole deliveries after a place; cut off one that has no end.

        Raises:     IntegrityError: the journal is shorter than the place, or something else than was written.
        """
        if not self.path.exists():
            if place:
                raise IntegrityError("panel: expected the journal of its deliveries, got none")
            return
        with self.path.open("r+b") as file:
            whole = self._whole(file, place)
            file.truncate(whole)
            file.seek(place)
            while file.tell() < whole:
                line = self._read(file.readline())
                if line.rows is not None:
                    yield self._rows(line.rows)

    def _whole(self, file: IO[bytes], place: int) -> int:
        """Return where the last whole delivery ends; each must have as many rows as its end says."""
        if file.seek(0, os.SEEK_END) < place:
            raise IntegrityError("panel: expected the journal that its file was written with, got a shorter one")
        file.seek(place)
        whole, lines = place, 0
        while (raw := file.readline()).endswith(b"\n"):
            line = self._read(raw)
            lines += 1
            if line.end is not None:
                if line.end != lines - 1:
                    raise IntegrityError("panel: expected a whole delivery in its journal, got another")
                whole, lines = file.tell(), 0
        return whole

    @contextmanager
    def delivery(self) -> Iterator["Delivery"]:
        """Write one delivery, line by line, after the last whole one: it counts only once it has ended."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            yield Delivery(self, file)

    @property
    def size(self) -> int:
        """Return how long the journal is."""
        return self.path.stat().st_size if self.path.exists() else 0

    def seal(self, rows: Sequence[Taken]) -> str:
        """Return rows as a line holds them."""
        return base64.b64encode(self.keyring.seal(msgspec.msgpack.encode(rows), self.context)).decode()

    def _read(self, raw: bytes) -> _Line:
        try:
            return _LINES.decode(raw)
        except msgspec.MsgspecError:
            raise IntegrityError("panel: expected a line of its journal, got something else") from None

    def _rows(self, sealed: str) -> list[Taken]:
        try:
            return _ROWS.decode(self.keyring.unseal(base64.b64decode(sealed, validate=True), self.context))
        except (msgspec.MsgspecError, ValueError):
            raise IntegrityError("panel: expected rows of its journal, got something else") from None


class Delivery:
    """A delivery while it is written."""

    def __init__(self, journal: Journal, file: IO[bytes]) -> None:
        self._journal, self._file, self._lines = journal, file, 0

    def take(self, rows: Sequence[Taken]) -> None:
        """Write rows that were taken."""
        if rows:
            self._file.write(msgspec.json.encode(_Line(rows=self._journal.seal(rows))) + b"\n")
            self._lines += 1

    def end(self) -> None:
        """End the delivery, durably; one without rows leaves nothing."""
        if self._lines:
            self._file.write(msgspec.json.encode(_Line(end=self._lines)) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
