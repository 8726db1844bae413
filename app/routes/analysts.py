"""Analysts: questions of their own where the owner allows them, and dashboards kept as data."""

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.asks import IdPageQuery
from app.auth.accounts import Caller, Role
from app.catalog.dashboards import dashboard_of, delete_dashboard, list_dashboards, save_dashboard
from app.catalog.datasets import DatasetRow, dataset_of
from app.catalog.ladders import laws_of_question
from app.catalog.products import INTERNAL, NewProduct, plan_product
from app.catalog.publishing import publish
from app.catalog.views import product_view
from app.clock import time_text
from app.errors import ConflictError, ForbiddenError, NotEntitledError, NotFoundError
from app.market import Market
from app.routes.catalog import visible_product
from app.routes.paging import page, read_query
from app.views import ProductView
from app.wire import DashboardRequest, QuestionRequest
from tiers.identity import TierLaw

__all__ = ["ask", "dashboard", "dashboards", "discard", "save"]

_ANALYSTS = {"roles": (Role.ANALYST,), "refuses": (ConflictError, NotFoundError)}


@post("/v1/questions", opt=_ANALYSTS, status_code=201)
async def ask(data: JSONBody[QuestionRequest], market: NamedDependency[Market]) -> ProductView:
    """Plan a question on the ladder that the owner allows; it opens a chain of its own, or shares the one it has.

    Nothing is drawn or charged until a tier of it is ordered, at no price, through the same path as every sale.
    """
    at = time_text(market.clock())

    def known(connection: Connection) -> tuple[DatasetRow, tuple[tuple[TierLaw, ...], ...]]:
        row = dataset_of(connection, data.dataset)
        return row, laws_of_question(connection, row, data.query)

    dataset, laws = await market.database.read(known)
    ladder = dataset.limits.adhoc
    if not ladder:
        raise ForbiddenError("dataset: expected one whose owner allows questions, got one without a ladder for them")
    new = NewProduct(
        title=data.title,
        description="",
        unit_label="",
        left_out="what the question's own bounds and clamps leave out",
        licence="internal",
        currency="EUR",
        query=data.query,
        epsilons=ladder,
        prices_minor=(0,) * len(ladder),
        state=INTERNAL,
    )
    planned = await asyncio.to_thread(plan_product, dataset, new, laws)

    def work(connection: Connection) -> ProductView:
        current = dataset_of(connection, data.dataset)
        return product_view(connection, publish(connection, market.keyring, current, planned, at, None))

    return await market.database.write(work)


@post("/v1/dashboards", opt=_ANALYSTS, status_code=201)
async def save(
    request: Request[Caller, Any, Any], data: JSONBody[DashboardRequest], market: NamedDependency[Market]
) -> dict[str, str]:
    """Keep a dashboard: tiles are products at tiers."""
    at = time_text(market.clock())

    def work(connection: Connection) -> str:
        for tile in data.tiles:
            visible_product(connection, request.user, tile.product)
        return save_dashboard(connection, request.user.id, data.name, data.tiles, at)

    return {"dashboard": await market.database.write(work), "name": data.name}


@get("/v1/dashboards", opt=_ANALYSTS | {"query": IdPageQuery})
async def dashboards(
    request: Request[Caller, Any, Any], market: NamedDependency[Market]
) -> Response[list[dict[str, str]]]:
    """Return the caller's dashboards, oldest first, in pages: `after` is the last `dashboard` seen."""
    wanted = read_query(request, IdPageQuery)
    found = await market.database.read(
        lambda connection: list_dashboards(connection, request.user.id, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda each: each["dashboard"])


@delete("/v1/dashboards/{dashboard:str}", opt=_ANALYSTS, status_code=200)
async def discard(
    request: Request[Caller, Any, Any], dashboard: FromPath[str], market: NamedDependency[Market]
) -> dict[str, str]:
    """Delete a dashboard of the caller's; the answers on it stay held."""
    await market.database.write(lambda connection: delete_dashboard(connection, request.user.id, dashboard))
    return {"dashboard": dashboard}


@get("/v1/dashboards/{dashboard:str}", opt=_ANALYSTS)
async def dashboard(
    request: Request[Caller, Any, Any], dashboard: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return a dashboard with the answers that the caller holds; a tile without an order says so and shows none."""
    name, tiles = await market.database.read(lambda connection: dashboard_of(connection, request.user.id, dashboard))
    shown: list[dict[str, Any]] = []
    for tile, chain, law in tiles:
        entry: dict[str, Any] = {**msgspec.to_builtins(tile), "chain": chain, "law": law}
        try:
            held = await market.answer(request.user, chain, law)
            entry["answer"] = msgspec.json.decode(held.body)
            entry["reading"] = (await market.reading(request.user, tile.product, law)).document
        except NotEntitledError:
            entry["answer"] = entry["reading"] = None
        shown.append(entry)
    return {"dashboard": dashboard, "name": name, "tiles": shown}
