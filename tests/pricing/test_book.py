"""Books: valid exactly when no bundle of the chain undercuts one of its tiers."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.book import TIER_LIMIT, Listing, PriceBook, TierPrice, book_of
from pricing.errors import ArbitrageError, InvalidPriceError, UnknownTierError
from pricing.money import MONEY_LIMIT


def book(*prices, **changes):
    """A book with laws "1", "2", ... in rank order."""
    tiers = tuple(TierPrice(str(rank), price) for rank, price in enumerate(prices, start=1))
    return PriceBook(**{"chain_id": "c", "version": 1, "currency": "EUR", "tiers": tiers} | changes)


def undercut(prices):
    """Slow and obvious: is some tier dearer than a multiset of tiers whose best one is at least as accurate?"""
    ranks = range(len(prices))
    bundles = [bundle for size in (1, 2, 3) for bundle in combinations_with_replacement(ranks, size)]
    return any(
        min(bundle) <= target and sum(prices[i] for i in bundle) < prices[target]
        for bundle in bundles
        for target in ranks
    )


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_a_book_is_valid_exactly_when_no_bundle_undercuts_a_tier(prices):
    if undercut(prices):
        with pytest.raises(ArbitrageError):
            book(*prices)
    else:
        assert [book(*prices).price_of(str(rank)) for rank in range(1, len(prices) + 1)] == prices


def test_a_reversed_book_is_refused_with_the_bundle_and_its_cost():
    with pytest.raises(ArbitrageError, match=r"price of '2': expected at most 1000 .* got 1200") as refusal:
        book(1000, 1200)
    assert (refusal.value.target, refusal.value.price, refusal.value.bundle, refusal.value.cost) == (
        "2",
        1200,
        ("1",),
        1000,
    )


def test_equal_and_convex_prices_are_allowed():
    assert book(9000, 3000, 3000, 500).rank_of("3") == 3


def test_an_unknown_law_is_refused():
    with pytest.raises(UnknownTierError, match="expected a law listed for chain 'c', got '9'"):
        book(2, 1).price_of("9")


@pytest.mark.parametrize("price", [-1, 1.5, Fraction(1, 2), MONEY_LIMIT + 1, True, "1", None])
def test_a_price_that_is_not_a_bounded_natural_number_is_refused(price):
    with pytest.raises(InvalidPriceError, match="price"):
        book(price)


@pytest.mark.parametrize(
    "changes",
    [
        {"tiers": ()},
        {"tiers": [TierPrice("1", 1)]},
        {"tiers": (TierPrice("1", 1), TierPrice("1", 1))},
        {"tiers": tuple(TierPrice(str(i), 0) for i in range(TIER_LIMIT + 1))},
        {"version": 0},
        {"version": True},
        {"currency": "eur"},
        {"chain_id": ""},
        {"chain_id": 7},
    ],
)
def test_a_malformed_book_is_refused(changes):
    with pytest.raises(InvalidPriceError):
        book(1, **changes)


def test_a_revision_is_the_next_version_of_the_same_chain():
    revised = book(3000).revised((TierPrice("0", 9000), TierPrice("1", 3000)))
    assert (revised.version, revised.chain_id, revised.rank_of("1")) == (2, "c", 2)


def classic_sigma(epsilon, delta):
    """The textbook calibration of an (epsilon, delta) Gaussian of sensitivity 1."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def exact_sigma(epsilon, delta):
    """The smallest sigma, by the exact privacy curve and bisection."""

    def excess(sigma):
        left, right = (
            0.5 * math.erfc(-x / math.sqrt(2)) for x in (0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma)
        )
        return left - math.exp(epsilon) * right - delta

    low, high = 0.1, 100.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= 0 else (middle, high)
    return high


@pytest.mark.parametrize(
    ("calibrate", "wide", "narrow"), [(classic_sigma, 4.8448, 4.7206), (exact_sigma, 3.7306, 3.1053)]
)
def test_rank_comes_from_variance_never_from_nominal_epsilon(calibrate, wide, narrow):
    sigma = {"eps=1": calibrate(1, 1e-5), "eps=0.8": calibrate(0.8, 1e-3)}
    assert [round(value, 4) for value in sigma.values()] == [wide, narrow]
    listings = [
        Listing(law, Fraction(value) ** 2, price)
        for (law, value), price in zip(sigma.items(), (1000, 1200), strict=True)
    ]
    assert [tier.law for tier in book_of("c", 1, "EUR", listings).tiers] == ["eps=0.8", "eps=1"]


def test_rank_does_not_come_from_names():
    assert [
        tier.law for tier in book_of("c", 1, "EUR", [Listing("a", Fraction(8), 5), Listing("z", Fraction(2), 9)]).tiers
    ] == ["z", "a"]


def template_of(epsilon, boundaries=(2.197225, 1.386294, 0.847298, 0.405465)):
    """Subset size of a budget for d = 10: the size k holds from ln((10-k)/k) upwards to the next boundary."""
    return next((k for k, boundary in enumerate(boundaries, start=1) if epsilon >= boundary), 5)


def test_subset_template_budgets_for_ten_values():
    assert [round(math.log((10 - k) / k), 6) for k in (1, 2, 3, 4)] == [2.197225, 1.386294, 0.847298, 0.405465]


def test_listings_that_share_a_template_are_one_good_at_one_price():
    asked = {"2.3": 900, "1.5": 500, "1.4": 500}
    listings = [
        Listing(f"subset:10:{template_of(float(e))}", Fraction(template_of(float(e))), price)
        for e, price in asked.items()
    ]
    assert [tier.price for tier in book_of("c", 1, "EUR", listings).tiers] == [900, 500]
    with pytest.raises(InvalidPriceError, match="500, as listed before"):
        book_of("c", 1, "EUR", [*listings, Listing("subset:10:2", Fraction(2), 400)])


@pytest.mark.parametrize(
    "listings",
    [
        [Listing("a", Fraction(1), 1), Listing("a", Fraction(2), 1)],
        [Listing("a", Fraction(1), 1), Listing("b", Fraction(1), 1)],
        [Listing("a", Fraction(0), 1)],
        [Listing("a", 1.0, 1)],
        [Listing("a", float("nan"), 1)],
        [],
    ],
)
def test_listings_that_cannot_be_ranked_are_refused(listings):
    with pytest.raises(InvalidPriceError):
        book_of("c", 1, "EUR", listings)
