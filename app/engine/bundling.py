"""A bundle in a sale: its price while the quote of it still holds, and the one order that its lines belong to."""

from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row

from app.auth.accounts import Caller
from app.catalog.bundle_contents import parts_of_bundle
from app.catalog.bundles import bundle_on_sale, price_of_bundle
from app.clock import new_id
from app.engine.lines import refuse_above_ceiling
from app.errors import QuoteExpiredError
from app.store.schema import bundle_sales

__all__ = ["bundle_price_now", "open_sale"]


def bundle_price_now(connection: Connection, caller: Caller, cited: Row[Any]) -> int:
    """Return the price of the bundle that a quote is of.

    Raises:     ForbiddenError: a part is above the role's ceiling. ConflictError: the bundle is off sale.
                QuoteExpiredError: its price has another version since.
    """
    row = bundle_on_sale(connection, cited.bundle_id)
    if row.version != cited.bundle_version:
        raise QuoteExpiredError("quote: expected the price of now, got one that has changed since (bundle_version)")
    for part in parts_of_bundle(connection, row.id):
        refuse_above_ceiling(caller, Fraction(part.tier.epsilon))
    return price_of_bundle(connection, row)


def open_sale(connection: Connection, account: str, cited: Row[Any], at: str) -> str:
    """Store the one order of a bundle, before its lines; return its id."""
    sale = new_id("order")
    connection.execute(
        bundle_sales.insert().values(
            id=sale, account_id=account, bundle_id=cited.bundle_id, version=cited.bundle_version, created_at=at
        )
    )
    return sale
