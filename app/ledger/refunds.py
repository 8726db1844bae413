"""Invoices as issued, and credit notes beside them: what was learned cannot be returned, money can.

Both are numbered without a gap, each in its own series, in the transaction that issues them: the store has one writer.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, literal, select

from app.errors import NotFoundError
from app.keyring import Keyring
from app.ledger.amounts import stored_quote
from app.ledger.earnings import reverse_sale, stored_split
from app.ledger.loans import forgive
from app.ledger.money import market_account, post
from app.ledger.sold import sold_orders
from app.log.journal import append
from app.log.leaves import CreditLeaf
from app.store.schema import accounts, credit_notes, invoices, orders, products
from pricing.invoices import Charge, CreditNote, Invoice, Line, allot, credit, lines_of
from pricing.money import Money
from pricing.owners import reverse_part

__all__ = ["credit_faulty", "credit_order", "invoice_of", "issue_invoice"]

_ISSUED = select(func.coalesce(func.max(invoices.c.number), 0))


def issue_invoice(connection: Connection, order: str) -> int:
    """Give an order the next number of the invoices' series and return it."""
    number = int(connection.execute(_ISSUED).scalar_one()) + 1
    connection.execute(invoices.insert(), {"number": number, "order_id": order})
    return number


@dataclass(frozen=True, slots=True)
class _Bill:
    """What was invoiced together: one order, line by line, or the orders of a bundle, a line each."""

    invoice: Invoice
    rows: tuple[Row[Any], ...]

    def row(self, line: int) -> Row[Any]:
        """Return the order that a line is of; what no line is of, `credit` has refused."""
        return self.rows[line - 1] if len(self.rows) > 1 else self.rows[0]


def invoice_of(connection: Connection, account: str, order: str) -> tuple[Invoice, tuple[CreditNote, ...]]:
    """Return an order's invoice, which never changes, and its credit notes; raises NotFoundError.

    A bundle's is one, by the id of the whole or of any of its parts.
    """
    bill = _bill(connection, order)
    if bill is None or bill.rows[0].account_id != account:
        raise NotFoundError("order: expected one of the caller's own, got another id")
    return bill.invoice, _notes(connection, bill)


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
    stays, and so does the privacy charge: information cannot be recalled. Of a bundle, whose invoice has a line a part,
    the id of the whole, or that of a part for its own line; never more than was paid for the part. What a bundle lent
    stays lent, so later orders cost no less for it.

    Raises:     NotFoundError: no such order. OvercreditError: more than is left of the line, or of the invoice.
    """
    bill = _bill(connection, order)
    if bill is None:
        raise NotFoundError("order: expected an existing id, got another")
    prior = _notes(connection, bill)
    part = next((place for place, row in enumerate(bill.rows, start=1) if row.id == order), None)
    if line_no is None and len(bill.rows) > 1:
        line_no = part
    shares = allot(bill.invoice, amount_minor, prior=prior) if line_no is None else ((line_no, amount_minor),)
    notes: list[CreditNote] = []
    for line, amount in shares:
        number = f"CN-{_notes_issued(connection) + 1:06d}"
        note = credit(bill.invoice, line, amount, reason, prior=(*prior, *notes), number=number)
        row = bill.row(line)
        already = sum(each.amount for each in (*prior, *notes) if len(bill.rows) == 1 or each.line_no == line)
        _post(connection, keyring, row, note, already, at)
        notes.append(note)
    return tuple(notes)


def _post(connection: Connection, keyring: Keyring, row: Row[Any], note: CreditNote, already: int, at: str) -> None:
    money = Money(note.amount, row.currency)
    market = market_account(connection, row.currency, at)
    post(connection, market, "credit", -money, note.number, at, may_owe=True)
    post(connection, row.account_id, "credit", money, note.number, at)
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


def credit_faulty(connection: Connection, keyring: Keyring, product: str, at: str) -> int:
    """Give back all that was paid for a faulty product and not credited yet; return how many notes were written.

    What a bundle still lends on it is forgiven, so that other parts of the bundle cost what they do alone.
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
        forgive(connection, order)
    return notes


def _bill(connection: Connection, order: str) -> _Bill | None:
    """Return the invoice that an order, or a bundle's whole, stands on."""
    wanted = (
        select(orders, accounts.c.pseudonym, products.c.title)
        .join(accounts, accounts.c.id == orders.c.account_id)
        .join(products, products.c.id == orders.c.product_id)
        .order_by(orders.c.leaf_index)
    )
    rows = connection.execute(wanted.where((orders.c.id == order) | (orders.c.sale_id == order))).all()
    if rows and rows[0].sale_id is not None:
        rows = connection.execute(wanted.where(orders.c.sale_id == rows[0].sale_id)).all()
    if not rows:  # a panel's tier, sold alone
        sold = sold_orders()
        alone = select(sold, accounts.c.pseudonym, literal(None).label("sale_id")).join(
            accounts, accounts.c.id == sold.c.account_id
        )
        rows = connection.execute(alone.where(sold.c.id == order)).all()
    if not rows:
        return None
    first = rows[0]
    numbered = select(invoices.c.number).where(invoices.c.order_id == first.id)
    number = f"INV-{connection.execute(numbered).scalar_one():06d}"
    lines = lines_of(stored_quote(first, first.chain_id, rank=1, book_version=1))  # neither is in a line
    if first.sale_id is not None:
        lines = tuple(Line(Charge.BUNDLE_PART, row.title, row.amount_minor) for row in rows)
    return _Bill(Invoice(number, first.pseudonym, first.currency, lines), tuple(rows))


def _notes_issued(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(credit_notes)).scalar_one())


def _notes(connection: Connection, bill: _Bill) -> tuple[CreditNote, ...]:
    wanted = (
        select(credit_notes)
        .where(credit_notes.c.order_id.in_([row.id for row in bill.rows]))
        .order_by(credit_notes.c.at, credit_notes.c.id)
    )
    return tuple(
        CreditNote(note.id, bill.invoice.number, note.line_no, note.amount_minor, note.reason)
        for note in connection.execute(wanted)
    )
