"""Location panels: opened by owners, asked by buyers, replayed by auditors."""

import asyncio
from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.response import Stream
from sqlalchemy import Connection

from app.asks import PanelsQuery
from app.auth.accounts import Caller, Role
from app.catalog.datasets import nano_of
from app.catalog.panel_states import move_panel
from app.engines.errors import EngineError
from app.errors import (
    BudgetRefusedError,
    ChainFrozenError,
    ConflictError,
    IdempotencyError,
    InsufficientFundsError,
    NotEntitledError,
    NotFoundError,
    QuoteExpiredError,
    SnapshotAbsentError,
)
from app.locations import acts, disclosing, opening, sales
from app.locations.desk import askable_now, location_of
from app.locations.listing import ledger_view, location_view, locations_after
from app.locations.order_jobs import buy_or_job
from app.locations.questions import canonical
from app.locations.views import (
    LocationAnswerView,
    LocationLedgerView,
    LocationOpenedView,
    LocationPlacedView,
    LocationQuoteView,
    LocationView,
)
from app.locations.wire import LocationQuoteRequest, LocationRequest
from app.market import Market
from app.routes.accounts import EVERYBODY
from app.routes.paging import page, read_query
from app.routes.representation import streamed
from app.routes.trade import begun_job, idempotency_key, waits_for_no_draw
from app.store.location_schema import location_panels
from app.wire import OrderRequest, StateRequest

__all__ = [
    "answer",
    "change_location_state",
    "ledger",
    "location",
    "locations",
    "open_location",
    "order",
    "quote",
    "replay",
]

_BUYERS = (Role.BUYER,)
_UNREAD = (EngineError, SnapshotAbsentError)
"""What else is refused where people's places are read."""


@post(
    "/v1/locations",
    opt={"roles": (Role.OWNER,), "refuses": (ConflictError, NotFoundError, *_UNREAD)},
    status_code=201,
)
async def open_location(
    request: Request[Caller, Any, Any], data: JSONBody[LocationRequest], market: NamedDependency[Market]
) -> LocationOpenedView:
    """Open a location panel on a dataset of one row a person; the dataset sells nothing else from then on."""
    return await asyncio.to_thread(opening.open_location, market, request.user, data)


@get("/v1/locations", opt={"roles": EVERYBODY, "query": PanelsQuery})
async def locations(
    request: Request[Caller, Any, Any], market: NamedDependency[Market]
) -> Response[list[LocationView]]:
    """Return location panels in the order in which they opened, in pages: `after` is the last `leaf_index` seen.

    `q`: words that all occur in the title, the unit or the names of the axes. `on_sale=false`: those off sale.
    """
    wanted = read_query(request, PanelsQuery)
    found = await market.database.read(
        lambda connection: locations_after(
            connection, wanted.q, after=wanted.after, count=wanted.count + 1, on_sale=wanted.on_sale
        )
    )
    return page(request, found, wanted.count, lambda each: each.leaf_index)


@get("/v1/locations/{location:str}", opt={"roles": EVERYBODY})
async def location(location: FromPath[str], market: NamedDependency[Market]) -> LocationView:
    """Return a location panel: its space, what ρ promises in it, how people are asked, and prices by kind."""
    return await market.database.read(lambda connection: location_view(location_of(connection, location)))


@post(
    "/v1/locations/{location:str}/state",
    opt={"roles": (Role.OWNER,), "refuses": (ConflictError, NotFoundError)},
    status_code=201,
)
async def change_location_state(
    request: Request[Caller, Any, Any],
    location: FromPath[str],
    data: JSONBody[StateRequest],
    market: NamedDependency[Market],
) -> LocationView:
    """Take a location panel off sale, or put it on sale again; off sale nobody is asked, and answers stay held."""

    def work(connection: Connection) -> LocationView:
        found = location_of(connection, location, request.user)
        move_panel(connection, location_panels, found.id, found.state, data.state)
        return location_view(location_of(connection, location))

    return await market.database.write(work)


