"""What a trader holds: orders and entitlements, in pages."""

from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency

from app.asks import PageQuery
from app.auth.accounts import Caller
from app.catalog.holdings import entitlements_of, orders_of
from app.market import Market
from app.routes.paging import page, read_query
from app.routes.trade import TRADERS
from app.views import EntitlementView, OrderView

__all__ = ["entitlements", "orders"]


@get("/v1/orders", opt={"roles": TRADERS, "query": PageQuery})
async def orders(
    request: Request[Caller, Any, Any],
    market: NamedDependency[Market],
) -> Response[list[OrderView]]:
    """Return the caller's orders, oldest first, in pages: `after` is the last `leaf_index` seen."""
    caller, wanted = request.user.id, read_query(request, PageQuery)
    found = await market.database.read(
        lambda connection: orders_of(connection, caller, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda order: order.leaf_index)


@get("/v1/entitlements", opt={"roles": TRADERS, "query": PageQuery})
async def entitlements(
    request: Request[Caller, Any, Any],
    market: NamedDependency[Market],
) -> Response[list[EntitlementView]]:
    """Return the tiers that the caller may read and where each is, in pages: `after` is the last `leaf_index` seen."""
    caller, wanted = request.user.id, read_query(request, PageQuery)
    found = await market.database.read(
        lambda connection: entitlements_of(connection, caller, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda held: held.leaf_index)
