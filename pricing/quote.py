"""Quotes: what one buyer pays for one tier now, given what they hold, and never more than once for the same thing."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from pricing.book import PriceBook, TierPrice
from pricing.errors import (
    ChangedQuoteError,
    ExpiredQuoteError,
    InvalidPriceError,
    NoTierWithinError,
    UnknownTierError,
)
from pricing.money import check_minor

__all__ = ["NOTHING_HELD", "Holding", "Quote", "cheapest_within", "confirm", "quote"]


@dataclass(frozen=True, slots=True)
class Holding:
    """What a buyer has on one chain: the best rank held (None: no tier) and payments less credit notes.

    `rank` is the place in the *current* book, so it is derived afresh from the laws held; a holder of a tier below
    every listed one passes a rank beyond the book's last. Where the tier was bought in a bundle, `net_paid` counts it
    as if it had been bought alone, `lender` names that sale, and `lent` is what is left of the discount on all of it:
    an upgrade breaks the bundle and gives that back (`pricing.bundles`).

    Raises:     InvalidPriceError: a rank below 1, a negative, fractional or huge amount, or a loan without a lender.
    Example:
                >>> Holding(rank=2, net_paid=1200).net_paid
                1200
    """

    rank: int | None = None
    net_paid: int = 0
    lent: int = 0
    lender: str | None = None

    def __post_init__(self) -> None:
        if self.rank is not None and (isinstance(self.rank, bool) or not isinstance(self.rank, int) or self.rank < 1):
            raise InvalidPriceError("rank", "None or an integer ≥ 1 (1 = most accurate)", self.rank)
        check_minor("net_paid", self.net_paid)
        check_minor("lent", self.lent)
        if self.lent and self.lender is None:
            raise InvalidPriceError("lender", "the sale that lent a discount", self.lender)


NOTHING_HELD = Holding()


@dataclass(frozen=True, slots=True)
class Quote:
    """An offer for one tier, in minor units: amount = max(list_price − credit − discount, reserve).

    `credit` is what is deducted for what was paid (never more than the list price), less `given_back`, what an earlier
    bundle lent; `discount` is this bundle's; `reserve` is the least the sale must bring for the budget it uses. An
    owned or derivable tier has the whole list price as credit, no reserve, amount 0.

    Example:
                >>> book = PriceBook("c1", 1, "EUR", (TierPrice("tsg:1", 3000), TierPrice("tsg:1/2", 1200)))
                >>> offer = quote(book, "tsg:1", Holding(rank=2, net_paid=1200))
                >>> offer.list_price, offer.credit, offer.amount
                (3000, 1200, 1800)
    """

    amount: int
    list_price: int
    credit: int
    reserve: int
    currency: str
    book_version: int
    rank: int
    chain_id: str
    law: str
    discount: int = 0
    given_back: int = 0

    @property
    def top_up(self) -> int:
        """What the reserve adds: the lines list − credit − discount + top-up are the amount."""
        return self.amount - (self.list_price - self.credit - self.discount)


def quote(book: PriceBook, law: str, holding: Holding = NOTHING_HELD, *, reserve: int = 0) -> Quote:
    """Return what the holder pays for `law` now.

    Guarantee:  an owned or lower tier costs 0; amounts never fall with accuracy if the reserve does not; with an
                unchanged book and no reserve every path of upgrades costs, in all, the last tier's list price; a price
                cut below what was paid gives 0, never a refund; and no tier costs more than its list price or reserve.
    Args:       book: the chain's current book. law: a law it lists. holding: what the buyer has on this chain.
                reserve: least amount for the budget this sale would use (0 where it uses none).
    Raises:     UnknownTierError: the book does not list `law`. InvalidPriceError: a bad reserve.
    Example:
                >>> book = PriceBook("c1", 1, "EUR", (TierPrice("tsg:1", 3000), TierPrice("tsg:1/2", 1200)))
                >>> [quote(book, "tsg:1/2", held).amount for held in (Holding(), Holding(rank=1, net_paid=3000))]
                [1200, 0]
    """
    rank = book.rank_of(law)
    list_price = book.tiers[rank - 1].price
    check_minor("reserve", reserve)
    if holding.rank is not None and holding.rank <= rank:
        credit, given_back, reserve = list_price, 0, 0
    else:
        paid = min(holding.net_paid, list_price)
        given_back = min(paid, holding.lent)
        credit = paid - given_back
    return Quote(
        amount=max(list_price - credit, reserve),
        list_price=list_price,
        credit=credit,
        reserve=reserve,
        currency=book.currency,
        book_version=book.version,
        rank=rank,
        chain_id=book.chain_id,
        law=law,
        given_back=given_back,
    )


def confirm(offered: Quote, current: Quote, *, now: int, expires_at: int) -> Quote:
    """Return `current` if an order may still cite `offered`: in time, and every line of it is what it was.

    A reserve that moved below the list price moves no line, and a rank is derived: neither makes a quote stale.

    Args:       offered: the stored quote. current: what would be quoted now. now, expires_at: seconds, one clock.
    Raises:     ExpiredQuoteError: `now` is not before `expires_at`. UnknownTierError: the tier is of another chain.
                ChangedQuoteError: law, currency, book version, list price, credit, discount or amount differ.
    Example:
                >>> book = PriceBook("c1", 1, "EUR", (TierPrice("tsg:1", 3000),))
                >>> confirm(quote(book, "tsg:1"), quote(book, "tsg:1", reserve=7), now=10, expires_at=900).amount
                3000
    """
    if not now < expires_at:
        raise ExpiredQuoteError(expires_at, now)
    if offered.chain_id != current.chain_id:
        raise UnknownTierError(current.chain_id, offered.law)
    for name in ("law", "currency", "book_version", "list_price", "credit", "discount", "amount"):
        then, today = getattr(offered, name), getattr(current, name)
        if then != today:
            raise ChangedQuoteError(name, then, today)
    return current


def cheapest_within(book: PriceBook, half_widths: Mapping[str, int | Fraction], asked: int | Fraction) -> TierPrice:
    """Return the cheapest tier whose error bar is at most the asked one.

    Prices never rise along the ranks, so it is the least accurate tier that suffices: of two at one price, the one that
    uses less budget and therefore has the smaller reserve.

    Args:       half_widths: exact half-width of the bar of every listed law (others are ignored). asked: the widest
                bar the buyer accepts, ≥ 0, in the same unit and at the same level.
    Raises:     NoTierWithinError: even the most accurate tier's bar is wider. UnknownTierError: a law without a bar.
                InvalidPriceError: a float, a bool or a negative number.
    Example:
                >>> book = PriceBook("c1", 1, "EUR", (TierPrice("tsg:1", 3000), TierPrice("tsg:1/2", 1200)))
                >>> cheapest_within(book, {"tsg:1": 3, "tsg:1/2": 6}, 50).law
                'tsg:1/2'
    """
    _check_exact("accuracy", asked)
    for tier in book.tiers:
        if tier.law not in half_widths:
            raise UnknownTierError(book.chain_id, f"no half-width for {tier.law}")
        _check_exact("half-width", half_widths[tier.law])
    for tier in reversed(book.tiers):
        if half_widths[tier.law] <= asked:
            return tier
    raise NoTierWithinError(asked, min(half_widths[tier.law] for tier in book.tiers))


def _check_exact(name: str, value: int | Fraction) -> None:
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value < 0:
        raise InvalidPriceError(name, "an integer or Fraction ≥ 0", value)
