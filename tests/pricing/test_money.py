"""Money: exact, bounded, one currency, every cent kept."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.errors import CurrencyMismatchError, InvalidPriceError, InvalidShareError, PricingError
from pricing.money import MONEY_LIMIT, Money, exponent, from_decimal, largest_remainder

CURRENCIES = ("JPY", "EUR", "KWD", "CLF")


BAD_AMOUNTS = [True, 1.0, "100", None, MONEY_LIMIT + 1, -MONEY_LIMIT - 1, 10**5000, Fraction(1, 2), float("nan")]


@pytest.mark.parametrize("amount", BAD_AMOUNTS, ids=range(len(BAD_AMOUNTS)))
def test_an_amount_that_is_not_a_bounded_integer_is_refused(amount):
    with pytest.raises(InvalidPriceError, match="amount: expected an integer of minor units") as refusal:
        Money(amount, "EUR")
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("currency", ["eur", "XXX", "XAU", "EURO", "", "ЕUR", None, 978, ["EUR"]])
def test_an_unknown_currency_is_refused(currency):
    with pytest.raises(InvalidPriceError, match="currency: expected an ISO 4217 code"):
        Money(1, currency)


@pytest.mark.parametrize(
    ("currency", "places"),
    [
        ("JPY", 0),
        ("KRW", 0),
        ("EUR", 2),
        ("USD", 2),
        ("GBP", 2),
        ("CHF", 2),
        ("KWD", 3),
        ("BHD", 3),
        ("TND", 3),
        ("CLF", 4),
    ],
)
def test_exponents_are_those_of_iso_4217(currency, places):
    assert exponent(currency) == places


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        (1234, "EUR", "12.34 EUR"),
        (-5, "EUR", "-0.05 EUR"),
        (0, "EUR", "0.00 EUR"),
        (13, "JPY", "13 JPY"),
        (1235, "KWD", "1.235 KWD"),
        (-10000, "CLF", "-1.0000 CLF"),
    ],
)
def test_text_shows_every_decimal(amount, currency, text):
    assert Money(amount, currency).text() == text


def test_sums_refuse_a_second_currency_and_an_overflow():
    with pytest.raises(CurrencyMismatchError, match="expected 'EUR' throughout, got 'USD'"):
        Money(1, "EUR") + Money(1, "USD")
    with pytest.raises(CurrencyMismatchError):
        Money(1, "EUR") - Money(1, "USD")
    with pytest.raises(InvalidPriceError):
        Money(MONEY_LIMIT, "EUR") + Money(1, "EUR")
    assert Money(5, "EUR") - Money(7, "EUR") == Money(-2, "EUR") == -Money(2, "EUR")


@pytest.mark.parametrize(
    ("value", "currency", "amount"),
    [
        ("12.341", "EUR", 1235),
        ("12.341", "JPY", 13),
        ("1.2345", "KWD", 1235),
        ("-12.341", "EUR", -1234),
        ("12", "EUR", 1200),
        ("1E+3", "EUR", 100_000),
        ("0E-9", "EUR", 0),
    ],
)
def test_from_decimal_rounds_up(value, currency, amount):
    assert from_decimal(Decimal(value), currency) == Money(amount, currency)


def test_forty_digits_are_the_most_that_an_amount_may_have():
    assert from_decimal(Decimal("0." + "1" * 40), "EUR").amount == 12
    with pytest.raises(InvalidPriceError):
        from_decimal(Decimal("0." + "1" * 41), "EUR")


@pytest.mark.parametrize(
    "value",
    [
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        Decimal("1E+999999"),
        Decimal("1E-999999"),
        Decimal("1" * 41),
        Decimal(10**17),
        1.5,
        1,
        "1",
    ],
)
def test_from_decimal_refuses_what_is_not_a_bounded_decimal(value):
    with pytest.raises(PricingError):
        from_decimal(value, "EUR")


@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=7),
    st.sampled_from(CURRENCIES),
)
def test_from_decimal_is_the_exact_ceiling(value, currency):
    exact = Fraction(value) * 10 ** exponent(currency)
    assert 0 <= from_decimal(value, currency).amount - exact < 1


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.decimals(min_value="0.0001", max_value="10", places=7))
def test_ceiling_keeps_a_linear_price_subadditive(a, b, rate):
    price = {x: from_decimal(rate * x, "EUR").amount for x in (a, b, a + b)}
    assert price[a + b] <= price[a] + price[b]


@pytest.mark.parametrize(
    ("total", "weights", "shares"),
    [
        (100, [1, 1, 1], [34, 33, 33]),
        (8501, [1, 1, 1], [2834, 2834, 2833]),
        (10000, [500, 250, 125, 125], [5000, 2500, 1250, 1250]),
        (8501, [1_000_000, 1_000_000, 500_000, 250_000], [3091, 3091, 1546, 773]),
        (10, [6, 6, 2], [4, 4, 2]),
        (11, [6, 6, 2], [5, 5, 1]),
        (0, [3], [0]),
    ],
)
def test_largest_remainder_reference(total, weights, shares):
    assert largest_remainder(total, weights) == shares


WEIGHTS = st.lists(st.integers(0, 10**9), min_size=1, max_size=12).filter(any)


@given(st.integers(0, MONEY_LIMIT), WEIGHTS)
def test_largest_remainder_conserves_every_unit_and_stays_within_one(total, weights):
    shares = largest_remainder(total, weights)
    assert sum(shares) == total
    assert all(
        abs(share - Fraction(total * weight, sum(weights))) < 1 for share, weight in zip(shares, weights, strict=True)
    )


@given(st.integers(0, 10**6), WEIGHTS, st.randoms(use_true_random=False))
def test_largest_remainder_follows_a_permutation_up_to_ties(total, weights, random):
    order = list(range(len(weights)))
    random.shuffle(order)
    straight, shuffled = largest_remainder(total, weights), largest_remainder(total, [weights[i] for i in order])
    assert sorted(zip(weights, straight, strict=True)) == sorted(
        zip((weights[i] for i in order), shuffled, strict=True)
    ) or any(
        weights[i] * total % sum(weights) == weights[j] * total % sum(weights) and weights[i] != weights[j]
        for i in order
        for j in order
        if i != j
    )


@pytest.mark.parametrize(
    ("total", "weights"), [(-1, [1]), (1, []), (1, [0, 0]), (1, [-1, 2]), (1.0, [1]), (1, [0.5]), (True, [1])]
)
def test_largest_remainder_refuses_bad_input(total, weights):
    with pytest.raises(InvalidShareError):
        largest_remainder(total, weights)
