"""One form, hence one fingerprint, for all ways of asking one question."""

import hashlib
import json
import math
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec

from app.errors import InvalidQueryError
from app.queries.conditions import ColumnRef, Condition, condition_document, normal_form
from app.queries.literals import canonical_text, sort_key
from app.queries.model import Count, GroupByKeys, Query, Sum, checked
from app.queries.schema import Column, DatasetSchema

__all__ = [
    "ENGINE_SEMANTICS",
    "STEPS_LIMIT",
    "CanonicalQuery",
    "CountRows",
    "CountUnits",
    "SumSteps",
    "canonicalise",
    "fingerprint",
    "permutation",
]

ENGINE_SEMANTICS = 1
"""Version of every rule that turns rows into an integer; a change makes every question a new one."""

STEPS_LIMIT = 2**62
_BOUNDING = "least sha256: groups, then rows"
_NULLS = "null unit, null value: dropped; real nan, infinity: null"


class CountUnits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="count units"):
    """1 for each unit (in each of its kept groups)."""


class CountRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="count rows"):
    """1 for each kept row."""


class SumSteps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="sum"):
    """Each unit's total per group in steps of 2^grain_exponent, clamped to [lower, upper] steps."""

    column: ColumnRef
    lower: int
    upper: int
    grain_exponent: int

    @property
    def step(self) -> int:
        """The largest change of one entry when a unit comes or goes, in steps."""
        return max(abs(self.lower), abs(self.upper))


CanonicalMeasure: TypeAlias = CountUnits | CountRows | SumSteps


class CanonicalQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question in its one form: all that can change the integer answer on a given table, and nothing else.

    Args:       unit: the unit's column, or nothing where each row is a unit. keys: texts in canonical order, empty
                without groups. rows: k, or 0 where no bound on rows applies. groups: g, at most the number of keys.
                salt, ordering: "" and () where they cannot change the answer.
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

    @property
    def length(self) -> int:
        """How many integers answer the question."""
        return len(self.keys) if self.group is not None else 1

    @property
    def cuts_groups(self) -> bool:
        """Whether some unit may touch more groups than count."""
        return self.unit is not None and self.groups < self.length

    @property
    def cuts_rows_across_groups(self) -> bool:
        """Whether it matters *which* rows of a unit are kept: not if all fall into one group, where least(k, n) do."""
        return isinstance(self.measure, CountRows) and self.groups > 1

    def fingerprint_document(self) -> dict[str, Any]:
        """Return the plain document (text, whole numbers, lists) that is hashed; no lineage, no snapshot."""
        return {
            "engine_semantics": ENGINE_SEMANTICS,
            "nulls": _NULLS,
            "measure": _measure_document(self.measure),
            "unit": [] if self.unit is None else _column_document(self.unit),
            "where": [] if self.where is None else [condition_document(self.where)],
            "group": [] if self.group is None else _column_document(self.group),
            "keys": list(self.keys),
            "bounds": {"rows": self.rows, "groups": self.groups},
            "bounding": _BOUNDING if self.salt or self.cuts_rows_across_groups else "",
            "salt": self.salt,
            "ordering": [_column_document(column) for column in self.ordering],
        }


