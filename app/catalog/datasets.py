"""Owners' datasets: a lineage with its unit and its budget."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError as ConstraintError

from app.catalog.snapshots import PreparedSnapshot, insert_snapshot, snapshot_leaf
from app.clock import new_id
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.keyring import Keyring
from app.ledger.earnings import sign_contract
from app.log.journal import append
from app.log.leaves import ADJACENCY, DatasetLeaf, plain_text
from app.queries.schema import DatasetSchema
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
    "dataset_of",
    "nano_of",
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
        rule = f"more than 0, at most {_BUDGET_CEILING}, in steps of 10⁻⁹"
        raise InvalidRequestError(f"{name}: expected {rule}, got {text}")
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
        insert_snapshot(connection, dataset, 1, snapshot, at)
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
            lambda index: snapshot_leaf(index, dataset, snapshot, at),
        ],
    )
    return dataset


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
