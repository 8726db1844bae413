"""Sealed contents: frames under the storage key, each bound to its blob, to its place and to being the last or not."""

import hmac
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TypeAlias

from app.errors import ConflictError, IntegrityError
from app.keyring import Keyring

__all__ = ["MOST_BYTES", "Put", "Sealer", "unsealed"]

MOST_BYTES = 2**30
_FRAME = 2**18
_FEWEST = 2
_TOGETHER = 4
_ETAG_DIGITS = 32

Put: TypeAlias = Callable[[int, Sequence[bytes]], None]
"""Stores sealed frames from a place on."""


class Sealer:
    """Contents that are written sealed, a few frames at a time; they are whole once the block that wrote them ends.

    The first frame is a label that readers get first.

    Args:       name: what binds the frames to this blob, in place of any other. put: stores what is sealed.
    """

    def __init__(self, put: Put, keyring: Keyring, name: str, label: bytes) -> None:
        self._put, self._keyring, self._name = put, keyring, name
        self._digest = hmac.new(keyring.content, b"tiermarket/export/1\n", sha256)
        self._held, self._sealed = bytearray(), list[bytes]()
        self.frames, self.size = 0, 0
        self._seal(label, last=False)

    def __enter__(self) -> "Sealer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Seal what is left as the last frame; after an error nothing more, and so no whole."""
        if kind is None:
            self._seal(bytes(self._held), last=True)
            self._pass_on()

    @property
    def etag(self) -> str:
        """Return the strong ETag of what was written: a keyed digest, so that it opens nothing that is sealed."""
        return f'"{self._digest.hexdigest()[:_ETAG_DIGITS]}"'

    def write(self, data: bytes) -> int:
        """Append; frames are sealed as they fill.

        Raises:     ConflictError: it is more than an export may hold.
        """
        self.size += len(data)
        if self.size > MOST_BYTES:
            raise ConflictError(f"export: expected at most {MOST_BYTES} bytes, got more (ask for less at once)")
        self._digest.update(data)
        self._held += data
        while len(self._held) > _FRAME:
            self._seal(bytes(self._held[:_FRAME]), last=False)
            del self._held[:_FRAME]
        return len(data)

    def flush(self) -> None:
        """Do nothing: what writes archives expects it."""

    def _seal(self, frame: bytes, *, last: bool) -> None:
        self._sealed.append(self._keyring.seal(frame, _context(self._name, self.frames, last=last)))
        self.frames += 1
        if len(self._sealed) >= _TOGETHER:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._sealed:
            self._put(self.frames - len(self._sealed), self._sealed)
            self._sealed = []


def unsealed(read: Callable[[int], bytes | None], frames: int, keyring: Keyring, name: str) -> Iterator[bytes]:
    """Yield the label and then the contents of a blob of so many frames.

    Raises:     IntegrityError: it is not what was written: altered, of another name, out of order or cut short.
    """
    if frames < _FEWEST:
        raise IntegrityError("export: expected a label and what it is of, got less")
    for place in range(frames):
        sealed = read(place)
        if sealed is None:
            raise IntegrityError("export: expected all frames that were written, got fewer")
        yield keyring.unseal(sealed, _context(name, place, last=place == frames - 1))


def _context(name: str, place: int, *, last: bool) -> str:
    return f"export/{name}/{place}/{'last' if last else 'more'}"
