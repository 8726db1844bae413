"""Quotes: the price less what was paid, never below the reserve, never twice."""

import dataclasses
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.book import PriceBook, TierPrice
from pricing.errors import (
    ChangedQuoteError,
    ExpiredQuoteError,
    InvalidPriceError,
    NoTierWithinError,
    UnknownTierError,
)
from pricing.money import MONEY_LIMIT
from pricing.quote import Holding, cheapest_within, confirm, quote

LAWS = ("tsg:2", "tsg:1", "tsg:1/2", "tsg:1/4")


def book(*prices, chain_id="c", version=1, currency="EUR"):
    return PriceBook(chain_id, version, currency, tuple(map(TierPrice, LAWS, prices)))


REFERENCE = book(9000, 3000, 1200, 500)
PRICES = st.lists(st.integers(0, 10_000), min_size=4, max_size=4).map(lambda prices: sorted(prices, reverse=True))
LAW = st.sampled_from(LAWS)


def walk(book, path, reserve=lambda rank_from, rank_to: 0):
    """Buy `path` in order; return the amounts."""
    holding, amounts = Holding(), []
    for law in path:
        rank = book.rank_of(law)
        held = len(LAWS) + 1 if holding.rank is None else holding.rank
        offer = quote(book, law, holding, reserve=reserve(held, rank))
        amounts.append(offer.amount)
        holding = Holding(min(rank, held), holding.net_paid + offer.amount)
    return amounts


def test_buying_up_one_by_one_pays_the_differences():
    assert walk(REFERENCE, reversed(LAWS)) == [500, 700, 1800, 6000]


@given(PRICES, st.lists(LAW, min_size=1, max_size=6))
def test_guarantee_quote(prices, path):
    """Every path of upgrades costs, in all, the best tier's list price; the other promises are the tests below."""
    shop = book(*prices)
    assert sum(walk(shop, path)) == max(shop.price_of(law) for law in path)


@given(PRICES, LAW, st.integers(1, 5), st.integers(0, 20_000), st.integers(0, 500))
def test_owned_or_lower_is_free_and_nothing_is_negative(prices, law, rank, net_paid, reserve):
    offer = quote(book(*prices), law, Holding(rank, net_paid), reserve=reserve)
    assert offer.amount == max(offer.list_price - offer.credit, offer.reserve) >= 0
    assert offer.amount == offer.list_price - offer.credit + offer.top_up
    assert 0 <= offer.credit <= offer.list_price
    assert offer.amount == 0 or offer.rank < rank
    assert offer.amount >= reserve or offer.rank >= rank


@given(
    PRICES,
    st.one_of(st.none(), st.integers(1, 5)),
    st.integers(0, 20_000),
    st.lists(st.integers(0, 5000), min_size=4, max_size=4),
)
def test_quotes_never_fall_with_accuracy(prices, rank, net_paid, reserves):
    reserves.sort(reverse=True)
    amounts = [
        quote(book(*prices), law, Holding(rank, net_paid), reserve=reserve).amount
        for law, reserve in zip(LAWS, reserves, strict=True)
    ]
    assert amounts == sorted(amounts, reverse=True)


@given(PRICES, st.lists(st.integers(0, 3000), min_size=4, max_size=4), st.lists(LAW, min_size=1, max_size=4))
def test_splitting_a_purchase_is_never_cheaper(prices, steps, path):
    """With a reserve that telescopes over the budget used, as `scarcity` makes it."""
    shop = book(*prices)
    used = [sum(steps[rank:]) for rank in range(len(LAWS))] + [0]  # budget cost of rank r is used[r - 1]

    def reserve(held, rank):
        return max(0, used[rank - 1] - used[held - 1])

    best = min(path, key=shop.rank_of)
    assert sum(walk(shop, path, reserve)) >= sum(walk(shop, [best], reserve))


def test_a_price_cut_below_what_was_paid_gives_zero():
    assert quote(book(9000, 1000, 1000, 500), "tsg:1", Holding(3, 1200)).amount == 0
    assert quote(book(9000, 1000, 1000, 500), "tsg:2", Holding(3, 1200)).amount == 7800


def test_the_reserve_is_a_floor_and_free_for_owned_tiers():
    assert quote(REFERENCE, "tsg:1", Holding(3, 1200), reserve=2500).amount == 2500
    assert quote(REFERENCE, "tsg:1", Holding(3, 1200), reserve=2500).top_up == 700
    assert quote(REFERENCE, "tsg:1/2", Holding(3, 1200), reserve=2500).amount == 0


def test_a_holder_below_every_listed_tier_keeps_their_credit():
    assert quote(REFERENCE, "tsg:1/4", Holding(5, 200)).amount == 300


def test_a_tier_of_another_chain_is_unknown():
    with pytest.raises(UnknownTierError, match="skellam"):
        quote(REFERENCE, "skellam:3")


