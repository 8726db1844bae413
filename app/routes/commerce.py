"""What owners earn and what prices would: contracts, payouts, credits, invoices, price audits, simulations."""

import asyncio
import time
from dataclasses import asdict
from typing import Any

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.asks import EarningsQuery
from app.auth.accounts import Caller, Role
from app.catalog.products import book_of_chain
from app.catalog.simulation import Demand, simulate
from app.catalog.views import product_view
from app.clock import time_text
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.ledger.earnings import contract_of, earnings_of, pay_out, sign_contract
from app.ledger.refunds import credit_order, invoice_of
from app.market import Market
from app.routes.catalog import owned_dataset
from app.routes.paging import read_query
from app.routes.trade import TRADERS
from app.wire import ContractRequest, CreditRequest, PayoutRequest, SimulationRequest
from pricing.limit import limit_of
from pricing.money import check_currency
from pricing.owners import SUB

__all__ = [
    "audit_prices",
    "change_contract",
    "credit",
    "earnings",
    "invoice",
    "job",
    "pay",
    "simulate_prices",
]

_SIMULATION_SECONDS = 5.0
_BUYERS_LIMIT = 100_000


@post("/v1/datasets/{dataset:str}/contract", opt={"roles": (Role.OWNER,)}, status_code=201)
async def change_contract(
    request: Request[Caller, Any, Any],
    dataset: FromPath[str],
    data: JSONBody[ContractRequest],
    market: NamedDependency[Market],
) -> dict[str, Any]:
    """Change who earns from a dataset, and at which rates: for later sales only."""

    def work(connection: Connection) -> dict[str, Any]:
        owned_dataset(connection, request.user, dataset)
        version = sign_contract(connection, dataset, data.owners)
        return {"dataset": dataset, "version": version, "owners": contract_of(connection, dataset)}

    return await market.database.write(work)


@get("/v1/earnings", opt={"roles": (Role.OWNER,), "query": EarningsQuery})
async def earnings(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> dict[str, Any]:
    """Return what the caller has earned: accrued and in suspense in 10⁻⁶ minor units, paid in minor units."""
    currency = read_query(request, EarningsQuery).currency
    check_currency(currency)
    found = await market.database.read(lambda connection: earnings_of(connection, request.user.id, currency))
    return {
        "accrued_units": str(found.accrued_units),
        "units_per_minor": SUB,
        "paid_minor": found.paid_minor,
        "suspense_units": str(found.suspense_units),
        "currency": currency,
    }


@post("/v1/payouts", opt={"roles": (Role.OPERATOR,)}, status_code=201)
async def pay(data: JSONBody[PayoutRequest], market: NamedDependency[Market]) -> dict[str, Any]:
    """Pay every owner the whole minor units that are due; what is less than one stays in suspense."""
    check_currency(data.currency)
    at = time_text(market.clock())
    paid = await market.database.write(lambda connection: pay_out(connection, data.currency, at))
    return {"currency": data.currency, "paid_minor": paid}


@post("/v1/orders/{order:str}/credits", opt={"roles": (Role.OPERATOR,), "refuses": (ConflictError,)}, status_code=201)
async def credit(
    order: FromPath[str], data: JSONBody[CreditRequest], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Give money of an order back by a credit note; the answer stays sold and its charge stays charged."""
    at = time_text(market.clock())

    def work(connection: Connection) -> dict[str, Any]:
        return asdict(credit_order(connection, market.keyring, order, data.amount_minor, data.reason, at))

    return await market.database.write(work)


@get("/v1/orders/{order:str}/invoice", opt={"roles": TRADERS})
async def invoice(
    request: Request[Caller, Any, Any], order: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return an order's invoice as it was issued, and the credit notes on it."""
    issued, notes = await market.database.read(lambda connection: invoice_of(connection, request.user.id, order))
    return {"invoice": asdict(issued) | {"total": issued.total}, "credit_notes": [asdict(note) for note in notes]}


@post("/v1/price-simulations", opt={"roles": (Role.OWNER,), "refuses": (NotFoundError,)}, status_code=201)
async def simulate_prices(
    request: Request[Caller, Any, Any], data: JSONBody[SimulationRequest], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return what menus would earn on the owner's own demand data, "up to"; nothing is stored or changed."""
    if sum(kind.count for kind in data.demand) > _BUYERS_LIMIT:
        raise InvalidRequestError(f"demand: expected at most {_BUYERS_LIMIT} buyers in all, got more")
    demand = Demand(tuple(kind.count for kind in data.demand), tuple(kind.values_minor for kind in data.demand))
    current: list[int] | None = None
    if data.product is not None:
        product = data.product

        def read(connection: Connection) -> list[int]:
            owned_dataset(connection, request.user, product_view(connection, product).dataset)
            book = book_of_chain(connection, product_view(connection, product).chain)
            return [tier.price for tier in book.tiers]

        current = await market.database.read(read)
    limit = limit_of(_SIMULATION_SECONDS, time.monotonic)
    return dict(await asyncio.to_thread(simulate, demand, current, limit))


@post("/v1/price-audits", opt={"roles": (Role.OWNER, Role.OPERATOR)}, status_code=202)
async def audit_prices(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> dict[str, str]:
    """Start the full arbitrage check of the live catalogue (three stages) as a job."""
    return {"job": await market.jobs.start(request.user.id, "price-audit")}


@get("/v1/jobs/{job:str}", opt={"roles": tuple(Role)})
async def job(
    request: Request[Caller, Any, Any], job: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return a job of the caller's: its state, its progress and, once it is done, its result."""
    return await market.jobs.view(request.user.id, job)
