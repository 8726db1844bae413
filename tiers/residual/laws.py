"""Residual laws that are no noise families of their own."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from flint import acb, arb, arb_poly, ctx

from tiers.errors import InvalidParameterError
from tiers.noise.laplace import Laplace
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.series import FLOAT_LIMIT, SERIES_LIMIT, falling, one_side, scale_masses, series_length
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import exact, precision, settled

__all__ = ["FiniteMix", "Geometric", "LaplaceResidual", "Rational", "Root", "Term", "as_scales", "roots_of"]

Geometric: TypeAlias = TwoSidedGeometric | MultiScaleDiscreteLaplace
Rational: TypeAlias = Geometric | Staircase
_BITS_LIMIT = 1 << 14


def as_scales(law: Geometric) -> MultiScaleDiscreteLaplace:
    """Return a two-sided geometric as the one-scale case of the multi-scale law.

    Example:
        >>> as_scales(TwoSidedGeometric(Fraction(2))).scales
        1
    """
    return MultiScaleDiscreteLaplace(1, law.rate) if isinstance(law, TwoSidedGeometric) else law


@dataclass(frozen=True, slots=True)
class Root:
    """A root w = e^(−fall + 2πi·turn) of a law's denominator, named by exact rationals: equal roots cancel exactly."""

    fall: Fraction
    turn: Fraction


@dataclass(frozen=True, slots=True)
class Term:
    """One summand A_w·w^|k| of a residual's probabilities."""

    root: Root
    place: acb
    factor: acb


