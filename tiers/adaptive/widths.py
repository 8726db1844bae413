"""How far an estimate may be off: widths that hold with probability 1 − β, for Gaussians and for what is released.

Released noise is lattice Gaussian, that is Skellam. Its mass at k, |k| ≤ Kσ, is at most e^b times that of a Gaussian on
[k − ½, k + ½], with b = log(√(2πμ)·P(0)) + 1/(24μ) + K⁴/(24μ): a_j ≥ asinh(y_j) ≥ y_j − y_j³/6 bounds P(k)/P(0), and
Jensen's inequality bounds the cell from below. So an average of rounds is, but for a factor and a rest that are both
counted in β, an average of Gaussians, and half a step a coordinate.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb
from scipy.stats import chi2

from tiers.errors import InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import exact, precision

__all__ = [
    "Table",
    "chi_width",
    "chi_width_bound",
    "confidence_each",
    "gaussian_widths",
    "laplace_width",
    "lattice_widths",
    "tsg_width",
]

Table = npt.NDArray[np.float64]
_SPARED = 1e-3  # of β, kept for what lies beyond the cells
_ROUNDING = 1e-12


def confidence_each(beta: float, people: int, rounds: int = 1) -> float:
    """Return β/(n·c): the chance that each of n·c intervals may miss, so that with 1 − β none does.

    Raises:     InvalidParameterError: β outside (0, 1), NaN included; nobody; no round.
    Example:
        >>> confidence_each(0.1, 25, 4)
        0.001
    """
    if not isinstance(beta, float) or not 0 < beta < 1:
        raise InvalidParameterError("beta", "a float with 0 < β < 1", beta)
    for name, value in (("people", people), ("rounds", rounds)):
        if type(value) is not int or value < 1:
            raise InvalidParameterError(name, "an integer ≥ 1", value)
    return beta / (people * rounds)


def chi_width(dimensions: int, beta: float) -> float:
    """Return the λ with P(‖Z‖ > λ) ≤ β for a standard Gaussian vector: the exact quantile, rounded up.

    Law:        P(‖Z‖ > λ) = P(χ²_d > λ²) = β.
    Raises:     InvalidParameterError: no dimension, or β outside (0, 1).
    Example:
        >>> round(chi_width(1, 1e-6), 3), round(chi_width_bound(1, 1e-6), 3)
        (4.892, 6.005)
    """
    _check(dimensions, beta)
    return math.sqrt(float(chi2.isf(beta, dimensions))) * (1 + _ROUNDING)


def chi_width_bound(dimensions: int, beta: float) -> float:
    """Return the classical upper bound of that quantile: for comparison, never smaller.

    Law:        λ² = d + 2·√(d·ln(1/β)) + 2·ln(1/β).
    Reference:  Laurent and Massart 2000, lemma 1.
    Example:
        >>> round(chi_width_bound(2, 1e-4), 6)
        5.385587
    """
    _check(dimensions, beta)
    left = -math.log(beta)
    return math.sqrt(dimensions + 2 * math.sqrt(dimensions * left) + 2 * left) * (1 + _ROUNDING)


def gaussian_widths(precisions: npt.ArrayLike, dimensions: int, beta: float, *, bound: bool = False) -> Table:
    """Return λ/√(2Σρ) after each round, a row a class: widths of the weighted average of exact Gaussian rounds.

    Law:        the average Σ(ρ_s/ρ̄)·v_s has noise N(0, I/(2ρ̄)), ρ̄ = Σρ_s; a function that stretches no distance is off
                by at most its norm.
    Args:       precisions: ρ of each round, > 0, shape (…, rounds). bound: take the classical bound for λ.
    Example:
        >>> gaussian_widths([[0.25, 0.25]], 1, 0.05).round(3).tolist()
        [[2.772, 1.96]]
    """
    table = np.asarray(precisions, np.float64)
    if not (table.size and np.isfinite(table).all() and (table > 0).all()):
        raise InvalidParameterError("precisions", "positive finite numbers", "others")
    width = chi_width_bound(dimensions, beta) if bound else chi_width(dimensions, beta)
    widths: Table = width / np.sqrt(2 * np.cumsum(table, axis=-1))
    return widths


def lattice_widths(sigmas: Sequence[int], dimensions: int, step: float, beta: float) -> list[float]:
    """Return the same for rounds as they are released: lattice Gaussian noise of σ steps, values rounded to a step.

    Guarantee:  after each round, P(|g − φ| > width) ≤ β for any φ that stretches no distance, each coordinate of the
                value having been rounded to the nearest step (half a step of slack is allowed for floating point).
    Args:       sigmas: of each round, in steps (≥ 32). step: its length, in units.
    Raises:     InvalidParameterError: outside these, or β too small for the lattice (below 10⁻³⁰⁰, or σ too few steps).
    Example:
        >>> lattice, ideal = lattice_widths([2**20], 1, 2.0**-20, 1e-6)[0], chi_width(1, 1e-6)
        >>> 0 < lattice / ideal - 1 < 1e-4
        True
    """
    _check(dimensions, beta)
    precision_sum, excess, widths = 0.0, 0.0, []
    for place, sigma in enumerate(sigmas, start=1):
        excess += dimensions * _cell_excess(sigma, beta * _SPARED / (dimensions * len(sigmas)))
        precision_sum += 1 / (2 * (sigma * step) ** 2)
        left = beta * (1 - _SPARED) * math.exp(-excess) * (1 - place * _ROUNDING)
        widths.append(chi_width(dimensions, left) / math.sqrt(2 * precision_sum) + (math.sqrt(dimensions) + 1) * step)
    return widths


def laplace_width(epsilon: float, beta: float) -> float:
    """Return h with P(|X| > h) = β for Laplace noise of scale 1/ε.

    Law:        h = ln(1/β)/ε.
    Example:
        >>> round(laplace_width(1.0, 0.05), 6)
        2.995732
    """
    _check(1, beta)
    return -math.log(beta) / epsilon


def tsg_width(law: TwoSidedGeometric, beta: Fraction) -> int:
    """Return the least integer h with P(|X| > h) ≤ β for two-sided geometric noise.

    Law:        P(|X| > h) = 2p^(h+1)/(1 + p), so h = ⌈ln(β(1 + p)/2)/ln p⌉ − 1, p = e^(−rate).
    Example:
        >>> tsg_width(TwoSidedGeometric(Fraction(2)), Fraction(1, 10**6))
        7
    """
    if not isinstance(beta, Fraction) or not 0 < beta < 1:
        raise InvalidParameterError("beta", "a Fraction with 0 < β < 1", beta)
    return law.half_width(1 - beta)


@lru_cache(maxsize=4096)
def _cell_excess(sigma: int, beyond: float) -> float:
    """Return b such that the lattice law is below e^b times the Gaussian's cells, but for a mass of `beyond`."""
    if type(sigma) is not int or not 32 <= sigma <= 10**14:
        raise InvalidParameterError("sigma", "an integer from 32 to 10¹⁴ steps", sigma)
    if not beyond > 1e-305:
        raise InvalidParameterError("beta", "at least about 10⁻³⁰⁰", beyond)
    mu, k = sigma * sigma, math.sqrt(2 * math.log(2 / beyond))
    while not _tail_exponent(sigma, k) > math.log(2 / beyond) * (1 + _ROUNDING):
        k *= 1.001
        if k > sigma:
            raise InvalidParameterError("sigma", "enough steps for so small a β", sigma)
    with precision(256):
        centre = (2 * exact(mu) * arb.pi()).sqrt() * exact(mu).bessel_i(arb(0), scaled=True)
        return float(centre.log().upper()) * (1 + _ROUNDING) + (1 + k**4) / (24 * mu) * (1 + _ROUNDING)


def _tail_exponent(sigma: int, k: float) -> float:
    """μ(y² − cosh y + 1), y = k/σ: P(X > kσ) ≤ e^−that (Chernoff), as its series μy²/2·(1 − y²/12 − …)."""
    y = k / sigma
    return k * k / 2 * (2 - math.exp(y * y / 12))


def _check(dimensions: int, beta: float) -> None:
    if type(dimensions) is not int or dimensions < 1:
        raise InvalidParameterError("dimensions", "an integer ≥ 1", dimensions)
    if not isinstance(beta, float) or not 0 < beta < 1:
        raise InvalidParameterError("beta", "a float with 0 < β < 1", beta)
