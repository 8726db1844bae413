"""Where a value falls among declared ranges, in SQL: a tree of comparisons, then one join where ranges overlap."""

from collections.abc import Sequence

from sqlglot import exp

from app.queries.canonical import CanonicalQuery
from app.queries.conditions import ColumnRef
from app.queries.expressions import all_of, literal, number, where_known
from app.queries.ranges import Interval, cells
from app.queries.schema import ColumnType
from app.queries.sql import alias, column, how_many, select, table

__all__ = ["bins_of_ranges", "celled", "covers", "falls_into_cells", "landed", "open_cells", "spot_of", "spread"]


def falls_into_cells(canonical: CanonicalQuery) -> bool:
    """Return whether a row may count in several ranges, so that it is placed in a cell first."""
    return canonical.cover > 1


def bins_of_ranges(ranges: Sequence[Interval], kind: ColumnType) -> exp.Select:
    """Return (place, key, first, last) of each range: its label, and the cells that it is made of."""
    rows = [
        exp.Tuple(expressions=[number(place), exp.Literal.string(interval.label), number(first), number(last)])
        for place, (interval, (first, last)) in enumerate(zip(ranges, cells(ranges, kind).spans, strict=True))
    ]
    names = [exp.to_identifier(name, quoted=True) for name in ("place", "key", "first", "last")]
    called = exp.TableAlias(this=exp.to_identifier("declared", quoted=True), columns=names)
    return select(exp.Star()).from_(exp.Values(expressions=rows, alias=called), copy=False)


def spot_of(group: ColumnRef, ranges: Sequence[Interval]) -> exp.Expression:
    """Return the place of the range that holds the row's value (its cell where ranges overlap); null outside all."""
    found = cells(ranges, group.type)
    holders: list[list[int]] = [[] for _ in range(len(found.cuts) + 1)]
    for place, (first, last) in enumerate(found.spans):
        for cell in range(first, last + 1):
            holders[cell].append(place)
    overlapping = any(len(places) > 1 for places in holders)
    spots = [(cell if overlapping else places[0]) if places else None for cell, places in enumerate(holders)]
    return where_known(group, _tree(group, found.cuts, spots))


def covers(ranges: Sequence[Interval], kind: ColumnType) -> exp.Select:
    """Return (cell, place) of each cell and each range that it is part of: rows then join by equality alone."""
    numbers = [exp.Tuple(expressions=[number(cell)]) for cell in range(len(cells(ranges, kind).cuts) + 1)]
    called = exp.TableAlias(
        this=exp.to_identifier("cells", quoted=True), columns=[exp.to_identifier("cell", quoted=True)]
    )
    query = select(column("cell", "cells"), column("place", "bins"))
    query.from_(exp.Values(expressions=numbers, alias=called), copy=False)
    inside = exp.Between(this=column("cell", "cells"), low=column("first", "bins"), high=column("last", "bins"))
    return query.join(table("bins", "bins"), on=inside, copy=False)


def spread(rows: str) -> exp.Select:
    """Return each of `rows` once for each range that its cell lies in, with the range's place."""
    everything = exp.Column(this=exp.Star(), table=exp.to_identifier(rows, quoted=True))
    query = select(column("place", "covers"), everything).from_(table(rows, rows), copy=False)
    return query.join(table("covers", "covers"), on=_same("cell", "covers", rows), copy=False)


def celled() -> exp.Select:
    """Return, per unit and cell, how many rows there are."""
    query = select(column("unit"), column("cell"), alias(how_many(), "members")).from_(
        table("kept", "kept"), copy=False
    )
    return query.group_by(column("unit"), column("cell"), copy=False)


def open_cells(chosen: str) -> exp.Select:
    """Return, per unit, the cells that one of its chosen ranges covers, each once."""
    query = select(*(column(name, "celled") for name in ("unit", "cell", "members")))
    query.from_(table("celled", "celled"), copy=False)
    query.join(table("covers", "covers"), on=_same("cell", "covers", "celled"), copy=False)
    same = [_same("unit", chosen, "celled"), _same("place", chosen, "covers")]
    query.join(table(chosen, chosen), on=all_of(same), copy=False)
    return query.distinct(copy=False)


def landed(chosen: str) -> exp.Select:
    """Return the rows that are counted, in those of the unit's chosen ranges that cover them."""
    everything = exp.Column(this=exp.Star(), table=exp.to_identifier("scattered", quoted=True))
    query = select(everything).from_(table("scattered", "scattered"), copy=False)
    same = [_same(name, chosen, "scattered") for name in ("unit", "place")]
    return query.join(table(chosen, chosen), on=all_of(same), copy=False)


def _same(name: str, first: str, second: str) -> exp.Expression:
    return exp.EQ(this=column(name, first), expression=column(name, second))


def _tree(group: ColumnRef, cuts: Sequence[str], spots: Sequence[int | None]) -> exp.Expression:
    """A balanced tree of comparisons: some fourteen a row for ten thousand bins, in place of a join on inequalities."""
    if all(spot == spots[0] for spot in spots):
        return exp.Null() if spots[0] is None else number(spots[0])
    middle = len(cuts) // 2
    below = exp.LT(this=exp.column(group.id, table="source", quoted=True), expression=literal(group, cuts[middle]))
    lower = _tree(group, cuts[:middle], spots[: middle + 1])
    upper = _tree(group, cuts[middle + 1 :], spots[middle + 1 :])
    return exp.Case(ifs=[exp.If(this=below, true=lower)], default=upper)
