"""The discrete Gaussian law: near-optimal alone, but not closed under addition, so a chain of it has no exact tiers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
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
from tiers.noise.hockey import float_above
from tiers.noise.losses import Losses, losses_of_table
from tiers.noise.renyi import check_order, concentrated
from tiers.noise.table import LatticeTable
from tiers.noise.tails import TableTails, Tails
from tiers.real import Real, exact, floor_scaled, precision
from tiers.sensitivity import ChangeSet

__all__ = ["DiscreteGaussian"]

_SIGMA_LEAST = Fraction(1, 50)
_SIGMA_MOST = Fraction(2000)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Integer noise with P(X = k) proportional to e^(−k²/2σ²).

    Law:        pmf(k) = e^(−k²/2σ²)/Z, Z = Σ_j e^(−j²/2σ²) = σ√(2π)·Σ_m e^(−2π²σ²m²).
    Guarantee:  Δ₂²/(2σ²)-zCDP for ℓ₂ sensitivity Δ₂; the exact (ε, δ) that `delta` computes.
    Args:       sigma: σ, a Fraction from 1/50 to 2000.
    Raises:     InvalidParameterError: `sigma` is not such a rational.
    Reference:  Canonne, Kamath, Steinke 2020 (arXiv 2004.00010).
    Example:
        >>> round(DiscreteGaussian(Fraction(1)).pmf(0), 9)
        0.398942278
    """

    sigma: Fraction
    family: ClassVar[str] = "discrete-gaussian"

    def __post_init__(self) -> None:
        if not isinstance(self.sigma, Fraction) or not _SIGMA_LEAST <= self.sigma <= _SIGMA_MOST:
            raise InvalidParameterError("sigma", "a Fraction with 1/50 ≤ σ ≤ 2000", self.sigma)

    @classmethod
    def at(cls, epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> "DiscreteGaussian":
        """Return the least σ that is (ε, δ)-DP for every change in the set: 12 digits, rounded up and checked.

        Example:
            >>> round(float(DiscreteGaussian.at(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1)).sigma), 5)
            4.23078
        """
        check_epsilon(epsilon)
        check_delta(delta)
        guess = Fraction(gaussian_variance(epsilon, delta, change_set) ** 0.5)
        return cls(least_over(cls, guess, (epsilon, delta, change_set), (_SIGMA_LEAST, _SIGMA_MOST)))

    @classmethod
    def for_half_width(cls, half_width: int, confidence: Fraction) -> "DiscreteGaussian":
        """Return the most noise whose error bar at `confidence` is at most `half_width` steps; σ is rounded down."""
        check_half_width(half_width)
        check_confidence(confidence)

        def narrow(sigma: Fraction) -> bool:
            return cls(sigma).covers(half_width, confidence)

        return cls(greatest(narrow, Fraction(half_width + 1, 2), _SIGMA_LEAST, _SIGMA_MOST))

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"sigma": decimal_text(self.sigma)}

    def epsilon(self, change_set: ChangeSet) -> Never:
        """Refuse: no discrete Gaussian law is ε-DP with δ = 0. Ask `epsilon_at` for the ε at a δ.

        Raises:     InvalidParameterError: always; the message holds the δ this law has at ε = 1.
        """
        really = f"0; at ε = 1 it has δ = {self.delta(Fraction(1), change_set):.6g}"
        raise InvalidParameterError("δ", "δ > 0, for no discrete Gaussian law is ε-DP", really)

    def delta(self, epsilon: Fraction, change_set: ChangeSet) -> float:
        """Return the exact δ(ε) over the whole change set, rounded up."""
        return delta_over(self, epsilon, change_set)

    def epsilon_at(self, delta: Fraction, change_set: ChangeSet) -> float:
        """Return the least ε at which the law is (ε, δ)-DP over the whole change set, rounded up."""
        return epsilon_over(self, delta, change_set)

    def rho(self, change_set: ChangeSet) -> Fraction:
        """Return ρ = Δ₂²/(2σ²) of the most concentrated change, exactly.

        Example:
            >>> DiscreteGaussian(Fraction(2)).rho(ChangeSet(bins=2, step=1, total=2))
            Fraction(1, 4)
        """
        squares = sum(count * shift * shift for shift, count in concentrated(change_set))
        return Fraction(squares) / (2 * self.sigma**2)

    def rdp(self, alpha: Fraction | int, change_set: ChangeSet) -> float:
        """Return α·ρ, which bounds the Rényi divergence of order α over the change set, rounded up."""
        return float_above(check_order(alpha) * self.rho(change_set))

    def pmf(self, k: int) -> float:
        """Return P(X = k); 0.0 only where it underflows."""
        return math.exp(self.log_pmf(k))

    def log_pmf(self, k: int) -> float:
        """Return log P(X = k), finite for every integer k."""
        with precision(192 + 2 * k.bit_length()):
            return float(self.log_pmf_ball(k, 128).mid())

    def cdf(self, k: int) -> float:
        """Return P(X ≤ k), within 2⁻¹²⁰."""
        return self.tails(128).tail(-k) / (1 << 128)

    def cf(self, t: float) -> complex:
        """Return E e^(itX), real because the law is symmetric."""
        with precision(192):
            return complex(float(self.cf_ball(Fraction(t / (2 * math.pi))).mid()))

    def cf_ball(self, turn: Fraction) -> arb:
        """Return E e^(2πi·turn·X) at the working precision: Σ_m e^(−2π²σ²(m − turn)²)/Σ_m e^(−2π²σ²m²)."""
        near = turn - round(turn)
        rate = 2 * (arb.pi() * exact(self.sigma)) ** 2
        return _theta(rate, near) / _theta(rate, Fraction(0))

    def variance(self) -> float:
        """Return Var X, slightly below σ²."""
        tails = self.tails(128)
        return 2 * sum(k * k * tails.mass(k) for k in range(1, tails.reach + 1)) / (1 << 128)

    def half_width(self, confidence: Fraction) -> int:
        """Return the least integer h with P(|X| ≤ h) ≥ confidence: it covers at least the nominal share.

        Example:
            >>> DiscreteGaussian(Fraction(2)).half_width(Fraction(95, 100))
            4
        """
        check_confidence(confidence)
        return least_integer(lambda h: self.covers(h, confidence))

    def covers(self, half_width: int, confidence: Fraction) -> bool:
        """Return whether certainly P(|X| ≤ h) ≥ confidence."""
        bits = 256
        tails = self.tails(bits)
        return Fraction(2 * (tails.tail(half_width + 1) + tails.error), 1 << bits) <= 1 - confidence

    def log_pmf_ball(self, k: int, bits: int) -> arb:
        """Return log P(X = k) as a ball, at the working precision."""
        return -exact(Fraction(k * k) / (2 * self.sigma**2)) - _partition(self.sigma).log()

    def log_tail_ball(self, k: int, bits: int) -> arb:
        """Return log P(X ≥ k), k ≥ 1, as a ball: summed until a geometric series bounds the rest."""
        rate, total, place, goal = 1 / (2 * exact(self.sigma) ** 2), arb(0), k, arb(2) ** -bits
        while True:
            term = (-rate * (place * place - k * k)).exp()
            total, place = total + term, place + 1
            rest = term / (1 / (-rate * (2 * place - 1)).exp() - 1)
            if rest < goal * total:
                break
        return (total + arb(0, rest.abs_upper())).log() - rate * k * k - _partition(self.sigma).log()

    def losses(self, change: tuple[int, ...]) -> Losses | None:
        """Return the privacy losses under a change of one entry; None for several, or where no table holds them."""
        return _losses(self, change[0]) if len(change) == 1 else None

    def tails(self, bits: int) -> Tails:
        """Return masses and tails in units of 2^−bits."""
        return _tails(self.sigma, bits)

    def table(self, bits: int) -> LatticeTable:
        """Return the certified table of the law in units of 2^−bits."""
        return _table(self.sigma, bits)


