"""Listings of bundles, and the one order that a bundle's parts are: what owners, buyers and pages see."""

from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from app.catalog.bundle_contents import chain_parts, parts_of_bundle
from app.catalog.bundles import price_of_bundle
from app.catalog.products import DRAFT, LIVE
from app.errors import NotFoundError
from app.store.schema import bundle_sales, bundles, orders
from app.views import BundleOrderView, BundlePartView, BundleView

__all__ = ["bundle_order_view", "bundle_view", "list_bundles"]


def list_bundles(connection: Connection, *, after: int, count: int) -> list[BundleView]:
    """Return up to `count` live bundles in the order of their composition, from the one after number `after`."""
    wanted = select(bundles).where(bundles.c.state == LIVE, bundles.c.number > after)
    rows = connection.execute(wanted.order_by(bundles.c.number).limit(count)).all()
    return [_view(connection, row) for row in rows]


def bundle_view(connection: Connection, bundle: str, caller: str) -> BundleView:
    """Return a bundle's listing; a draft's to its owner alone. Raises NotFoundError."""
    row = connection.execute(select(bundles).where(bundles.c.id == bundle)).one_or_none()
    if row is None or (row.state == DRAFT and row.owner_id != caller):
        raise NotFoundError("bundle: expected an existing id, got another")
    return _view(connection, row)


def bundle_order_view(connection: Connection, account: str, order: str) -> BundleOrderView:
    """Return one of an account's orders of a bundle with the receipts of its lines; raises NotFoundError."""
    wanted = (
        select(bundle_sales, bundles.c.title, bundles.c.currency)
        .join(bundles, bundles.c.id == bundle_sales.c.bundle_id)
        .where(bundle_sales.c.id == order, bundle_sales.c.account_id == account)
    )
    sale = connection.execute(wanted).one_or_none()
    if sale is None:
        raise NotFoundError("order: expected one of the caller's own bundles, got another id")
    lines = connection.execute(select(orders).where(orders.c.sale_id == order).order_by(orders.c.leaf_index)).all()
    return BundleOrderView(
        order=sale.id,
        bundle=sale.bundle_id,
        title=sale.title,
        version=sale.version,
        amount_minor=sum(line.amount_minor for line in lines),
        discount_minor=sum(line.discount_minor for line in lines),
        currency=sale.currency,
        at=sale.created_at,
        receipts=[msgspec.json.decode(line.receipt_json) for line in lines],
    )


def _view(connection: Connection, row: Row[Any]) -> BundleView:
    parts, price = parts_of_bundle(connection, row.id), price_of_bundle(connection, row)
    alone = sum(part.price_minor for part in chain_parts(parts))
    return BundleView(
        bundle=row.id,
        number=row.number,
        title=row.title,
        description=row.description,
        licence=row.licence,
        currency=row.currency,
        state=row.state,
        version=row.version,
        price_minor=price,
        alone_minor=alone,
        saving_minor=alone - price,
        on_sale=row.state == LIVE and all(part.view.state == LIVE and part.tier.admitted for part in parts),
        arbitrage=row.arbitrage,
        parts=[
            BundlePartView(
                product=part.view.product,
                title=part.view.title,
                dataset=part.view.dataset,
                dataset_title=part.view.dataset_title,
                unit_label=part.view.unit_label,
                law=part.tier.law,
                epsilon=part.tier.epsilon,
                half_width_value=part.tier.half_width_value,
                price_minor=part.tier.price_minor,
                admitted=part.tier.admitted,
            )
            for part in parts
        ],
    )
