"""Long vectors by cells: a 16-bit word names one of 65,536 equal cells of [0, 1), and most cells lie in one outcome.

A cell without a threshold F(k) inside decides at once: one table look-up. The rest compare further bits: where many
cells are undecided an element owns a second 16-bit word, else 64 bits of its own tail; at a tie (2⁻¹⁶ of those) the
inverse transform goes on in ball arithmetic, outwards too: no tail is folded. So every draw is F⁻¹(U) for a uniform
real U. Work depends on what is drawn: meant for vectors, where single entries cannot be timed.
"""

import struct
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.real import Real
from tiers.sampling.inversion import LazyUniform, locate
from tiers.sampling.survival import SymmetricLaw
from tiers.sampling.words import CellWords

__all__ = [
    "COUNT_LIMIT",
    "UNDECIDED",
    "CellSampler",
    "Integers",
    "Raw",
    "Workspace",
    "cell_sampler",
    "cells_of",
    "check_arrays",
    "check_counts",
    "trust",
    "workspace",
]

Integers: TypeAlias = npt.NDArray[np.int64]
Raw: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
COUNT_LIMIT = 2**62
_CELL_BITS = 16
_CHUNK = 1 << 18
_TWO_WORDS_FROM = 1 / 1024  # the share of undecided cells from which a second word is cheaper than a tail
_COMMON_FROM = 0.9  # the share of cells that draw 0 from which touching only the others is cheaper
_SHORT = 64  # up to this length numpy's calls cost more than the draws
_OUTCOMES = 1 << 14
_FINER = 2  # so many more bits of a two-word group name a cell
UNDECIDED = -(1 << 15)


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


