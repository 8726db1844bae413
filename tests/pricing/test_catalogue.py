"""Catalogues that cannot be compared are refused before any solver sees them."""

import pytest

from pricing.book import PriceBook, TierPrice
from pricing.catalogue import Bundle, Catalogue, Product, products_of
from pricing.errors import CurrencyMismatchError, InvalidPriceError, InvalidProductError, UnknownTierError
from pricing.money import MONEY_LIMIT


def product(name="a", **changes):
    return Product(
        **{"name": name, "chain_id": name, "rows": ((1.0, 0.0),), "variance": 2.0, "price": 5, "currency": "EUR"}
        | changes
    )


BAD_PRODUCTS = [
    {"rows": ()},
    {"rows": ((),)},
    {"rows": ((0.0, 0.0),)},
    {"rows": ((1.0, 0.0), (1.0,))},
    {"rows": ((float("nan"), 1.0),)},
    {"rows": ((float("inf"), 1.0),)},
    {"rows": ((1e-7, 1.0),)},
    {"rows": ((1e7, 1.0),)},
    {"rows": ((10**400, 1.0),)},
    {"rows": ((True, 1.0),)},
    {"rows": (("1", 1.0),)},
    {"rows": ((1.0,) * 5000,)},
    {"variance": 0.0},
    {"variance": -1.0},
    {"variance": float("nan")},
    {"variance": float("inf")},
    {"variance": 10**400},
    {"variance": True},
    {"variance": "2"},
    {"name": ""},
    {"chain_id": ""},
]


@pytest.mark.parametrize("changes", BAD_PRODUCTS, ids=range(len(BAD_PRODUCTS)))
def test_a_product_no_solver_can_read_is_refused(changes):
    with pytest.raises(InvalidProductError):
        product(**changes)


@pytest.mark.parametrize("price", [-1, 0.5, MONEY_LIMIT + 1, True])
def test_a_bad_price_is_refused(price):
    with pytest.raises(InvalidPriceError, match="price of 'a'"):
        product(price=price)
    with pytest.raises(InvalidPriceError, match="price of 'pack'"):
        Bundle("pack", ("a",), price)


BAD_CATALOGUES = [
    ((), ()),
    ((product(), product()), ()),
    ((product(), product("b", rows=((1.0,),))), ()),
    ((product(), product("b", chain_id="a", rows=((0.0, 1.0),), variance=3.0)), ()),
    ((product(), product("b", chain_id="a")), ()),
    ((product(),), (Bundle("a", ("a",), 1),)),
    ((product(),), (Bundle("pack", ("b",), 1),)),
]


@pytest.mark.parametrize(("products", "bundles"), BAD_CATALOGUES, ids=range(len(BAD_CATALOGUES)))
def test_a_catalogue_that_cannot_be_compared_is_refused(products, bundles):
    with pytest.raises(InvalidProductError):
        Catalogue(products, bundles)


def test_two_currencies_are_refused():
    with pytest.raises(CurrencyMismatchError):
        Catalogue((product(), product("b", currency="USD")))


@pytest.mark.parametrize("parts", [(), ("a", "a")])
def test_a_bundle_of_nothing_or_of_one_thing_twice_is_refused(parts):
    with pytest.raises(InvalidProductError):
        Bundle("pack", parts, 1)


BOOK = PriceBook("c", 3, "EUR", (TierPrice("high", 9), TierPrice("low", 4)))


def test_a_book_becomes_one_product_a_tier():
    products = products_of(BOOK, [[1, 0]], {"high": 1.0, "low": 4.0, "unlisted": 9.0})
    assert [(item.name, item.price, item.chain_id) for item in products] == [("c@high", 9, "c"), ("c@low", 4, "c")]


def test_a_book_with_variances_that_do_not_rise_or_are_missing_is_refused():
    with pytest.raises(InvalidProductError, match="above that of the more accurate tier"):
        products_of(BOOK, [[1, 0]], {"high": 4.0, "low": 4.0})
    with pytest.raises(UnknownTierError, match="no variance for low"):
        products_of(BOOK, [[1, 0]], {"high": 4.0})
