"""What prices would earn and whether they hold: simulations, verdicts on arbitrage, audits."""

import asyncio
import time
from typing import Any

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.auth.accounts import Caller, Role
from app.catalog.arbitrage import ruling_of
from app.catalog.auditing import AUDIT
from app.catalog.books import book_of_chain
from app.catalog.caps import tier_caps
from app.catalog.planning import subscription_floor, variances_of
from app.catalog.simulation import Demand, simulate
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.market import Market
from app.routes.catalog import owned_dataset, owned_product
from app.wire import SimulationRequest, SubscriptionRequest
from pricing.limit import limit_of
from tiers.budget import decimal_text, parse_decimal, parse_epsilon

__all__ = ["audit_prices", "caps", "simulate_prices", "subscription", "verdict"]

_OWNERS = {"roles": (Role.OWNER,), "refuses": (ConflictError, NotFoundError)}
_SIMULATION_SECONDS = 5.0
_BUYERS_LIMIT = 100_000


@post("/v1/price-simulations", opt=_OWNERS, status_code=201)
async def simulate_prices(
    request: Request[Caller, Any, Any], data: JSONBody[SimulationRequest], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return what menus would earn on the owner's own demand data, "up to"; nothing is stored or changed."""
    if sum(kind.count for kind in data.demand) > _BUYERS_LIMIT:
        raise InvalidRequestError(f"demand: expected at most {_BUYERS_LIMIT} buyers in all, got more")
    demand = Demand(tuple(kind.count for kind in data.demand), tuple(kind.values_minor for kind in data.demand))
    current: list[int] | None = None
    variances: list[float] | None = None
    if data.product is not None:
        product = data.product

        def read(connection: Connection) -> tuple[list[int], list[float]]:
            view = owned_product(connection, request.user, product)
            chains = [view.chain, *([view.companion.chain] if view.companion else [])]
            books = [[tier.price for tier in book_of_chain(connection, chain).tiers] for chain in chains]
            whole = [sum(prices) for prices in zip(*books, strict=True)]
            return whole, list(variances_of(connection, view.chain).values())

        current, variances = await market.database.read(read)
    limit = limit_of(_SIMULATION_SECONDS, time.monotonic)
    return dict(await asyncio.to_thread(simulate, demand, current, limit, variances))


@get("/v1/products/{product:str}/verdict", opt=_OWNERS)
async def verdict(
    request: Request[Caller, Any, Any], product: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return the newest verdict on a product of the caller's: safe, arbitrage and its bundle, or why not."""

    def read(connection: Connection) -> dict[str, Any]:
        view = owned_product(connection, request.user, product)
        return {"product": product, **ruling_of(connection, view.chain)}

    return await market.database.read(read)


@post("/v1/datasets/{dataset:str}/tier-caps", opt=_OWNERS, status_code=201)
async def caps(
    request: Request[Caller, Any, Any], dataset: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return up to which tier each question should be sold, by the sales so far and the budget left."""

    def read(connection: Connection) -> dict[str, Any]:
        owned_dataset(connection, request.user, dataset)
        return tier_caps(connection, dataset, limit_of(_SIMULATION_SECONDS, time.monotonic))

    return await market.database.read(read)


@post("/v1/products/{product:str}/subscription-floor", opt=_OWNERS, status_code=201)
async def subscription(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[SubscriptionRequest],
    market: NamedDependency[Market],
) -> dict[str, Any]:
    """Return the one-off tier that a subscription to every snapshot emulates, and so the least it should cost."""
    drift, epsilon = parse_decimal("drift", data.drift), decimal_text(parse_epsilon(data.epsilon))

    def read(connection: Connection) -> dict[str, Any]:
        if owned_product(connection, request.user, product).companion is not None:
            raise InvalidRequestError(
                "product: expected one with one bar a tier, got a mean, whose bar is its answer's"
            )
        return subscription_floor(connection, product, epsilon, drift)

    return await market.database.read(read)


@post("/v1/price-audits", opt={"roles": (Role.OWNER, Role.OPERATOR)}, status_code=202)
async def audit_prices(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> dict[str, str]:
    """Start the full arbitrage check of the live catalogue (three stages) as a job; listings show what it finds."""
    return {"job": await market.jobs.start(request.user.id, AUDIT)}
