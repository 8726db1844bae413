"""Accounts' money: postings that are never edited, and a balance that the store keeps from falling below zero."""

from functools import cache

from sqlalchemy import Connection, Select, Table, bindparam, func, select
from sqlalchemy.exc import IntegrityError as ConstraintError

from app.errors import ConflictError, InsufficientFundsError, NotFoundError
from app.store.schema import accounts, credit_notes, orders, postings
from app.views import PostingView
from pricing.money import Money

__all__ = ["balance", "market_account", "net_paid", "post", "post_to_market", "postings_of", "require_funds"]

_BALANCE = select(accounts.c.balance_minor, accounts.c.currency).where(accounts.c.id == bindparam("account"))
_CHANGE = accounts.update().where(accounts.c.id == bindparam("account")).values(balance_minor=bindparam("after"))


def balance(connection: Connection, account: str) -> Money:
    """Return what an account holds; raises NotFoundError."""
    row = connection.execute(_BALANCE, {"account": account}).one_or_none()
    if row is None:
        raise NotFoundError("account: expected an existing id, got another")
    return Money(row.balance_minor, row.currency)


def postings_of(connection: Connection, account: str, *, after: int, count: int) -> list[PostingView]:
    """Return up to `count` postings of an account after its `after`-th, oldest first, numbered within the account.

    Postings are never edited or removed, so an entry keeps its number; the store's own would tell of others' trades.
    """
    first = max(after, 0)
    wanted = select(postings).where(postings.c.account_id == account).order_by(postings.c.id)
    rows = connection.execute(wanted.offset(first).limit(count))
    return [
        PostingView(
            entry=first + place,
            kind=row.kind,
            amount_minor=row.amount_minor,
            currency=row.currency,
            reference=row.reference,
            at=row.at,
        )
        for place, row in enumerate(rows, start=1)
    ]


@cache
def _net(table: Table) -> Select[tuple[int, int]]:
    mine = (table.c.account_id == bindparam("account")) & (table.c.chain_id == bindparam("chain"))
    credited = select(func.coalesce(func.sum(credit_notes.c.amount_minor), 0)).join(
        table, table.c.id == credit_notes.c.order_id
    )
    return select(
        select(func.coalesce(func.sum(table.c.amount_minor), 0)).where(mine).scalar_subquery().label("paid"),
        credited.where(mine).scalar_subquery().label("credited"),
    )


def net_paid(connection: Connection, account: str, chain: str, table: Table = orders) -> int:
    """Return what an account has paid on a chain less what was credited, in minor units.

    Args:       table: whose orders: of products, or of panels, whose chains are their rounds.
    """
    row = connection.execute(_net(table), {"account": account, "chain": chain}).one()
    return int(row.paid) - int(row.credited)


def market_account(connection: Connection, currency: str, at: str) -> str:
    """Return the market's own account of a currency, opened when it is first needed: it holds fees and suspense."""
    account = _market(currency)
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
        raise _short_of(-amount, held)
    connection.execute(_CHANGE, {"account": account, "after": after.amount})
    row = {"account_id": account, "kind": kind, "amount_minor": amount.amount, "currency": amount.currency}
    try:
        connection.execute(postings.insert(), {**row, "reference": reference, "at": at})
    except ConstraintError:
        raise ConflictError("posting: expected a new reference, got one that is posted") from None
    return after


def require_funds(connection: Connection, account: str, price: Money) -> None:
    """Refuse a sale that an account cannot pay in all, before anything is drawn; raises InsufficientFundsError."""
    held = balance(connection, account)
    if price.amount > 0 and (held - price).amount < 0:
        raise _short_of(price, held)


def _short_of(price: Money, held: Money) -> InsufficientFundsError:
    return InsufficientFundsError(
        f"balance: expected at least {price.text()}, got {held.text()}",
        price=price.amount,
        balance=held.amount,
        currency=held.currency,
    )


def post_to_market(connection: Connection, kind: str, amount: Money, reference: str, at: str) -> None:
    """Post an amount to the market's own account of its currency; raises as `post`."""
    try:
        post(connection, _market(amount.currency), kind, amount, reference, at)
    except NotFoundError:
        post(connection, market_account(connection, amount.currency, at), kind, amount, reference, at)


def _market(currency: str) -> str:
    return f"market_{currency.lower()}"
