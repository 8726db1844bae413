"""Quotes: which tier is asked for, what it costs this caller now, and whether a stored quote still holds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, Row, delete, select

from app.audit.freezing import refuse_frozen
from app.auth.accounts import Caller, Role
from app.catalog.books import book_of_chain
from app.catalog.lifecycle import parts_of
from app.catalog.products import INTERNAL, LIVE, PART, WITHDRAWN
from app.catalog.search import PUBLIC
from app.catalog.views import product_view
from app.clock import later, new_id, time_text
from app.engine.state import ChainState, Tier, chain_of_product, offered_laws
from app.errors import (
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    QuoteExpiredError,
    UnknownTierError,
)
from app.ledger.amounts import amounts_of, stored_quote
from app.ledger.budget import due_of, reserve_of
from app.ledger.money import balance, net_paid
from app.settings import Settings
from app.store.schema import entitlements, planned_tiers, products, quotes
from app.views import ProductView
from pricing.book import PriceBook
from pricing.errors import ChangedQuoteError, CurrencyMismatchError, ExpiredQuoteError, NoTierWithinError
from pricing.invoices import lines_of
from pricing.quote import Holding, Quote, cheapest_within, confirm, quote
from tiers.budget import decimal_text, nano_up, parse_decimal, parse_epsilon

__all__ = [
    "KEPT_SECONDS",
    "QUOTE_SECONDS",
    "Selection",
    "below_ceiling",
    "check_licence",
    "confirm_quote",
    "offer",
    "price_of",
    "quote_of",
    "refuse_off_sale",
    "refuse_whole_above_ceiling",
]

QUOTE_SECONDS = 900
KEPT_SECONDS = 3_600  # how long a lapsed quote is still known as one


@dataclass(frozen=True, slots=True)
class Selection:
    """How a tier is asked for: exactly one of its law, its ε, or the error bar that must be met (in answer units)."""

    law: str | None = None
    epsilon: str | None = None
    within: str | None = None


def offer(
    connection: Connection, settings: Settings, caller: Caller, product: str, selection: Selection, now: datetime
) -> Mapping[str, Any]:
    """Quote a tier to a caller and store the quote; reserves nothing, reveals nothing."""
    parts = parts_of(connection, product)
    own = chain_of_product(connection, settings, product)
    refuse_off_sale(own[1], caller)
    if len(parts) > 1 and selection.within is not None:
        raise InvalidRequestError("within: expected a law or an ε for a mean, whose interval depends on the answer")
    choice: Selection | int = selection
    if len(parts) > 1:
        choice = _place_of(product_view(connection, product), selection)
    loaded = {product: own}
    for part in parts[1:]:
        loaded[part] = chain_of_product(connection, settings, part)
    _forget_lapsed(connection, caller, now)
    made: list[Mapping[str, Any]] = []
    used = 0  # by the parts that will be sold before: their charge moves the reserve of those after them
    for part in parts:
        chain, row = loaded[part]
        chain = replace(chain, spent_nano=chain.spent_nano + used)
        told = _quote(connection, caller, part, (chain, row), choice, now)
        used += due_of(chain, chain.tier(told["law"]))
        made.append(told)
    for before, after in pairwise(made):
        linked = quotes.update().where(quotes.c.id == before["quote"]).values(companion=after["quote"])
        connection.execute(linked)
    whole = dict(made[0])
    if len(made) > 1:
        total = sum(part["amount_minor"] for part in made)
        epsilon = sum((Fraction(part["epsilon"]) for part in made), Fraction(0))
        _refuse_above_ceiling(caller, epsilon)
        whole |= {"amount_minor": total, "epsilon": decimal_text(epsilon), "parts": made}
    return whole


def _forget_lapsed(connection: Connection, caller: Caller, now: datetime) -> None:
    """Delete the caller's quotes that lapsed a while ago: nothing refers to them, and they would pile up for ever."""
    over = time_text(later(now, -KEPT_SECONDS))
    connection.execute(delete(quotes).where(quotes.c.account_id == caller.id, quotes.c.expires_at < over))


