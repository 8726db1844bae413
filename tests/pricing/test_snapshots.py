"""Subscriptions: the filter's fixed point, and the tier it emulates."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.book import PriceBook, TierPrice
from pricing.errors import InvalidProductError, UnknownTierError
from pricing.snapshots import emulated_tier, snapshots_to_settle, steady_variance
from tests.pricing.market import tsg


def epsilon_of(variance):
    """The TSG budget with this variance."""
    return math.acosh(1 + 1 / variance)


@pytest.mark.parametrize(
    ("drift", "variance", "epsilon", "count"), [(0.1, 0.8366, 1.423, 17), (1, 2.3435, 0.894, 6), (10, 5.1663, 0.613, 3)]
)
def test_snapshot_reference(drift, variance, epsilon, count):
    assert round(steady_variance(tsg(0.5), drift), 4) == variance
    assert round(epsilon_of(steady_variance(tsg(0.5), drift)), 3) == epsilon
    assert snapshots_to_settle(tsg(0.5), drift) == count


def test_snapshot_reference_to_four_digits():
    assert round(epsilon_of(steady_variance(tsg(0.5), 1)), 4) == 0.8938


def test_same_value_probabilities_of_the_reference_table():
    """An upgrade may return the number already held: w + (1 − w)·tanh(ε_low/2), the mass of the residual's atom and of ties."""

    def same(low, high):
        decay = [math.exp(-epsilon) for epsilon in (high, low)]
        stay = (1 - decay[1]) ** 2 * decay[0] / ((1 - decay[0]) ** 2 * decay[1])
        return stay + (1 - stay) * math.tanh(low / 2)

    assert [round(same(low, high), 4) for low, high in ((1, 2), (0.5, 1), (0.9, 1))] == [0.5679, 0.4224, 0.8829]


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_the_steady_variance_is_the_filters_fixed_point(noise, drift):
    known = steady_variance(noise, drift)
    assert 0 < known < noise
    assert 1 / (1 / (known + drift) + 1 / noise) == pytest.approx(known, rel=1e-9)


BOOK = PriceBook(
    "c",
    1,
    "EUR",
    tuple(TierPrice(law, price) for law, price in (("2", 9000), ("1", 3000), ("0.75", 2000), ("0.5", 1200))),
)
VARIANCES = {law: tsg(float(law)) for law in ("2", "1", "0.75", "0.5")}


@pytest.mark.parametrize(("drift", "law"), [(1e-9, "2"), (0.1, "1"), (1, "0.75"), (10, "0.5"), (1e9, "0.5")])
def test_a_subscription_emulates_the_best_tier_it_reaches(drift, law):
    assert emulated_tier(BOOK, VARIANCES, "0.5", drift).law == law


def test_the_top_tier_emulates_itself():
    assert emulated_tier(BOOK, VARIANCES, "2", 1).price == 9000


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), True, "1"])
def test_bad_noise_and_drift_are_refused(bad):
    for call in (
        lambda: steady_variance(bad, 1),
        lambda: steady_variance(1, bad),
        lambda: snapshots_to_settle(1, 1, bad),
        lambda: emulated_tier(BOOK, VARIANCES, "1", bad),
    ):
        with pytest.raises(InvalidProductError):
            call()


def test_unknown_tiers_are_refused():
    with pytest.raises(UnknownTierError):
        emulated_tier(BOOK, VARIANCES, "3", 1)
    with pytest.raises(UnknownTierError, match="no variance"):
        emulated_tier(BOOK, {"2": 1.0}, "2", 1)


def test_a_tier_of_exactly_the_long_run_variance_is_the_one_emulated():
    assert steady_variance(2.0, 1.0) == 1.0
    shop = PriceBook("c", 1, "EUR", (TierPrice("top", 30), TierPrice("same", 20), TierPrice("low", 10)))
    assert emulated_tier(shop, {"top": 0.5, "same": 1.0, "low": 2.0}, "low", drift=1.0).law == "same"


def test_a_subscriber_who_starts_at_the_goal_has_settled():
    assert snapshots_to_settle(2.0, 1.0, within=1.0) == 1
    assert snapshots_to_settle(2.0, 1.0, within=0.999) == 2
