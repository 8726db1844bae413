"""Accounts and API keys: a key is shown once and stored as an HMAC."""

import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, select

from app.clock import new_id
from app.errors import AccountSuspendedError, ConflictError, NotFoundError
from app.keyring import Keyring
from app.store.schema import accounts, api_keys

__all__ = [
    "Caller",
    "NewAccount",
    "NewKey",
    "Role",
    "active_caller",
    "change_ceiling",
    "create_account",
    "find_caller",
    "holder_of",
    "issue_key",
    "revoke_key",
    "suspend_account",
]


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


@dataclass(frozen=True, slots=True, repr=False)
class NewKey:
    """A fresh API key: its id, which may be shown, and the key, which is shown once."""

    id: str
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
    account = new_id("acc")
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
    return NewAccount(account, role, issue_key(connection, keyring, account, "first", at).api_key)


def issue_key(connection: Connection, keyring: Keyring, account: str, label: str, at: str) -> NewKey:
    """Give an account one more API key."""
    identity, key = new_id("key"), f"tm_{secrets.token_urlsafe(32)}"
    connection.execute(
        api_keys.insert().values(
            key_digest=keyring.key_digest(key),
            id=identity,
            account_id=account,
            prefix=key[:7],
            label=label,
            created_at=at,
            revoked_at=None,
        )
    )
    return NewKey(identity, key)


def revoke_key(connection: Connection, account: str, key: str, at: str, *, keep: str) -> None:
    """Close a key for good; once closed it keeps the time of its first revocation.

    Raises:     NotFoundError: no such key of that account. ConflictError: it is the key with digest `keep`, which the
                operator calls with: an operator who closed it could not undo a mistake.
    """
    mine = (api_keys.c.id == key) & (api_keys.c.account_id == account)
    digest = connection.execute(select(api_keys.c.key_digest).where(mine)).scalar_one_or_none()
    if digest is None:
        raise NotFoundError("key: expected a key of that account, got another id")
    if hmac.compare_digest(digest, keep):
        raise ConflictError("key: expected another than the one this request came with, got that one")
    connection.execute(api_keys.update().where(mine, api_keys.c.revoked_at.is_(None)).values(revoked_at=at))


def suspend_account(connection: Connection, account: str, reason: str | None, at: str | None) -> None:
    """Suspend an account, or lift its suspension where `at` is None; its keys stay, and open nothing meanwhile."""
    holder_of(connection, account)
    values = {"suspended_at": at, "suspension_reason": reason}
    connection.execute(accounts.update().where(accounts.c.id == account).values(values))


def change_ceiling(connection: Connection, account: str, ceiling_nano: int) -> None:
    """Give an analyst another ceiling, for orders from now on; answers that are held stay readable.

    Raises:     NotFoundError: no such account. ConflictError: another role, which has no ceiling.
    """
    if holder_of(connection, account).role is not Role.ANALYST:
        raise ConflictError("account: expected an analyst's, got another role's")
    connection.execute(accounts.update().where(accounts.c.id == account).values(ceiling_nano=ceiling_nano))


def find_caller(connection: Connection, key_digest: str) -> Caller | None:
    """Return the account of a live API key, or None. Raises AccountSuspendedError.

    Keys are found by an HMAC under a secret pepper, so how far a guess agrees with a key cannot show in the time.
    """
    wanted = (
        select(
            accounts.c.id,
            accounts.c.role,
            accounts.c.pseudonym,
            accounts.c.ceiling_nano,
            accounts.c.suspended_at,
            api_keys.c.key_digest,
        )
        .join(api_keys, api_keys.c.account_id == accounts.c.id)
        .where(api_keys.c.key_digest == key_digest, api_keys.c.revoked_at.is_(None))
    )
    row = connection.execute(wanted).one_or_none()
    if row is None or not hmac.compare_digest(row.key_digest, key_digest):
        return None
    if row.suspended_at is not None:
        raise AccountSuspendedError("account: expected one that is not suspended, got a suspended one")
    return Caller(row.id, Role(row.role), row.pseudonym, row.ceiling_nano)


def active_caller(connection: Connection, account: str) -> Caller:
    """Return an account by its id as it may act now; raises NotFoundError, AccountSuspendedError."""
    holder = holder_of(connection, account)
    suspended = select(accounts.c.suspended_at).where(accounts.c.id == account)
    if connection.execute(suspended).scalar_one() is not None:
        raise AccountSuspendedError("account: expected one that is not suspended, got a suspended one")
    return holder


def holder_of(connection: Connection, account: str) -> Caller:
    """Return an account by its id; raises NotFoundError."""
    row = connection.execute(select(accounts).where(accounts.c.id == account)).one_or_none()
    if row is None or row.role not in tuple(Role):  # the market's own accounts have no holder
        raise NotFoundError("account: expected an existing account, got another id")
    return Caller(row.id, Role(row.role), row.pseudonym, row.ceiling_nano)
