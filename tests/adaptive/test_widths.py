"""Widths: quantiles against another library, and what is released against its own exact law, convolved."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import gammainc, mp, mpf
from scipy.signal import fftconvolve
from scipy.special import ive

from tiers.adaptive.widths import (
    chi_width,
    chi_width_bound,
    confidence_each,
    gaussian_widths,
    laplace_width,
    lattice_widths,
    tsg_width,
)
from tiers.errors import InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric


@pytest.mark.parametrize("dimensions", [1, 2, 3, 10, 784])
@pytest.mark.parametrize("beta", [0.3, 1e-3, 1e-9, 1e-15])
def test_the_width_is_the_quantile_from_above(dimensions: int, beta: float) -> None:
    with mp.workdps(40):

        def beyond(width: float) -> mpf:
            return gammainc(mpf(dimensions) / 2, mpf(width) ** 2 / 2, mp.inf, regularized=True)

        width = chi_width(dimensions, beta)
        assert beyond(width) <= beta * (1 + 1e-13)
        assert beyond(width * (1 - 1e-10)) > beta * (1 - 1e-12)
    assert width <= chi_width_bound(dimensions, beta)


def lattice(sigma: int) -> tuple[np.ndarray, np.ndarray]:
    """Skellam(σ²/2) on ±12σ, from the definition."""
    k = np.arange(-12 * sigma, 12 * sigma + 1)
    return k, ive(np.abs(k).astype(np.float64), float(sigma * sigma))


@pytest.mark.parametrize("sigmas", [(40,), (40, 40), (64, 32), (32, 64), (96, 48, 32)])
@pytest.mark.parametrize("beta", [0.2, 1e-3, 1e-6])
def test_guarantee_lattice_widths_in_one_dimension(sigmas: tuple[int, ...], beta: float) -> None:
    """The exact law of the average, weights being whole multiples: it leaves the width with β at most, and not much less."""
    widths = lattice_widths(sigmas, 1, 1.0, beta)
    for rounds in range(1, len(sigmas) + 1):
        shares = [max(sigmas[:rounds]) ** 2 // sigma**2 for sigma in sigmas[:rounds]]
        law = np.ones(1)
        for sigma, share in zip(sigmas[:rounds], shares, strict=True):
            _, mass = lattice(sigma)
            spaced = np.zeros((len(mass) - 1) * share + 1)
            spaced[::share] = mass
            law = fftconvolve(law, spaced)
        values = (np.arange(len(law)) - len(law) // 2) / sum(shares)
        outside = float(law[np.abs(values) > widths[rounds - 1] - 1.0].sum())  # a step is kept for rounding
        assert outside <= beta
        ideal = chi_width(1, beta) * max(sigmas[:rounds]) / math.sqrt(sum(shares))
        assert ideal < widths[rounds - 1] < ideal * 1.05 + 2


def test_guarantee_lattice_widths_in_two_dimensions() -> None:
    sigma, beta = 40, 1e-3
    k, mass = lattice(sigma)
    far = np.hypot(k[:, None], k[None, :]) > lattice_widths([sigma], 2, 1.0, beta)[0] - math.sqrt(2)
    assert beta / 2 < float((mass[:, None] * mass[None, :])[far].sum()) <= beta


def test_wide_lattices_have_a_gaussians_widths() -> None:
    sigmas, step = [2**22, 2**21, 2**20], 2.0**-20
    ideal = gaussian_widths([[1 / (2 * (sigma * step) ** 2) for sigma in sigmas]], 2, 1e-6)[0]
    got = lattice_widths(sigmas, 2, step, 1e-6)
    assert all(1 < one / other < 1.0005 for one, other in zip(got, ideal, strict=True))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(7, 3)])
@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)])
def test_a_geometric_width_is_the_least_whole_one(epsilon: Fraction, beta: Fraction) -> None:
    law = TwoSidedGeometric(epsilon)
    width = tsg_width(law, beta)
    decay = math.exp(-float(epsilon))
    assert 2 * decay ** (width + 1) / (1 + decay) <= float(beta) * (1 + 1e-12)
    assert width == 0 or 2 * decay**width / (1 + decay) > float(beta)
    assert math.exp(-float(epsilon) * laplace_width(float(epsilon), float(beta))) == pytest.approx(float(beta))


def test_the_confidence_is_shared_out_among_all_intervals() -> None:
    assert confidence_each(0.2, 10, 4) * 40 == pytest.approx(0.2)


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf, 1, True, "0.1"])
def test_a_beta_outside_its_interval_is_refused(beta: object) -> None:
    for asked in (
        lambda: confidence_each(beta, 1),  # type: ignore[arg-type]
        lambda: chi_width(1, beta),  # type: ignore[arg-type]
        lambda: chi_width_bound(1, beta),  # type: ignore[arg-type]
        lambda: lattice_widths([2000], 1, 1.0, beta),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidParameterError, match="beta"):
            asked()
    with pytest.raises(InvalidParameterError, match="beta"):
        tsg_width(TwoSidedGeometric(Fraction(1)), beta)  # type: ignore[arg-type]


def test_other_bad_parameters_are_refused() -> None:
    for people, rounds in itertools.product((0, -1, True, 1.0), (1,)):
        with pytest.raises(InvalidParameterError):
            confidence_each(0.1, people, rounds)  # type: ignore[arg-type]
    for rho in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameterError, match="precisions"):
            gaussian_widths([[rho]], 1, 0.1)
    with pytest.raises(InvalidParameterError, match="sigma"):
        lattice_widths([31], 1, 1.0, 0.1)
    with pytest.raises(InvalidParameterError, match="dimensions"):
        chi_width(0, 0.1)
