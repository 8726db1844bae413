"""Skellam(λ) for large λ: the difference of two Poisson draws by slabs, element by element of a vector.

An element owns three 64-bit words: a trial for either Poisson draw, and a spare one for whichever was rejected. What
is still open then (1 in 3,000, and heights that only balls can decide) is drawn again from the element's own words by
the definition, which goes on in its tail.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tiers.sampling.arrays import Integers, check_arrays, check_counts, trust, workspace
from tiers.sampling.slabs import PoissonSlabs, poisson_slabs, scratch
from tiers.sampling.words import CellWords, Words

__all__ = ["SkellamSlabs", "skellam_slabs"]

_GROUP = 3
_GROUP_BYTES = 8 * _GROUP
_CHUNK = 87_360  # so many groups fill the 2²¹ bytes that the words give at once


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
        check_arrays(counts, out)
        length = len(counts)
        step = _even(length)
        buffer = workspace(step, _GROUP_BYTES).raw
        for start in range(0, length, step):
            stop = min(start + step, length)
            words.read_into(_GROUP_BYTES * start, _GROUP_BYTES * (stop - start), buffer)
            raw = np.frombuffer(buffer, "<u8", _GROUP * (stop - start)).reshape(-1, _GROUP)
            check(counts[start:stop])
            np.add(counts[start:stop], self._chunk(raw, words, start), out=out[start:stop])
        return out

    def _chunk(self, raw: npt.NDArray[np.uint64], words: CellWords, start: int) -> Integers:
        length = len(raw)
        both = scratch(2 * length).words[: 2 * length]
        both[:length], both[length:] = raw[:, 0], raw[:, 1]
        trial, lost, unsure = self.poisson.trials(both)
        drawn = (trial[:length] - trial[length:]).astype(np.int64)
        owner = np.where(lost < length, lost, lost - length)
        missed = np.where(lost < length, -trial[lost], trial[lost])
        spare, refused, unsure_spare = self.poisson.trials(raw[owner, 2])
        drawn[owner] += missed + np.where(lost < length, spare, -spare)
        split = int(np.searchsorted(lost, length))
        again = set(owner[:split].tolist()) & set(owner[split:].tolist())
        again |= set(np.concatenate([unsure % length, owner[refused], owner[unsure_spare]]).tolist())
        for place in again:
            drawn[place] = self._by_definition(raw[place].tolist(), words, start + place)
        return drawn


def _even(length: int) -> int:
    """Return the size of equal chunks, whole blocks of words each: the trials' many calls cost a short one as much."""
    each = -(-length // max(1, -(-length // _CHUNK)))
    return max(8, -(-each // 8) * 8)


def skellam_slabs(rate: Fraction) -> SkellamSlabs:
    """Return the sampler of Skellam(rate), 2¹⁴ ≤ rate ≤ 2⁵²."""
    return SkellamSlabs(poisson_slabs(rate))