def _quote(
    connection: Connection,
    caller: Caller,
    product: str,
    loaded: tuple[ChainState, Row[Any]],
    selection: Selection | int,
    now: datetime,
) -> Mapping[str, Any]:
    chain, row = loaded
    refuse_frozen(connection, chain.id)
    book = book_of_chain(connection, chain.id)
    laws = offered_laws(connection, product)
    if isinstance(selection, int):
        tier = [each for each in chain.tiers if each.law in laws][selection]
    else:
        tier = _select(chain, book, laws, selection)
    offered = price_of(connection, caller, chain, book, tier)
    identity, expires = new_id("quote"), time_text(later(now, QUOTE_SECONDS))
    connection.execute(
        quotes.insert().values(
            id=identity,
            account_id=caller.id,
            product_id=product,
            law=tier.law,
            **amounts_of(offered),
            book_version=offered.book_version,
            expires_at=expires,
        )
    )
    return {
        "quote": identity,
        "product": product,
        "chain": chain.id,
        "law": tier.law,
        "rank": tier.rank,
        "epsilon": tier.epsilon,
        "half_width": tier.half_width,
        "same_as_above": tier.same_as_above,
        "grain_exponent": chain.grain,
        "lines": [{"kind": line.kind, "text": line.text, "amount_minor": line.amount} for line in lines_of(offered)],
        "amount_minor": offered.amount,
        "currency": offered.currency,
        "book_version": offered.book_version,
        "licence": row.licence,
        "expires_at": expires,
    }


def price_of(connection: Connection, caller: Caller, chain: ChainState, book: PriceBook, tier: Tier) -> Quote:
    """Return what a tier costs a caller now; raises ForbiddenError above the role's ceiling."""
    _refuse_above_ceiling(caller, tier.document.epsilon())
    held_in = balance(connection, caller.id).currency
    if caller.role is not Role.ANALYST and held_in != book.currency:
        raise CurrencyMismatchError(book.currency, held_in)
    if caller.role is Role.ANALYST:
        rank = book.rank_of(tier.law)
        list_price = book.tiers[rank - 1].price
        return Quote(0, list_price, list_price, 0, book.currency, book.version, rank, chain.id, tier.law)
    held = connection.execute(
        select(entitlements.c.rank)
        .where(entitlements.c.account_id == caller.id, entitlements.c.chain_id == chain.id)
        .order_by(entitlements.c.rank)
        .limit(1)
    ).scalar_one_or_none()
    holding = Holding(rank=held, net_paid=net_paid(connection, caller.id, chain.id))
    return quote(book, tier.law, holding, reserve=reserve_of(chain, tier))


def quote_of(connection: Connection, caller: Caller, quote_id: str) -> Row[Any]:
    """Return a stored quote of the caller's own; raises NotFoundError."""
    wanted = select(quotes).where(quotes.c.id == quote_id, quotes.c.account_id == caller.id)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError("quote: expected one of the caller's own, got another id")
    return row


def confirm_quote(cited: Row[Any], chain: str, current: Quote, now: datetime) -> None:
    """Refuse a stored quote that is over, or whose lines are not what would be quoted now."""
    stored = stored_quote(cited, chain, current.rank, cited.book_version)
    ends = datetime.fromisoformat(cited.expires_at).timestamp()
    try:
        confirm(stored, current, now=int(now.timestamp()), expires_at=int(ends))
    except ExpiredQuoteError:
        raise QuoteExpiredError("quote: expected one that is still open, got one that has expired") from None
    except ChangedQuoteError as changed:
        raise QuoteExpiredError(
            f"quote: expected the price of now, got one that has changed since ({changed.field})"
        ) from None


def check_licence(terms: str, caller: Caller, licence: str | None) -> None:
    """Refuse an order whose buyer accepts no terms, or others than those of what is sold."""
    if licence is None and caller.role is not Role.ANALYST:
        raise InvalidRequestError("licence: expected the one in the quote, got none")
    if licence is not None and licence != terms:
        raise ConflictError("licence: expected the one in the quote, got another", licence=terms)


