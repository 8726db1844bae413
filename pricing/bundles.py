"""Bundles on sale: tiers of several chains at one price, and what somebody pays who holds some of them already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pricing.book import PriceBook
from pricing.errors import ArbitrageError, CurrencyMismatchError, InvalidProductError
from pricing.money import check_minor, largest_remainder
from pricing.quote import NOTHING_HELD, Holding, Quote, quote

__all__ = ["BundleQuote", "WantedPart", "check_bundle_price", "quote_bundle"]


@dataclass(frozen=True, slots=True)
class WantedPart:
    """One part of a bundle as it is asked for: a law of a chain's current book, what is held of it, the reserve.

    Example:
                >>> from pricing.book import TierPrice
                >>> WantedPart(PriceBook("c1", 1, "EUR", (TierPrice("tsg:1", 3000),)), "tsg:1").reserve
                0
    """

    book: PriceBook
    law: str
    holding: Holding = NOTHING_HELD
    reserve: int = 0


@dataclass(frozen=True, slots=True)
class BundleQuote:
    """An offer for a whole bundle: a quote for each part, in the order asked, and which parts the bundle lends to.

    `lends[i]`: the discount counts as lent on that part's chain, and an upgrade there gives it back first.

    Example:
                >>> BundleQuote((Quote(60, 100, 0, 0, "EUR", 1, 1, "c1", "a", discount=40),), (True,)).discount
                40
    """

    parts: tuple[Quote, ...]
    lends: tuple[bool, ...]

    @property
    def amount(self) -> int:
        """What the whole costs now."""
        return sum(part.amount for part in self.parts)

    @property
    def discount(self) -> int:
        """What it costs less than the same parts one by one."""
        return sum(part.discount for part in self.parts)


def check_bundle_price(name: str, price: int, goods: Mapping[str, int], alone: int) -> None:
    """Pass if a bundle costs at most its parts and at least its dearest one.

    Args:       goods: the parts as they are sold alone, by name, with their list prices. alone: what all of them cost
                alone, which is less than their sum where they share a tier (means that share a count).
    Raises:     ArbitrageError: the parts cost less than the bundle, or the bundle less than a part.
                InvalidProductError: fewer than two parts. InvalidPriceError: a bad price.
    Example:
                >>> check_bundle_price("both", 150, {"north": 100, "south": 80}, 180)
                >>> try:
                ...     check_bundle_price("both", 90, {"north": 100, "south": 80}, 180)
                ... except ArbitrageError as refused:
                ...     print(refused.target, refused.bundle, refused.cost)
                north ('both',) 90
    """
    check_minor(f"price of {name!r}", price)
    if len(goods) < 2:
        raise InvalidProductError(f"parts of {name!r}", "at least two", tuple(goods))
    if price > alone:
        raise ArbitrageError(name, price, tuple(goods), alone)
    for part, listed in goods.items():
        if listed > price:
            raise ArbitrageError(part, listed, (name,), price)


def quote_bundle(price: int, parts: Sequence[WantedPart]) -> BundleQuote:
    """Return what a holder pays for a whole bundle now: its price less what counts, or its parts alone.

    With s the sum of the parts' quotes one by one, it costs min(s, price − paid), where `paid` counts each chain of
    which the holder has nothing better than the part, and which owes no discount to another bundle: what was paid
    there, up to the part's list price. The difference to s is lent: shared over the parts by largest remainder, and
    given back by whoever upgrades one of them.

    Why nobody gains: let n be what was paid on each chain, discounts not deducted, and d what a sale still lends, at
    prices that stay. Then n is the list price of what is held, and all that was paid is Σn − Σd. A lender with d > 0
    has P ≤ Σn − d over the chains that it lends on: so it is when it lends, and a chain that leaves takes its n from
    the sum and as much from d, or d is nothing. So lenders at their own price, and every other chain at its list
    price, are goods that give all that is held and cost no more than was paid; and since d ≥ 0, list prices do not
    cost less.

    Guarantee:  amounts are never below 0, and the whole never above its price, nor above the parts one by one (but for
                reserves). With unchanged prices, whatever was bought in whatever order: all that was paid is at least
                what the cheapest goods cost that give all that is held, and at most the list prices of that. Credit
                notes give no more than they say: what was paid before they are deducted is still at least that.
    Args:       price: the bundle's. parts: each of another chain, in the order in which reserves were counted.
    Raises:     InvalidProductError: no part, or two of one chain. CurrencyMismatchError: two currencies.
                InvalidPriceError: a bad price.
    Example:
                >>> from pricing.book import TierPrice
                >>> north, south = (PriceBook(c, 1, "EUR", (TierPrice("tsg:1", 100),)) for c in ("north", "south"))
                >>> fresh = quote_bundle(150, [WantedPart(north, "tsg:1"), WantedPart(south, "tsg:1")])
                >>> [(part.amount, part.discount) for part in fresh.parts]
                [(75, 25), (75, 25)]
                >>> held = Holding(rank=1, net_paid=100)
                >>> quote_bundle(150, [WantedPart(north, "tsg:1", held), WantedPart(south, "tsg:1")]).amount
                50
    """
    check_minor("price", price)
    _check_parts(parts)
    alone = _one_by_one(parts)
    together = sum(each.quote.amount for each in alone)
    discount = together - max(0, price - sum(each.counts for each in alone))
    if discount <= 0:
        return BundleQuote(tuple(_reserved(*pair, 0) for pair in zip(alone, parts, strict=True)), (False,) * len(parts))
    shares = largest_remainder(discount, [each.quote.amount for each in alone])
    made = tuple(_reserved(*each) for each in zip(alone, parts, shares, strict=True))
    return BundleQuote(made, tuple(each.lends for each in alone))


@dataclass(frozen=True, slots=True)
class _Alone:
    """A part quoted alone, without a reserve; what counts towards the bundle; whether the bundle would lend on it."""

    quote: Quote
    counts: int
    lends: bool
    owned: bool


def _one_by_one(parts: Sequence[WantedPart]) -> list[_Alone]:
    """Quote each part alone, one after another, as if each were bought before the next is quoted."""
    owed = {part.holding.lender: part.holding.lent for part in parts}
    made = []
    for part in parts:
        holding = replace(part.holding, lent=owed[part.holding.lender])  # an earlier part may have given some back
        single = quote(part.book, part.law, holding)
        owed[holding.lender] -= single.given_back
        upgrade = holding.rank is None or holding.rank > single.rank
        lends = upgrade or (holding.rank == single.rank and holding.lent == 0)
        counts = min(holding.net_paid, single.list_price) if lends and holding.lent == 0 else 0
        made.append(_Alone(single, counts, lends, not upgrade))
    return made


def _reserved(alone: _Alone, part: WantedPart, share: int) -> Quote:
    """Take a share of the discount from a part, as far as its reserve allows."""
    check_minor("reserve", part.reserve)
    reserve = 0 if alone.owned else part.reserve
    amount = max(alone.quote.amount - share, reserve)
    discount = max(0, alone.quote.amount - amount)
    return replace(alone.quote, amount=amount, reserve=reserve, discount=discount)


def _check_parts(parts: Sequence[WantedPart]) -> None:
    if not parts:
        raise InvalidProductError("parts", "at least one", parts)
    known: set[str] = set()
    for part in parts:
        if part.book.currency != parts[0].book.currency:
            raise CurrencyMismatchError(parts[0].book.currency, part.book.currency)
        if part.book.chain_id in known:
            raise InvalidProductError("parts", "each chain once", part.book.chain_id)
        known.add(part.book.chain_id)
