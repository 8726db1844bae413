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
from tiers.local.columns.keyed import ReportWords, Scratch, check_run, halves, quarters
from tiers.local.columns.sizes import Positions, SizeFix
from tiers.local.columns.small import SMALL_DOMAIN
from tiers.local.columns.uniform import Room, UniformSets
from tiers.local.subset import check_domain
from tiers.real import Real
from tiers.sampling.bernoulli import refine, threshold

__all__ = ["LargeStep", "OwnWords", "singletons", "words_of"]

Columns = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint32]
_BLOCK, _WIDE_BLOCK = 1 << 17, 1 << 16  # reports that share a slot: many are worth a call, of wide sets fewer stay near
_TOP = 2**32 - 1
_DROP = 7.0  # what it costs to drop a value, in attempts to add one
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
class OwnWords:
    """One report's words: its coin, those of the tree's nodes, and its positions."""

    coin: int
    nodes: Sequence[int]
    positions: Sequence[int]


class LargeStep:
    """From sets of size a to sets of size b ≥ a over d values: kept and expanded, or drawn afresh.

    Reports are columns: shape (⌈d/64⌉, n), value v in bit v mod 64 of word ⌊v/64⌋. Report j owns one column of its
    block of every slot: of 32 bits, a coin and the words of a uniform set; of 16 bits, positions. What is left it takes
    from its further words: their lower halves, and positions four a word.

    Law:        keep·[A ⊂ B]/C(d−a, b−a) + (1−keep)/C(d, b).
    Args:       domain_size, above_size, below_size: d, a, b. keep: the probability.
    Example:
        >>> from fractions import Fraction
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
        self.block = _BLOCK if self.width <= 4 else _WIDE_BLOCK
        self.edge = threshold(keep, 32)
        self.kept_size, self.attempts = _aim(domain_size, above_size, below_size)
        self.sets = UniformSets(domain_size, (self.kept_size, below_size))
        self.fix = SizeFix(domain_size, below_size)

    def apply(self, words: ReportWords, first: int, above: Columns) -> Columns:
        """Return the sets below those of reports `first`, `first + 1`, …, which must be of the size above.

        Raises:     InvalidParameterError: numbers of reports, or words, beyond the streams.
        """
        above = np.ascontiguousarray(above)
        count, at, out = above.shape[1], 0, np.empty_like(above)
        check_run(first, count)
        most = max(1, min(self.block, count))
        room, scratch = Room(self.sets, most), Scratch(4 * most)
        while at < count:
            block, column = divmod(first + at, self.block)
            size = min(self.block - column, count - at)
            self._part(_Part(self, words, scratch, block, column, size), above, out, at, room)
            at += size
        return out

    def one(self, own: OwnWords, tail: Iterator[int], above: int) -> int:
        """Return the set below one report's: the definition, which the columns repeat.

        Args:       own: the report's words. tail: its further words. above: its set.
        """
        further = halves(tail, 32)
        kept = own.coin < self.edge or (own.coin == self.edge and refine(own.coin, 32, self.keep, further))
        base, size = (above, self.kept_size) if kept else (0, self.below_size)
        found = base | self.sets.one(iter(own.nodes), further, size)
        return self.fix.right(found, base, chain(own.positions, quarters(tail)))

    def _part(self, part: "_Part", above: Columns, whole: Columns, at: int, room: Room) -> None:
        kept, out = self._kept(part), whole[:, at : at + part.count]
        leaves = out.view(np.uint16)
        if self.sets.leaves % 4:
            leaves[-1].fill(0)

        def put(leaf: int, sets: npt.NDArray[np.uint16]) -> None:
            leaves[leaf // 4, leaf % 4 :: 4] = sets

        sizes = np.where(kept, np.uint16(self.kept_size), np.uint16(self.below_size))
        self.sets.fill(part.node, part.further, sizes, put, room)
        need = self._join(out, above[:, at : at + part.count], kept)
        self.fix.columns(whole, above, at, need, part.positions, part.rest, self.attempts)

    def _kept(self, part: "_Part") -> npt.NDArray[np.bool_]:
        """Return who keeps the report above: a coin each, and on with it where it ties."""
        if self.edge > _TOP:
            return np.ones(part.count, np.bool_)
        coins = part.coins()
        kept = coins < self.edge
        for row in np.flatnonzero(coins == self.edge).tolist():
            kept[row] = refine(self.edge, 32, self.keep, part.further(row))
        return kept

    def _join(self, out: Columns, above: Columns, kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.int16]:
        """Join what the reports keep to their sets; return how many values each lacks."""
        mask = np.negative(kept.astype(np.int64)).view(np.uint64)
        need, base = np.full(len(kept), self.below_size, np.int16), np.empty(len(kept), np.uint64)
        ones = np.empty(len(kept), np.uint8)
        for line, line_above in zip(out, above, strict=True):
            np.bitwise_and(line_above, mask, out=base)
            np.bitwise_or(line, base, out=line)
            need -= np.bitwise_count(line, out=ones)
        return need


class _Part:
    """A run of reports within one block: where their words are."""

    def __init__(
        self, step: LargeStep, words: ReportWords, scratch: Scratch, block: int, column: int, count: int
    ) -> None:
        self.words, self.scratch, self.column, self.count = words, scratch, column, count
        self.first, self.nodes, self.attempts = block * step.block + column, step.sets.slots, step.attempts
        self.size = step.block
        self.begin = block * step.block * (4 + 4 * self.nodes + 2 * self.attempts)
        self.tails: dict[int, Iterator[int]] = {}

    def coins(self) -> Words:
        """Return everybody's coin; this and the next two are valid until the next read."""
        return self._slot(0, 4).view(np.uint32)

    def node(self, place: int) -> Words:
        """Return everybody's word of a node of the tree."""
        return self._slot(4 + 4 * place, 4).view(np.uint32)

    def positions(self, attempt: int) -> Positions:
        """Return everybody's position of an attempt."""
        return self._slot(4 + 4 * self.nodes + 2 * attempt, 2).view(np.uint16)

    def further(self, row: int) -> Iterator[int]:
        """Return a report's further words from where it stands in them, the lower half of each."""
        return halves(self._tail(row), 32)

    def rest(self, row: int) -> Iterator[int]:
        """Return a report's further positions, from where it stands in its further words."""
        return quarters(self._tail(row))

    def own(self, row: int) -> OwnWords:
        """Return one report's words."""
        return OwnWords(
            int(self.coins()[row]),
            [int(self.node(place)[row]) for place in range(self.nodes)],
            [int(self.positions(attempt)[row]) for attempt in range(self.attempts)],
        )

    def _tail(self, row: int) -> Iterator[int]:
        if row not in self.tails:
            self.tails[row] = self.words.tail(self.first + row)
        return self.tails[row]

    def _slot(self, before: int, width: int) -> npt.NDArray[np.uint8]:
        """Return the slot after `before` bytes a report."""
        start = self.begin + before * self.size + self.column * width
        return self.scratch.run(self.words, start, self.count * width)


def _aim(domain_size: int, above_size: int, below_size: int) -> tuple[int, int]:
    """Return how many values a kept report takes at first, and how many positions nearly always set it right.

    The size has the least expected work. Efficiency alone hangs on it, never the law.
    """
    wanted, outside = below_size - above_size, domain_size - above_size
    adds, best, found = (domain_size - below_size) / domain_size, math.inf, (0, 0)
    for size in range(max(0, wanted - 1), min(domain_size, below_size) + 1):
        mean = size * outside / domain_size
        thin = size * (1 - size / domain_size) * outside / domain_size * above_size / max(1, domain_size - 1)
        spread = math.sqrt(thin) + 1e-9
        gap = (wanted - mean) / spread
        density, below = math.exp(-gap * gap / 2) / math.sqrt(2 * math.pi), math.erfc(-gap / math.sqrt(2)) / 2
        work = spread * (gap * below + density) / adds + _DROP * spread * (density - gap * (1 - below))
        if work < best:
            most = max(wanted - mean + 4.5 * spread, 1) / adds
            best, found = work, (size, math.ceil(most + 3 * math.sqrt(most)) + 2)
    return found
