"""Poisson(λ) for any large λ at one price: rejection from a staircase, and Skellam as the difference of two.

The law is log-concave. Its line is cut into slabs of h = 2^s integers; each slab owns a whole number of the 2^b cells
that the low bits of a word may name, at least its share of the greatest mass in it. So a proposal is three fields of
one 64-bit word: cell, place in the slab, and how high under the stair. Most heights lie below the least mass of the
slab; the others meet the mass in floating point, and within 2⁻³⁰ of it in ball arithmetic. One cell on either side
stands for a whole tail, under a geometric envelope.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from flint import arb

from tiers.errors import InvalidParameterError
from tiers.real import Real, exact
from tiers.sampling.arrays import Integers, scratch
from tiers.sampling.inversion import LazyUniform, locate

__all__ = ["Fields", "PoissonSlabs", "log_pmf", "poisson_slabs"]

Words: TypeAlias = npt.NDArray[np.uint64]
Offsets: TypeAlias = npt.NDArray[np.int32]
_Number = TypeVar("_Number", float, npt.NDArray[np.float64])
_SLACK = 2.0**-30
_RATE_FROM, _RATE_TO = 2**14, 2**52
_REACH = 4.8  # standard deviations covered by slabs; one cell of 2¹⁸ covers each tail beyond
_MARGIN = 2.0**-20
_HIGHEST = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Fields:
    """How a word is cut, lowest bits first: cell, place, height. Tests use small fields, to enumerate every word."""

    cell: int = 18
    place: int = 22
    height: int = 24


_PRODUCT = Fields()


@dataclass(frozen=True, slots=True, eq=False)
class PoissonSlabs:
    """Proposals and acceptance for Poisson(λ); `packed` has each cell's slab (then both
    tails) in its lower 16 bits, and above them the height that is surely accepted, in units of 2^`coarse`.

    Law:        P(accepted trial = x) = e^(−λ)·λ^x/x!.
    Guarantee:  exact: a height is decided by certified bounds, by a float further than 2⁻³⁰ from the mass (its error is
                below 2⁻⁴⁰), or by balls.
    Example:
        >>> slabs = poisson_slabs(Fraction(10**8))
        >>> slabs.low + (slabs.count << slabs.shift) > 10**8 + 4 * 10**4, slabs.loss < Fraction(102, 100)
        (True, True)
    """

    rate: Fraction
    mean: "_Mean"
    fields: Fields
    shift: int
    low: int
    count: int
    loss: Fraction
    packed: Offsets
    coarse: int
    owned: tuple[int, ...]
    scale: npt.NDArray[np.float64]
    decays: tuple[Fraction, Fraction]
    slabs: memoryview
    sures: list[int]
    scales: list[float]

    def trials(self, words: Words) -> tuple[Offsets, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return each word's proposal less `low`, the places that are rejected, and those that floats cannot decide.

        The proposals lie in this thread's scratch room: they hold until its next call.
        """
        offset, high = self.propose(words)
        rejected, unsure = self.judge(offset[high], words[high])
        return offset, high[rejected], high[unsure]

    def propose(self, words: Words) -> tuple[Offsets, npt.NDArray[np.intp]]:
        """Return each word's proposal less `low`, in scratch room, and the places that `judge` must see: the high ones.

        All others lie below the least mass of their slab, and are accepted.
        """
        cut, size = self.fields, len(words)
        room = scratch(size)
        cell, offset, level, packed = room.cell[:size], room.offset[:size], room.level[:size], room.packed[:size]
        np.bitwise_and(words, np.uint64((1 << cut.cell) - 1), out=cell, casting="unsafe")
        self.packed.take(cell, mode="clip", out=packed)
        np.right_shift(words, np.uint64(cut.cell), out=offset, casting="unsafe")
        offset &= (1 << self.shift) - 1
        np.right_shift(words, np.uint64(cut.cell + cut.place + self.coarse), out=level, casting="unsafe")
        sure = room.sure[:size]
        np.right_shift(packed, 16, out=sure)
        high = (level >= sure).nonzero()[0]
        packed &= 0xFFFF
        packed <<= self.shift
        offset += packed
        return offset, high

    def judge(self, offset: Offsets, words: Words) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which of these proposals their words reject, and which floats cannot decide (all tails among them)."""
        cut, slab = self.fields, offset >> self.shift
        value, rest = _all_but_log(self.mean, offset.astype(np.float64) + (self.low - self.mean.whole))
        ceiling = np.exp(rest - 0.5 * np.log(value)) * self.scale.take(slab)
        height = (words >> np.uint64(cut.cell + cut.place)).astype(np.float64)
        rejected = height >= ceiling * (1 + _SLACK)
        unsure = height + 1 > ceiling * (1 - _SLACK)
        unsure &= ~rejected
        tails = slab >= self.count
        rejected &= ~tails
        unsure |= tails
        return rejected, unsure

    def decide(self, word: int, tail: Iterator[int], width: int) -> int | None:
        """Return the outcome of one trial, None if it is rejected; balls where floats cannot tell."""
        cut = self.fields
        slab = self.slabs[word & (1 << cut.cell) - 1]
        height = LazyUniform(word >> cut.cell + cut.place, cut.height, tail, width)
        if slab < self.count:
            value = self.low + (slab << self.shift) + (word >> cut.cell & (1 << self.shift) - 1)
            level = word >> cut.cell + cut.place
            if level < self.sures[slab]:
                return value
            at, rest = _all_but_log(self.mean, float(value - int(self.mean.whole)))
            ceiling = math.exp(rest - 0.5 * math.log(at)) * self.scales[slab]
            if level >= ceiling * (1 + _SLACK):
                return None
            if level + 1 <= ceiling * (1 - _SLACK):
                return value
            return value if height.below(self._share(value, slab)) else None
        side = slab - self.count
        decay = self.decays[side]
        beyond = self._beyond(decay, next(tail), tail, width)
        value = self.low - 1 - beyond if side == 0 else self.low + (self.count << self.shift) + beyond
        return value if value >= 0 and height.below(self._tail_share(value, decay, beyond)) else None

    def _beyond(self, decay: Fraction, word: int, tail: Iterator[int], width: int) -> int:
        """Return a geometric draw, by inversion around the guess that floats make."""
        uniform = LazyUniform(word, width, tail, width)
        guess = int((width * math.log(2) - math.log((1 << width) - word)) / float(decay))
        return locate(lambda j: j >= 0 and uniform.below(lambda: 1 - (-exact(decay * (j + 1))).exp()), guess)

    def restart(self, tail: Iterator[int], width: int) -> int:
        """Return the first accepted trial of an element's further words."""
        size = self.fields.cell + self.fields.place + self.fields.height
        while True:
            word, bits = 0, 0
            while bits < size:
                word, bits = word | next(tail) << bits, bits + width
            value = self.decide(word & (1 << size) - 1, tail, width)
            if value is not None:
                return value

    def _share(self, value: int, slab: int) -> Real:
        stair = self.loss * self.owned[slab] / (1 << self.fields.cell + self.shift)
        return lambda: _pmf(self.rate, value) / exact(stair)

    def _tail_share(self, value: int, decay: Fraction, beyond: int) -> Real:
        stair = self.loss / (1 << self.fields.cell)

        def share() -> arb:
            thin = (1 - (-exact(decay)).exp()) * (-exact(decay * beyond)).exp()
            return _pmf(self.rate, value) / (exact(stair) * thin)

        return share


