"""What a caller has bought of location panels, in the views that orders and entitlements have."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from app.ledger.budget import nano_text
from app.store.location_schema import location_orders, location_panels, location_queries
from app.views import EntitlementView, OrderView

__all__ = ["location_entitlements", "location_orders_of"]


def location_orders_of(connection: Connection, account: str, after: int, count: int) -> list[OrderView]:
    """Return an account's orders of answers about places; the panel is their product, and ρ stands where ε does."""
    return [
        OrderView.of(row, row.panel_id, nano_text(row.budget_nano))
        for row in _orders(connection, account, after, count, first=False)
    ]


def location_entitlements(connection: Connection, account: str, after: int, count: int) -> list[EntitlementView]:
    """Return the answers about places that an account may read, each once."""
    return [
        EntitlementView.of(
            row, row.panel_id, 1, nano_text(row.budget_nano), f"/v1/locations/{row.panel_id}/answers/{row.chain_id}"
        )
        for row in _orders(connection, account, after, count, first=True)
    ]


def _orders(connection: Connection, account: str, after: int, count: int, *, first: bool) -> Sequence[Row[Any]]:
    """Return an account's orders after a leaf; `first`: only the first of each question."""
    answered = (location_queries.c.panel_id == location_orders.c.panel_id) & (
        location_queries.c.query == location_orders.c.chain_id
    )
    wanted = (
        select(location_orders, location_panels.c.title, location_queries.c.budget_nano)
        .join(location_panels, location_panels.c.id == location_orders.c.panel_id)
        .join(location_queries, answered)
        .where(location_orders.c.account_id == account, location_orders.c.leaf_index > after)
    )
    if first:
        again = location_orders.alias()
        earlier = select(again.c.id).where(
            again.c.account_id == account,
            again.c.chain_id == location_orders.c.chain_id,
            again.c.leaf_index < location_orders.c.leaf_index,
        )
        wanted = wanted.where(~earlier.exists())
    return connection.execute(wanted.order_by(location_orders.c.leaf_index).limit(count)).all()
