"""Reports that are one number (a value, a bucket): kept, merged, or drawn afresh."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.local.columns.keyed import ReportWords, Scratch, check_run, halves
from tiers.real import Real
from tiers.sampling.bernoulli import refine, threshold

__all__ = ["ValueStep"]

Values = npt.NDArray[np.uint16]
_CHUNK = 1 << 14


class ValueStep:
    """From one of g values to one of g′, where g′ divides g: v mod g′ if kept, else a uniform value.

    It encodes as well (keep the true value, or the true bucket), and it merges and rescales tiers. Report j owns word j
    of stream 0: the upper half is the coin, the lower half the fresh value.

    Law:        keep·[v mod g′ = w] + (1−keep)/g′.
    Raises:     InvalidParameterError: g′ beyond 2 … 65,536.
    Example:
        >>> from fractions import Fraction
        >>> from tiers.local.signal import Signal
        >>> from tiers.sampling.words import KeyedWords
        >>> step = ValueStep(3, Signal.rational(Fraction(1, 2)).ball)
        >>> int(step.apply(KeyedWords(bytes(32)), 0, np.array([0, 5, 4], np.uint16)).max()) < 3
        True
    """

    def __init__(self, below: int, keep: Real, width: int = 64) -> None:
        if isinstance(below, bool) or not isinstance(below, int) or not 2 <= below <= 2**16:
            raise InvalidParameterError("values", "an integer from 2 to 65,536", below)
        self.below, self.keep, self.half = below, keep, width // 2
        self.edge = threshold(keep, self.half)
        self.short = (1 << self.half) % below

    def apply(self, words: ReportWords, first: int, above: Values) -> Values:
        """Return the values below those of reports `first`, `first + 1`, …

        Raises:     InvalidParameterError: numbers of reports beyond 2³².
        """
        check_run(first, len(above))
        out, scratch = np.empty_like(above), Scratch(8 * min(_CHUNK, max(len(above), 1)))
        for at in range(0, len(above), _CHUNK):
            part = above[at : at + _CHUNK]
            lanes = scratch.run(words, 8 * (first + at), 8 * len(part)).view(np.uint32)
            low, high = lanes[0::2], lanes[1::2]
            edge = min(self.edge, 2**32 - 1)
            kept = high < edge if self.edge == edge else np.ones(len(part), np.bool_)
            product = np.multiply(low, np.uint64(self.below))
            fresh = (product >> np.uint64(32)).astype(np.uint16)
            out[at : at + _CHUNK] = np.where(kept, part % self.below, fresh)
            odd = (product.astype(np.uint32) < self.short) | (high == edge)
            for place in np.flatnonzero(odd).tolist():
                word = int(high[place]) << 32 | int(low[place])
                out[at + place] = self.one(word, words.tail(first + at + place), int(part[place]))
        return out

    def one(self, word: int, tail: Iterator[int], above: int) -> int:
        """Return the value below one report's: the definition, which the columns repeat."""
        half, further = self.half, halves(tail, self.half)
        coin, mask = word >> half, (1 << half) - 1
        if coin < self.edge or (coin == self.edge and refine(coin, half, self.keep, further)):
            return above % self.below
        product = (word & mask) * self.below
        while product & mask < self.short:
            product = next(further) * self.below
        return product >> half
