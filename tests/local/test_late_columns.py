"""Late tiers by columns: the same numbers as the scalar definition, whatever the run; ties and refusals included."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from tiers.errors import InvalidParameterError
from tiers.local.columns import between
from tiers.local.columns.between import FlipsBetween, SetsBetween, ValuesBetween, _rest, _words_of
from tiers.local.flips import Flips, insertion_flip
from tiers.local.late import Between, draw_between
from tiers.local.signal import Signal
from tiers.local.subset import Subset
from tiers.real import to_float

KEY = bytes(range(32))
SIZES = [(5, 1, 2, 2), (16, 1, 3, 6), (70, 2, 9, 40)]


def laws(d: int, *sizes: int) -> list[Subset]:
    """Nested laws whose steps keep often: every one of the four uniform laws is met."""
    odds = [Fraction(2), Fraction(1), Fraction(1, 2)]
    return [Subset(d, k, Signal.rational(o / (1 + o))) for k, o in zip(sizes, odds, strict=True)]


def sets_of(d: int, size: int, count: int, seed: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    return np.array([np.isin(np.arange(d), generator.choice(d, size, replace=False)) for _ in range(count)])


def neighbours(d: int, a: int, c: int, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Half of the sets below hold the one above."""
    above, below = sets_of(d, a, count, 1), sets_of(d, c, count, 2)
    for row in range(0, count, 2):
        rest = np.flatnonzero(~above[row])[: c - a]
        below[row] = above[row]
        below[row, rest] = True
    return above, below


def number(row: np.ndarray[Any, Any]) -> int:
    return int(sum(1 << place for place in np.flatnonzero(row).tolist()))


def scalar(laws_: list[Subset], first: int, above: np.ndarray[Any, Any], below: np.ndarray[Any, Any]) -> list[int]:
    found = []
    for row in range(len(above)):
        words, place = _words_of(KEY, first + row)
        wide = laws_[0].domain_size + 1
        buffer = bytearray(8 * wide + 192)
        skip = 8 * wide * place % 64
        words.read_into(8 * wide * place - skip, skip + 8 * wide, buffer)
        own = np.frombuffer(bytes(buffer[skip : skip + 8 * wide]), "<u8")
        law = Between(*laws_, above=number(above[row]), below=number(below[row]))
        found.append(draw_between(law, chain(own.tolist(), words.tail(place))))
    return found


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_columns_are_the_scalar_draws_wherever_a_run_begins(shape: tuple[int, int, int, int]) -> None:
    d, *sizes = shape
    three = laws(d, *sizes)
    above, below = neighbours(d, sizes[0], sizes[2], 60)
    first = 2**16 - 25  # the runs cross a block of the stream
    kernel = SetsBetween(*three)
    whole = kernel.apply(KEY, first, above, below)
    assert [number(row) for row in whole] == scalar(three, first, above, below)
    parts = [kernel.apply(KEY, first + at, above[at : at + 7], below[at : at + 7]) for at in range(0, 60, 7)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_words_that_tie_or_are_refused_go_on_as_the_scalar_draw_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some first words are an edge, some others 0, which is refused where the places left do not divide 2⁶⁴."""
    three = laws(6, 1, 2, 4)
    above, below = neighbours(6, 1, 4, 200)
    kernel = SetsBetween(*three)
    edges = np.array([edge for of_flag in kernel._edges for edge in of_flag if edge < 2**64], np.uint64)
    real, kept, seen = kernel._scratch.run, [], set[int]()

    class Short:
        def run(self, words: Any, start: int, count: int) -> Any:
            drawn = real(words, start, count).view(np.uint64).copy().reshape(-1, 7)
            drawn[::3, 0] = edges[np.arange(len(drawn[::3])) % len(edges)]
            drawn[1::3, 2] = 0
            kept.append(drawn)
            return drawn.reshape(-1).view(np.uint8)

    def rest(drawn: np.ndarray[Any, Any], words: Any, place: int) -> Iterator[int]:
        seen.add(place % 3)
        return _rest(drawn, words, place)

    kernel._scratch = Short()  # type: ignore[assignment]
    monkeypatch.setattr(between, "_rest", rest)
    found = kernel.apply(KEY, 0, above, below)
    words, _ = _words_of(KEY, 0)
    for row in range(200):
        law = Between(*three, above=number(above[row]), below=number(below[row]))
        assert number(found[row]) == draw_between(law, chain(kept[0][row].tolist(), words.tail(row))), row
    assert seen >= {0, 1}


def test_the_law_of_the_columns_is_the_conditional_one() -> None:
    three = laws(4, 1, 2, 3)
    above, below, count = 0b0001, 0b0111, 60_000
    rows = [np.tile([bool(each >> v & 1) for v in range(4)], (count, 1)) for each in (above, below)]
    drawn = SetsBetween(*three).apply(KEY, 0, *rows)
    law = Between(*three, above=above, below=below)
    support = [each for each in range(16) if each.bit_count() == 2]
    seen = [int((drawn @ (1 << np.arange(4)) == each).sum()) for each in support]
    expected = [float(law.probability(each)) * count for each in support]
    assert chisquare(seen, expected).pvalue > 1e-4
    wrong = Between(*three, above=above, below=0b1110)
    assert chisquare(seen, [float(wrong.probability(each)) * count for each in support]).pvalue < 1e-12


@pytest.mark.parametrize("below", [3, 4])
def test_values_have_the_conditional_law_of_sets_of_one(below: int) -> None:
    three, count = laws(5, 1, 1, 1), 60_000
    kernel = ValuesBetween(*three)
    rows = [np.full(count, each, np.uint16) for each in (3, below)]
    drawn = kernel.apply(KEY, 2**16 - 9, *rows)
    assert np.array_equal(drawn[100:200], kernel.apply(KEY, 2**16 - 9 + 100, rows[0][:100], rows[1][:100]))
    law = Between(*three, above=1 << 3, below=1 << below)
    expected = [float(law.probability(1 << value)) * count for value in range(5)]
    assert chisquare(np.bincount(drawn, minlength=5), expected).pvalue > 1e-4


def test_bits_have_the_conditional_law_and_belong_to_their_word() -> None:
    three = [Flips(Fraction(each)) for each in ("2", "1", "0.5")]
    kernel, count = FlipsBetween(*three), 4_000
    above = np.full(count, 0x00000000FFFFFFFF, np.uint64)
    below = np.full(count, 0x0000FFFF0000FFFF, np.uint64)
    drawn = kernel.apply(KEY, 5, above, below)
    assert np.array_equal(drawn[7:], kernel.apply(KEY, 12, above[7:], below[7:]))
    agree, differ = (to_float(coin) for coin in insertion_flip(*three))
    turned = drawn ^ above
    for mask, chance in ((0xFFFF00000000FFFF, agree), (0x0000FFFFFFFF0000, differ)):
        seen = int(np.bitwise_count(turned & np.uint64(mask)).sum())
        many = 32 * count
        assert abs(seen - many * chance) < 5 * (many * chance * (1 - chance)) ** 0.5


def test_reports_that_their_mechanism_cannot_give_are_refused() -> None:
    three = laws(5, 1, 2, 3)
    above, below = neighbours(5, 1, 3, 4)
    above[2, :2] = True
    with pytest.raises(InvalidParameterError, match="a set of 1 of 5 values"):
        SetsBetween(*three).apply(KEY, 0, above, below)
    with pytest.raises(InvalidParameterError, match="from 0 to 4"):
        ValuesBetween(*laws(5, 1, 1, 1)).apply(KEY, 0, np.array([5], np.uint16), np.array([0], np.uint16))
