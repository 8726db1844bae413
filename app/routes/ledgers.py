"""What owners ask of their ledgers beyond the charges: the cost of the same sales by other rules."""

import asyncio
from typing import Any

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import FromPath
from sqlalchemy import Connection

from app.asks import RulesQuery
from app.auth.accounts import Caller, Role
from app.catalog.rules import ChainSales, RulesView, rules_view, sales_of_dataset
from app.errors import InvalidRequestError, NotFoundError
from app.market import Market
from app.routes.catalog import owned_dataset
from app.routes.paging import read_query
from tiers.accounting.charges import LedgerKind
from tiers.budget import decimal_text, parse_decimal

__all__ = ["rules"]


@get(
    "/v1/datasets/{dataset:str}/rules",
    opt={"roles": (Role.OWNER,), "refuses": (NotFoundError,), "query": RulesQuery},
)
async def rules(
    request: Request[Caller, Any, Any], dataset: FromPath[str], market: NamedDependency[Market]
) -> RulesView:
    """Return what the sales of a dataset of the caller's would have cost by each rule, and which one is in force."""
    delta = parse_decimal("delta", read_query(request, RulesQuery).delta)
    if not 0 < delta < 1:
        raise InvalidRequestError(f"delta: expected a number with 0 < δ < 1, got {decimal_text(delta)}")

    def read(connection: Connection) -> tuple[LedgerKind, list[ChainSales]]:
        owned = owned_dataset(connection, request.user, dataset)
        return owned.budget.kind, sales_of_dataset(connection, dataset)

    kind, sales = await market.database.read(read)
    return await asyncio.to_thread(rules_view, dataset, kind, sales, delta)
