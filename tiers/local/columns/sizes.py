"""Setting sets right in size: uniform values added, or dropped again, one position at a time."""

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt

__all__ = ["Positions", "Read", "SizeFix", "bits_of", "column_of"]

Columns = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.uint16]
Rows = npt.NDArray[np.int64]
Needs = npt.NDArray[np.int16]
Read = Callable[[int], Positions]
_FEW = 2


class SizeFix:
    """From sets of about the right size to sets of `size` of `domain_size` values; what was kept is never dropped.

    A position is 16 bits. To add, it names one of all values, which must be new; to drop, one of the members that were
    not kept, in rising order. Those of the short lap of either name none.

    Law:        given how many values are added or dropped, these are a uniform set of those that may be.
    Example:
        >>> fix, half = SizeFix(8, 2), 2**15
        >>> fix.right(0b1, 0b1, iter([0, half])), fix.right(0b111, 0b1, iter([half]))  # adds 4; drops 2, not 1
        (17, 3)
    """

    def __init__(self, domain_size: int, size: int) -> None:
        self.domain_size, self.size = domain_size, size
        self.short = 2**16 % domain_size
        values = np.arange(domain_size)
        self._bits = (1 << (values & 7)).astype(np.uint8)
        self._words, self._bytes = values >> 6, values >> 3 & 7

    def columns(
        self,
        sets: Columns,
        kept: Columns,
        start: int,
        need: Needs,
        read: Read,
        rest: Callable[[int], Iterator[int]],
        attempts: int,
    ) -> None:
        """Set the sets of reports `start`, `start + 1`, … right, in place.

        Args:       sets, kept: contiguous, of one shape; of a set whose need is below 0, `kept` is what must stay.
                need: how many values each lacks. read: everybody's position of an attempt, valid until the next read.
                rest: a report's further positions, after these attempts.
        """
        left: list[tuple[Rows, int]] = [
            self._add(sets, start, need, read, attempts),
            self._drop(sets, kept, start, need, read, attempts),
        ]
        for rows, attempt in left:
            later = [read(place)[rows] for place in range(attempt, attempts)] if len(rows) else []
            for place, row in enumerate(rows.tolist()):
                mine = [int(positions[place]) for positions in later]
                found, stays = bits_of(sets[:, start + row]), bits_of(kept[:, start + row])
                sets[:, start + row] = column_of(self.right(found, stays, chain(mine, rest(row))), len(sets))

    def right(self, found: int, base: int, positions: Iterator[int]) -> int:
        """Set one set right from a sequence of positions: the definition, which `columns` repeats."""
        while missing := self.size - found.bit_count():
            free = found & ~base
            among = self.domain_size if missing > 0 else free.bit_count()
            rank, lap = divmod(next(positions) * among, 2**16)
            if lap < 2**16 % among:
                continue
            if missing > 0:
                found |= 1 << rank
            else:
                for _ in range(rank):
                    free &= free - 1
                found ^= free & -free
        return found

    def _add(self, sets: Columns, start: int, need: Needs, read: Read, attempts: int) -> tuple[Rows, int]:
        """Add values where some lack; return who still lacks some, and from which attempt on."""
        offsets = self._words * (8 * sets.shape[1]) + self._bytes + 8 * start
        flat, rows, attempt = sets.reshape(-1).view(np.uint8), np.flatnonzero(need > 0), 0
        left = need.take(rows)
        while attempt < attempts and len(rows) > _FEW:
            scaled = read(attempt).take(rows) * np.uint32(self.domain_size)
            value = scaled >> np.uint32(16)
            at = rows << 3
            at += offsets.take(value)
            bit, now = self._bits.take(value), flat.take(at)
            if self.short:
                bit *= (scaled & np.uint32(2**16 - 1)) >= np.uint32(self.short)
            bit &= ~now
            flat[at] = now | bit
            left -= bit != 0
            go = np.flatnonzero(left)
            rows, left = rows.take(go), left.take(go)
            attempt += 1
        return rows, attempt

    def _drop(
        self, sets: Columns, kept: Columns, start: int, need: Needs, read: Read, attempts: int
    ) -> tuple[Rows, int]:
        """Drop members where there are too many: the word of the rank is found first, then its byte, then its bit."""
        rows, attempt = np.flatnonzero(need < 0), 0
        left, free = need.take(rows), sets[:, start + rows] & ~kept[:, start + rows]
        while attempt < attempts and len(rows) > _FEW:
            ends = np.bitwise_count(free).cumsum(axis=0, dtype=np.uint32)
            scaled = read(attempt).take(rows) * ends[-1]
            sure = (scaled & np.uint32(2**16 - 1)) >= 2**16 % ends[-1]
            rank, columns = scaled >> np.uint32(16), np.arange(len(rows))
            word = np.minimum((ends <= rank).sum(axis=0), len(sets) - 1)
            members = free[word, columns]
            rank -= ends[word, columns] - np.bitwise_count(members)
            parts = members.view(np.uint8).reshape(-1, 8)
            ends = np.bitwise_count(parts).cumsum(axis=1, dtype=np.uint32)
            part = np.minimum((ends <= rank[:, None]).sum(axis=1), 7)
            held = parts[columns, part]
            rank -= ends[columns, part] - np.bitwise_count(held)
            place = _PLACES[held, rank] + 8 * part
            bit = sure.astype(np.uint64) << place.astype(np.uint64)
            free[word, columns] ^= bit
            sets[word, start + rows] ^= bit
            left += sure
            go = np.flatnonzero(left)
            rows, left, free = rows.take(go), left.take(go), free[:, go]
            attempt += 1
        return rows, attempt


def _places() -> npt.NDArray[np.uint8]:
    """Return where a byte has its bit of each rank, 0 where it has none."""
    found = np.zeros((256, 8), np.uint8)
    for byte in range(256):
        places = [place for place in range(8) if byte >> place & 1]
        found[byte, : len(places)] = places
    return found


_PLACES = _places()


def bits_of(column: Columns) -> int:
    """Return a column of words as one number."""
    return int.from_bytes(np.ascontiguousarray(column).tobytes(), "little")


def column_of(bits: int, width: int) -> Columns:
    """Return a number as a column of `width` words."""
    return np.frombuffer(bits.to_bytes(8 * width, "little"), np.uint64)
