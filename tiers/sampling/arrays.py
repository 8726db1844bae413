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
    "Workspace",
    "check_arrays",
    "check_counts",
    "trust",
    "workspace",
]

Integers: TypeAlias = npt.NDArray[np.int64]
Raw: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
COUNT_LIMIT = 2**62


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


def check_arrays(counts: Integers, out: Integers) -> None:
    """Refuse arrays that are not int64 vectors of one length."""
    for array in (counts, out):
        if array.dtype != np.int64 or array.ndim != 1 or len(array) != len(counts):
            raise InvalidParameterError("counts", "int64 vectors of one length", (array.dtype, array.shape))


def check_counts(counts: Integers) -> None:
    """Refuse counts beyond ±2⁶²: their sum with noise could wrap (such counts go through Python integers)."""
    if counts.max(initial=0) > COUNT_LIMIT or counts.min(initial=0) < -COUNT_LIMIT:
        raise InvalidParameterError("counts", "within ±2⁶², so that no sum wraps", "a count beyond")


def trust(_: Integers) -> None:
    """Check nothing: these counts were seen by `check_counts` before noise was added to them."""
