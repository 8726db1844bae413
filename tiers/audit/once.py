"""What may come once, in 24 bytes a name: a log of any length is checked for repeats without keeping its names."""

import hashlib
from array import array

import numpy as np
import numpy.typing as npt

__all__ = ["Once"]

_BYTES = 16


class Once:
    """Names in the order in which they came, each with its place; repeats are found when all have been added.

    Guarantee:  a repeat is always found; two different names pass for one with probability below n²/2¹²⁹.
    Example:
        >>> once = Once()
        >>> for place, name in enumerate(["a", "b", "a"]):
        ...     once.add(name, place)
        >>> once.repeated(), once.first("b"), once.first("c")
        ([(0, 2)], 1, None)
    """

    __slots__ = ("_digests", "_places", "_sorted")

    def __init__(self) -> None:
        self._digests = bytearray()
        self._places = array("Q")
        self._sorted: tuple[npt.NDArray[np.uint64], npt.NDArray[np.intp]] | None = None

    def __len__(self) -> int:
        return len(self._places)

    def add(self, name: str, place: int) -> None:
        """Add a name."""
        self._digests += hashlib.blake2b(name.encode(), digest_size=_BYTES).digest()
        self._places.append(place)
        self._sorted = None

    def place(self, number: int) -> int:
        """Return the place of the name that was added as the `number`th, from 0."""
        return self._places[number]

    def repeated(self) -> list[tuple[int, int]]:
        """Return (first place, later place) of every name that came again, in the order of the later places."""
        halves, order = self._index()
        same = np.flatnonzero((halves[order[1:]] == halves[order[:-1]]).all(axis=1)) + 1
        found, repeats = [], {int(at) for at in same}
        for at in sorted(repeats):
            first = at - 1
            while first in repeats:
                first -= 1
            found.append((self._places[int(order[first])], self._places[int(order[at])]))
        return sorted(found, key=lambda pair: pair[1])

    def first(self, name: str) -> int | None:
        """Return the number (from 0, in the order of adding) under which a name came first; None where it never did."""
        halves, order = self._index()
        wanted = np.frombuffer(hashlib.blake2b(name.encode(), digest_size=_BYTES).digest(), dtype=np.uint64)
        high = halves[order, 0]
        low = int(np.searchsorted(high, wanted[0], side="left"))
        for at in range(low, int(np.searchsorted(high, wanted[0], side="right"))):
            if halves[order[at], 1] == wanted[1]:
                return int(order[at])
        return None

    def _index(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.intp]]:
        if self._sorted is None:
            halves = np.frombuffer(bytes(self._digests), dtype=np.uint64).reshape(-1, 2)
            self._sorted = halves, np.lexsort((halves[:, 1], halves[:, 0]))
        return self._sorted
