"""Sales of a panel's tiers: quoted, ordered under a key, logged, receipted and invoiced like any other sale.

The devices were charged when they reported, so a sale costs no budget; a round's tiers were derived when it closed, so
nothing is drawn.
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from app.audit.stopping import refuse_stopped
from app.auth.accounts import Caller, Role
from app.catalog.panel_states import refuse_off_sale
from app.clock import later, new_id, time_text
from app.engine.kept import QUOTE_SECONDS, drop_lapsed, ordered_before, panel_quote, quote_lines
from app.engine.quoting import check_licence, confirm_quote
from app.errors import (
    ForbiddenError,
    IntegrityError,
    NotEntitledError,
)
from app.keyring import Keyring
from app.ledger.amounts import amounts_of
from app.ledger.earnings import accrue_to
from app.ledger.money import balance, net_paid, post, post_to_market
from app.ledger.refunds import issue_invoice
from app.ledger.sold import receipt_before, signed_receipt
from app.log.journal import append
from app.log.panel_leaves import PanelSaleLeaf, RoundRecord, round_identity
from app.panels.desk import Panel, counts_of, panel_of, round_of
from app.panels.late_tiers import record_of, whole_record
from app.panels.plans.base import Counts
from app.panels.rounds import COUNTS, counts_commitment, opening_of
from app.store.panel_schema import panel_orders, panel_quotes, panel_rounds
from app.store.schema import leaves
from app.views import PanelQuoteView
from pricing.book import PriceBook, TierPrice
from pricing.errors import CurrencyMismatchError
from pricing.invoices import Receipt
from pricing.money import Money
from pricing.quote import Holding, Quote, quote
from tiers.budget import decimal_text, nano_up
from tiers.canonical import canonical_bytes

__all__ = ["PanelPlaced", "held_rank", "offer", "order"]


@dataclass(frozen=True, slots=True)
class PanelPlaced:
    """An order as stored, with what it opens: the counts that estimates are read off, and their opening."""

    receipt: bytes
    panel: Panel
    round: int
    rank: int
    counts: Counts
    opening: bytes
    replayed: bool


def offer(
    connection: Connection, caller: Caller, panel: Panel, number: int, rank: int, now: datetime
) -> PanelQuoteView:
    """Quote a tier of a closed round to a caller and store the quote; raises as `_price` does."""
    sold = _on_sale(connection, panel, number)
    offered = _price(connection, caller, panel, number, rank)
    drop_lapsed(connection, panel_quotes, caller, now)
    identity, expires = new_id("quote"), time_text(later(now, QUOTE_SECONDS))
    named = {"account_id": caller.id, "panel_id": panel.id, "number": number, "rank": rank}
    connection.execute(
        panel_quotes.insert().values(
            id=identity,
            **named,
            law=offered.law,
            **amounts_of(offered),
            book_version=offered.book_version,
            expires_at=expires,
        )
    )
    return PanelQuoteView(
        quote=identity,
        panel=panel.id,
        round=number,
        rank=rank,
        epsilon=decimal_text(panel.menu.epsilon(rank)),
        guarantee=panel.guarantee(rank),
        reports=sold.reports,
        chain=offered.chain_id,
        law=offered.law,
        lines=quote_lines(offered),
        amount_minor=offered.amount,
        currency=offered.currency,
        licence=panel.licence,
        expires_at=expires,
    )


def order(
    connection: Connection,
    keyring: Keyring,
    caller: Caller,
    panel: str,
    quote_id: str,
    key: str,
    now: datetime,
    *,
    fee_bps: int,
    licence: str | None,
) -> PanelPlaced:
    """Sell what a quote offers, or return the order that this idempotency key already placed: one transaction.

    Raises:     IdempotencyError: the key is another order's. NotFoundError: no such quote of the caller's on the panel.
                QuoteExpiredError: it is over, or the price has changed. ForbiddenError, InsufficientFundsError,
                CurrencyMismatchError, ConflictError, InvalidRequestError: refused as other sales are.
                IntegrityError: the stored counts are not those committed to. ChainFrozenError: an audit stopped it.
    """
    digest = hashlib.sha256(canonical_bytes({"panel": panel, "quote": quote_id})).hexdigest()
    found = panel_of(connection, panel)
    row = ordered_before(connection, panel_orders, caller, key, digest)
    if row is not None:
        check_licence(found.licence, caller, licence)
        return _placed(connection, keyring, found, row, replayed=True)
    cited = panel_quote(connection, panel_quotes, caller, panel, quote_id)
    check_licence(found.licence, caller, licence)
    sold = _on_sale(connection, found, cited.number)
    offered = _price(connection, caller, found, cited.number, cited.rank)
    confirm_quote(cited, offered.chain_id, offered, now)
    at, identity, price = time_text(now), new_id("order"), Money(offered.amount, offered.currency)
    post(connection, caller.id, "payment", -price, identity, at)
    post_to_market(connection, "sale", price, identity, at)
    accrue_to(connection, found.owner, price, fee_bps, identity, at)

    def make(index: int) -> PanelSaleLeaf:
        return PanelSaleLeaf(
            index=index,
            at=at,
            order=identity,
            pseudonym=caller.pseudonym,
            panel=panel,
            round=cited.number,
            rank=cited.rank,
            price_minor=offered.amount,
            currency=offered.currency,
            licence=found.licence,
        )

    (leaf,) = append(connection, keyring, at, [make])
    receipt = Receipt(
        offered,
        order=identity,
        pseudonym=caller.pseudonym,
        at=at,
        fingerprint=_fingerprint(connection, found),
        snapshot=f"{panel}/{cited.number}",
        licence=found.licence,
        epsilon=decimal_text(found.menu.epsilon(cited.rank)),
        charge_nano=0,
        commitment=whole_record(connection, sold).tiers[cited.rank].counts,
        leaf_index=leaf.index,
        leaf_hash=leaf.hash.hex(),
        key=keyring.signing_number,
        internal=caller.role is Role.ANALYST,
        previous=receipt_before(connection, caller.id),
        guarantee=found.guarantee(cited.rank),
    )
    named = {"account_id": caller.id, "panel_id": panel, "number": cited.number, "rank": cited.rank}
    connection.execute(
        panel_orders.insert().values(
            id=identity,
            idempotency_key=key,
            request_digest=digest,
            **named,
            chain_id=offered.chain_id,
            law=offered.law,
            **amounts_of(offered),
            receipt_json=signed_receipt(keyring, receipt).decode(),
            leaf_index=leaf.index,
            created_at=at,
        )
    )
    issue_invoice(connection, identity)
    if sold.highest_rank is None or found.menu.rank(cited.rank) < found.menu.rank(sold.highest_rank):
        here = (panel_rounds.c.panel_id == panel) & (panel_rounds.c.number == cited.number)
        connection.execute(panel_rounds.update().where(here).values(highest_rank=cited.rank))
    row = connection.execute(select(panel_orders).where(panel_orders.c.id == identity)).one()
    return _placed(connection, keyring, found, row, replayed=False)


def held_rank(connection: Connection, caller: Caller, panel: str, number: int, rank: int) -> RoundRecord:
    """Return the record of a round of which the caller holds a tier, added tiers last; raises NotEntitledError."""
    held = select(panel_orders.c.id).where(
        panel_orders.c.account_id == caller.id,
        panel_orders.c.panel_id == panel,
        panel_orders.c.number == number,
        panel_orders.c.rank == rank,
    )
    if connection.execute(held.limit(1)).one_or_none() is None:
        raise NotEntitledError("tier: expected an order of the caller's for this tier of this round, got none")
    row = round_of(connection, panel, number)
    return _unlogged_record(row.record) if row.leaf_index is None else whole_record(connection, row)


def _unlogged_record(text: str) -> RoundRecord:
    """Return the record of a round that was closed before rounds were logged: it commits to no counts."""
    record = msgspec.json.decode(text, type=dict[str, Any])
    tiers = [{"counts": "0" * 64} | tier for tier in record["tiers"]]
    return msgspec.convert(record | {"tiers": tiers}, RoundRecord)


def _placed(connection: Connection, keyring: Keyring, panel: Panel, row: "Row[Any]", *, replayed: bool) -> PanelPlaced:
    record = whole_record(connection, round_of(connection, panel.id, row.number))
    secret = keyring.owner_secret(panel.owner, record.epoch)
    opening = opening_of(secret, f"{panel.id}/{row.number}", row.rank, COUNTS)
    counts = counts_of(connection, keyring, panel.id, row.number, row.rank)
    if not hmac.compare_digest(counts_commitment(opening, counts), record.tiers[row.rank].counts):
        raise IntegrityError("panel: expected a tier's counts as committed to, got others")
    return PanelPlaced(row.receipt_json.encode(), panel, row.number, row.rank, counts, opening, replayed)


def _on_sale(connection: Connection, panel: Panel, number: int) -> "Row[Any]":
    refuse_off_sale(panel.state)
    refuse_stopped(connection, panel.id)
    row = round_of(connection, panel.id, number)
    record_of(row)
    return row


def _price(connection: Connection, caller: Caller, panel: Panel, number: int, rank: int) -> Quote:
    """Return what a tier costs a caller now: its list price less what is held or paid on the round.

    Raises:     ForbiddenError: above the role's ceiling. CurrencyMismatchError: the account has another currency.
    """
    if caller.ceiling_nano is not None and nano_up(panel.menu.epsilon(rank)) > caller.ceiling_nano:
        raise ForbiddenError("tier: expected one at or below the role's ceiling, got one above it")
    chain, law = round_identity(panel.id, number), panel.tier(rank)
    if caller.role is Role.ANALYST:
        list_price = panel.prices[rank]
        place = panel.menu.rank(rank) + 1
        return Quote(0, list_price, list_price, 0, panel.currency, panel.book_version, place, chain, law)
    held_in = balance(connection, caller.id).currency
    if held_in != panel.currency:
        raise CurrencyMismatchError(panel.currency, held_in)
    prices = tuple(TierPrice(panel.tier(each), panel.prices[each]) for each in panel.menu.numbers)
    mine = (panel_orders.c.account_id == caller.id) & (panel_orders.c.panel_id == panel.id)
    owned = select(panel_orders.c.rank).where(mine, panel_orders.c.number == number).distinct()
    held = min(map(panel.menu.rank, connection.execute(owned).scalars()), default=None)
    holding = Holding(None if held is None else held + 1, net_paid(connection, caller.id, chain, panel_orders))
    return quote(PriceBook(chain, panel.book_version, panel.currency, prices), law, holding)


def _fingerprint(connection: Connection, panel: Panel) -> str:
    """The hash of the panel's leaf: it names domain, menu and terms."""
    digest: bytes = connection.execute(
        select(leaves.c.leaf_hash).where(leaves.c.log_index == panel.leaf_index)
    ).scalar_one()
    return digest.hex()
