"""Bundles at their corners, one each: what an earlier part gave back, price cuts, what lends, reserves, equal prices."""

import pytest

from pricing.book import PriceBook, TierPrice
from pricing.bundles import WantedPart, check_bundle_price, quote_bundle
from pricing.errors import ChangedQuoteError
from pricing.quote import Holding, Quote, confirm


def book(chain: str, *prices: int) -> PriceBook:
    return PriceBook(chain, 1, "EUR", tuple(TierPrice(f"law {rank}", price) for rank, price in enumerate(prices, 1)))


def test_parts_that_owe_to_one_sale_give_its_discount_back_once():
    owing = Holding(rank=2, net_paid=100, lent=30, lender="sale")
    sold = quote_bundle(400, [WantedPart(book(name, 200, 100), "law 1", owing) for name in "ab"])
    assert [(part.amount, part.given_back) for part in sold.parts] == [(130, 30), (100, 0)]


def test_after_a_price_cut_no_more_counts_than_the_part_lists_at():
    parts = [WantedPart(book("a", 40), "law 1", Holding(1, 100)), WantedPart(book("b", 50), "law 1")]
    assert [part.amount for part in quote_bundle(60, parts).parts] == [0, 20]


@pytest.mark.parametrize(
    ("holding", "lends"),
    [
        (Holding(), True),
        (Holding(2, 60), True),
        (Holding(2, 60, 9, "sale"), False),
        (Holding(1, 200), False),
        (Holding(3, 10, 9, "sale"), True),
    ],
)
def test_a_bundle_lends_on_what_it_upgrades_and_on_the_very_tier_if_that_owes_nothing(holding, lends):
    parts = [WantedPart(book("a", 200, 60, 10), "law 2", holding), WantedPart(book("b", 90), "law 1")]
    parts.append(WantedPart(book("c", 90), "law 1"))
    sold = quote_bundle(140, parts)
    assert sold.discount > 0
    assert sold.lends == (lends, True, True)


def test_a_part_that_is_held_has_no_reserve_and_a_reserve_leaves_less_to_lend():
    held = [WantedPart(book("a", 40), "law 1", Holding(1, 40), reserve=7), WantedPart(book("b", 50), "law 1")]
    assert [part.amount for part in quote_bundle(70, held).parts] == [0, 30]
    sold = quote_bundle(100, [WantedPart(book(name, 100), "law 1", reserve=80) for name in "ab"])
    assert [(part.amount, part.discount) for part in sold.parts] == [(80, 20), (80, 20)]


def test_a_bundle_may_cost_as_much_as_its_parts_and_as_little_as_the_dearest():
    for price in (100, 180):
        check_bundle_price("both", price, {"a": 100, "b": 80}, 180)


def test_a_discount_that_changed_makes_a_quote_stale_even_where_a_reserve_keeps_the_amount():
    then, today = (Quote(80, 100, 0, 80, "EUR", 1, 1, "a", "law 1", discount=discount) for discount in (20, 30))
    with pytest.raises(ChangedQuoteError, match="discount"):
        confirm(then, today, now=0, expires_at=1)
