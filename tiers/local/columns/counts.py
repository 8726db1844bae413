"""How many reports cover each value: bits counted by position, 64 at a time."""

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.local.local_hash import buckets_of

__all__ = ["covered_by_hash", "covered_by_sets", "covered_by_values"]

Columns = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
_CHUNK = 2**17
_NEAR = 2**10
_FEW = 160  # below 256: their sums are bytes


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

    A line at a time while it is long, so that its words stay near; what is left of them is short, and goes together.

    Law:        a + b + c = (a ⊕ b ⊕ c) + 2·majority(a, b, c), bit by bit.
    Example:
        >>> _positional(np.array([[1, 3, 1, 1]], np.uint64))[0, :3].tolist()
        [4, 1, 0]
    """
    count = lines.shape[1]
    room, left = _Room(min(_CHUNK, count)), [np.empty((len(lines), 0), np.uint64)]
    for at in range(0, count, _CHUNK):
        for weight, words in enumerate(zip(*(room.narrowed(line[at : at + _CHUNK]) for line in lines), strict=True)):
            left[weight:] = [np.hstack([*left[weight : weight + 1], np.stack(words)]), *left[weight + 1 :]]
    total, weight = np.zeros((len(lines), 64), np.int64), 1
    while left:
        waiting, carries = left.pop(0), []
        while waiting.shape[1] > _FEW:
            third = waiting.shape[1] // 3
            a, b, c = (waiting[:, part * third : (part + 1) * third] for part in range(3))
            carry, met = np.empty_like(a), np.empty_like(a)
            _add(a, b, c, a, carry, met)
            carries.append(carry)
            waiting = np.hstack([a, waiting[:, 3 * third :]])
        found = np.unpackbits(np.ascontiguousarray(waiting).view(np.uint8), axis=1, bitorder="little")
        total += weight * found.reshape(len(lines), -1, 64).sum(axis=1, dtype=np.uint8).astype(np.int64)
        if carries:
            left[:1] = [np.hstack([*carries, *left[:1]])]
        weight *= 2
    return total


def _add(a: Columns, b: Columns, c: Columns, differ: Columns, carry: Columns, met: Columns) -> None:
    """Add three words bit by bit into `differ`, which may be `a`, and what is carried."""
    np.bitwise_and(a, b, out=carry)
    np.bitwise_xor(a, b, out=differ)
    np.bitwise_and(differ, c, out=met)
    np.bitwise_xor(differ, c, out=differ)
    np.bitwise_or(carry, met, out=carry)


class _Room:
    """Work space of one line: carries of two weights in turn, sums in turn, and what both share."""

    def __init__(self, most: int) -> None:
        self._carries = [np.empty(most // 2 + 1, np.uint64) for _ in range(2)]
        self._sums = [np.empty(most // 3 + 3, np.uint64) for _ in range(2)]
        self._met = np.empty(most // 3 + 1, np.uint64)

    def narrowed(self, words: Columns) -> list[Columns]:
        """Return fewer words of each weight, from 1 up, that add up to these."""
        found, side = list[Columns](), 0
        while True:
            carries, used, turn = self._carries[side], 0, 0
            while len(words) > _NEAR:
                third, rest = divmod(len(words), 3)
                differ, carry = self._sums[turn], carries[used : used + third]
                a, b, c = (words[part * third : (part + 1) * third] for part in range(3))
                _add(a, b, c, differ[:third], carry, self._met[:third])
                differ[third : third + rest] = words[3 * third :]
                words, used, turn = differ[: third + rest], used + third, 1 - turn
            found.append(words.copy())
            if not used:
                return found
            words, side = carries[:used], 1 - side
