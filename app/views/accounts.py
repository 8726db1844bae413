"""Accounts, their keys and their money, as holders and operators see them."""

import msgspec

__all__ = ["AccountView", "HolderView", "KeyView", "PostingView"]


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """An account as its holder sees it; `api_key` only in the answer that creates it."""

    account: str
    role: str
    pseudonym: str
    balance_minor: int
    currency: str
    ceiling: str | None = None
    api_key: str | None = None


class PostingView(msgspec.Struct, frozen=True, kw_only=True):
    """Money into (or, negative, out of) an account: `entry` counts within the account, `reference` says what for."""

    entry: int
    kind: str
    amount_minor: int
    currency: str
    reference: str
    at: str


class HolderView(msgspec.Struct, frozen=True, kw_only=True):
    """An account as operators see it."""

    account: str
    role: str
    name: str
    pseudonym: str
    balance_minor: int
    currency: str
    ceiling: str | None
    created_at: str
    suspended_at: str | None
    suspension_reason: str | None


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as operators see it; `api_key` only in the answer that issues it."""

    key: str
    prefix: str
    label: str
    created_at: str
    revoked_at: str | None
    api_key: str | None = None
