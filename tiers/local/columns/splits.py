"""Tables of the tree of uniform sets: how a count splits between two parts, and every set of a leaf by its size.

A cell of a table owns one outcome for all words that begin with its bits; the other cells are open, and whoever meets
one looks at the whole word.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
import numpy.typing as npt

__all__ = ["REAL", "Leaf", "Split", "Widths", "leaf_exactly", "leaf_table", "split_exactly", "split_table"]

Cells = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
Integers = npt.NDArray[np.int64]
Longs = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Widths:
    """The values of a leaf, the bits of a word, and of them those that choose a split's cell, and a leaf's.

    Tests use small ones, to run a tree on every word.
    """

    leaf: int = 16
    word: int = 32
    split_cell: int = 12
    leaf_cell: int = 16


REAL = Widths()
_RARE = 0x3FFF  # 14 values


@dataclass(frozen=True, slots=True)
class Split:
    """A node's table: for each count from `least` on a row of cells, with an open row before and after.

    Args:       cells: the left part's count, or `open`. keys: of every row its thresholds ⌊P(count ≤ a)·2ʷ⌋ for the w
                bits of a word, under the row's number. starts: where a row's begin. first: the count below the first of
                them; −1 in a row that is not there. rows: how many there are.
    """

    least: int
    open: int
    cells: Cells
    keys: Longs
    starts: Integers
    first: Integers
    rows: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """All sets of a leaf's values. Of a size, a word below its edge owns a set by its cell, one at or above it by laps.

    Args:       bits: of a word. cells: by size and cell the set, or `open`. order: all sets, by size. offsets: where a
                size begins. counts: how many sets of a size there are. edges: the first word of the short lap, 0 where
                there is none. laps: how many of its words each set owns; what then is left is nobody's.
    """

    bits: int
    open: int
    cells: npt.NDArray[np.uint16]
    order: npt.NDArray[np.uint16]
    offsets: Integers
    counts: Words
    edges: Words
    laps: Words


def split_exactly(left: int, right: int, size: int, word: int, bits: int, tail: Iterator[int], more: int) -> int:
    """Return how many of `size` members fall into the left part: the exact hypergeometric law, by inversion.

    Law:        P(a) = C(left, a)·C(right, size−a)/C(left+right, size).
    Args:       word: `bits` uniform bits. tail: further words of `more` bits, read while these leave it open.
    Example:
        >>> split_exactly(2, 2, 2, 0b0001, 4, iter([]), 4), split_exactly(2, 2, 2, 0b0101, 4, iter([]), 4)
        (0, 1)
    """
    total = comb(left + right, size)
    while True:
        below = max(0, size - right)
        mass = comb(left, below) * comb(right, size - below)
        while (mass << bits) // total < word:
            below += 1
            mass += comb(left, below) * comb(right, size - below)
        if (mass << bits) // total > word:
            return below
        word, bits = word << more | next(tail), bits + more


def leaf_exactly(size: int, word: int, leaf: Leaf, tail: Iterator[int]) -> int:
    """Return one of the sets of `size` of a leaf's values, as bits: all alike.

    Args:       word: of the node. tail: further words, read while these are nobody's.
    Example:
        >>> table = leaf_table(3, Widths(word=4, leaf_cell=2))  # each set owns four words and one of the short lap
        >>> [leaf_exactly(1, word, table, iter([])) for word in (0, 4, 8, 12, 13, 14)]
        [1, 2, 4, 1, 2, 4]
    """
    count, edge, lap = (int(values[size]) for values in (leaf.counts, leaf.edges, leaf.laps))
    each = (edge or 1 << leaf.bits) // count
    while True:
        rank = word // each if not edge or word < edge else (word - edge) // lap
        if rank < count:
            return int(leaf.order[int(leaf.offsets[size]) + rank])
        word = next(tail)


@lru_cache(maxsize=128)
def split_table(left: int, right: int, spans: tuple[tuple[int, int], ...], widths: Widths) -> Split:
    """Return a node's table for the counts of some spans, both ends included; all others are open."""
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    kind = np.uint8 if min(left, high) < 2**8 - 1 else np.uint16
    mark, shift = int(np.iinfo(kind).max), widths.word - widths.split_cell
    cells = np.full((high - low + 3, 1 << widths.split_cell), mark, kind)
    firsts, starts, keys, places = list[int](), list[int](), list[int](), np.arange(1 << widths.split_cell)
    for row, size in enumerate(range(low, high + 1)):
        starts.append(len(keys))
        if not any(start <= size <= stop for start, stop in spans):
            firsts.append(-1)
            continue
        first, bounds = _thresholds(left, right, size, widths.word)
        edges = np.array(bounds, np.int64) >> shift
        cells[row + 1] = first + np.searchsorted(edges, places, side="left")
        cells[row + 1, edges] = mark
        firsts.append(first)
        keys += [row << widths.word | bound for bound in bounds]
    return Split(
        low, mark, cells.reshape(-1), np.array(keys, np.uint64), np.array(starts), np.array(firsts), len(firsts)
    )


def _thresholds(left: int, right: int, size: int, bits: int) -> tuple[int, list[int]]:
    """Return the first possible count, and ⌊P(count ≤ a)·2ᵇ⌋ for each a from it on, below the last."""
    first, last = max(0, size - right), min(left, size)
    total, mass, found = comb(left + right, size), comb(left, first) * comb(right, size - first), []
    reached = 0
    for count in range(first, last):
        reached += mass
        found.append((reached << bits) // total)
        mass = mass * (left - count) * (size - count) // ((count + 1) * (right - size + count + 1))
    head = next((at for at, bound in enumerate(found) if bound), len(found))
    skip = max(0, head - 1)  # of equal bounds at 0 one is kept: a word of 0 ties with it, and the definition decides
    tail = next((at for at, bound in enumerate(found) if bound == 2**bits - 1), len(found) - 1)
    return first + skip, found[skip : tail + 1]


@lru_cache(maxsize=32)
def leaf_table(width: int, widths: Widths) -> Leaf:
    """Return the table of a leaf of so many values.

    A set stands for "open", so that finding what is open is one comparison. A whole leaf of 16 values has no bits to
    spare: there it is a set that is rarely met, and whose own words are decided like any that the laps leave open.
    """
    sets = np.arange(1 << width, dtype=np.uint32)
    order = sets[np.argsort(np.bitwise_count(sets), kind="stable")].astype(np.uint16)
    counts = np.array([comb(width, size) for size in range(width + 1)], np.int64)
    offsets = np.cumsum(counts) - counts
    mark, each = _RARE if width == 16 else 0xFFFF, (1 << widths.leaf_cell) // counts
    cells = np.full((width + 1, 1 << widths.leaf_cell), mark, np.uint16)
    for size in range(width + 1):
        own = order[offsets[size] : offsets[size] + counts[size]]
        cells[size, : each[size] * counts[size]] = np.repeat(own, each[size])
    edges = each * counts << widths.word - widths.leaf_cell
    laps = (2**widths.word - edges) // counts
    assert ((laps > 0) | (edges == 2**widths.word)).all(), "words too narrow for a leaf's short laps"
    return Leaf(
        widths.word,
        mark,
        cells.reshape(-1),
        order,
        offsets,
        counts.astype(np.uint32),
        (edges % 2**widths.word).astype(np.uint32),  # 0 where no word is beyond it
        np.maximum(laps, 1).astype(np.uint32),
    )
