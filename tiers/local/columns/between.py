"""Late tiers of many reports: the law of `tiers.local.late`, and the same numbers as drawing them one by one."""

import hmac
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError
from tiers.local.columns.coins import flip_words
from tiers.local.columns.keyed import Scratch, check_run
from tiers.local.flips import Flips, insertion_flip
from tiers.local.late import Between, below, choose_between, draw_between
from tiers.local.subset import Subset
from tiers.sampling.bernoulli import threshold
from tiers.sampling.words import KeyedWords

__all__ = ["LATE_SAMPLER", "FlipsBetween", "SetsBetween", "ValuesBetween"]

LATE_SAMPLER = "between-columns/1"
Bits = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Values = npt.NDArray[np.uint16]
_BLOCK = 1 << 16
_BYTES = (1 << 21) - 64
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


class SetsBetween:
    """Sets of a middle tier of Subset, given those above and below.

    Report j owns 1 + d words of the stream of its block of 2¹⁶ reports: the first chooses one of the four uniform laws,
    the others select places from the highest down, as `draw_between` reads them; a word that ties or is refused goes on
    in the report's further words.

    Law:        `tiers.local.late.Between`, exactly.
    Raises:     NoResidualError: tiers that do not nest.
    Example:
        >>> from fractions import Fraction
        >>> laws = [Subset.paying(4, k, Fraction(e)) for k, e in ((1, 3), (2, 1), (3, Fraction(1, 2)))]
        >>> above, below = np.eye(4, dtype=np.bool_), np.ones((4, 4), np.bool_) & ~np.eye(4, k=1, dtype=np.bool_)
        >>> below[3, 0] = False
        >>> SetsBetween(*laws).apply(bytes(32), 0, above, below).sum(axis=1).tolist()
        [2, 2, 2, 2]
    """

    def __init__(self, upper: Subset, middle: Subset, lower: Subset) -> None:
        self.laws = upper, middle, lower
        self.size = upper.domain_size
        self._edges = [_edges(*self.laws, nested=nested) for nested in (False, True)]
        self._scratch = Scratch(_BYTES)

    def apply(self, key: bytes, first: int, above: Bits, below: Bits) -> Bits:
        """Return the sets of reports `first`, `first + 1`, …: a row each, true where the set holds a place.

        Raises:     InvalidParameterError: a set that its mechanism cannot give, or numbers beyond 2³².
        """
        check_run(first, len(above))
        for law, sets in ((self.laws[0], above), (self.laws[2], below)):
            if sets.shape != (len(above), self.size) or (sets.sum(axis=1) != law.subset_size).any():
                raise InvalidParameterError("report", f"a set of {law.subset_size} of {self.size} values", "another")
        out, at, most = np.empty_like(above), 0, max(1, _BYTES // (8 * (self.size + 1)))
        while at < len(above):
            words, place = _words_of(key, first + at)
            end = min(len(above), at + min(most, _BLOCK - place))
            out[at:end] = self._some(words, place, above[at:end], below[at:end])
            at = end
        return out

    def _some(self, words: KeyedWords, place: int, above: Bits, below: Bits) -> Bits:
        count, wide = len(above), self.size + 1
        drawn = self._scratch.run(words, 8 * wide * place, 8 * wide * count).view(np.uint64).reshape(count, wide)
        law, odd = _chosen(self._edges, drawn[:, 0], ~np.any(above & ~below, axis=1))
        holds = above & (law < 2)[:, None]
        room = (below | (law % 2 == 1)[:, None]) & ~holds
        need, left = self.laws[1].subset_size - holds.sum(axis=1), room.sum(axis=1)
        used = np.ones(count, np.int64)
        for value in range(self.size - 1, -1, -1):
            here = np.flatnonzero(room[:, value] & (need > 0))
            word, among = drawn[here, used[here]], left[here].astype(np.uint64)
            refused, found = _among(word, among)
            odd[here] |= refused
            used[here] += 1
            taken = here[found < need[here].astype(np.uint64)]
            holds[taken, value] = True
            need[taken] -= 1
            left -= room[:, value]
        for row in np.flatnonzero(odd).tolist():
            between = Between(*self.laws, above=_number(above[row]), below=_number(below[row]))
            report = draw_between(between, _rest(drawn[row], words, place + row))
            holds[row] = [report >> value & 1 for value in range(self.size)]
        return holds


class ValuesBetween:
    """Values of a middle tier of randomised response, given those above and below: Subset with k = 1, as numbers.

    Report j owns two words of its block's stream: which of the four laws, and the fresh value.

    Law:        `tiers.local.late.Between` with sets of one value, exactly.
    Raises:     NoResidualError: tiers that do not nest.
    Example:
        >>> from fractions import Fraction
        >>> laws = [Subset.paying(5, 1, Fraction(e)) for e in (3, 2, 1)]
        >>> values = np.arange(5, dtype=np.uint16)
        >>> ValuesBetween(*laws).apply(bytes(32), 0, values, values).shape
        (5,)
    """

    def __init__(self, upper: Subset, middle: Subset, lower: Subset) -> None:
        self.laws = upper, middle, lower
        self.size = upper.domain_size
        self._edges = [_edges(*self.laws, nested=nested) for nested in (False, True)]
        self._scratch = Scratch(_BYTES)

    def apply(self, key: bytes, first: int, above: Values, below: Values) -> Values:
        """Return the values of reports `first`, `first + 1`, …

        Raises:     InvalidParameterError: a value outside the domain, or numbers beyond 2³².
        """
        check_run(first, len(above))
        if len(above) != len(below) or (len(above) and int(max(above.max(), below.max())) >= self.size):
            raise InvalidParameterError("report", f"a number from 0 to {self.size - 1}", "one beyond")
        out, at = np.empty_like(above), 0
        while at < len(above):
            words, place = _words_of(key, first + at)
            end = min(len(above), at + min(_BYTES // 16, _BLOCK - place))
            out[at:end] = self._some(words, place, above[at:end], below[at:end])
            at = end
        return out

    def _some(self, words: KeyedWords, place: int, above: Values, below_: Values) -> Values:
        count = len(above)
        drawn = self._scratch.run(words, 16 * place, 16 * count).view(np.uint64).reshape(count, 2)
        law, odd = _chosen(self._edges, drawn[:, 0], above == below_)
        refused, fresh = _among(drawn[:, 1], np.full(count, self.size, np.uint64))
        out: Values = np.select([law < 2, law == 2], [above, below_], fresh.astype(np.uint16))
        for row in np.flatnonzero(odd | refused & (law == 3)).tolist():
            sets = 1 << int(above[row]), 1 << int(below_[row])
            between = Between(*self.laws, above=sets[0], below=sets[1])
            chosen, tail = choose_between(between, _rest(drawn[row], words, place + row))
            out[row] = (above[row], above[row], below_[row])[chosen] if chosen < 3 else below(self.size, tail)
        return out


class FlipsBetween:
    """Bits of a middle tier of flips, given those above and below: each differs from the one above by its own coin.

    Law:        `insertion_flip`: one probability where the neighbours agree, another where they do not.
    Raises:     NoResidualError: tiers that do not fall.
    Example:
        >>> from fractions import Fraction
        >>> kernel, words = FlipsBetween(*(Flips(Fraction(e)) for e in (3, 2, 1))), np.zeros(100, np.uint64)
        >>> 0 < int(np.bitwise_count(kernel.apply(bytes(32), 0, words, words)).sum()) < 3200
        True
    """

    def __init__(self, upper: Flips, middle: Flips, lower: Flips) -> None:
        self.coins = insertion_flip(upper, middle, lower)

    def apply(self, key: bytes, first: int, above: Words, below: Words) -> Words:
        """Return the bits of words `first`, `first + 1`, …: 64 bits each; bits beyond a report are the caller's."""
        agree, differ = (
            flip_words(KeyedWords(hmac.digest(key, name, sha256)), first, len(above), coin)
            for name, coin in zip((b"agree", b"differ"), self.coins, strict=True)
        )
        apart = above ^ below
        out: Words = above ^ (agree & ~apart | differ & apart)
        return out


def _edges(upper: Subset, middle: Subset, lower: Subset, *, nested: bool) -> list[int] | None:
    """Return where the first three laws end; none where no reports meet so: of one signal, neither step resets."""
    if upper.signal == lower.signal and not nested:
        return None
    d, a, c = upper.domain_size, upper.subset_size, lower.subset_size
    above, below = (1 << a) - 1, ((1 << c) - 1) << (0 if nested else d - c)
    return [threshold(end, 64) for end in Between(upper, middle, lower, above=above, below=below).cumulated()]


def _chosen(edges: list[list[int] | None], word: Words, nested: Bits) -> tuple[npt.NDArray[np.int64], Bits]:
    """Return which of the four laws each word chooses, and which words tie."""
    law, odd = np.full(len(word), 3, np.int64), np.zeros(len(word), np.bool_)
    for flag in (False, True):
        here, ends = nested == flag, edges[flag]
        if ends is None:
            if here.any():
                raise InvalidParameterError("report below", "one that holds the report above", "another")
            continue
        for place in (2, 1, 0):
            edge = ends[place]
            law[here & ((word < np.uint64(edge)) if edge < 2**64 else True)] = place
            odd |= here & (word == np.uint64(edge) if edge < 2**64 else False)
    return law, odd


def _among(word: Words, count: Words) -> tuple[Bits, Words]:
    """Return which words are refused (the short last lap), and ⌊word·count/2⁶⁴⌋."""
    high, low = word >> _HALF, word & _LOW
    found = (high * count + (low * count >> _HALF)) >> _HALF
    return word * count < (np.uint64(0) - count) % count, found


def _words_of(key: bytes, report: int) -> tuple[KeyedWords, int]:
    """Return the stream of a report's block, and its place in it."""
    block, place = divmod(report, _BLOCK)
    return KeyedWords(hmac.digest(key, block.to_bytes(8, "big"), sha256)), place


def _rest(drawn: Words, words: KeyedWords, place: int) -> Iterator[int]:
    return chain(drawn.tolist(), words.tail(place))


def _number(row: Bits) -> int:
    return int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")
