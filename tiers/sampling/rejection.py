"""Any log-concave lattice law, one draw at a time, at a cost that does not grow with its scale.

The envelope is flat within w of a centre near the mode and geometric beyond, where log-concavity keeps the law under
the line through the centre and centre ± w. Heights are compared in balls, with as many bits as they need.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from tiers.errors import InvalidParameterError
from tiers.real import Real, compare, exact, to_float
from tiers.sampling.inversion import LazyUniform, locate
from tiers.sampling.words import Words

__all__ = ["LogConcaveSampler", "log_concave_sampler", "skellam_bridge_sampler", "skellam_pmf"]

_RISE = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class LogConcaveSampler:
    """Draws of P(k) ∝ weight(k), log-concave on the integers, by an envelope made by `log_concave_sampler`.

    Law:        P(draw = k) = weight(k)/Σ weight, for every word width (enumerated in the tests).
    Args:       weight: relative to the centre's: weight(k)/weight(centre), as a ball-valued function.
    Example:
        >>> from tiers.sampling.words import KeyedWords
        >>> len(skellam_bridge_sampler(Fraction(2), Fraction(3), 4).draw(KeyedWords(bytes(32)), 3))
        3
    """

    weight: Callable[[int], Real]
    centre: int
    width: int
    fall: Fraction

    group_size = 2

    def draw(self, words: Words, length: int) -> tuple[int, ...]:
        """Return `length` independent draws; element j depends on its own words only."""
        return tuple(self.draw_one(words, element) for element in range(length))

    def draw_one(self, words: Words, element: int) -> int:
        """Return the draw of one element: its two words are the first trial's, its tail serves all further ones."""
        tail, bits = words.tail(element), words.bits
        place, height = words.group(element, 2)
        while True:
            value = self.trial(place, height, tail, bits)
            if value is not None:
                return value
            place, height = next(tail), next(tail)

    def trial(self, place: int, height: int, tail: Iterator[int], bits: int) -> int | None:
        """Return the proposal of two words, None where its height lies above the law."""
        uniform = LazyUniform(place, bits, tail, bits)
        away = locate(lambda k: uniform.below(self._envelope_cdf(k)), 0, self.width)
        accepted = LazyUniform(height, bits, tail, bits).below(self._share(away))
        return self.centre + away if accepted else None

    def _envelope_cdf(self, away: int) -> Real:
        """Return the envelope's share at or below centre + `away`."""

        def share() -> arb:
            rise, fall = exact(_RISE).exp(), exact(self.fall)
            arm = (-fall * (self.width + 1)).exp() / (1 - (-fall).exp())
            flat = rise * (2 * self.width + 1)
            if away < -self.width:
                return (fall * away).exp() / (1 - (-fall).exp()) / (flat + 2 * arm)
            if away <= self.width:
                return (arm + rise * (away + self.width + 1)) / (flat + 2 * arm)
            return 1 - (-fall * (away + 1)).exp() / (1 - (-fall).exp()) / (flat + 2 * arm)

        return share

    def _share(self, away: int) -> Real:
        ratio = self.weight(self.centre + away)
        if abs(away) <= self.width:
            return lambda: ratio() / exact(_RISE).exp()
        return lambda: ratio() * exact(self.fall * abs(away)).exp()


def log_concave_sampler(weight: Callable[[int], Real], *, centre: int, spread: int) -> LogConcaveSampler:
    """Return a sampler for P(k) ∝ weight(k), which the caller knows to be log-concave and positive everywhere.

    Args:       centre: at or near the mode. spread: about a standard deviation: a guess, which costs time only.
    Raises:     InvalidParameterError: the law still rises by more than e^(1/2) within w of the centre: not the mode.
    """
    width = max(1, spread)
    while any(compare(_relative(weight, centre, side * width), Fraction(2, 5)) > 0 for side in (-1, 1)):
        width *= 2
    for side in (-1, 1):
        step = _relative(weight, centre, side)
        if compare(lambda step=step: width * step().log(), _RISE) > 0:  # type: ignore[misc]
            raise InvalidParameterError("centre", "near the mode", centre)
    drop = min(to_float(lambda side=side: -_relative(weight, centre, side * width)().log()) for side in (-1, 1))  # type: ignore[misc]
    fall = Fraction(drop * (1 - 2.0**-20) / width)
    return LogConcaveSampler(
        lambda k: _relative(weight, centre, k - centre), centre, width, fall.limit_denominator(1 << 60)
    )


def skellam_pmf(rate: Fraction, k: int) -> Real:
    """Return P(X = k) = e^(−2λ)·I_|k|(2λ) for X ~ Skellam(λ), as a ball-valued function: any λ, one Bessel function.

    Example:
        >>> round(to_float(skellam_pmf(Fraction(10**15), 0)), 12)
        8.921e-09
    """
    return lambda: exact(2 * rate).bessel_i(arb(abs(k)), scaled=True)


def skellam_bridge_sampler(first: Fraction, second: Fraction, gap: int) -> LogConcaveSampler:
    """Return the sampler of X given X + Y = gap, for X ~ Skellam(first) and Y ~ Skellam(second).

    Law:        P(j) ∝ e^(−2λ₁)I_|j|(2λ₁) · e^(−2λ₂)I_|gap−j|(2λ₂), log-concave as a product of such laws.
    Example:
        >>> skellam_bridge_sampler(Fraction(1), Fraction(3), 8).centre
        2
    """
    share = first / (first + second)
    spread = max(1, round(float(2 * share * second) ** 0.5))

    def weight(j: int) -> Real:
        one, other = skellam_pmf(first, j), skellam_pmf(second, gap - j)
        return lambda: one() * other()

    return log_concave_sampler(weight, centre=round(gap * share), spread=spread)


def _relative(weight: Callable[[int], Real], centre: int, away: int) -> Real:
    here, there = weight(centre), weight(centre + away)
    return lambda: there() / here()
