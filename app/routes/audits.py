"""Audits of the whole log: started, kept and read; what they froze, and its thaw; an order with its proof."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import msgspec
from litestar import MediaType, Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection, select

from app.asks import PageQuery
from app.audit.freezing import frozen, refuse_older, thaw
from app.audit.page import report_page
from app.audit.reports import AUDIT, kept_report, kept_reports
from app.audit.stopping import stopped, thaw_panel
from app.auth.accounts import Caller, Role
from app.clock import time_text
from app.engine.state import answer_document, chain_of_product
from app.errors import ConflictError, IntegrityError, NotFoundError
from app.locations.proving import location_bundle
from app.log.heads import TreeHead
from app.log.journal import current_head, leaf_bodies, leaf_hashes
from app.log.merkle import inclusion_proof
from app.market import Market
from app.panels.proving import bundle_of
from app.routes.paging import page, read_query
from app.store.schema import draws, orders
from app.wire import ThawRequest

__all__ = [
    "frozen_chains",
    "proof",
    "report",
    "report_as_page",
    "reports",
    "start",
    "stopped_panels",
    "thaw_chain",
    "thaw_stopped",
]

AUDITORS = (Role.AUDITOR, Role.OPERATOR)
_THAWS: dict[str, Any] = {"roles": (Role.OPERATOR,), "refuses": (ConflictError,)}
_Rows: TypeAlias = list[dict[str, Any]]
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@post("/v1/audits", opt={"roles": AUDITORS}, status_code=202)
async def start(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> dict[str, str]:
    """Start an audit of the whole log as a job; its result names the kept report."""
    return {"job": await market.jobs.start(request.user.id, AUDIT)}


@get("/v1/audits", opt={"roles": AUDITORS, "query": PageQuery})
async def reports(
    request: Request[Caller, Any, Any], market: NamedDependency[Market]
) -> Response[list[dict[str, Any]]]:
    """Return kept reports in brief, oldest first, in pages: `after` is the last `leaf_index` seen."""
    return await _listed(request, market, kept_reports)


@get("/v1/audits/{report:str}", opt={"roles": AUDITORS, "refuses": (NotFoundError,)})
async def report(report: FromPath[str], market: NamedDependency[Market]) -> dict[str, Any]:
    """Return a kept report as it was signed."""
    return await market.database.read(lambda connection: kept_report(connection, report))


@get("/v1/audits/{report:str}/page", opt={"roles": AUDITORS, "refuses": (NotFoundError,)}, media_type=MediaType.HTML)
async def report_as_page(report: FromPath[str], market: NamedDependency[Market]) -> Response[str]:
    """Return a kept report as one readable page."""
    kept = await market.database.read(lambda connection: kept_report(connection, report))
    return Response(report_page(kept), media_type=MediaType.HTML, headers=_PAGE_HEADERS)


@get("/v1/frozen-chains", opt={"roles": AUDITORS, "query": PageQuery})
async def frozen_chains(
    request: Request[Caller, Any, Any], market: NamedDependency[Market]
) -> Response[list[dict[str, Any]]]:
    """Return the chains of which an audit found something, longest first, in pages: nothing more of them is sold.

    `after` is the last `leaf_index` seen.
    """
    return await _listed(request, market, frozen)


@post("/v1/chains/{chain:str}/thaw", opt=_THAWS, status_code=201)
async def thaw_chain(
    request: Request[Caller, Any, Any],
    chain: FromPath[str],
    data: JSONBody[ThawRequest],
    market: NamedDependency[Market],
) -> Response[list[dict[str, Any]]]:
    """Let a frozen chain be sold again, with the reason in the log; return the first page of those that stay frozen."""
    return await _thawed(request, market, data, partial(thaw, chain=chain), frozen, "/v1/frozen-chains")


@get("/v1/stopped-panels", opt={"roles": AUDITORS, "query": PageQuery})
async def stopped_panels(
    request: Request[Caller, Any, Any], market: NamedDependency[Market]
) -> Response[list[dict[str, Any]]]:
    """Return the panels and location panels of which an audit found something, longest first, in pages.

    Nothing more of them is sold or asked. `after` is the last `leaf_index` seen.
    """
    return await _listed(request, market, stopped)


@post("/v1/panels/{panel:str}/thaw", opt=_THAWS, status_code=201)
async def thaw_stopped(
    request: Request[Caller, Any, Any],
    panel: FromPath[str],
    data: JSONBody[ThawRequest],
    market: NamedDependency[Market],
) -> Response[list[dict[str, Any]]]:
    """Let a stopped panel, or location panel, be sold again, with the reason in the log.

    Return the first page of those that stay stopped.
    """
    return await _thawed(request, market, data, partial(thaw_panel, panel=panel), stopped, "/v1/stopped-panels")


@get("/v1/orders/{order:str}/proof", opt={"roles": (Role.BUYER, Role.ANALYST), "refuses": (NotFoundError,)})
async def proof(
    request: Request[Caller, Any, Any], order: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return one of the caller's orders with all that proves it: keep it, `tiermarket receipt verify` reads it."""
    caller = request.user

    def read(connection: Connection) -> dict[str, Any]:
        wanted = select(orders).where(orders.c.id == order, orders.c.account_id == caller.id)
        row = connection.execute(wanted).one_or_none()
        head = current_head(connection)
        if row is None or head is None:
            return _other_bundle(connection, market, caller, order)
        chain, _ = chain_of_product(connection, market.settings, row.product_id)
        tier = chain.tier(row.law)
        if tier.sealed is None or tier.commitment is None:
            raise IntegrityError("store: expected the answer that was sold, got none")
        unsealed = market.engine.unseal(chain, tier, tier.sealed, tier.commitment)
        ((_, body, _),) = list(leaf_bodies(connection, row.leaf_index, 1))
        of_draw = draws.c.chain_id == chain.id, draws.c.law == tier.law
        drawn = connection.execute(select(draws.c.leaf_index).where(*of_draw)).scalar_one()
        ((_, draw, _),) = list(leaf_bodies(connection, drawn, 1))
        hashes = leaf_hashes(connection, head.size)
        return {
            "receipt": msgspec.Raw(row.receipt_json.encode()),
            "leaf": msgspec.Raw(body),
            "law": tier.document.document(),
            "opening": unsealed.opening.hex(),
            "answer": msgspec.Raw(answer_document(chain, tier, unsealed.answer)),
            "head": _plain(head),
            "proof": [step.hex() for step in inclusion_proof(hashes, row.leaf_index)],
            "draw": msgspec.Raw(draw),
            "draw_proof": [step.hex() for step in inclusion_proof(hashes, drawn)],
        }

    return await market.database.read(read)


