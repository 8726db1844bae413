"""Threshold questions in the store: quoted, ordered under a key, and the ordinary orders that each has placed since.

Nothing of how far a question has come is stored beside those orders: they are found by keys that follow from its id.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, select

from app.auth.accounts import Caller
from app.clock import later, new_id, time_text
from app.engine.kept import QUOTE_SECONDS, drop_lapsed, ordered_before
from app.engine.lines import below_ceiling
from app.engine.quoting import Selection, check_licence, offer
from app.engine.state import offered_laws
from app.errors import ConflictError, NotFoundError, QuoteExpiredError
from app.ledger.budget import charge_of, check_pace, nano_text
from app.ledger.money import require_funds
from app.settings import Settings
from app.store.schema import orders, threshold_orders, threshold_quotes
from app.thresholds.plans import Plan, Planned, plan_threshold
from app.thresholds.shapes import ThresholdLookView, ThresholdQuoteView, ThresholdRequest
from pricing.money import Money
from tiers.canonical import canonical_bytes

__all__ = ["Question", "key_of_look", "offer_look", "offer_threshold", "open_question", "question_of"]

_LOOK = "\x1e"  # no caller's key holds it


@dataclass(frozen=True, slots=True)
class Question:
    """A question as ordered, and the orders of its looks so far, lowest tier first."""

    id: str
    plan: Plan
    at: str
    sold: tuple[Row[Any], ...]

    @property
    def paid_minor(self) -> int:
        """Return what its orders came to."""
        return sum(row.amount_minor for row in self.sold)


def offer_threshold(
    connection: Connection, settings: Settings, caller: Caller, product: str, asked: ThresholdRequest, now: datetime
) -> ThresholdQuoteView:
    """Quote a question and store the quote; reserves nothing, reveals nothing. Raises as `plan_threshold` does."""
    planned = plan_threshold(connection, settings, caller, product, asked)
    drop_lapsed(connection, threshold_quotes, caller, now)
    identity, expires = new_id("quote"), time_text(later(now, QUOTE_SECONDS))
    connection.execute(
        threshold_quotes.insert().values(
            id=identity, account_id=caller.id, plan_json=_text(planned.plan), expires_at=expires
        )
    )
    plan = planned.plan
    return ThresholdQuoteView(
        quote=identity,
        product=plan.product,
        chain=plan.chain,
        above=plan.above,
        beta=plan.beta,
        key=plan.key,
        looks=[
            ThresholdLookView(
                law=look.law,
                rank=look.rank,
                epsilon=look.epsilon,
                half_width=str(look.half_width),
                amount_minor=amount,
                charge=nano_text(charge),
            )
            for look, (amount, charge) in zip(plan.looks, planned.so_far, strict=True)
        ],
        most_minor=plan.most_minor,
        most_charge=nano_text(planned.so_far[-1][1]),
        currency=plan.currency,
        licence=plan.licence,
        expires_at=expires,
    )


def open_question(
    connection: Connection,
    settings: Settings,
    caller: Caller,
    quote_id: str,
    key: str,
    licence: str | None,
    now: datetime,
) -> str:
    """Take an order of a question, or find the one that this idempotency key took; return its id.

    Admitted as a whole before anything is revealed: rights, the price, money for the most that it may cost, and budget,
    quota and window for the most that it may charge. Nothing is set aside: each tier is admitted again when it is sold.

    Raises:     QuoteExpiredError: too late, or it would cost more now, or look at other tiers. InsufficientFundsError,
                BudgetRefusedError: not all of it would be admitted. IdempotencyError: the key is another order's.
                NotFoundError: no such quote. InvalidRequestError, ConflictError: the licence; and as `plan_threshold`.
    """
    digest = hashlib.sha256(canonical_bytes({"threshold": quote_id})).hexdigest()
    known = ordered_before(connection, threshold_orders, caller, key, digest)
    if known is not None:
        check_licence(_plan(known.plan_json).licence, caller, licence)
        return str(known.id)
    cited = (threshold_quotes.c.id == quote_id) & (threshold_quotes.c.account_id == caller.id)
    row = connection.execute(select(threshold_quotes).where(cited)).one_or_none()
    if row is None:
        raise NotFoundError("quote: expected one of the caller's own, of a threshold, got another id")
    plan = _plan(row.plan_json)
    check_licence(plan.licence, caller, licence)
    if not time_text(now) < row.expires_at:
        raise QuoteExpiredError("quote: expected one that is still open, got one that has expired")
    _admit(connection, settings, caller, plan, now)
    connection.execute(delete(threshold_quotes).where(cited))
    identity = new_id("order")
    connection.execute(
        threshold_orders.insert().values(
            id=identity,
            account_id=caller.id,
            idempotency_key=key,
            request_digest=digest,
            product_id=plan.product,
            plan_json=row.plan_json,
            created_at=time_text(now),
        )
    )
    return identity


def question_of(connection: Connection, account: str, order: str) -> Question:
    """Return one of an account's questions with what it has bought; raises NotFoundError."""
    mine = (threshold_orders.c.account_id == account) & (threshold_orders.c.id == order)
    row = connection.execute(select(threshold_orders).where(mine)).one_or_none()
    if row is None:
        raise NotFoundError("order: expected one of the caller's own threshold orders, got another id")
    plan = _plan(row.plan_json)
    return Question(row.id, plan, row.created_at, _sold(connection, account, row.id, plan))


