"""Masses of sums of scaled two-sided geometrics, all at once: products of power series instead of sums over roots."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from flint import arb, arb_poly, arb_series, ctx

from tiers.real import exact, precision

__all__ = ["SERIES_LIMIT", "falling", "scale_masses", "series_length"]

SERIES_LIMIT = 1 << 15


def falling(scales: Sequence[int], rate: Fraction) -> arb_poly:
    """Return Π (1 − e^(−rate)·z^ξ) over the scales, at the working precision.

    Example:
        >>> falling((1, 2), Fraction(1)).degree()
        3
    """
    if len(scales) > 1:
        middle = len(scales) // 2
        return falling(scales[:middle], rate) * falling(scales[middle:], rate)
    decay = (-exact(rate)).exp()
    return arb_poly([arb(1), *[arb(0)] * (scales[0] - 1), -decay]) if scales else arb_poly([arb(1)])


def series_length(scales: int, rate: Fraction, bits: int) -> int:
    """Return how many terms of 1/Π(1 − p·z^ξ), ξ ≤ scales, leave less than 2^−bits of every mass.

    Law:        the terms are at most B·e^(−n·rate/2Δ), B = Π 1/(1 − e^(−rate + ξ·rate/2Δ)), by Cauchy's estimate.
    Example:
        >>> series_length(1, Fraction(1), 64)
        49
    """
    slow = float(rate) / (2 * scales)
    bound = -sum(math.log(-math.expm1(-float(rate) + place * slow)) for place in range(1, scales + 1))
    whole = 2 * bound + bits * math.log(2) - math.log(-math.expm1(-2 * slow)) + 1
    return math.ceil(whole / (2 * slow)) + 1


@lru_cache(maxsize=64)
def scale_masses(scales: int, rate: Fraction, count: int, bits: int) -> tuple[arb, ...]:
    """Return P(Σ_{ξ ≤ scales} ξ·G_ξ = k) for k = 0 … count − 1 as balls of absolute error about 2^−bits.

    With h the coefficients of 1/Π(1 − p·z^ξ), the mass at k is Π(1−p)²·Σ_n h_n·h_(n+k): one inversion, one product.

    Example:
        >>> round(float(scale_masses(2, Fraction(4), 2, 64)[0]), 9)
        0.928758936
    """
    working = bits + 64
    while True:
        with precision(working):
            masses = _masses(scales, rate, count, bits)
        if all(float(mass.rad()) < 2.0 ** (4 - bits) for mass in masses):
            return masses
        working *= 2


def _masses(scales: int, rate: Fraction, count: int, bits: int) -> tuple[arb, ...]:
    length = max(count, series_length(scales, rate, bits))
    before, ctx.cap = ctx.cap, length
    try:
        terms = (1 / arb_series(falling(tuple(range(1, scales + 1)), rate).coeffs(), prec=length)).coeffs()
    finally:
        ctx.cap = before
    products = (arb_poly(terms) * arb_poly(terms[::-1])).coeffs()
    whole = (1 - (-exact(rate)).exp()) ** (2 * scales)
    blur = arb(0, arb(2) ** -bits)
    return tuple(whole * products[length - 1 + k] + blur for k in range(count))
