"""One form, hence one fingerprint, for all ways of asking one question."""

import hashlib
import json
from typing import Any

import msgspec

from app.errors import InvalidQueryError
from app.queries.conditions import ColumnRef, Condition, condition_document, normal_form
from app.queries.literals import canonical_text, sort_key
from app.queries.measures import (
    STEPS_LIMIT,
    CanonicalMeasure,
    CountRows,
    CountUnits,
    MeanSteps,
    SumSteps,
    canonical_measure,
    counts_rows,
    measure_document,
)
from app.queries.model import COVER_LIMIT, GroupBy, GroupByBins, GroupByKeys, Mean, Quantile, Query, checked
from app.queries.ranges import Interval, in_order, intervals, most_covering
from app.queries.schema import Column, DatasetSchema

__all__ = [
    "ENGINE_SEMANTICS",
    "STEPS_LIMIT",
    "CanonicalQuery",
    "CountRows",
    "CountUnits",
    "MeanSteps",
    "SumSteps",
    "canonicalise",
    "fingerprint",
    "permutation",
    "settled",
]

ENGINE_SEMANTICS = 1
"""Version of every rule that turns rows into an integer; a change makes every question a new one."""

_BOUNDING = "least sha256: groups, then rows"
_NULLS = "null unit, null value: dropped; real nan, infinity: null"


class CanonicalQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question in its one form: all that can change the integer answer on a given table, and nothing else.

    Args:       unit: the unit's column, or nothing where each row is a unit. keys, ranges: in canonical order, one of
                them empty, both without groups. rows: k, or 0 where no bound on rows applies. groups: g, at most the
                number of groups; where each row is a unit, the most ranges that cover one value. salt, ordering: "" and
                () where they cannot change the answer.
    """

    measure: CanonicalMeasure
    unit: ColumnRef | None = None
    where: Condition | None = None
    group: ColumnRef | None = None
    keys: tuple[str, ...] = ()
    rows: int = 0
    groups: int = 1
    salt: str = ""
    ordering: tuple[ColumnRef, ...] = ()
    ranges: tuple[Interval, ...] = ()

    @property
    def length(self) -> int:
        """How many integers answer the question."""
        return len(self.labels) if self.group is not None else 1

    @property
    def labels(self) -> tuple[str, ...]:
        """One text for each entry of the answer, in canonical order: its key or its range; none without groups."""
        return self.keys or tuple(interval.label for interval in self.ranges)

    @property
    def cover(self) -> int:
        """The most groups that one row can fall into: 1, unless ranges overlap."""
        return most_covering(self.ranges, self.group.type) if self.group is not None and self.ranges else 1

    @property
    def cuts_groups(self) -> bool:
        """Whether some unit may touch more groups than count."""
        return self.unit is not None and self.groups < self.length

    @property
    def cuts_rows(self) -> bool:
        """Whether it matters *which* rows of a unit are kept: not to a count in one group, where least(k, n) are."""
        summed = isinstance(self.measure, SumSteps | MeanSteps) and self.rows > 0
        return summed or (isinstance(self.measure, CountRows) and self.groups > 1)

    def fingerprint_document(self) -> dict[str, Any]:
        """Return the plain document (text, whole numbers, lists) that is hashed; no lineage, no snapshot."""
        bounding = _BOUNDING if self.salt or self.cuts_rows else ""
        document = {
            "engine_semantics": ENGINE_SEMANTICS,
            "nulls": _NULLS,
            "measure": measure_document(self.measure),
            "unit": [] if self.unit is None else _column_document(self.unit),
            "where": [] if self.where is None else [condition_document(self.where)],
            "group": [] if self.group is None else _column_document(self.group),
            "keys": list(self.keys),
            "bounds": {"rows": self.rows, "groups": self.groups},
            "bounding": bounding,
            "salt": self.salt,
            "ordering": [_column_document(column) for column in self.ordering],
        }
        ranges = [[[end] if end is not None else [] for end in (each.lower, each.upper)] for each in self.ranges]
        return document | ({"ranges": ranges} if ranges else {})


def fingerprint(document: dict[str, Any]) -> str:
    """Return the SHA-256, in hex, of a plain document: JSON in UTF-8 with sorted keys and no blanks.

    Example:
        >>> fingerprint({"b": 1, "a": "é"})[:16]
        'aa58fba8483623be'
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def canonicalise(query: Query, schema: DatasetSchema) -> CanonicalQuery:
    """Return the one form of `query` on data declared by `schema`.

    Two queries with one form have one answer on every table. Beside what `normal_form` merges: keys and ranges are
    sorted, bins are ranges; g is at most the number of groups; at most one row in at most one group is a count of
    units; where each row is a unit, rows are units; a clamp is stated in the whole steps it leaves, ⌈lower/γ⌉ to
    ⌊upper/γ⌋; a quantile is its histogram, a threshold its count. A mean is one form for its two components.

    Raises:     InvalidQueryError: an undeclared column, a literal of another type, a key, range or edge given twice, a
                bound or ordering missing, not called for, or above the data set's ceiling, an empty clamp, or one
                beyond ±2⁶² steps.
    """
    query = checked(query)
    _check_bounds(query, schema)
    _check_ordering(query, schema)
    if isinstance(query.measure, Quantile) and not isinstance(query.group_by, GroupByBins):
        raise InvalidQueryError("group_by: expected declared bins to read a quantile off, got none")
    group, keys, ranges = _groups(query.group_by, schema)
    bare = CanonicalQuery(
        measure=canonical_measure(query.measure, schema),
        unit=None if schema.unit is None else _reference(schema.column(schema.unit)),
        where=None if query.where is None else normal_form(query.where, schema),
        group=group,
        keys=keys,
        ranges=ranges,
        rows=query.rows_per_unit or 0,
        groups=min(query.groups_per_unit or 1, max(len(keys), len(ranges), 1)),
    )
    ordering = schema.ordering if query.ordering is None else query.ordering
    return settled(bare, schema.salt, tuple(_reference(column) for column in schema.ordered_by(ordering)))


