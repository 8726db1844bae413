"""Bodies about datasets: registered, refreshed, shared among owners."""

from typing import Annotated, Literal

from msgspec import Meta

from app.queries.schema import GROUPS_LIMIT, ROWS_LIMIT, Column, Name
from app.wire.base import Contract, Decimal, Line, Paragraph, RequestBody

__all__ = ["ContractRequest", "DatasetRequest", "ReserveRequest", "SnapshotRequest", "WindowRequest"]


class ReserveRequest(RequestBody, frozen=True, kw_only=True):
    """The range of list prices per 1.0 of ε, in minor units: what budget must at least bring rises from low to high.

    `compensation_minor`: what owners must receive for every 1.0 of ε that is used, after the fee; it lifts low.
    """

    low_minor: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    high_minor: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    compensation_minor: Annotated[int, Meta(ge=0, le=10**12)] = 0


class WindowRequest(RequestBody, frozen=True, kw_only=True):
    """At most `budget` of ε in any `days` days: a pace, which gives nothing back."""

    days: Annotated[int, Meta(ge=1, le=3_650)]
    budget: Decimal


class SnapshotRequest(RequestBody, frozen=True, kw_only=True):
    """A dataset's next file, of the same columns."""

    file: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]*\Z")]
    null_text: Annotated[str, Meta(max_length=16, pattern=r"^[^\x00-\x1f\x7f]*\Z")] = ""


class DatasetRequest(RequestBody, frozen=True, kw_only=True):
    """A dataset: its file in the data folder, its columns, its unit, ceilings of a unit's contribution, its budget.

    `budget` is an ε (pure), a ρ (zcdp), or the ε of a promise (approx, with `budget_delta`), which is kept as the ρ
    that it allows; quota, window and charges are in the units of the ledger: ε if it is pure, else ρ. `keep_in` names a
    PostgreSQL server of the operator's that is to keep the rows.
    """

    name: Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[a-z0-9][a-z0-9-]*\Z")]
    title: Line
    description: Paragraph = ""
    notice: Paragraph = ""
    file: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]*\Z")]
    null_text: Annotated[str, Meta(max_length=16, pattern=r"^[^\x00-\x1f\x7f]*\Z")] = ""
    keep_in: Annotated[str, Meta(min_length=1, max_length=40, pattern=r"^[a-z][a-z0-9-]*\Z")] | None = None
    columns: Annotated[tuple[Column, ...], Meta(min_length=1, max_length=1_000)]
    unit: Name | None = None
    ordering: Annotated[tuple[Name, ...], Meta(max_length=32)] = ()
    max_rows_per_unit: Annotated[int, Meta(ge=1, le=ROWS_LIMIT)]
    max_groups_per_unit: Annotated[int, Meta(ge=1, le=GROUPS_LIMIT)]
    budget_kind: Literal["pure", "zcdp", "approx"] = "pure"
    budget: Decimal
    budget_delta: Decimal | None = None
    quota: Decimal | None = None
    window: WindowRequest | None = None
    adhoc: Annotated[tuple[Decimal, ...], Meta(max_length=64)] = ()
    owners: Contract | None = None
    reserve: ReserveRequest | None = None


class ContractRequest(RequestBody, frozen=True, kw_only=True):
    """Contracted rates by owner's account, for later sales."""

    owners: Contract
