"""A tier between two that are known: its law depends on how a set meets the two, and mixes four uniform ones."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from math import comb
from typing import TypeVar

from flint import arb

from tiers.errors import InvalidParameterError
from tiers.local.signal import keep
from tiers.local.subset import Subset
from tiers.real import Real, exact
from tiers.sampling.bernoulli import refine, threshold

__all__ = ["Between", "below", "choose_between", "draw_between", "members_of"]

Number = TypeVar("Number", Fraction, arb)
_WORD = 64


class Between:
    """The law of a middle tier given the set above and the set below.

    Law:        P(B | A, C) ∝ K₁(A→B)·K₂(B→C). Each step keeps or resets, so B is uniform among the sets that hold A (if
                the first step kept) and lie in C (if the second did), with weights
                kept both [A ⊂ C]: p₁p₂/C(d−a, c−a);  first: p₁(1−p₂)/C(d, c);  second: (1−p₁)p₂/C(d, c);
                neither: (1−p₁)(1−p₂)/C(d, c).
    Guarantee:  the joint law of all tiers is the same as if they had been drawn top-down, so the late tier costs nobody
                anything beyond the tier above it.
    Args:       upper, middle, lower: mechanisms that nest. above, below: reports of the outer two, as their bits.
    Raises:     NoResidualError: tiers that do not nest. InvalidParameterError: a report that its mechanism cannot give,
                or a pair that the two steps cannot: of one signal, neither resets.
    Example:
        >>> from tiers.local.signal import Signal
        >>> laws = [Subset(4, k, Signal.rational(Fraction(s))) for k, s in ((1, "1/2"), (2, "1/3"), (3, "1/4"))]
        >>> [str(chance) for chance in Between(*laws, above=0b0001, below=0b0111).chances()]
        ['4/7', '1/7', '3/14', '1/14']
    """

    def __init__(self, upper: Subset, middle: Subset, lower: Subset, *, above: int, below: int) -> None:
        upper.check_step(middle)
        middle.check_step(lower)
        for name, law, report in (("report above", upper, above), ("report below", lower, below)):
            if isinstance(report, bool) or not isinstance(report, int) or not 0 <= report < 1 << law.domain_size:
                raise InvalidParameterError(name, f"the bits of a set of {law.domain_size} values", report)
            if report.bit_count() != law.subset_size:
                raise InvalidParameterError(name, f"a set of {law.subset_size} values", report.bit_count())
        if upper.signal == lower.signal and above & ~below:
            raise InvalidParameterError("report below", "one that holds the report above", "another")
        self.upper, self.middle, self.lower, self.above, self.below = upper, middle, lower, above, below
        self.first, self.second = keep(upper.signal, middle.signal), keep(middle.signal, lower.signal)

    def chances(self) -> list[Fraction]:
        """Return the weights of the four uniform laws exactly, for rational signals."""
        first = self.middle.signal.fraction() / self.upper.signal.fraction()
        second = self.lower.signal.fraction() / self.middle.signal.fraction()
        weights = self._weights(first, second, Fraction)
        return [weight / sum(weights) for weight in weights]

    def cumulated(self) -> Sequence[Real]:
        """Return the first three cumulated weights as ball-valued functions."""

        if all(law.signal.is_rational for law in (self.upper, self.middle, self.lower)):
            ends = list(accumulate(self.chances()))
            return [lambda end=end: exact(end) for end in ends[:3]]  # type: ignore[misc]

        def upto(place: int) -> arb:
            each = self._weights(self.first(), self.second(), exact)
            if all(weight == 0 for weight in each[place + 1 :]):  # no ball would place a quotient of 1
                return arb(1)
            weights = list(accumulate(each))
            return weights[place] / weights[-1]

        return [lambda place=place: upto(place) for place in range(3)]  # type: ignore[misc]

    def ends(self) -> list[tuple[int, int]]:
        """Return what each of the four laws must hold, and what it must lie in."""
        whole = (1 << self.upper.domain_size) - 1
        return [(self.above, self.below), (self.above, whole), (0, self.below), (0, whole)]

    def probability(self, report: int) -> Fraction:
        """Return P(report | above, below) exactly, for rational signals."""
        size, found = self.middle.subset_size, Fraction(0)
        for chance, (inner, outer) in zip(self.chances(), self.ends(), strict=True):
            if chance and report.bit_count() == size and inner & ~report == 0 and report & ~outer == 0:
                found += chance / comb(outer.bit_count() - inner.bit_count(), size - inner.bit_count())
        return found

    def _weights(self, first: Number, second: Number, number: Callable[[Fraction], Number]) -> list[Number]:
        d, a, c = self.upper.domain_size, self.upper.subset_size, self.lower.subset_size
        nested = number(Fraction(self.above & ~self.below == 0, comb(d - a, c - a)))
        any_set = number(Fraction(1, comb(d, c)))
        return [
            first * second * nested,
            first * (1 - second) * any_set,
            (1 - first) * second * any_set,
            (1 - first) * (1 - second) * any_set,
        ]


def draw_between(law: Between, words: Iterator[int]) -> int:
    """Return one report of the middle tier, exactly.

    Args:       words: uniform 64-bit words of this report and this draw alone.
    Example:
        >>> laws = [Subset.paying(9, k, Fraction(e)) for k, e in ((1, 3), (2, 1), (3, Fraction(1, 2)))]
        >>> words = iter([2**63] + [2**62] * 60)
        >>> members_of(draw_between(Between(*laws, above=0b1, below=0b111), words))
        [0, 2]
    """
    chosen, tail = choose_between(law, words)
    inner, outer = law.ends()[chosen]
    need, open_values = law.middle.subset_size - inner.bit_count(), members_of(outer & ~inner)
    for left in range(len(open_values), 0, -1):
        if need and below(left, tail) < need:
            inner, need = inner | 1 << open_values[left - 1], need - 1
    return inner


def choose_between(law: Between, words: Iterator[int]) -> tuple[int, Iterator[int]]:
    """Return which of the four uniform laws a report has, and the words that go on from there."""
    word = next(words)
    chosen, tail = 3, _Replay(words)
    for place, bound in enumerate(law.cumulated()):
        edge = threshold(bound, _WORD)
        if word < edge or (word == edge and refine(word, _WORD, bound, tail.again())):
            chosen = place
            break
    return chosen, tail


def members_of(report: int) -> list[int]:
    """Return the values of a set, rising: the canonical order.

    Example:
        >>> members_of(0b1010)
        [1, 3]
    """
    return [value for value in range(report.bit_length()) if report >> value & 1]


def below(count: int, words: Iterator[int]) -> int:
    """Return a uniform integer below `count`: the high part of word·count, words in the short last lap refused."""
    while True:
        product = next(words) * count
        if product % 2**_WORD >= 2**_WORD % count:
            return product >> _WORD


class _Replay:
    """The further words: one real compared with several bounds must show each the same digits."""

    def __init__(self, words: Iterator[int]) -> None:
        self.words = words
        self.seen: list[int] = []

    def again(self) -> Iterator[int]:
        """Yield from the first further word on, remembering what is read."""
        at = 0
        while True:
            if at == len(self.seen):
                self.seen.append(next(self.words))
            yield self.seen[at]
            at += 1

    def __iter__(self) -> "_Replay":
        return self

    def __next__(self) -> int:
        return next(self.words)