def log_pmf(rate: Fraction, from_rate: Integers) -> npt.NDArray[np.float64]:
    """Return log P(X = ⌊λ⌋ + d) for X ~ Poisson(λ), |d| ≤ 6√λ, λ ≥ 2¹⁴, without cancellation.

    Law:        log P = −½·log 2πx − (1/12x − 1/360x³) − (x·log(x/λ) − x + λ); the last, with v = (x−λ)/(x+λ), is
                (x−λ)·v + 2x·(v³/3 + v⁵/5 + …). Cut off: Stirling's series below 1/1260x⁵, the other below 2x·v¹¹/11;
                with |v| ≤ 3/√λ both together stay below 2⁻⁴², and rounding below 2⁻⁴⁴ (no term exceeds 40).
    Reference:  Loader 2000, Fast and accurate computation of binomial probabilities.
    Example:
        >>> round(float(log_pmf(Fraction(2**20), np.array([0]))[0]), 6)
        -7.85041
    """
    value, rest = _all_but_log(_Mean.of(rate), from_rate.astype(np.float64))
    result: npt.NDArray[np.float64] = rest - 0.5 * np.log(value)
    return result


@dataclass(frozen=True, slots=True)
class _Mean:
    """λ in floating point without loss: ⌊λ⌋, the rest, and their sum."""

    whole: float
    part: float
    rate: float

    @classmethod
    def of(cls, rate: Fraction) -> "_Mean":
        whole = math.floor(rate)
        return cls(float(whole), float(rate - whole), float(rate))


