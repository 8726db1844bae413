"""The price of lattice Gaussian noise at every order: above the exact divergence, and hardly above it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.special import ive

from tiers.accounting.lattice import lattice_rho
from tiers.errors import InvalidParameterError
from tiers.noise.renyi import exact_or_bound
from tiers.real import exact, precision

ORDERS = [1 + Fraction(1, 1000), Fraction(11, 10), Fraction(3, 2), Fraction(19, 10), Fraction(2), Fraction(5, 2)]
ORDERS += [Fraction(3), Fraction(37, 10), Fraction(8), Fraction(25), Fraction(100)]


def divergence_over_order(variance: int, change: int, order: float) -> float:
    """Σ P(x)^α·P(x − d)^(1−α), in doubles from scaled Bessel functions: the definition."""
    sigma = math.isqrt(variance)
    away = np.arange(-14 * sigma - change * math.ceil(order), 14 * sigma + change * math.ceil(order))
    here, there = (np.log(ive(np.abs(k).astype(np.float64), float(variance))) for k in (away, away - change))
    seen = np.isfinite(here) & np.isfinite(there)
    loss = here[seen] - there[seen]
    # E e^(sL) − 1 − E sL·[…]: expm1 keeps what is far below 1
    weight = np.exp(here[seen])
    total = float((weight * np.expm1((order - 1) * loss)).sum())
    return math.log1p(total) / (order - 1) / order


@pytest.mark.parametrize("rate", [32, 100, 1000])
@pytest.mark.parametrize("change", [1, 2, 7, 40])
def test_the_price_is_above_the_exact_divergence_at_every_order(rate: int, change: int) -> None:
    price = lattice_rho(2 * rate, change, change)
    for order in ORDERS:
        try:
            exactly = Fraction(exact_or_bound(Fraction(rate), order, change))
        except InvalidParameterError:
            continue
        assert exactly <= price * order * change**2, (order, float(exactly / (price * order * change**2)))


@pytest.mark.parametrize(
    ("sigma", "change", "slack"), [(1024, 1, 0.05), (1024, 64, 1e-3), (1024, 1024, 5e-3), (4096, 512, 2e-4)]
)
def test_wide_noise_costs_hardly_more_than_it_leaks(sigma: int, change: int, slack: float) -> None:
    """Right at the definition's value, from above: neither too little nor much too much."""
    price = float(lattice_rho(sigma**2, change, change))
    worst = max(divergence_over_order(sigma**2, change, order) / change**2 for order in (1.001, 1.3, 1.99, 2.4, 4.7))
    assert worst <= price * (1 + 1e-9)
    assert price <= worst * (1 + slack)


def test_the_oracle_itself_agrees_with_balls() -> None:
    for order in (1.5, 2.0, 3.0):
        exactly = exact_or_bound(Fraction(5000), Fraction(order), 9)
        assert divergence_over_order(10_000, 9, order) * order == pytest.approx(exactly, rel=1e-8)


def test_several_entries_cost_by_the_squared_length_of_their_change() -> None:
    """Independent entries add their divergences; the bound for a length covers every way to split it."""
    price = lattice_rho(800, 5, 1)
    for change in [(3, 4), (1, 1, 1), (2, 2, 1), (5,)]:
        assert sum(d * d for d in change) <= 25
        for order in ORDERS:
            total = sum(Fraction(exact_or_bound(Fraction(400), order, d)) for d in change)
            assert total <= price * order * sum(d * d for d in change)


def test_the_bound_holds_where_changes_are_larger_than_the_variance() -> None:
    price = lattice_rho(64, 200, 200)
    for order in (Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(3)):
        assert Fraction(exact_or_bound(Fraction(32), order, 200)) <= price * order * 200**2


@pytest.mark.parametrize("gap", [1, 16])
@pytest.mark.parametrize("reach", [16, 200, 5_000, 200_000])
@pytest.mark.parametrize("variance", [64, 1_000, 2**20])
def test_the_price_is_the_module_s_formula_term_by_term(variance: int, reach: int, gap: int) -> None:
    """The bound has room, so that it holds says little of its terms: each is added up again here, in doubles."""
    root = math.sqrt(variance)
    y = math.ceil(math.sqrt((2 * math.log(variance) + 24) * variance)) / variance
    eta = max(2 / variance, y * y / 6)
    tail = variance * math.sinh(y) * math.exp(-variance * (y * y - math.cosh(y) + 1))
    constant = (eta + tail / root) / (root * gap)
    whole = 1 / (2 * variance) + (2 * gap + 3) / (4 * gap) / variance**2
    bounds = [2 * whole]
    for order in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128):
        v = (1 + eta) * (order - 1) * reach / variance
        line = (1 + eta) ** 2 * math.exp(min(v * v / 12, 700)) / (2 * variance) + constant
        bounds.append(max(line, whole * (1 + 1 / (4 * order * (order - 1)))))
    assert float(lattice_rho(variance, reach, gap)) == pytest.approx(min(bounds), rel=1e-12)