async def _listed(request: Request[Caller, Any, Any], market: Market, rows: Callable[..., _Rows]) -> Response[_Rows]:
    """Return a page of rows that each have the leaf by which they came."""
    wanted = read_query(request, PageQuery)
    found = await market.database.read(lambda connection: rows(connection, after=wanted.after, count=wanted.count + 1))
    return page(request, found, wanted.count, _leaf)


async def _thawed(
    request: Request[Caller, Any, Any],
    market: Market,
    data: ThawRequest,
    undo: Callable[..., None],
    rows: Callable[..., _Rows],
    path: str,
) -> Response[_Rows]:
    """Undo a freeze or a stop, unless a newer report is kept than the one that was read; return what stays so."""
    at, first = time_text(market.clock()), PageQuery()

    def work(connection: Connection) -> _Rows:
        refuse_older(connection, data.report)
        undo(connection, market.keyring, reason=data.reason, at=at)
        return rows(connection, after=first.after, count=first.count + 1)

    return page(request, await market.database.write(work), first.count, _leaf, path=path, status=201)


def _leaf(row: dict[str, Any]) -> int:
    return int(row["leaf_index"] or 0)


def _plain(head: TreeHead) -> dict[str, Any]:
    return dict(msgspec.to_builtins(head))


def _other_bundle(connection: Connection, market: Market, caller: Caller, order: str) -> dict[str, Any]:
    """Return an order of a panel's tier, or of an answer about places."""
    try:
        return bundle_of(connection, market.keyring, caller, order)
    except NotFoundError:
        return location_bundle(connection, market.keyring, caller, order)