def _all_but_log(mean: _Mean, from_rate: _Number) -> tuple[_Number, _Number]:
    """Return x and log P(x) + ½·log x, for one x or an array of them."""
    away, value = from_rate - mean.part, from_rate + mean.whole
    v = away / (value + mean.rate)
    square = v * v
    series = square * (1 / 3 + square * (1 / 5 + square * (1 / 7 + square / 9)))
    deviance = away * v + 2 * value * v * series
    stirling = (1 - 1 / (30 * value * value)) / (12 * value)
    return value, -0.5 * math.log(2 * math.pi) - stirling - deviance


def _pmf(rate: Fraction, value: int) -> arb:
    mean = exact(rate)
    return (value * mean.log() - mean - (arb(value) + 1).lgamma()).exp()


@lru_cache(maxsize=256)
def poisson_slabs(rate: Fraction, fields: Fields = _PRODUCT) -> PoissonSlabs:
    """Return the slabs of Poisson(rate); cached.

    Every bound below is a float with a margin (2⁻³⁰, or 2⁻²⁰ where it costs nothing) far above its error of 2⁻⁴⁰.

    Args:       rate: λ in [2¹⁴, 2⁵²].
    Raises:     InvalidParameterError: another λ.
    Example:
        >>> poisson_slabs(Fraction(2**14)).shift
        1
    """
    if not _RATE_FROM <= rate <= _RATE_TO:
        raise InvalidParameterError("rate", f"{_RATE_FROM} ≤ λ ≤ {_RATE_TO} for slabs", rate)
    mode, deviation = math.floor(rate), math.isqrt(math.floor(rate))
    shift = min((deviation // 64).bit_length() - 1, fields.place)
    low = max(0, mode - math.ceil(_REACH * deviation))
    count = (mode + math.ceil(_REACH * deviation) - low >> shift) + 1
    first = low - mode + (np.arange(count, dtype=np.int64) << shift)
    last = first + (1 << shift) - 1
    greatest = np.exp(log_pmf(rate, np.clip(0, first, last)))
    least = np.minimum(np.exp(log_pmf(rate, first)), np.exp(log_pmf(rate, last)))
    cells = 1 << fields.cell
    loss, owned = _share_cells(greatest * (1 + _SLACK) * (cells << shift), cells - 2, int(-first[0]) >> shift)
    end = low + (count << shift)
    decays = (_decay(float(rate) / max(low - 1, 1)), _decay((end + 1) / float(rate)))
    for decay, edge in zip(decays, (low - 1, end), strict=True):
        mass = math.exp(float(log_pmf(rate, np.array([edge - mode]))[0])) if edge >= 0 else 0.0
        assert mass * (1 + _MARGIN) <= float(loss) / cells * -math.expm1(-float(decay)), "a tail above its cell"
    scale = (cells << shift) / (float(loss) * owned) * 2.0**fields.height
    slab_of = np.repeat(np.arange(count + 2), [*owned.tolist(), 1, 1])
    coarse = max(0, fields.height - 15)
    sure = np.append(np.floor(least * scale * (1 - _MARGIN)), [0, 0]).astype(np.int64)
    return PoissonSlabs(
        rate=rate,
        mean=_Mean.of(rate),
        fields=fields,
        shift=shift,
        low=low,
        count=count,
        loss=loss,
        packed=(slab_of | np.minimum(sure >> coarse, _HIGHEST)[slab_of] << 16).astype(np.int32),
        coarse=coarse,
        owned=tuple(owned.tolist()),
        scale=np.append(scale, [1.0, 1.0]),
        decays=decays,
        slabs=slab_of.astype(np.int16).data,
        sures=sure.tolist(),
        scales=scale.tolist(),
    )


def _share_cells(wanted: npt.NDArray[np.float64], cells: int, mode: int) -> tuple[Fraction, Integers]:
    """Return A and whole numbers n with A·n ≥ wanted and Σn = cells: A a little above 1, by bisection."""
    low, high = 0.0, float(wanted.sum())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if np.ceil(wanted / middle).sum() <= cells else (middle, high)
    loss = Fraction(math.ceil(high * 2**40), 2**40)
    owned = np.maximum(np.ceil(wanted / float(loss)), 1).astype(np.int64)
    owned[mode] += cells - int(owned.sum())
    return loss, owned


def _decay(ratio: float) -> Fraction:
    """Return a rational rate at which a tail falls at least, from the ratio of neighbouring masses at its edge."""
    return Fraction(math.log(ratio) * (1 - _MARGIN)).limit_denominator(1 << 62)
