"""Owners' datasets: a lineage with its unit, its budget and its immutable snapshots."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError as ConstraintError

from app.clock import new_id
from app.engines.duckdb_engine import content_digest, seal
from app.engines.ingest import ingest_csv, ingest_parquet
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.keyring import Keyring
from app.ledger.earnings import sign_contract
from app.log.journal import append
from app.log.leaves import DatasetLeaf, SnapshotLeaf
from app.queries.schema import DatasetSchema
from app.settings import Settings
from app.store.schema import datasets, snapshots
from tiers.canonical import tagged_hash

__all__ = ["DatasetRow", "NewDataset", "PreparedSnapshot", "dataset_of", "prepare_snapshot", "register"]

ADJACENCY = "add or remove one unit with all its rows"


@dataclass(frozen=True, slots=True)
class NewDataset:
    """An owner's declaration, checked, before anything is stored."""

    name: str
    title: str
    description: str
    notice: str
    budget_nano: int
    schema: DatasetSchema
    owners: Mapping[str, int]
    reserve: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot file as built, not yet known to the store."""

    id: str
    path: Path
    content: str
    seal: str


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A dataset as handlers need it."""

    id: str
    owner: str
    name: str
    title: str
    description: str
    notice: str
    schema: DatasetSchema
    budget_nano: int
    spent_nano: int
    snapshot: str


def prepare_snapshot(
    settings: Settings, keyring: Keyring, schema: DatasetSchema, file: str, null_text: str
) -> PreparedSnapshot:
    """Build the immutable snapshot of an owner's file; slow, outside any transaction.

    Raises:     InvalidRequestError: the file is not a plain file of the data folder, or of no known kind; IngestError
                where it does not hold what the schema declares.
    """
    source = _source(settings.data, file)
    snapshot = new_id("snap")
    target = settings.snapshots / f"{snapshot}.duckdb"
    if source.suffix == ".parquet":
        ingest_parquet(source, target, schema)
    else:
        ingest_csv(source, target, schema, null_text=null_text)
    try:
        return PreparedSnapshot(
            snapshot, target, content_digest(target, keyring.content), seal(target, keyring.content)
        )
    except BaseException:
        target.unlink()
        raise


def register(
    connection: Connection, keyring: Keyring, owner: str, new: NewDataset, snapshot: PreparedSnapshot, at: str
) -> str:
    """Store a dataset with its first snapshot and log both; return its id, which is its lineage.

    Raises:     ConflictError: the name, or the content, belongs to a dataset already: its budget stays the one budget.
    """
    dataset = new_id("data")
    schema = msgspec.json.encode(new.schema).decode()
    row = {
        "id": dataset,
        "owner_id": owner,
        "name": new.name,
        "title": new.title,
        "description": new.description,
        "notice": new.notice,
        "salt": new.schema.salt,
        "schema_json": schema,
        "budget_nano": new.budget_nano,
        "spent_nano": 0,
        "contract_version": 0,
        "reserve_low_minor": new.reserve[0] if new.reserve else None,
        "reserve_high_minor": new.reserve[1] if new.reserve else None,
        "created_at": at,
    }
    try:
        connection.execute(datasets.insert().values(row))
        connection.execute(
            snapshots.insert().values(
                id=snapshot.id,
                dataset_id=dataset,
                content=snapshot.content,
                seal=snapshot.seal,
                file=snapshot.path.name,
                created_at=at,
            )
        )
    except ConstraintError:
        raise ConflictError(
            "dataset: expected a new name and new data, got a name or content that is registered; "
            "the same data keep their lineage and its budget"
        ) from None
    sign_contract(connection, dataset, new.owners or {owner: 1})
    unit = new.schema.unit or "row"
    append(
        connection,
        keyring,
        at,
        [
            lambda index: DatasetLeaf(
                index=index,
                at=at,
                lineage=dataset,
                unit=unit,
                adjacency=ADJACENCY,
                salt=new.schema.salt,
                budget_kind="pure",
                budget_nano=new.budget_nano,
                schema=tagged_hash("schema/1", schema.encode()).hex(),
            ),
            lambda index: SnapshotLeaf(
                index=index,
                at=at,
                lineage=dataset,
                snapshot=snapshot.id,
                content=snapshot.content,
                seal=snapshot.seal,
            ),
        ],
    )
    return dataset


def dataset_of(connection: Connection, dataset: str) -> DatasetRow:
    """Return a dataset with its newest snapshot; raises NotFoundError."""
    row = connection.execute(select(datasets).where(datasets.c.id == dataset)).one_or_none()
    if row is None:
        raise NotFoundError("dataset: expected an existing id, got another")
    newest = select(snapshots.c.id).where(snapshots.c.dataset_id == dataset).order_by(snapshots.c.created_at.desc())
    return DatasetRow(
        id=row.id,
        owner=row.owner_id,
        name=row.name,
        title=row.title,
        description=row.description,
        notice=row.notice,
        schema=msgspec.json.decode(row.schema_json, type=DatasetSchema),
        budget_nano=row.budget_nano,
        spent_nano=row.spent_nano,
        snapshot=connection.execute(newest.limit(1)).scalar_one(),
    )


def _source(folder: Path, file: str) -> Path:
    path = folder / file
    plain = os.sep not in file and not file.startswith(".") and path.parent == folder
    if not plain or path.is_symlink() or not path.is_file():
        raise InvalidRequestError("file: expected the name of a plain file in the data folder, got another")
    if not file.endswith((".csv", ".csv.gz", ".zip", ".parquet")):
        raise InvalidRequestError("file: expected a .csv, .csv.gz, .zip or .parquet, got another kind")
    return path
