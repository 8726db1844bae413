"""The register of accounts and keys as operators read it."""

from typing import Any

from sqlalchemy import Connection, Row, select

from app.auth.accounts import Role, holder_of
from app.errors import NotFoundError
from app.ledger.budget import nano_text
from app.store.paging import rows_after
from app.store.schema import accounts, api_keys
from app.views import HolderView, KeyView

__all__ = ["holder_view", "holders", "key_view", "keys_of"]

_PEOPLE = accounts.c.role.in_([role.value for role in Role])  # the market's own accounts of fees have no holder


def holders(connection: Connection, *, after: str | None, count: int) -> list[HolderView]:
    """Return up to `count` accounts in order of creation, from the one after account `after`.

    Raises:     InvalidRequestError: `after` is no account.
    """
    place = (accounts.c.created_at, accounts.c.id)
    return [
        _holder(row) for row in rows_after(connection, select(accounts), place, of=_PEOPLE, after=after, count=count)
    ]


def holder_view(connection: Connection, account: str) -> HolderView:
    """Return one account; raises NotFoundError."""
    row = connection.execute(select(accounts).where(_PEOPLE, accounts.c.id == account)).one_or_none()
    if row is None:
        raise NotFoundError("account: expected an existing account, got another id")
    return _holder(row)


def keys_of(connection: Connection, account: str, *, after: str | None, count: int) -> list[KeyView]:
    """Return up to `count` keys of an account in order of issue, from the one after key `after`.

    Raises:     NotFoundError: there is no such account. InvalidRequestError: `after` is no key of it.
    """
    holder_of(connection, account)
    place, mine = (api_keys.c.created_at, api_keys.c.id), api_keys.c.account_id == account
    return [_key(row) for row in rows_after(connection, select(api_keys), place, of=mine, after=after, count=count)]


def key_view(connection: Connection, account: str, key: str, api_key: str | None = None) -> KeyView:
    """Return one key of an account, with the key itself where it was issued just now."""
    wanted = select(api_keys).where(api_keys.c.account_id == account, api_keys.c.id == key)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError("key: expected a key of that account, got another id")
    return _key(row, api_key)


def _holder(row: Row[Any]) -> HolderView:
    return HolderView(
        account=row.id,
        role=row.role,
        name=row.name,
        pseudonym=row.pseudonym,
        balance_minor=row.balance_minor,
        currency=row.currency,
        ceiling=None if row.ceiling_nano is None else nano_text(row.ceiling_nano),
        created_at=row.created_at,
        suspended_at=row.suspended_at,
        suspension_reason=row.suspension_reason,
    )


def _key(row: Row[Any], api_key: str | None = None) -> KeyView:
    return KeyView(
        key=row.id,
        prefix=row.prefix,
        label=row.label,
        created_at=row.created_at,
        revoked_at=row.revoked_at,
        api_key=api_key,
    )