@dataclass(frozen=True, slots=True, eq=False)
class CellSampler:
    """Draws of one lattice law for vectors; element j owns the j-th group of W = `words` 16-bit words of stream 0.

    Guarantee:  exact for every width of cells and of refinement words (enumerated in the tests).
    Args:       first: the outcome below the first threshold and on its tie. floors: ⌊2^(2·bits)·F(k)⌋ for k = first, …,
                the first being 0 and the last 2^(2·bits) − 1. cdf: F as a ball-valued function of every integer.
    """

    bits: int
    words: int
    first: int
    floors: list[int]
    cdf: Callable[[int], Real]
    table: npt.NDArray[np.int16]
    ladder: npt.NDArray[np.uint32]
    shift: int
    common: tuple[int, int] | None

    @property
    def undecided_share(self) -> float:
        """Return the share of draws that the first word does not decide."""
        return int(np.count_nonzero(self.table == UNDECIDED)) / len(self.table)

    def draw(self, words: CellWords, length: int) -> tuple[int, ...]:
        """Return `length` independent draws as Python integers."""
        if length <= _SHORT:
            return self._draw_short(words, length)
        out: Integers = np.zeros(length, np.int64)
        return tuple(self.perturb(words, out, out).tolist())

    def _draw_short(self, words: CellWords, length: int) -> tuple[int, ...]:
        raw = _UNPACK[self.words][length](words.read(2 * self.words * length))
        shift, table = self.shift, self.table.data
        drawn = [table[word >> shift] for word in raw] if shift else [table[word] for word in raw]
        if UNDECIDED in drawn:
            for element, word in enumerate(raw):
                if drawn[element] == UNDECIDED:
                    tail, bits = words.tail(element), self.words * self.bits
                    drawn[element] = self._exactly(word, bits, tail, words.bits)
        return tuple(drawn)

    def add_to(self, words: CellWords, counts: Integers, out: Integers) -> Integers:
        """Put counts + noise into `out` (which may be `counts`) and return it; working memory is one chunk.

        Raises:     InvalidParameterError: arrays that are not int64 vectors of one length, a count beyond ±2⁶².
        """
        return self._run(words, counts, out, check_counts)

    def perturb(self, words: CellWords, counts: Integers, out: Integers) -> Integers:
        """Do what `add_to` does to counts that `check_counts` has seen, or that are such counts with noise added."""
        return self._run(words, counts, out, trust)

    def _run(self, words: CellWords, counts: Integers, out: Integers, check: Callable[[Integers], None]) -> Integers:
        check_arrays(counts, out)
        length, group, step = len(counts), 2 * self.words, _CHUNK // self.words
        space = workspace(min(length, step), group)
        for start in range(0, length, step):
            stop = min(start + step, length)
            words.read_into(group * start, group * (stop - start), space.raw)
            raw = np.frombuffer(space.raw, dtype=_DTYPES[self.words], count=stop - start)
            check(counts[start:stop])
            if self.common is not None:
                self._few(raw, words, start, counts[start:stop], out[start:stop])
            else:
                self._many(raw, words, start, counts[start:stop], out[start:stop])
        return out

    def _many(self, raw: Raw, words: CellWords, start: int, counts: Integers, out: Integers) -> None:
        space = workspace(len(raw), 2 * self.words)
        drawn = self.look_up(raw, space.index[: len(raw)], space.small[: len(raw)])
        places = (drawn == UNDECIDED).nonzero()[0]
        noise = space.index[: len(raw)]
        np.copyto(noise, drawn)  # widened first: adding mixed widths costs twice as much
        np.add(counts, noise, out=out)
        if len(places):
            out[places] += self.resolve(raw[places], places, words, start) - UNDECIDED

    def _few(self, raw: Raw, words: CellWords, start: int, counts: Integers, out: Integers) -> None:
        """Do the same where nearly every cell draws 0: copy, then touch only the others."""
        assert self.common is not None
        low, size = self.common
        places = (raw - raw.dtype.type(low) >= raw.dtype.type(size)).nonzero()[0]
        np.copyto(out, counts)
        if not len(places):
            return
        rare = raw[places]
        drawn = self.table[rare >> rare.dtype.type(self.shift)].astype(np.int64)
        doubt = (drawn == UNDECIDED).nonzero()[0]
        if len(doubt):
            drawn[doubt] = self.resolve(rare[doubt], places[doubt], words, start)
        out[places] += drawn

    def look_up(
        self, raw: Raw, index: npt.NDArray[np.intp], out: npt.NDArray[np.int16] | None = None
    ) -> npt.NDArray[np.int16]:
        """Return the outcome of every cell, `UNDECIDED` where the cell does not tell."""
        if self.shift == 0:
            np.copyto(index, raw)
        else:
            np.right_shift(raw, raw.dtype.type(self.shift), out=index, casting="unsafe")
        return self.table.take(index, mode="clip", out=out)

    def resolve(self, raw: Raw, places: npt.NDArray[np.intp], words: CellWords, start: int) -> Integers:
        """Return the outcomes of undecided cells: by the second word, or by the element's tail."""
        if self.words == 1:
            return self._by_tails(raw.tolist(), (places + start).tolist(), words)
        outcomes: Integers = self.ladder.searchsorted(raw)
        tied = (self.ladder.take(outcomes, mode="clip") == raw).nonzero()[0]
        outcomes += self.first
        for at in tied.tolist():
            tail = words.tail(start + int(places[at]))
            outcomes[at] = self._exactly(int(raw[at]), 2 * self.bits, tail, words.bits)
        return outcomes

    def _by_tails(self, cells: list[int], elements: list[int], words: CellWords) -> Integers:
        width, floors, outcomes = words.bits, self.floors, []
        excess = width - self.bits
        for cell, element, word in zip(cells, elements, words.first_of_tails(elements), strict=True):
            prefix = (cell << width) | word
            place = bisect_left(floors, prefix >> excess) if excess >= 0 else len(floors)
            if place < len(floors) and floors[place] != prefix >> excess:
                outcomes.append(self.first + place)
            else:
                tail = islice(words.tail(element), 1, None)
                outcomes.append(self._exactly(prefix, self.bits + width, tail, width))
        return np.array(outcomes, np.int64)

    def _exactly(self, prefix: int, bits: int, tail: Iterator[int], width: int) -> int:
        """Return F⁻¹ of the uniform with these leading bits: by the kept thresholds, on a tie by balls."""
        while bits < 2 * self.bits:
            prefix, bits = (prefix << width) | next(tail), bits + width
        uniform = prefix >> (bits - 2 * self.bits)
        place = bisect_left(self.floors, uniform)
        if place == len(self.floors) or self.floors[place] != uniform:
            return self.first + place
        lazy = LazyUniform(prefix, bits, tail, width)
        return locate(lambda k: lazy.below(self.cdf(k)), self.first + place)


