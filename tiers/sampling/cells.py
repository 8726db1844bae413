"""Long vectors by cells: a 16-bit word names one of 65,536 equal cells of [0, 1), and most cells lie in one outcome.

Outcome k owns n(k) ≤ 2^b·P(k) whole cells: their words decide at once, by one look-up. The first cells are nobody's:
a uniform real U that falls there is drawn by inversion from what is left, G(k) = F(k) − Σ_{i ≤ k} n(i)/2^b. Where many
cells are open an element owns a second 16-bit word, else 64 bits of its own tail tell; at a tie (2⁻¹⁶ of those) ball
arithmetic goes on, outwards too: no tail is folded. Work depends on what is drawn: meant for vectors, where single
entries cannot be timed.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.real import Real, exact
from tiers.sampling.arrays import Integers, Raw, check_arrays, check_counts, trust, workspace
from tiers.sampling.inversion import LazyUniform, locate
from tiers.sampling.survival import SymmetricLaw
from tiers.sampling.words import CellWords

__all__ = ["UNDECIDED", "CellSampler", "cell_sampler", "cells_of"]

_CELL_BITS = 16
_CHUNK = 1 << 18
_TWO_WORDS_FROM = 1 / 1024  # the share of undecided cells from which a second word is cheaper than a tail
_COMMON_FROM = 0.9  # the share of cells that draw 0 from which touching only the others is cheaper
_SHORT = 64  # up to this length numpy's calls cost more than the draws
_AT_ONCE = 4096  # up to so many bytes of words are read in one piece
_OUTCOMES = 1 << 14
_FINER = 2  # so many more bits of a two-word group name a cell
UNDECIDED = -(1 << 15)


@dataclass(frozen=True, slots=True, eq=False)
class CellSampler:
    """Draws of one lattice law for vectors; element j owns the j-th group of W = `words` 16-bit words of stream 0.

    Guarantee:  exact for every width of cells and of refinement words (enumerated in the tests).
    Law:        P(draw = k) = n(k)/2^b + [G(k) − G(k − 1)] = P(k), n(k) being `table`'s cells of k.
    Args:       first: the outcome below the first threshold and on its tie. floors: ⌊2^(2·bits)·G(k)⌋ for k = first, ….
                left: G as a ball-valued function of every integer. table: the outcome of each of 2^b cells.
    Example:
        >>> floors = [2, 5, 8, 10, 13]  # sixteenths of k/6
        >>> die = cells_of(1, floors, lambda k: lambda: exact(Fraction(min(max(k, 0), 6), 6)), bits=2, words=2)
        >>> die.table.tolist()[6:], die.undecided_share  # none may own more than 16/6 cells
        ([1, 2, 2, 3, 3, 4, 5, 5, 6, 6], 0.375)
    """

    bits: int
    words: int
    first: int
    floors: list[int]
    left: Callable[[int], Real]
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
        length, group, dtype = len(counts), 2 * self.words, _DTYPES[self.words]
        put = self._many if self.common is None else self._few
        if group * length <= _AT_ONCE:
            check(counts)
            put(np.frombuffer(words.read(group * length), dtype), words, 0, counts, out)
            return out
        step = min(length, _CHUNK)
        room = workspace(step, group).raw
        whole = np.frombuffer(room, dtype, step)
        for start in range(0, length, step):
            stop = min(start + step, length)
            words.read_into(group * start, group * (stop - start), room)
            check(counts[start:stop])
            put(whole[: stop - start], words, start, counts[start:stop], out[start:stop])
        return out

    def _many(self, raw: Raw, words: CellWords, start: int, counts: Integers, out: Integers) -> None:
        size = len(raw)
        space = workspace(size, 2 * self.words)
        noise, drawn = space.index[:size], space.small[:size]
        self.look_up(raw, noise, drawn)
        open_ = _undecided(drawn)
        np.copyto(noise, drawn)  # widened first: adding mixed widths costs twice as much
        np.add(counts, noise, out=out)
        if open_ is not None:
            out[open_] += self.resolve(raw[open_], open_, words, start) - UNDECIDED

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
        """Return G⁻¹ of the uniform with these leading bits: by the kept thresholds, on a tie by balls."""
        while bits < 2 * self.bits:
            prefix, bits = (prefix << width) | next(tail), bits + width
        uniform = prefix >> (bits - 2 * self.bits)
        place = bisect_left(self.floors, uniform)
        if place == len(self.floors) or self.floors[place] != uniform:
            return self.first + place
        lazy = LazyUniform(prefix, bits, tail, width)
        return locate(lambda k: lazy.below(self.left(k)), self.first + place)


_DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<u2"), 2: np.dtype("<u4")}
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
    certain, shift = np.array(floors, np.int64), bits
    owned = _owned(certain, 2 * bits, bits)
    chosen = words if words is not None else 2 if 1 - owned.sum() / (1 << bits) >= _TWO_WORDS_FROM else 1
    if chosen == 2:  # the same words in finer cells: fewer of them are undecided
        shift = bits - min(finer, bits)
        owned = _owned(certain, 2 * bits, 2 * bits - shift)
    cells = 1 << 2 * bits - shift
    values = np.append(np.int64(UNDECIDED), first + np.arange(len(owned)))
    table = np.repeat(values, np.append(cells - owned.sum(), owned)).astype(np.int16)
    below = np.cumsum(owned)
    ladder = (certain - (below[:-1] << shift)).astype(np.uint32)
    shift -= bits * (chosen == 1)
    zero = np.flatnonzero(table == 0)
    common = (int(zero[0]) << shift, len(zero) << shift) if len(zero) >= _COMMON_FROM * len(table) else None
    left = _left(cdf, first, below.tolist(), cells)
    return CellSampler(bits, chosen, first, ladder.tolist(), left, table, ladder, shift, common)


def _owned(floors: Integers, known: int, bits: int) -> Integers:
    """Return how many of 2^bits cells each outcome may own, from the first on to the one above the last threshold.

    2^known·P(k) > ⌊2^known·F(k)⌋ − ⌊2^known·F(k − 1)⌋ − 1, so that many parts, cut down to whole cells, are surely k's.
    """
    parts = np.diff(floors, prepend=0, append=1 << known) - 1
    owned: Integers = np.maximum(parts, 0) >> (known - bits)
    return owned


def _left(cdf: Callable[[int], Real], first: int, below: list[int], cells: int) -> Callable[[int], Real]:
    """Return G: the distribution function less what the cells have decided, `below[k − first]` of them up to k."""

    def left(k: int) -> Real:
        whole, decided = cdf(k), below[min(k - first, len(below) - 1)] if k >= first else 0
        return lambda: whole() - exact(Fraction(decided, cells))

    return left


def _undecided(drawn: npt.NDArray[np.int16]) -> npt.NDArray[np.intp] | None:
    """Return where the cells did not tell; None where they told everywhere."""
    if len(drawn) <= _AT_ONCE and drawn.item(drawn.argmin()) != UNDECIDED:  # the least there is
        return None
    places: npt.NDArray[np.intp] = (drawn == UNDECIDED).nonzero()[0]
    return places if len(places) else None
