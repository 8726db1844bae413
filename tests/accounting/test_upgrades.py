"""The conditional charge of an upgrade: certified, sound against adaptive stopping, and what each rule would cost."""

import math
from fractions import Fraction

import pytest

from tests.accounting import oracles
from tiers.accounting.stepwise import adaptive_loss, first_bit, naive_increment, reveal_step, upgrade_charge
from tiers.accounting.upgrades import HIGHEST_RATE, _revealed, conditional_charge_nano
from tiers.budget import NANO
from tiers.errors import BudgetOrderError, InvalidParameterError

PAIRS = [(Fraction(1), Fraction(1, 2)), (Fraction(2), Fraction(1)), (Fraction(1, 2), Fraction(1, 10))]
PAIRS += [(Fraction(1), Fraction(9, 10)), (Fraction(5), Fraction(1, 100)), (Fraction(1, 50), Fraction(1, 100))]
PAIRS += [(Fraction(3), Fraction(3, 2)), (Fraction(8), Fraction(28, 5))]  # the worst order is 1
ORDERS = [1.0, 1.01, 1.05, 1.3, 2.0, 3.5, 9.0, 40.0]


@pytest.mark.parametrize(("upper", "lower"), PAIRS)
def test_the_charge_is_the_supremum_rounded_up(upper: Fraction, lower: Fraction) -> None:
    charge = conditional_charge_nano(upper, lower) / NANO
    assert upgrade_charge(upper, lower) <= charge <= upgrade_charge(upper, lower) * (1 + 2e-8) + 1e-9


def worst(upper: Fraction, lower: Fraction, rest: float, order: float) -> float:
    """D_α of the worst buyer with `rest` left after the lower tier: upgrade, or spend the rest on Gaussians."""
    given_one, given_zero = reveal_step(upper, lower)
    if order == 1.0:
        values = [max(rest, step.divergence(1.0)) for step in (given_one, given_zero)]
        first = first_bit(lower)
        return first.divergence(1.0) + first.if_one * values[0] + (1 - first.if_one) * values[1]
    stop = order * (order - 1) * rest
    values = [max(stop, step.log_moment(order, 0.0, 0.0)) for step in (given_one, given_zero)]
    return first_bit(lower).log_moment(order, *values) / (order - 1)


@pytest.mark.parametrize(("upper", "lower"), PAIRS)
@pytest.mark.parametrize("order", ORDERS)
def test_guarantee_conditional_charge(upper: Fraction, lower: Fraction, order: float) -> None:
    """Charged so, no adaptive stopping beats the ledger; charged the difference of ρ, it does (next test)."""
    rest = conditional_charge_nano(upper, lower) / NANO
    budget = float(lower**2 / 2) + rest
    assert worst(upper, lower, rest, order) <= budget * order * (1 + 1e-12)


def test_the_difference_of_rho_is_beaten() -> None:
    upper, lower = Fraction(1), Fraction(1, 2)
    naive = float(naive_increment(upper, lower))
    assert worst(upper, lower, naive, 1.0) == pytest.approx(adaptive_loss([lower, upper], 1.0), rel=1e-12)
    assert worst(upper, lower, naive, 1.0) > float(upper**2 / 2) * 1.02


def test_a_slightly_smaller_conditional_charge_would_be_beaten() -> None:
    """At the order where the supremum is attained, one per cent less is not enough once the tier below is certain."""
    upper, lower = Fraction(1), Fraction(1, 2)
    less = conditional_charge_nano(upper, lower) / NANO * 0.99
    steps = reveal_step(upper, lower)
    orders = [1 + 10 ** (place / 20) for place in range(-80, 60)]
    assert max(step.divergence(order) / order for step in steps for order in orders) > less


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 10**4), Fraction(1, 10**6)])
def test_small_tiers_are_charged_what_they_are_worth(scale: Fraction) -> None:
    """Nothing beyond the last order that is looked at may stand for the worst one: a charge falls with ε²."""
    charge = conditional_charge_nano(scale, scale / 2)
    assert charge <= math.ceil(Fraction(46, 100) * scale**2 * NANO) if scale < 1 else charge == 438327124


def test_bits_that_doubles_cannot_tell_from_certain_ones_are_refused() -> None:
    assert conditional_charge_nano(HIGHEST_RATE, Fraction(1)) > 15 * NANO
    for upper in (HIGHEST_RATE + Fraction(1, 10**9), Fraction(50)):
        with pytest.raises(InvalidParameterError, match="upper"):
            conditional_charge_nano(upper, Fraction(49, 5))


