"""What owners do after publication: new snapshots, new prices, products on and off sale."""

import asyncio
import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.auth.accounts import Caller, Role
from app.catalog.arbitrage import Offer, offer_of
from app.catalog.datasets import add_snapshot, prepare_snapshot
from app.catalog.ladders import laws_of_question
from app.catalog.products import (
    RETIRED,
    book_of_chain,
    move,
    parts_of,
    plan_product,
    publish,
    reprice,
    shared_prices,
    stored_product,
)
from app.catalog.views import dataset_view, product_view
from app.clock import time_text
from app.engines.errors import EngineError, IngestError
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.market import Market
from app.queries.model import Mean
from app.routes.catalog import ARBITRAGE_SECONDS, owned_dataset
from app.views import DatasetView, ProductView
from app.wire import BookRequest, SnapshotRequest, StateRequest
from pricing.book import PriceBook, TierPrice
from pricing.limit import limit_of
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
        prepare_snapshot, market.settings, market.keyring, owned.schema, data.file, data.null_text, owned.source
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
    """Publish the same product on the dataset's newest snapshot, at the prices of now, and retire the old one."""
    at = time_text(market.clock())

    def work(connection: Connection) -> ProductView:
        old = product_view(connection, product)
        dataset = owned_dataset(connection, request.user, old.dataset)
        if old.snapshot == dataset.snapshot:
            raise ConflictError("product: expected a newer snapshot than its own, got none")
        if old.state == "live":
            move(connection, product, RETIRED)
        new = replace(stored_product(connection, product), state="live")
        planned = plan_product(dataset, new, laws_of_question(connection, dataset, new.query))
        limit = limit_of(ARBITRAGE_SECONDS, time.monotonic)
        return product_view(connection, publish(connection, market.keyring, dataset, planned, at, limit))

    return await market.database.write(work)


@post("/v1/products/{product:str}/state", opt=_OWNERS, status_code=201)
async def change_state(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[StateRequest],
    market: NamedDependency[Market],
) -> ProductView:
    """Put a draft or retired product on sale, or take one off; relisted, it sells the same answers."""

    def work(connection: Connection) -> ProductView:
        owned_dataset(connection, request.user, product_view(connection, product).dataset)
        move(connection, product, data.state, limit_of(ARBITRAGE_SECONDS, time.monotonic))
        return product_view(connection, product)

    return await market.database.write(work)


@post("/v1/products/{product:str}/prices", opt=_OWNERS, status_code=201)
async def change_prices(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[BookRequest],
    market: NamedDependency[Market],
) -> ProductView:
    """Give the product's chain a new book: one price a tier of the chain, for every product on it.

    A mean's prices are shared between its two chains as they were when it was published.
    """
    check_currency(data.currency)
    at = time_text(market.clock())

    def work(connection: Connection) -> ProductView:
        view = product_view(connection, product)
        owned_dataset(connection, request.user, view.dataset)
        parts = parts_of(connection, product)
        measure = stored_product(connection, product).query.measure
        prices: tuple[tuple[int, ...], ...] = (data.prices_minor,)
        if isinstance(measure, Mean):
            prices = shared_prices(data.prices_minor, Fraction(measure.sum_share))
        for part, priced in zip(parts, prices, strict=True):
            fresh = _next_book(connection, product_view(connection, part).chain, data.currency, priced)
            offer = _offered(connection, part, fresh) if len(parts) == 1 else None
            limit = limit_of(ARBITRAGE_SECONDS, time.monotonic)
            reprice(connection, market.keyring, offer, fresh, at, limit)
        return product_view(connection, product)

    return await market.database.write(work)


def _next_book(connection: Connection, chain: str, currency: str, prices: tuple[int, ...]) -> PriceBook:
    book = book_of_chain(connection, chain)
    if len(prices) != len(book.tiers):
        raise InvalidRequestError(f"prices: expected one a tier of the chain ({len(book.tiers)}), got another count")
    tiers = tuple(TierPrice(tier.law, price) for tier, price in zip(book.tiers, prices, strict=True))
    return PriceBook(chain, book.version + 1, currency, tiers)


def _offered(connection: Connection, product: str, book: PriceBook) -> Offer:
    held = offer_of(connection, product)
    names = zip(held.tiers, book.tiers, strict=True)
    tiers = tuple((name, variance, tier.price) for (name, variance, _), tier in names)
    return replace(held, currency=book.currency, tiers=tiers)
