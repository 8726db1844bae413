"""Is a count above a number? Quoted, ordered under a key, and read again; what it buys are orders like any other."""

from typing import Any

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from app.auth.accounts import Caller
from app.engines.errors import EngineError
from app.errors import (
    AuditFindingError,
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
from app.market import Market
from app.routes.trade import TRADERS, idempotency_key
from app.thresholds.asking import ask_threshold, told_threshold
from app.thresholds.orders import offer_threshold
from app.thresholds.shapes import ThresholdOrderView, ThresholdQuoteView, ThresholdRequest
from app.wire import OrderRequest

__all__ = ["order", "place", "quote"]


@post(
    "/v1/products/{product:str}/threshold-quotes",
    opt={"roles": TRADERS, "refuses": (ChainFrozenError, ConflictError, NotFoundError)},
    status_code=201,
)
async def quote(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[ThresholdRequest],
    market: NamedDependency[Market],
) -> ThresholdQuoteView:
    """Quote “is this count above X?”: the tiers that may be looked at, and the most that will be paid and charged."""
    caller, now = request.user, market.clock()
    return await market.database.write(
        lambda connection: offer_threshold(connection, market.settings, caller, product, data, now)
    )


@post(
    "/v1/threshold-orders",
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
            NotEntitledError,
            NotFoundError,
            QuoteExpiredError,
            SnapshotAbsentError,
        ),
    },
    status_code=201,
)
async def place(
    request: Request[Caller, Any, Any], data: JSONBody[OrderRequest], market: NamedDependency[Market]
) -> ThresholdOrderView:
    """Ask what a quote offers: cheap tiers first, and no further than the answer needs.

    Each tier that is revealed is bought, for what it costs more than those before it. The Idempotency-Key makes a retry
    the same question: it buys nothing twice, and goes on where the last one stopped.
    """
    key = idempotency_key(request.headers.getall("idempotency-key", []))
    return await ask_threshold(market, request.user, data.quote, key, data.licence)


@get("/v1/threshold-orders/{order:str}", opt={"roles": TRADERS, "refuses": (NotEntitledError,)})
async def order(
    request: Request[Caller, Any, Any], order: FromPath[str], market: NamedDependency[Market]
) -> ThresholdOrderView:
    """Return one of the caller's questions as far as it has come, with a signed receipt a tier; buys nothing."""
    return await told_threshold(market, request.user, order)
