"""What an owner declares about a data set: typed columns, the privacy unit, the ceilings of a unit's contribution."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from app.errors import InvalidQueryError

__all__ = [
    "COLUMNS_LIMIT",
    "GROUPS_LIMIT",
    "ORDERING_LIMIT",
    "ROWS_LIMIT",
    "Column",
    "ColumnType",
    "DatasetSchema",
    "Name",
]

COLUMNS_LIMIT = 1_000
ROWS_LIMIT = 10**9
GROUPS_LIMIT = 10_000
ORDERING_LIMIT = 32

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
ColumnType: TypeAlias = Literal["integer", "real", "text", "boolean", "date", "timestamp"]
_Salt: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_UNIT_TYPES = ("integer", "text")


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One declared column: what people call it, its type, and the id that outlives a renaming.

    Types: integer (64 bits), real (binary64; NaN and ±infinity behave as null everywhere), text (compared code point
    by code point, equality only), boolean, date, timestamp (microseconds, UTC).

    Args:       name: the name queries use. type: see above. id: the name in the snapshot and in fingerprints; the name
                itself unless given. source: the header in the owner's file; the id unless given.
    Example:
        >>> Column(name="Carrier", type="text", id="carrier").source_name
        'carrier'
    """

    name: Name
    type: ColumnType
    id: Name | None = None
    source: Name | None = None

    @property
    def stable_id(self) -> str:
        """The id by which snapshots and fingerprints know the column."""
        return self.name if self.id is None else self.id

    @property
    def source_name(self) -> str:
        """The header by which the owner's file knows the column."""
        return self.stable_id if self.source is None else self.source


class DatasetSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The declaration every query on a data set is read against.

    Adjacency: two tables are neighbours when one has all rows of one more unit. A row whose unit is null is nobody's
    and is dropped. Without a unit column the owner declares that no person has more than one row: each row is a unit.

    Args:       columns: the declared columns; names, ids and headers unique without regard to case (engines fold it).
                unit: the name of the unit's column (integer or text), or nothing where each row is a unit.
                ordering: names of the columns, never real, whose text orders a unit's rows before they are cut to k.
                salt: 32 public bytes in hex, minted once for a lineage; it decides which rows and groups of a unit
                are kept. max_rows_per_unit, max_groups_per_unit: ceilings for what a product may declare.
    Raises:     InvalidQueryError: two columns with one name, or a unit or ordering column that cannot serve.
    """

    columns: Annotated[tuple[Column, ...], Meta(min_length=1, max_length=COLUMNS_LIMIT)]
    salt: _Salt
    max_rows_per_unit: Annotated[int, Meta(ge=1, le=ROWS_LIMIT)]
    max_groups_per_unit: Annotated[int, Meta(ge=1, le=GROUPS_LIMIT)]
    unit: Name | None = None
    ordering: Annotated[tuple[Name, ...], Meta(max_length=ORDERING_LIMIT)] = ()
    description: Annotated[str, Meta(max_length=4_000)] = ""

    def __post_init__(self) -> None:
        for role, names in (
            ("name", [column.name for column in self.columns]),
            ("id", [column.stable_id for column in self.columns]),
            ("source", [column.source_name for column in self.columns]),
        ):
            if len({name.casefold() for name in names}) < len(names):
                raise InvalidQueryError(f"columns: expected a {role} of its own for each column, got one twice")
        if self.unit is not None and self.column(self.unit).type not in _UNIT_TYPES:
            raise InvalidQueryError(f"unit: expected an integer or text column, got {self.column(self.unit).type}")
        self.ordered_by(self.ordering)

    def ordered_by(self, names: tuple[str, ...]) -> tuple[Column, ...]:
        """Return the columns that may order a unit's rows; raises InvalidQueryError for a real one or one twice."""
        if len(set(names)) < len(names):
            raise InvalidQueryError("ordering: expected each column once, got one twice")
        columns = tuple(self.column(name) for name in names)
        if any(column.type == "real" for column in columns):
            raise InvalidQueryError("ordering: expected columns that are not real, got a real one")
        return columns

    def column(self, name: str) -> Column:
        """Return the column that queries call `name`; raises InvalidQueryError for an undeclared one."""
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidQueryError(f"column: expected a declared column, got {name[:128]!r}")
