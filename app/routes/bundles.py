"""Bundles: composed and priced by owners, listed for everybody with a key, quoted to buyers, ordered like any quote."""

from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.asks import PageQuery
from app.auth.accounts import Caller, Role
from app.catalog.arbitrage import Checked
from app.catalog.bundle_views import bundle_order_view, bundle_view, list_bundles
from app.catalog.bundles import (
    NewBundle,
    compose,
    composed_offer,
    move_bundle,
    owned_bundle,
    reprice_bundle,
    stored_offer,
)
from app.catalog.checking import write_checked
from app.catalog.products import LIVE
from app.catalog.shelf import Proposal
from app.clock import time_text
from app.engine.quoting import offer_bundle
from app.errors import ChainFrozenError, ConflictError, NotFoundError
from app.market import Market
from app.routes.accounts import EVERYBODY
from app.routes.paging import page, read_query
from app.routes.trade import TRADERS
from app.views import BundleOrderView, BundleView
from app.wire import BundlePriceRequest, BundleRequest, StateRequest
from pricing.money import Money

__all__ = ["bundle", "change_price", "compose_bundle", "listed", "move", "order", "quote", "verdict"]

_OWNERS = {"roles": (Role.OWNER,), "refuses": (ConflictError, NotFoundError)}


@post("/v1/bundles", opt=_OWNERS, status_code=201)
async def compose_bundle(
    request: Request[Caller, Any, Any], data: JSONBody[BundleRequest], market: NamedDependency[Market]
) -> BundleView:
    """Compose a bundle of tiers of the caller's own products at one price; refused where it would leak one.

    It costs at most its parts and at least the dearest of them, and no other good may be had for less with it.
    """
    owner, at = request.user.id, time_text(market.clock())
    new = NewBundle(
        title=data.title,
        description=data.description,
        parts=tuple((part.product, part.law, part.epsilon) for part in data.parts),
        currency=data.currency,
        price_minor=data.price_minor,
        state=data.state,
    )

    def work(connection: Connection, checked: Checked | None) -> BundleView:
        return bundle_view(connection, compose(connection, owner, new, at, checked), owner)

    return await write_checked(market.database, at, lambda connection: composed_offer(connection, owner, new), work)


@get("/v1/bundles", opt={"roles": EVERYBODY, "query": PageQuery})
async def listed(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> Response[list[BundleView]]:
    """Return bundles on sale, oldest first, in pages: `after` is the last `number` seen."""
    wanted = read_query(request, PageQuery)
    found = await market.database.read(
        lambda connection: list_bundles(connection, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda each: each.number)


@get("/v1/bundles/{bundle:str}", opt={"roles": EVERYBODY})
async def bundle(
    request: Request[Caller, Any, Any], bundle: FromPath[str], market: NamedDependency[Market]
) -> BundleView:
    """Return one bundle's listing: what it holds, what that costs alone, what it saves. Drafts to their owner alone."""
    return await market.database.read(lambda connection: bundle_view(connection, bundle, request.user.id))


@post("/v1/bundles/{bundle:str}/price", opt=_OWNERS, status_code=201)
async def change_price(
    request: Request[Caller, Any, Any],
    bundle: FromPath[str],
    data: JSONBody[BundlePriceRequest],
    market: NamedDependency[Market],
) -> BundleView:
    """Give a bundle the next version of its price; quotes at the old one are stale."""
    owner, at, price = request.user.id, time_text(market.clock()), Money(data.price_minor, data.currency)

    def find(connection: Connection) -> Proposal | None:
        row = owned_bundle(connection, owner, bundle)
        return stored_offer(connection, row, price.amount) if row.state == LIVE else None

    def work(connection: Connection, checked: Checked | None) -> BundleView:
        reprice_bundle(connection, owned_bundle(connection, owner, bundle), price, at, checked)
        return bundle_view(connection, bundle, owner)

    return await write_checked(market.database, at, find, work)


@post("/v1/bundles/{bundle:str}/state", opt=_OWNERS, status_code=201)
async def move(
    request: Request[Caller, Any, Any],
    bundle: FromPath[str],
    data: JSONBody[StateRequest],
    market: NamedDependency[Market],
) -> BundleView:
    """Put a draft or retired bundle on sale, or take one off; what was sold stays sold."""
    owner, at, state = request.user.id, time_text(market.clock()), data.state

    def find(connection: Connection) -> Proposal | None:
        row = owned_bundle(connection, owner, bundle)
        return stored_offer(connection, row) if state == LIVE else None

    def work(connection: Connection, checked: Checked | None) -> BundleView:
        move_bundle(connection, owned_bundle(connection, owner, bundle), state, at, checked)
        return bundle_view(connection, bundle, owner)

    return await write_checked(market.database, at, find, work)


@get("/v1/bundles/{bundle:str}/verdict", opt={"roles": (Role.OWNER,)})
async def verdict(
    request: Request[Caller, Any, Any], bundle: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return the newest verdict on a bundle of the caller's: safe, arbitrage and what undercuts it, or why not."""

    def read(connection: Connection) -> dict[str, Any]:
        found = msgspec.json.decode(owned_bundle(connection, request.user.id, bundle).verdict_json)
        return {"bundle_id": bundle, **found}

    return await market.database.read(read)


@post(
    "/v1/bundles/{bundle:str}/quotes",
    opt={"roles": TRADERS, "refuses": (ChainFrozenError, ConflictError, NotFoundError)},
    status_code=201,
)
async def quote(
    request: Request[Caller, Any, Any], bundle: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Quote a whole bundle: a quote a chain, and how long they hold; an order cites the first, and buys all of them."""
    caller, now, settings = request.user, market.clock(), market.settings
    offered = await market.database.write(lambda connection: offer_bundle(connection, settings, caller, bundle, now))
    return dict(offered)


@get("/v1/bundle-orders/{order:str}", opt={"roles": TRADERS})
async def order(
    request: Request[Caller, Any, Any], order: FromPath[str], market: NamedDependency[Market]
) -> BundleOrderView:
    """Return one of the caller's orders of a bundle, with the signed receipts of its lines."""
    return await market.database.read(lambda connection: bundle_order_view(connection, request.user.id, order))
