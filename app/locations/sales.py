"""Sales of answers about people's places: quoted, ordered under a key, logged, receipted and invoiced like any other.

People are charged when an answer is drawn; it is kept, and sold again to whoever asks the same at no further charge.
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, func, select

from app.audit.stopping import refuse_stopped
from app.auth.accounts import Caller
from app.catalog.panel_states import refuse_off_sale
from app.clock import later, new_id, time_text
from app.engine.kept import QUOTE_SECONDS, drop_lapsed, ordered_before, panel_quote, quote_lines
from app.engine.quoting import check_licence, confirm_quote
from app.errors import (
    IntegrityError,
    InvalidRequestError,
    NotEntitledError,
    NotFoundError,
)
from app.keyring import Keyring
from app.ledger.amounts import amounts_of
from app.ledger.budget import nano_text
from app.ledger.earnings import accrue
from app.ledger.money import balance, net_paid, post, post_to_market, require_funds
from app.ledger.refunds import issue_invoice
from app.ledger.sold import receipt_before, signed_receipt
from app.locations.desk import Due, LocationPanel, answer_of, location_of, query_of
from app.locations.questions import kind_of, query_identity, question_text, read_question
from app.locations.terms import ADJACENCY, MEASURE, Terms, list_price
from app.locations.transcript import ANSWER, committed, opening
from app.locations.views import LocationQuoteView
from app.locations.wire import AskedQuestion
from app.log.journal import append
from app.log.location_leaves import LocationSaleLeaf
from app.store.location_schema import location_orders, location_quotes
from pricing.book import PriceBook, TierPrice
from pricing.errors import CurrencyMismatchError
from pricing.invoices import Receipt
from pricing.money import Money
from pricing.quote import Holding, Quote, quote
from tiers.budget import decimal_text
from tiers.canonical import Document, canonical_bytes

__all__ = ["LocationPlaced", "UnansweredError", "check_budget", "held_answer", "law_identity", "offer", "order"]


class UnansweredError(Exception):
    """The sale is admitted, but its question has not been answered yet; never leaves the package."""

    def __init__(self, due: Due) -> None:
        self.due = due
        super().__init__("answer: expected one, got none yet")


@dataclass(frozen=True, slots=True)
class LocationPlaced:
    """An order as stored, with the answer it entitles to and what opens the commitment to it."""

    receipt: bytes
    panel: str
    query: str
    answer: dict[str, Document]
    opening: bytes
    replayed: bool


def law_identity(panel: LocationPanel, budget_nano: int) -> str:
    """Return what names a question's noise where other sales name a law: the panel's terms, and the budget."""
    terms = panel.terms
    named: dict[str, Document] = {"beta": decimal_text(terms.beta), "budget_nano": budget_nano, "rounds": terms.rounds}
    return hashlib.sha256(b"tiermarket/location-law/1\n" + canonical_bytes(named)).hexdigest()


def check_budget(terms: Terms, budget_nano: int) -> None:
    """Refuse more than a question may spend, or too little for a first round; raises InvalidRequestError."""
    if not terms.plan.least <= budget_nano <= terms.query_nano:
        raise InvalidRequestError(
            f"budget: expected ρ from {nano_text(terms.plan.least)} to {nano_text(terms.query_nano)}, "
            f"got {nano_text(budget_nano)}"
        )


def offer(
    connection: Connection,
    caller: Caller,
    panel: LocationPanel,
    asked: AskedQuestion,
    budget_nano: int,
    askable: int,
    now: datetime,
) -> LocationQuoteView:
    """Quote a canonical question to a caller and store the quote; nobody is asked, and nothing charged.

    Args:       askable: how many people can be asked, for the caller to know.
    Raises:     InvalidRequestError: a budget that no question may have. NotFoundError: a kind that the panel does not
                sell. ConflictError: the panel is off sale. ChainFrozenError, CurrencyMismatchError.
    """
    text = question_text(asked)
    check_budget(panel.terms, budget_nano)
    offered = _price(connection, caller, panel, text, budget_nano)
    drop_lapsed(connection, location_quotes, caller, now)
    identity, expires = new_id("quote"), time_text(later(now, QUOTE_SECONDS))
    connection.execute(
        location_quotes.insert().values(
            id=identity,
            account_id=caller.id,
            panel_id=panel.id,
            question=text,
            budget_nano=budget_nano,
            law=offered.law,
            **amounts_of(offered),
            book_version=offered.book_version,
            expires_at=expires,
        )
    )
    return LocationQuoteView(
        quote=identity,
        panel=panel.id,
        question=msgspec.to_builtins(asked),
        budget=nano_text(budget_nano),
        query=offered.chain_id,
        people=panel.terms.people,
        askable=askable,
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
) -> LocationPlaced:
    """Sell what a quote offers, or return the order that this idempotency key already placed: one transaction.

    Raises:     UnansweredError: admitted, but nobody has been asked yet. IdempotencyError: the key is another order's.
                NotFoundError: no such quote of the caller's on the panel. QuoteExpiredError, InsufficientFundsError,
                CurrencyMismatchError, ConflictError, InvalidRequestError: refused as other sales are. IntegrityError:
                the stored answer is not the one committed to. ChainFrozenError: an audit stopped the panel.
    """
    digest = hashlib.sha256(canonical_bytes({"location": panel, "quote": quote_id})).hexdigest()
    found = location_of(connection, panel)
    row = ordered_before(connection, location_orders, caller, key, digest)
    if row is not None:
        check_licence(found.licence, caller, licence)
        return _placed(connection, keyring, found, row, replayed=True)
    cited = panel_quote(connection, location_quotes, caller, panel, quote_id)
    check_licence(found.licence, caller, licence)
    offered = _price(connection, caller, found, cited.question, cited.budget_nano)
    confirm_quote(cited, offered.chain_id, offered, now)
    price = Money(offered.amount, offered.currency)
    require_funds(connection, caller.id, price)
    answered = query_of(connection, panel, offered.chain_id)
    if answered is None or answered.leaf_index is None:
        raise UnansweredError(Due(offered.chain_id, cited.question, cited.budget_nano))
    at, identity = time_text(now), new_id("order")
    post(connection, caller.id, "payment", -price, identity, at)
    post_to_market(connection, "sale", price, identity, at)
    accrue(connection, found.dataset, price, answered.most_nano, fee_bps, identity, at)

    def make(index: int) -> LocationSaleLeaf:
        return LocationSaleLeaf(
            index=index,
            at=at,
            order=identity,
            pseudonym=caller.pseudonym,
            panel=panel,
            query=offered.chain_id,
            price_minor=offered.amount,
            currency=offered.currency,
            licence=found.licence,
        )

    (leaf,) = append(connection, keyring, at, [make])
    again = select(func.count()).select_from(location_orders).where(location_orders.c.chain_id == offered.chain_id)
    receipt = Receipt(
        offered,
        order=identity,
        pseudonym=caller.pseudonym,
        at=at,
        fingerprint=hashlib.sha256(cited.question.encode()).hexdigest(),
        snapshot=found.snapshot,
        licence=found.licence,
        epsilon=nano_text(cited.budget_nano),
        charge_nano=0 if connection.execute(again).scalar_one() else answered.most_nano,
        commitment=answered.commitment,
        leaf_index=leaf.index,
        leaf_hash=leaf.hash.hex(),
        key=keyring.signing_number,
        previous=receipt_before(connection, caller.id),
    )
    told: dict[str, Document] = {
        "measure": MEASURE,
        "adjacency": ADJACENCY,
        "unit": found.unit,
        "diagonal": decimal_text(found.terms.diagonal),
        "panel": panel,
    }
    connection.execute(
        location_orders.insert().values(
            id=identity,
            account_id=caller.id,
            idempotency_key=key,
            request_digest=digest,
            panel_id=panel,
            chain_id=offered.chain_id,
            law=offered.law,
            **amounts_of(offered),
            receipt_json=signed_receipt(keyring, receipt, told).decode(),
            leaf_index=leaf.index,
            created_at=at,
        )
    )
    issue_invoice(connection, identity)
    row = connection.execute(select(location_orders).where(location_orders.c.id == identity)).one()
    return _placed(connection, keyring, found, row, replayed=False)


def held_answer(connection: Connection, keyring: Keyring, caller: Caller, panel: str, query: str) -> LocationPlaced:
    """Return an answer that the caller has bought; raises NotEntitledError, NotFoundError."""
    found = location_of(connection, panel)
    mine = (location_orders.c.account_id == caller.id) & (location_orders.c.panel_id == panel)
    wanted = select(location_orders).where(mine, location_orders.c.chain_id == query)
    row = connection.execute(wanted.order_by(location_orders.c.leaf_index).limit(1)).one_or_none()
    if row is None:
        raise NotEntitledError("answer: expected an order of the caller's for this question, got none")
    return _placed(connection, keyring, found, row, replayed=True)


def _placed(
    connection: Connection, keyring: Keyring, panel: LocationPanel, row: "Row[Any]", *, replayed: bool
) -> LocationPlaced:
    answered = query_of(connection, panel.id, row.chain_id)
    assert answered is not None, "what was sold was answered"
    answer = answer_of(keyring, panel.id, answered)
    key = opening(keyring.owner_secret(panel.owner, panel.epoch), panel.id, row.chain_id, ANSWER)
    if not hmac.compare_digest(committed(key, answer), answered.commitment):
        raise IntegrityError("location panel: expected the answer that was committed to, got another")
    return LocationPlaced(row.receipt_json.encode(), panel.id, row.chain_id, answer, key, replayed)


def _price(connection: Connection, caller: Caller, panel: LocationPanel, text: str, budget_nano: int) -> Quote:
    """Return what a question costs a caller now: nothing where its answer is held."""
    refuse_off_sale(panel.state)
    refuse_stopped(connection, panel.id)
    kind = kind_of(read_question(text))
    if kind not in panel.prices:
        raise NotFoundError(f"question: expected one of the kinds that the panel sells, got {kind}")
    held_in = balance(connection, caller.id).currency
    if held_in != panel.currency:
        raise CurrencyMismatchError(panel.currency, held_in)
    query, law = query_identity(panel.id, text, budget_nano), law_identity(panel, budget_nano)
    price = list_price(panel.terms, panel.prices[kind], budget_nano)
    mine = (location_orders.c.account_id == caller.id) & (location_orders.c.chain_id == query)
    held = connection.execute(select(func.count()).select_from(location_orders).where(mine)).scalar_one()
    holding = Holding(1 if held else None, net_paid(connection, caller.id, query, location_orders))
    return quote(PriceBook(query, 1, panel.currency, (TierPrice(law, price),)), law, holding)