def settled(bare: CanonicalQuery, salt: str, ordering: tuple[ColumnRef, ...]) -> CanonicalQuery:
    """Return the question with a count of at most one row as one of units, salt and ordering where they can tell."""
    if bare.unit is None:
        bare = msgspec.structs.replace(bare, groups=bare.cover)
    if isinstance(bare.measure, CountRows) and (bare.unit is None or bare.rows == bare.groups == 1):
        bare = msgspec.structs.replace(bare, measure=CountUnits(), rows=0)
    kept = ordering if bare.cuts_rows else ()
    return msgspec.structs.replace(bare, salt=salt if bare.cuts_groups or kept else "", ordering=kept)


def permutation(query: Query, schema: DatasetSchema) -> tuple[int, ...]:
    """Return, for each key (range, bin) in the caller's order, its place in the canonical answer; (0,) without groups.

    Example:
        >>> from app.queries.model import Count
        >>> column = Column(name="carrier", type="text")
        >>> schema = DatasetSchema(columns=(column,), salt="0" * 64, max_rows_per_unit=1, max_groups_per_unit=1)
        >>> grouped = Query(measure=Count(of="rows"), group_by=GroupByKeys(column="carrier", keys=("UA", "AA")))
        >>> permutation(grouped, schema)
        (1, 0)
    """
    group_by = query.group_by
    if group_by is None:
        return (0,)
    column = schema.column(group_by.column)
    _, keys, ranges = _groups(group_by, schema)
    if isinstance(group_by, GroupByKeys):
        places = {key: place for place, key in enumerate(keys)}
        return tuple(places[canonical_text(column, key)] for key in group_by.keys)
    spans = {interval: place for place, interval in enumerate(ranges)}
    return tuple(spans[interval] for interval in intervals(group_by, column))


def _check_bounds(query: Query, schema: DatasetSchema) -> None:
    """Each bound is given where it is called for, and only there: one question has one spelling."""
    asked = {
        "rows_per_unit": (query.rows_per_unit, counts_rows(query.measure), schema.max_rows_per_unit),
        "groups_per_unit": (query.groups_per_unit, query.group_by is not None, schema.max_groups_per_unit),
    }
    for name, (bound, meaningful, ceiling) in asked.items():
        if bound is None and meaningful and schema.unit is not None:
            raise InvalidQueryError(f"{name}: expected a bound from 1 to {ceiling}, got none")
        if bound is not None and not (meaningful and schema.unit is not None):
            raise InvalidQueryError(f"{name}: expected no bound (it changes nothing here), got {bound}")
        if bound is not None and bound > ceiling:
            raise InvalidQueryError(f"{name}: expected at most the data set's ceiling {ceiling}, got {bound}")


def _check_ordering(query: Query, schema: DatasetSchema) -> None:
    """An ordering is given only where it can matter which rows are kept; which of a mean's are is never left open."""
    mean = isinstance(query.measure, Mean)
    meaningful = schema.unit is not None and counts_rows(query.measure) and (mean or query.group_by is not None)
    if query.ordering is not None and not meaningful:
        raise InvalidQueryError("ordering: expected none (it changes nothing here), got one")
    ordering = schema.ordering if query.ordering is None else query.ordering
    if mean and schema.unit is not None and not ordering:
        raise InvalidQueryError("ordering: expected columns by which a unit's rows are cut to k, got none")


def _groups(
    group_by: GroupBy | None, schema: DatasetSchema
) -> tuple[ColumnRef | None, tuple[str, ...], tuple[Interval, ...]]:
    if group_by is None:
        return None, (), ()
    column = schema.column(group_by.column)
    if not isinstance(group_by, GroupByKeys):
        ranges = intervals(group_by, column)
        if most_covering(ranges, column.type) > COVER_LIMIT:
            raise InvalidQueryError(f"ranges: expected at most {COVER_LIMIT} that cover one value, got more")
        return _reference(column), (), in_order(ranges, column.type)
    if column.type not in ("integer", "text"):
        raise InvalidQueryError(f"group_by: expected an integer or text column, got {column.type}")
    keys = {canonical_text(column, key) for key in group_by.keys}
    if len(keys) < len(group_by.keys):
        raise InvalidQueryError("keys: expected each key once, got one twice")
    return _reference(column), tuple(sorted(keys, key=lambda key: sort_key(column.type, key))), ()


def _reference(column: Column) -> ColumnRef:
    return ColumnRef(column.stable_id, column.type)


def _column_document(column: ColumnRef) -> list[str]:
    return [column.id, column.type]
