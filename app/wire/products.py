"""Bodies about products: published, priced, moved, withdrawn, rehearsed."""

from typing import Annotated, Literal

from msgspec import Meta

from app.queries.model import Query
from app.wire.base import Currency, Decimal, Family, Identity, LawName, Line, Minor, Paragraph, RequestBody

__all__ = ["BookRequest", "ProductRequest", "RehearsalRequest", "StateRequest", "TierRequest", "WithdrawalRequest"]


class StateRequest(RequestBody, frozen=True, kw_only=True):
    """Where a product, a bundle or a panel goes: on sale or off it."""

    state: Literal["live", "retired"]


class BookRequest(RequestBody, frozen=True, kw_only=True):
    """New prices of a product's chain, one for each of its tiers, most accurate first."""

    currency: Currency
    prices_minor: Annotated[tuple[Minor, ...], Meta(min_length=1, max_length=64)]


class TierRequest(RequestBody, frozen=True, kw_only=True):
    """One rung of a ladder with its price."""

    epsilon: Decimal
    price_minor: Minor


class ProductRequest(RequestBody, frozen=True, kw_only=True):
    """A product: a question on a dataset and its tiers, most accurate first.

    `family` is one family of noise for all tiers, or "auto" for the least noisy one on each; `delta` is the δ of all
    tiers, 0 for pure ones. On a question that has a chain, tiers that it lacks are added to it.
    """

    dataset: Identity
    title: Line
    description: Paragraph = ""
    unit_label: Line
    left_out: Paragraph
    licence: Line
    currency: Currency
    query: Query
    tiers: Annotated[tuple[TierRequest, ...], Meta(min_length=1, max_length=64)]
    family: Family = "auto"
    delta: Decimal = "0"
    state: Literal["draft", "live"] = "live"


class WithdrawalRequest(RequestBody, frozen=True, kw_only=True):
    """Why a product goes off sale; the reason is public.

    A faulty one's orders are all credited with what was paid for them and not given back yet.
    """

    reason: Line
    faulty: bool = False


class RehearsalRequest(RequestBody, frozen=True, kw_only=True):
    """A tier to rehearse, by its ε or its law; the most accurate one unless given."""

    law: LawName | None = None
    epsilon: Decimal | None = None
