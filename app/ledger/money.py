"""Accounts' money: postings that are never edited, and a balance that the store keeps from falling below zero."""

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.exc import IntegrityError as ConstraintError

from app.errors import ConflictError, InsufficientFundsError, NotFoundError
from app.store.schema import accounts, credit_notes, orders, postings
from pricing.money import Money

__all__ = ["balance", "market_account", "net_paid", "post"]


def balance(connection: Connection, account: str) -> Money:
    """Return what an account holds; raises NotFoundError."""
    wanted = select(accounts.c.balance_minor, accounts.c.currency).where(accounts.c.id == account)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError("account: expected an existing id, got another")
    return Money(row.balance_minor, row.currency)


def net_paid(connection: Connection, account: str, chain: str, table: Table = orders) -> int:
    """Return what an account has paid on a chain less what was credited, in minor units.

    Args:       table: whose orders: of products, or of panels, whose chains are their rounds.
    """
    mine = (table.c.account_id == account) & (table.c.chain_id == chain)
    paid = select(func.coalesce(func.sum(table.c.amount_minor), 0)).where(mine)
    credited = (
        select(func.coalesce(func.sum(credit_notes.c.amount_minor), 0))
        .join(table, table.c.id == credit_notes.c.order_id)
        .where(mine)
    )
    return int(connection.execute(paid).scalar_one()) - int(connection.execute(credited).scalar_one())


def market_account(connection: Connection, currency: str, at: str) -> str:
    """Return the market's own account of a currency, opened when it is first needed: it holds fees and suspense."""
    account = f"market_{currency.lower()}"
    if connection.execute(select(accounts.c.id).where(accounts.c.id == account)).one_or_none() is None:
        row = {"id": account, "role": "market", "name": f"market, {currency}", "pseudonym": account}
        connection.execute(
            accounts.insert().values(**row, currency=currency, balance_minor=0, ceiling_nano=None, created_at=at)
        )
    return account


def post(
    connection: Connection, account: str, kind: str, amount: Money, reference: str, at: str, *, may_owe: bool = False
) -> Money:
    """Post an amount (negative for a payment) once a reference, and return the new balance.

    Args:       may_owe: whether the balance may fall below zero (the market's own may, until earnings make it up).
    Raises:     InsufficientFundsError: the balance would fall below zero. ConflictError: the reference was posted.
                CurrencyMismatchError: the account is kept in another currency.
    """
    held = balance(connection, account)
    after = held + amount
    if after.amount < 0 and not may_owe:
        raise InsufficientFundsError(
            f"balance: expected at least {(-amount).text()}, got {held.text()}",
            price=(-amount).amount,
            balance=held.amount,
            currency=held.currency,
        )
    connection.execute(accounts.update().where(accounts.c.id == account).values(balance_minor=after.amount))
    row = {"account_id": account, "kind": kind, "amount_minor": amount.amount, "currency": amount.currency}
    try:
        connection.execute(postings.insert().values(**row, reference=reference, at=at))
    except ConstraintError:
        raise ConflictError("posting: expected a new reference, got one that is posted") from None
    return after
