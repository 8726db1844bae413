"""Dashboards as data: which products at which tiers, and how each is shown; the numbers are what the analyst holds."""

from fractions import Fraction

import msgspec
from sqlalchemy import Connection, select

from app.catalog.views import product_view
from app.clock import new_id
from app.errors import NotFoundError, UnknownTierError
from app.store.paging import rows_after
from app.store.schema import dashboards
from app.wire import TileRequest
from tiers.budget import parse_epsilon

__all__ = ["dashboard_of", "delete_dashboard", "law_of", "list_dashboards", "save_dashboard"]


def save_dashboard(connection: Connection, account: str, name: str, tiles: tuple[TileRequest, ...], at: str) -> str:
    """Store a dashboard; every tile names a product that exists and a tier that it offers."""
    for tile in tiles:
        law_of(connection, tile)
    dashboard = new_id("dash")
    row = {"id": dashboard, "account_id": account, "name": name, "tiles_json": msgspec.json.encode(tiles).decode()}
    connection.execute(dashboards.insert().values(**row, created_at=at))
    return dashboard


def list_dashboards(connection: Connection, account: str, *, after: str | None, count: int) -> list[dict[str, str]]:
    """Return up to `count` of the account's dashboards, oldest first, from the one after dashboard `after`.

    Raises:     InvalidRequestError: `after` is none of them, or no more.
    """
    place, mine = (dashboards.c.created_at, dashboards.c.id), dashboards.c.account_id == account
    found = rows_after(connection, select(dashboards), place, of=mine, after=after, count=count)
    return [{"dashboard": row.id, "name": row.name} for row in found]


def dashboard_of(
    connection: Connection, account: str, dashboard: str
) -> tuple[str, list[tuple[TileRequest, str, str]]]:
    """Return a dashboard's name and its tiles, each with its chain and law; raises NotFoundError for another's."""
    wanted = select(dashboards).where(dashboards.c.id == dashboard, dashboards.c.account_id == account)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError("dashboard: expected one of the caller's own, got another id")
    tiles = msgspec.json.decode(row.tiles_json, type=list[TileRequest])
    return row.name, [(tile, *law_of(connection, tile)) for tile in tiles]


def delete_dashboard(connection: Connection, account: str, dashboard: str) -> None:
    """Delete one of the account's dashboards; raises NotFoundError for another's."""
    mine = (dashboards.c.id == dashboard) & (dashboards.c.account_id == account)
    if connection.execute(dashboards.delete().where(mine)).rowcount != 1:
        raise NotFoundError("dashboard: expected one of the caller's own, got another id")


def law_of(connection: Connection, tile: TileRequest) -> tuple[str, str]:
    """Return the chain and law of a tile's tier; raises NotFoundError."""
    view, wanted = product_view(connection, tile.product), parse_epsilon(tile.epsilon)
    for tier in view.tiers:
        if Fraction(tier.epsilon) == wanted:
            return view.chain, tier.law
    raise UnknownTierError(f"tier: expected one that the product offers, got another for {tile.product}")
