"""Two-sided geometric noise by binary digits: the same words and the same passes whatever is drawn.

The noise Z is negative with probability p/(1+p); given its sign, Z ≥ 0 and −1 − Z are geometric. The binary digits of a
geometric variable are independent: digit j is 1 with probability p^(2^j)/(1+p^(2^j)). Digits below J are drawn each by
one word; whether any further digit is set is one more coin, of probability p^(2^J) ≤ 2⁻¹²⁸; if so, the law has no
memory, and 2^J is added to a fresh draw. Nothing is approximated at any J.
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
from tiers.sampling.words import KeyedWords, Words, first_bytes

__all__ = ["SAMPLER", "DigitSampler", "digit_sampler"]

SAMPLER = "tsg-digits/2"
_OVERFLOW_BITS = 128
_VECTOR_FROM = 4
_WIDE = 62
_number = int.from_bytes


@dataclass(frozen=True, slots=True)
class _Coin:
    probability: Real
    threshold: int


@dataclass(frozen=True, slots=True)
class DigitSampler:
    """Draws of a two-sided geometric law, or of the residual between two of them, element by element.

    Law:        P(Z = z) = (1−p)/(1+p)·p^|z|, or that of the residual, for every word width and J.
    Layout:     an element's group is [coin of the residual, if any] + sign + J digits + one overflow word; the draw is
                (coin ? 0 : sign ? −1 − G : G). Every word is read whatever the others say.
    Guarantee:  exact for every word width and every J (enumerated in the tests); a tie has probability 2⁻⁶⁴ a word.
    Example:
        >>> sampler = digit_sampler(TwoSidedGeometric(Fraction(1)))
        >>> (sampler.draw_alone(bytes(32)),) == sampler.draw(KeyedWords(bytes(32)), 1)
        True
    """

    width: int
    digits: int
    coins: tuple[_Coin, ...]
    inflated: bool
    lanes: Lanes
    blank: bytes
    bounds: npt.NDArray[np.uint64] = field(compare=False)
    weights: npt.NDArray[np.int64] = field(compare=False)

    @property
    def group_size(self) -> int:
        """Return W, the number of words that one element owns."""
        return self.digits + 2 + self.inflated

    def draw(self, words: Words, length: int) -> tuple[int, ...]:
        """Return `length` independent draws; element j depends on its own words only."""
        if not isinstance(words, KeyedWords):
            return tuple(self.draw_by_words(words, element) for element in range(length))
        if length >= _VECTOR_FROM and len(self.weights):
            return self._draw_vector(words, length)
        return tuple([self.draw_one(words, element) for element in range(length)])

    def draw_alone(self, key: bytes) -> int:
        """Return the draw of a vector of one under this key: one call of the cipher, one subtraction of long integers.

        Raises:     InvalidParameterError: a key that is not 32 bytes.
        """
        drawn = self._decode(self.lanes.hits(_number(first_bytes(key, self.blank), "little")))
        return self.draw_by_words(KeyedWords(key), 0) if drawn is None else drawn

    def draw_one(self, words: KeyedWords, element: int) -> int:
        """Return the draw of one element of a long stream: what `draw` gives it, and every word read as there."""
        drawn = self._decode(self.lanes.hits(_number(words.group_bytes(element, self.group_size), "little")))
        return self.draw_by_words(words, element) if drawn is None else drawn

    def _decode(self, bits: int | None) -> int | None:
        """Return the draw of one bit a word, None where a word tied or a further digit is set."""
        if bits is None:
            return None
        if self.inflated:
            if bits >> self.digits + 2:
                return None
            return (1 - (bits & 1)) * (bits >> 2 ^ -(bits >> 1 & 1))
        if bits >> self.digits + 1:
            return None
        return bits >> 1 ^ -(bits & 1)

    def draw_by_words(self, words: Words, element: int) -> int:
        """Return the same draw, word by word: the definition, and the path of ties and of further digits."""
        return self._decide(words.group(element, self.group_size), words.tail(element))

    def _decide(self, group: Sequence[int], tail: Iterator[int]) -> int:
        keep, at = 1, 0
        if self.inflated:
            keep, at = 1 - self._flip(group[0], self.coins[-1], tail), 1
        negative = self._flip(group[at], self.coins[0], tail)
        return keep * (self._geometric(group[at + 1 :], tail) ^ -negative)

    def _geometric(self, group: Sequence[int], tail: Iterator[int]) -> int:
        value, base = 0, 0
        while True:
            overflow = self._flip(group[self.digits], self.coins[self.digits + 1], tail)
            for digit in range(self.digits):
                value += self._flip(group[digit], self.coins[digit + 1], tail) << digit
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
        noise ^= -hit[:, int(self.inflated)].astype(np.int64)
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
        9
    """
    return _sampler(law, width, digits)


@lru_cache(maxsize=4096)
def _sampler(law: TwoSidedGeometric | ZeroInflated, width: int, digits: int | None) -> DigitSampler:
    inflated = isinstance(law, ZeroInflated)
    base = law.lower if isinstance(law, ZeroInflated) else law
    count = _digits_needed(base.rate) if digits is None else digits
    digit_coins = [_digit(base.rate * 2**j) for j in range(count)]
    probabilities = [_digit(base.rate), *digit_coins, _beyond(base.rate * 2**count)]
    if isinstance(law, ZeroInflated):
        probabilities.append(law.stay)
    coins = tuple(_Coin(probability, threshold(probability, width)) for probability in probabilities)
    order = [coin.threshold for coin in (*coins[count + 2 :], *coins[: count + 2])]
    return DigitSampler(
        width=width,
        digits=count,
        coins=coins,
        inflated=inflated,
        lanes=Lanes.of(order, width=width),
        blank=bytes(-(-len(order) // 8) * 64),  # whole blocks cost less than parts of them
        bounds=np.array(order, np.uint64),
        weights=_weights(count, inflated, coins[count + 1].threshold),
    )


def _weights(count: int, inflated: bool, overflow: int) -> npt.NDArray[np.int64]:
    """Return what each hit adds to the magnitude; nothing where 64-bit integers or overflows rule vectors out."""
    if overflow or count >= _WIDE:
        return np.empty(0, np.int64)
    return np.array([0] * (1 + inflated) + [1 << digit for digit in range(count)] + [0], np.int64)


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