def _partition(sigma: Fraction) -> arb:
    """Return Z: by Poisson summation, which converges at once for σ of 1/2 and more, else term by term."""
    if sigma >= Fraction(1, 2):
        return exact(sigma) * (2 * arb.pi()).sqrt() * _theta(2 * (arb.pi() * exact(sigma)) ** 2, Fraction(0))
    return _theta(1 / (2 * exact(sigma) ** 2), Fraction(0))


def _theta(rate: arb, shift: Fraction) -> arb:
    """Return Σ_m e^(−rate·(m − shift)²) for |shift| ≤ 1/2, with a ball for what is left out."""
    from flint import ctx

    most = math.ceil(math.sqrt((ctx.prec + 8) * math.log(2) / float(rate.abs_lower()))) + 1
    total = sum(((-rate * exact(m - shift) ** 2).exp() for m in range(-most, most + 1)), arb(0))
    left = 2 * (-rate * exact(Fraction(2 * most + 1, 2)) ** 2).exp() / (1 - (-rate).exp())
    return total + arb(0, left.abs_upper())


@lru_cache(maxsize=64)
def _table(sigma: Fraction, bits: int) -> LatticeTable:
    """Return the table by e^(−(k+1)²/2σ²) = e^(−k²/2σ²)·q_k, q_(k+1) = q_k·e^(−1/σ²), on integers floored each time.

    The start and both factors are within 1 unit of 2^−fine, and each floor loses less than 1: q_k is off by at most
    2k + 1 units and the k-th mass by at most k² + 2k + 1, which `fine` makes less than a quarter of 2^−bits.
    """
    reach = math.ceil(float(sigma) * math.sqrt(2 * (bits + 4) * math.log(2))) + 1
    fine = bits + 2 * (reach + 1).bit_length() + 3

    def fall(times: int) -> Real:
        return lambda: (exact(-times / (2 * sigma**2))).exp()

    value = floor_scaled(lambda: 1 / _partition(sigma), fine)
    factor, square = floor_scaled(fall(1), fine), floor_scaled(fall(2), fine)
    shift = fine - bits
    half, round_up = [], 1 << (shift - 1)
    for _ in range(reach + 1):
        half.append((value + round_up) >> shift)
        value, factor = value * factor >> fine, factor * square >> fine
    return LatticeTable(-reach, (*half[:0:-1], *half), bits, error=1, outside=1)


@lru_cache(maxsize=64)
def _tails(sigma: Fraction, bits: int) -> Tails:
    return TableTails(_table(sigma, bits))


@lru_cache(maxsize=256)
def _losses(law: DiscreteGaussian, shift: int) -> Losses | None:
    tails = law.tails(192)
    return losses_of_table(tails, shift) if isinstance(tails, TableTails) else None