def fingerprint(document: dict[str, Any]) -> str:
    """Return the SHA-256, in hex, of a plain document: JSON in UTF-8 with sorted keys and no blanks.

    Example:    >>> fingerprint({"b": 1, "a": "é"})[:16]
                'aa58fba8483623be'
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def canonicalise(query: Query, schema: DatasetSchema) -> CanonicalQuery:
    """Return the one form of `query` on data declared by `schema`.

    Two queries with one form have one answer on every table. Beside what `normal_form` merges: keys are sorted; g is
    at most the number of keys; at most one row in at most one group is a count of units; where each row is a unit,
    rows are units; a clamp is stated in the whole steps it leaves, ⌈lower/γ⌉ to ⌊upper/γ⌋.

    Raises:     InvalidQueryError: an undeclared column, a literal of another type, a key given twice, a bound missing,
                not called for, or above the data set's ceiling, an empty clamp, or one beyond ±2⁶² steps.
    """
    query = checked(query)
    _check_bounds(query, schema)
    unit = None if schema.unit is None else _reference(schema.column(schema.unit))
    group, keys = _groups(query.group_by, schema)
    groups = min(query.groups_per_unit or 1, max(len(keys), 1))
    rows = query.rows_per_unit or 0
    measure = _measure(query.measure, schema)
    if isinstance(measure, CountRows) and (unit is None or rows == groups == 1):
        measure, rows = CountUnits(), 0
    bare = CanonicalQuery(
        measure=measure,
        unit=unit,
        where=None if query.where is None else normal_form(query.where, schema),
        group=group,
        keys=keys,
        rows=rows,
        groups=groups,
    )
    ordering = [_reference(schema.column(name)) for name in schema.ordering] if bare.cuts_rows_across_groups else []
    salted = bare.cuts_groups or bool(ordering)
    return msgspec.structs.replace(bare, salt=schema.salt if salted else "", ordering=tuple(ordering))


def permutation(query: Query, schema: DatasetSchema) -> tuple[int, ...]:
    """Return, for each key in the caller's order, its place in the canonical answer; (0,) without groups.

    Example:    >>> column = Column(name="carrier", type="text")
                >>> schema = DatasetSchema(columns=(column,), salt="0" * 64, max_rows_per_unit=1, max_groups_per_unit=1)
                >>> grouped = Query(measure=Count(of="rows"), group_by=GroupByKeys(column="carrier", keys=("UA", "AA")))
                >>> permutation(grouped, schema)
                (1, 0)
    """
    if query.group_by is None:
        return (0,)
    column = schema.column(query.group_by.column)
    places = {key: place for place, key in enumerate(_groups(query.group_by, schema)[1])}
    return tuple(places[canonical_text(column, key)] for key in query.group_by.keys)


def _check_bounds(query: Query, schema: DatasetSchema) -> None:
    """Each bound is given where it is called for, and only there: one question has one spelling."""
    counts_rows = isinstance(query.measure, Count) and query.measure.of == "rows"
    asked = {
        "rows_per_unit": (query.rows_per_unit, counts_rows, schema.max_rows_per_unit),
        "groups_per_unit": (query.groups_per_unit, query.group_by is not None, schema.max_groups_per_unit),
    }
    for name, (bound, meaningful, ceiling) in asked.items():
        if bound is None and meaningful and schema.unit is not None:
            raise InvalidQueryError(f"{name}: expected a bound from 1 to {ceiling}, got none")
        if bound is not None and not (meaningful and schema.unit is not None):
            raise InvalidQueryError(f"{name}: expected no bound (it changes nothing here), got {bound}")
        if bound is not None and bound > ceiling:
            raise InvalidQueryError(f"{name}: expected at most the data set's ceiling {ceiling}, got {bound}")


def _groups(group_by: GroupByKeys | None, schema: DatasetSchema) -> tuple[ColumnRef | None, tuple[str, ...]]:
    if group_by is None:
        return None, ()
    column = schema.column(group_by.column)
    if column.type not in ("integer", "text"):
        raise InvalidQueryError(f"group_by: expected an integer or text column, got {column.type}")
    keys = {canonical_text(column, key) for key in group_by.keys}
    if len(keys) < len(group_by.keys):
        raise InvalidQueryError("keys: expected each key once, got one twice")
    return _reference(column), tuple(sorted(keys, key=lambda key: sort_key(column.type, key)))


def _measure(measure: Count | Sum, schema: DatasetSchema) -> CanonicalMeasure:
    if isinstance(measure, Count):
        return CountRows() if measure.of == "rows" else CountUnits()
    column = schema.column(measure.column)
    if column.type not in ("integer", "real"):
        raise InvalidQueryError(f"{column.name}: expected an integer or real column to sum, got {column.type}")
    grain = Fraction(2) ** measure.grain_exponent
    lower, upper = math.ceil(Fraction(measure.lower) / grain), math.floor(Fraction(measure.upper) / grain)
    if lower > upper:
        raise InvalidQueryError("clamp: expected lower ≤ upper with a whole step between them, got none")
    if not -STEPS_LIMIT <= lower <= upper <= STEPS_LIMIT:
        raise InvalidQueryError("clamp: expected bounds within ±2⁶² steps of the grain, got more")
    return SumSteps(_reference(column), lower, upper, measure.grain_exponent)


def _reference(column: Column) -> ColumnRef:
    return ColumnRef(column.stable_id, column.type)


def _column_document(column: ColumnRef) -> list[str]:
    return [column.id, column.type]


def _measure_document(measure: CanonicalMeasure) -> dict[str, Any]:
    match measure:
        case CountUnits():
            return {"type": "count units"}
        case CountRows():
            return {"type": "count rows"}
        case SumSteps(column=column, lower=lower, upper=upper, grain_exponent=exponent):
            clamp = [str(lower), str(upper)]
            return {"type": "sum", "column": _column_document(column), "clamp": clamp, "grain_exponent": exponent}
