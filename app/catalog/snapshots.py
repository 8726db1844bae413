"""A dataset's immutable snapshots: built from an owner's file, sealed, stored and logged."""

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError as ConstraintError

from app.clock import new_id
from app.engines.duckdb_engine import content_digest, seal, units_digest
from app.engines.ingest import ingest_csv, ingest_parquet
from app.engines.postgres_engine import PostgresSnapshot
from app.engines.postgres_ingest import copy_to_postgres, drop_from_postgres
from app.engines.rendering import PostgresTable
from app.errors import ConflictError, InvalidRequestError
from app.files import is_anothers
from app.keyring import Keyring
from app.log.journal import append
from app.log.leaves import SnapshotLeaf
from app.queries.schema import DatasetSchema
from app.settings import Settings
from app.sources import Source
from app.store.schema import snapshots

__all__ = ["PreparedSnapshot", "add_snapshot", "insert_snapshot", "prepare_snapshot", "snapshot_leaf"]


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot file as built, not yet known to the store."""

    id: str
    path: Path
    content: str
    seal: str
    units: str | None
    source: str | None = None

    def discard(self, settings: Settings) -> None:
        """Remove what no dataset came to name."""
        self.path.unlink(missing_ok=True)
        if self.source is not None:
            kept = settings.sources[self.source]
            drop_from_postgres(kept.writer, PostgresTable(kept.schema, self.id))


def prepare_snapshot(
    settings: Settings,
    keyring: Keyring,
    schema: DatasetSchema,
    file: str,
    null_text: str,
    source: str | None = None,
    *,
    owner: str,
) -> PreparedSnapshot:
    """Build the immutable snapshot of an owner's file; slow, outside any transaction.

    Args:       source: the operator's name of the PostgreSQL server that keeps the rows; else a DuckDB file does.
                owner: whose file it must be, where its name says whose it is.

    Raises:     InvalidRequestError: the file is not a plain file of the data folder, or of no known kind; IngestError
                where it does not hold what the schema declares.
    """
    if source is not None and source not in settings.sources:
        raise InvalidRequestError("keep_in: expected the name of a source that the operator set up, got another")
    given = _source(settings.data, file, owner)
    snapshot = new_id("snap")
    target = settings.snapshots / f"{snapshot}.duckdb"
    if given.suffix == ".parquet":
        ingest_parquet(given, target, schema)
    else:
        ingest_csv(given, target, schema, null_text=null_text)
    try:
        key = keyring.content
        units = None if schema.unit is None else units_digest(target, key, schema.column(schema.unit).stable_id)
        content = content_digest(target, key)
        if source is None:
            return PreparedSnapshot(snapshot, target, content, seal(target, key), units)
        sealed = _moved(settings.sources[source], schema, target, snapshot, key)
        return PreparedSnapshot(snapshot, target, content, sealed, units, source)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _moved(source: Source, schema: DatasetSchema, file: Path, snapshot: str, key: bytes) -> str:
    """Copy a snapshot to PostgreSQL, remove the file, and return the digest of the rows as they stand there."""
    table = PostgresTable(source.schema, snapshot)
    copy_to_postgres(file, schema, source.writer, table, source.role)
    try:
        with PostgresSnapshot(source.reader, table) as kept:
            digest = kept.digest(key)
    except BaseException:
        drop_from_postgres(source.writer, table)
        raise
    file.unlink()
    return digest


def add_snapshot(connection: Connection, keyring: Keyring, dataset: str, snapshot: PreparedSnapshot, at: str) -> int:
    """Store and log a dataset's next snapshot; new chains are drawn on it, and charged to the same budget.

    Raises:     ConflictError: the same content is a snapshot already, of this or another dataset, or the same people
                are in another: the budget that they have there would be joined by a second one.
    """
    if snapshot.units is not None:
        held = (snapshots.c.units == snapshot.units) & (snapshots.c.dataset_id != dataset)
        if connection.execute(select(snapshots.c.id).where(held).limit(1)).one_or_none() is not None:
            raise ConflictError(
                "snapshot: expected people who are in no other dataset, got the same units with the same row counts"
            )
    newest = select(snapshots.c.number).where(snapshots.c.dataset_id == dataset).order_by(snapshots.c.number.desc())
    number = connection.execute(newest.limit(1)).scalar_one() + 1
    try:
        insert_snapshot(connection, dataset, number, snapshot, at)
    except ConstraintError:
        raise ConflictError("snapshot: expected new content, got content that is a snapshot already") from None
    append(connection, keyring, at, [lambda index: snapshot_leaf(index, dataset, snapshot, at)])
    return int(number)


def insert_snapshot(connection: Connection, dataset: str, number: int, snapshot: PreparedSnapshot, at: str) -> None:
    """Store a snapshot; the store refuses content that it has."""
    connection.execute(
        snapshots.insert().values(
            id=snapshot.id,
            dataset_id=dataset,
            number=number,
            content=snapshot.content,
            seal=snapshot.seal,
            units=snapshot.units,
            file=snapshot.path.name,
            source=snapshot.source,
            created_at=at,
        )
    )


def snapshot_leaf(index: int, dataset: str, snapshot: PreparedSnapshot, at: str) -> SnapshotLeaf:
    """Return the leaf that names a snapshot."""
    return SnapshotLeaf(
        index=index, at=at, lineage=dataset, snapshot=snapshot.id, content=snapshot.content, seal=snapshot.seal
    )


def _source(folder: Path, file: str, owner: str) -> Path:
    path = folder / file
    plain = os.sep not in file and not file.startswith(".") and path.parent == folder and not is_anothers(file, owner)
    if not plain or path.is_symlink() or not path.is_file():
        raise InvalidRequestError("file: expected the name of a plain file in the data folder, got another")
    if not file.endswith((".csv", ".csv.gz", ".zip", ".parquet")):
        raise InvalidRequestError("file: expected a .csv, .csv.gz, .zip or .parquet, got another kind")
    return path
