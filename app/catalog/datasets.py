"""Owners' datasets: a lineage with its unit, its budget and its immutable snapshots."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError as ConstraintError

from app.clock import new_id
from app.engines.duckdb_engine import content_digest, seal, units_digest
from app.engines.ingest import ingest_csv, ingest_parquet
from app.engines.postgres_engine import PostgresSnapshot
from app.engines.postgres_ingest import copy_to_postgres, drop_from_postgres
from app.engines.rendering import PostgresTable
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.keyring import Keyring
from app.ledger.earnings import sign_contract
from app.log.journal import append
from app.log.leaves import ADJACENCY, DatasetLeaf, SnapshotLeaf, plain_text
from app.queries.schema import DatasetSchema
from app.settings import Settings
from app.sources import Source
from app.store.schema import datasets, snapshots
from tiers.accounting.charges import LedgerKind
from tiers.accounting.filters import ApproxFilter
from tiers.budget import NANO, decimal_text, parse_decimal

__all__ = [
    "ADJACENCY",
    "Budget",
    "DatasetRow",
    "Limits",
    "NewDataset",
    "PreparedSnapshot",
    "add_snapshot",
    "dataset_of",
    "nano_of",
    "prepare_snapshot",
    "register",
]

_BUDGET_CEILING = 1_000


@dataclass(frozen=True, slots=True)
class NewDataset:
    """An owner's declaration, checked, before anything is stored."""

    name: str
    title: str
    description: str
    notice: str
    budget: "Budget"
    schema: DatasetSchema
    owners: Mapping[str, int]
    reserve: tuple[int, int] | None
    limits: "Limits"


@dataclass(frozen=True, slots=True)
class Budget:
    """What a dataset may spend in all: a kind of ledger, its units of 10⁻⁹ (of ε, else of ρ), and what they promise.

    Args:       promise: ε and δ of an approximate budget, as decimals; its units are ⌊ρ*(ε, δ)·10⁹⌋.
    Example:
        >>> Budget.of("approx", "1", "0.000001").nano
        22360381
    """

    kind: LedgerKind
    nano: int
    promise: tuple[str, str] | None = None

    @classmethod
    def of(cls, kind: str, amount: str, delta: str | None = None) -> "Budget":
        """Return the budget that an owner's words state.

        Raises:     InvalidRequestError: δ where none is meant, or none where one is; an amount that is no multiple of
                    10⁻⁹, or not from there to 1,000. InvalidParameterError: an (ε, δ) that allows nothing.
        """
        ledger = LedgerKind(kind)
        if (ledger is LedgerKind.APPROX) != (delta is not None):
            raise InvalidRequestError("budget_delta: expected one for an approx budget, and for no other, got another")
        nano = nano_of("budget", amount)
        if delta is None:
            return cls(ledger, nano)
        epsilon, small = parse_decimal("budget", amount), parse_decimal("budget_delta", delta)
        return cls(ledger, ApproxFilter.of(epsilon, small).budget_nano, (decimal_text(epsilon), decimal_text(small)))


def nano_of(name: str, text: str) -> int:
    """Return an amount of a ledger as whole units of 10⁻⁹.

    Raises:     InvalidRequestError: not a multiple of 10⁻⁹ from there to 1,000.
    Example:
        >>> nano_of("budget", "0.5")
        500000000
    """
    amount = parse_decimal(name, text) * NANO
    if amount.denominator != 1 or not 0 < amount <= _BUDGET_CEILING * NANO:
        raise InvalidRequestError(f"{name}: expected more than 0, at most {_BUDGET_CEILING}, in steps of 10⁻⁹")
    return int(amount)


@dataclass(frozen=True, slots=True)
class Limits:
    """What paces a budget: a buyer's quota, a window of days with its own ceiling, and the ladder analysts may ask at.

    None of them gives budget back: the dataset's budget stays the ceiling of all charges together.
    """

    quota_nano: int | None = None
    window_days: int | None = None
    window_nano: int | None = None
    adhoc: tuple[str, ...] = ()


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
    budget: Budget
    spent_nano: int
    snapshot: str
    source: str | None
    limits: Limits