@pytest.mark.parametrize("reserve", [-1, 0.5, True, MONEY_LIMIT + 1, Fraction(1, 2)])
def test_a_bad_reserve_is_refused_even_where_it_is_not_used(reserve):
    for holding in (Holding(), Holding(1, 9000)):
        with pytest.raises(InvalidPriceError, match="reserve"):
            quote(REFERENCE, "tsg:1", holding, reserve=reserve)


@pytest.mark.parametrize(
    ("rank", "net_paid"), [(0, 0), (-1, 0), (True, 0), (1.0, 0), (1, -1), (1, 0.5), (1, MONEY_LIMIT + 1)]
)
def test_a_bad_holding_is_refused(rank, net_paid):
    with pytest.raises(InvalidPriceError):
        Holding(rank, net_paid)


@given(PRICES, LAW, st.one_of(st.none(), st.integers(1, 5)), st.integers(0, 9000))
def test_replaying_a_quote_in_the_same_state_confirms_it(prices, law, rank, net_paid):
    shop, holding = book(*prices), Holding(rank, net_paid)
    offer = quote(shop, law, holding, reserve=7)
    assert confirm(offer, quote(shop, law, holding, reserve=7), now=1, expires_at=2) == offer


def test_an_expired_or_changed_quote_is_refused():
    offer = quote(REFERENCE, "tsg:1")
    later = {"now": 1, "expires_at": 5}
    with pytest.raises(ExpiredQuoteError, match="expected an order before 5, got one at 5"):
        confirm(offer, offer, now=5, expires_at=5)
    with pytest.raises(ChangedQuoteError, match=r"quote book_version: expected 2 .* got 1"):
        confirm(offer, quote(book(9000, 3000, 1200, 500, version=2), "tsg:1"), **later)
    with pytest.raises(ChangedQuoteError, match="quote credit: expected 1200"):
        confirm(offer, quote(REFERENCE, "tsg:1", Holding(3, 1200)), **later)
    with pytest.raises(ChangedQuoteError, match="quote amount: expected 3500"):
        confirm(offer, quote(REFERENCE, "tsg:1", reserve=3500), **later)
    with pytest.raises(UnknownTierError):
        confirm(offer, quote(book(9000, 3000, 1200, 500, chain_id="d"), "tsg:1"), **later)
    for changes in ({"amount": 1}, {"law": "tsg:2"}, {"currency": "USD"}, {"list_price": 1}):
        with pytest.raises(ChangedQuoteError, match=next(iter(changes))):
            confirm(dataclasses.replace(offer, **changes), offer, **later)


def test_a_reserve_below_the_price_may_move_without_making_a_quote_stale():
    offer, moved = quote(REFERENCE, "tsg:1", reserve=10), quote(REFERENCE, "tsg:1", reserve=3000)
    assert confirm(offer, moved, now=1, expires_at=5) == moved
    assert confirm(offer, dataclasses.replace(offer, rank=7), now=1, expires_at=5).rank == 7


BARS = {"tsg:2": 2, "tsg:1": Fraction(7, 2), "tsg:1/2": 7, "tsg:1/4": 14}


@pytest.mark.parametrize(
    ("asked", "law"), [(2, "tsg:2"), (3, "tsg:2"), (Fraction(7, 2), "tsg:1"), (13, "tsg:1/2"), (10**9, "tsg:1/4")]
)
def test_by_accuracy_gives_the_cheapest_tier_within(asked, law):
    assert cheapest_within(REFERENCE, BARS, asked).law == law


@given(PRICES, st.lists(st.integers(0, 20), min_size=4, max_size=4), st.integers(0, 20))
def test_by_accuracy_is_the_minimum_over_all_that_suffice(prices, bars, asked):
    shop, widths = book(*prices), dict(zip(LAWS, sorted(bars), strict=True))
    enough = [tier.price for tier in shop.tiers if widths[tier.law] <= asked]
    if enough:
        assert cheapest_within(shop, widths, asked).price == min(enough)
    else:
        with pytest.raises(NoTierWithinError) as refusal:
            cheapest_within(shop, widths, asked)
        assert refusal.value.best == min(bars)


@pytest.mark.parametrize("asked", [-1, 2.0, True, float("nan"), "2"])
def test_by_accuracy_refuses_what_is_not_an_exact_width(asked):
    with pytest.raises(InvalidPriceError, match="accuracy"):
        cheapest_within(REFERENCE, BARS, asked)


def test_by_accuracy_refuses_bars_of_another_chain_and_inexact_bars():
    with pytest.raises(UnknownTierError, match="no half-width for tsg:2"):
        cheapest_within(REFERENCE, {"skellam:3": 1}, 5)
    with pytest.raises(InvalidPriceError, match="half-width"):
        cheapest_within(REFERENCE, BARS | {"tsg:1": 3.5}, 5)
