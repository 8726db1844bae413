"""Opening a location panel: people are read and counted, terms checked and logged; their dataset sells no more."""

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from app.auth.accounts import Caller
from app.catalog.datasets import dataset_of, nano_of
from app.catalog.locating import refuse_located
from app.clock import new_id, time_text
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.ledger.money import balance
from app.locations.desk import LAW, LocationPanel, location_of, spent_context
from app.locations.listing import location_view
from app.locations.people import Table, outside, people_of, read_points
from app.locations.terms import MEASURE, Terms, coordinate_of, space_of
from app.locations.transcript import packed
from app.locations.views import LocationOpenedView
from app.locations.wire import LocationRequest
from app.log.journal import append
from app.log.location_leaves import LocationLeaf, LocationSpace
from app.market import Market
from app.store.location_schema import location_panels
from app.store.schema import chains, snapshots
from tiers.budget import decimal_text

__all__ = ["open_location"]

_NUMBERS = ("integer", "real")


def open_location(market: Market, owner: Caller, request: LocationRequest) -> LocationOpenedView:
    """Open a panel on the newest snapshot of an owner's dataset.

    Raises:     NotFoundError: no dataset of the owner's. ConflictError: it has products, or a panel.
                InvalidRequestError: its rows have no unit, are not one a person, or not everybody's coordinates are
                finite; another currency. InvalidParameterError: space, β or budgets
                that do not fit.
    """
    table, snapshot = market.database.read_now(lambda connection: _table(connection, market, owner, request))
    ends = [tuple(coordinate_of(name, getattr(axis, name)) for axis in request.axes) for name in ("low", "high")]
    space = space_of(ends[0], ends[1], coordinate_of("grain", request.grain))
    beta = coordinate_of("beta", request.beta)
    budgets = nano_of("budget", request.budget), nano_of("query_budget", request.query_budget)
    names, points = read_points(market.files, table)
    terms = Terms(space, len(names), *budgets, beta, request.rounds)
    at = time_text(market.clock())

    def work(connection: Connection) -> LocationOpenedView:
        found = _store(connection, market, owner, request, terms, snapshot, at)
        return LocationOpenedView(opened=location_view(found), outside=outside(space, points))

    return market.database.submit(work).result()


def _table(connection: Connection, market: Market, owner: Caller, request: LocationRequest) -> tuple[Table, str]:
    dataset = dataset_of(connection, request.dataset)
    if dataset.owner != owner.id:
        raise NotFoundError("dataset: expected an existing id, got another")
    if dataset.schema.unit is None:
        raise InvalidRequestError("dataset: expected one with a unit's column, got one without")
    columns = [dataset.schema.column(axis.column) for axis in request.axes]
    if any(column.type not in _NUMBERS for column in columns) or len({column.name for column in columns}) < len(
        columns
    ):
        raise InvalidRequestError("axes: expected a numeric column of its own for each, got another")
    row = connection.execute(select(snapshots).where(snapshots.c.id == dataset.snapshot)).one()
    axes = tuple(column.name for column in columns)
    return people_of(row, market.settings.snapshots, dataset.schema, axes), dataset.snapshot


def _store(
    connection: Connection,
    market: Market,
    owner: Caller,
    request: LocationRequest,
    terms: Terms,
    snapshot: str,
    at: str,
) -> LocationPanel:
    prices = {name: price for name, price in msgspec.to_builtins(request.prices).items() if price is not None}
    if not prices:
        raise InvalidRequestError("prices: expected that of one kind at least, got none")
    if balance(connection, owner.id).currency != request.currency:
        raise InvalidRequestError("currency: expected the one that the owner's account is kept in, got another")
    refuse_located(connection, request.dataset)
    sold = select(chains.c.id).where(chains.c.dataset_id == request.dataset).limit(1)
    if connection.execute(sold).one_or_none() is not None:
        raise ConflictError("dataset: expected one without products, got one that sells counts of the same people")
    panel, space = new_id("location"), terms.space
    low, high = [axis.low for axis in request.axes], [axis.high for axis in request.axes]

    def make(index: int) -> LocationLeaf:
        return LocationLeaf(
            index=index,
            at=at,
            panel=panel,
            lineage=request.dataset,
            snapshot=snapshot,
            people=terms.people,
            unit=request.unit,
            space=LocationSpace(
                low=[decimal_text(coordinate_of("low", text)) for text in low],
                high=[decimal_text(coordinate_of("high", text)) for text in high],
                grain=decimal_text(space.grain),
                diagonal=decimal_text(terms.diagonal),
            ),
            promise=MEASURE,
            budget_nano=terms.budget_nano,
            query_nano=terms.query_nano,
            beta=decimal_text(terms.beta),
            rounds=terms.rounds,
            law=LAW,
            prices_minor=prices,
            currency=request.currency,
            licence=request.licence,
        )

    (logged,) = append(connection, market.keyring, at, [make])
    nothing = packed(np.zeros(terms.people, np.int64))
    connection.execute(
        location_panels.insert().values(
            id=panel,
            owner_id=owner.id,
            dataset_id=request.dataset,
            snapshot_id=snapshot,
            title=request.title,
            unit=request.unit,
            axes_json=msgspec.json.encode(request.axes).decode(),
            grain=decimal_text(space.grain),
            people=terms.people,
            budget_nano=terms.budget_nano,
            query_nano=terms.query_nano,
            beta=decimal_text(terms.beta),
            rounds=terms.rounds,
            prices_json=msgspec.json.encode(prices).decode(),
            currency=request.currency,
            licence=request.licence,
            epoch=market.keyring.noise_epoch,
            answered=0,
            sealed_spent=market.keyring.seal(nothing, spent_context(panel, 0)),
            leaf_index=logged.index,
            created_at=at,
        )
    )
    return location_of(connection, panel)
