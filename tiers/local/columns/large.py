"""Domains of more than 16 values: a set is a column of 64-bit words, drawn by random planes and set right in size.

A set that is exchangeable and conditioned on its size is uniform. So each report takes a plane of independent bits of
a dyadic rate, joins it to what it keeps, and then adds (or drops) uniform values until the size is right.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.local.columns.keyed import ReportWords, check_run, run_of
from tiers.local.subset import check_domain
from tiers.real import Real
from tiers.sampling.bernoulli import refine, threshold

__all__ = ["BLOCK", "LargeStep", "singletons", "words_of"]

Columns = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Positions = npt.NDArray[np.uint16]
BLOCK = 8192
_ONE, _SIX, _LOW_SIX = np.uint64(1), np.uint64(6), np.uint64(63)


def words_of(domain_size: int) -> int:
    """Return the 64-bit words of a set."""
    return (domain_size + 63) // 64


def singletons(domain_size: int, values: npt.NDArray[np.integer]) -> Columns:
    """Return each value as a set of one, in columns: shape (words, n)."""
    found = np.zeros((words_of(domain_size), len(values)), np.uint64)
    places = values.astype(np.int64)
    found.reshape(-1)[(places >> 6) * len(values) + np.arange(len(values))] = _ONE << (places & 63).astype(np.uint64)
    return found


@dataclass(frozen=True, slots=True)
class _Aim:
    """How a plane is drawn: each bit 1 with probability rate/2^digits, so that few values are left to add."""

    rate: int
    attempts: int


class LargeStep:
    """From sets of size a to sets of size b ≥ a over d values: kept and expanded, or drawn afresh.

    Reports are columns: shape (⌈d/64⌉, n), value v in bit v mod 64 of word ⌊v/64⌋. Report j owns column j mod 8192 of
    its block of every slot: a coin of 64 bits, the planes' words, then positions of 16 bits; what is left it takes
    from its further words, four positions a word.

    Law:        keep·[A ⊂ B]/C(d−a, b−a) + (1−keep)/C(d, b).
    Args:       domain_size, above_size, below_size: d, a, b. keep: the probability.
    Example:
        >>> from tiers.local.signal import Signal
        >>> from tiers.sampling.words import KeyedWords
        >>> step = LargeStep(100, 1, 30, Signal.rational(Fraction(1, 2)).ball)
        >>> sets = step.apply(KeyedWords(bytes(32)), 0, singletons(100, np.arange(100)))
        >>> sets.shape, set(np.bitwise_count(sets).sum(axis=0).tolist())
        ((2, 100), {30})
    """

    def __init__(self, domain_size: int, above_size: int, below_size: int, keep: Real) -> None:
        check_domain(domain_size)
        if not 1 <= above_size <= below_size < domain_size:
            raise InvalidParameterError("step", f"1 ≤ a ≤ b < d = {domain_size}", (above_size, below_size))
        self.domain_size, self.above_size, self.below_size, self.keep = domain_size, above_size, below_size, keep
        self.width = words_of(domain_size)
        self.edge = threshold(keep, 64)
        self.digits = math.ceil(math.log2(domain_size) / 2) + 2
        self.kept = _aim(domain_size, domain_size - above_size, below_size - above_size, below_size, self.digits)
        self.fresh = _aim(domain_size, domain_size, below_size, below_size, self.digits)
        rates = self.kept.rate | self.fresh.rate
        spare = (rates & -rates).bit_length() - 1 if rates else self.digits
        self.planes = range(spare, self.digits)
        self.attempts = -(-max(self.kept.attempts, self.fresh.attempts) // 4) * 4
        self.slots = 1 + len(self.planes) * self.width + self.attempts // 4
        self.last = np.uint64((1 << (domain_size - 64 * (self.width - 1))) - 1)
        self.short = np.uint32(65536 % domain_size)

    def apply(self, words: ReportWords, first: int, above: Columns) -> Columns:
        """Return the sets below those of reports `first`, `first + 1`, …, which must be of the size above.

        Raises:     InvalidParameterError: numbers of reports, or words, beyond the streams.
        """
        check_run(first, above.shape[1])
        out = np.empty_like(above)
        at = 0
        while at < above.shape[1]:
            block, column = divmod(first + at, BLOCK)
            size = min(BLOCK - column, above.shape[1] - at)
            out[:, at : at + size] = self._part(words, block, column, above[:, at : at + size])
            at += size
        return out

    def _part(self, words: ReportWords, block: int, column: int, above: Columns) -> Columns:
        count = above.shape[1]
        begin = block * self.slots * BLOCK * 8

        def slot(place: int) -> Columns:
            return run_of(words, begin + (place * BLOCK + column) * 8, count * 8).view(np.uint64)

        first = block * BLOCK + column
        kept = self._coins(words, first, slot(0))
        chosen = np.uint64(0) - kept.astype(np.uint64)
        base = above & chosen
        flat = self._planes(slot, chosen, count)
        flat |= base
        need = self.below_size - np.bitwise_count(flat).sum(axis=0, dtype=np.int32)

        def positions(place: int) -> Positions:
            start = begin + (1 + len(self.planes) * self.width) * BLOCK * 8 + (place * BLOCK + column) * 2
            return run_of(words, start, count * 2).view(np.uint16)

        self._fix(words, first, flat, base, need, positions)
        return flat

    def _coins(self, words: ReportWords, first: int, coins: Columns) -> npt.NDArray[np.bool_]:
        edge = min(self.edge, 2**64 - 1)
        kept = coins < np.uint64(edge) if edge == self.edge else np.ones(len(coins), np.bool_)
        for place in np.flatnonzero(coins == np.uint64(edge)).tolist():
            kept[place] = self.edge > edge or refine(edge, 64, self.keep, words.tail(first + place))
        return kept

    def _planes(self, slot: "object", chosen: Columns, count: int) -> Columns:
        """Return planes: from the last digit up, a random word is joined where the digit is 1, and met where it is 0."""
        out = np.zeros((self.width, count), np.uint64)
        at = 1
        for digit in self.planes:
            mine, other = self.kept.rate >> digit & 1, self.fresh.rate >> digit & 1
            joins = chosen if mine > other else ~chosen
            for word in range(self.width):
                fresh = slot(at)  # type: ignore[operator]
                at += 1
                line = out[word]
                if mine == other:
                    (np.bitwise_or if mine else np.bitwise_and)(line, fresh, out=line)
                else:
                    differ = line ^ fresh
                    np.bitwise_and(line, fresh, out=line)
                    np.bitwise_and(differ, joins, out=differ)
                    np.bitwise_or(line, differ, out=line)
        out[-1] &= self.last
        return out

    def _fix(
        self, words: ReportWords, first: int, sets: Columns, base: Columns, need: npt.NDArray[np.int32], positions: "object"
    ) -> None:
        count, flat, kept = sets.shape[1], sets.reshape(-1), base.reshape(-1)
        rows = np.flatnonzero(need)
        left = np.abs(need[rows])
        drops = need[rows] < 0
        for attempt in range(self.attempts):
            if not len(rows):
                return
            scaled = positions(attempt)[rows] * np.uint32(self.domain_size)  # type: ignore[operator]
            value = scaled >> np.uint32(16)
            at = (value >> np.uint32(6)).astype(np.int64) * count + rows
            bit = _ONE << (value & np.uint32(63)).astype(np.uint64)
            now = flat.take(at)
            member = (now & bit) != 0
            able = member == drops
            if self.short:
                able &= (scaled & np.uint32(0xFFFF)) >= self.short
            if drops.any():
                able &= ~drops | ((kept.take(at) & bit) == 0)
            flat[at] = now ^ bit * able
            left -= able
            go = left > 0
            rows, left, drops = rows[go], left[go], drops[go]
        for row, missing, drop in zip(rows.tolist(), left.tolist(), drops.tolist(), strict=True):
            self._rest(sets[:, row], base[:, row], missing, drop, words.tail(first + row))

    def _rest(self, line: Columns, base: Columns, missing: int, drop: bool, tail: Iterator[int]) -> None:
        """Go on for one report, four positions a further word; a coin that tied has read the words before."""
        for word in tail:
            for shift in (0, 16, 32, 48):
                scaled = (word >> shift & 0xFFFF) * self.domain_size
                if scaled & 0xFFFF < int(self.short):
                    continue
                place, bit = scaled >> 22, np.uint64(1 << (scaled >> 16 & 63))
                if bool(line[place] & bit) == drop and not (drop and base[place] & bit):
                    line[place] ^= bit
                    missing -= 1
                if not missing:
                    return


def _aim(domain_size: int, population: int, wanted: int, below_size: int, digits: int) -> _Aim:
    """Return the rate with the least expected work, and attempts that nearly always suffice. Neither touches the law."""
    best, found = math.inf, _Aim(0, 0)
    adds, removes = (domain_size - below_size) / domain_size, max(wanted, 1) / domain_size
    for rate in range(max(1, round(wanted / population * 2**digits) + 2)):
        share = rate / 2**digits
        mean, spread = population * share, math.sqrt(population * share * (1 - share)) + 1e-9
        gap = (wanted - mean) / spread
        density, below = math.exp(-gap * gap / 2) / math.sqrt(2 * math.pi), math.erfc(-gap / math.sqrt(2)) / 2
        short, over = spread * (gap * below + density), spread * (density - gap * (1 - below))
        work = short / adds + 1.5 * over / removes
        if work < best:
            most = (wanted - mean + 4.5 * spread) / adds
            best, found = work, _Aim(rate, math.ceil(most + 3 * math.sqrt(max(most, 1))) + 2)
    return found