def offer_look(
    connection: Connection, settings: Settings, caller: Caller, order: str, place: int, now: datetime
) -> str | None:
    """Quote a question's next tier as any tier is quoted and return the quote's id; None where it is sold already.

    Raises:     QuoteExpiredError: what the question comes to with it is more than was agreed. And as `offer` does.
    """
    question = question_of(connection, caller.id, order)
    plan, look = question.plan, question.plan.looks[place]
    if len(question.sold) > place:
        return None
    offered = offer(connection, settings, caller, plan.product, Selection(law=look.law), now)
    whole = question.paid_minor + int(offered["amount_minor"])
    if offered["currency"] != plan.currency or whole > plan.most_minor:
        raise QuoteExpiredError(
            f"price: expected at most {Money(plan.most_minor, plan.currency).text()} in all, as agreed, "
            f"got {Money(whole, offered['currency']).text()}"
        )
    if offered["licence"] != plan.licence:
        raise ConflictError("licence: expected the one in the quote, got another", licence=offered["licence"])
    return str(offered["quote"])


def key_of_look(order: str, place: int) -> str:
    """Return the key under which a question orders its tiers: a retry, or another worker, places the same orders."""
    return f"{order}{_LOOK}{place}"


def _admit(connection: Connection, settings: Settings, caller: Caller, plan: Plan, now: datetime) -> None:
    """Refuse a question that could not be answered in full now, before its first tier is revealed."""
    asked = ThresholdRequest(above=plan.above, beta=plan.beta, key=plan.key, highest=plan.looks[-1].epsilon)
    current = plan_threshold(connection, settings, caller, plan.product, asked)
    _confirm(plan, current)
    laws = offered_laws(connection, plan.product)
    due = charge_of(current.chain, current.top, lambda tier: tier.law in laws and below_ceiling(caller, tier))
    check_pace(connection, caller.id, current.chain, due, now)
    require_funds(connection, caller.id, Money(current.plan.most_minor, plan.currency))


def _confirm(plan: Plan, current: Planned) -> None:
    now = current.plan
    for name in ("chain", "looks", "currency", "licence"):
        if getattr(now, name) != getattr(plan, name):
            raise QuoteExpiredError(
                f"quote: expected what would be quoted now, got one that has changed since ({name})"
            )
    if now.most_minor > plan.most_minor:
        raise QuoteExpiredError("quote: expected the price of now, got one that has changed since (most_minor)")


def _sold(connection: Connection, account: str, order: str, plan: Plan) -> tuple[Row[Any], ...]:
    keys: Sequence[str] = [key_of_look(order, place) for place in range(len(plan.looks))]
    mine = (orders.c.account_id == account) & orders.c.idempotency_key.in_(keys)
    found = {row.idempotency_key: row for row in connection.execute(select(orders).where(mine))}
    return tuple(found[key] for key in keys if key in found)


def _plan(text: str) -> Plan:
    return msgspec.json.decode(text, type=Plan)


def _text(plan: Plan) -> str:
    return msgspec.json.encode(plan).decode()
