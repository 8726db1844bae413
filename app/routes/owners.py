"""What owners do after publication: new snapshots, new prices, products on and off sale."""

import asyncio
from dataclasses import replace
from fractions import Fraction
from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.auth.accounts import Caller, Role
from app.catalog.arbitrage import Checked, check_offer, offer_of, store_checked
from app.catalog.books import book_of_chain, reprice
from app.catalog.checking import write_checked
from app.catalog.datasets import DatasetRow
from app.catalog.ladders import laws_of_question
from app.catalog.lifecycle import move, parts_of, stored_product
from app.catalog.products import DRAFT, INTERNAL, LIVE, RETIRED, PlannedProduct, plan_product, shared_prices
from app.catalog.publishing import planned_offer, publish
from app.catalog.shelf import Proposal
from app.catalog.snapshots import add_snapshot, prepare_snapshot
from app.catalog.views import dataset_view, product_view
from app.clock import time_text
from app.engine.state import offered_laws
from app.engines.errors import EngineError, IngestError
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.market import Market
from app.queries.model import Mean
from app.routes.catalog import owned_dataset, owned_product
from app.views import DatasetView, ProductView
from app.wire import BookRequest, SnapshotRequest, StateRequest
from pricing.book import PriceBook, TierPrice
from pricing.money import check_currency

__all__ = ["change_prices", "change_state", "refresh", "snapshot"]

_OWNERS = {"roles": (Role.OWNER,), "refuses": (ConflictError, NotFoundError, IngestError, EngineError)}


@post("/v1/datasets/{dataset:str}/snapshots", opt=_OWNERS, status_code=201)
async def snapshot(
    request: Request[Caller, Any, Any],
    dataset: FromPath[str],
    data: JSONBody[SnapshotRequest],
    market: NamedDependency[Market],
) -> DatasetView:
    """Add a snapshot: new chains are drawn on it and charged to the same budget; old answers stay what they were."""
    owned = await market.database.read(lambda connection: owned_dataset(connection, request.user, dataset))
    built = await asyncio.to_thread(
        prepare_snapshot,
        market.settings,
        market.keyring,
        owned.schema,
        data.file,
        data.null_text,
        owned.source,
        owner=request.user.id,
    )
    at = time_text(market.clock())

    def work(connection: Connection) -> DatasetView:
        owned_dataset(connection, request.user, dataset)
        add_snapshot(connection, market.keyring, dataset, built, at)
        return dataset_view(connection, owned_dataset(connection, request.user, dataset))

    try:
        return await market.database.write(work)
    except BaseException:
        await asyncio.to_thread(built.discard, market.settings)
        raise


@post("/v1/products/{product:str}/refresh", opt=_OWNERS, status_code=201)
async def refresh(
    request: Request[Caller, Any, Any], product: FromPath[str], market: NamedDependency[Market]
) -> ProductView:
    """Publish the same product on the dataset's newest snapshot, at the prices of now, and retire the old one.

    A draft stays one; what was off sale is on sale again.
    """
    at = time_text(market.clock())

    def plan(connection: Connection) -> tuple[DatasetRow, PlannedProduct]:
        old = owned_product(connection, request.user, product)
        if old.state == INTERNAL:
            raise ConflictError("product: expected one that was published, got an analyst's question")
        dataset = owned_dataset(connection, request.user, old.dataset)
        if old.snapshot == dataset.snapshot:
            raise ConflictError("product: expected a newer snapshot than its own, got none")
        new = replace(stored_product(connection, product), state=DRAFT if old.state == DRAFT else LIVE)
        return dataset, plan_product(dataset, new, laws_of_question(connection, dataset, new.query))

    def work(connection: Connection, checked: Checked | None) -> ProductView:
        dataset, planned = plan(connection)
        if product_view(connection, product).state in (DRAFT, LIVE):
            move(connection, product, RETIRED)
        return product_view(connection, publish(connection, market.keyring, dataset, planned, at, checked))

    return await write_checked(
        market.database, at, lambda connection: planned_offer(connection, *plan(connection)), work
    )


@post("/v1/products/{product:str}/state", opt=_OWNERS, status_code=201)
async def change_state(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[StateRequest],
    market: NamedDependency[Market],
) -> ProductView:
    """Put a draft or retired product on sale, or take one off; relisted, it sells the same answers."""

    def find(connection: Connection) -> Proposal:
        owned_product(connection, request.user, product)
        return offer_of(connection, product)

    def work(connection: Connection, checked: Checked | None) -> ProductView:
        owned_product(connection, request.user, product)
        move(connection, product, data.state, checked)
        return product_view(connection, product)

    return await write_checked(market.database, time_text(market.clock()), find, work)


@post("/v1/products/{product:str}/prices", opt=_OWNERS, status_code=201)
async def change_prices(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[BookRequest],
    market: NamedDependency[Market],
) -> ProductView:
    """Give the product's chain a new book: one price a tier of the chain, for every product on it.

    A mean has one price a tier of its own, shared between its two chains as they were when it was published; tiers of
    those chains that it does not offer keep their prices.
    """
    check_currency(data.currency)
    at = time_text(market.clock())

    def change(connection: Connection) -> tuple[Proposal, list[PriceBook]]:
        owned_product(connection, request.user, product)
        prices: tuple[tuple[int, ...], ...] = (data.prices_minor,)
        measure = stored_product(connection, product).query.measure
        if isinstance(measure, Mean):
            prices = shared_prices(data.prices_minor, Fraction(measure.sum_share))
        parts = parts_of(connection, product)
        fresh = [
            _next_book(connection, part, data.currency, priced, whole=len(parts) == 1)
            for part, priced in zip(parts, prices, strict=True)
        ]
        return offer_of(connection, product, fresh), fresh

    def work(connection: Connection, checked: Checked | None) -> ProductView:
        proposal, books = change(connection)
        current = check_offer(connection, proposal, checked)
        for book in books:
            reprice(connection, market.keyring, book, at)
        store_checked(connection, books[0].chain_id, current)
        return product_view(connection, product)

    return await write_checked(market.database, at, lambda connection: change(connection)[0], work)


def _next_book(
    connection: Connection, product: str, currency: str, prices: tuple[int, ...], *, whole: bool
) -> PriceBook:
    """Return the next book of a product's chain: its own tiers, or the whole chain, at new prices."""
    book = book_of_chain(connection, product_view(connection, product).chain)
    offered = offered_laws(connection, product)
    laws = [tier.law for tier in book.tiers if whole or tier.law in offered]
    if len(prices) != len(laws):
        what = "the chain" if whole else "the mean"
        raise InvalidRequestError(f"prices: expected one a tier of {what} ({len(laws)}), got another count")
    new = dict(zip(laws, prices, strict=True))
    tiers = tuple(TierPrice(tier.law, new.get(tier.law, tier.price)) for tier in book.tiers)
    return PriceBook(book.chain_id, book.version + 1, currency, tiers)
