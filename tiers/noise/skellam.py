"""The Skellam law: the difference of two Poisson counts, closed under addition, never ε-DP without a δ."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar, Never

from flint import arb

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import (
    check_confidence,
    check_delta,
    check_epsilon,
    check_half_width,
    gaussian_variance,
    greatest,
    least_integer,
)
from tiers.noise.composition import delta_over, epsilon_over, least_over
from tiers.noise.losses import Losses, losses_of_table
from tiers.noise.renyi import skellam_renyi
from tiers.noise.saddle import log_pmf_ball, log_tail_ball
from tiers.noise.skellam_table import ENTRIES_LIMIT, skellam_reach, skellam_table
from tiers.noise.table import LatticeTable
from tiers.noise.tails import BallTails, TableTails, Tails
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

__all__ = ["Skellam"]

_RATE_LEAST = Fraction(1, 10**30)
_RATE_MOST = Fraction(10**30)
_TABLE_RATE = 10**6
_DEAR_RATE = 10**4  # above it a table costs more than the masses that one search reads
_TABLE_BITS = 192


@dataclass(frozen=True, slots=True)
class Skellam:
    """Integer noise X = A − B with A, B ~ Poisson(rate) independent.

    Law:        pmf(k) = e^(−2λ)·I_|k|(2λ); cf(t) = e^(2λ(cos t − 1)); variance = 2λ.
    Guarantee:  (ε, δ)-DP with the δ that `delta` computes, exact for every change in the set; never ε-DP with δ = 0,
                for the ratio of neighbouring probabilities grows like k/λ without bound.
    Args:       rate: λ, a Fraction from 10⁻³⁰ to 10³⁰.
    Raises:     InvalidParameterError: `rate` is not such a rational.
    Reference:  Agarwal, Kairouz, Liu 2021 (arXiv 2110.04995); the pure ε of arXiv 2606.15543 for it is an error.
    Example:
        >>> round(Skellam(Fraction(5)).pmf(0), 6)
        0.127833
    """

    rate: Fraction
    family: ClassVar[str] = "skellam"

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Fraction) or not _RATE_LEAST <= self.rate <= _RATE_MOST:
            raise InvalidParameterError("rate", "a Fraction with 10⁻³⁰ ≤ λ ≤ 10³⁰", self.rate)

    @classmethod
    def at(cls, epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> "Skellam":
        """Return the least noise that is (ε, δ)-DP for every change in the set: λ of 12 digits, rounded up and checked.

        Raises:     InvalidParameterError: δ = 0 (no Skellam law is ε-DP; the message holds the δ it would really have),
                    δ or ε out of range, or too many change vectors to maximise over.
        Example:
            >>> float(Skellam.at(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1)).rate)
            7.12043726159
        """
        check_epsilon(epsilon)
        if delta == 0:
            _refuse_pure(epsilon, change_set)
        check_delta(delta)
        guess = _guess(epsilon, delta, change_set)
        return cls(least_over(cls, guess, (epsilon, delta, change_set), (_RATE_LEAST, _RATE_MOST)))

    @classmethod
    def for_half_width(cls, half_width: int, confidence: Fraction) -> "Skellam":
        """Return the most noise whose error bar at `confidence` is at most `half_width` steps; λ is rounded down.

        Example:
            >>> Skellam.for_half_width(8, Fraction(95, 100)).half_width(Fraction(95, 100))
            8
        """
        check_half_width(half_width)
        check_confidence(confidence)

        def narrow(rate: Fraction) -> bool:
            return cls(rate).covers(half_width, confidence)

        guess = Fraction((half_width + 1) ** 2, 8)
        return cls(greatest(narrow, guess, _RATE_LEAST, _RATE_MOST))

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"rate": decimal_text(self.rate)}

    def pmf(self, k: int) -> float:
        """Return P(X = k), right to the last digits at any rate; 0.0 only where it underflows."""
        if self.rate <= _TABLE_RATE:
            mass = _table_tails(self.rate, _TABLE_BITS).mass(k)
            if mass >> 64:
                return mass / (1 << _TABLE_BITS)
        with precision(_working_bits(self.rate, k)):
            return float(log_pmf_ball(self.rate, k, 64).exp().mid())

    def log_pmf(self, k: int) -> float:
        """Return log P(X = k), finite for every integer k at every rate: never 0/0, never NaN."""
        with precision(_working_bits(self.rate, k)):
            return float(log_pmf_ball(self.rate, k, 64).mid())

    def cdf(self, k: int) -> float:
        """Return P(X ≤ k)."""
        if k < 0:
            return self._tail(-k)
        return 1 - self._tail(k + 1)

    def cf(self, t: float) -> complex:
        """Return E e^(itX), real because the law is symmetric."""
        return complex(math.exp(-4 * float(self.rate) * math.sin(t / 2) ** 2))

    def cf_ball(self, turn: Fraction) -> arb:
        """Return E e^(2πi·turn·X) at the working precision."""
        return (-4 * exact(self.rate) * exact(turn).sin_pi() ** 2).exp()

    def variance(self) -> float:
        """Return Var X = 2λ, in squared steps."""
        return float(2 * self.rate)

    def half_width(self, confidence: Fraction) -> int:
        """Return the least integer h with P(|X| ≤ h) ≥ confidence: it covers at least the nominal share.

        Raises:     InvalidParameterError: confidence outside (0, 1).
        Example:
            >>> Skellam(Fraction(100)).half_width(Fraction(95, 100))
            28
        """
        check_confidence(confidence)
        guess = math.isqrt(math.floor(2 * self.rate)) * min(8.0, max(0.1, _normal_quantile(confidence)))
        return least_integer(lambda h: self.covers(h, confidence), math.floor(guess))

    def epsilon(self, change_set: ChangeSet) -> Never:
        """Refuse: no Skellam law is ε-DP with δ = 0. Ask `epsilon_at` for the ε at a δ.

        Raises:     InvalidParameterError: always; the message holds the δ this law has at ε = 1.
        """
        delta = self.delta(Fraction(1), change_set)
        raise InvalidParameterError("δ", "δ > 0, for no Skellam law is ε-DP", f"0; at ε = 1 it has δ = {delta:.6g}")

    def delta(self, epsilon: Fraction, change_set: ChangeSet) -> float:
        """Return the exact δ(ε), rounded up: the largest hockey-stick divergence over the whole change set, both ways.

        Example:
            >>> round(Skellam(Fraction(1)).delta(Fraction(1), ChangeSet.scalar(1)), 9)
            0.029254486
        """
        return delta_over(self, epsilon, change_set)

    def epsilon_at(self, delta: Fraction, change_set: ChangeSet) -> float:
        """Return the least ε at which the law is (ε, δ)-DP over the whole change set, rounded up.

        Example:
            >>> round(Skellam(Fraction(100)).epsilon_at(Fraction(1, 10**6), ChangeSet.scalar(1)), 9)
            0.271552112
        """
        return epsilon_over(self, delta, change_set)

    def rdp(self, alpha: Fraction | int, change_set: ChangeSet) -> float:
        """Return the Rényi divergence of order `alpha`, maximised over the change set, rounded up.

        Example:
            >>> round(Skellam(Fraction(100)).rdp(2, ChangeSet.scalar(1)), 9)
            0.004999948
        """
        return skellam_renyi(self.rate, alpha, change_set)

    def table(self, bits: int) -> LatticeTable:
        """Return the certified table of the law in units of 2^−bits; refused for laws too wide for one."""
        return skellam_table(self.rate, bits)

    def losses(self, change: tuple[int, ...]) -> Losses | None:
        """Return the privacy losses under a change of one entry; None for several, or where no table holds them."""
        return _losses(self, change[0]) if len(change) == 1 else None

    def tails(self, bits: int) -> Tails:
        """Return masses and tails in units of 2^−bits, for the exact (ε, δ)."""
        return _tails(self.rate, bits)

    def log_pmf_ball(self, k: int, bits: int) -> arb:
        """Return log P(X = k) as a ball of about `bits` bits."""
        return log_pmf_ball(self.rate, k, bits)

    def log_tail_ball(self, k: int, bits: int) -> arb:
        """Return log P(X ≥ k), k ≥ 1, as a ball of about `bits` bits."""
        return log_tail_ball(self.rate, k, bits)

    def _tail(self, k: int) -> float:
        with precision(_working_bits(self.rate, k)):
            return float(log_tail_ball(self.rate, k, 64).exp().mid())

    def covers(self, half_width: int, confidence: Fraction) -> bool:
        """Return whether certainly P(|X| ≤ h) ≥ confidence."""
        with precision(_working_bits(self.rate, half_width)):
            return bool(log_tail_ball(self.rate, half_width + 1, 96) <= (exact(1 - confidence) / 2).log())


@lru_cache(maxsize=256)
def _table_tails(rate: Fraction, bits: int) -> TableTails:
    return TableTails(skellam_table(rate, bits))


@lru_cache(maxsize=256)
def _tails(rate: Fraction, bits: int) -> Tails:
    reach = skellam_reach(rate, bits + 2)
    if rate <= _DEAR_RATE and reach < ENTRIES_LIMIT // 2:
        return _table_tails(rate, bits)
    law = Skellam(rate)
    accuracy = max(bits // 2, 84) + math.ceil(2 * rate).bit_length()  # tells P(t) from e^ε·P(t + d) far out as well
    return BallTails(law.log_pmf_ball, law.log_tail_ball, bits, reach, min(bits, accuracy), law.variance())


def _normal_quantile(confidence: Fraction) -> float:
    return NormalDist().inv_cdf(min(1 - 1e-15, (1 + float(confidence)) / 2))


def _guess(epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> Fraction:
    return Fraction(max(1e-25, min(1e29, gaussian_variance(epsilon, delta, change_set) / 2)))


def _refuse_pure(epsilon: Fraction, change_set: ChangeSet) -> Never:
    rate = Fraction(change_set.total / math.expm1(min(600.0, float(epsilon))))
    really = Skellam(max(rate, _RATE_LEAST)).delta(epsilon, ChangeSet.scalar(change_set.total))
    raise InvalidParameterError("δ", "δ > 0, for no Skellam law is ε-DP", f"0; λ = Δ/(e^ε−1) has δ = {really:.6g}")


def _working_bits(rate: Fraction, k: int) -> int:
    return 256 + 2 * (int(rate) + abs(k) + 1).bit_length()


@lru_cache(maxsize=256)
def _losses(law: Skellam, shift: int) -> Losses | None:
    fits = law.rate <= _TABLE_RATE and skellam_reach(law.rate, _TABLE_BITS + 2) < ENTRIES_LIMIT // 2
    return losses_of_table(_table_tails(law.rate, _TABLE_BITS), shift) if fits else None
