"""Uniform sets of a given size over many values, in columns: counts split down a tree, then a table for 16 values.

A uniform set has a hypergeometric number of members in the left part of any split, and given the counts the parts are
uniform sets on their own. So one 32-bit word a node splits the count, and one a leaf picks a set of 16 values.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
import numpy.typing as npt

from tiers.local.columns.splits import REAL, Widths, leaf_exactly, leaf_table, split_exactly, split_table

__all__ = ["LEAF", "Further", "Put", "Read", "Room", "UniformSets"]

Words = npt.NDArray[np.uint32]
Sizes = npt.NDArray[np.uint16]
Span = tuple[int, int]
Read = Callable[[int], Words]
Further = Callable[[int], Iterator[int]]
Put = Callable[[int, Sizes], None]
LEAF = REAL.leaf


class UniformSets:
    """Uniform sets of `sizes` members (one or two sizes, chosen report by report) of `domain_size` values.

    Law:        C(d, r)⁻¹ for every set of r values.
    Args:       domain_size: more than a leaf has. sizes: what `fill` may be asked for. widths: of words, and of a leaf.
    Example:
        >>> sets = UniformSets(40, (7, 9))
        >>> sets.slots  # two splits, three leaves
        5
    """

    def __init__(self, domain_size: int, sizes: Sequence[int], widths: Widths = REAL) -> None:
        self.domain_size, self.widths = domain_size, widths
        self.leaves = -(-domain_size // widths.leaf)
        self.slots = 2 * self.leaves - 1
        spans: dict[Span, list[Span]] = {}
        self._plan(0, self.leaves, [(size, size) for size in sizes], spans)
        self._splits = {parts: split_table(*parts, tuple(_merged(found)), widths) for parts, found in spans.items()}
        last = domain_size - (self.leaves - 1) * widths.leaf
        self._leaves = [leaf_table(widths.leaf, widths)] * (self.leaves - 1) + [leaf_table(last, widths)]

    def fill(self, read: Read, further: Further, sizes: Sizes, put: Put, room: "Room") -> None:
        """Give every leaf's sets to `put`, for reports that want so many members.

        Args:       read: the words of a slot, valid until the next read. further: a report's further words, for what
                    its own leave open. put: takes a leaf's number and its sets, which are valid until it returns.
        """
        room.begin(sizes)
        self._node(_Fill(room, read, further, iter(range(self.slots)), put), 0, self.leaves, 0)

    def one(self, words: Iterator[int], tail: Iterator[int], size: int) -> int:
        """Return one set as bits: the definition.

        Args:       words: the report's own, in the order of slots. tail: its further ones.
        """
        return self._one(words, tail, 0, self.leaves, size)

    def _plan(self, start: int, stop: int, wanted: Sequence[Span], spans: dict[Span, list[Span]]) -> None:
        """Note down, for each shape of node, the counts that it may meet: eight deviations wide."""
        if stop - start == 1:
            return
        middle, left, right = self._parts(start, stop)
        spans.setdefault((left, right), []).extend(wanted)
        for begin, end, part in ((start, middle, left), (middle, stop, right)):
            share, below = part / (left + right), []
            for low, high in wanted:
                room = 8 * isqrt(max(1, round(high * share * (1 - share)))) + 8
                below.append((max(0, int(low * share) - room), min(part, int(high * share) + room)))
            self._plan(begin, end, _merged(below), spans)

    def _parts(self, start: int, stop: int) -> tuple[int, int, int]:
        half, leaf = 1 << (stop - start - 1).bit_length() - 1, self.widths.leaf
        middle = start + half
        return middle, half * leaf, min(stop * leaf, self.domain_size) - middle * leaf

    def _node(self, run: "_Fill", start: int, stop: int, depth: int) -> None:
        words, sizes = run.read(next(run.slots)), run.room.sizes[depth]
        if stop - start == 1:
            run.put(start, self._leaf(run, start, words, sizes))
            return
        middle, left, right = self._parts(start, stop)
        below = run.room.sizes[depth + 1]
        self._split(run, left, right, words, sizes, below)
        self._node(run, start, middle, depth + 1)
        np.subtract(sizes, below, out=below)
        self._node(run, middle, stop, depth + 1)

    def _split(self, run: "_Fill", left: int, right: int, words: Words, sizes: Sizes, counts: Sizes) -> None:
        """Put the left part's counts of one node into `counts`."""
        room, split, bits = run.room, self._splits[left, right], self.widths.word
        np.subtract(sizes, np.uint16((split.least - 1) % 2**16), out=room.narrow)
        index = room.indices(room.narrow, words, bits, self.widths.split_cell)
        few = room.few if split.cells.itemsize == 1 else room.narrow
        split.cells.take(index, mode="clip", out=few)
        np.copyto(counts, few)
        opened = np.flatnonzero(np.equal(few, split.open, out=room.flags))
        if not len(opened):
            return
        row = sizes.take(opened).astype(np.int64) - split.least
        there = np.minimum(np.maximum(row, 0), split.rows - 1)
        wanted = there << bits
        wanted |= words.take(opened)
        found = split.keys.searchsorted(wanted.view(np.uint64))
        count = split.first.take(there)
        strange = (there != row) | (count < 0) | (split.keys.take(found, mode="clip") == wanted.view(np.uint64))
        count += found
        count -= split.starts.take(there)
        for place in np.flatnonzero(strange).tolist():
            at = int(opened[place])
            count[place] = split_exactly(left, right, int(sizes[at]), int(words[at]), bits, run.further(at), bits)
        counts[opened] = count

    def _leaf(self, run: "_Fill", start: int, words: Words, sizes: Sizes) -> Sizes:
        """Return the sets of one leaf, valid until the next node."""
        room, leaf = run.room, self._leaves[start]
        index = room.indices(sizes, words, self.widths.word, self.widths.leaf_cell)
        sets: Sizes = room.narrow
        leaf.cells.take(index, mode="clip", out=sets)
        opened = np.flatnonzero(np.equal(sets, leaf.open, out=room.flags))
        if not len(opened):
            return sets
        size = sizes.take(opened)
        rank = words.take(opened)
        rank -= leaf.edges.take(size)  # beyond all ranks where the word stands before its edge
        rank //= leaf.laps.take(size)
        strange = np.flatnonzero(rank >= leaf.counts.take(size))
        sets[opened] = leaf.order.take(rank + leaf.offsets.take(size), mode="clip")
        for at in opened.take(strange).tolist():
            sets[at] = leaf_exactly(int(sizes[at]), int(words[at]), leaf, run.further(at))
        return sets

    def _one(self, words: Iterator[int], tail: Iterator[int], start: int, stop: int, size: int) -> int:
        word, widths = next(words), self.widths
        if stop - start == 1:
            return leaf_exactly(size, word, self._leaves[start], tail)
        middle, left, right = self._parts(start, stop)
        count = split_exactly(left, right, size, word, widths.word, tail, widths.word)
        low = self._one(words, tail, start, middle, count)
        return low | self._one(words, tail, middle, stop, size - count) << left


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Return spans that meet or overlap as one."""
    found: list[Span] = []
    for low, high in sorted(set(spans)):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


class Room:
    """Work space of a run of reports: fresh pages would cost more than the drawing."""

    def __init__(self, sets: UniformSets, most: int) -> None:
        self._wide = np.empty((2, most), np.uint32)
        self._few, self._flags = np.empty(most, np.uint8), np.empty(most, np.bool_)
        self._narrow = np.empty((2 + sets.leaves.bit_length(), most), np.uint16)

    def begin(self, sizes: Sizes) -> None:
        """Start on a run of reports, as many as there are sizes."""
        count = len(sizes)
        self._index: Words
        self._cell: Words
        self._index, self._cell = self._wide[:, :count]
        self.few, self.flags = self._few[:count], self._flags[:count]
        self.narrow, *self.sizes = self._narrow[:, :count]
        np.copyto(self.sizes[0], sizes)

    def indices(self, rows: Sizes, words: Words, bits: int, cell: int) -> Words:
        """Return where a table has everybody's cell: of their row, by the first bits of their word."""
        np.copyto(self._index, rows)
        np.left_shift(self._index, cell, out=self._index)
        np.right_shift(words, bits - cell, out=self._cell)
        np.bitwise_or(self._index, self._cell, out=self._index)
        return self._index


@dataclass(frozen=True, slots=True)
class _Fill:
    """One filling: its work space, and where words come from and sets go."""

    room: Room
    read: Read
    further: Further
    slots: Iterator[int]
    put: Put
