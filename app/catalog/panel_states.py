"""Panels of either kind, on sale and off it: an owner's act, to and fro; what was sold stays sold, and readable."""

from sqlalchemy import Connection, Table

from app.catalog.products import LIVE, RETIRED
from app.errors import ConflictError

__all__ = ["move_panel", "refuse_off_sale"]


def move_panel(connection: Connection, table: Table, panel: str, current: str, state: str) -> None:
    """Put a panel of the table's kind on sale, or take it off; raises ConflictError where it is there already."""
    if (current, state) not in {(LIVE, RETIRED), (RETIRED, LIVE)}:
        raise ConflictError(f"panel: expected a move that exists, got {current} to {state}")
    connection.execute(table.update().where(table.c.id == panel).values(state=state))


def refuse_off_sale(state: str) -> None:
    """Raise ConflictError where a panel's owner has taken it off sale."""
    if state != LIVE:
        raise ConflictError(f"panel: expected one on sale, got one that is {state}")
