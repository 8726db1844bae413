"""What all vector samplers share: arrays of counts, their checks, and room for one chunk of a vector."""

import threading
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError

__all__ = [
    "COUNT_LIMIT",
    "Integers",
    "Raw",
    "Scratch",
    "Workspace",
    "check_arrays",
    "check_counts",
    "scratch",
    "trust",
    "workspace",
]

Integers: TypeAlias = npt.NDArray[np.int64]
Raw: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
COUNT_LIMIT = 2**62
_INT64 = np.dtype(np.int64)


class Workspace:
    """Room for one chunk of a vector: raw words, indices, small outcomes."""

    __slots__ = ("index", "raw", "small")

    def __init__(self, size: int, group_bytes: int) -> None:
        self.raw = bytearray(size * group_bytes + 64)
        self.index = np.empty(size, np.intp)
        self.small = np.empty(size, np.int16)


_KEPT = threading.local()


def workspace(size: int, group_bytes: int) -> Workspace:
    """Return this thread's work space, at least so large: fresh memory costs more than the draws that it serves."""
    kept: Workspace | None = getattr(_KEPT, "space", None)
    if kept is None or len(kept.index) < size or len(kept.raw) < size * group_bytes + 64:
        rows = max(size, len(kept.index) if kept else 0)
        kept = _KEPT.space = Workspace(rows, max(group_bytes, len(kept.raw) // rows if kept else 0))
    return kept


_ROOM = threading.local()


class Scratch:
    """Room for the trials of one thread: fresh memory costs more than the trials in it."""

    __slots__ = ("cell", "level", "offset", "packed", "sure", "words")

    def __init__(self, size: int) -> None:
        self.words = np.empty(size, np.uint64)
        self.cell = np.empty(size, np.int64)
        self.offset, self.level, self.packed, self.sure = (np.empty(size, np.int32) for _ in range(4))


def scratch(size: int) -> Scratch:
    """Return this thread's room, at least so long."""
    kept: Scratch | None = getattr(_ROOM, "rows", None)
    if kept is None or len(kept.cell) < size:
        kept = _ROOM.rows = Scratch(size)
    return kept


def check_arrays(counts: Integers, out: Integers) -> None:
    """Refuse arrays that are not int64 vectors of one length."""
    for array in (counts, out):
        if array.dtype != _INT64 or array.ndim != 1 or len(array) != len(counts):
            raise InvalidParameterError("counts", "int64 vectors of one length", (array.dtype, array.shape))


def check_counts(counts: Integers) -> None:
    """Refuse counts beyond ±2⁶²: their sum with noise could wrap (such counts go through Python integers)."""
    if counts.max(initial=0) > COUNT_LIMIT or counts.min(initial=0) < -COUNT_LIMIT:
        raise InvalidParameterError("counts", "within ±2⁶², so that no sum wraps", "a count beyond")


def trust(_: Integers) -> None:
    """Check nothing: these counts were seen by `check_counts` before noise was added to them."""
