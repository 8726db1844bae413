"""Sealed files: frames under the storage key, each bound to its file, to its place and to being the last or not."""

import hmac
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO

from app.errors import IntegrityError
from app.keyring import Keyring

__all__ = ["Sealer", "open_sealed"]

_FRAME = 2**18
_LENGTH = 4
_ETAG_DIGITS = 32


class Sealer:
    """A file that is written sealed; it has its name only once it is whole and durable.

    The first frame is a label that readers get first. A file of the same name is replaced: whoever does the same work
    again writes the same.

    Args:       name: what binds the frames to this file, in place of any other.
    """

    def __init__(self, path: Path, keyring: Keyring, name: str, label: bytes) -> None:
        self._path, self._keyring, self._name = path, keyring, name
        self._partial = path.with_name(f"{path.name}.part")
        self._partial.unlink(missing_ok=True)
        self._file: IO[bytes] = os.fdopen(os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._digest = hmac.new(keyring.content, b"tiermarket/export/1\n", sha256)
        self._frames, self._held, self.size = 0, bytearray(), 0
        self._put(label, last=False)

    def __enter__(self) -> "Sealer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give the file its name, or leave none."""
        if kind is not None:
            self._file.close()
            self._partial.unlink(missing_ok=True)
            return
        self._put(bytes(self._held), last=True)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @property
    def etag(self) -> str:
        """Return the strong ETag of what was written: a keyed digest, so that it opens nothing that is sealed."""
        return f'"{self._digest.hexdigest()[:_ETAG_DIGITS]}"'

    def write(self, data: bytes) -> int:
        """Append; frames are sealed as they fill."""
        self._digest.update(data)
        self.size += len(data)
        self._held += data
        while len(self._held) > _FRAME:
            self._put(bytes(self._held[:_FRAME]), last=False)
            del self._held[:_FRAME]
        return len(data)

    def flush(self) -> None:
        """Do nothing: what writes archives expects it."""

    def _put(self, frame: bytes, *, last: bool) -> None:
        sealed = self._keyring.seal(frame, _context(self._name, self._frames, last=last))
        self._file.write(len(sealed).to_bytes(_LENGTH, "big") + sealed)
        self._frames += 1


def open_sealed(path: Path, keyring: Keyring, name: str) -> Iterator[bytes]:
    """Yield the label and then the frames of a sealed file.

    Raises:     FileNotFoundError: there is none. IntegrityError: it is not what was written: altered, of another name,
                out of order or cut short.
    """
    with path.open("rb") as file:
        place = 0
        while length := file.read(_LENGTH):
            sealed = file.read(int.from_bytes(length, "big"))
            last = _at_end(file)
            yield keyring.unseal(sealed, _context(name, place, last=last))
            if last:
                return
            place += 1
    raise IntegrityError("export: expected the file that was written, got another")


def _at_end(file: IO[bytes]) -> bool:
    here = file.read(1)
    if here:
        file.seek(-1, os.SEEK_CUR)
    return not here


def _context(name: str, place: int, *, last: bool) -> str:
    return f"export/{name}/{place}/{'last' if last else 'more'}"
