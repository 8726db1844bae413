"""Skellam(λ) for large λ: the difference of two Poisson draws by slabs, element by element of a vector.

An element owns three 64-bit words: a trial for either Poisson draw, and a spare one for whichever was rejected. What
is still open then (1 in 10,000, and heights that only balls can decide) is drawn again from the element's own words by
the definition, which goes on in its tail.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tiers.sampling.arrays import Integers, check_arrays, check_counts, scratch, trust, workspace
from tiers.sampling.slabs import PoissonSlabs, poisson_slabs
from tiers.sampling.words import CellWords, Words

__all__ = ["SkellamSlabs", "skellam_slabs"]

_GROUP = 3
_GROUP_BYTES = 8 * _GROUP
_CHUNK = 1 << 14  # the room of one chunk stays in a core's own cache
_PENDING = 1 << 15  # so many high proposals are judged together: judging takes many calls, whatever it judges


@dataclass(frozen=True, slots=True)
class SkellamSlabs:
    """Draws of Skellam(λ): X − Y for independent X, Y ~ Poisson(λ).

    Law:        P(draw = k) = e^(−2λ)·I_|k|(2λ), at a cost that does not grow with λ.
    Example:
        >>> from tiers.sampling.words import KeyedWords
        >>> len(skellam_slabs(Fraction(10**8)).draw(KeyedWords(bytes(32)), 100))
        100
    """

    poisson: PoissonSlabs

    def draw(self, words: CellWords, length: int) -> tuple[int, ...]:
        """Return `length` independent draws as Python integers."""
        out: Integers = np.zeros(length, np.int64)
        return tuple(self.perturb(words, out, out).tolist())

    def add_to(self, words: CellWords, counts: Integers, out: Integers) -> Integers:
        """Put counts + noise into `out` (which may be `counts`) and return it; refuses counts beyond ±2⁶²."""
        return self._run(words, counts, out, check_counts)

    def perturb(self, words: CellWords, counts: Integers, out: Integers) -> Integers:
        """Do what `add_to` does to counts that `check_counts` has seen, or that are such counts with noise added."""
        return self._run(words, counts, out, trust)

    def draw_by_words(self, words: Words, element: int) -> int:
        """Return the draw of one element, trial by trial: the definition."""
        return self._by_definition(words.group(element, _GROUP), words, element)

    def _by_definition(self, group: Sequence[int], words: Words | CellWords, element: int) -> int:
        tail, width = words.tail(element), words.bits
        drawn = [self.poisson.decide(word, tail, width) for word in group[:2]]
        if None in drawn:
            drawn[drawn.index(None)] = self.poisson.decide(group[2], tail, width)
        first, second = (self.poisson.restart(tail, width) if value is None else value for value in drawn)
        return first - second

    def _run(self, words: CellWords, counts: Integers, out: Integers, check: Callable[[Integers], None]) -> Integers:
        """Put counts + proposals into `out` chunk by chunk; then mend the few elements with a high proposal."""
        check_arrays(counts, out)
        length, pending, waiting = len(counts), list[_High](), 0
        buffer = workspace(min(length, _CHUNK), _GROUP_BYTES).raw
        for start in range(0, length, _CHUNK):
            stop = min(start + _CHUNK, length)
            words.read_into(_GROUP_BYTES * start, _GROUP_BYTES * (stop - start), buffer)
            raw = np.frombuffer(buffer, "<u8", _GROUP * (stop - start)).reshape(-1, _GROUP)
            check(counts[start:stop])
            pending.append(self._chunk(raw, start, counts[start:stop], out[start:stop]))
            waiting += len(pending[-1].element)
            if waiting >= _PENDING or stop == length:
                self._mend(_joined(pending), words, out)
                pending, waiting = [], 0
        return out

    def _chunk(self, raw: npt.NDArray[np.uint64], start: int, counts: Integers, out: Integers) -> "_High":
        length = len(raw)
        both = scratch(2 * length).words[: 2 * length]
        both[:length], both[length:] = raw[:, 0], raw[:, 1]
        offset, high = self.poisson.propose(both)
        noise = np.subtract(offset[:length], offset[length:])
        np.add(counts, noise, out=out)
        owner = np.where(high < length, high, high - length)
        return _High(owner + start, high < length, offset[high], both[high], raw[owner], noise[owner])

    def _mend(self, high: "_High", words: CellWords, out: Integers) -> None:
        """Replace the rejected proposals by spare ones; where that does not settle an element, draw it again."""
        rejected, unsure = self.poisson.judge(high.offset, high.word)
        lost = rejected.nonzero()[0]
        element, first = high.element[lost], high.first[lost]
        spare, refused, unsure_spare = self.poisson.trials(high.group[lost, 2])
        step = np.where(first, spare, -spare) - np.where(first, high.offset[lost], -high.offset[lost])
        if not len(high.element):
            return
        base = int(high.element.min())
        marked = np.zeros(int(high.element.max()) - base + 1, np.bool_)  # of the elements among which these lie
        marked[element[first] - base] = True
        twice = element[~first][marked[element[~first] - base]]
        marked[element[first] - base] = False
        marked[np.concatenate([high.element[unsure], element[refused], element[unsure_spare], twice]) - base] = True
        settled = ~marked[element - base]
        out[element[settled]] += step[settled]
        found = marked[high.element - base].nonzero()[0]
        places, at = np.unique(high.element[found], return_index=True)
        for place, row in zip(places.tolist(), found[at].tolist(), strict=True):
            drawn = self._by_definition(high.group[row].tolist(), words, place)
            out[place] += drawn - int(high.noise[row])


@dataclass(frozen=True, slots=True)
class _High:
    """Proposals that must be judged: their elements, whether each is the first of its two, and what made them."""

    element: npt.NDArray[np.intp]
    first: npt.NDArray[np.bool_]
    offset: npt.NDArray[np.int32]
    word: npt.NDArray[np.uint64]
    group: npt.NDArray[np.uint64]
    noise: npt.NDArray[np.int32]


def _joined(parts: Sequence[_High]) -> _High:
    rows = ([getattr(part, name) for part in parts] for name in _High.__slots__)
    return _High(*(np.concatenate(row) for row in rows))


def skellam_slabs(rate: Fraction) -> SkellamSlabs:
    """Return the sampler of Skellam(rate), 2¹⁴ ≤ rate ≤ 2⁵²."""
    return SkellamSlabs(poisson_slabs(rate))
