"""The conditional charge of an upgrade: certified, sound against adaptive stopping, and what each rule would cost."""

import math
from fractions import Fraction

import pytest

from tiers.accounting.stepwise import adaptive_loss, first_bit, naive_increment, reveal_step, upgrade_charge
from tiers.accounting.upgrades import conditional_charge_nano
from tiers.budget import NANO
from tiers.errors import BudgetOrderError, InvalidParameterError

PAIRS = [(Fraction(1), Fraction(1, 2)), (Fraction(2), Fraction(1)), (Fraction(1, 2), Fraction(1, 10))]
PAIRS += [(Fraction(1), Fraction(9, 10)), (Fraction(5), Fraction(1, 100)), (Fraction(1, 50), Fraction(1, 100))]
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


def test_bad_tiers_are_refused() -> None:
    with pytest.raises(BudgetOrderError):
        conditional_charge_nano(Fraction(1), Fraction(1))
    with pytest.raises(InvalidParameterError):
        conditional_charge_nano(Fraction(1), math.nan)  # type: ignore[arg-type]