def prepare_snapshot(
    settings: Settings,
    keyring: Keyring,
    schema: DatasetSchema,
    file: str,
    null_text: str,
    source: str | None = None,
) -> PreparedSnapshot:
    """Build the immutable snapshot of an owner's file; slow, outside any transaction.

    Args:       source: the operator's name of the PostgreSQL server that keeps the rows; else a DuckDB file does.

    Raises:     InvalidRequestError: the file is not a plain file of the data folder, or of no known kind; IngestError
                where it does not hold what the schema declares.
    """
    if source is not None and source not in settings.sources:
        raise InvalidRequestError("keep_in: expected the name of a source that the operator set up, got another")
    given = _source(settings.data, file)
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
        "budget_kind": new.budget.kind.value,
        "promise_json": msgspec.json.encode(new.budget.promise).decode() if new.budget.promise else None,
        "budget_nano": new.budget.nano,
        "spent_nano": 0,
        "contract_version": 0,
        "reserve_low_minor": new.reserve[0] if new.reserve else None,
        "reserve_high_minor": new.reserve[1] if new.reserve else None,
        "quota_nano": new.limits.quota_nano,
        "window_days": new.limits.window_days,
        "window_nano": new.limits.window_nano,
        "adhoc_json": msgspec.json.encode(new.limits.adhoc).decode(),
        "created_at": at,
    }
    if snapshot.units is not None:
        known = select(snapshots.c.id).where(snapshots.c.units == snapshot.units).limit(1)
        if connection.execute(known).one_or_none() is not None:
            raise ConflictError(
                "dataset: expected people who are in no dataset yet, got the same units with the same numbers of rows; "
                "fewer columns or other names do not make another budget"
            )
    try:
        connection.execute(datasets.insert().values(row))
        _insert_snapshot(connection, dataset, 1, snapshot, at)
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
                budget_kind=new.budget.kind.value,
                budget_nano=new.budget.nano,
                schema=plain_text(new.schema),
                reserve_minor=list(new.reserve) if new.reserve else None,
                promise=list(new.budget.promise) if new.budget.promise else None,
            ),
            lambda index: _snapshot_leaf(index, dataset, snapshot, at),
        ],
    )
    return dataset


def add_snapshot(connection: Connection, keyring: Keyring, dataset: str, snapshot: PreparedSnapshot, at: str) -> int:
    """Store and log a dataset's next snapshot; new chains are drawn on it, and charged to the same budget.

    Raises:     ConflictError: the same content is a snapshot already, of this or another dataset.
    """
    newest = select(snapshots.c.number).where(snapshots.c.dataset_id == dataset).order_by(snapshots.c.number.desc())
    number = connection.execute(newest.limit(1)).scalar_one() + 1
    try:
        _insert_snapshot(connection, dataset, number, snapshot, at)
    except ConstraintError:
        raise ConflictError("snapshot: expected new content, got content that is a snapshot already") from None
    append(connection, keyring, at, [lambda index: _snapshot_leaf(index, dataset, snapshot, at)])
    return int(number)


def _insert_snapshot(connection: Connection, dataset: str, number: int, snapshot: PreparedSnapshot, at: str) -> None:
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


def _snapshot_leaf(index: int, dataset: str, snapshot: PreparedSnapshot, at: str) -> SnapshotLeaf:
    return SnapshotLeaf(
        index=index, at=at, lineage=dataset, snapshot=snapshot.id, content=snapshot.content, seal=snapshot.seal
    )


def dataset_of(connection: Connection, dataset: str) -> DatasetRow:
    """Return a dataset with its newest snapshot; raises NotFoundError."""
    row = connection.execute(select(datasets).where(datasets.c.id == dataset)).one_or_none()
    if row is None:
        raise NotFoundError("dataset: expected an existing id, got another")
    newest = (
        select(snapshots.c.id, snapshots.c.source)
        .where(snapshots.c.dataset_id == dataset)
        .order_by(snapshots.c.number.desc())
    )
    snapshot = connection.execute(newest.limit(1)).one()
    return DatasetRow(
        id=row.id,
        owner=row.owner_id,
        name=row.name,
        title=row.title,
        description=row.description,
        notice=row.notice,
        schema=msgspec.json.decode(row.schema_json, type=DatasetSchema),
        budget=Budget(
            LedgerKind(row.budget_kind),
            row.budget_nano,
            None if row.promise_json is None else msgspec.json.decode(row.promise_json, type=tuple[str, str]),
        ),
        spent_nano=row.spent_nano,
        snapshot=snapshot.id,
        source=snapshot.source,
        limits=Limits(
            row.quota_nano,
            row.window_days,
            row.window_nano,
            tuple(msgspec.json.decode(row.adhoc_json, type=list[str])),
        ),
    )


def _source(folder: Path, file: str) -> Path:
    path = folder / file
    plain = os.sep not in file and not file.startswith(".") and path.parent == folder
    if not plain or path.is_symlink() or not path.is_file():
        raise InvalidRequestError("file: expected the name of a plain file in the data folder, got another")
    if not file.endswith((".csv", ".csv.gz", ".zip", ".parquet")):
        raise InvalidRequestError("file: expected a .csv, .csv.gz, .zip or .parquet, got another kind")
    return path
