"""Uniform sets of a given size over many values, in columns: counts split down a tree, then a table for 16 values.

A uniform set has a hypergeometric number of members in the left part of any split, and given the counts the parts are
uniform sets on their own. So one 32-bit word a node splits the count, and one a leaf picks a set of 16 values.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, isqrt

import numpy as np
import numpy.typing as npt

__all__ = ["LEAF", "UniformSets", "split_exactly"]

Columns = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
LEAF = 16
_CELL_BITS, _WORD = 12, 32
_OPEN = np.uint16(0xFFFF)


@dataclass(frozen=True, slots=True)
class _Split:
    """A node: its parts' sizes, where its table of counts begins, the cells, and the thresholds of every count."""

    left: int
    right: int
    least: int
    cells: npt.NDArray[np.uint16]
    first: Integers
    thresholds: npt.NDArray[np.uint64]


class UniformSets:
    """Uniform sets of `sizes` members (one or two sizes, chosen report by report) of `domain_size` values.

    Law:        C(d, r)⁻¹ for every set of r values.
    Args:       domain_size: more than 16. sizes: what `fill` may be asked for.
    Example:
        >>> sets = UniformSets(40, (7, 9))
        >>> sets.slots  # two splits, three leaves
        5
    """

    def __init__(self, domain_size: int, sizes: Sequence[int]) -> None:
        self.domain_size = domain_size
        leaves = -(-domain_size // LEAF)
        self.slots = 2 * leaves - 1
        low, high = min(sizes), max(sizes)
        self._tables: dict[tuple[int, int], _Split] = {}
        self._plan(0, leaves, low, high)

    def fill(self, read: Callable[[int], Words], sizes: Integers, out: Columns) -> Integers:
        """Put a uniform set of the wanted size into each column; return the rows that need the definition instead.

        Args:       read: the words of a slot, valid until the next read. out: zeroed, shape (⌈d/64⌉, n).
        """
        odd: list[Integers] = []
        self._node(read, iter(range(self.slots)), 0, -(-self.domain_size // LEAF), sizes, out.view(np.uint16), odd)
        return np.unique(np.concatenate(odd)) if odd else np.empty(0, np.int64)

    def one(self, words: Iterator[int], tail: Iterator[int], size: int) -> int:
        """Return one set as bits: the definition, from a report's own words in the order of slots."""
        return self._one(words, tail, 0, -(-self.domain_size // LEAF), size)

    def _plan(self, start: int, stop: int, low: int, high: int) -> None:
        """Build the tables of all nodes below: a table for each shape, wide enough for eight deviations."""
        if stop - start == 1:
            return
        middle, left, right = self._parts(start, stop)
        known = self._tables.get((left, right))
        if known is None or known.least > low or known.least + len(known.first) <= high:
            if known is not None:
                low, high = min(low, known.least), max(high, known.least + len(known.first) - 1)
            self._tables[left, right] = _split(left, right, low, high)
        for begin, end, part in ((start, middle, left), (middle, stop, right)):
            share = part / (left + right)
            room = 8 * isqrt(max(1, round(high * share * (1 - share)))) + 8
            self._plan(begin, end, max(0, int(low * share) - room), min(part, int(high * share) + room))

    def _parts(self, start: int, stop: int) -> tuple[int, int, int]:
        half = 1 << (stop - start - 1).bit_length() - 1
        middle = start + half
        return middle, half * LEAF, min(stop * LEAF, self.domain_size) - middle * LEAF

    def _node(
        self,
        read: Callable[[int], Words],
        slots: Iterator[int],
        start: int,
        stop: int,
        sizes: Integers,
        out: npt.NDArray[np.uint16],
        odd: list[Integers],
    ) -> None:
        words = read(next(slots))
        if stop - start == 1:
            ranks, offsets, sets, short = _leaf(min(LEAF, self.domain_size - start * LEAF))
            product = ranks.take(sizes, mode="clip")
            product *= words
            low = product.astype(np.uint32)
            product >>= np.uint64(_WORD)
            index = product.view(np.int64)
            index += offsets.take(sizes, mode="clip")
            out[start // 4, start % 4 :: 4] = sets.take(index, mode="clip")
            early = np.flatnonzero(low < short)
            if len(early):
                count = ranks.take(sizes[early], mode="clip")
                odd.append(early[low[early] < (1 << _WORD) % count])
            return
        middle, left, right = self._parts(start, stop)
        split = self._tables[left, right]
        index = np.right_shift(words, np.uint32(_WORD - _CELL_BITS)).astype(np.int64)
        index += (sizes - (split.least - 1)) << _CELL_BITS
        counts = split.cells.take(index, mode="clip").astype(np.int64)
        unsure = np.flatnonzero(counts == int(_OPEN))
        if len(unsure):
            self._decide(split, words, sizes, counts, unsure, odd)
        self._node(read, slots, start, middle, counts, out, odd)
        np.subtract(sizes, counts, out=counts)
        self._node(read, slots, middle, stop, counts, out, odd)

    def _decide(
        self, split: _Split, words: Words, sizes: Integers, counts: Integers, unsure: Integers, odd: list[Integers]
    ) -> None:
        """Compare the whole word where a cell holds a threshold; what ties, or lies outside the table, is odd."""
        row = sizes[unsure] - split.least
        outside = (row < 0) | (row >= len(split.first))
        row = np.where(outside, 0, row)
        word = words[unsure].astype(np.uint64)[:, None]
        bounds = split.thresholds[row]
        counts[unsure] = np.where(outside, 0, split.first[row] + (word > bounds).sum(axis=1))
        strange = outside | (word == bounds).any(axis=1)
        if strange.any():
            odd.append(unsure[strange])

    def _one(self, words: Iterator[int], tail: Iterator[int], start: int, stop: int, size: int) -> int:
        word = next(words)
        if stop - start == 1:
            width = min(LEAF, self.domain_size - start * LEAF)
            count, product = comb(width, size), word * comb(width, size)
            while product % 2**_WORD < 2**_WORD % count:
                product = (next(tail) & 2**_WORD - 1) * count
            _, offsets, sets, _ = _leaf(width)
            return int(sets[int(offsets[size]) + (product >> _WORD)])
        middle, left, right = self._parts(start, stop)
        count = split_exactly(left, right, size, word, _WORD, tail)
        low = self._one(words, tail, start, middle, count)
        return low | self._one(words, tail, middle, stop, size - count) << left


def split_exactly(left: int, right: int, size: int, word: int, bits: int, tail: Iterator[int]) -> int:
    """Return how many of `size` members fall into the left part: the exact hypergeometric law, by inversion.

    Law:        P(a) = C(left, a)·C(right, size−a)/C(left+right, size).
    Args:       word: `bits` uniform bits. tail: further words of 64 bits, read while these leave it open.
    Example:
        >>> split_exactly(2, 2, 2, 0b0001, 4, iter([])), split_exactly(2, 2, 2, 0b0101, 4, iter([]))
        (0, 1)
    """
    total = comb(left + right, size)
    while True:
        below = above = max(0, size - right)
        mass = comb(left, below) * comb(right, size - below)
        while mass << bits <= word * total:
            below += 1
            mass += comb(left, below) * comb(right, size - below)
        above = below
        while mass << bits < (word + 1) * total:
            above += 1
            mass += comb(left, above) * comb(right, size - above)
        if below == above:
            return below
        word, bits = word << 64 | next(tail), bits + 64


@lru_cache(maxsize=128)
def _split(left: int, right: int, low: int, high: int) -> _Split:
    """Return a node's table for counts from `low` to `high`, with a row of open cells before and after."""
    rows = [_thresholds(left, right, size) for size in range(low, high + 1)]
    most = max(len(bounds) for _, bounds in rows)
    cells = np.full((len(rows) + 2, 1 << _CELL_BITS), _OPEN, np.uint16)
    thresholds = np.full((len(rows), most), 2**63, np.uint64)
    places = np.arange(1 << _CELL_BITS)
    for at, (first, bounds) in enumerate(rows):
        edges = np.array(bounds, np.int64)
        cells[at + 1] = first + np.searchsorted(edges >> (_WORD - _CELL_BITS), places, side="left")
        cells[at + 1, edges >> (_WORD - _CELL_BITS)] = _OPEN
        thresholds[at, : len(bounds)] = edges
    return _Split(left, right, low, cells.reshape(-1), np.array([first for first, _ in rows]), thresholds)


def _thresholds(left: int, right: int, size: int) -> tuple[int, list[int]]:
    """Return the first possible count, and ⌊2³²·P(count ≤ a)⌋ for each a from it on, below the last."""
    first, last = max(0, size - right), min(left, size)
    total, mass, found = comb(left + right, size), comb(left, first) * comb(right, size - first), []
    reached = 0
    for count in range(first, last):
        reached += mass
        found.append((reached << _WORD) // total)
        mass = mass * (left - count) * (size - count) // ((count + 1) * (right - size + count + 1))
    head = next((at for at, bound in enumerate(found) if bound), len(found))
    skip = max(0, head - 1)  # of equal bounds at 0 one is kept: a word of 0 ties with it, and the definition decides
    tail = next((at for at, bound in enumerate(found) if bound == 2**_WORD - 1), len(found) - 1)
    return first + skip, found[skip : tail + 1]


@lru_cache(maxsize=LEAF)
def _leaf(width: int) -> tuple[npt.NDArray[np.uint64], Integers, npt.NDArray[np.uint16], int]:
    """Return, by the number of members: how many sets, where they begin, all sets by size, the widest short lap."""
    sets = np.arange(1 << width, dtype=np.uint32)
    order = np.argsort(np.bitwise_count(sets), kind="stable")
    counts = [comb(width, size) for size in range(width + 1)]
    offsets = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return (
        np.array(counts, np.uint64),
        offsets,
        sets[order].astype(np.uint16),
        max(2**_WORD % count for count in counts),
    )
