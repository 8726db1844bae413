"""People's places, read from a dataset's sealed snapshot: one row a person, in an order that says nothing of them."""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from app.engines.connection import open_snapshot
from app.engines.duckdb_engine import seal
from app.engines.errors import EngineError
from app.errors import IntegrityError, InvalidRequestError, SnapshotAbsentError
from app.keyring import Keyring
from app.queries.compile import ROWS_TABLE
from tiers.adaptive.space import Places, Space

__all__ = ["Table", "numbered", "outside", "read_points"]

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Table:
    """Where people stand: a snapshot's file and seal, the ids of its unit's column and of its coordinates."""

    file: Path
    seal: str
    unit: str
    axes: tuple[str, ...]


def read_points(keyring: Keyring, table: Table) -> tuple[list[str], Points]:
    """Return who is in a snapshot and where, in any order, from the very bytes that were sealed.

    Raises:     SnapshotAbsentError: the file is not on this machine. IntegrityError: it is not what was sealed.
                InvalidRequestError: nobody, somebody twice, or coordinates that are not finite numbers; no value of a
                row is in the message.
    """
    if not table.file.is_file():
        raise SnapshotAbsentError("snapshot: expected its file on this machine, got none")
    if seal(table.file, keyring.content) != table.seal:
        raise IntegrityError("snapshot: expected the content that was sealed, got other content")
    names, points = _fetched(table)
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


def _fetched(table: Table) -> tuple[list[str], Points]:
    def column(name: str, kind: str) -> exp.Expression:
        return exp.cast(exp.column(name, quoted=True), kind)

    unit = column(table.unit, "TEXT")
    wanted = [
        exp.alias_(unit, "name"),
        *(exp.alias_(column(axis, "DOUBLE"), f"x{at}") for at, axis in _numbered(table)),
    ]
    statement = (
        exp.select(*wanted).from_(ROWS_TABLE).where(exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())))
    )
    connection = open_snapshot(table.file)
    found: dict[str, Any] | None
    try:
        found = connection.execute(statement.sql(dialect="duckdb")).fetchnumpy()
    except duckdb.Error:
        found = None
    finally:
        connection.close()
    if found is None:
        raise EngineError
    columns = [np.ma.filled(np.ma.asarray(found[f"x{at}"], np.float64), np.nan) for at, _ in _numbered(table)]
    return [str(name) for name in found["name"]], np.column_stack(columns)


def _numbered(table: Table) -> list[tuple[int, str]]:
    return list(enumerate(table.axes))
