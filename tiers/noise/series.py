"""Masses of sums of scaled two-sided geometrics, all at once: products of power series instead of sums over roots."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, arb_poly, arb_series, ctx
from numpy.typing import NDArray
from scipy.signal import lfilter

from tiers.noise.calibrate import least_integer
from tiers.real import exact, precision

__all__ = [
    "FLOAT_LIMIT",
    "SERIES_LIMIT",
    "falling",
    "half_width_by_series",
    "one_side",
    "scale_masses",
    "series_error",
    "series_length",
]

SERIES_LIMIT = 1 << 15
FLOAT_LIMIT = 1 << 20


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
    """Return n with P(Y ≥ n) ≤ 2^−bits for Y = Σ ξ·Geometric(p), one side of the law: the terms a series needs.

    Law:        P(Y ≥ n) ≤ e^(−θn)·Π (1 − p)/(1 − p·e^(θξ)) for every θ < rate/Δ (Chernoff); the best of some θ.
    Example:
        >>> series_length(1, Fraction(1), 64)
        50
    """
    fall, best = float(rate), math.inf
    for share in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98):
        slow = share * fall / scales
        whole = sum(math.log(math.expm1(-fall) / math.expm1(slow * place - fall)) for place in range(1, scales + 1))
        best = min(best, (whole + bits * math.log(2)) / slow)
    return math.ceil(best * (1 + 1e-9)) + 1


def one_side(scales: int, rate: Fraction, length: int, over: tuple[int, Fraction] | None = None) -> NDArray[np.float64]:
    """Return the first coefficients of Π (1 − q·z^ξ)/(1 − p·z^ξ) as doubles: with `over` = (scales, rate of q ≤ p).

    No term is negative, so nothing cancels: each is right to `series_error` of itself.

    Example:
        >>> [round(float(each), 6) for each in one_side(1, Fraction(1), 3)]
        [1.0, 0.367879, 0.135335]
    """
    above, steep = over if over is not None else (0, rate)
    decay, gap = math.exp(-rate), -math.exp(-rate) * math.expm1(float(rate - steep))
    found = np.zeros(length)
    found[0] = 1.0
    for scale in range(1, scales + 1):
        whole = -(-length // scale) * scale
        rows = np.concatenate([found, np.zeros(whole - length)]).reshape(-1, scale)
        summed = lfilter([1.0], [1.0, -decay], rows, axis=0)
        if scale <= above:  # (1 − q·z)/(1 − p·z) = 1 + (p − q)·z/(1 − p·z)
            summed = rows + gap * np.concatenate([np.zeros((1, scale)), summed[:-1]])
        found = summed.reshape(-1)[:length]
    return found


def series_error(scales: int, length: int) -> float:
    """Return a bound on the relative error of `one_side`, of a sum of products of two of its terms, and of (1−p)^2Δ."""
    return (8 * length + 16 * scales + 64) * 2.0**-53


def half_width_by_series(scales: int, rate: Fraction, confidence: Fraction) -> int | None:
    """Return the least h with P(|X| ≤ h) ≥ confidence where doubles can tell, else None.

    Law:        P(X ≥ m) = (1−p)^2Δ·Σ_n h_n·Σ_(j ≥ n+m) h_j, every term positive, less at most 2^−43 for what is cut.
    Example:
        >>> half_width_by_series(2, Fraction(4), Fraction(95, 100))
        1
    """
    length = series_length(scales, rate, 44)
    if length > FLOAT_LIMIT or 1 - confidence < Fraction(1, 1 << 36):  # what is cut would count
        return None
    terms = one_side(scales, rate, length)
    suffix = np.append(np.cumsum(terms[::-1])[::-1], 0.0)
    whole, miss = (-math.expm1(-float(rate))) ** (2 * scales), float(1 - confidence) / 2
    off = series_error(scales, length) + 2**-50

    def tail(m: int) -> float:
        return whole * float((terms[: length - m] * suffix[m:length]).sum()) if m < length else 0.0

    h = least_integer(lambda width: tail(width + 1) * (1 + off) + 2**-43 <= miss * (1 - 2**-50))
    return h if h == 0 or tail(h) * (1 - off) > miss * (1 + 2**-50) else None


@lru_cache(maxsize=64)
def scale_masses(scales: int, rate: Fraction, count: int, bits: int) -> tuple[arb, ...]:
    """Return P(Σ_{ξ ≤ scales} ξ·G_ξ = k) for k = 0 … count − 1 as balls of absolute error about 2^−bits.

    With h the coefficients of 1/Π(1 − p·z^ξ), the mass at k is Π(1−p)²·Σ_n h_n·h_(n+k): one inversion, one product.

    Example:
        >>> round(float(scale_masses(2, Fraction(4), 2, 64)[0]), 9)
        0.929360595
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
    blur = arb(0, 2 * arb(2) ** -bits)  # the pairs of terms of which one is cut
    return tuple(whole * products[length - 1 + k] + blur for k in range(count))
