"""Domains of more than 16 values: a set is a column of 64-bit words: a uniform set, joined to what the report keeps.

A report that is drawn afresh takes a uniform set of its size. One that is kept takes a uniform set of about as many
values as it lacks; given how many of them are new, those are a uniform set outside; then uniform values are added (or
dropped again) until the size is right.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.local.columns.keyed import ReportWords, Scratch, check_run, halves
from tiers.local.columns.small import SMALL_DOMAIN
from tiers.local.columns.uniform import UniformSets
from tiers.local.subset import check_domain
from tiers.real import Real
from tiers.sampling.bernoulli import refine, threshold

__all__ = ["BLOCK", "LargeStep", "singletons", "words_of"]

Columns = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Positions = npt.NDArray[np.uint16]
Needs = npt.NDArray[np.int32]
BLOCK = 32768
_FEW = 24
_SECOND_PASS = 4.0  # what looking for values to drop costs, in attempts
_ONE = np.uint64(1)


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
    """How many values a kept report takes at first, and how many positions nearly always suffice to set it right."""

    size: int
    attempts: int


class LargeStep:
    """From sets of size a to sets of size b ≥ a over d values: kept and expanded, or drawn afresh.

    Reports are columns: shape (⌈d/64⌉, n), value v in bit v mod 64 of word ⌊v/64⌋. Report j owns column j mod 2¹⁵ of
    its block of every slot: of 32 bits, a coin and the words of a uniform set; of 16 bits, positions. What is left it
    takes from its further words, four positions a word.

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
        if domain_size <= SMALL_DOMAIN or not 1 <= above_size <= below_size < domain_size:
            rule = f"1 ≤ a ≤ b < d and d > {SMALL_DOMAIN}"
            raise InvalidParameterError("step", rule, (domain_size, above_size, below_size))
        self.domain_size, self.above_size, self.below_size, self.keep = domain_size, above_size, below_size, keep
        self.width = words_of(domain_size)
        self.edge = threshold(keep, 32)
        aim = _aim(domain_size, above_size, below_size)
        self.kept_size = aim.size
        self.sets = UniformSets(domain_size, (aim.size, below_size))
        self.attempts = aim.attempts + aim.attempts % 2
        self.slots = 1 + self.sets.slots + self.attempts // 2
        self.short = 65536 % domain_size
        values = np.arange(domain_size)
        self.value_bits = (1 << (values & 7)).astype(np.uint8)
        self.value_bytes = values >> 3 & 7
        self.value_words = values >> 6

    def apply(self, words: ReportWords, first: int, above: Columns) -> Columns:
        """Return the sets below those of reports `first`, `first + 1`, …, which must be of the size above.

        Raises:     InvalidParameterError: numbers of reports, or words, beyond the streams.
        """
        count = above.shape[1]
        check_run(first, count)
        out, scratch, at = np.zeros_like(above), Scratch(4 * min(BLOCK, count)), 0
        while at < count:
            block, column = divmod(first + at, BLOCK)
            size = min(BLOCK - column, count - at)
            part = _Part(self, words, scratch, block, column, size)
            out[:, at : at + size] = self._part(part, above[:, at : at + size])
            at += size
        return out

    def _part(self, part: "_Part", above: Columns) -> Columns:
        coins = part.slot(0)
        kept = coins < min(self.edge, 2**32 - 1)
        odd = np.flatnonzero(coins == min(self.edge, 2**32 - 1))
        if self.edge == 2**32:
            kept, odd = np.ones(part.count, np.bool_), odd[:0]
        base = above * kept
        sets = np.zeros((self.width, part.count), np.uint64)
        sizes = np.where(kept, self.kept_size, self.below_size)
        odd = np.concatenate([odd, self.sets.fill(lambda slot: part.slot(1 + slot), sizes, sets)])
        sets |= base
        need = np.full(part.count, self.below_size, np.int32)
        for line in sets:
            need -= np.bitwise_count(line)
        need[odd] = 0
        self._fix(part, sets, base, need)
        for row in np.unique(odd).tolist():
            found = self.one(*part.own(row), part.words.tail(part.first + row), _bits(above[:, row]))
            sets[:, row] = _column(found, self.width)
        return sets

    def one(self, own: Sequence[int], positions: Sequence[int], tail: Iterator[int], above: int) -> int:
        """Return the set below one report's: the definition, which the columns repeat.

        Args:       own: the report's words of 32 bits. positions: of 16 bits. tail: its further words. above: its set.
        """
        further = halves(tail, 32)
        kept = own[0] < self.edge or (own[0] == self.edge and refine(own[0], 32, self.keep, further))
        base = above if kept else 0
        found = base | self.sets.one(iter(own[1:]), tail, self.kept_size if kept else self.below_size)
        return self._right(found, base, chain(positions, _quarters(tail)))

    def _fix(self, part: "_Part", sets: Columns, base: Columns, need: Needs) -> None:
        """Add, or drop, uniform values until every size is right; what a report keeps is never dropped."""
        offsets = self.value_words * (8 * part.count) + self.value_bytes
        flat, kept = sets.reshape(-1).view(np.uint8), base.reshape(-1).view(np.uint8)
        for drop in (False, True):
            rows, attempt = np.flatnonzero(need < 0 if drop else need > 0), 0
            left, starts = np.abs(need[rows]), rows * 8
            while attempt < self.attempts and len(rows) > _FEW:
                scaled = part.positions(attempt).take(rows) * np.uint32(self.domain_size)
                value = scaled >> np.uint32(16)
                at = offsets.take(value)
                at += starts
                bit, now = self.value_bits.take(value), flat.take(at)
                if self.short:
                    bit *= (scaled & np.uint32(0xFFFF)) >= np.uint32(self.short)
                if drop:
                    bit &= now & ~kept.take(at)
                    flat[at] = now ^ bit
                else:
                    bit &= ~now
                    flat[at] = now | bit
                left -= bit != 0
                go = left > 0
                rows, left, starts = rows[go], left[go], starts[go]
                attempt += 1
            if len(rows):
                later = [part.positions(place)[rows] for place in range(attempt, self.attempts)]
                for at_row, row in enumerate(rows.tolist()):
                    mine = [int(positions[at_row]) for positions in later]
                    rest = chain(mine, _quarters(part.words.tail(part.first + row)))
                    found = self._right(_bits(sets[:, row]), _bits(base[:, row]), rest)
                    sets[:, row] = _column(found, self.width)

    def _right(self, found: int, base: int, positions: Iterator[int]) -> int:
        """Set one report right in size from a sequence of positions."""
        missing = self.below_size - found.bit_count()
        while missing:
            scaled = next(positions) * self.domain_size
            bit = 1 << (scaled >> 16)
            able = not found & bit if missing > 0 else found & bit & ~base
            if able and scaled & 0xFFFF >= self.short:
                found ^= bit
                missing += -1 if missing > 0 else 1
        return found