@pytest.mark.parametrize(
    "variance", [64, 90, 1_001, Fraction(10**7, 3), 2**40, 10**13 + 37, 10**20, 2 * 10**24, 10**28], ids=str
)
@pytest.mark.parametrize(("reach", "gap"), [(1, 1), (5, 3), (10**6, 10**6), (2**62, 7)])
def test_the_price_is_the_formula_rounded_up_once_at_every_size(variance: Fraction | int, reach: int, gap: int) -> None:
    """To the last digit of a double, and not below: where 1 − (cosh y − y²) is all but lost in rounding, too."""
    with precision(600):
        mu, extra = exact(Fraction(variance)), Fraction(2 * gap + 3, 4 * gap) / Fraction(variance) ** 2
        y = Fraction(int(((2 * mu.log() + 24) * mu).sqrt().ceil().unique_fmpz())) / variance
        eta, at = exact(max(2 / Fraction(variance), y * y / 6)), exact(y)
        tail = mu.sqrt() * at.sinh() * (-mu * (at * at - at.cosh() + 1)).exp()
        constant, whole = (eta + tail) / (mu.sqrt() * gap), 1 / (2 * mu) + exact(extra)
        least = 2 * whole
        for order in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128):
            v = (1 + eta) * (order - 1) * reach / mu
            line = (1 + eta) ** 2 * (v * v / 12).exp() / (2 * mu) + constant
            joined = whole * (1 + exact(Fraction(1, 4 * order * (order - 1))))
            least = min(least, max(line, joined))
        price = exact(lattice_rho(variance, reach, gap))
        assert least < price
        assert price < least * (1 + exact(Fraction(1, 2**51)))


@pytest.mark.parametrize(
    ("variance", "reach", "gap", "above"),
    [
        (64, 1, 1, 1.0781),
        (20_000, 1, 1, 0.104),
        (2**20, 1, 1, 0.0169),
        (20_000, 10_000, 10_000, 0.0878),
        (2**20, 2**19, 2**19, 0.0869),
        (2**20, 2**11, 64, 0.0005),
        (2**32, 2**19, 8, 0.00006),
        (10**28, 2 * 10**14, 64, 0.0000154),
    ],
)
def test_the_price_is_as_far_above_a_gaussian_s_as_the_pages_say(
    variance: int, reach: int, gap: int, above: float
) -> None:
    excess = float(lattice_rho(variance, reach, gap) * 2 * variance - 1)
    assert 0 < excess <= 1.08, "twice the bound at whole orders, which is 1 + 5/(2·64) of a Gaussian's at most"
    assert excess == pytest.approx(above, rel=0.25)


@pytest.mark.parametrize("bits", range(20, 94, 6))
def test_wide_noise_and_changes_of_many_steps_are_within_a_thousandth(bits: int) -> None:
    variance, sigma = 2**bits, 2 ** (bits // 2)
    for reach in (64, sigma, 2 * sigma):
        assert lattice_rho(variance, reach, 64) * 2 * variance - 1 < Fraction(1, 1000)


def test_amos_bounds_hold_on_a_grid() -> None:
    """asinh((j + ½)/μ) ≤ log(I_j/I_(j+1)) ≤ (j + ½)/μ + (j + 1)/μ²: the two facts that the proof stands on."""
    with precision(300):
        for mu in (Fraction(1), Fraction(64), Fraction(1000), Fraction(10**6)):
            for j in (0, 1, 2, 5, 30, 400, 5000):
                ratio = exact(mu).bessel_i(arb(j), scaled=True) / exact(mu).bessel_i(arb(j + 1), scaled=True)
                loss, y = ratio.log(), exact((j + Fraction(1, 2)) / mu)
                assert loss > y.asinh()
                assert loss < y + exact(Fraction(j + 1) / mu**2)
                assert y.asinh() > y - y**3 / 6


def test_the_tail_and_the_mean_of_the_proof_hold() -> None:
    """E|X| ≤ √μ, and E[X; X > T] ≤ μ·sinh(y)·e^(−μ(y² − cosh y + 1)) at T = yμ."""
    for mu in (64, 400, 2500):
        k = np.arange(0, 20 * math.isqrt(mu))
        mass = ive(k.astype(np.float64), float(mu))
        assert 2 * float((k * mass).sum()) <= math.sqrt(mu)
        for y in (0.1, 0.3, 0.9):
            tail = float((k * mass)[k > y * mu].sum())
            assert tail <= mu * math.sinh(y) * math.exp(-mu * (y * y - math.cosh(y) + 1))


def test_the_price_never_falls_as_the_reach_grows_nor_rises_with_the_gap() -> None:
    prices = [lattice_rho(2**30, 2**reach, 4) for reach in range(3, 40)]
    assert prices == sorted(prices)
    gaps = [lattice_rho(2**30, 2**20, 2**gap) for gap in range(20)]
    assert gaps == sorted(gaps, reverse=True)


@pytest.mark.parametrize(
    ("variance", "reach", "gap", "name"),
    [
        (63, 1, 1, "variance"),
        (1e6, 1, 1, "variance"),
        (True, 1, 1, "variance"),
        (float("nan"), 1, 1, "variance"),
        (10**29, 1, 1, "variance"),
        (100, 0, 1, "reach"),
        (100, 1.0, 1, "reach"),
        (100, 2, 3, "gap"),
        (100, 2, 0, "gap"),
    ],
)
def test_bad_parameters_are_refused_by_name(variance: object, reach: object, gap: object, name: str) -> None:
    with pytest.raises(InvalidParameterError) as refusal:
        lattice_rho(variance, reach, gap)  # type: ignore[arg-type]
    assert refusal.value.name == name
