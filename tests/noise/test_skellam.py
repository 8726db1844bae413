"""Skellam: certified masses at every rate, its exact (ε, δ), calibration, and the refusal of pure ε."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mpmath import besseli, exp, log, mp, mpf

from tiers.errors import InvalidParameterError
from tiers.noise.composition import compose
from tiers.noise.hockey import delta_units, gamma_units
from tiers.noise.renyi import skellam_renyi, skellam_renyi_bound
from tiers.noise.saddle import log_pmf_ball, log_tail_ball
from tiers.noise.skellam import Skellam
from tiers.noise.skellam_table import skellam_reach, skellam_table
from tiers.noise.tails import BallTails, TableTails
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

F = Fraction
ONE = ChangeSet.scalar(1)


def oracle(rate: Fraction, k: int) -> mpf:
    x = 2 * mpf(rate.numerator) / rate.denominator
    return exp(-x) * besseli(abs(k), x)


def exact_delta(rate: Fraction, epsilon: Fraction, shift: int, reach: int = 400) -> mpf:
    gamma = exp(mpf(epsilon.numerator) / epsilon.denominator)
    mass = {k: oracle(rate, k) for k in range(reach + shift + 1)}
    return mp.fsum(max(mass[abs(k)] - gamma * mass[abs(k - shift)], mpf(0)) for k in range(-reach, reach + 1))


@pytest.mark.parametrize("rate", [F(1, 10**30), F(1, 10**9), F(1, 7), F(1), F(5), F(712043726159, 10**11), F(300)])
@pytest.mark.parametrize("bits", [8, 64, 192])
def test_every_table_entry_is_within_one_unit(rate: Fraction, bits: int) -> None:
    mp.dps = 80
    table = skellam_table(rate, bits)
    for k in range(table.last + 1):
        assert abs(table.mass(k) - mpf(2) ** bits * oracle(rate, k)) <= table.error == 1
    beyond = 2 * mp.fsum(oracle(rate, table.last + j) for j in range(1, 40))
    assert beyond * mpf(2) ** bits <= table.outside == 1


def test_table_at_ten_thousand_agrees_with_bessel_balls() -> None:
    table = skellam_table(F(10**4), 128)
    with precision(512):
        for k in (0, 1, 141, 500, 1500, table.last):
            wanted = (exact(-2 * 10**4)).exp() * arb(2 * 10**4).bessel_i(arb(k)) * arb(2) ** 128
            assert abs(wanted - table.mass(k)) <= 1


def test_table_refuses_what_does_not_fit() -> None:
    for rate, bits in ((F(10**12), 64), (F(1), 4), (F(1), 1 << 20)):
        with pytest.raises(InvalidParameterError):
            skellam_table(rate, bits)


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(0, 300))
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_saddle_agrees_with_bessel(numerator: int, denominator: int, k: int) -> None:
    rate = Fraction(numerator, denominator)
    with precision(400):
        x = 2 * exact(rate)
        wanted = ((-x).exp() * x.bessel_i(arb(k))).log() if rate < 10**4 else None
        if wanted is not None:
            assert wanted.overlaps(log_pmf_ball(rate, k, 100))
            assert log_pmf_ball(rate, k, 100).rad() < 2.0**-90


@pytest.mark.parametrize("rate", [F(1, 10**30), F(1, 10**3), F(1), F(40), F(999)])
def test_tails_agree_with_sums(rate: Fraction) -> None:
    mp.dps = 60
    for k in (1, 2, 9, 77):
        wanted = log(mp.fsum(oracle(rate, j) for j in range(k, k + 800)))
        with precision(400):
            ball = log_tail_ball(rate, k, 100)
            assert ball.rad() < 2.0**-90
            apart = abs(float((ball - arb(str(wanted))).mid()))
        assert apart < 1e-25 * max(1, abs(float(wanted)))


@pytest.mark.parametrize("exponent", range(3, 16, 3))
def test_huge_rates_give_numbers_not_nan(exponent: int) -> None:
    law = Skellam(F(10**exponent, 2))
    sigma = 10 ** (exponent / 2)
    for k in (0, int(sigma), int(3 * sigma)):
        series = math.exp(-((k / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
        assert abs(law.pmf(k) / series - 1) < 30 / 10**exponent
        assert abs(law.cdf(k) - (1 + math.erf((k + 0.5) / sigma / math.sqrt(2))) / 2) < 3 / 10**exponent + 1e-15
    assert math.isfinite(law.log_pmf(10 ** (exponent + 3)))
    assert law.pmf(10 ** (exponent + 3)) == 0.0
    assert abs(law.half_width(F(95, 100)) / (1.959964 * sigma) - 1) < 0.02


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        ("0.1", "0.053056610124560245944"),
        ("0.5", "0.0751084780924725243"),
        ("1", "0.09045753335763134762"),
        ("2", "0.055038568314886737211"),
        ("4", "0.0089329255558467484259"),
    ],
)
def test_the_papers_pure_rate_really_has_this_delta(epsilon: str, delta: str) -> None:
    rate = Fraction(1 / math.expm1(float(epsilon)))
    ours = Skellam(rate).delta(Fraction(epsilon), ONE)
    assert abs(ours / float(delta) - 1) < 1e-9


@pytest.mark.parametrize("epsilon", [F(1, 10), F(1), F(4)])
def test_pure_epsilon_is_refused_with_the_real_delta(epsilon: Fraction) -> None:
    really = {F(1, 10): "0.0530566", F(1): "0.0904575", F(4): "0.00893293"}[epsilon]
    with pytest.raises(InvalidParameterError, match=really):
        Skellam.at(epsilon, F(0), ONE)
    with pytest.raises(InvalidParameterError, match="no Skellam law is ε-DP"):
        Skellam(F(3)).epsilon(ONE)


@pytest.mark.parametrize(
    ("epsilon", "delta", "shift", "least"),
    [
        (F(1), F(1, 10**6), 1, 7.12043726159),
        (F(1, 2), F(1, 10**6), 1, 30.6134586158),
        (F(2), F(1, 10**9), 1, 1.7890918085),
        (F(1), F(1, 10**6), 3, 78.2864110345),
        (F(8, 10), F(1, 10**3), 1, 4.24),
        (F(1), F(1, 10**9), 1, 12.03),
    ],
)
def test_calibration_is_the_least_rate_on_the_safe_side(
    epsilon: Fraction, delta: Fraction, shift: int, least: float
) -> None:
    law = Skellam.at(epsilon, delta, ChangeSet.scalar(shift))
    digits = len(str(least).split(".", maxsplit=1)[1])
    assert abs(float(law.rate) - least) <= 1.01 * 10**-digits
    mp.dps = 40
    assert exact_delta(law.rate, epsilon, shift) <= mpf(delta.numerator) / delta.denominator
    smaller = law.rate * (1 - F(3, 10**11))
    assert exact_delta(smaller, epsilon, shift) > mpf(delta.numerator) / delta.denominator


@given(st.fractions(F(1, 20), F(30)), st.integers(1, 4), st.fractions(F(0), F(2)))
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_guarantee_skellam_is_exact_for_scalar_changes(rate: Fraction, shift: int, epsilon: Fraction) -> None:
    mp.dps = 40
    rate, epsilon = rate.limit_denominator(1000), epsilon.limit_denominator(1000)
    wanted = exact_delta(rate, epsilon, shift, 350)
    ours = Skellam(rate).delta(epsilon, ChangeSet.scalar(shift))
    assert wanted <= ours <= wanted * (1 + mpf(10) ** -12) + mpf(10) ** -300


@pytest.mark.parametrize("rate", [F(1), F(100), F(10**4), F(1, 10)])
@pytest.mark.parametrize("delta", [F(1, 10), F(1, 10**6), F(1, 10**12), F(1, 10**60)])
def test_epsilon_at_is_certified_to_twelve_digits(rate: Fraction, delta: Fraction) -> None:
    law = Skellam(rate)
    epsilon = law.epsilon_at(delta, ONE)
    assert math.isfinite(epsilon)
    assert epsilon >= 0
    assert Fraction(law.delta(Fraction(epsilon), ONE)) <= delta
    if epsilon > 0:
        assert Fraction(law.delta(Fraction(epsilon) * (1 - F(1, 10**12)), ONE)) > delta


def test_delta_close_to_one_gives_epsilon_zero_never_less() -> None:
    for rate in (F(1, 100), F(1), F(10**9)):
        assert Skellam(rate).epsilon_at(F(999, 1000), ONE) == 0.0
        assert Skellam(rate).delta(F(0), ONE) <= 1


@pytest.mark.parametrize("shift", [1, 2, 40, 301, 5000])
@pytest.mark.parametrize("hint", [0.5, 1.0, 1.5])
def test_masses_one_by_one_give_the_same_delta_as_the_table_however_good_the_hint(shift: int, hint: float) -> None:
    law = Skellam(F(3000))
    reach = skellam_reach(law.rate, 194)
    dear = BallTails(law.log_pmf_ball, law.log_tail_ball, 192, reach, 96, hint * law.variance())
    table = TableTails(skellam_table(law.rate, 192))
    for epsilon in (F(0), F(1, 100), F(shift, 1000), F(shift, 100), F(shift, 30)):
        gamma = gamma_units(epsilon, 192)
        one, error = delta_units(dear, shift, gamma)
        two, slack = delta_units(table, shift, gamma)
        assert abs(one - two) <= error + slack < 2**102 * (1 + gamma // 2**192)


def test_two_touched_bins_cost_more_than_one_number() -> None:
    law, both = Skellam(F(712043726159, 10**11)), ChangeSet(bins=2, step=1, total=2)
    mass = np.array([law.pmf(k) for k in range(-60, 61)])
    moved = np.array([law.pmf(k - 1) for k in range(-60, 61)])
    brute = np.maximum(np.outer(mass, mass) - math.e * np.outer(moved, moved), 0).sum()
    assert abs(brute - 5.6e-4) < 0.05e-4
    assert brute * (1 - 1e-12) <= law.delta(F(1), both) <= brute * (1 + 1e-7)
    safe = Skellam.at(F(1), F(1, 10**6), both)
    assert safe.delta(F(1), both) <= 1e-6
    assert 16.86 < safe.rate < 16.87
    assert safe.epsilon_at(F(1, 10**6), both) <= 1.0


def test_composition_maximises_over_the_whole_change_set() -> None:
    law, changes = Skellam(F(20)), ChangeSet(bins=2, step=3, total=4)
    mass = {d: np.array([law.pmf(k - d) for k in range(-90, 91)]) for d in (0, 1, 2, 3)}
    worst = 0.0
    for first in range(4):
        for second in range(4 - first + 1):
            if second <= 3:
                pair = np.outer(mass[0], mass[0]) - math.e * np.outer(mass[first], mass[second])
                worst = max(worst, np.maximum(pair, 0).sum())
    assert worst * (1 - 1e-12) <= law.delta(F(1), changes) <= worst * (1 + 1e-4)


def test_finer_grids_only_lower_the_composed_bound() -> None:
    law = Skellam(F(10))
    coarse, fine = (compose(law, (1, 1, 1), points).delta(1.0) for points in (256, 4096))
    assert fine <= coarse <= fine * (1 + 2e-3)


@pytest.mark.parametrize(("rate", "alpha", "shift"), [(1, 2, 1), (1, 10, 1), (5, 3, 2), (5, 40, 1), (100, 8, 3)])
def test_renyi_divergence_is_the_sum(rate: int, alpha: int, shift: int) -> None:
    mp.dps = 60
    mass = [oracle(F(rate), k) for k in range(420)]
    total = mp.fsum(mass[abs(k)] ** alpha * mass[abs(k - shift)] ** (1 - alpha) for k in range(-400, 401))
    wanted = log(total) / (alpha - 1)
    ours = skellam_renyi(F(rate), alpha, ChangeSet.scalar(shift))
    assert wanted <= ours <= wanted * (1 + mpf(10) ** -12)
    assert ours <= skellam_renyi_bound(F(rate), F(alpha), shift)


def test_renyi_over_a_change_set_is_that_of_the_concentrated_change() -> None:
    law, changes = Skellam(F(6)), ChangeSet(bins=3, step=3, total=5)
    one = [0.0] + [law.rdp(4, ChangeSet.scalar(d)) for d in (1, 2, 3)]
    every = [one[a] + one[b] + one[c] for a in range(4) for b in range(4) for c in range(4) if a + b + c <= 5]
    assert abs(law.rdp(4, changes) - max(every)) < 1e-12


@pytest.mark.parametrize("alpha", [1, 0, -2, 1.5, float("nan"), True, F(1), 10**9])
def test_bad_orders_are_named(alpha: object) -> None:
    with pytest.raises(InvalidParameterError):
        Skellam(F(3)).rdp(alpha, ONE)  # type: ignore[arg-type]
