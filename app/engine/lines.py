"""The lines of a sale: a tier of a chain each, priced and charged one after another as they would be sold together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row, select

from app.audit.freezing import refuse_frozen
from app.auth.accounts import Caller, Role
from app.catalog.books import book_of_chain
from app.engine.state import ChainState, Tier, chain_of_product
from app.errors import ForbiddenError
from app.ledger.budget import due_of, reserve_of
from app.ledger.loans import holding_of
from app.ledger.money import balance
from app.settings import Settings
from app.store.schema import entitlements
from pricing.book import PriceBook
from pricing.bundles import WantedPart, quote_bundle
from pricing.errors import CurrencyMismatchError
from pricing.quote import Holding, Quote, quote
from tiers.budget import nano_up

__all__ = ["SaleLine", "below_ceiling", "priced_lines", "refuse_above_ceiling"]


@dataclass(frozen=True, slots=True)
class SaleLine:
    """One tier in a sale: its product's row, its chain with the budget as the lines before it leave it, its price.

    `holding` is what the caller has of the chain; `lends` whether the sale's bundle lends its discount on it.
    """

    product: str
    row: Row[Any]
    chain: ChainState
    tier: Tier
    holding: Holding
    offered: Quote
    lends: bool


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A line before its price."""

    product: str
    row: Row[Any]
    chain: ChainState
    tier: Tier
    book: PriceBook
    holding: Holding
    reserve: int


def priced_lines(
    connection: Connection,
    settings: Settings,
    caller: Caller,
    asked: Sequence[tuple[str, str]],
    bundle_price: int | None = None,
) -> list[SaleLine]:
    """Return what products' laws cost a caller now, bought in this order in one sale.

    Reserves are counted along the sale: each line's stretch of its dataset's budget begins where the one before ends.

    Args:       asked: product and law each, of different chains. bundle_price: of a bundle of them all; None where each
                is sold at its own price.
    Raises:     ForbiddenError: a tier above the role's ceiling. CurrencyMismatchError: an account of another currency.
                ChainFrozenError, NotFoundError.
    """
    spent: dict[str, int] = {}
    held_in = balance(connection, caller.id).currency
    loaded = []
    for product, law in asked:
        chain, row = chain_of_product(connection, settings, product)
        refuse_frozen(connection, chain.id)
        chain = replace(chain, spent_nano=spent.get(chain.dataset, chain.spent_nano))
        tier, book = chain.tier(law), book_of_chain(connection, chain.id)
        refuse_above_ceiling(caller, tier.document.epsilon())
        if caller.role is not Role.ANALYST and held_in != book.currency:
            raise CurrencyMismatchError(book.currency, held_in)
        holding = Holding() if caller.role is Role.ANALYST else _holding(connection, caller, chain)
        loaded.append(_Loaded(product, row, chain, tier, book, holding, reserve_of(chain, tier)))
        spent[chain.dataset] = chain.spent_nano + due_of(chain, tier)
    if caller.role is Role.ANALYST:
        quotes, lends = [_free(each) for each in loaded], [False] * len(loaded)
    elif bundle_price is None:
        quotes, lends = _one_by_one(loaded), [False] * len(loaded)
    else:
        wanted = [WantedPart(each.book, each.tier.law, each.holding, each.reserve) for each in loaded]
        whole = quote_bundle(bundle_price, wanted)
        quotes, lends = list(whole.parts), list(whole.lends)
    return [
        SaleLine(each.product, each.row, each.chain, each.tier, each.holding, offered, on)
        for each, offered, on in zip(loaded, quotes, lends, strict=True)
    ]


def below_ceiling(caller: Caller, tier: Tier) -> bool:
    """Return whether a caller's role may have a tier."""
    return _reaches(caller, tier.document.epsilon())


def refuse_above_ceiling(caller: Caller, epsilon: Fraction) -> None:
    """Refuse what a caller's role may not have: a tier, or a mean, whose tier is its two parts together."""
    if not _reaches(caller, epsilon):
        raise ForbiddenError("tier: expected one at or below the role's ceiling, got one above it")


def _reaches(caller: Caller, epsilon: Fraction) -> bool:
    return caller.ceiling_nano is None or nano_up(epsilon) <= caller.ceiling_nano


def _holding(connection: Connection, caller: Caller, chain: ChainState) -> Holding:
    held = connection.execute(
        select(entitlements.c.rank)
        .where(entitlements.c.account_id == caller.id, entitlements.c.chain_id == chain.id)
        .order_by(entitlements.c.rank)
        .limit(1)
    ).scalar_one_or_none()
    return holding_of(connection, caller.id, chain.id, held)


def _one_by_one(loaded: Sequence[_Loaded]) -> list[Quote]:
    """Each at its own price; what one gives back to a bundle, the next on that bundle need not."""
    owed = {each.holding.lender: each.holding.lent for each in loaded}
    made = []
    for each in loaded:
        holding = replace(each.holding, lent=owed[each.holding.lender])
        offered = quote(each.book, each.tier.law, holding, reserve=each.reserve)
        owed[holding.lender] -= offered.given_back
        made.append(offered)
    return made


def _free(each: _Loaded) -> Quote:
    """An analyst's: nothing, whatever the list price."""
    rank = each.book.rank_of(each.tier.law)
    listed = each.book.tiers[rank - 1].price
    return Quote(0, listed, listed, 0, each.book.currency, each.book.version, rank, each.chain.id, each.tier.law)
