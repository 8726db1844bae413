"""Issued answers kept in this process, ready to be sent, each for one key and under the rights it was read with."""

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass

__all__ = ["IssuedAnswers", "Ready", "RequestName"]

RequestName = tuple[bytes, str, bytes, bytes | None]
"""What makes two requests the same: the API key (as a keyed digest), path, query, and what is accepted."""

_OVERHEAD = 1_000


@dataclass(frozen=True, slots=True)
class Ready:
    """An answer as it is sent, and the rights that were checked for it: whose, and at which epoch."""

    route: str
    epoch: int
    account: str
    pseudonym: str
    etag: str
    kept: tuple[tuple[bytes, bytes], ...]
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class IssuedAnswers:
    """Answers by request, the least recently used forgotten beyond a number of bytes.

    An issued answer never changes; what may change is who may read it. So a copy is good for the epoch of rights at
    which key and entitlement were read in one transaction, and for no other.
    """

    def __init__(self, limit_bytes: int = 2**25) -> None:
        self._limit, self._held = limit_bytes, 0
        self._secret = secrets.token_bytes(32)
        self._kept: OrderedDict[RequestName, Ready] = OrderedDict()

    def name(self, authorization: bytes, path: str, query: bytes, accept: bytes | None) -> RequestName:
        """Return a request's name; of the key only a digest under a secret of this process is kept and compared."""
        digest = hashlib.blake2b(authorization, digest_size=16, key=self._secret).digest()
        return digest, path, query, accept

    def find(self, name: RequestName, epoch: int) -> Ready | None:
        """Return what was kept for a request at this epoch of rights, if anything."""
        found = self._kept.get(name)
        if found is None or found.epoch != epoch:
            return None
        self._kept.move_to_end(name)
        return found

    def keep(self, name: RequestName, ready: Ready) -> None:
        """Keep an answer for a request."""
        self._forget(name)
        self._kept[name] = ready
        self._held += _size(name, ready)
        while self._held > self._limit:
            self._forget(next(iter(self._kept)))

    def _forget(self, name: RequestName) -> None:
        ready = self._kept.pop(name, None)
        if ready is not None:
            self._held -= _size(name, ready)


def _size(name: RequestName, ready: Ready) -> int:
    return _OVERHEAD + len(name[1]) + len(name[2]) + len(name[3] or b"") + len(ready.body)
