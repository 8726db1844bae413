"""Bodies about accounts: opened, paid into, given keys and ceilings, suspended."""

from typing import Annotated, Literal

from msgspec import Meta

from app.wire.base import Currency, Decimal, Line, RequestBody

__all__ = ["AccountRequest", "CeilingRequest", "DepositRequest", "KeyRequest", "SuspensionRequest"]


class AccountRequest(RequestBody, frozen=True, kw_only=True):
    """A new account. `ceiling` is an analyst's highest ε; other roles have none."""

    role: Literal["owner", "buyer", "analyst", "auditor", "operator"]
    name: Line
    currency: Currency = "EUR"
    ceiling: Decimal | None = None


class DepositRequest(RequestBody, frozen=True, kw_only=True):
    """Money into an account; `reference` makes it one deposit, however often it is sent."""

    amount_minor: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    currency: Currency
    reference: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z._-]+\Z")]


class CeilingRequest(RequestBody, frozen=True, kw_only=True):
    """An analyst's new ceiling: the highest ε of a tier that may be ordered from now on."""

    ceiling: Decimal


class KeyRequest(RequestBody, frozen=True, kw_only=True):
    """One more API key; `label` is what operators know it by."""

    label: Line


class SuspensionRequest(RequestBody, frozen=True, kw_only=True):
    """Why an account is suspended."""

    reason: Line