@dataclass(frozen=True, slots=True)
class _Part:
    """A run of reports within one block: where their words are."""

    step: LargeStep
    words: ReportWords
    scratch: Scratch
    block: int
    column: int
    count: int

    @property
    def first(self) -> int:
        return self.block * BLOCK + self.column

    def slot(self, place: int) -> npt.NDArray[np.uint32]:
        """Return one slot's words, valid until the next read."""
        start = ((self.block * self.step.slots + place) * BLOCK + self.column) * 4
        return self.scratch.run(self.words, start, self.count * 4).view(np.uint32)

    def positions(self, attempt: int) -> Positions:
        """Return everybody's position of an attempt, valid until the next read."""
        begin = (self.block * self.step.slots + 1 + self.step.sets.slots) * BLOCK * 4
        start = begin + (attempt * BLOCK + self.column) * 2
        return self.scratch.run(self.words, start, self.count * 2).view(np.uint16)

    def own(self, row: int) -> tuple[list[int], list[int]]:
        """Return one report's words and its positions."""
        words = [int(self.slot(place)[row]) for place in range(1 + self.step.sets.slots)]
        return words, [int(self.positions(attempt)[row]) for attempt in range(self.step.attempts)]


def _quarters(tail: Iterator[int]) -> Iterator[int]:
    """Yield four positions of each further word, from the lowest up."""
    for word in tail:
        yield from (word >> shift & 0xFFFF for shift in (0, 16, 32, 48))


def _bits(column: Columns) -> int:
    return int.from_bytes(np.ascontiguousarray(column).tobytes(), "little")


def _column(bits: int, width: int) -> Columns:
    return np.frombuffer(bits.to_bytes(8 * width, "little"), np.uint64)


def _aim(domain_size: int, above_size: int, below_size: int) -> _Aim:
    """Return the size with the least expected work for a kept report. Efficiency alone hangs on it, never the law."""
    wanted, outside = below_size - above_size, domain_size - above_size
    adds, drops = (domain_size - below_size) / domain_size, max(wanted, 1) / domain_size
    best, found = math.inf, _Aim(0, 0)
    for size in range(max(0, wanted - 1), min(domain_size, below_size) + 1):
        mean = size * outside / domain_size
        thin = size * (1 - size / domain_size) * outside / domain_size * above_size / max(1, domain_size - 1)
        spread = math.sqrt(thin) + 1e-9
        gap = (wanted - mean) / spread
        density, below = math.exp(-gap * gap / 2) / math.sqrt(2 * math.pi), math.erfc(-gap / math.sqrt(2)) / 2
        work = spread * (gap * below + density) / adds + 1.5 * spread * (density - gap * (1 - below)) / drops
        work += _SECOND_PASS * (size > wanted)
        if work < best:
            most = max(wanted - mean + 4.5 * spread, 1) / adds
            best, found = work, _Aim(size, math.ceil(most + 3 * math.sqrt(most)) + 2)
    return found
