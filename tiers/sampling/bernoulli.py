"""An exact coin for any computable probability."""

from collections.abc import Iterator

from tiers.real import Real, floor_scaled

__all__ = ["refine", "threshold"]


def threshold(probability: Real, bits: int) -> int:
    """Return the probability's leading `bits` bits: a word below it means yes, above it no, on it `refine`."""
    return floor_scaled(probability, bits)


def refine(word: int, bits: int, probability: Real, tail: Iterator[int]) -> bool:
    """Decide a word that equals its threshold: extend both, `bits` at a time, until they differ.

    Law:        P(word < threshold) + P(word = threshold)·P(refine) = probability, for every width, to the last digit.
    Args:       word: the tied word. tail: the element's further words, consumed in order.
    Example:
        >>> from fractions import Fraction
        >>> from tiers.real import exact
        >>> refine(1, 2, lambda: exact(Fraction(1, 3)), iter([0]))
        True
    """
    seen, length = word, bits
    while True:
        seen, length = (seen << bits) | next(tail), length + bits
        bound = floor_scaled(probability, length)
        if seen != bound:
            return seen < bound
