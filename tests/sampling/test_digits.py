"""Single answers by digits: the law, the frozen numbers, and a structure that does not depend on what is drawn."""

import hashlib
import math
from collections.abc import Iterator
from fractions import Fraction

import pytest

from tests.sampling.tree import Script, assert_law, law_of
from tiers.errors import InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.sampling.digits import digit_sampler
from tiers.sampling.lanes import Lanes
from tiers.sampling.words import KeyedWords

ONE = TwoSidedGeometric(Fraction(1))
RESIDUAL = TwoSidedGeometric(Fraction(2)).residual_to(ONE)


@pytest.mark.parametrize("law", [TwoSidedGeometric(Fraction(3, 2)), RESIDUAL], ids=["tsg", "residual"])
@pytest.mark.parametrize(("width", "digits", "least", "most"), [(3, 0, 16, 0.25)])
def test_every_word_leads_to_the_law(
    law: TwoSidedGeometric | ZeroInflated, width: int, digits: int, least: int, most: float
) -> None:
    sampler = digit_sampler(law, width=width, digits=digits)
    decided, undecided = law_of(lambda words: sampler.draw_by_words(words, 0), width, Fraction(1, 2**least))
    assert_law(decided, undecided, law.pmf, most=most)


@pytest.mark.parametrize(("width", "digits"), [(4, 2), (5, 1), (3, 2)])
def test_every_word_of_one_side_leads_to_the_geometric_law(width: int, digits: int) -> None:
    sampler, p = digit_sampler(ONE, width=width, digits=digits), math.exp(-1)

    def geometric(words: Script) -> int:
        return sampler._geometric(words.group(0, digits + 1), words.tail(0))

    decided, undecided = law_of(geometric, width, Fraction(1, 2**17))
    assert_law(decided, undecided, lambda k: (1 - p) * p**k if k >= 0 else 0.0, most=0.05)


@pytest.mark.parametrize("width", [4, 5, 6, 7, 8])
def test_lanes_compare_every_pair_of_words_as_words_do(width: int) -> None:
    half = (width + 1) // 2
    thresholds = [3, (1 << width) - 2, (1 << width) - 1, 5 << (half - 2)]
    lanes = Lanes.of(thresholds, width=width)
    for first in range(0, 1 << width):
        for second in range(0, 1 << width, 3):
            group = [first, second, second ^ 1, first ^ 2]
            packed = sum(word << place * width for place, word in enumerate(group))
            tied = any(word >> half == bound >> half for word, bound in zip(group, thresholds, strict=True))
            bits = sum(
                (word < bound) << place for place, (word, bound) in enumerate(zip(group, thresholds, strict=True))
            )
            assert lanes.hits(packed) == (None if tied else bits)


@pytest.mark.parametrize("width", [2, 24])
def test_a_width_that_lanes_cannot_fold_is_refused_by_name(width: int) -> None:
    with pytest.raises(InvalidParameterError, match="word width"):
        digit_sampler(ONE, width=width, digits=1)


@pytest.mark.parametrize("words", [*range(1, 66), 200])
def test_every_lane_may_hit_at_once(words: int) -> None:
    """All bits set is no remainder 0: 2^room − 1 of them side by side would be."""
    lanes, all_hit = Lanes.of([2**64 - 1] * words, width=64), (1 << words) - 1
    assert lanes.hits(0) == all_hit
    for place in range(words):
        assert lanes.hits((2**64 - 1 ^ 2**40) << 64 * place) in (None, all_hit)
        missed = Lanes.of([2**63] * words, width=64).hits((2**64 - 1) << 64 * place)
        assert missed == all_hit ^ 1 << place


@pytest.mark.parametrize("law", [TwoSidedGeometric(Fraction(3, 2)), RESIDUAL], ids=["tsg", "residual"])
def test_every_word_leads_to_the_law_with_digits(law: TwoSidedGeometric | ZeroInflated) -> None:
    sampler = digit_sampler(law, width=3, digits=1)
    decided, undecided = law_of(lambda words: sampler.draw_by_words(words, 0), 3, Fraction(1, 2**17))
    assert_law(decided, undecided, law.pmf, most=0.2)


@pytest.mark.parametrize("law", [TwoSidedGeometric(Fraction(3, 2)), RESIDUAL], ids=["tsg", "residual"])
@pytest.mark.parametrize("digits", [0, 1, 2])
def test_the_short_path_reads_every_group_as_the_definition_does(
    law: TwoSidedGeometric | ZeroInflated, digits: int
) -> None:
    """All groups of 4-bit words: what the product's path decides is the definition's draw, and it leaves the rest."""
    sampler, left = digit_sampler(law, width=4, digits=digits), 0
    for packed in range(0, 1 << 4 * sampler.group_size, 1 if digits < 2 else 7):
        bits = sampler.lanes.hits(packed)
        drawn = sampler._decode(bits)
        group = [packed >> 4 * place & 15 for place in range(sampler.group_size)]
        left += drawn is None
        if drawn is not None:
            assert drawn == sampler.draw_by_words(Script(group, 4), 0)
    assert 0 < left < 0.9 * (1 << 4 * sampler.group_size)


