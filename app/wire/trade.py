"""Bodies of trade: quotes, orders, credits, payouts, exports."""

from typing import Annotated, Literal

from msgspec import Meta

from app.exports.requests import Exported
from app.wire.base import Currency, Decimal, Identity, LawName, Line, RequestBody

__all__ = ["CreditRequest", "ExportRequest", "OrderRequest", "PayoutRequest", "QuoteRequest"]


class QuoteRequest(RequestBody, frozen=True, kw_only=True):
    """A tier of a product, asked for by exactly one of: its law, its ε, or the widest 95 % error bar accepted.

    A mean's bar depends on how many rows there are: with `within` it needs `rows`, the fewest to reckon with.
    """

    product: Identity
    law: LawName | None = None
    epsilon: Decimal | None = None
    within: Decimal | None = None
    rows: Annotated[int, Meta(ge=1, le=2**53 - 1)] | None = None


class OrderRequest(RequestBody, frozen=True, kw_only=True):
    """An order cites a quote and accepts the licence in it, by its name; only an analyst, who pays nothing, may not."""

    quote: Identity
    licence: Line | None = None


class CreditRequest(RequestBody, frozen=True, kw_only=True):
    """Money of one order to be given back, and why: only for a duplicate, a pricing error or a faulty product.

    `line_no`: the invoice's line, from 1; without it, from the first line that has something left.
    """

    amount_minor: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    line_no: Annotated[int, Meta(ge=1, le=16)] | None = None
    reason: Literal["duplicate charge", "pricing error", "faulty product"]


class PayoutRequest(RequestBody, frozen=True, kw_only=True):
    """Pay owners what is due in one currency."""

    currency: Currency


class ExportRequest(RequestBody, frozen=True, kw_only=True):
    """What is to be exported: the caller's answers, a dataset's sales, or the auditor's whole log."""

    what: Exported
