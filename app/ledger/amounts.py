"""The amounts of a quote as rows keep them: quotes' and orders' rows, of panels too, have the same columns for them."""

from typing import Any

from sqlalchemy import Row

from pricing.quote import Quote

__all__ = ["amounts_of", "stored_quote"]


def amounts_of(offered: Quote) -> dict[str, int | str]:
    """Return the columns that a quote's or an order's row has for what is paid.

    Example:
        >>> amounts_of(Quote(700, 900, 200, 0, "EUR", 1, 1, "chain", "law"))["credit_minor"]
        200
    """
    return {
        "amount_minor": offered.amount,
        "list_minor": offered.list_price,
        "credit_minor": offered.credit,
        "reserve_minor": offered.reserve,
        "discount_minor": offered.discount,
        "currency": offered.currency,
    }


def stored_quote(row: Row[Any], chain: str, rank: int, book_version: int) -> Quote:
    """Return the quote that a quote's or an order's row was written from."""
    return Quote(
        amount=row.amount_minor,
        list_price=row.list_minor,
        credit=row.credit_minor,
        reserve=row.reserve_minor,
        currency=row.currency,
        book_version=book_version,
        rank=rank,
        chain_id=chain,
        law=row.law,
        discount=row.discount_minor,
    )
