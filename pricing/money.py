"""Money as integers of a currency's minor unit: never a float, one currency a sum, every cent kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from pricing.errors import CurrencyMismatchError, InvalidPriceError, InvalidShareError

__all__ = ["MONEY_LIMIT", "Money", "check_currency", "check_minor", "exponent", "from_decimal", "largest_remainder"]

MONEY_LIMIT = 2**53 - 1  # the last integer that JSON clients and Redis scripts hold exactly
_DIGIT_LIMIT = 40

_NO_DIGITS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE_DIGITS = "BHD IQD JOD KWD LYD OMR TND"
_TWO_DIGITS = """
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY COP
COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD
KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK
NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT
TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG
"""
_EXPONENTS = {
    **dict.fromkeys(_TWO_DIGITS.split(), 2),
    **dict.fromkeys(_NO_DIGITS.split(), 0),
    **dict.fromkeys(_THREE_DIGITS.split(), 3),
    "CLF": 4,
    "UYW": 4,
}


def exponent(currency: str) -> int:
    """Return the number of decimals of a currency (ISO 4217; metals, funds without a minor unit and tests have none).

    Raises:     InvalidPriceError: not the three capital letters of a currency in use.
    Example:
                >>> exponent("JPY"), exponent("EUR"), exponent("KWD")
                (0, 2, 3)
    """
    return _EXPONENTS[check_currency(currency)]


def check_currency(currency: str) -> str:
    """Return `currency` unchanged if it is a known ISO 4217 code.

    Raises:     InvalidPriceError: anything else, "eur" and "XXX" included.
    Example:
                >>> check_currency("EUR")
                'EUR'
    """
    if not isinstance(currency, str) or currency not in _EXPONENTS:
        raise InvalidPriceError("currency", "an ISO 4217 code with a minor unit, such as 'EUR'", currency)
    return currency


def check_minor(name: str, amount: int, low: int = 0) -> int:
    """Return `amount` unchanged if it is an integer of minor units between `low` and 2⁵³−1.

    Raises:     InvalidPriceError: a bool, a float, a fraction, or out of range.
    Example:
                >>> check_minor("price", 1200)
                1200
    """
    if isinstance(amount, bool) or not isinstance(amount, int) or not low <= amount <= MONEY_LIMIT:
        floor = "−(2⁵³−1)" if low == -MONEY_LIMIT else str(low)
        raise InvalidPriceError(name, f"an integer of minor units from {floor} to 2⁵³−1", amount)
    return amount


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in minor units of one currency; negative amounts are credits.

    Raises:     InvalidPriceError: |amount| above 2⁵³−1, not an integer, or an unknown currency.
    Example:
                >>> (Money(1200, "EUR") + Money(34, "EUR")).text()
                '12.34 EUR'
    """

    amount: int
    currency: str

    def __post_init__(self) -> None:
        check_minor("amount", self.amount, low=-MONEY_LIMIT)
        check_currency(self.currency)

    def text(self) -> str:
        """Return the amount with its decimals and code.

        Example:
                    >>> Money(-5, "EUR").text(), Money(1235, "KWD").text(), Money(13, "JPY").text()
                    ('-0.05 EUR', '1.235 KWD', '13 JPY')
        """
        places = _EXPONENTS[self.currency]
        digits = str(abs(self.amount)).rjust(places + 1, "0")
        whole, part = (digits[:-places], f".{digits[-places:]}") if places else (digits, "")
        return f"{'-' if self.amount < 0 else ''}{whole}{part} {self.currency}"

    def __add__(self, other: "Money") -> "Money":
        return Money(self.amount + self._same(other).amount, self.currency)

    def __sub__(self, other: "Money") -> "Money":
        return Money(self.amount - self._same(other).amount, self.currency)

    def __neg__(self) -> "Money":
        return Money(-self.amount, self.currency)

    def _same(self, other: "Money") -> "Money":
        if other.currency != self.currency:
            raise CurrencyMismatchError(self.currency, other.currency)
        return other


def from_decimal(value: Decimal, currency: str) -> Money:
    """Return `value` in minor units, rounded up.

    Only the ceiling keeps a subadditive price function subadditive; half-even and floor do not.

    Args:       value: an exact decimal of major units, at most 40 digits and 40 decimals.
    Raises:     InvalidPriceError: NaN, infinite, too long, too large, not a Decimal, or an unknown currency.
    Example:
                >>> from_decimal(Decimal("12.341"), "EUR").amount, from_decimal(Decimal("12.341"), "JPY").amount
                (1235, 13)
    """
    places = exponent(currency)
    rule = f"a finite Decimal of at most {_DIGIT_LIMIT} digits"
    if not isinstance(value, Decimal) or not value.is_finite():
        raise InvalidPriceError("amount", rule, value)
    sign, digits, power = value.as_tuple()
    assert isinstance(power, int)  # finite
    if len(digits) > _DIGIT_LIMIT or abs(power) > _DIGIT_LIMIT:  # before any power of ten is computed
        raise InvalidPriceError("amount", rule, value)
    scaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    shift = power + places
    return Money(scaled * 10**shift if shift >= 0 else -(-scaled // 10**-shift), currency)


def largest_remainder(total: int, weights: Sequence[int]) -> list[int]:
    """Return whole shares of `total` in proportion to `weights` that add up to it exactly (Hamilton's method).

    Every share is within one unit of the exact one; ties go to the earlier weight. Meant for one statement: re-running
    it on growing totals can lower someone's share, so repeated payouts go through `owners`.

    Args:       total: units to share, ≥ 0. weights: integers ≥ 0, at least one positive.
    Raises:     InvalidShareError: a negative total or weight, a non-integer, or no positive weight.
    Example:
                >>> largest_remainder(100, [1, 1, 1])
                [34, 33, 33]
    """
    for name, value in (("total", total), *(("weight", weight) for weight in weights)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidShareError(name, "an integer ≥ 0", value)
    whole = sum(weights)
    if whole == 0:
        raise InvalidShareError("weights", "at least one positive weight", tuple(weights))
    parts = [divmod(total * weight, whole) for weight in weights]
    shares = [share for share, _ in parts]
    left = total - sum(shares)
    for index in sorted(range(len(parts)), key=lambda i: (-parts[i][1], i))[:left]:
        shares[index] += 1
    return shares
