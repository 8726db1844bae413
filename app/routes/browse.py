"""Browsing: search, data dictionaries, rehearsals; free, and nothing of it is logged, charged or drawn from data."""

from functools import partial
from typing import Any

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from sqlalchemy import Connection

from app.asks import SearchQuery
from app.auth.accounts import Caller, Role
from app.catalog.dictionary import dictionary_view
from app.catalog.rehearsal import rehearse, rehearse_reading
from app.catalog.search import Search, find_products
from app.engine.state import etag_of
from app.errors import NotAcceptableError, NotFoundError
from app.formats.readings import ReadOff, render_reading
from app.market import Answer, Market
from app.routes.accounts import EVERYBODY
from app.routes.answers import answer_response
from app.routes.catalog import visible_product
from app.routes.paging import page, read_query
from app.routes.representation import asked_format, represent
from app.routes.trade import TRADERS
from app.views import DictionaryView, ProductView
from app.wire import RehearsalRequest
from tiers.budget import parse_epsilon

__all__ = ["dictionary", "products", "rehearsal", "rehearsed_reading"]


@get("/v1/products", opt={"roles": EVERYBODY, "query": SearchQuery})
async def products(
    request: Request[Caller, Any, Any],
    market: NamedDependency[Market],
) -> Response[list[ProductView]]:
    """Return products in order of publication, in pages: `after` is the last `leaf_index` seen.

    `q`: words that all occur in title, description, or the dataset's. `epsilon`, `max_price_minor`: one offered tier
    has this ε and costs at most this. `on_sale`: whether the budget still admits such a tier of a live product.
    """
    wanted = read_query(request, SearchQuery)
    search = Search(
        words=wanted.q,
        dataset=wanted.dataset,
        currency=wanted.currency,
        epsilon=None if wanted.epsilon is None else parse_epsilon(wanted.epsilon),
        max_price_minor=wanted.max_price_minor,
        on_sale=wanted.on_sale,
    )
    found = await market.database.read(
        lambda connection: find_products(connection, search, after=wanted.after, count=wanted.count + 1)
    )
    return page(request, found, wanted.count, lambda product: product.leaf_index)


@get("/v1/datasets/{dataset:str}/dictionary", opt={"roles": EVERYBODY, "refuses": (NotFoundError,)})
async def dictionary(
    request: Request[Caller, Any, Any], dataset: FromPath[str], market: NamedDependency[Market]
) -> DictionaryView:
    """Return what a dataset declares: columns, types, unit, ordering, notices; its owner's words, not its rows."""
    return await market.database.read(lambda connection: dictionary_view(connection, dataset, request.user))


@post(
    "/v1/products/{product:str}/rehearsal/reading",
    opt={"roles": (*TRADERS, Role.OWNER), "refuses": (NotFoundError, NotAcceptableError), "formats": True},
    status_code=200,
)
async def rehearsed_reading(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[RehearsalRequest],
    market: NamedDependency[Market],
) -> Response[bytes]:
    """Return what would be read off the dummy answers of a tier: a threshold's bits, a quantile's bin, means."""
    wanted = asked_format(request)

    def read(connection: Connection) -> ReadOff:
        visible_product(connection, request.user, product)
        return rehearse_reading(connection, product, data.law, data.epsilon)

    found = await market.database.read(read)
    shown = await represent(partial(render_reading, found), wanted, (product, "rehearsal"))
    shown.headers["X-Tiermarket-Dummy"] = "true"
    return shown


@post(
    "/v1/products/{product:str}/rehearsal",
    opt={"roles": (*TRADERS, Role.OWNER), "refuses": (NotFoundError, NotAcceptableError), "formats": True},
    status_code=200,
)
async def rehearsal(
    request: Request[Caller, Any, Any],
    product: FromPath[str],
    data: JSONBody[RehearsalRequest],
    market: NamedDependency[Market],
) -> Response[bytes]:
    """Return a dummy answer of a tier's shape, in any format; free, marked, and no number in it is about the data."""
    wanted = asked_format(request)

    def read(connection: Connection) -> bytes:
        visible_product(connection, request.user, product)
        return rehearse(connection, product, data.law, data.epsilon)

    body = await market.database.read(read)
    etag = etag_of("rehearsal", product, body)
    status, headers, sent = await answer_response(market, Answer(body, etag), "rehearsal", product, wanted)
    named = {name.decode(): value.decode() for name, value in headers if name != b"content-length"}
    media = named.pop("content-type").replace("charset=utf-8; ", "")  # Litestar adds it
    return Response(sent, status_code=status, media_type=media, headers=named | {"X-Tiermarket-Dummy": "true"})
