"""Panels: opened and fed by owners, sold to buyers and analysts by the tier, replayed by auditors."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.response import Stream
from sqlalchemy import Connection

from app.asks import PanelsQuery
from app.auth.accounts import Caller, Role
from app.catalog.panel_states import move_panel
from app.clock import time_text
from app.errors import (
    ChainFrozenError,
    ConflictError,
    IdempotencyError,
    InsufficientFundsError,
    NotAcceptableError,
    NotEntitledError,
    NotFoundError,
    QuoteExpiredError,
)
from app.formats.negotiate import Format, choose_of
from app.formats.readings import panel_table
from app.formats.rows import write
from app.log.panel_leaves import RoundRecord
from app.market import Market
from app.panels import acts, desk, listing, opening, sales
from app.panels.formats import ReportFormat, written
from app.routes.accounts import EVERYBODY
from app.routes.paging import page, read_query
from app.routes.representation import asked_format, represent, streamed
from app.routes.trade import TRADERS, idempotency_key
from app.store.panel_schema import panels as stored_panels
from app.views import PanelDeliveryView, PanelPlacedView, PanelQuoteView, PanelView
from app.wire import (
    OrderRequest,
    PanelQuoteRequest,
    PanelReadingRequest,
    PanelReportsRequest,
    PanelRequest,
    StateRequest,
    TierRequest,
)

__all__ = [
    "add_tier",
    "change_panel_state",
    "close",
    "deliver",
    "open_panel",
    "order",
    "panel",
    "panels",
    "quote",
    "reading",
    "replay",
    "reports",
    "spending",
]

_Made = TypeVar("_Made")
_OWNERS = {"roles": (Role.OWNER,), "refuses": (ConflictError, NotFoundError)}


@post("/v1/panels", opt=_OWNERS, status_code=201)
async def open_panel(
    request: Request[Caller, Any, Any], data: JSONBody[PanelRequest], market: NamedDependency[Market]
) -> PanelView:
    """Open a panel: its tiers are planned for the menu now, and its first round takes reports."""
    planned = await asyncio.to_thread(opening.plan_panel, data)
    at = time_text(market.clock())

    def work(connection: Connection) -> PanelView:
        made = opening.open_panel(connection, market.keyring, request.user, planned, at)
        return listing.panel_view(connection, made)

    return await market.database.write(work)


@get("/v1/panels/{panel:str}", opt={"roles": EVERYBODY})
async def panel(panel: FromPath[str], market: NamedDependency[Market]) -> PanelView:
    """Return a panel's listing: its domain, tiers, prices, what devices encode with, and its closed rounds."""
    return await market.database.read(lambda connection: listing.panel_view(connection, panel))


@post("/v1/panels/{panel:str}/reports", opt=_OWNERS, status_code=201)
async def deliver(
    request: Request[Caller, Any, Any],
    panel: FromPath[str],
    data: JSONBody[PanelReportsRequest],
    market: NamedDependency[Market],
) -> PanelDeliveryView:
    """Deliver reports of the open round: good rows are kept, bad ones are named by line and rule."""
    done = await _in_turn(market, request.user, panel, partial(acts.deliver, market, request.user, panel, data))
    refusals = [{"line": refusal.line, "rule": refusal.rule} for refusal in done.refusals]
    return PanelDeliveryView(round=data.round, accepted=done.accepted, refused=done.refused, refusals=refusals)


@post("/v1/panels/{panel:str}/close", opt=_OWNERS, status_code=201)
async def close(request: Request[Caller, Any, Any], panel: FromPath[str], market: NamedDependency[Market]) -> PanelView:
    """Close the open round: all of its tiers are derived once and go on sale, and the next round opens."""
    return await _in_turn(market, request.user, panel, partial(acts.close, market, request.user, panel))


