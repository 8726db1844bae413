"""Invoices as issued, and credit notes beside them: what was learned cannot be returned, money can.

Both are numbered without a gap, each in its own series, in the transaction that issues them: the store has one writer.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select

from app.errors import NotFoundError
from app.keyring import Keyring
from app.ledger.amounts import stored_quote
from app.ledger.earnings import reverse_sale, stored_split
from app.ledger.money import market_account, post
from app.ledger.sold import sold_orders
from app.log.journal import append
from app.log.leaves import CreditLeaf
from app.store.schema import accounts, credit_notes, invoices, orders
from pricing.invoices import CreditNote, Invoice, allot, credit, lines_of
from pricing.money import Money
from pricing.owners import reverse_part

__all__ = ["credit_faulty", "credit_order", "invoice_of", "issue_invoice"]


def issue_invoice(connection: Connection, order: str) -> int:
    """Give an order the next number of the invoices' series and return it."""
    number = int(connection.execute(select(func.coalesce(func.max(invoices.c.number), 0))).scalar_one()) + 1
    connection.execute(invoices.insert().values(number=number, order_id=order))
    return number


def invoice_of(connection: Connection, account: str, order: str) -> tuple[Invoice, tuple[CreditNote, ...]]:
    """Return an order's invoice, which never changes, and its credit notes; raises NotFoundError."""
    row = connection.execute(_issued(order).where(accounts.c.id == account)).one_or_none()
    if row is None:
        raise NotFoundError("order: expected one of the caller's own, got another id")
    return _invoice(row), _notes(connection, row)


def credit_order(
    connection: Connection,
    keyring: Keyring,
    order: str,
    amount_minor: int,
    reason: str,
    at: str,
    line_no: int | None = None,
) -> tuple[CreditNote, ...]:
    """Give money of an order back: buyer credited, market and owners debited by the stored lines, a leaf in the log.

    One note for each invoice line that is credited; without a line, from the first one that has something left. The
    market books it whatever it holds: what owners were paid already is made up by their later earnings. The entitlement
    stays, and so does the privacy charge: information cannot be recalled.

    Raises:     NotFoundError: no such order. OvercreditError: more than is left of the line, or of the invoice.
    """
    row = connection.execute(_issued(order)).one_or_none()
    if row is None:
        raise NotFoundError("order: expected an existing id, got another")
    invoice, prior = _invoice(row), _notes(connection, row)
    shares = allot(invoice, amount_minor, prior=prior) if line_no is None else ((line_no, amount_minor),)
    notes: list[CreditNote] = []
    for line, amount in shares:
        number = f"CN-{_notes_issued(connection) + 1:06d}"
        note = credit(invoice, line, amount, reason, prior=(*prior, *notes), number=number)
        _post(connection, keyring, row, note, (*prior, *notes), at)
        notes.append(note)
    return tuple(notes)


def _post(
    connection: Connection, keyring: Keyring, row: Row[Any], note: CreditNote, prior: Sequence[CreditNote], at: str
) -> None:
    money = Money(note.amount, row.currency)
    market = market_account(connection, row.currency, at)
    post(connection, market, "credit", -money, note.number, at, may_owe=True)
    post(connection, row.account_id, "credit", money, note.number, at)
    already = sum(earlier.amount for earlier in prior)
    split = reverse_part(stored_split(connection, row.id, row.amount_minor), note.amount, already)
    reverse_sale(connection, split, row.currency, note.number, at)
    connection.execute(
        credit_notes.insert().values(
            id=note.number,
            order_id=row.id,
            line_no=note.line_no,
            amount_minor=note.amount,
            reason=note.reason,
            at=at,
        )
    )

    def leaf(index: int) -> CreditLeaf:
        return CreditLeaf(
            index=index,
            at=at,
            note=note.number,
            order=row.id,
            amount_minor=note.amount,
            currency=row.currency,
            reason=note.reason,
        )

    append(connection, keyring, at, [leaf])


def _issued(order: str) -> Any:
    sold = sold_orders()
    return (
        select(sold, accounts.c.pseudonym, invoices.c.number)
        .join(accounts, accounts.c.id == sold.c.account_id)
        .join(invoices, invoices.c.order_id == sold.c.id)
        .where(sold.c.id == order)
    )


def credit_faulty(connection: Connection, keyring: Keyring, product: str, at: str) -> int:
    """Give back all that was paid for a faulty product and not credited yet; return how many notes were written.

    Analysts paid nothing and get no note. Answers stay with those who hold them, charges stay charged.
    """
    bought = (
        select(orders.c.id, orders.c.amount_minor).where(orders.c.product_id == product).order_by(orders.c.leaf_index)
    )
    notes = 0
    for order, paid in connection.execute(bought).all():
        given = select(func.coalesce(func.sum(credit_notes.c.amount_minor), 0)).where(credit_notes.c.order_id == order)
        left = paid - int(connection.execute(given).scalar_one())
        if left > 0:
            notes += len(credit_order(connection, keyring, order, left, "faulty product", at))
    return notes


def _invoice(row: Row[Any]) -> Invoice:
    """Lines come from amounts alone: neither rank nor version of the book is in them."""
    offered = stored_quote(row, row.chain_id, rank=1, book_version=1)
    return Invoice(_number(row), row.pseudonym, row.currency, lines_of(offered))


def _number(row: Row[Any]) -> str:
    return f"INV-{row.number:06d}"


def _notes_issued(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(credit_notes)).scalar_one())


def _notes(connection: Connection, row: Row[Any]) -> tuple[CreditNote, ...]:
    wanted = (
        select(credit_notes).where(credit_notes.c.order_id == row.id).order_by(credit_notes.c.at, credit_notes.c.id)
    )
    return tuple(
        CreditNote(note.id, _number(row), note.line_no, note.amount_minor, note.reason)
        for note in connection.execute(wanted)
    )