_DTYPES = {1: "<u2", 2: "<u4"}
_UNPACK = {
    words: [struct.Struct(f"<{length}{code}").unpack_from for length in range(_SHORT + 1)]
    for words, code in ((1, "H"), (2, "I"))
}


def cell_sampler(law: SymmetricLaw, *, bits: int = _CELL_BITS, words: int | None = None) -> CellSampler:
    """Return the cells of a symmetric law; the caller keeps it (building costs about 1 µs a threshold).

    Args:       bits: of a cell (16 in the product; tests enumerate small ones). words: W; by default 2 from 1/1024 of
                undecided cells on, else 1.
    Raises:     InvalidParameterError: a law too wide for 16-bit outcomes (use the grid or rejection samplers).
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.sampling.survival import tsg_law
        >>> from tiers.sampling.words import KeyedWords
        >>> sampler = cell_sampler(tsg_law(TwoSidedGeometric(Fraction(1))))
        >>> sampler.words, len(sampler.draw(KeyedWords(bytes(32)), 1000))
        (1, 1000)
    """
    tails = law.floors(2 * bits)
    if len(tails) > _OUTCOMES:
        raise InvalidParameterError("law", f"at most {_OUTCOMES} outcomes a side above 2⁻³²", len(tails))
    top = (1 << 2 * bits) - 1
    return cells_of(-len(tails), tails[::-1] + [top - tail for tail in tails], law.cdf, bits=bits, words=words)


def cells_of(
    first: int,
    floors: list[int],
    cdf: Callable[[int], Real],
    *,
    bits: int = _CELL_BITS,
    words: int | None = None,
    finer: int = _FINER,
) -> CellSampler:
    """Return the cells of any lattice law from ⌊2^(2·bits)·F(k)⌋ for k = first, first + 1, …

    Args:       floors: from a 0 to a 2^(2·bits) − 1, or all of a bounded law but its last outcome's. finer: how many
                more bits of a two-word group name a cell: the same draws from a larger table.
    """
    ladder = np.array(floors, np.uint32)
    table = _table(first, ladder, 2 * bits, bits)
    chosen = words if words is not None else 2 if np.mean(table == UNDECIDED) >= _TWO_WORDS_FROM else 1
    shift = 0
    if chosen == 2:  # the same words in finer cells: fewer of them are undecided
        shift = bits - min(finer, bits)
        table = _table(first, ladder, 2 * bits, 2 * bits - shift)
    zero = np.flatnonzero(table == 0)
    common = (int(zero[0]) << shift, len(zero) << shift) if len(zero) >= _COMMON_FROM * len(table) else None
    return CellSampler(bits, chosen, first, floors, cdf, table, ladder, shift, common)


def _table(first: int, ladder: npt.NDArray[np.uint32], known: int, bits: int) -> npt.NDArray[np.int16]:
    """Return the outcome of each of 2^bits cells, `UNDECIDED` where a threshold lies inside."""
    owner = ladder.astype(np.int64) >> (known - bits)
    crossed = np.bincount(owner, minlength=1 << bits)
    return np.where(crossed > 0, UNDECIDED, first + np.cumsum(crossed)).astype(np.int16)


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
