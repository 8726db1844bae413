"""What owners earn and buyers get back: contracts, payouts, credits, invoices."""

from dataclasses import asdict
from typing import Any

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.asks import EarningsQuery
from app.auth.accounts import Caller, Role
from app.clock import time_text
from app.errors import ConflictError
from app.ledger.earnings import contract_of, earnings_of, pay_out, sign_contract
from app.ledger.refunds import credit_order, invoice_of
from app.market import Market
from app.routes.catalog import owned_dataset
from app.routes.paging import read_query
from app.routes.trade import TRADERS
from app.wire import ContractRequest, CreditRequest, PayoutRequest
from pricing.money import check_currency
from pricing.owners import SUB

__all__ = [
    "change_contract",
    "credit",
    "earnings",
    "invoice",
    "pay",
]


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


@post(
    "/v1/orders/{order:str}/credits",
    opt={"roles": (Role.OPERATOR,), "refuses": (ConflictError,)},
    status_code=201,
)
async def credit(
    order: FromPath[str], data: JSONBody[CreditRequest], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Give money of an order back by credit notes, one a line; the answer stays sold and its charge stays charged."""
    at = time_text(market.clock())

    def work(connection: Connection) -> dict[str, Any]:
        notes = credit_order(connection, market.keyring, order, data.amount_minor, data.reason, at, data.line_no)
        return {"credit_notes": [asdict(note) for note in notes]}

    return await market.database.write(work)


@get("/v1/orders/{order:str}/invoice", opt={"roles": TRADERS})
async def invoice(
    request: Request[Caller, Any, Any], order: FromPath[str], market: NamedDependency[Market]
) -> dict[str, Any]:
    """Return an order's invoice as it was issued, and the credit notes on it."""
    issued, notes = await market.database.read(lambda connection: invoice_of(connection, request.user.id, order))
    return {"invoice": asdict(issued) | {"total": issued.total}, "credit_notes": [asdict(note) for note in notes]}
