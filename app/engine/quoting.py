"""Quotes: which tier is asked for, what it costs this caller now, and whether a stored quote still holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from app.auth.accounts import Caller, Role
from app.catalog.books import book_of_chain
from app.catalog.bundle_contents import chain_parts, parts_of_bundle
from app.catalog.bundles import bundle_on_sale, price_of_bundle
from app.catalog.lifecycle import parts_of
from app.catalog.means import bar_at, place_within
from app.catalog.products import INTERNAL, LIVE, PART, WITHDRAWN
from app.catalog.search import PUBLIC
from app.catalog.views import product_view
from app.clock import later, new_id, time_text
from app.engine.kept import QUOTE_SECONDS, drop_lapsed
from app.engine.lines import SaleLine, priced_lines, refuse_above_ceiling
from app.engine.state import ChainState, Tier, chain_of_product, offered_laws
from app.errors import ConflictError, InvalidRequestError, NotFoundError, QuoteExpiredError, UnknownTierError
from app.ledger.amounts import amounts_of, stored_quote
from app.queries.presentation import outward
from app.settings import Settings
from app.store.schema import quotes
from app.views import ProductView, TierView
from pricing.book import PriceBook
from pricing.errors import ChangedQuoteError, ExpiredQuoteError, NoTierWithinError
from pricing.invoices import lines_of
from pricing.quote import Quote, cheapest_within, confirm
from tiers.budget import decimal_text, parse_decimal, parse_epsilon

__all__ = [
    "Selection",
    "check_licence",
    "confirm_quote",
    "offer",
    "offer_bundle",
    "quotes_of",
    "refuse_off_sale",
]


@dataclass(frozen=True, slots=True)
class Selection:
    """How a tier is asked for: exactly one of its law, its ε, or the error bar that must be met (in answer units).

    `rows` goes with a mean's bar: the fewest rows for which it must be met.
    """

    law: str | None = None
    epsilon: str | None = None
    within: str | None = None
    rows: int | None = None


def offer(
    connection: Connection, settings: Settings, caller: Caller, product: str, selection: Selection, now: datetime
) -> Mapping[str, Any]:
    """Quote a tier to a caller and store the quote; reserves nothing, reveals nothing.

    A mean is two linked quotes, of its sum and of its count.
    """
    parts = parts_of(connection, product)
    chain, row = chain_of_product(connection, settings, product)
    refuse_off_sale(row, caller)
    if selection.rows is not None and (len(parts) == 1 or selection.within is None):
        raise InvalidRequestError("rows: expected none but for a mean that is asked for by its error bar, got some")
    promised: dict[str, Any] = {}
    if len(parts) == 1:
        book = book_of_chain(connection, chain.id)
        asked = [(product, _select(chain, book, offered_laws(connection, product), selection).law)]
    else:
        view = product_view(connection, product)
        place = _place_of(view, selection)
        promised = {"mean": _bars(view.tiers[place], selection.rows)}
        assert view.companion is not None
        asked = [(product, view.tiers[place].law), (parts[1], view.companion.tiers[place].law)]
    made = _store(connection, caller, priced_lines(connection, settings, caller, asked), now)
    whole = dict(made[0])
    if len(made) > 1:
        total = sum(part["amount_minor"] for part in made)
        epsilon = sum((Fraction(part["epsilon"]) for part in made), Fraction(0))
        refuse_above_ceiling(caller, epsilon)
        whole |= {"amount_minor": total, "epsilon": decimal_text(epsilon), "parts": made}
    return whole | promised


def offer_bundle(
    connection: Connection, settings: Settings, caller: Caller, bundle: str, now: datetime
) -> Mapping[str, Any]:
    """Quote a whole bundle and store the quote: one linked quote a chain, of which an order cites the first.

    Raises:     NotFoundError: no such bundle on sale. ConflictError: a part of it is off sale.
    """
    row = bundle_on_sale(connection, bundle)
    parts = parts_of_bundle(connection, bundle)
    for part in parts:
        refuse_above_ceiling(caller, Fraction(part.tier.epsilon))
    asked = [(each.product, each.law) for each in chain_parts(parts)]
    lines = priced_lines(connection, settings, caller, asked, price_of_bundle(connection, row))
    for line in lines:
        refuse_off_sale(line.row, caller, part=line.row.state == PART)
    made = _store(connection, caller, lines, now, bundle=row.id, version=row.version)
    return {
        "quote": made[0]["quote"],
        "bundle": row.id,
        "version": row.version,
        "price_minor": price_of_bundle(connection, row),
        "amount_minor": sum(part["amount_minor"] for part in made),
        "discount_minor": sum(line.offered.discount for line in lines),
        "currency": row.currency,
        "licence": row.licence,
        "expires_at": made[0]["expires_at"],
        "parts": made,
    }


def _store(
    connection: Connection,
    caller: Caller,
    lines: Sequence[SaleLine],
    now: datetime,
    *,
    bundle: str | None = None,
    version: int | None = None,
) -> list[dict[str, Any]]:
    """Store a quote for each line, each naming the next as its companion."""
    drop_lapsed(connection, quotes, caller, now)
    names = [new_id("quote") for _ in lines]
    expires = time_text(later(now, QUOTE_SECONDS))
    rows = [
        {
            "id": name,
            "account_id": caller.id,
            "product_id": line.product,
            "law": line.tier.law,
            **amounts_of(line.offered),
            "book_version": line.offered.book_version,
            "companion": following,
            "bundle_id": bundle,
            "bundle_version": version,
            "expires_at": expires,
        }
        for name, following, line in zip(names, [*names[1:], None], lines, strict=True)
    ]
    connection.execute(quotes.insert(), rows)
    return [_document(name, line, expires) for name, line in zip(names, lines, strict=True)]


def _document(name: str, line: SaleLine, expires: str) -> dict[str, Any]:
    offered, tier = line.offered, line.tier
    return {
        "quote": name,
        "product": line.product,
        "chain": line.chain.id,
        "law": tier.law,
        "rank": tier.rank,
        "epsilon": tier.epsilon,
        "half_width": tier.half_width,
        "same_as_above": tier.same_as_above,
        "grain_exponent": line.chain.grain,
        "lines": [{"kind": each.kind, "text": each.text, "amount_minor": each.amount} for each in lines_of(offered)],
        "amount_minor": offered.amount,
        "given_back_minor": offered.given_back,
        "currency": offered.currency,
        "book_version": offered.book_version,
        "licence": line.row.licence,
        "expires_at": expires,
    }


def quotes_of(connection: Connection, caller: Caller, quote_id: str) -> list[Row[Any]]:
    """Return a stored quote of the caller's own and those linked behind it.

    What was quoted together is sold together: a sum without its count, or some lines of a bundle, are no goods.

    Raises:     NotFoundError: no such quote. InvalidRequestError: one that stands behind another.
    """
    found: list[Row[Any]] = []
    before = select(quotes.c.id).where(quotes.c.account_id == caller.id, quotes.c.companion == quote_id)
    if connection.execute(before).first() is not None:
        raise InvalidRequestError("quote: expected the first of those that were quoted together, got a later one")
    following: str | None = quote_id
    while following is not None:
        wanted = select(quotes).where(quotes.c.id == following, quotes.c.account_id == caller.id)
        row = connection.execute(wanted).one_or_none()
        if row is None:
            raise NotFoundError("quote: expected one of the caller's own, got another id")
        found.append(row)
        following = row.companion
    return found


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


def refuse_off_sale(row: Row[Any], caller: Caller, *, part: bool = False) -> None:
    """Refuse a product that this caller cannot buy now, or buy in this way."""
    internal = row.state == INTERNAL and caller.role is Role.ANALYST
    if row.state not in (PUBLIC if not part else (PART, WITHDRAWN)) and not internal:
        raise NotFoundError("product: expected an existing id, got another")  # as for one that does not exist
    if row.state != (PART if part else LIVE) and not internal:
        raise ConflictError(f"product: expected one on sale, got one that is {row.state}")


def _place_of(view: ProductView, selection: Selection) -> int:
    """Which tier of a mean is asked for, counted from its most accurate one."""
    given = [name for name in ("law", "epsilon", "within") if getattr(selection, name) is not None]
    if len(given) != 1:
        raise InvalidRequestError(f"tier: expected exactly one of law, epsilon, within, got {len(given)}")
    if selection.within is not None:
        return place_within(view.tiers, parse_decimal("within", selection.within), selection.rows)
    wanted = None if selection.epsilon is None else parse_epsilon(selection.epsilon)
    for place, tier in enumerate(view.tiers):
        if tier.law == selection.law or Fraction(tier.epsilon) == wanted:
            return place
    top = view.tiers[0].epsilon
    raise UnknownTierError(
        f"tier: expected one that the product offers (its highest is ε {top}), got another", highest=top
    )


def _bars(tier: TierView, rows: int | None) -> dict[str, Any]:
    """What a mean's tier promises, with the bar for the rows that were asked about."""
    assert tier.mean is not None
    asked = None if rows is None else bar_at(tier.mean, rows)
    told = {"rows": rows, "half_width": None if asked is None else outward(asked)}
    return {**msgspec.to_builtins(tier.mean), "promised": told}


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
