"""The law of a sampler by running it on every word: a tree that branches where, and only where, a word is read."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import count

from tiers.real import Real, to_float


class _MoreError(Exception):
    """The script is over, and the sampler wants a word of this width."""

    def __init__(self, width: int) -> None:
        self.width = width


class Script:
    """Words of one element from a list: of `bits` each, those of stream 0 of `first` bits in `size` bytes."""

    def __init__(self, words: Sequence[int], bits: int, first: int | None = None, size: int = 8) -> None:
        self.words, self.bits, self.first, self.size, self.owned = words, bits, first or bits, size, 0

    def word(self, at: int, width: int) -> int:
        if at >= len(self.words):
            raise _MoreError(width)
        return self.words[at]

    def group(self, element: int, size: int) -> list[int]:
        assert element == 0
        self.owned = size
        return [self.word(at, self.bits) for at in range(size)]

    def tail(self, element: int) -> Iterator[int]:
        assert element == 0
        return (self.word(at, self.bits) for at in count(self.owned))

    def read(self, length: int) -> bytes:
        buffer = bytearray(length)
        self.read_into(0, length, buffer)
        return bytes(buffer)

    def read_into(self, start: int, length: int, buffer: bytearray) -> None:
        assert start == 0
        self.owned = length // self.size
        words = [self.word(at, self.first) for at in range(self.owned)]
        buffer[:length] = b"".join(word.to_bytes(self.size, "little") for word in words)

    def first_of_tails(self, elements: Sequence[int]) -> list[int]:
        return [next(self.tail(element)) for element in elements]


def law_of(
    draw: Callable[[Script], int], bits: int, least: Fraction, first: int | None = None, size: int = 8
) -> tuple[dict[int, Fraction], Fraction]:
    """Return the exact probability of each outcome, and of what is still open where a path falls below `least`."""
    decided: dict[int, Fraction] = defaultdict(Fraction)
    undecided = Fraction(0)
    stack: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while stack:
        path, mass = stack.pop()
        try:
            decided[draw(Script(path, bits, first, size))] += mass
        except _MoreError as more:
            share = mass / 2**more.width
            if mass <= least:
                undecided += mass
            else:
                stack += [((*path, word), share) for word in range(2**more.width)]
    assert sum(decided.values()) + undecided == 1
    return dict(decided), undecided


def assert_law(
    decided: dict[int, Fraction], undecided: Fraction, pmf: Callable[[int], float], *, most: float, cover: float = 0.5
) -> None:
    """Check decided(k) ≤ pmf(k) ≤ decided(k) + open for every k, where at most `most` is open."""
    assert float(undecided) <= most, float(undecided)
    assert sum(decided.values()) >= cover
    for value in range(min(decided) - 2, max(decided) + 3):
        mass = float(decided.get(value, Fraction(0)))
        assert mass <= pmf(value) + 1e-15, value
        assert pmf(value) <= mass + float(undecided) + 1e-15, value


def pmf_of(cdf: Callable[[int], Real]) -> Callable[[int], float]:
    """Return the probabilities of a law from its ball-valued distribution function."""

    def pmf(k: int) -> float:
        before, here = cdf(k - 1), cdf(k)
        return to_float(lambda: here() - before())

    return pmf
