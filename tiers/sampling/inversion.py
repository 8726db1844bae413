"""Inverse transform of one uniform real number, read only as far as it must be: exact for any law with a certain CDF.

A draw is the least k with U < F(k). U is known by its leading bits; where they cannot tell, more are read; where F's
bits cannot, ball arithmetic adds precision. Nothing is cut off: far out in a tail the search goes on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tiers.real import Real, floor_scaled
from tiers.sampling.words import Words

__all__ = ["InversionSampler", "LazyUniform", "locate"]


class LazyUniform:
    """A uniform real in [0, 1), known to its leading bits; comparing it reads further words only on a tie.

    Example:
        >>> from tiers.real import exact
        >>> third = lambda: exact(Fraction(1, 3))
        >>> LazyUniform(0b0101, 4, iter([0b0110]), 4).below(third)  # 0.01010110 > 0.01010101…
        False
    """

    __slots__ = ("_bits", "_prefix", "_tail", "_width")

    def __init__(self, prefix: int, bits: int, tail: Iterator[int], width: int) -> None:
        self._prefix, self._bits, self._tail, self._width = prefix, bits, tail, width

    def below(self, bound: Real, known: tuple[int, int] | None = None) -> bool:
        """Return whether U < bound.

        Args:       known: (b, ⌊2^b·bound⌋) computed before, with b the bits that U had at first.
        """
        floor = known[1] if known is not None and known[0] == self._bits else floor_scaled(bound, self._bits)
        while self._prefix == floor:
            self._prefix = (self._prefix << self._width) | next(self._tail)
            self._bits += self._width
            floor = floor_scaled(bound, self._bits)
        return self._prefix < floor


def locate(below: Callable[[int], bool], guess: int, reach: int = 1) -> int:
    """Return the least k with below(k), for a `below` that is False up to some k and True from it on.

    Gallops away from `guess` in steps that double, then bisects: about 2·log₂ of the distance.

    Example:
        >>> locate(lambda k: k >= -37, 0)
        -37
    """
    if below(guess):
        high, low = guess, guess - reach
        while below(low):
            high, reach = low, 2 * reach
            low = high - reach
    else:
        low, high = guess, guess + reach
        while not below(high):
            low, reach = high, 2 * reach
            high = low + reach
    while high - low > 1:
        middle = (low + high) // 2
        if below(middle):
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, slots=True)
class InversionSampler:
    """Draws of any lattice law by its CDF, one 64-bit word each; thresholds are certified, and kept once computed.

    Meant for small laws and single draws (bridges, a scalar Skellam): work depends on what is drawn.

    Law:        P(draw ≤ k) = cdf(k) for every k, whatever the word width (enumerated in the tests).
    Args:       cdf: P(X ≤ k) as a ball-valued function of every integer k. centre, spread: where the mass is: a guess,
                which costs time where it is wrong and nothing else.
    Example:
        >>> from tiers.real import exact
        >>> fair = InversionSampler(lambda k: lambda: exact(Fraction(min(max(k + 1, 0), 6), 6)), centre=2)
        >>> from tiers.sampling.words import KeyedWords
        >>> all(0 <= fair.draw_one(KeyedWords(bytes(32)), element) <= 5 for element in range(20))
        True
    """

    cdf: Callable[[int], Real]
    centre: int = 0
    spread: int = 1
    _known: dict[tuple[int, int], int] = field(default_factory=dict, repr=False, compare=False)

    group_size = 1

    def draw(self, words: Words, length: int) -> tuple[int, ...]:
        """Return `length` independent draws; element j depends on its own words only."""
        return tuple(self.draw_one(words, element) for element in range(length))

    def draw_one(self, words: Words, element: int) -> int:
        """Return the draw of one element."""
        width = words.bits
        uniform = LazyUniform(words.group(element, 1)[0], width, words.tail(element), width)
        return locate(
            lambda k: uniform.below(self.cdf(k), (width, self._threshold(k, width))), self.centre, self.spread
        )

    def _threshold(self, k: int, width: int) -> int:
        known = self._known.get((k, width))
        if known is None:
            known = floor_scaled(self.cdf(k), width)
            if len(self._known) < _KEPT:
                self._known[k, width] = known
        return known


_KEPT = 1 << 16
