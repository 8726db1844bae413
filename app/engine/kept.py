"""Quotes and orders as they are kept: a table for each kind of good, whose columns for whom and when are the same."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Table, delete, select

from app.auth.accounts import Caller
from app.clock import later, time_text
from app.errors import IdempotencyError, NotFoundError
from app.views import QuoteLineView
from pricing.invoices import lines_of
from pricing.quote import Quote

__all__ = ["QUOTE_SECONDS", "drop_lapsed", "ordered_before", "panel_quote", "quote_lines", "refuse_another"]

QUOTE_SECONDS = 900
_KEPT_SECONDS = 3_600  # how long a lapsed quote is still known as one


def drop_lapsed(connection: Connection, quotes: Table, caller: Caller, now: datetime) -> None:
    """Delete the caller's quotes that lapsed a while ago: nothing refers to them, and they would pile up for ever."""
    over = time_text(later(now, -_KEPT_SECONDS))
    connection.execute(delete(quotes).where(quotes.c.account_id == caller.id, quotes.c.expires_at < over))


def panel_quote(connection: Connection, quotes: Table, caller: Caller, panel: str, quote_id: str) -> Row[Any]:
    """Return the caller's own quote on a panel; raises NotFoundError."""
    wanted = select(quotes).where(quotes.c.id == quote_id, quotes.c.account_id == caller.id)
    row = connection.execute(wanted.where(quotes.c.panel_id == panel)).one_or_none()
    if row is None:
        raise NotFoundError("quote: expected one of the caller's own on this panel, got another id")
    return row


def ordered_before(connection: Connection, orders: Table, caller: Caller, key: str, digest: str) -> Row[Any] | None:
    """Return the order that this idempotency key placed, if one did; raises as `refuse_another`."""
    mine = select(orders).where(orders.c.account_id == caller.id, orders.c.idempotency_key == key)
    row = connection.execute(mine).one_or_none()
    if row is not None:
        refuse_another(row, digest)
    return row


def refuse_another(row: Row[Any], digest: str) -> None:
    """Refuse a key that placed an order of another request; raises IdempotencyError."""
    if row.request_digest != digest:
        raise IdempotencyError("Idempotency-Key: expected a new key for a new request, got one that is used")


def quote_lines(offered: Quote) -> list[QuoteLineView]:
    """Return what a quote's amount is made of, line by line."""
    return [QuoteLineView(kind=line.kind, text=line.text, amount_minor=line.amount) for line in lines_of(offered)]
