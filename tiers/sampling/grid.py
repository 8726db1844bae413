"""Two-sided geometric noise of very small rate: lattice Laplace on a fine grid, by blocks of 8 binary digits.

Z ≥ 0 with probability 1/(1+p), and then Z is geometric; else −1 − Z is. The binary digits of a geometric are
independent, so blocks of them are: Q = ⌊Z/2^m⌋ is a two-sided law with a sign of its own, and the lower digits,
mirrored where Q < 0, are blocks of truncated geometric ones. Each is one look-up of 16-bit cells.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice

import numpy as np
from flint import arb

from tiers.real import Real, exact, floor_scaled, precision
from tiers.sampling.arrays import Integers, Raw, Workspace, check_arrays, check_counts, trust, workspace
from tiers.sampling.cells import UNDECIDED, CellSampler, cells_of
from tiers.sampling.words import CellWords

__all__ = ["GridSampler", "grid_sampler"]

_BLOCK = 8
_TOP_RATE = Fraction(1, 64)
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class _Every:
    """Every `of`-th word of each element's tail: what one of several look-ups of an element may read."""

    words: CellWords
    place: int
    of: int

    @property
    def bits(self) -> int:
        return self.words.bits

    def read(self, count: int) -> bytes:
        return self.words.read(count)

    def read_into(self, start: int, count: int, buffer: bytearray) -> None:
        self.words.read_into(start, count, buffer)

    def tail(self, element: int) -> Iterator[int]:
        return islice(self.words.tail(element), self.place, None, self.of)

    def first_of_tails(self, elements: Sequence[int]) -> list[int]:
        return [next(self.tail(element)) for element in elements]


@dataclass(frozen=True, slots=True)
class GridSampler:
    """Draws of the two-sided geometric law by blocks; element j owns 2·(1 + blocks) 16-bit words of stream 0.

    Law:        P(Z = k) = (1−p)/(1+p)·p^|k|, exactly, for every block size and word width (enumerated in the tests).
    Example:
        >>> from tiers.sampling.words import KeyedWords
        >>> len(grid_sampler(Fraction(1, 2**20)).draw(KeyedWords(bytes(32)), 100))
        100
    """

    top: CellSampler
    blocks: tuple[CellSampler, ...]
    block_bits: int

    def draw(self, words: CellWords, length: int) -> tuple[int, ...]:
        """Return `length` independent draws as Python integers."""
        out: Integers = np.zeros(length, np.int64)
        return tuple(self.perturb(words, out, out).tolist())

    def add_to(self, words: CellWords, counts: Integers, out: Integers) -> Integers:
        """Put counts + noise into `out` (which may be `counts`) and return it; refuses counts beyond ±2⁶²."""
        return self._run(words, counts, out, check_counts)

    def perturb(self, words: CellWords, counts: Integers, out: Integers) -> Integers:
        """Do what `add_to` does to counts that `check_counts` has seen, or that are such counts with noise added."""
        return self._run(words, counts, out, trust)

    def _run(self, words: CellWords, counts: Integers, out: Integers, check: Callable[[Integers], None]) -> Integers:
        check_arrays(counts, out)
        length, of = len(counts), 1 + len(self.blocks)
        space = workspace(min(length, _CHUNK), 4 * of)
        rows = np.empty((4, min(length, _CHUNK)), np.int64)
        for start in range(0, length, _CHUNK):
            stop = min(start + _CHUNK, length)
            words.read_into(4 * of * start, 4 * of * (stop - start), space.raw)
            raw = np.frombuffer(space.raw, "<u4", of * (stop - start)).reshape(-1, of)
            check(counts[start:stop])
            noise = self._chunk(raw, space, rows[:, : stop - start], words, start)
            np.add(counts[start:stop], noise, out=out[start:stop])
        return out

    def _chunk(self, raw: Raw, space: Workspace, rows: Integers, words: CellWords, start: int) -> Integers:
        """Return Z = Q·2^m + (the digits below, mirrored where Q < 0)."""
        size, of = len(raw), 1 + len(self.blocks)
        index, small = space.index[:size], space.small[:size]
        high, below, part, sign = rows[0], rows[1], rows[2], rows[3]
        below[:] = 0
        for place, sampler in enumerate((self.top, *self.blocks)):
            drawn = sampler.look_up(raw[:, place], index, small)
            undecided = (drawn == UNDECIDED).nonzero()[0]
            into = part if place else high
            np.copyto(into, drawn)
            if len(undecided):
                share = _Every(words, place, of)
                into[undecided] = sampler.resolve(raw[undecided, place], undecided, share, start)
            if place:
                below <<= self.block_bits
                below += part
        np.right_shift(high, 63, out=sign)
        sign &= (1 << self.block_bits * len(self.blocks)) - 1
        below ^= sign
        high <<= self.block_bits * len(self.blocks)
        high += below
        noise: Integers = high
        return noise


