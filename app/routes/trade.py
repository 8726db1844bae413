"""Quotes, orders and answers."""

from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from app.auth.accounts import Caller, Role
from app.engine.quoting import Selection, offer
from app.engine.release import Unsealed
from app.engine.sales import PlacedOrder
from app.engines.errors import EngineError
from app.errors import (
    AuditFindingError,
    BudgetRefusedError,
    ChainFrozenError,
    ConflictError,
    IdempotencyError,
    InsufficientFundsError,
    InvalidRequestError,
    NotAcceptableError,
    NotEntitledError,
    NotFoundError,
    QuoteExpiredError,
    SnapshotAbsentError,
)
from app.formats.readings import render_reading
from app.ledger.sold import receipt_of
from app.market import Answer, Market
from app.routes.catalog import visible_product
from app.routes.representation import asked_format, represent
from app.wire import OrderRequest, QuoteRequest

__all__ = ["TRADERS", "begun_job", "idempotency_key", "order", "place", "quote", "reading", "waits_for_no_draw"]

TRADERS = (Role.BUYER, Role.ANALYST)
_KEY_LIMIT = 200


@post(
    "/v1/quotes",
    opt={
        "roles": TRADERS,
        "refuses": (
            ChainFrozenError,
            ConflictError,
            NotFoundError,
        ),
    },
    status_code=201,
)
async def quote(
    request: Request[Caller, Any, Any], data: JSONBody[QuoteRequest], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Quote one tier: list price, credit for what is paid on the chain, and how long the quote holds."""
    selection = Selection(law=data.law, epsilon=data.epsilon, within=data.within, rows=data.rows)
    caller, now = request.user, market.clock()
    offered = await market.database.write(
        lambda connection: offer(connection, market.settings, caller, data.product, selection, now)
    )
    return dict(offered)


@post(
    "/v1/orders",
    opt={
        "roles": TRADERS,
        "refuses": (
            AuditFindingError,
            BudgetRefusedError,
            ChainFrozenError,
            ConflictError,
            EngineError,
            IdempotencyError,
            InsufficientFundsError,
            NotFoundError,
            QuoteExpiredError,
            SnapshotAbsentError,
        ),
    },
    status_code=201,
)
async def place(
    request: Request[Caller, Any, Any],
    data: JSONBody[OrderRequest],
    market: NamedDependency[Market],
) -> Response[bytes]:
    """Buy what a quote offers. The Idempotency-Key makes a retry the same order: same answer, one charge, one leaf.

    With `Prefer: respond-async` (RFC 7240) a tier that must be drawn first is ordered by a job: 202 and where it is.
    """
    key = idempotency_key(request.headers.getall("idempotency-key", []))
    if waits_for_no_draw(request):
        begun = await market.order_or_job(request.user, data.quote, key, data.licence)
        if isinstance(begun, str):
            return begun_job(begun)
        placed, (sold, unsealed) = begun, await market.reveal(begun)
    else:
        placed, sold, unsealed = await market.order(request.user, data.quote, key, data.licence)
    document = await _told(market, request.user, placed, sold, unsealed)
    for other in placed.others:
        document["others"].append(await _told(market, request.user, other, *(await market.reveal(other))))
    body = msgspec.json.encode(document)
    return Response(body, media_type="application/json", headers={"ETag": sold.etag})


@get(
    "/v1/products/{product:str}/readings/{law:str}",
    opt={"roles": TRADERS, "refuses": (NotEntitledError, NotFoundError, NotAcceptableError), "formats": True},
)
async def reading(
    request: Request[Caller, Any, Any], product: FromPath[str], law: FromPath[str], market: NamedDependency[Market]
) -> Response[bytes]:
    """Return what is read off the caller's answers of a tier: a threshold's bits, a quantile's bin, means.

    Each with the confidence or the interval that the tier's noise allows; the raw answers are what was sold. `law` is
    the tier's on the product's listing. In any format, under a strong ETag: answers never change, nor does this.
    """
    await market.database.read(lambda connection: visible_product(connection, request.user, product))
    wanted, none_match = asked_format(request), request.headers.get("if-none-match")
    found = await market.reading(request.user, product, law)
    return await represent(partial(render_reading, found), wanted, (product, law), none_match=none_match)


async def _told(
    market: Market, caller: Caller, placed: PlacedOrder, sold: Answer, unsealed: Unsealed
) -> dict[str, Any]:
    """An order with its answer, its companion's, and what is read off them."""
    document = _placed(placed, sold, unsealed)
    if placed.companion is not None:
        document["companion"] = _placed(placed.companion, *(await market.reveal(placed.companion)))
    document["reading"] = {"type": "nothing"}
    if placed.read:
        document["reading"] = (await market.reading(caller, placed.product, placed.tier.law)).document
    return document


def _placed(placed: PlacedOrder, sold: Answer, unsealed: Unsealed) -> dict[str, Any]:
    return {
        "receipt": msgspec.Raw(placed.receipt),
        "opening": unsealed.opening.hex(),
        "answer": msgspec.Raw(sold.body),
        "replayed": placed.replayed,
        "companion": None,
        "reading": None,
        "bundle_order": placed.sale,
        "others": [],
    }


@get("/v1/orders/{order:str}", opt={"roles": TRADERS})
async def order(
    request: Request[Caller, Any, Any], order: FromPath[str], market: NamedDependency[Market]
) -> Response[bytes]:
    """Return the signed receipt of one of the caller's orders."""
    caller = request.user.id
    receipt = await market.database.read(lambda connection: receipt_of(connection, caller, order))
    if receipt is None:
        raise NotFoundError("order: expected one of the caller's own, got another id")
    return Response(receipt.encode(), media_type="application/json")


def waits_for_no_draw(request: Request[Caller, Any, Any]) -> bool:
    """Whether a request prefers not to wait; preferences that are not known are ignored, as RFC 7240 wants."""
    lines = request.headers.getall("prefer", [])
    names = (each.partition(";")[0].strip().lower() for line in lines for each in line.split(","))
    return "respond-async" in names


def begun_job(job: str) -> Response[bytes]:
    """Return where the job is that an order is left to."""
    headers = {"Location": f"/v1/jobs/{job}", "Preference-Applied": "respond-async"}
    body = msgspec.json.encode({"job": job})
    return Response(body, status_code=202, headers=headers, media_type="application/json")


def idempotency_key(given: list[str]) -> str:
    """Return the key that an Idempotency-Key header holds, given once; raises InvalidRequestError."""
    if len(given) > 1:
        raise InvalidRequestError("Idempotency-Key: expected one, got several")
    key = "".join(given).strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not 1 <= len(key) <= _KEY_LIMIT or not key.isascii() or not key.isprintable():
        raise InvalidRequestError(f"Idempotency-Key: expected 1 to {_KEY_LIMIT} printable characters, got another")
    return key
