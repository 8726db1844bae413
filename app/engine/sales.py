"""Quotes and orders: one decision, made read-only first and again, for good, in the sale's transaction."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, Row, select

from app.audit.freezing import refuse_frozen
from app.audit.gate import Gate
from app.auth.accounts import Caller, Role
from app.catalog.books import book_of_chain
from app.catalog.lifecycle import parts_of
from app.catalog.products import INTERNAL, LIVE, PART, NewProduct
from app.catalog.views import product_view
from app.clock import later, new_id, time_text
from app.engine.release import ComputedDraw, ReleaseEngine
from app.engine.state import ChainState, Tier, chain_of_product, offered_laws
from app.errors import (
    AuditFindingError,
    ConflictError,
    ForbiddenError,
    IdempotencyError,
    InvalidRequestError,
    NotFoundError,
    QuoteExpiredError,
)
from app.keyring import Keyring
from app.ledger.budget import charge, charge_of, check_pace, reserve_of
from app.ledger.earnings import accrue
from app.ledger.money import balance, market_account, net_paid, post
from app.ledger.refunds import issue_invoice
from app.log.heads import sign_document
from app.log.journal import Appended, append
from app.log.leaves import SaleLeaf
from app.queries.model import Mean, Quantile, Threshold
from app.settings import Settings
from app.store.schema import entitlements, orders, quotes
from app.views import ProductView
from pricing.book import PriceBook
from pricing.errors import ChangedQuoteError, CurrencyMismatchError, ExpiredQuoteError
from pricing.invoices import Receipt, lines_of
from pricing.money import Money
from pricing.quote import Holding, Quote, cheapest_within, confirm, quote
from tiers.audit.findings import Finding
from tiers.budget import decimal_text, nano_up, parse_decimal, parse_epsilon
from tiers.canonical import Document, canonical_bytes

__all__ = ["ChainUndrawnError", "Desk", "PlacedOrder", "ReleaseRefusedError", "Selection"]

QUOTE_SECONDS = 900
Computed: TypeAlias = Mapping[str, tuple[ComputedDraw, ...]]
_PART = "\x1f"  # no caller's key holds it


class ChainUndrawnError(Exception):
    """The sale needs draws that nobody has made yet; carries chain and tier. Never leaves the engine."""

    def __init__(self, chain: ChainState, tier: Tier) -> None:
        self.chain, self.tier = chain, tier
        super().__init__("tier: expected a drawn answer, got none yet")


class ReleaseRefusedError(AuditFindingError):
    """The gate found something: the sale is undone, and the chain is to be frozen for what is found."""

    def __init__(self, found: tuple[Finding, ...]) -> None:
        self.found = found
        rules = sorted({f"{finding.check} {finding.rule}" for finding in found})
        super().__init__(f"release: expected one that passes the audit, got {', '.join(rules)}", rules=rules)


@dataclass(frozen=True, slots=True)
class Selection:
    """How a tier is asked for: exactly one of its law, its ε, or the error bar that must be met (in answer units)."""

    law: str | None = None
    epsilon: str | None = None
    within: str | None = None


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """An order as stored; `replayed` tells a retry from the first time, `read` whether more than the vector is shown.

    A mean's companion is the order of its count.
    """

    receipt: bytes
    product: str
    chain: ChainState
    tier: Tier
    sealed: bytes
    commitment: str
    read: bool
    replayed: bool
    companion: "PlacedOrder | None" = None


@dataclass(frozen=True, slots=True)
class Desk:
    """The sales desk: the only writer of quotes, orders, entitlements and charges."""

    settings: Settings
    keyring: Keyring
    engine: ReleaseEngine
    gate: Gate

    def offer(
        self, connection: Connection, caller: Caller, product: str, selection: Selection, now: datetime
    ) -> Mapping[str, Any]:
        """Quote a tier to a caller and store the quote; reserves nothing, reveals nothing."""
        parts = parts_of(connection, product)
        own = chain_of_product(connection, self.settings, product)
        _on_sale(own[1], caller)
        if len(parts) > 1 and selection.within is not None:
            raise InvalidRequestError("within: expected a law or an ε for a mean, whose interval depends on the answer")
        choice: Selection | int = selection
        if len(parts) > 1:
            choice = _place_of(product_view(connection, product), selection)
        loaded = {product: own}
        for part in parts[1:]:
            loaded[part] = chain_of_product(connection, self.settings, part)
        made = [self._quote(connection, caller, part, loaded[part], choice, now) for part in reversed(parts)]
        for first, second in pairwise(made):
            linked = quotes.update().where(quotes.c.id == second["quote"]).values(companion=first["quote"])
            connection.execute(linked)
        whole = dict(made[-1])
        if len(made) > 1:
            total = sum(part["amount_minor"] for part in made)
            epsilon = decimal_text(sum((Fraction(part["epsilon"]) for part in made), Fraction(0)))
            whole |= {"amount_minor": total, "epsilon": epsilon, "parts": made[::-1]}
        return whole

    def _quote(
        self,
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
        offered = self._price(connection, caller, chain, book, tier)
        identity, expires = new_id("quote"), time_text(later(now, QUOTE_SECONDS))
        connection.execute(
            quotes.insert().values(
                id=identity,
                account_id=caller.id,
                product_id=product,
                law=tier.law,
                amount_minor=offered.amount,
                list_minor=offered.list_price,
                credit_minor=offered.credit,
                reserve_minor=offered.reserve,
                currency=offered.currency,
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
            "lines": [
                {"kind": line.kind, "text": line.text, "amount_minor": line.amount} for line in lines_of(offered)
            ],
            "amount_minor": offered.amount,
            "currency": offered.currency,
            "book_version": offered.book_version,
            "licence": row.licence,
            "expires_at": expires,
        }

    def order(
        self,
        connection: Connection,
        caller: Caller,
        quote_id: str,
        key: str,
        now: datetime,
        computed: Computed | None = None,
        licence: str | None = None,
    ) -> PlacedOrder:
        """Sell what a quote offers, or return the order that this idempotency key already placed.

        One transaction: right to the tier, price, budget, draws, money, order, log. Anything that fails leaves nothing.

        A mean is two orders, of its sum and of its count: both or none.

        Args:       computed: the draws of each chain that were due when the caller made them. licence: the one that the
                    buyer accepts; an analyst, who buys nothing, need not.
        Raises:     ChainUndrawnError: admitted, but the tier must be drawn first, or again: others were faster.
                    QuoteExpiredError, ForbiddenError, ChainFrozenError, ReleaseRefusedError, InsufficientFundsError,
                    BudgetRefusedError, IdempotencyError: refused, nothing stored. InvalidRequestError, ConflictError:
                    none, or another, licence is accepted.
        """
        whole = hashlib.sha256(canonical_bytes({"quote": quote_id})).hexdigest()
        made = computed or {}
        placed, other = self._order_one(connection, caller, quote_id, whole, key, now, made, licence)
        second = self._replay(connection, caller, _PART + key, whole, licence) if placed.replayed else None
        if other:  # a mean is two orders of one transaction, under one key
            second, _ = self._order_one(connection, caller, other, whole, _PART + key, now, made, licence)
        return replace(placed, companion=second)

    def _order_one(
        self,
        connection: Connection,
        caller: Caller,
        quote_id: str,
        digest: str,
        key: str,
        now: datetime,
        computed: Computed,
        licence: str | None,
    ) -> tuple[PlacedOrder, str]:
        """Place one order; return it with the quote that goes with its own, or "" for none."""
        placed = self._replay(connection, caller, key, digest, licence)
        if placed is not None:
            return placed, ""
        cited = _quote_of(connection, caller, quote_id)
        chain, row = chain_of_product(connection, self.settings, cited.product_id)
        _check_licence(row, caller, licence)
        _on_sale(row, caller, part=key.startswith(_PART))
        refuse_frozen(connection, chain.id)
        tier = chain.tier(cited.law)
        book = book_of_chain(connection, chain.id)
        offered = self._price(connection, caller, chain, book, tier)
        _confirm(cited, chain, offered, now)
        laws = offered_laws(connection, cited.product_id)
        due = charge_of(chain, tier, lambda other: other.law in laws and _below_ceiling(caller, other))
        check_pace(connection, caller.id, chain, due, now)
        at, order_id = time_text(now), new_id("order")
        price = Money(offered.amount, offered.currency)
        post(connection, caller.id, "payment", -price, order_id, at)
        post(connection, market_account(connection, price.currency, at), "sale", price, order_id, at)
        wanted = self.engine.due(chain, tier)
        if wanted:
            made = computed.get(chain.id, ())
            if tuple(draw.spec for draw in made) != wanted:
                raise ChainUndrawnError(chain, tier)
            self.engine.install(connection, chain, made, at)
            chain, row = chain_of_product(connection, self.settings, cited.product_id)
            tier = chain.tier(cited.law)
        charge(connection, chain, tier, due)
        loss = chain.highest_nano + due
        accrue(connection, chain.dataset, price, loss, self.settings.fee_bps, order_id, at)
        leaf = self._log_sale(connection, caller, cited, chain, order_id, due, row.licence, at)
        found = self.gate.check(connection, chain, leaf.index)
        if found:
            raise ReleaseRefusedError(found)
        receipt = self._receipt(connection, caller, offered, chain, tier, order_id, due, row.licence, at, leaf)
        connection.execute(
            orders.insert().values(
                id=order_id,
                account_id=caller.id,
                idempotency_key=key,
                request_digest=digest,
                product_id=cited.product_id,
                chain_id=chain.id,
                law=tier.law,
                amount_minor=offered.amount,
                list_minor=offered.list_price,
                credit_minor=offered.credit,
                reserve_minor=offered.reserve,
                currency=offered.currency,
                charge_nano=due,
                receipt_json=receipt.decode(),
                leaf_index=leaf.index,
                created_at=at,
            )
        )
        issue_invoice(connection, order_id)
        self._entitle(connection, caller, chain, tier, order_id)
        assert tier.sealed is not None
        assert tier.commitment is not None
        placed = PlacedOrder(
            receipt, cited.product_id, chain, tier, tier.sealed, tier.commitment, _is_read(row), replayed=False
        )
        return placed, cited.companion or ""

    def _replay(
        self, connection: Connection, caller: Caller, key: str, digest: str, licence: str | None
    ) -> PlacedOrder | None:
        wanted = select(orders).where(orders.c.account_id == caller.id, orders.c.idempotency_key == key)
        row = connection.execute(wanted).one_or_none()
        if row is None:
            return None
        if row.request_digest != digest:
            raise IdempotencyError("Idempotency-Key: expected a new key for a new request, got one that is used")
        chain, listed = chain_of_product(connection, self.settings, row.product_id)
        _check_licence(listed, caller, licence)
        tier = chain.tier(row.law)
        assert tier.sealed is not None
        assert tier.commitment is not None
        return PlacedOrder(
            row.receipt_json.encode(),
            row.product_id,
            chain,
            tier,
            tier.sealed,
            tier.commitment,
            _is_read(listed),
            replayed=True,
        )

    def _price(self, connection: Connection, caller: Caller, chain: ChainState, book: PriceBook, tier: Tier) -> Quote:
        if not _below_ceiling(caller, tier):
            raise ForbiddenError("tier: expected one at or below the role's ceiling, got one above it")
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

    def _entitle(self, connection: Connection, caller: Caller, chain: ChainState, tier: Tier, order_id: str) -> None:
        held = select(entitlements.c.law).where(
            entitlements.c.account_id == caller.id,
            entitlements.c.chain_id == chain.id,
            entitlements.c.law == tier.law,
        )
        if connection.execute(held).one_or_none() is None:
            connection.execute(
                entitlements.insert().values(
                    account_id=caller.id, chain_id=chain.id, law=tier.law, rank=tier.rank, order_id=order_id
                )
            )

    def _log_sale(
        self,
        connection: Connection,
        caller: Caller,
        cited: Row[Any],
        chain: ChainState,
        order_id: str,
        due: int,
        licence: str,
        at: str,
    ) -> Appended:
        def make(index: int) -> SaleLeaf:
            return SaleLeaf(
                index=index,
                at=at,
                order=order_id,
                pseudonym=caller.pseudonym,
                product=cited.product_id,
                chain=chain.id,
                law=cited.law,
                charge_nano=due,
                price_minor=cited.amount_minor,
                currency=cited.currency,
                book_version=cited.book_version,
                licence=licence,
            )

        (sold,) = append(connection, self.keyring, at, [make])
        return sold

    def _receipt(
        self,
        connection: Connection,
        caller: Caller,
        offered: Quote,
        chain: ChainState,
        tier: Tier,
        order_id: str,
        due: int,
        licence: str,
        at: str,
        leaf: Appended,
    ) -> bytes:
        last = (
            select(orders.c.receipt_json).where(orders.c.account_id == caller.id).order_by(orders.c.leaf_index.desc())
        )
        before = connection.execute(last.limit(1)).scalar_one_or_none()
        assert tier.commitment is not None
        body: dict[str, Document] = dict(
            Receipt(
                offered,
                order=order_id,
                pseudonym=caller.pseudonym,
                at=at,
                fingerprint=chain.fingerprint,
                snapshot=chain.snapshot,
                licence=licence,
                epsilon=tier.epsilon,
                charge_nano=due,
                commitment=tier.commitment,
                leaf_index=leaf.index,
                leaf_hash=leaf.hash.hex(),
                key=self.keyring.signing_number,
                same_as_above=tier.same_as_above,
                internal=caller.role is Role.ANALYST,
                previous=None if before is None else hashlib.sha256(before.encode()).hexdigest(),
            ).document()
        )
        return canonical_bytes({**body, "signature": sign_document("receipt", body, self.keyring.signer())})


def _confirm(cited: Row[Any], chain: ChainState, current: Quote, now: datetime) -> None:
    """Refuse a stored quote that is over, or whose lines are not what would be quoted now."""
    stored = Quote(
        amount=cited.amount_minor,
        list_price=cited.list_minor,
        credit=cited.credit_minor,
        reserve=cited.reserve_minor,
        currency=cited.currency,
        book_version=cited.book_version,
        rank=current.rank,
        chain_id=chain.id,
        law=cited.law,
    )
    ends = datetime.fromisoformat(cited.expires_at).timestamp()
    try:
        confirm(stored, current, now=int(now.timestamp()), expires_at=int(ends))
    except ExpiredQuoteError:
        raise QuoteExpiredError("quote: expected one that is still open, got one that has expired") from None
    except ChangedQuoteError as changed:
        raise QuoteExpiredError(
            f"quote: expected the price of now, got one that has changed since ({changed.field})"
        ) from None


def _is_read(row: Row[Any]) -> bool:
    """Whether the product's question shows more than its raw vector."""
    query = msgspec.json.decode(row.request_json, type=NewProduct).query
    return isinstance(query.measure, Mean | Quantile | Threshold)


