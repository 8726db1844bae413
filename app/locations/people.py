"""People's places, read from a dataset's sealed snapshot: one row a person, in an order that says nothing of them."""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Row
from sqlglot import exp

from app.engine.snapshots import Kept, SnapshotFiles
from app.errors import InvalidRequestError
from app.keyring import Keyring
from app.queries import sql
from app.queries.compile import ROWS_TABLE
from app.queries.expressions import is_known
from app.queries.schema import DatasetSchema
from tiers.adaptive.space import Places, Space

__all__ = ["Table", "numbered", "outside", "people_of", "read_points"]

Points = npt.NDArray[np.float64]
_ROWS = "source"


@dataclass(frozen=True, slots=True)
class Table:
    """Where people stand: a snapshot, the ids of its unit's column and of its coordinates."""

    kept: Kept
    unit: str
    axes: tuple[str, ...]


def people_of(snapshot: "Row[Any]", folder: Path, schema: DatasetSchema, axes: tuple[str, ...]) -> Table:
    """Return the table of a snapshot's row in the store, of a dataset with a unit, by its columns' names."""
    kept = Kept(snapshot.id, folder / snapshot.file, snapshot.source, snapshot.seal)
    assert schema.unit is not None
    return Table(kept, schema.column(schema.unit).stable_id, tuple(schema.column(axis).stable_id for axis in axes))


def read_points(files: SnapshotFiles, table: Table) -> tuple[list[str], Points]:
    """Return who is in a snapshot and where, in any order, from the very rows that were sealed.

    Raises:     SnapshotAbsentError: the file is not on this machine. IntegrityError: it, or the server's table, is not
                what was sealed. EngineError: the server does not answer. InvalidRequestError: nobody, somebody twice,
                or coordinates that are not finite numbers; no value of a row is in the message.
    """
    names, points = files.named_numbers(table.kept, _question(table))
    if not names:
        raise InvalidRequestError("dataset: expected at least one person, got none")
    if len(set(names)) < len(names):
        raise InvalidRequestError("dataset: expected one row a person, got somebody twice")
    if not np.isfinite(points).all():
        raise InvalidRequestError("dataset: expected finite coordinates in every row, got NaN, an infinity or none")
    return names, points


def numbered(keyring: Keyring, panel: str, names: list[str], points: Points, space: Space) -> Places:
    """Return people's places on the grid by their numbers: the order of a keyed hash of their names."""
    key = hmac.digest(keyring.content, b"tiermarket/location-person/1\n" + panel.encode(), sha256)
    order = sorted(range(len(names)), key=[hmac.digest(key, name.encode(), sha256) for name in names].__getitem__)
    return space.locate(points[order])


def outside(space: Space, points: Points) -> int:
    """Return how many people are outside the declared box, and are taken to be on its edge: for the owner alone."""
    low = np.array([float(value) for value in space.corner])
    high = low + (np.array(space.sides) - 1) * float(space.grain)
    return int(((points < low) | (points > high)).any(axis=1).sum())


def _question(table: Table) -> exp.Select:
    def of(name: str, kind: str) -> exp.Expression:
        return exp.cast(sql.column(name, _ROWS), kind)

    unit = of(table.unit, "TEXT")
    axes = (sql.alias(of(axis, "DOUBLE"), f"x{place}") for place, axis in enumerate(table.axes))
    rows = sql.select(sql.alias(unit, "name"), *axes).from_(sql.table(ROWS_TABLE, _ROWS))
    return rows.where(is_known(unit.copy()))
