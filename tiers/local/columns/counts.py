"""How many reports cover each value: bits counted by position, 64 at a time."""

from threading import local

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.local.local_hash import buckets_of

__all__ = ["covered_by_hash", "covered_by_sets", "covered_by_values"]

Columns = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
_CHUNK = 2**20
_FEW = 96  # below 256: their sums are bytes
_KEPT = local()


def covered_by_sets(domain_size: int, sets: npt.NDArray[np.unsignedinteger]) -> Counts:
    """Return how many sets hold each value, exactly.

    Args:       sets: 16-bit sets of shape (n,), or columns of 64-bit words of shape (⌈d/64⌉, n).
    Raises:     InvalidParameterError: an array of neither shape.
    Example:
        >>> covered_by_sets(4, np.array([0b0011, 0b0110], np.uint16)).tolist()
        [1, 2, 1, 0]
    """
    if sets.dtype == np.uint16 and sets.ndim == 1 and domain_size <= 16:
        whole = len(sets) // 4 * 4
        packed = np.ascontiguousarray(sets[:whole]).view(np.uint64)[None, :]
        lanes = _positional(packed).reshape(4, 16).sum(axis=0)
        rest = (sets[whole:, None] >> np.arange(16, dtype=np.uint16) & 1).sum(axis=0, dtype=np.int64)
        return np.asarray(lanes + rest)[:domain_size]
    if sets.dtype != np.uint64 or sets.ndim != 2 or sets.shape[0] != (domain_size + 63) // 64:
        raise InvalidParameterError("reports", f"columns of sets of {domain_size} values", f"{sets.dtype} {sets.shape}")
    return _positional(sets.astype(np.uint64, copy=False)).reshape(-1)[:domain_size]


def covered_by_values(domain_size: int, values: npt.NDArray[np.integer]) -> Counts:
    """Return how many reports name each value of 0 … d−1.

    Example:
        >>> covered_by_values(3, np.array([0, 2, 2])).tolist()
        [1, 0, 2]
    """
    found: Counts = np.bincount(values, minlength=domain_size).astype(np.int64)
    if len(found) > domain_size:
        raise InvalidParameterError("report", f"a value from 0 to {domain_size - 1}", len(found) - 1)
    return found


def covered_by_hash(
    domain_size: int, seeds: npt.NDArray[np.uint64], reported: npt.NDArray[np.uint16], buckets: int
) -> Counts:
    """Return how many reports name the bucket of each value under the report's own hash.

    Args:       seeds: of shape (2, n). reported: buckets, of shape (n,).
    """
    found = np.zeros(domain_size, np.int64)
    for value in range(domain_size):
        found[value] = np.count_nonzero(buckets_of(seeds, np.array([value]), buckets) == reported)
    return found


def _positional(lines: Columns) -> Counts:
    """Return the ones at each place of each line: three words of one weight make one of it and one of the next.

    Law:        a + b + c = (a ⊕ b ⊕ c) + 2·majority(a, b, c), bit by bit.
    Example:
        >>> _positional(np.array([[1, 3, 1, 1]], np.uint64))[0, :3].tolist()
        [4, 1, 0]
    """
    total = np.zeros((len(lines), 64), np.int64)
    chunk = max(_FEW, min(_CHUNK // len(lines), lines.shape[1]))
    room = _room(len(lines), chunk)
    for at in range(0, lines.shape[1], chunk):
        waiting, weight, side = lines[:, at : at + chunk], 1, 0
        while waiting.shape[1]:
            carries, used = room.carries[side], 0
            while waiting.shape[1] > _FEW:
                third, whole = waiting.shape[1] // 3, waiting.shape[1]
                a, b, c = (waiting[:, part * third : (part + 1) * third] for part in range(3))
                rest = whole - 3 * third
                differ, met = room.other(waiting)[:, : third + rest], room.met[:, :third]
                carry = carries[:, used : used + third]
                np.bitwise_xor(a, b, out=differ[:, :third])
                np.bitwise_and(a, b, out=carry)
                np.bitwise_and(differ[:, :third], c, out=met)
                np.bitwise_or(carry, met, out=carry)
                np.bitwise_xor(differ[:, :third], c, out=differ[:, :third])
                differ[:, third:] = waiting[:, 3 * third :]
                waiting, used = differ, used + third
            found = np.unpackbits(np.ascontiguousarray(waiting).view(np.uint8), axis=1, bitorder="little")
            total += weight * found.reshape(len(lines), -1, 64).sum(axis=1, dtype=np.uint8).astype(np.int64)
            waiting, weight, side = carries[:, :used], weight * 2, 1 - side
    return total


def _room(lines: int, chunk: int) -> "_Room":
    """Return this thread's work space: fresh pages would cost more than the counting."""
    kept: _Room | None = getattr(_KEPT, "room", None)
    if kept is None or kept.met.shape[0] != lines or kept.met.shape[1] < chunk // 3 + 1:
        kept = _KEPT.room = _Room(lines, chunk)
    return kept


class _Room:
    """Work space of one count: carries of two weights in turn, sums in turn, and what both share."""

    def __init__(self, lines: int, chunk: int) -> None:
        self.carries = [np.empty((lines, chunk // 2 + 1), np.uint64) for _ in range(2)]
        self.sums = [np.empty((lines, chunk // 3 + 3), np.uint64) for _ in range(2)]
        self.met = np.empty((lines, chunk // 3 + 1), np.uint64)

    def other(self, waiting: Columns) -> Columns:
        """Return the sums that are not being read."""
        return self.sums[1] if np.may_share_memory(waiting, self.sums[0]) else self.sums[0]