def _below_ceiling(caller: Caller, tier: Tier) -> bool:
    return caller.ceiling_nano is None or nano_up(tier.document.epsilon()) <= caller.ceiling_nano


def _on_sale(row: Row[Any], caller: Caller, *, part: bool = False) -> None:
    internal = row.state == INTERNAL and caller.role is Role.ANALYST
    if row.state != (PART if part else LIVE) and not internal:
        raise ConflictError(f"product: expected one on sale, got one that is {row.state}")


def _quote_of(connection: Connection, caller: Caller, quote_id: str) -> Row[Any]:
    wanted = select(quotes).where(quotes.c.id == quote_id, quotes.c.account_id == caller.id)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError("quote: expected one of the caller's own, got another id")
    return row


def _check_licence(row: Row[Any], caller: Caller, licence: str | None) -> None:
    """Refuse an order whose buyer accepts no terms, or others than the product's."""
    if licence is None and caller.role is not Role.ANALYST:
        raise InvalidRequestError("licence: expected the one in the quote, got none")
    if licence is not None and licence != row.licence:
        raise ConflictError("licence: expected the one in the quote, got another", licence=row.licence)


def _place_of(view: ProductView, selection: Selection) -> int:
    """Which tier of a mean is asked for, counted from its most accurate one."""
    if (selection.law is None) == (selection.epsilon is None):
        raise InvalidRequestError("tier: expected exactly one of law and epsilon, got both or none")
    wanted = None if selection.epsilon is None else parse_epsilon(selection.epsilon)
    for place, tier in enumerate(view.tiers):
        if tier.law == selection.law or Fraction(tier.epsilon) == wanted:
            return place
    top = view.tiers[0].epsilon
    raise NotFoundError(
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
        found = [chain.tier(cheapest_within(listed, offered, steps).law)]
    if not found:
        top = tiers[0].epsilon
        raise NotFoundError(
            f"tier: expected one that the product offers (its highest is ε {top}), got another", highest=top
        )
    return found[0]
