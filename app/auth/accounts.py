"""Accounts and API keys: a key is shown once and stored as an HMAC."""

import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, select

from app.clock import new_id
from app.errors import NotFoundError
from app.keyring import Keyring
from app.store.schema import accounts, api_keys

__all__ = ["Caller", "NewAccount", "Role", "create_account", "find_caller", "holder_of"]


class Role(StrEnum):
    """What an account is for; a route names the roles it serves."""

    OWNER = "owner"
    BUYER = "buyer"
    ANALYST = "analyst"
    AUDITOR = "auditor"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Caller:
    """The account behind a request. `ceiling_nano` is an analyst's highest tier level (10⁻⁹ ε), None for no ceiling."""

    id: str
    role: Role
    pseudonym: str
    ceiling_nano: int | None


@dataclass(frozen=True, slots=True, repr=False)
class NewAccount:
    """A fresh account and its API key, which exists nowhere else in clear."""

    id: str
    role: Role
    api_key: str


def create_account(
    connection: Connection,
    keyring: Keyring,
    *,
    role: Role,
    name: str,
    currency: str,
    at: str,
    ceiling_nano: int | None = None,
) -> NewAccount:
    """Create an account with one API key; its pseudonym in the log is random, not derived from anything."""
    account, key = new_id("acc"), f"tm_{secrets.token_urlsafe(32)}"
    connection.execute(
        accounts.insert().values(
            id=account,
            role=role.value,
            name=name,
            pseudonym=new_id("p"),
            currency=currency,
            balance_minor=0,
            ceiling_nano=ceiling_nano,
            created_at=at,
        )
    )
    connection.execute(
        api_keys.insert().values(
            key_digest=keyring.key_digest(key), account_id=account, prefix=key[:7], created_at=at, revoked_at=None
        )
    )
    return NewAccount(account, role, key)


def find_caller(connection: Connection, key_digest: str) -> Caller | None:
    """Return the account of a live API key, or None."""
    wanted = (
        select(accounts.c.id, accounts.c.role, accounts.c.pseudonym, accounts.c.ceiling_nano)
        .join(api_keys, api_keys.c.account_id == accounts.c.id)
        .where(api_keys.c.key_digest == key_digest, api_keys.c.revoked_at.is_(None))
    )
    row = connection.execute(wanted).one_or_none()
    return None if row is None else Caller(row.id, Role(row.role), row.pseudonym, row.ceiling_nano)


def holder_of(connection: Connection, account: str) -> Caller:
    """Return an account by its id; raises NotFoundError."""
    row = connection.execute(select(accounts).where(accounts.c.id == account)).one_or_none()
    if row is None:
        raise NotFoundError("account: expected an existing account, got another id")
    return Caller(row.id, Role(row.role), row.pseudonym, row.ceiling_nano)
