"""Declared public ranges in one form: half-open intervals in canonical order, and the cells that their ends make."""

import math
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

from app.errors import InvalidQueryError
from app.queries.literals import INTEGER_MIN, canonical_text, neighbour, ordered
from app.queries.model import GroupByBins, GroupByRanges, Range
from app.queries.schema import Column, ColumnType

__all__ = ["Cells", "Interval", "cells", "in_order", "intervals", "most_covering", "size_of"]


class Interval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """lower ≤ value < upper, as canonical texts of the column's type; an end that is None is open to that side.

    Example:
        >>> Interval("1", None).label
        '[1, )'
    """

    lower: str | None
    upper: str | None

    @property
    def label(self) -> str:
        """Return the interval's one text: shown, and hashed where a unit's groups are cut."""
        return f"[{self.lower or ''}, {self.upper or ''})"


class Cells(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The line cut at every end of some intervals: cell i holds the values from cuts[i − 1] on and below cuts[i].

    `spans` has, for each interval, the first and the last of the cells that it is made of.
    """

    cuts: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


def intervals(group_by: GroupByBins | GroupByRanges, column: Column) -> tuple[Interval, ...]:
    """Return the declared ranges, or the bins between declared edges, as half-open intervals in the caller's order.

    Every type with an order is countable here (whole numbers, binary64, days, microseconds), so that a closed end is
    the open end one step further, and open to that side at the greatest value. Likewise no value lies below the least
    whole number or real.

    Raises:     InvalidQueryError: a column without order, a literal of another type, edges that do not rise, no bin, a
                range without ends or without a value in it, or one range twice, in whatever spelling.
    Example:
        >>> hours = GroupByRanges(column="hour", ranges=(Range(lower=6, upper=9, end="closed"), Range(lower=9)))
        >>> [interval.label for interval in intervals(hours, Column(name="hour", type="integer"))]
        ['[6, 10)', '[9, )']
    """
    if not ordered(column.type):
        raise InvalidQueryError(f"group_by: expected a column with an order, got {column.type}")
    made = _between(group_by, column) if isinstance(group_by, GroupByBins) else _declared(group_by.ranges, column)
    if len(set(made)) < len(made):
        raise InvalidQueryError("ranges: expected each range once, got one twice")
    return made


def in_order(unordered: Sequence[Interval], kind: ColumnType) -> tuple[Interval, ...]:
    """Return the intervals by lower end, then by upper end; an end open below comes first, one open above last."""

    def order(interval: Interval) -> tuple[Any, ...]:
        lower, upper = _size(kind, interval.lower), _size(kind, interval.upper)
        return interval.lower is not None, lower, interval.upper is None, upper

    return tuple(sorted(unordered, key=order))


def size_of(kind: ColumnType, text: str) -> tuple[float, str]:
    """Return what orders canonical texts of `kind` by size; a whole number stays one, whatever its size.

    Example:
        >>> size_of("real", "-2.0") < size_of("real", "-1.5") < size_of("real", "10.0")
        True
    """
    if kind == "integer":
        return int(text), ""
    return (float(text), "") if kind == "real" else (0, text)


def cells(made: Sequence[Interval], kind: ColumnType) -> Cells:
    """Return the cells that the ends of the intervals cut the line into.

    Example:
        >>> cells([Interval("0", "5"), Interval("2", None)], "integer")
        Cells(cuts=('0', '2', '5'), spans=((1, 2), (2, 3)))
    """
    ends = {end for interval in made for end in (interval.lower, interval.upper) if end is not None}
    cuts = tuple(sorted(ends, key=lambda text: size_of(kind, text)))
    places = {text: place for place, text in enumerate(cuts)}
    return Cells(
        cuts,
        tuple(
            (
                0 if interval.lower is None else places[interval.lower] + 1,
                len(cuts) if interval.upper is None else places[interval.upper],
            )
            for interval in made
        ),
    )


def most_covering(made: Sequence[Interval], kind: ColumnType) -> int:
    """Return the most intervals that one value lies in.

    Example:
        >>> most_covering([Interval("0", "5"), Interval("2", None), Interval("5", "6")], "integer")
        2
    """
    spans = cells(made, kind).spans
    changes = [0] * (max((last for _, last in spans), default=0) + 2)
    for first, last in spans:
        changes[first] += 1
        changes[last + 1] -= 1
    most = covering = 0
    for change in changes:
        covering += change
        most = max(most, covering)
    return most


def _between(group_by: GroupByBins, column: Column) -> tuple[Interval, ...]:
    edges = [canonical_text(column, edge) for edge in group_by.edges]
    sizes = [size_of(column.type, edge) for edge in edges]
    if any(edge >= following for edge, following in pairwise(sizes)):
        raise InvalidQueryError("edges: expected each above the one before, got another order or one twice")
    ends: list[str | None] = [*edges]
    ends = [None, *ends] if group_by.below == "kept" else ends
    ends = [*ends, None] if group_by.above == "kept" else ends
    if len(ends) < 2:
        raise InvalidQueryError("edges: expected at least one bin, got one edge with both sides dropped")
    return tuple(_checked(Interval(*pair), column) for pair in pairwise(ends))


def _declared(ranges: Sequence[Range], column: Column) -> tuple[Interval, ...]:
    made = []
    for declared in ranges:
        if declared.lower is None and declared.upper is None:
            raise InvalidQueryError("ranges: expected at least one end each, got a range with none")
        lower = None if declared.lower is None else canonical_text(column, declared.lower)
        upper = None if declared.upper is None else canonical_text(column, declared.upper)
        if upper is not None and declared.end == "closed":
            upper = _successor(column.type, upper)
        elif upper is None and declared.end == "closed":
            raise InvalidQueryError("ranges: expected a closed end to be given, got none")
        made.append(_checked(Interval(lower, upper), column))
    return tuple(made)


def _checked(interval: Interval, column: Column) -> Interval:
    lower, upper = interval.lower, interval.upper
    if lower in _LEAST.get(column.type, ()):
        lower = None
    if lower is not None and upper is not None and size_of(column.type, lower) >= size_of(column.type, upper):
        raise InvalidQueryError("ranges: expected lower < upper (≤ where closed), got a range without a value")
    if upper is not None and upper in _LEAST.get(column.type, ()):
        raise InvalidQueryError("ranges: expected lower < upper (≤ where closed), got a range without a value")
    return Interval(lower, upper)


def _successor(kind: ColumnType, text: str) -> str | None:
    """The next value of the type, or nothing after the last."""
    if kind == "real":
        following = math.nextafter(float(text), math.inf)
        return None if math.isinf(following) else repr(following)
    if kind == "timestamp":
        moment = datetime.fromisoformat(text)
        if moment == datetime.max:
            return None
        return (moment + timedelta(microseconds=1)).isoformat(" ", "microseconds")
    return neighbour(kind, text, 1)


def _size(kind: ColumnType, text: str | None) -> tuple[float, str]:
    return (0, "") if text is None else size_of(kind, text)


_LEAST: dict[ColumnType, tuple[str, ...]] = {"integer": (str(INTEGER_MIN),), "real": (repr(-sys.float_info.max),)}
