"""Exact coins for many reports: a word against a threshold, and whole words of coins digit by digit."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tiers.local.columns.keyed import ReportWords, Scratch, check_run
from tiers.real import Real, floor_scaled

__all__ = ["flip_words"]

Columns = npt.NDArray[np.uint64]
_CHUNK = 1 << 13
DIGITS = 16


def flip_words(words: ReportWords, first: int, count: int, probability: Real, digits: int = DIGITS) -> Columns:
    """Return `count` words of 64 coins each, for words `first`, `first + 1`, … of the draw: 1 with this probability.

    A coin is a uniform real read digit by digit, all 64 of a word side by side, against the digits of the probability;
    a coin that ties for `digits` of them (2⁻ᵈⁱᵍⁱᵗˢ each) goes on alone in the word's further words.

    Law:        P(bit = 1) = probability for every bit, independently.
    Args:       words: word j owns column j mod 2¹³ of its block of every digit's slot.
    Example:
        >>> from tiers.real import exact
        >>> from tiers.sampling.words import KeyedWords
        >>> from fractions import Fraction
        >>> flips = flip_words(KeyedWords(bytes(32)), 0, 1000, lambda: exact(Fraction(1, 4)))
        >>> 15_000 < int(np.bitwise_count(flips).sum()) < 17_000
        True
    """
    check_run(first, count)
    bound = floor_scaled(probability, digits)
    out, scratch, at = np.empty(count, np.uint64), Scratch(8 * min(_CHUNK, max(count, 1))), 0
    while at < count:
        block, column = divmod(first + at, _CHUNK)
        size = min(_CHUNK - column, count - at)
        below, open_bits = np.zeros(size, np.uint64), np.full(size, 2**64 - 1, np.uint64)
        for digit in range(digits):
            start = ((block * digits + digit) * _CHUNK + column) * 8
            drawn = scratch.run(words, start, 8 * size).view(np.uint64)
            if bound >> (digits - 1 - digit) & 1:
                below |= open_bits & ~drawn
                open_bits &= drawn
            else:
                open_bits &= ~drawn
        for place in np.flatnonzero(open_bits).tolist():
            tail = words.tail(first + at + place)
            found = _rest(int(open_bits[place]), digits, probability, tail)
            below[place] |= np.uint64(found)
        out[at : at + size] = below
        at += size
    return out


def _rest(open_bits: int, digits: int, probability: Real, tail: Iterator[int]) -> int:
    """Decide the bits that tie, from the lowest up: each reads whole further words until it differs."""
    found = 0
    for place in range(64):
        if not open_bits >> place & 1:
            continue
        length = digits
        while True:
            length += 64
            digit_run, drawn = floor_scaled(probability, length) & 2**64 - 1, next(tail)
            if drawn != digit_run:
                found |= (drawn < digit_run) << place
                break
    return found
