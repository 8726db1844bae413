"""Invoices as issued, and credit notes beside them: what was learned cannot be returned, money can."""

from typing import Any

from sqlalchemy import Connection, Row, func, select

from app.clock import new_id
from app.errors import NotFoundError
from app.keyring import Keyring
from app.ledger.earnings import reverse_sale, stored_split
from app.ledger.money import market_account, post
from app.log.journal import append
from app.log.leaves import CreditLeaf
from app.store.schema import accounts, credit_notes, orders
from pricing.invoices import Charge, CreditNote, Invoice, Line, credit, lines_of
from pricing.money import Money
from pricing.owners import reverse_part
from pricing.quote import Quote

__all__ = ["credit_faulty", "credit_order", "invoice_of"]


def invoice_of(connection: Connection, account: str, order: str) -> tuple[Invoice, tuple[CreditNote, ...]]:
    """Return an order's invoice, which never changes, and its credit notes; raises NotFoundError."""
    row = connection.execute(
        select(orders, accounts.c.pseudonym)
        .join(accounts, accounts.c.id == orders.c.account_id)
        .where(orders.c.id == order, orders.c.account_id == account)
    ).one_or_none()
    if row is None:
        raise NotFoundError("order: expected one of the caller's own, got another id")
    return _invoice(row), _notes(connection, row)


def credit_order(
    connection: Connection, keyring: Keyring, order: str, amount_minor: int, reason: str, at: str
) -> CreditNote:
    """Give money of an order back: buyer credited, market and owners debited by the stored lines, a leaf in the log.

    The entitlement stays, and so does the privacy charge: information cannot be recalled.

    Raises:     NotFoundError: no such order. OvercreditError: more than the invoice's line, in all.
    """
    row = connection.execute(
        select(orders, accounts.c.pseudonym)
        .join(accounts, accounts.c.id == orders.c.account_id)
        .where(orders.c.id == order)
    ).one_or_none()
    if row is None:
        raise NotFoundError("order: expected an existing id, got another")
    prior = _notes(connection, row)
    number = new_id("note")
    note = credit(_paid_invoice(row), 1, amount_minor, reason, prior=prior, number=number)
    already = sum(earlier.amount for earlier in prior)
    money = Money(note.amount, row.currency)
    post(connection, market_account(connection, row.currency, at), "credit", -money, number, at)
    post(connection, row.account_id, "credit", money, number, at)
    split = reverse_part(stored_split(connection, order, row.amount_minor), note.amount, already)
    reverse_sale(connection, split, row.currency, number, at)
    connection.execute(
        credit_notes.insert().values(
            id=number, order_id=order, line_no=note.line_no, amount_minor=note.amount, reason=reason, at=at
        )
    )
    append(
        connection,
        keyring,
        at,
        [
            lambda index: CreditLeaf(
                index=index,
                at=at,
                note=number,
                order=order,
                amount_minor=note.amount,
                currency=row.currency,
                reason=reason,
            )
        ],
    )
    return note


def credit_faulty(connection: Connection, keyring: Keyring, product: str, at: str) -> int:
    """Give back all that was paid for a faulty product and not credited yet; return how many notes were written.

    Analysts paid nothing and get no note. Answers stay with those who hold them, charges stay charged.

    Raises:     InsufficientFundsError: the market's own account does not hold as much; nothing is credited.
    """
    bought = (
        select(orders.c.id, orders.c.amount_minor).where(orders.c.product_id == product).order_by(orders.c.leaf_index)
    )
    notes = 0
    for order, paid in connection.execute(bought).all():
        given = select(func.coalesce(func.sum(credit_notes.c.amount_minor), 0)).where(credit_notes.c.order_id == order)
        left = paid - int(connection.execute(given).scalar_one())
        if left > 0:
            credit_order(connection, keyring, order, left, "faulty product", at)
            notes += 1
    return notes


def _invoice(row: Row[Any]) -> Invoice:
    offered = Quote(
        row.amount_minor, row.list_minor, row.credit_minor, row.reserve_minor, row.currency, 1, 1, row.chain_id, row.law
    )
    return Invoice(f"INV-{row.leaf_index}", row.pseudonym, row.currency, lines_of(offered))


def _paid_invoice(row: Row[Any]) -> Invoice:
    """The invoice as one line of what was paid: credits are bounded by that, not by the list price."""
    line = Line(Charge.LIST, "paid", row.amount_minor)
    return Invoice(f"INV-{row.leaf_index}", row.pseudonym, row.currency, (line,))


def _notes(connection: Connection, row: Row[Any]) -> tuple[CreditNote, ...]:
    wanted = (
        select(credit_notes).where(credit_notes.c.order_id == row.id).order_by(credit_notes.c.at, credit_notes.c.id)
    )
    return tuple(
        CreditNote(note.id, f"INV-{row.leaf_index}", note.line_no, note.amount_minor, note.reason)
        for note in connection.execute(wanted)
    )
