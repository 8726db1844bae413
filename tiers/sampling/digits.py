"""Two-sided geometric noise by binary digits: the same words and the same passes whatever is drawn.

The binary digits of a geometric variable are independent: digit j is 1 with probability p^(2^j)/(1+p^(2^j)). Digits
below J are drawn each by one word; whether any further digit is set is one more coin, of probability p^(2^J) ≤ 2⁻¹²⁸;
if so, the law is memoryless, and 2^J is added to a fresh draw. Nothing is approximated at any J.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.real import Real, exact
from tiers.sampling.bernoulli import refine, threshold
from tiers.sampling.lanes import Lanes
from tiers.sampling.words import KeyedWords, Words

__all__ = ["SAMPLER", "DigitSampler", "digit_sampler"]

SAMPLER = "tsg-digits/1"
_OVERFLOW_BITS = 128
_VECTOR_FROM = 4
_WIDE = 62


@dataclass(frozen=True, slots=True)
class _Coin:
    probability: Real
    threshold: int


@dataclass(frozen=True, slots=True)
class DigitSampler:
    """Draws of a two-sided geometric law, or of the residual between two of them, element by element.

    Layout:     an element's group is [coin of the residual, if any] + geometric A + geometric B, each J digits and one
                overflow word; the draw is (coin ? 0 : A − B). Every word is read whatever the others say.
    Guarantee:  exact for every word width and every J (enumerated in the tests); a tie has probability 2⁻⁶⁴ a word.
    """

    width: int
    digits: int
    coins: tuple[_Coin, ...]
    inflated: bool
    lanes: Lanes
    bounds: npt.NDArray[np.uint64] = field(compare=False)
    weights: npt.NDArray[np.int64] = field(compare=False)

    @property
    def group_size(self) -> int:
        """Return W, the number of words that one element owns."""
        return 2 * (self.digits + 1) + self.inflated

    def draw(self, words: Words, length: int) -> tuple[int, ...]:
        """Return `length` independent draws; element j depends on its own words only."""
        if length == 1 and isinstance(words, KeyedWords):
            return (self.draw_one(words, 0),)
        if not isinstance(words, KeyedWords):
            return tuple(self.draw_by_words(words, element) for element in range(length))
        if length >= _VECTOR_FROM and len(self.weights):
            return self._draw_vector(words, length)
        return tuple([self.draw_one(words, element) for element in range(length)])

    def draw_one(self, words: KeyedWords, element: int) -> int:
        """Return the draw of one element of a long stream: what `draw` gives it, and every word read as there."""
        size, digits = 2 * (self.digits + 1) + self.inflated, self.digits
        bits = self.lanes.hits(int.from_bytes(words.group_bytes(element, size), "little"))
        if bits is None:
            return self.draw_by_words(words, element)
        stay = 0
        if self.inflated:
            stay, bits = bits & 1, bits >> 1
        if bits >> digits & 1 or bits >> 2 * digits + 1:
            return self.draw_by_words(words, element)
        mask = (1 << digits) - 1
        return (1 - stay) * ((bits & mask) - (bits >> digits + 1 & mask))

    def draw_by_words(self, words: Words, element: int) -> int:
        """Return the same draw, word by word: the definition, and the path of ties and of further digits."""
        return self._decide(words.group(element, self.group_size), words.tail(element))

    def _decide(self, group: Sequence[int], tail: Iterator[int]) -> int:
        at, keep = 0, 1
        if self.inflated:
            keep, at = 1 - self._flip(group[0], self.coins[-1], tail), 1
        first = self._geometric(group[at : at + self.digits + 1], tail)
        second = self._geometric(group[at + self.digits + 1 :], tail)
        return keep * (first - second)

    def _geometric(self, group: Sequence[int], tail: Iterator[int]) -> int:
        value, base = 0, 0
        while True:
            overflow = self._flip(group[self.digits], self.coins[self.digits], tail)
            for digit in range(self.digits):
                value += self._flip(group[digit], self.coins[digit], tail) << digit
            value, base = base + value, base + (1 << self.digits)
            if not overflow:
                return value
            value, group = 0, [next(tail) for _ in range(self.digits + 1)]

    def _flip(self, word: int, coin: _Coin, tail: Iterator[int]) -> int:
        if word != coin.threshold:
            return int(word < coin.threshold)
        return int(refine(word, self.width, coin.probability, tail))

    def _draw_vector(self, words: KeyedWords, length: int) -> tuple[int, ...]:
        size = self.group_size
        raw = np.frombuffer(words.stream_zero(length * size), dtype="<u8").reshape(length, size)
        hit = raw < self.bounds
        noise = hit @ self.weights
        if self.inflated:
            noise *= ~hit[:, 0]
        drawn: list[int] = noise.tolist()
        tied = raw == self.bounds
        if np.count_nonzero(tied):
            for element in tied.any(axis=1).nonzero()[0].tolist():
                drawn[element] = self.draw_by_words(words, element)
        return tuple(drawn)


def digit_sampler(law: TwoSidedGeometric | ZeroInflated, *, width: int = 64, digits: int | None = None) -> DigitSampler:
    """Return the sampler of a law; cached, since its thresholds are ball arithmetic.

    Args:       width: bits of a word (64 in the product; tests enumerate small ones). digits: J; by default the least
                with p^(2^J) < 2⁻¹²⁸.
    Example:
        >>> digit_sampler(TwoSidedGeometric(Fraction(1))).group_size
        16
    """
    return _sampler(law, width, digits)


@lru_cache(maxsize=4096)
def _sampler(law: TwoSidedGeometric | ZeroInflated, width: int, digits: int | None) -> DigitSampler:
    inflated = isinstance(law, ZeroInflated)
    base = law.lower if isinstance(law, ZeroInflated) else law
    count = _digits_needed(base.rate) if digits is None else digits
    probabilities = [_digit(base.rate * 2**j) for j in range(count)] + [_beyond(base.rate * 2**count)]
    if isinstance(law, ZeroInflated):
        probabilities.append(law.stay)
    coins = tuple(_Coin(probability, threshold(probability, width)) for probability in probabilities)
    first = [coins[-1].threshold] if inflated else []
    half = [coin.threshold for coin in coins[: count + 1]]
    order = first + half + half
    return DigitSampler(
        width=width,
        digits=count,
        coins=coins,
        inflated=inflated,
        lanes=Lanes.of(order, width=width),
        bounds=np.array(order, np.uint64),
        weights=_weights(count, inflated, coins[count].threshold),
    )


def _weights(count: int, inflated: bool, overflow: int) -> npt.NDArray[np.int64]:
    """Return what each hit adds to the draw; nothing where 64-bit integers or overflows rule the vector path out."""
    if overflow or count >= _WIDE:
        return np.empty(0, np.int64)
    half = [1 << digit for digit in range(count)] + [0]
    return np.array([0] * inflated + half + [-weight for weight in half], np.int64)


def _digits_needed(rate: Fraction) -> int:
    least = Fraction(math.ceil(_OVERFLOW_BITS * 693_147_181), 10**9) / rate
    return max(0, (least.numerator // least.denominator).bit_length())


def _digit(rate: Fraction) -> Real:
    def probability() -> arb:
        return 1 / (1 + exact(rate).exp())

    return probability


def _beyond(rate: Fraction) -> Real:
    def probability() -> arb:
        return (-exact(rate)).exp()

    return probability
