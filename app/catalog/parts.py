"""What a question measures, as rows over parts: which answers are exact linear combinations of which others.

Two answers can stand for each other only if they are the same function of every table. So what is counted or summed,
clamps, bounds on rows and cut groups are all part of what a question is. Within one such *base*, with N(S) the answer
over the values in S of one column:

- each row is a unit: N(S) = Σ N({x}) over x in S, exactly;
- a unit may have many rows: it counts once however many values it touches, its total is clamped once over all of them,
  so N({a, b}) is not N({a}) + N({b}): for a, b = 1, 1 a count of units is 1, not 2. Each N(S) is a cell of its own;
- a histogram of at most k rows a unit, no group cut: its bins share the k rows, so a bin is not N({x}) with the same k,
  but all bins together are N(all keys) = Σ min(k, rows);
- a histogram of one row a unit, cut or not: each unit stands in one bin, so that all bins together count units;
- a histogram that cuts a unit's groups hashes units and keys. Where it keeps one and units are counted, each unit is
  in one bin, so that all bins together are N(all keys). Any other has a base of its own: of three keys a is among the
  first two where it is before b, or before c, but not both; such relations between cuts are not compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from app.queries.canonical import CanonicalQuery, CountRows, CountUnits, SumSteps
from app.queries.conditions import Atom, Condition, Junction, condition_document
from app.queries.measures import measure_document
from tiers.canonical import canonical_bytes

__all__ = ["Part", "clamp_of", "measure_of", "mentioned", "one_lattice", "parts_of", "summed_column"]

Row: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Part:
    """A question as rows over cells of one base: coefficients by cell."""

    base: str
    rows: tuple[Row, ...]


def parts_of(query: CanonicalQuery) -> Iterator[Part]:
    """Return every way in which a question is a set of parts of one column (none: it is compared with nothing)."""
    if query.ranges:
        return
    if query.group is not None:
        cut = query.cuts_groups and not _one_bin_a_unit(query)
        kept = {"cut": {"keys": list(query.keys), "groups": query.groups}} if cut else {}
        yield Part(_base(query, query.group.id, query.where, kept), tuple(_bins(query)))
        return
    conditions = _conjuncts(query.where)
    for condition in conditions:
        if isinstance(condition, Atom) and condition.operator == "in":
            others = [other for other in conditions if other is not condition]
            rest = _base(query, condition.column.id, _joined(others))
            yield Part(rest, (_whole(query, frozenset(condition.values)),))


def measure_of(query: CanonicalQuery) -> str:
    """Return what is counted or summed and how it is bounded: all of a question but its conditions and groups."""
    return canonical_bytes(_measured(query)).decode()


def summed_column(query: CanonicalQuery) -> str | None:
    """Return the stable id of the column that is summed, if one is."""
    return query.measure.column.id if isinstance(query.measure, SumSteps) else None


def clamp_of(query: CanonicalQuery) -> frozenset[int]:
    """Return the two ends of a sum's clamp: where its dependence on a total bends, and no other question's does."""
    measure = query.measure
    return frozenset((measure.lower, measure.upper)) if isinstance(measure, SumSteps) else frozenset()


def one_lattice(first: CanonicalQuery, second: CanonicalQuery) -> bool:
    """Tell whether two sums of a column count in the same steps from the same centre, and every step is a value's own.

    Else they may be one function after all: a whole number is 2 half steps; a value less 1, clamped to 0..5, is the
    value clamped to 1..6, less 1 for each row; and where totals are even, what is clamped to 5 lies between 4 and 6.
    """
    one, other = first.measure, second.measure
    if not isinstance(one, SumSteps) or not isinstance(other, SumSteps):
        return False
    finer = one.column.type == "integer" and one.grain_exponent < 0
    return not finer and (one.grain_exponent, one.centre) == (other.grain_exponent, other.centre)


def mentioned(query: CanonicalQuery) -> frozenset[str]:
    """Return the columns whose values (beyond being known) decide which rows count, or where."""
    found = set() if query.group is None else {query.group.id}
    pending: list[Condition] = [] if query.where is None else [query.where]
    while pending:
        condition = pending.pop()
        if isinstance(condition, Junction):
            pending.extend(condition.operands)
        elif condition.operator not in ("is null", "is not null"):
            found.add(condition.column.id)
    return frozenset(found)


def _whole(query: CanonicalQuery, values: frozenset[str]) -> Row:
    """N(values): a sum of cells where each row is a unit, else one cell."""
    if query.unit is None:
        return dict.fromkeys(values, 1.0)
    return {"\x00".join(sorted(values)): 1.0}


def _bins(query: CanonicalQuery) -> Iterator[Row]:
    keys = query.keys
    shared = query.unit is not None and query.rows > 0 and len(keys) > 1
    if not query.cuts_groups and not shared:
        for key in keys:
            yield _whole(query, frozenset([key]))
        return
    ordering = ",".join(column.id for column in query.ordering)
    kept = query.groups if query.cuts_groups else 0
    cells = [f"{ordering}\x01{number}\x01{kept}\x01" + "\x00".join(keys) for number in range(len(keys))]
    adds_up = _one_bin_a_unit(query) or (not query.cuts_groups and isinstance(query.measure, CountRows))
    if adds_up:  # the first bin is the total less the others
        yield {**_whole(query, frozenset(keys)), **dict.fromkeys(cells[1:], -1.0)}
    for cell in cells[1:] if adds_up else cells:
        yield {cell: 1.0}


def _one_bin_a_unit(query: CanonicalQuery) -> bool:
    return _one_row_a_unit(query) or (query.groups == 1 and isinstance(query.measure, CountUnits))


def _one_row_a_unit(query: CanonicalQuery) -> bool:
    """Each unit counts once, in the group of the one row that is kept: all bins together count units."""
    return query.unit is not None and query.rows == 1 and isinstance(query.measure, CountRows)


def _measured(query: CanonicalQuery) -> dict[str, Any]:
    once = _one_row_a_unit(query)
    return {
        "measure": measure_document(CountUnits() if once else query.measure),
        "unit": "" if query.unit is None else query.unit.id,
        "rows": 0 if once else query.rows,
    }


def _base(
    query: CanonicalQuery, column: str, where: Condition | None, kept: Mapping[str, Any] = MappingProxyType({})
) -> str:
    conditions = [] if where is None else [condition_document(where)]
    document: dict[str, Any] = {**_measured(query), "column": column, "where": conditions, **kept}
    return canonical_bytes(document).decode()


def _conjuncts(where: Condition | None) -> list[Condition]:
    if where is None:
        return []
    if isinstance(where, Junction) and where.operator == "and":
        return list(where.operands)
    return [where]


def _joined(conditions: list[Condition]) -> Condition | None:
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else Junction("and", tuple(conditions))
