"""One dataset feeds products or one location panel, never both: their promises do not add up in one ledger."""

from sqlalchemy import Connection, select

from app.errors import ConflictError
from app.store.location_schema import location_panels

__all__ = ["refuse_located"]


def refuse_located(connection: Connection, dataset: str) -> None:
    """Refuse to sell anything else of a dataset that has a location panel; raises ConflictError."""
    held = select(location_panels.c.id).where(location_panels.c.dataset_id == dataset)
    if connection.execute(held).one_or_none() is not None:
        raise ConflictError("dataset: expected one without a location panel, got one whose people's places are sold")
