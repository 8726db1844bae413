"""What a caller has bought, in pages ordered by the log."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, select

from app.errors import NotEntitledError
from app.locations.holdings import location_entitlements, location_orders_of
from app.store.panel_schema import panel_orders, panels
from app.store.schema import chains, entitlements, orders, planned_tiers, products
from app.views import EntitlementView, OrderView

__all__ = ["entitled_product", "entitlements_of", "held_answers", "orders_of"]


def orders_of(connection: Connection, account: str, *, after: int, count: int) -> list[OrderView]:
    """Return up to `count` orders of an account after leaf `after`, oldest first; a panel is its orders' product."""
    wanted = _sold(orders.c.created_at).where(orders.c.account_id == account, orders.c.leaf_index > after)
    of_products = [
        OrderView.of(row, row.product_id, row.epsilon)
        for row in connection.execute(wanted.order_by(orders.c.leaf_index).limit(count))
    ]
    of_panels = [
        OrderView.of(row, row.panel_id, _epsilon(row)) for row in _panel_orders(connection, account, after, count)
    ]
    of_places = location_orders_of(connection, account, after, count)
    return sorted([*of_products, *of_panels, *of_places], key=lambda order: order.leaf_index)[:count]


def entitlements_of(connection: Connection, account: str, *, after: int, count: int) -> list[EntitlementView]:
    """Return up to `count` tiers that an account may read, in the order in which it first bought them."""
    of_products = _of_products(connection, account, after, count)
    of_panels = [
        EntitlementView.of(row, row.panel_id, row.rank + 1, _epsilon(row), _reports_of(row))
        for row in _panel_orders(connection, account, after, count, first=True)
    ]
    of_places = location_entitlements(connection, account, after, count)
    return sorted([*of_products, *of_panels, *of_places], key=lambda held: held.leaf_index)[:count]


def _of_products(connection: Connection, account: str, after: int, count: int) -> list[EntitlementView]:
    wanted = (
        _sold(entitlements.c.rank)
        .join(entitlements, entitlements.c.order_id == orders.c.id)
        .where(entitlements.c.account_id == account, orders.c.leaf_index > after)
    )
    return [
        EntitlementView.of(row, row.product_id, row.rank, row.epsilon, f"/v1/answers/{row.chain_id}/{row.law}")
        for row in connection.execute(wanted.order_by(orders.c.leaf_index).limit(count))
    ]


def entitled_product(connection: Connection, account: str, chain: str, law: str) -> str:
    """Return the product of the order that entitles an account to a tier's answer; raises NotEntitledError."""
    wanted = (
        select(orders.c.product_id)
        .join(entitlements, entitlements.c.order_id == orders.c.id)
        .join(chains, chains.c.id == entitlements.c.chain_id)
        .join(planned_tiers, (planned_tiers.c.chain_id == chains.c.id) & (planned_tiers.c.law == entitlements.c.law))
        .where(
            entitlements.c.account_id == account,
            entitlements.c.chain_id == chain,
            entitlements.c.law == law,
            orders.c.account_id == account,
            orders.c.law == law,
            planned_tiers.c.level_nano <= chains.c.highest_nano,  # nothing above what was sold and charged
        )
    )
    product = connection.execute(wanted).scalar_one_or_none()
    if product is None:
        raise NotEntitledError("answer: expected an order of the caller's for this tier, got none")
    return str(product)


def held_answers(connection: Connection, account: str, dataset: str | None) -> list[dict[str, str]]:
    """Return the answers that an account may read, of one dataset or of all, in the order in which it bought them."""
    wanted = (
        _sold()
        .join(entitlements, entitlements.c.order_id == orders.c.id)
        .join(chains, chains.c.id == orders.c.chain_id)
        .where(
            entitlements.c.account_id == account,
            orders.c.account_id == account,
            planned_tiers.c.level_nano <= chains.c.highest_nano,  # nothing above what was sold and charged
        )
        .order_by(orders.c.leaf_index)
    )
    if dataset is not None:
        wanted = wanted.where(products.c.dataset_id == dataset)
    return [
        {
            "product": row.product_id,
            "title": row.title,
            "order": row.id,
            "chain": row.chain_id,
            "law": row.law,
            "epsilon": row.epsilon,
        }
        for row in connection.execute(wanted)
    ]


def _panel_orders(
    connection: Connection, account: str, after: int, count: int, *, first: bool = False
) -> Sequence[Row[Any]]:
    """Return an account's orders of panels after a leaf; `first`: only the first of each tier."""
    wanted = (
        select(panel_orders, panels.c.title, panels.c.menu_json)
        .join(panels, panels.c.id == panel_orders.c.panel_id)
        .where(panel_orders.c.account_id == account, panel_orders.c.leaf_index > after)
    )
    if first:
        again = panel_orders.alias()
        earlier = select(again.c.id).where(
            again.c.account_id == account,
            again.c.chain_id == panel_orders.c.chain_id,
            again.c.law == panel_orders.c.law,
            again.c.leaf_index < panel_orders.c.leaf_index,
        )
        wanted = wanted.where(~earlier.exists())
    return connection.execute(wanted.order_by(panel_orders.c.leaf_index).limit(count)).all()


def _epsilon(row: Row[Any]) -> str:
    return str(msgspec.json.decode(row.menu_json, type=list[str])[row.rank])


def _reports_of(row: Row[Any]) -> str:
    return f"/v1/panels/{row.panel_id}/rounds/{row.number}/tiers/{row.rank}/reports"


def _sold(*more: Any) -> Select[Any]:
    return (
        select(
            orders.c.id,
            orders.c.leaf_index,
            orders.c.product_id,
            orders.c.chain_id,
            orders.c.law,
            orders.c.amount_minor,
            orders.c.currency,
            products.c.title,
            planned_tiers.c.epsilon,
            *more,
        )
        .join(products, products.c.id == orders.c.product_id)
        .join(planned_tiers, (planned_tiers.c.chain_id == orders.c.chain_id) & (planned_tiers.c.law == orders.c.law))
    )