def below_ceiling(caller: Caller, tier: Tier) -> bool:
    """Return whether a caller's role may have a tier."""
    return _reaches(caller, tier.document.epsilon())


def refuse_whole_above_ceiling(connection: Connection, caller: Caller, cited: Row[Any]) -> None:
    """Refuse a mean of which both parts together are above the role's ceiling: its tier is the two of them."""
    if caller.ceiling_nano is None or cited.companion is None:
        return
    pair = (cited, quote_of(connection, caller, cited.companion))
    _refuse_above_ceiling(caller, sum((_epsilon_of(connection, each) for each in pair), Fraction(0)))


def _epsilon_of(connection: Connection, cited: Row[Any]) -> Fraction:
    wanted = select(planned_tiers.c.epsilon).join(products, products.c.chain_id == planned_tiers.c.chain_id)
    tier = wanted.where(products.c.id == cited.product_id, planned_tiers.c.law == cited.law)
    return Fraction(connection.execute(tier).scalar_one())


def _refuse_above_ceiling(caller: Caller, epsilon: Fraction) -> None:
    if not _reaches(caller, epsilon):
        raise ForbiddenError("tier: expected one at or below the role's ceiling, got one above it")


def _reaches(caller: Caller, epsilon: Fraction) -> bool:
    return caller.ceiling_nano is None or nano_up(epsilon) <= caller.ceiling_nano


def refuse_off_sale(row: Row[Any], caller: Caller, *, part: bool = False) -> None:
    """Refuse a product that this caller cannot buy now, or buy in this way."""
    internal = row.state == INTERNAL and caller.role is Role.ANALYST
    if row.state not in (PUBLIC if not part else (PART, WITHDRAWN)) and not internal:
        raise NotFoundError("product: expected an existing id, got another")  # as for one that does not exist
    if row.state != (PART if part else LIVE) and not internal:
        raise ConflictError(f"product: expected one on sale, got one that is {row.state}")


def _place_of(view: ProductView, selection: Selection) -> int:
    """Which tier of a mean is asked for, counted from its most accurate one."""
    if (selection.law is None) == (selection.epsilon is None):
        raise InvalidRequestError("tier: expected exactly one of law and epsilon, got both or none")
    wanted = None if selection.epsilon is None else parse_epsilon(selection.epsilon)
    for place, tier in enumerate(view.tiers):
        if tier.law == selection.law or Fraction(tier.epsilon) == wanted:
            return place
    top = view.tiers[0].epsilon
    raise UnknownTierError(
        f"tier: expected one that the product offers (its highest is ε {top}), got another", highest=top
    )


def _select(chain: ChainState, book: PriceBook, laws: frozenset[str], selection: Selection) -> Tier:
    given = [name for name in ("law", "epsilon", "within") if getattr(selection, name) is not None]
    if len(given) != 1:
        raise InvalidRequestError(f"tier: expected exactly one of law, epsilon, within, got {len(given)}")
    tiers = [tier for tier in chain.tiers if tier.law in laws]
    if selection.law is not None:
        found = [tier for tier in tiers if tier.law == selection.law]
    elif selection.epsilon is not None:
        epsilon = parse_epsilon(selection.epsilon)
        found = [tier for tier in tiers if tier.document.epsilon() == epsilon]
    else:
        assert selection.within is not None
        steps = parse_decimal("within", selection.within) / Fraction(2) ** chain.grain
        offered = {tier.law: int(tier.half_width) for tier in tiers}
        listed = PriceBook(book.chain_id, book.version, book.currency, tuple(t for t in book.tiers if t.law in laws))
        try:
            found = [chain.tier(cheapest_within(listed, offered, steps).law)]
        except NoTierWithinError:
            narrowest = decimal_text(min(offered.values()) * Fraction(2) ** chain.grain)
            raise UnknownTierError(
                f"within: expected at least {narrowest} (the narrowest bar on sale), got less", narrowest=narrowest
            ) from None
    if not found:
        top = tiers[0].epsilon
        raise UnknownTierError(
            f"tier: expected one that the product offers (its highest is ε {top}), got another", highest=top
        )
    return found[0]
