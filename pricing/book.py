"""Price books: one price for each law of one chain, never less for a more accurate one."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from pricing.errors import ArbitrageError, InvalidPriceError, UnknownTierError
from pricing.money import check_currency, check_minor

__all__ = ["TIER_LIMIT", "Listing", "PriceBook", "TierPrice", "book_of"]

TIER_LIMIT = 64
_NAME_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class TierPrice:
    """What one law of a chain costs, in minor units.

    Raises:     InvalidPriceError: an empty or over-long law, or a price that is not an integer of 0 to 2⁵³−1.
    Example:
                >>> TierPrice("tsg:1/2", 1200).price
                1200
    """

    law: str
    price: int

    def __post_init__(self) -> None:
        _check_name("law", self.law)
        check_minor("price", self.price)


@dataclass(frozen=True, slots=True)
class PriceBook:
    """The prices of one chain, most accurate tier first: rank 1 is `tiers[0]`.

    Every bundle of a chain's tiers is a post-processing of its best one, so a book is free of arbitrage exactly when no
    tier costs more than a more accurate one; nothing else about the prices matters (they may be convex).

    Args:       chain_id: the chain whose laws are priced. version: counts from 1; a new price is a new version.
                currency: ISO 4217. tiers: strictly falling accuracy, laws distinct, prices never rising.
    Raises:     ArbitrageError: a tier costs more than a more accurate one.
                InvalidPriceError: no tier, too many, a law listed twice, a bad name, version or currency.
    Example:
                >>> book = PriceBook("c1", 1, "EUR", (TierPrice("tsg:1", 3000), TierPrice("tsg:1/2", 1200)))
                >>> book.rank_of("tsg:1/2"), book.price_of("tsg:1/2")
                (2, 1200)
    """

    chain_id: str
    version: int
    currency: str
    tiers: tuple[TierPrice, ...]

    def __post_init__(self) -> None:
        _check_name("chain_id", self.chain_id)
        check_minor("version", self.version, low=1)
        check_currency(self.currency)
        if not isinstance(self.tiers, tuple) or not 1 <= len(self.tiers) <= TIER_LIMIT:
            raise InvalidPriceError("tiers", f"a tuple of 1 to {TIER_LIMIT} tiers", self.tiers)
        if len({tier.law for tier in self.tiers}) < len(self.tiers):
            raise InvalidPriceError("tiers", "each law once", [tier.law for tier in self.tiers])
        for above, tier in pairwise(self.tiers):
            if tier.price > above.price:
                raise ArbitrageError(tier.law, tier.price, (above.law,), above.price)

    def rank_of(self, law: str) -> int:
        """Return the place of `law` in the book, 1 = most accurate.

        Raises:     UnknownTierError: the book does not list it.
        """
        for rank, tier in enumerate(self.tiers, start=1):
            if tier.law == law:
                return rank
        raise UnknownTierError(self.chain_id, law)

    def price_of(self, law: str) -> int:
        """Return the list price of `law` in minor units.

        Raises:     UnknownTierError: the book does not list it.
        """
        return self.tiers[self.rank_of(law) - 1].price

    def revised(self, tiers: tuple[TierPrice, ...]) -> "PriceBook":
        """Return the next version of this book with `tiers`; late tiers and price changes both come this way.

        Raises:     as the constructor.
        Example:
                    >>> book = PriceBook("c1", 1, "EUR", (TierPrice("tsg:1", 3000),))
                    >>> book.revised((TierPrice("tsg:1", 2500),)).version
                    2
        """
        return PriceBook(self.chain_id, self.version + 1, self.currency, tiers)


@dataclass(frozen=True, slots=True)
class Listing:
    """What an owner typed for one tier: its law, the law's exact variance, a price.

    Example:
                >>> Listing("subset:9/10:3", Fraction(7, 2), 900).price
                900
    """

    law: str
    variance: Fraction
    price: int


def book_of(chain_id: str, version: int, currency: str, listings: Iterable[Listing]) -> PriceBook:
    """Return the book of `listings`, ranked by what they really are and not by their nominal ε.

    Two nominal budgets may share one law (Subset templates) and a lower ε with a larger δ may be the more accurate one
    (Gaussian noise), so rank comes from the variance and listings that share a law are one good with one price.

    Raises:     InvalidPriceError: one law at two prices or two variances, two laws of one variance, a variance ≤ 0.
                ArbitrageError, InvalidPriceError: as `PriceBook`.
    Example:
                >>> book = book_of("c1", 1, "EUR", [Listing("low", Fraction(8), 5), Listing("high", Fraction(2), 9)])
                >>> [tier.law for tier in book.tiers]
                ['high', 'low']
    """
    goods: dict[str, Listing] = {}
    for listing in listings:
        if not isinstance(listing.variance, int | Fraction) or listing.variance <= 0:
            raise InvalidPriceError("variance", "an exact rational > 0", listing.variance)
        first = goods.setdefault(listing.law, listing)
        if first.price != listing.price:
            raise InvalidPriceError(
                f"price of {first.law!r}", f"{first.price}, as listed before (one good)", listing.price
            )
        if first.variance != listing.variance:
            raise InvalidPriceError(f"variance of {first.law!r}", f"{first.variance}, as before", listing.variance)
    ranked = sorted(goods.values(), key=lambda good: good.variance)
    for above, good in pairwise(ranked):
        if above.variance == good.variance:
            raise InvalidPriceError(f"variance of {good.law!r}", f"not that of {above.law!r}", good.variance)
    return PriceBook(chain_id, version, currency, tuple(TierPrice(good.law, good.price) for good in ranked))


def _check_name(name: str, value: str) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= _NAME_LIMIT:
        raise InvalidPriceError(name, f"a text of 1 to {_NAME_LIMIT} characters", value)
