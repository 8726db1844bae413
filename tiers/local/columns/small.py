"""Domains of at most 16 values: a set is 16 bits, and one word of the report's own picks the next one from a table."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.local.columns.keyed import ReportWords, Scratch, check_run, halves
from tiers.real import Real
from tiers.sampling.bernoulli import refine, threshold

__all__ = ["SMALL_DOMAIN", "SmallStep"]

Sets = npt.NDArray[np.uint16]
SMALL_DOMAIN = 16
_CHUNK = 1 << 14
_WIDTH = 64


class SmallStep:
    """From sets of size a to sets of size b ≥ a over d ≤ 16 values: kept and expanded, or drawn afresh.

    Report j owns word j of stream 0: its upper half is the coin, its lower half the rank of a set in a table of all
    sets of its size (of the values outside, where the report is kept); ties and the last short lap of ranks go on in
    the report's further words.

    Law:        keep·[A ⊂ B]/C(d−a, b−a) + (1−keep)/C(d, b), for every value of a coin and every rank.
    Args:       domain_size, above_size, below_size: d, a, b. keep: the probability. width: of a word, 64 but in tests.
    Example:
        >>> from tiers.sampling.words import KeyedWords
        >>> from tiers.local.signal import Signal
        >>> step = SmallStep(4, 1, 2, Signal.rational(Fraction(1, 2)).ball)
        >>> step.apply(KeyedWords(bytes(32)), 0, np.array([1, 2, 4, 8], np.uint16)).shape
        (4,)
    """

    def __init__(self, domain_size: int, above_size: int, below_size: int, keep: Real, width: int = _WIDTH) -> None:
        if not 1 <= above_size <= below_size < domain_size <= SMALL_DOMAIN:
            raise InvalidParameterError(
                "step", f"1 ≤ a ≤ b < d ≤ {SMALL_DOMAIN}", (domain_size, above_size, below_size)
            )
        self.domain_size, self.above_size, self.below_size, self.keep = domain_size, above_size, below_size, keep
        self.half, self.full = width // 2, (1 << domain_size) - 1
        self.edge = threshold(keep, self.half)
        self.kept_sets = comb(domain_size - above_size, below_size - above_size)
        self.fresh_sets = comb(domain_size, below_size)
        added = below_size - above_size
        self.table = np.concatenate([_sets(domain_size - above_size, added), _sets(domain_size, below_size)])
        self.short = max((1 << self.half) % self.kept_sets, (1 << self.half) % self.fresh_sets)

    def apply(self, words: ReportWords, first: int, above: Sets) -> Sets:
        """Return the sets below those of reports `first`, `first + 1`, …, which must be of the size above.

        Raises:     InvalidParameterError: numbers of reports beyond 2³².
        """
        check_run(first, len(above))
        out, scratch = np.empty_like(above), Scratch(8 * min(_CHUNK, len(above)))
        for at in range(0, len(above), _CHUNK):
            part = above[at : at + _CHUNK]
            self._chunk(words, scratch, first + at, part, out[at : at + _CHUNK])
        return out

    def _chunk(self, words: ReportWords, scratch: Scratch, first: int, above: Sets, out: Sets) -> None:
        lanes = scratch.run(words, 8 * first, 8 * len(above)).view(np.uint32)
        low, high = lanes[0::2], lanes[1::2]
        edge = min(self.edge, 2**32 - 1)
        kept = high < edge if self.edge == edge else np.ones(len(above), np.bool_)
        product = np.multiply(low, np.where(kept, np.uint64(self.kept_sets), np.uint64(self.fresh_sets)))
        index = (product >> np.uint64(32)).view(np.int64)
        np.add(index, self.kept_sets, out=index, where=~kept)
        chosen = self.table.take(index)
        base = above * kept
        if self.above_size == 1:
            self._around_one(chosen, base, out)
        else:
            self._around(chosen, base, out)
        odd = (product.astype(np.uint32) < self.short) | (high == edge)
        for place in np.flatnonzero(odd).tolist():
            word = int(high[place]) << 32 | int(low[place])
            out[place] = self.one(word, words.tail(first + place), int(above[place]))

    def _around_one(self, chosen: Sets, base: Sets, out: Sets) -> None:
        """Make room at the one member: the bits below stay, the others move up by one; no member, nothing moves."""
        below = chosen & (base - np.uint16(1))
        np.bitwise_xor(chosen, below, out=out)
        np.left_shift(out, 1, out=out)
        np.bitwise_or(out, below, out=out)
        np.bitwise_or(out, base, out=out)

    def _around(self, chosen: Sets, base: Sets, out: Sets) -> None:
        """Deposit the chosen bits into the places outside the base, half by half, by a table."""
        deposits, ones = _deposits()
        outside = base ^ np.uint16(self.full)
        left = outside & np.uint16(255)
        place = left << np.uint16(8) | chosen & np.uint16(255)
        low = deposits.take(place)
        if self.domain_size > 8:
            rest = (chosen >> ones.take(left)) & np.uint16(255)
            np.left_shift(deposits.take((outside & np.uint16(0xFF00)) | rest), 8, out=out)
            np.bitwise_or(out, low, out=out)
            np.bitwise_or(out, base, out=out)
        else:
            np.bitwise_or(low, base, out=out)

    def one(self, word: int, tail: Iterator[int], above: int) -> int:
        """Return the set below one report's: the definition, which the columns repeat.

        Args:       word: the report's word. tail: its further words. above: its set.
        """
        half, further = self.half, halves(tail, self.half)
        mask = (1 << half) - 1
        coin, rank = word >> half, word & mask
        kept = coin < self.edge or (coin == self.edge and refine(coin, half, self.keep, further))
        count = self.kept_sets if kept else self.fresh_sets
        product = rank * count
        while product & mask < (1 << half) % count:
            product = next(further) * count
        if not kept:
            return int(self.table[self.kept_sets + (product >> half)])
        chosen, found, place = int(self.table[product >> half]), above, 0
        for value in range(self.domain_size):
            if not above >> value & 1:
                found |= (chosen >> place & 1) << value
                place += 1
        return found


@lru_cache(maxsize=256)
def _sets(domain_size: int, size: int) -> Sets:
    chosen = combinations(range(domain_size), size)
    found = np.array([sum(1 << value for value in values) for values in chosen], np.uint16)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=1)
def _deposits() -> tuple[Sets, Sets]:
    """Return the table that puts the low bits of a byte into the places of a mask, and the ones of every byte."""
    bits = np.arange(256, dtype=np.uint16)
    found = np.zeros((256, 256), np.uint16)
    for mask in range(256):
        places = [place for place in range(8) if mask >> place & 1]
        for at, place in enumerate(places):
            found[mask] |= (bits >> at & 1) << place
    ones = np.bitwise_count(bits).astype(np.uint16)
    return found.reshape(-1), ones
