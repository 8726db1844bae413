"""What lattice Gaussian noise costs at every real order and every distance, at most.

From σ = 2¹⁰ steps on, for changes of 64 steps to 2σ, it is within a thousandth of a Gaussian's of the same variance. Of
fewer steps it is above that (at one step 1.7 % at σ = 2¹⁰, twofold at σ = 8), as of more (9 % at σ²/2 steps), and
nowhere above 2.08 times a Gaussian's.

Noise of variance μ (Skellam(μ/2)) is added to integers that differ by d. With a_j = log(I_j/I_(j+1)), odd about −1/2,
the loss is L(x) = −Σ a_j over j = x − d … x − 1. Amos' bounds give a_j ≥ asinh(y), y = (j + ½)/μ, and, for j ≥ 0,
a_j ≤ y + (j + 1)/μ² ≤ y(1 + 2/μ). So up to T = yμ (any integer in (0, μ)), with η = max(2/μ, y²/6), L lies below
ℓ(x) = −(d/μ)(x − d/2) + η(d/μ)(|x| + d/2); beyond T, a point of the lattice, it falls (I is log-concave in its order),
so e^(sL) ≤ e^(sℓ(T)) ≤ e^(sℓ(x)) + e^(sℓ(T))·θ(x − T) with θ = sd/μ. The law's moments are known:
E e^(tX) = e^(μ(cosh t − 1)), E|X| ≤ √μ, and E[X; X > T] ≤ τ = μ·sinh(y)·e^(−μ(y² − cosh y + 1)). Together, for every
s = α − 1 > 0, as cosh v − 1 ≤ (v²/2)·e^(v²/12),

    D_α ≤ α·(d²/2μ)·(1 + η)²·e^(v²/12) + (d/√μ)·(η + τ/√μ),   v = (1 + η)·s·d/μ.

Where v would grow, from an order n on, the bound at whole orders joined by convexity takes over; and for changes so
large (d > μ, that is beyond σ standard deviations) that v grows even at small orders, twice that bound always holds.
"""

import math
from fractions import Fraction
from functools import lru_cache

from flint import arb

from tiers.errors import InvalidParameterError
from tiers.real import exact, precision

__all__ = ["VARIANCES", "lattice_rho"]

VARIANCES = Fraction(2**6), Fraction(10**28)
"""The least and the most that `lattice_rho` takes."""

_SPARE = 24  # of the exponent K² = 2·log μ + 24: what the tail beyond K standard deviations adds is then below η/10³
_JOINTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_BITS = 160


def lattice_rho(variance: Fraction | int, reach: int, gap: int = 1) -> Fraction:
    """Return a ρ a squared step: integers with independent lattice Gaussian noise are ρ-concentrated, rounded up.

    Law:        D_α ≤ ρ·α·|d|² for every real α > 1 and every change d of a vector with |d| ≤ reach, each entry of d
                being 0 or at least `gap` in size; a Gaussian of this variance has 1/(2·variance).
    Args:       variance: σ² of each entry's noise, in squared steps, 64 to 10²⁸. reach, gap: in steps, gap ≤ reach.
    Raises:     InvalidParameterError: outside these.
    Reference:  Amos 1974 (ratios of Bessel functions); Agarwal, Kairouz, Liu 2021, corollary 3.6 (whole orders).
    Example:
        >>> excess = lattice_rho(2**32, reach=2**20, gap=2**10) * 2 * 2**32 - 1
        >>> 0 < excess < Fraction(1, 10**4)
        True
    """
    for name, value in (("reach", reach), ("gap", gap)):
        if type(value) is not int or value < 1:
            raise InvalidParameterError(name, "an integer ≥ 1 (steps)", value)
    if gap > reach:
        raise InvalidParameterError("gap", f"at most the reach {reach}", gap)
    if type(variance) not in (int, Fraction) or not VARIANCES[0] <= variance <= VARIANCES[1]:
        raise InvalidParameterError("variance", "a rational from 64 to 10²⁸ squared steps", variance)
    return _rho(Fraction(variance), reach, gap)


@lru_cache(maxsize=4096)
def _rho(variance: Fraction, reach: int, gap: int) -> Fraction:
    with precision(_BITS):  # a level is the same on every machine: no step of it is a C library's
        mu = exact(variance)
        y = int(((2 * mu.log() + _SPARE) * mu).sqrt().upper().ceil().unique_fmpz()) / variance  # below 1 from 64 on
        eta, at = max(2 / variance, y * y / 6), exact(y)
        tail = mu.sqrt() * at.sinh() * (-mu * (at * at - at.cosh() + 1)).exp()
        aside = (exact(eta) + tail) / (mu.sqrt() * gap)
        candidates = [_joined(variance, eta, reach, gap, aside, order) for order in _JOINTS]
        always = exact(2 * _at_whole_orders(variance, gap))  # D_α ≤ D_2 below 2
        best = min(float(ball.upper()) for ball in (*candidates, always))
    return Fraction(math.nextafter(best, math.inf))


def _joined(variance: Fraction, eta: Fraction, reach: int, gap: int, aside: arb, order: int) -> arb:
    """The larger of the two bounds: by the line up to an order, from whole orders n ≥ it on."""
    mu = exact(variance)
    widest = exact((order - 1) * (1 + eta) * reach / variance)
    below = exact((1 + eta) ** 2) * (widest**2 / 12).exp() / (2 * mu) + aside
    above = exact(_at_whole_orders(variance, gap) * (1 + Fraction(1, 4 * order * (order - 1))))
    return below if below > above else above if above > below else below.union(above)


def _at_whole_orders(variance: Fraction, gap: int) -> Fraction:
    return 1 / (2 * variance) + Fraction(2 * gap + 3, 4 * gap) / variance**2
