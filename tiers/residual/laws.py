"""Residual laws that are no noise families of their own."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import acb, arb, ctx

from tiers.errors import InvalidParameterError
from tiers.noise.laplace import Laplace
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import exact, precision

__all__ = ["FiniteMix", "Geometric", "LaplaceResidual", "as_scales"]

Geometric = TwoSidedGeometric | MultiScaleDiscreteLaplace
_BITS_LIMIT = 1 << 14


def as_scales(law: Geometric) -> MultiScaleDiscreteLaplace:
    """Return a two-sided geometric as the one-scale case of the multi-scale law.

    Example:
        >>> as_scales(TwoSidedGeometric(Fraction(2))).scales
        1
    """
    return MultiScaleDiscreteLaplace(1, law.rate) if isinstance(law, TwoSidedGeometric) else law


@dataclass(frozen=True, slots=True)
class FiniteMix:
    """The residual out of a (multi-scale) two-sided geometric: a finite signed measure convolved with the lower law.

    1/φ of the upper law is a trigonometric polynomial of degree D = Δ(Δ+1)/2, so the quotient needs no inversion.

    Law:        pmf(k) = Σ_{|j| ≤ D} N_j·lower(k − j), N(z) = Π_{ξ ≤ Δ} (1 − p·z^ξ)(1 − p·z^−ξ)/(1−p)².
    Example:
        >>> mix = FiniteMix(TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1)))
        >>> round(mix.pmf(0), 6), round(mix.pmf(-10), 12)
        (0.567871, 1.6855151e-05)
    """

    upper: Geometric
    lower: Geometric

    @property
    def degree(self) -> int:
        """Return D, the reach of the signed measure."""
        scales = as_scales(self.upper).scales
        return scales * (scales + 1) // 2

    def pmf(self, k: int) -> float:
        """Return P(s = k); 0.0 only where it underflows."""
        return float(self.settled(k).mid())

    def variance(self) -> float:
        """Return Var s = Var lower − Var upper."""
        return self.lower.variance() - self.upper.variance()

    def settled(self, k: int, accuracy: int = 60) -> arb:
        """Return P(s = k) as a ball of relative accuracy 2^−`accuracy`, or of absolute accuracy 2⁻²⁰⁰⁰ around 0."""
        bits = 256
        while bits <= _BITS_LIMIT:
            with precision(bits):
                ball = self.pmf_ball(k)
                if ball.rel_accuracy_bits() >= accuracy:
                    return ball
            bits *= 2
        raise InvalidParameterError("residual", f"a probability that {_BITS_LIMIT} bits can tell from 0", k)

    def pmf_ball(self, k: int) -> arb:
        """Return P(s = k) at the working precision."""
        k = abs(k)
        if k >= self.degree:
            return sum((weight * root**k for root, weight in self.terms()), acb(0)).real
        bits, degree = int(ctx.prec), self.degree
        measure = _measure(self.upper, bits)
        return sum((measure[abs(j)] * _lower(self.lower, k - j, bits) for j in range(-degree, degree + 1)), arb(0))

    def terms(self) -> tuple[tuple[acb, acb], ...]:
        """Return (w, A_w) with P(s = k) = Σ A_w·w^|k| for every |k| ≥ D, at the working precision."""
        return _terms(self.upper, self.lower, int(ctx.prec))


@lru_cache(maxsize=256)
def _measure(upper: Geometric, bits: int) -> tuple[arb, ...]:
    """Return N_0 … N_D: the coefficients of the inverse characteristic function, symmetric in j."""
    law = as_scales(upper)
    with precision(bits):
        decay = (-exact(law.rate)).exp()
        below, above, middle = -decay, -decay, 1 + decay * decay
        coefficients = {0: arb(1)}
        for scale in range(1, law.scales + 1):
            spread: dict[int, arb] = {}
            for place, value in coefficients.items():
                for move, factor in ((-scale, below), (0, middle), (scale, above)):
                    spread[place + move] = spread.get(place + move, arb(0)) + value * factor / (1 - decay) ** 2
            coefficients = spread
        degree = law.scales * (law.scales + 1) // 2
        return tuple(coefficients.get(j, arb(0)) for j in range(degree + 1))


@lru_cache(maxsize=8192)
def _lower(lower: Geometric, k: int, bits: int) -> arb:
    with precision(bits):
        return as_scales(lower).pmf_ball(k)


@lru_cache(maxsize=256)
def _terms(upper: Geometric, lower: Geometric, bits: int) -> tuple[tuple[acb, acb], ...]:
    law = as_scales(upper)
    with precision(bits):
        decay = (-exact(law.rate)).exp()
        found = []
        for root, weight in as_scales(lower).poles():
            factor = weight
            for scale in range(1, law.scales + 1):
                power = root**scale
                factor *= (1 - decay * power) * (1 - decay / power) / (1 - decay) ** 2
            found.append((root, factor))
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