@get("/v1/locations/{location:str}/ledger", opt={"roles": (Role.OWNER,)})
async def ledger(
    request: Request[Caller, Any, Any], location: FromPath[str], market: NamedDependency[Market]
) -> LocationLedgerView:
    """Return what people have left of their budgets, and what adaptive rounds have saved."""
    user = request.user
    return await market.database.read(lambda connection: ledger_view(connection, market.keyring, user, location))


@post(
    "/v1/locations/{location:str}/quotes",
    opt={"roles": _BUYERS, "refuses": (BudgetRefusedError, ChainFrozenError, ConflictError, NotFoundError)},
    status_code=201,
)
async def quote(
    request: Request[Caller, Any, Any],
    location: FromPath[str],
    data: JSONBody[LocationQuoteRequest],
    market: NamedDependency[Market],
) -> LocationQuoteView:
    """Quote a question at a budget: how many are in a region, the density at a point, or the k nearest to it."""
    caller, now, budget = request.user, market.clock(), nano_of("budget", data.budget)
    found = await market.database.read(lambda connection: location_of(connection, location))
    asked = await asyncio.to_thread(canonical, found.terms, data.question)
    sales.check_budget(found.terms, budget)
    await asyncio.to_thread(found.terms.precision, budget)  # its laws are at hand then where the store waits for them

    def reckoned(connection: Connection) -> int:
        return askable_now(connection, market.keyring, location_of(connection, location), asked, budget)

    askable = await market.turns.in_line("asking", caller.id, partial(market.database.read_now, reckoned))

    def work(connection: Connection) -> LocationQuoteView:
        return sales.offer(connection, caller, location_of(connection, location), asked, budget, askable, now)

    return await market.database.write(work)


@post(
    "/v1/locations/{location:str}/orders",
    opt={
        "roles": _BUYERS,
        "refuses": (
            BudgetRefusedError,
            ChainFrozenError,
            ConflictError,
            IdempotencyError,
            InsufficientFundsError,
            NotFoundError,
            QuoteExpiredError,
            *_UNREAD,
        ),
    },
    status_code=201,
)
async def order(
    request: Request[Caller, Any, Any],
    location: FromPath[str],
    data: JSONBody[OrderRequest],
    market: NamedDependency[Market],
) -> Response[Any]:
    """Buy the answer that a quote offers; it is drawn once, and the same for everybody who asks the same.

    With `Prefer: respond-async` a question that nobody has asked yet is left to a job: 202 and where it is.
    """
    key = idempotency_key(request.headers.getall("idempotency-key", []))
    wanted = request.user, location, data.quote, key, data.licence
    if waits_for_no_draw(request):
        placed = await buy_or_job(market, *wanted)
        if isinstance(placed, str):
            return begun_job(placed)
    else:
        try:
            placed = await asyncio.to_thread(acts.buy_answered, market, *wanted)
        except sales.UnansweredError:
            buy = partial(acts.buy, market, *wanted)
            placed = await market.turns.in_line("location", location, buy, first=("asker", request.user.id))
    view = LocationPlacedView(
        receipt=msgspec.json.decode(placed.receipt),
        panel=placed.panel,
        query=placed.query,
        answer=placed.answer,
        opening=placed.opening.hex(),
        replayed=placed.replayed,
    )
    return Response(view)


@get("/v1/locations/{location:str}/answers/{question:str}", opt={"roles": _BUYERS, "refuses": (NotEntitledError,)})
async def answer(
    request: Request[Caller, Any, Any],
    location: FromPath[str],
    question: FromPath[str],
    market: NamedDependency[Market],
) -> LocationAnswerView:
    """Return an answer that the caller has bought, with what opens the log's commitment to it."""
    user = request.user
    held = await market.database.read(
        lambda connection: sales.held_answer(connection, market.keyring, user, location, question)
    )
    return LocationAnswerView(panel=location, query=question, answer=held.answer, opening=held.opening.hex())


@get("/v1/locations/{location:str}/replay", opt={"roles": (Role.AUDITOR,), "refuses": (ConflictError, *_UNREAD)})
async def replay(location: FromPath[str], market: NamedDependency[Market]) -> Stream:
    """Return what an auditor may have of a panel: every answered question's leaf, released values and openings."""
    lines = await asyncio.to_thread(disclosing.disclose, market, location)
    return Stream(streamed(lines), media_type="application/x-ndjson")
