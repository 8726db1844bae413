"""Datasets and products: registered and published by owners, listed for everybody with a key."""

import asyncio
import secrets
from typing import Any

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.asks import IdPageQuery, PageQuery
from app.auth.accounts import Caller, Role
from app.catalog.arbitrage import Checked
from app.catalog.checking import write_checked
from app.catalog.datasets import Budget, DatasetRow, Limits, NewDataset, dataset_of, nano_of
from app.catalog.datasets import register as store_dataset
from app.catalog.ladders import laws_of_question
from app.catalog.lifecycle import parts_of
from app.catalog.lifecycle import withdraw as withdraw_product
from app.catalog.owned import owned_datasets, published_on
from app.catalog.products import DRAFT, INTERNAL, PART, NewProduct, plan_product
from app.catalog.publishing import planned_offer
from app.catalog.publishing import publish as store_product
from app.catalog.shelf import Proposal
from app.catalog.snapshots import prepare_snapshot
from app.catalog.views import dataset_view, product_view
from app.clock import time_text
from app.engines.errors import EngineError, IngestError
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.ledger.refunds import credit_faulty
from app.market import Market
from app.queries.schema import DatasetSchema
from app.routes.accounts import EVERYBODY
from app.routes.paging import page, read_query
from app.views import DatasetView, ProductView
from app.wire import DatasetRequest, ProductRequest, WithdrawalRequest
from pricing.scarcity import ReserveCurve, compensation
from tiers.budget import Ladder, decimal_text
from tiers.identity import TierLaw

__all__ = [
    "dataset",
    "owned",
    "owned_dataset",
    "owned_product",
    "product",
    "publish",
    "published",
    "register",
    "visible_product",
    "withdraw",
]


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
    budget = Budget.of(data.budget_kind, data.budget, data.budget_delta)
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
        ReserveCurve(*reserve, budget.nano)  # refuses a range that is none
    owners = data.owners or {}
    new = NewDataset(
        data.name, data.title, data.description, data.notice, budget, schema, owners, reserve, _limits(data)
    )
    snapshot = await asyncio.to_thread(
        prepare_snapshot,
        market.settings,
        market.keyring,
        schema,
        data.file,
        data.null_text,
        data.keep_in,
        owner=request.user.id,
    )
    at = time_text(market.clock())

    def work(connection: Connection) -> DatasetView:
        made = store_dataset(connection, market.keyring, request.user.id, new, snapshot, at)
        return dataset_view(connection, dataset_of(connection, made))

    try:
        return await market.database.write(work)
    except BaseException:
        await asyncio.to_thread(snapshot.discard, market.settings)
        raise


@get("/v1/datasets", opt={"roles": (Role.OWNER,), "query": IdPageQuery})
async def owned(request: Request[Caller, Any, Any], market: NamedDependency[Market]) -> Response[list[DatasetView]]:
    """Return the caller's datasets with their exact ledgers, oldest first, in pages: `after` is the last one seen."""
    wanted = read_query(request, IdPageQuery)
    found = await market.database.read(
        lambda connection: owned_datasets(connection, request.user.id, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda each: each.dataset)


@get("/v1/datasets/{dataset:str}/products", opt={"roles": (Role.OWNER,), "query": PageQuery})
async def published(
    request: Request[Caller, Any, Any], dataset: FromPath[str], market: NamedDependency[Market]
) -> Response[list[ProductView]]:
    """Return everything published on a dataset of the caller's, drafts and analysts' questions included, in pages.

    In order of publication: `after` is the last `leaf_index` seen.
    """
    wanted = read_query(request, PageQuery)

    def read(connection: Connection) -> list[ProductView]:
        owned_dataset(connection, request.user, dataset)
        return published_on(connection, dataset, after=wanted.after, count=wanted.count + 1)

    found = await market.database.read(read)
    return page(request, found, wanted.count, lambda product: product.leaf_index)


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
        family=data.family,
        delta=data.delta,
    )
    at = time_text(market.clock())

    def known(connection: Connection) -> tuple[DatasetRow, tuple[tuple[TierLaw, ...], ...]]:
        row = owned_dataset(connection, request.user, data.dataset)
        return row, laws_of_question(connection, row, data.query)

    current_row, laws = await market.database.read(known)
    planned = await asyncio.to_thread(plan_product, current_row, new, laws)

    def work(connection: Connection, checked: Checked | None) -> ProductView:
        current = owned_dataset(connection, request.user, data.dataset)
        if current.snapshot != current_row.snapshot:
            raise InvalidRequestError("dataset: expected the snapshot that was planned on, got a newer one")
        return product_view(connection, store_product(connection, market.keyring, current, planned, at, checked))

    def find(connection: Connection) -> Proposal:
        return planned_offer(connection, current_row, planned)

    return await write_checked(market.database, at, find, work)


@get("/v1/products/{product:str}", opt={"roles": EVERYBODY})
async def product(
    request: Request[Caller, Any, Any], product: FromPath[str], market: NamedDependency[Market]
) -> ProductView:
    """Return one product's listing: drafts to their owner alone, analysts' questions to analysts and the owner."""
    return await market.database.read(lambda connection: visible_product(connection, request.user, product))


@post(
    "/v1/products/{product:str}/withdrawal",
    opt={"roles": (Role.OWNER,), "refuses": (ConflictError,)},
    status_code=201,
)
async def withdraw(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[WithdrawalRequest],
    market: NamedDependency[Market],
) -> ProductView:
    """Take a product off sale; what was sold stays sold, and the log says so. A faulty one is paid back, too."""
    at = time_text(market.clock())

    def work(connection: Connection) -> ProductView:
        owned_product(connection, request.user, product)
        withdraw_product(connection, market.keyring, product, data.reason, at)
        for part in parts_of(connection, product) if data.faulty else ():
            credit_faulty(connection, market.keyring, part, at)
        return product_view(connection, product)

    return await market.database.write(work)


def _limits(data: DatasetRequest) -> Limits:
    quota = None if data.quota is None else nano_of("quota", data.quota)
    window = None if data.window is None else nano_of("window", data.window.budget)
    ladder = Ladder.parse(data.adhoc) if data.adhoc else ()
    return Limits(quota, data.window.days if data.window else None, window, tuple(map(decimal_text, ladder)))


def visible_product(connection: Connection, caller: Caller, product: str) -> ProductView:
    """Return a product's listing to somebody who may see it; raises NotFoundError."""
    view = product_view(connection, product)
    hidden = view.state in (DRAFT, PART) or (view.state == INTERNAL and caller.role is not Role.ANALYST)
    if hidden and dataset_of(connection, view.dataset).owner != caller.id:
        raise NotFoundError("product: expected an existing id, got another")
    return view


def owned_product(connection: Connection, caller: Caller, product: str) -> ProductView:
    """Return a product of the caller's to be acted on; raises NotFoundError for another's as for none.

    Raises:     ConflictError: it is the count of a mean, which is whatever its mean is.
    """
    view = product_view(connection, product)
    if dataset_of(connection, view.dataset).owner != caller.id:
        raise NotFoundError("product: expected an existing id, got another")
    if view.state == PART:
        raise ConflictError("product: expected one that is sold by itself, got the count of a mean")
    return view


def owned_dataset(connection: Connection, caller: Caller, dataset: str) -> DatasetRow:
    """Return a dataset of the caller's; raises NotFoundError for another's as for none."""
    row = dataset_of(connection, dataset)
    if row.owner != caller.id:
        raise NotFoundError("dataset: expected an existing id, got another")
    return row