@lru_cache(maxsize=64)
def grid_sampler(rate: Fraction, *, bits: int = 16, block_bits: int = _BLOCK, blocks: int | None = None) -> GridSampler:
    """Return the sampler of TSG(e^−rate) for small rates; cached.

    Args:       rate: ε/Δ₁ in steps of the grid. bits, block_bits, blocks: 16-bit cells, 8-digit blocks and as many as
                leave the top law a rate of 1/64 in the product; the tests enumerate small ones.
    Example:
        >>> [len(grid_sampler(Fraction(1, 2**20)).blocks), len(grid_sampler(Fraction(1, 2**10)).blocks)]
        [2, 1]
    """
    count = 0 if blocks is None else blocks
    while blocks is None and rate * 2 ** (block_bits * count) < _TOP_RATE:
        count += 1
    lower = tuple(_block(rate * 2 ** (block_bits * place), bits, block_bits) for place in range(count - 1, -1, -1))
    return GridSampler(_top(rate, rate * 2 ** (block_bits * count), bits), lower, block_bits)


def _block(rate: Fraction, bits: int, block_bits: int) -> CellSampler:
    size = 1 << block_bits

    def cdf(k: int) -> Real:
        reach = k + 1
        if not 0 < reach < size:  # exactly 0 or 1: no ball could tell
            return lambda: arb(int(reach > 0))
        return lambda: (1 - (-exact(rate * reach)).exp()) / (1 - (-exact(rate * size)).exp())

    return cells_of(0, [_floor(cdf(k), 2 * bits) for k in range(size - 1)], cdf, bits=bits, words=2, finer=0)


def _top(rate: Fraction, coarse: Fraction, bits: int) -> CellSampler:
    def below(k: int) -> Real:
        return lambda: (-exact(rate) - exact(coarse * (-k - 1))).exp() / (1 + (-exact(rate)).exp())

    def above(k: int) -> Real:
        return lambda: (-exact(coarse * (k + 1))).exp() / (1 + (-exact(rate)).exp())

    def cdf(k: int) -> Real:
        if k < 0:
            return below(k)
        beyond = above(k)
        return lambda: 1 - beyond()

    top = (1 << 2 * bits) - 1
    left, right = _until_zero(lambda m: below(-m), 1, 2 * bits), _until_zero(above, 0, 2 * bits)
    floors = left[::-1] + [top - floor for floor in right]
    return cells_of(-len(left), floors, cdf, bits=bits, words=2, finer=0)


def _until_zero(tail: Callable[[int], Real], start: int, bits: int) -> list[int]:
    floors: list[int] = []
    while not floors or floors[-1]:
        floors.append(_floor(tail(start + len(floors)), bits))
    return floors


def _floor(value: Real, bits: int) -> int:
    """Return ⌊2^bits·value⌋: one evaluation where it suffices, which it nearly always does."""
    with precision(bits + 96):
        floor = (value() * arb(2) ** bits).floor().unique_fmpz()
    return int(floor) if floor is not None else floor_scaled(value, bits)
