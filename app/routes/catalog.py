"""Datasets and products: registered and published by owners, listed for everybody with a key."""

import asyncio
import secrets
from typing import Any

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.auth.accounts import Caller, Role
from app.catalog.arbitrage import Checked
from app.catalog.checking import write_checked
from app.catalog.datasets import DatasetRow, Limits, NewDataset, dataset_of, prepare_snapshot
from app.catalog.datasets import register as store_dataset
from app.catalog.lifecycle import withdraw as withdraw_product
from app.catalog.products import DRAFT, INTERNAL, NewProduct, plan_product, planned_offer
from app.catalog.products import publish as store_product
from app.catalog.views import dataset_view, product_view
from app.clock import time_text
from app.engines.errors import EngineError, IngestError
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.market import Market
from app.queries.schema import DatasetSchema
from app.routes.accounts import EVERYBODY
from app.views import DatasetView, ProductView
from app.wire import DatasetRequest, ProductRequest, WithdrawalRequest
from pricing.scarcity import ReserveCurve, compensation
from tiers.budget import NANO, Ladder, decimal_text, parse_decimal

__all__ = [
    "dataset",
    "owned_dataset",
    "product",
    "publish",
    "register",
    "visible_product",
    "withdraw",
]

_BUDGET_CEILING = 1_000


@post(
    "/v1/datasets",
    opt={
        "roles": (Role.OWNER,),
        "refuses": (
            ConflictError,
            NotFoundError,
            IngestError,
            EngineError,
        ),
    },
    status_code=201,
)
async def register(
    request: Request[Caller, Any, Any], data: JSONBody[DatasetRequest], market: NamedDependency[Market]
) -> DatasetView:
    """Register a file of the data folder as a dataset: an immutable snapshot, a salt and a budget of its own."""
    budget = _nano("budget", data.budget)
    schema = DatasetSchema(
        columns=data.columns,
        salt=secrets.token_hex(32),
        max_rows_per_unit=data.max_rows_per_unit,
        max_groups_per_unit=data.max_groups_per_unit,
        unit=data.unit,
        ordering=data.ordering,
        description=data.description,
    )
    reserve = None
    if data.reserve is not None:
        owed = compensation(data.reserve.compensation_minor, market.settings.fee_bps)
        reserve = (max(data.reserve.low_minor, owed), data.reserve.high_minor)
        ReserveCurve(*reserve, budget)  # refuses a range that is none
    owners = data.owners or {}
    new = NewDataset(
        data.name, data.title, data.description, data.notice, budget, schema, owners, reserve, _limits(data)
    )
    snapshot = await asyncio.to_thread(
        prepare_snapshot, market.settings, market.keyring, schema, data.file, data.null_text
    )
    at = time_text(market.clock())

    def work(connection: Connection) -> DatasetView:
        made = store_dataset(connection, market.keyring, request.user.id, new, snapshot, at)
        return dataset_view(connection, dataset_of(connection, made))

    try:
        return await market.database.write(work)
    except BaseException:
        snapshot.path.unlink(missing_ok=True)
        raise


@get("/v1/datasets/{dataset:str}", opt={"roles": (Role.OWNER,)})
async def dataset(
    request: Request[Caller, Any, Any], dataset: FromPath[str], market: NamedDependency[Market]
) -> DatasetView:
    """Return a dataset of the caller's with its exact ledger."""
    return await market.database.read(
        lambda connection: dataset_view(connection, owned_dataset(connection, request.user, dataset))
    )


@post(
    "/v1/products",
    opt={
        "roles": (Role.OWNER,),
        "refuses": (
            ConflictError,
            NotFoundError,
        ),
    },
    status_code=201,
)
async def publish(
    request: Request[Caller, Any, Any], data: JSONBody[ProductRequest], market: NamedDependency[Market]
) -> ProductView:
    """Publish a product: its chain is planned and priced now, and refused now if it cannot exist."""
    new = NewProduct(
        title=data.title,
        description=data.description,
        unit_label=data.unit_label,
        left_out=data.left_out,
        licence=data.licence,
        currency=data.currency,
        query=data.query,
        epsilons=tuple(tier.epsilon for tier in data.tiers),
        prices_minor=tuple(tier.price_minor for tier in data.tiers),
        state=data.state,
    )
    at = time_text(market.clock())
    owned = await market.database.read(lambda connection: owned_dataset(connection, request.user, data.dataset))
    planned = await asyncio.to_thread(plan_product, owned, new)

    def work(connection: Connection, checked: Checked) -> ProductView:
        current = owned_dataset(connection, request.user, data.dataset)
        if current.snapshot != owned.snapshot:
            raise InvalidRequestError("dataset: expected the snapshot that was planned on, got a newer one")
        return product_view(connection, store_product(connection, market.keyring, current, planned, at, checked))

    return await write_checked(market.database, at, lambda _: planned_offer(owned, planned), work)


@get("/v1/products/{product:str}", opt={"roles": EVERYBODY})
async def product(
    request: Request[Caller, Any, Any], product: FromPath[str], market: NamedDependency[Market]
) -> ProductView:
    """Return one product's listing: drafts to their owner alone, analysts' questions to analysts and the owner."""
    return await market.database.read(lambda connection: visible_product(connection, request.user, product))


@post(
    "/v1/products/{product:str}/withdrawal", opt={"roles": (Role.OWNER,), "refuses": (ConflictError,)}, status_code=201
)
async def withdraw(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[WithdrawalRequest],
    market: NamedDependency[Market],
) -> ProductView:
    """Take a product off sale; what was sold stays sold, and the log says so."""
    at = time_text(market.clock())

    def work(connection: Connection) -> ProductView:
        owned_dataset(connection, request.user, product_view(connection, product).dataset)
        withdraw_product(connection, market.keyring, product, data.reason, at)
        return product_view(connection, product)

    return await market.database.write(work)


def _limits(data: DatasetRequest) -> Limits:
    quota = None if data.quota is None else _nano("quota", data.quota)
    window = None if data.window is None else _nano("window", data.window.budget)
    ladder = Ladder.parse(data.adhoc) if data.adhoc else ()
    return Limits(quota, data.window.days if data.window else None, window, tuple(map(decimal_text, ladder)))


def _nano(name: str, text: str) -> int:
    amount = parse_decimal(name, text) * NANO
    if amount.denominator != 1 or not 0 < amount <= _BUDGET_CEILING * NANO:
        raise InvalidRequestError(f"{name}: expected 0 < ε ≤ {_BUDGET_CEILING} in steps of 10⁻⁹, got another")
    return int(amount)


def visible_product(connection: Connection, caller: Caller, product: str) -> ProductView:
    """Return a product's listing to somebody who may see it; raises NotFoundError."""
    view = product_view(connection, product)
    if view.state == DRAFT or (view.state == INTERNAL and caller.role is not Role.ANALYST):
        owned_dataset(connection, caller, view.dataset)
    return view


def owned_dataset(connection: Connection, caller: Caller, dataset: str) -> DatasetRow:
    """Return a dataset of the caller's; raises NotFoundError for another's as for none."""
    row = dataset_of(connection, dataset)
    if row.owner != caller.id:
        raise NotFoundError("dataset: expected an existing id, got another")
    return row
