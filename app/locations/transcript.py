"""What a question's rounds released, as bytes that are committed to, and what opens the commitments."""

import hmac
import zlib
from hashlib import sha256
from typing import Any

import numpy as np

from app.errors import IntegrityError
from app.panels.rounds import opening_of
from tiers.accounting.people import Nanos, People
from tiers.adaptive.space import Places
from tiers.canonical import Document, canonical_bytes

__all__ = [
    "ANSWER",
    "LEDGER",
    "TRANSCRIPT",
    "Transcript",
    "committed",
    "committed_ledger",
    "opening",
    "packed",
    "unpacked",
]

TRANSCRIPT, LEDGER, ANSWER = "location-transcript", "location-ledger", "location-answer"
_UNPACKED_MOST = 2**26


class Transcript:
    """Rounds as they are released, under one running commitment; memory does not grow with rounds.

    Example:
        >>> once = Transcript(bytes(32))
        >>> once.round(0, np.array([1, 4]), np.array([-3, 7]))
        >>> once.commitment()[:8]
        '2ae1bc5b'
    """

    def __init__(self, key: bytes) -> None:
        self._digest = hmac.new(key, digestmod=sha256)

    def round(self, place: int, who: People, values: Places) -> None:
        """Take a round: whom it asked (by place in the panel, rising), and their noisy values in steps."""
        self._digest.update(place.to_bytes(8, "little") + len(who).to_bytes(8, "little"))
        self._digest.update(np.ascontiguousarray(who, "<i8").tobytes())
        self._digest.update(np.ascontiguousarray(values, "<i8").tobytes())

    def commitment(self) -> str:
        """Return the commitment to the rounds so far."""
        return self._digest.hexdigest()


def opening(secret: bytes, panel: str, query: str, what: str) -> bytes:
    """Return what opens a commitment of a query: a key of its own, shown only with what it commits to."""
    return opening_of(secret, f"{panel}/{query}", 0, what)


def committed(key: bytes, document: dict[str, Document]) -> str:
    """Return the commitment to an answer."""
    return hmac.digest(key, canonical_bytes(document), sha256).hex()


def committed_ledger(key: bytes, spent: Nanos) -> str:
    """Return the commitment to what each person has spent."""
    return hmac.digest(key, spent.astype("<i8").tobytes(), sha256).hex()


def packed(units: Nanos) -> bytes:
    """Return one number a person, small: few of them differ."""
    return zlib.compress(units.astype("<i8").tobytes(), 1)


def unpacked(raw: bytes, people: int) -> Nanos:
    """Return the numbers of all people; raises IntegrityError where they are not one each.

    Example:
        >>> unpacked(packed(np.array([5, 6])), 2).tolist()
        [5, 6]
    """
    try:
        read: Any = zlib.decompressobj()
        whole = read.decompress(raw, _UNPACKED_MOST)
    except zlib.error:
        whole = b""
    if len(whole) != 8 * people:
        raise IntegrityError("location ledger: expected one number a person, got others")
    return np.frombuffer(whole, "<i8").astype(np.int64)