@dataclass(frozen=True, slots=True)
class FiniteMix:
    """The residual out of a (multi-scale) two-sided geometric: a finite signed measure convolved with the lower law.

    1/φ of the upper law is a trigonometric polynomial of degree D = Δ(Δ+1)/2, so the quotient needs no inversion. Roots
    are named by rationals, so those that both laws share cancel exactly, and leave no term at all.

    Law:        pmf(k) = Σ_{|j| ≤ D} N_j·lower(k − j), N(z) = Π_{ξ ≤ Δ} (1 − p·z^ξ)(1 − p·z^−ξ)/(1−p)²; from |k| =
                `start` on it is Σ A_w·w^|k| over the roots w of the lower law that the upper law has not.
    Example:
        >>> mix = FiniteMix(TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1)))
        >>> round(mix.pmf(0), 6), round(mix.pmf(-10), 12)
        (0.567871, 1.6855151e-05)
    """

    upper: Geometric
    lower: Rational

    @property
    def degree(self) -> int:
        """Return D, the reach of the signed measure."""
        scales = as_scales(self.upper).scales
        return scales * (scales + 1) // 2

    @property
    def start(self) -> int:
        """Return the least |k| from which the sum over roots holds: D less the degree of the lower denominator."""
        if isinstance(self.lower, Staircase):
            return self.degree
        scales = as_scales(self.lower).scales
        return max(0, self.degree - scales * (scales + 1) // 2 + 1)

    @property
    def grid(self) -> int:
        """Return the least step between integers of positive probability: Δ+1 where only that scale is new."""
        if isinstance(self.lower, Staircase) or self.lower.rate != self.upper.rate:
            return 1
        above, below = as_scales(self.upper).scales, as_scales(self.lower).scales
        return below if below == above + 1 else 1

    def pmf(self, k: int) -> float:
        """Return P(s = k); 0.0 only where it is 0 or underflows."""
        return float(self.settled(k).mid())

    def variance(self) -> float:
        """Return Var s = Var lower − Var upper, in balls until the difference has all its digits."""

        def missing() -> arb:
            return self.lower.variance_ball() - self.upper.variance_ball()

        return float(_settled(missing, 60, self).mid())

    def same_probability(self) -> float:
        """Return P(s = 0): where every scale has a residual of its own, as a sum of squares of doubles, all positive.

        Law:        P(s = 0) = Π_upper (1−q)^−2·Π_lower (1−p)²·Σ g_n², g the coefficients of Π(1 − q·z^ξ)/Π(1 − p·z^ξ).
        Example:
            >>> mix = FiniteMix(MultiScaleDiscreteLaplace(2, Fraction(4)), MultiScaleDiscreteLaplace(2, Fraction(3)))
            >>> abs(mix.same_probability() - mix.pmf(0)) < 1e-13
            True
        """
        if not isinstance(self.lower, MultiScaleDiscreteLaplace):
            return self.pmf(0)
        above, below = as_scales(self.upper), self.lower
        length = series_length(below.scales, below.rate, 48)
        if above.rate < below.rate or above.scales > below.scales or length > FLOAT_LIMIT:
            return self.pmf(0)
        terms = one_side(below.scales, below.rate, length, (above.scales, above.rate))
        falls = [(below.scales, below.rate), (-above.scales, above.rate)]
        whole = sum(2 * count * math.log(-math.expm1(-float(rate))) for count, rate in falls)
        return math.exp(whole) * float((terms * terms).sum())

    def settled(self, k: int, accuracy: int = 60) -> arb:
        """Return P(s = k) as a ball of relative accuracy 2^−`accuracy`; the exact 0 off the grid."""
        return _settled(lambda: self.pmf_ball(k), accuracy, k) if k % self.grid == 0 else arb(0)

    def pmf_ball(self, k: int) -> arb:
        """Return P(s = k) at the working precision."""
        k = abs(k)
        if k % self.grid:
            return arb(0)
        if k >= self.start:
            return sum((term.factor * term.place**k for term in self.terms()), acb(0)).real
        return _body(self, int(ctx.prec))[k]

    def tail_ball(self, m: int) -> arb:
        """Return P(s ≥ m), m ≥ 1, at the working precision."""
        if m < self.start:
            return _tails(self, int(ctx.prec))[m]
        return sum((term.factor * term.place**m / (1 - term.place) for term in self.terms()), acb(0)).real

    def terms(self) -> tuple[Term, ...]:
        """Return the summands A_w·w^|k| that hold for |k| ≥ `start`, at the working precision."""
        return _terms(self.upper, self.lower, int(ctx.prec))


def roots_of(law: Rational) -> tuple[Root, ...]:
    """Return the roots of a law's denominator, in the order of its `poles`.

    Example:
        >>> roots_of(MultiScaleDiscreteLaplace(2, Fraction(1)))[2]
        Root(fall=Fraction(1, 2), turn=Fraction(1, 2))
    """
    scales = (law.period,) if isinstance(law, Staircase) else range(1, as_scales(law).scales + 1)
    return tuple(Root(law.rate / scale, Fraction(turn, scale)) for scale in scales for turn in range(scale))


def _settled(value: Callable[[], arb], accuracy: int, what: object) -> arb:
    ball = settled(value, accuracy, _BITS_LIMIT)
    if ball is None:
        raise InvalidParameterError("residual", f"a number that {_BITS_LIMIT} bits can tell from 0", what)
    return ball


@lru_cache(maxsize=64)
def _body(mix: FiniteMix, bits: int) -> tuple[arb, ...]:
    """Return P(s = k) for k < start: one product of polynomials."""
    law, degree, count = as_scales(mix.upper), mix.degree, mix.start
    with precision(bits):
        steps = falling(tuple(range(1, law.scales + 1)), law.rate)
        whole = (1 - (-exact(law.rate)).exp()) ** (2 * law.scales)
        measure = steps * arb_poly(steps.coeffs()[::-1])  # N_j·(1−p)^2Δ at j + D
        half = _masses(mix.lower, degree + count + 1, bits)
        masses = arb_poly([*half[:0:-1], *half])  # lower(k) at k + D + count
        products = (measure * masses).coeffs()
        return tuple(products[k + 2 * degree + count] / whole for k in range(count))


def _masses(law: Rational, count: int, bits: int) -> tuple[arb, ...]:
    if isinstance(law, MultiScaleDiscreteLaplace) and series_length(law.scales, law.rate, bits) <= SERIES_LIMIT:
        return scale_masses(law.scales, law.rate, count, bits)
    if isinstance(law, MultiScaleDiscreteLaplace):
        return tuple(law.pmf_ball(k) for k in range(count))
    return tuple(law.log_pmf_ball(k, bits).exp() for k in range(count))


@lru_cache(maxsize=64)
def _tails(mix: FiniteMix, bits: int) -> tuple[arb, ...]:
    with precision(bits):
        tails = [mix.tail_ball(mix.start)]
        for mass in reversed(_body(mix, bits)):
            tails.append(tails[-1] + mass)
        return tuple(reversed(tails))


@lru_cache(maxsize=256)
def _terms(upper: Geometric, lower: Rational, bits: int) -> tuple[Term, ...]:
    law = as_scales(upper)
    shared = set(roots_of(upper))
    with precision(bits):
        decay = (-exact(law.rate)).exp()
        poles = lower.poles() if isinstance(lower, Staircase) else as_scales(lower).poles()
        found = []
        for root, (place, weight) in zip(roots_of(lower), poles, strict=True):
            if root in shared:
                continue
            factor, power, inverse = weight, acb(1), acb(1)
            for _ in range(law.scales):
                power, inverse = power * place, inverse / place
                factor *= (1 - decay * power) * (1 - decay * inverse) / (1 - decay) ** 2
            found.append(Term(root, place, factor))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class LaplaceResidual:
    """The residual between two continuous Laplace tiers: 0 with probability (b/b′)², else a draw of the lower law.

    Law:        an atom of (b/b′)² at 0, and the density (1 − (b/b′)²)·e^(−|x|/b′)/(2b′) elsewhere.
    Example:
        >>> LaplaceResidual(Laplace(Fraction(1)), Laplace(Fraction(2))).stay
        Fraction(1, 4)
    """

    upper: Laplace
    lower: Laplace

    @property
    def stay(self) -> Fraction:
        """Return the probability of exactly 0."""
        return (self.upper.scale / self.lower.scale) ** 2

    def pdf(self, x: float) -> float:
        """Return the density away from the atom."""
        return float(1 - self.stay) * math.exp(self.lower.log_pdf(x))

    def variance(self) -> float:
        """Return Var s = 2(b′² − b²)."""
        return float(2 * (self.lower.scale**2 - self.upper.scale**2))
