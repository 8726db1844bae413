"""Many coins by one subtraction: the words of a group and their thresholds, side by side in two long integers.

Only the upper half of each word is compared; the room of the lower half keeps the lanes apart. Words whose upper half
ties (2⁻³² a word) are left to the word-by-word path. The work is the same for whatever is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tiers.errors import InvalidParameterError

__all__ = ["Lanes"]


@dataclass(frozen=True, slots=True)
class Lanes:
    """The thresholds of one group of words, lane by lane.

    Law:        bit i of `hits(x)` is [word i of x < threshold i], or the answer is None: an upper half tied.
    Example:
        >>> Lanes.of([0b0100, 0b1100], width=4).hits(0b1011_0001)  # words 1 and 11 against 4 and 12
        3
        >>> Lanes.of([0b0100, 0b1100], width=4).hits(0b1011_0101) is None
        True
    """

    half: int
    low: int
    guard: int
    ones: int
    bound: int
    modulus: int
    piece: int
    further: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, thresholds: Sequence[int], *, width: int) -> "Lanes":
        """Return the lanes of these thresholds, each of `width` bits, the first in the lowest place.

        Raises:     InvalidParameterError: a width that no number from 2 to 21 divides with 1 left, such as 2 or 24.
        """
        half, places = (width + 1) // 2, range(0, width * len(thresholds), width)
        ones = sum(1 << place for place in places)
        bound = sum((threshold >> half) << place for threshold, place in zip(thresholds, places, strict=True))
        # 2^width ≡ 2 modulo 2^room − 1: the remainder of bits `width` apart is the same bits side by side; one bit
        # less than `room` in a piece, for all of them set would leave the remainder 0
        room = max((divisor for divisor in range(2, 22) if (width - 1) % divisor == 0), default=0)
        if not room:
            raise InvalidParameterError("word width", "one that a number from 2 to 21 divides with 1 left", width)
        further = tuple((at * width, at) for at in range(room - 1, len(thresholds), room - 1))
        first = (1 << width * (room - 1)) - 1
        return cls(half, ones * ((1 << width - half) - 1), ones << half, ones, bound, (1 << room) - 1, first, further)

    def hits(self, group: int) -> int | None:
        """Return one bit a word: whether it is below its threshold; None where an upper half ties."""
        difference = ((group >> self.half & self.low) | self.guard) - self.bound
        above = difference & self.guard
        if above != difference - self.ones & self.guard:
            return None
        below = (above ^ self.guard) >> self.half
        if not self.further:
            return below % self.modulus
        bits = (below & self.piece) % self.modulus
        for shift, place in self.further:
            bits |= (below >> shift & self.piece) % self.modulus << place
        return bits