def test_bad_tiers_are_refused() -> None:
    for lower in (Fraction(1), Fraction(3, 2)):
        with pytest.raises(BudgetOrderError) as refused:
            conditional_charge_nano(Fraction(1), lower)
        assert (refused.value.above, refused.value.got) == (1, lower)
    assert conditional_charge_nano(Fraction(1), Fraction(1, 2)) > 0
    for bad in (Fraction(0), Fraction(-1), 0.5):  # also the float that equals what was asked before
        with pytest.raises(InvalidParameterError, match="lower: expected"):
            conditional_charge_nano(Fraction(1), bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError):
        conditional_charge_nano(Fraction(1), math.nan)  # type: ignore[arg-type]


# --- against sixty digits ---------------------------------------------------------------------------------------------


def supremum(upper: Fraction, lower: Fraction) -> oracles.mpf:
    """sup of D_α/α, from the two bits' joint law at 60 digits: the lower bit is the upper one, flipped by chance."""
    right, below = (1 / (1 + oracles.exp(-oracles.number(rate))) for rate in (upper, lower))
    flip = (right - below) / (2 * right - 1)
    seen_one = (right * (1 - flip) / below, (1 - right) * (1 - flip) / (1 - below))
    seen_zero = (right * flip / (1 - below), (1 - right) * flip / below)

    def ratio(truths: tuple[oracles.mpf, oracles.mpf], x: oracles.mpf) -> oracles.mpf:
        order, (p, q) = 1 + oracles.exp(x), truths
        moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        return oracles.log(moment) / (order - 1) / order

    found = []
    for truths in (seen_one, seen_one[::-1], seen_zero, seen_zero[::-1]):
        best = max((oracles.mpf(place) / 2 for place in range(-40, 30)), key=lambda x: ratio(truths, x))
        low, high = best - oracles.mpf(1) / 2, best + oracles.mpf(1) / 2
        for _ in range(50):
            left, right_ = low + (high - low) * 382 / 1000, low + (high - low) * 618 / 1000
            low, high = (low, right_) if ratio(truths, left) > ratio(truths, right_) else (left, high)
        found += [ratio(truths, (low + high) / 2), ratio(truths, oracles.mpf(-50))]
    return max(found)


FINE = [
    *PAIRS,
    (Fraction(1, 1000), Fraction(1, 2000)),
    (Fraction(2), Fraction(1999, 1000)),
    (Fraction(9), Fraction("8.9")),
]
FINE += [(HIGHEST_RATE, HIGHEST_RATE - below) for below in (15, 8, 2, 1, Fraction(1, 10), Fraction(1, 1000))]
FINE += [(Fraction(top), Fraction(top) - Fraction(1, 7)) for top in (13, 14, 15)]
FINE += [(Fraction(2), 2 - Fraction(1, 10**12)), (HIGHEST_RATE, HIGHEST_RATE - Fraction(1, 10**12))]


@pytest.mark.parametrize(("upper", "lower"), FINE)
def test_the_charge_is_no_less_than_the_supremum_and_hardly_more(upper: Fraction, lower: Fraction) -> None:
    """Near ε = 16 one bit's chance is within 10⁻¹⁴ of 1, of whose rest a double knows next to nothing."""
    charge, exact = conditional_charge_nano(upper, lower), supremum(upper, lower) * NANO
    most = exact * (1 + oracles.mpf("1.002e-8")) + oracles.mpf("1.001")  # 10⁻⁸ of itself, rounding, a unit
    assert exact <= charge <= most


@pytest.mark.parametrize(("upper", "lower"), FINE)
def test_what_is_revealed_is_two_laws_and_adds_up_to_the_upper_bit(upper: Fraction, lower: Fraction) -> None:
    """Chances add up to 1 under either truth, and over the lower bit to the upper one's: right with e^ε/(1 + e^ε)."""
    right, wrong = _revealed(upper, lower)
    for bit in (right, wrong):
        assert bit.likely + bit.rare == pytest.approx(1, rel=1e-15)
        other = bit.likely * math.exp(-bit.likely_loss), bit.rare * math.exp(-bit.rare_loss)
        assert sum(other) == pytest.approx(1, rel=1e-13)
    below, above = (1 / (1 + oracles.exp(-oracles.number(rate))) for rate in (upper, lower)[::-1])
    is_wrong = below * oracles.mpf(right.rare) + (1 - below) * oracles.mpf(wrong.likely)
    assert abs(is_wrong / (1 - above) - 1) < 1e-13


def test_the_highest_rate_is_sixteen() -> None:
    assert HIGHEST_RATE == 16