@post(
    "/v1/panels/{panel:str}/tiers",
    opt={"roles": (Role.OWNER,), "refuses": (ChainFrozenError, ConflictError, NotFoundError)},
    status_code=201,
)
async def add_tier(
    request: Request[Caller, Any, Any],
    panel: FromPath[str],
    data: JSONBody[TierRequest],
    market: NamedDependency[Market],
) -> PanelView:
    """Add a tier below the top one: drawn for every closed round given what is there, and on sale at once."""
    return await _in_turn(market, request.user, panel, partial(acts.add_tier, market, request.user, panel, data))


@post("/v1/panels/{panel:str}/state", opt=_OWNERS, status_code=201)
async def change_panel_state(
    request: Request[Caller, Any, Any],
    panel: FromPath[str],
    data: JSONBody[StateRequest],
    market: NamedDependency[Market],
) -> PanelView:
    """Take a panel off sale, or put it on sale again; it takes reports as before, and what was sold stays sold."""

    def work(connection: Connection) -> PanelView:
        found = desk.panel_of(connection, panel, request.user)
        move_panel(connection, stored_panels, found.id, found.state, data.state)
        return listing.panel_view(connection, panel)

    return await market.database.write(work)


@get("/v1/panels", opt={"roles": EVERYBODY, "query": PanelsQuery})
async def panels(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> Response[list[PanelView]]:
    """Return panels in the order in which they opened, in pages: `after` is the last `leaf_index` seen.

    `q`: words that all occur in the title or among the values. `on_sale=false`: those that are off sale.
    """
    wanted = read_query(request, PanelsQuery)
    found = await market.database.read(
        lambda connection: listing.panels_after(
            connection, wanted.q, after=wanted.after, count=wanted.count + 1, on_sale=wanted.on_sale
        )
    )
    return page(request, found, wanted.count, lambda each: each.leaf_index or 0)


@post(
    "/v1/panels/{panel:str}/quotes",
    opt={"roles": TRADERS, "refuses": (ChainFrozenError, ConflictError, NotFoundError)},
    status_code=201,
)
async def quote(
    request: Request[Caller, Any, Any],
    panel: FromPath[str],
    data: JSONBody[PanelQuoteRequest],
    market: NamedDependency[Market],
) -> PanelQuoteView:
    """Quote a tier of a closed round: its list price less what is held or paid on the round."""
    caller, now = request.user, market.clock()

    def work(connection: Connection) -> PanelQuoteView:
        found = desk.panel_of(connection, panel)
        return sales.offer(connection, caller, found, data.round, found.rank(data.epsilon), now)

    return await market.database.write(work)


@post(
    "/v1/panels/{panel:str}/orders",
    opt={
        "roles": TRADERS,
        "refuses": (
            ChainFrozenError,
            ConflictError,
            IdempotencyError,
            InsufficientFundsError,
            NotFoundError,
            QuoteExpiredError,
        ),
    },
    status_code=201,
)
async def order(
    request: Request[Caller, Any, Any],
    panel: FromPath[str],
    data: JSONBody[OrderRequest],
    market: NamedDependency[Market],
) -> PanelPlacedView:
    """Buy what a quote of the panel offers. The Idempotency-Key makes a retry the same order: one payment, one leaf."""
    key, now = idempotency_key(request.headers.getall("idempotency-key", [])), market.clock()
    fee, caller = market.settings.fee_bps, request.user

    def work(connection: Connection) -> sales.PanelPlaced:
        return sales.order(
            connection, market.keyring, caller, panel, data.quote, key, now, fee_bps=fee, licence=data.licence
        )

    placed = await market.database.write(work)
    return PanelPlacedView(
        receipt=msgspec.json.decode(placed.receipt),
        panel=placed.panel.id,
        round=placed.round,
        rank=placed.rank,
        opening=placed.opening.hex(),
        counts=placed.counts.tolist(),
        replayed=placed.replayed,
    )


@post(
    "/v1/panels/{panel:str}/readings",
    opt={"roles": TRADERS, "refuses": (NotEntitledError, NotAcceptableError), "formats": True},
    status_code=201,
)
async def reading(
    request: Request[Caller, Any, Any],
    panel: FromPath[str],
    data: JSONBody[PanelReadingRequest],
    market: NamedDependency[Market],
) -> Response[bytes]:
    """Return counts, ranges, quantiles or sums read off a tier that the caller holds, in any format."""
    user, wanted = request.user, asked_format(request)
    read_off = await market.database.read(lambda connection: acts.reading(connection, market, user, panel, data))
    found = await market.turns.in_line("reading", user.id, read_off)  # of a large domain it takes a second

    def render(kind: Format) -> bytes:
        if kind is Format.JSON:
            return msgspec.json.encode(found)
        about = {"panel": panel, "round": str(found.round), "confidence": found.confidence}
        return write(panel_table(found.values, found.epsilon, about), kind)

    return await represent(render, wanted, (panel, f"round-{found.round}"), status=201)


@get(
    "/v1/panels/{panel:str}/rounds/{round:str}/tiers/{tier:str}/reports",
    opt={
        "roles": TRADERS,
        "refuses": (ConflictError, NotAcceptableError, NotEntitledError),
        "formats": ReportFormat,
    },
)
async def reports(
    request: Request[Caller, Any, Any],
    panel: FromPath[str],
    round: FromPath[str],
    tier: FromPath[str],
    market: NamedDependency[Market],
) -> Stream:
    """Return the reports of a tier that the caller holds, as NDJSON, Arrow or Parquet; no device is named."""
    number, rank = _number("round", round), _number("tier", tier)
    query = request.scope["query_string"].decode("latin-1")
    wanted = choose_of(ReportFormat, request.headers.get("accept"), query)

    def find(connection: Connection) -> tuple[desk.Panel, RoundRecord]:
        held = desk.panel_of(connection, panel)
        return held, sales.held_rank(connection, request.user, panel, number, rank)

    found, record = await market.database.read(find)
    runs = await asyncio.to_thread(acts.reports_of, market, found, record, rank)
    about = {"panel": panel, "round": round, "epsilon": record.tiers[rank].epsilon, "mechanism": record.mechanism}
    return Stream(streamed(written(runs, wanted, about)), media_type=wanted.value, headers={"Vary": "Accept"})


@get("/v1/panels/{panel:str}/spending", opt=_OWNERS)
async def spending(request: Request[Caller, Any, Any], panel: FromPath[str], market: NamedDependency[Market]) -> Stream:
    """Return what shows an auditor that no device passed the panel's budget: a line a device, under a blind name."""
    lines = acts.spending(market, request.user, panel)
    first = await _in_turn(market, request.user, panel, partial(next, lines))
    return Stream(streamed(chain([first], lines)), media_type="application/x-ndjson")


@get("/v1/panels/{panel:str}/rounds/{round:str}/replay", opt={"roles": (Role.AUDITOR,), "refuses": (ConflictError,)})
async def replay(
    panel: FromPath[str],
    round: FromPath[str],
    market: NamedDependency[Market],
) -> Stream:
    """Return what an auditor may have of a round, from its highest tier sold down: record, keys, openings, reports."""
    lines = await asyncio.to_thread(acts.disclose, market, panel, _number("round", round))
    return Stream(streamed(lines), media_type="application/x-ndjson")


async def _in_turn(market: Market, owner: Caller, panel: str, work: Callable[[], _Made]) -> _Made:
    """Do work that takes an owner's panel's turn; nobody else stands in its line, with a body to be kept meanwhile.

    Raises:     NotFoundError: no panel of the owner's.
    """
    await market.database.read(lambda connection: desk.panel_of(connection, panel, owner))
    return await market.turns.in_line("panel", panel, work)


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise NotFoundError(f"{name}: expected the number of an existing one, got another")
    return int(text)