@pytest.mark.parametrize("rate", ["0.01", "0.1", "1", "5", "0.0000001"])
def test_one_subtraction_gives_what_the_words_give_one_by_one(rate: str) -> None:
    for law in (
        TwoSidedGeometric(Fraction(rate)),
        TwoSidedGeometric(Fraction(rate) * 3).residual_to(TwoSidedGeometric(Fraction(rate))),
    ):
        sampler, words = digit_sampler(law), KeyedWords(hashlib.sha256(rate.encode()).digest())
        slow = tuple(sampler.draw_by_words(words, element) for element in range(200))
        assert tuple(sampler.draw_one(words, element) for element in range(200)) == slow
        assert sampler.draw(words, 200) == slow
        assert sampler.draw(words, 3) == slow[:3]
        for seed in range(60):
            key = hashlib.sha256(bytes([seed]) + rate.encode()).digest()
            assert sampler.draw_alone(key) == sampler.draw_by_words(KeyedWords(key), 0)
            assert (sampler.draw_alone(key),) == sampler.draw(KeyedWords(key), 1)


def test_a_further_digit_goes_to_the_words() -> None:
    """With few digits, 2^J is often exceeded: the short paths must see it and leave it to the definition."""
    for law in (ONE, RESIDUAL):
        sampler, words = digit_sampler(law, digits=1), KeyedWords(bytes(32))
        slow = tuple(sampler.draw_by_words(words, element) for element in range(500))
        assert max(slow) > 2
        assert tuple(sampler.draw_one(words, element) for element in range(500)) == slow == sampler.draw(words, 500)
        keys = [hashlib.sha256(bytes([seed])).digest() for seed in range(200)]
        alone = [sampler.draw_alone(key) for key in keys]
        assert alone == [sampler.draw_by_words(KeyedWords(key), 0) for key in keys]
        assert max(alone) > 1


def test_a_tied_half_goes_to_the_words() -> None:
    sampler = digit_sampler(RESIDUAL)

    class Tied(KeyedWords):
        def group_bytes(self, element: int, size: int) -> bytes:
            return b"".join((bound + offset).to_bytes(8, "little") for bound in bounds)

        def group(self, element: int, size: int) -> list[int]:
            return [bound + offset for bound in bounds]

    bounds = [int(bound) for bound in sampler.bounds]
    for offset in (0, 1, 2):
        words = Tied(bytes(32))
        assert offset < 3
        assert sampler.lanes.hits(int.from_bytes(words.group_bytes(0, len(bounds)), "little")) is None
        assert sampler.draw_one(words, 0) == sampler.draw_by_words(words, 0)


def test_the_numbers_of_version_2_are_frozen() -> None:
    seen = hashlib.sha256()
    for rate in ("0.01", "0.1", "1", "5", "3e-6"):
        law = TwoSidedGeometric(Fraction(rate))
        for noise in (law, TwoSidedGeometric(4 * Fraction(rate)).residual_to(law)):
            for length in (1, 5, 23, 24, 300):
                key = hashlib.sha256(rate.encode() + bytes([length % 251])).digest()
                seen.update(repr(digit_sampler(noise).draw(KeyedWords(key), length)).encode())
    assert seen.hexdigest() == "32a6360add635bf50326c3382613b3a5478eca07eb4d2f913991ad0dc31d2363"


def test_the_words_read_are_the_same_whatever_is_drawn() -> None:
    sampler, read, drawn = digit_sampler(ONE), set(), set()

    class Counting:
        bits = 64

        def __init__(self, key: bytes) -> None:
            self.words, self.count = KeyedWords(key), 0

        def group(self, element: int, size: int) -> list[int]:
            self.count += size
            return list(self.words.group(element, size))

        def tail(self, element: int) -> Iterator[int]:
            for word in self.words.tail(element):
                self.count += 1
                yield word

    for seed in range(300):
        words = Counting(hashlib.sha256(bytes([seed % 256, seed // 256])).digest())
        drawn.add(sampler.draw_by_words(words, 0))
        read.add(words.count)
    assert len(drawn) > 6
    assert read == {sampler.group_size} == {9}


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_an_extreme_uniform_draws_a_finite_integer(word: int) -> None:
    """Case 2: a uniform of 0 inside a logarithm. Here there is none; all words 0 is 64 ties, and goes on."""
    for law in (ONE, RESIDUAL):
        sampler = digit_sampler(law)
        words = Script([word] * sampler.group_size + [2**63 + 12345] * 400, 64)
        assert isinstance(sampler.draw_by_words(words, 0), int)


def test_the_middle_of_the_law_is_not_that_of_rounded_laplace() -> None:
    """Case 3: P(0) at ε = 1 is 0.46212; rounding a continuous Laplace draw would give 0.39347."""
    sampler = digit_sampler(ONE, width=8, digits=2)
    half = [coin.threshold / 256 for coin in sampler.coins]
    assert half[0] == pytest.approx(0.2689, abs=1 / 256)
    draws = digit_sampler(ONE).draw(KeyedWords(bytes(32)), 200_000)
    share = sum(draw == 0 for draw in draws) / len(draws)
    assert abs(share - 0.46212) < 6.2 * (0.46212 * 0.53788 / len(draws)) ** 0.5 < abs(share - 0.39347)
