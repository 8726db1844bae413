"""One canonical question as one SQL expression: built from nodes, never from anybody's SQL text."""

from collections.abc import Sequence

from sqlglot import exp

from app.queries.canonical import CanonicalQuery, CountRows, CountUnits, SumSteps
from app.queries.conditions import ColumnRef
from app.queries.expressions import (
    SQL_TYPES,
    all_of,
    canonical_field,
    condition_expression,
    is_known,
    number,
    row_steps,
    sha256_of,
    value_of,
    within,
)
from app.queries.measures import RawMeasure, raw
from app.queries.placing import bins_of_ranges, celled, covers, falls_into_cells, landed, open_cells, spot_of, spread
from app.queries.sql import alias, column, how_many, select, table

__all__ = ["ROWS_TABLE", "compile_query"]

ROWS_TABLE = "dataset_rows"
"""The one table of a snapshot; its columns are called by their stable ids."""

_LABEL = ColumnRef("range", "text")


def compile_query(canonical: CanonicalQuery) -> exp.Expression:
    """Return the SELECT whose rows, in order, are (place, answer) for each key or range, or one row (0, answer).

    Every step is a deterministic function of one unit's own rows, followed by an exact sum over units:

    - kept: rows whose `where` is TRUE, whose unit is not null, whose group is declared, whose summed value is finite;
    - touched: per unit and declared group, how many rows there are (and the clamped total of steps);
    - chosen: the at most g touched groups of a unit with the least SHA-256(salt ‖ unit ‖ key), ties by key;
    - counted: of the rows in chosen groups the k with the least SHA-256(salt ‖ unit ‖ ordering columns), ties by key,
      then, for a sum, by value.

    Where ranges overlap a row falls into one cell (see `app.queries.ranges.Cells`), is cut to k by it, and only then
    spread over the chosen ranges that the cell lies in; the key that is hashed is the range's label, as text. Hashed
    fields are decimal length in code points, colon, text; "-" for a null. Booleans are 1 or 0, times are written as
    whole numbers (days, microseconds since 1970 in UTC). Render with `app.engines.rendering`.

    Guarantee:  equal tables up to row order give equal answers; no value in a row can make the query fail or wrap.
    Raises:     InvalidQueryError: a mean, which is two questions.
    """
    answer = alias(exp.Coalesce(this=column("answer", "answers"), expressions=[number(0)]), "answer")
    same_place = exp.EQ(this=column("place", "answers"), expression=column("place", "bins"))
    query = select(column("place", "bins"), answer).from_(table("bins", "bins"), copy=False)
    query.join(table("answers", "answers"), on=same_place, join_type="left", copy=False).order_by(
        column("place", "bins"), copy=False
    )
    for name, step in _steps(canonical, raw(canonical.measure)):  # in place: sqlglot otherwise copies all each time
        query.with_(name, as_=step, copy=False)
    return query


def _steps(canonical: CanonicalQuery, measure: RawMeasure) -> list[tuple[str, exp.Expression]]:
    steps = [("bins", _bins(canonical)), *_kept(canonical, measure)]
    overlapping = falls_into_cells(canonical)
    members, spot = ("spread", "cell") if overlapping else ("kept", "place")
    if overlapping and canonical.group is not None:
        steps += [("covers", covers(canonical.ranges, canonical.group.type)), ("spread", spread("kept"))]
    if canonical.unit is None:
        return [*steps, ("answers", _sum_over(_row_amount(measure), members))]
    steps.append(("touched", _touched(canonical, measure, members)))
    chosen = "touched"
    if canonical.cuts_groups:
        steps.append(("crowded", _crowded(canonical)))
        steps.append(("ranked", _ranked_groups(canonical)))
        steps.append(("chosen", _least("ranked", canonical.groups)))
        chosen = "chosen"
    if not canonical.cuts_rows:
        return [*steps, ("answers", _sum_over(column("amount"), chosen))]
    counted, spots = "counted", chosen
    if overlapping:
        spots = "open"
        steps += [("celled", celled()), ("open", open_cells(chosen))]
    steps.append(("totals", _totals(spots, spot)))
    steps.append(("ordered", _ranked_rows(canonical, measure, spot)))
    steps.append(("counted", _least("ordered", canonical.rows)))
    if overlapping:
        counted = "landed"
        steps += [("scattered", spread("counted")), ("landed", landed(chosen))]
    if isinstance(measure, SumSteps):
        steps.append(("summed", _touched(canonical, measure, counted)))
        return [*steps, ("answers", _sum_over(column("amount"), "summed"))]
    return [*steps, ("answers", _sum_over(number(1), counted))]


def _bins(canonical: CanonicalQuery) -> exp.Select:
    """(place, key) of each declared key, with first and last cell of each range; one nameless bin without groups."""
    if canonical.group is None:
        return select(alias(number(0), "place"))
    if canonical.ranges:
        return bins_of_ranges(canonical.ranges, canonical.group.type)
    pairs = [
        exp.Tuple(expressions=[number(place), exp.Literal.string(key)]) for place, key in enumerate(canonical.keys)
    ]
    called = exp.TableAlias(this=exp.to_identifier("declared", quoted=True), columns=[column("place"), column("key")])
    typed = alias(exp.cast(column("key"), SQL_TYPES[canonical.group.type]), "key")
    return select(column("place"), typed).from_(exp.Values(expressions=pairs, alias=called), copy=False)


def _kept(canonical: CanonicalQuery, measure: RawMeasure) -> list[tuple[str, exp.Expression]]:
    """One line a row that counts: unit, place (or cell) of its group, steps, ordering fields."""
    conditions = [] if canonical.where is None else [condition_expression(canonical.where)]
    columns = [column("place", "bins") if canonical.keys else alias(number(0), "place")]
    spot = "cell" if falls_into_cells(canonical) else "place"
    if canonical.group is not None and canonical.ranges:
        columns = [alias(spot_of(canonical.group, canonical.ranges), spot)]
    if canonical.unit is not None:
        columns.append(alias(value_of(canonical.unit), "unit"))
        conditions.append(is_known(value_of(canonical.unit)))
    if isinstance(measure, SumSteps):
        columns.append(alias(row_steps(measure), "steps"))
        conditions.append(is_known(value_of(measure.column)))
    columns += [alias(value_of(each), _ordering(place)) for place, each in enumerate(canonical.ordering)]
    query = select(*columns).from_(table(ROWS_TABLE, "source"), copy=False)
    if canonical.keys and canonical.group is not None:
        same_key = exp.EQ(this=value_of(canonical.group), expression=column("key", "bins"))
        query.join(table("bins", "bins"), on=same_key, join_type="inner", copy=False)
    if conditions:
        query.where(all_of(conditions), copy=False)
    if not canonical.ranges:
        return [("kept", query)]
    inside = select(exp.Star()).from_(table("located", "located"), copy=False)
    return [("located", query), ("kept", inside.where(is_known(column(spot)), copy=False))]


def _touched(canonical: CanonicalQuery, measure: RawMeasure, members: str) -> exp.Select:
    """Per unit and touched group: how many rows, and what the unit adds there if the group is chosen."""
    match measure:
        case CountUnits():
            amount = number(1)
        case CountRows():
            amount = exp.Least(this=how_many(), expressions=[number(canonical.rows)], ignore_nulls=True)
        case SumSteps():
            amount = _clamped(exp.Sum(this=column("steps")), measure)
    columns = [column("unit"), column("place"), alias(how_many(), "members"), alias(amount, "amount")]
    query = select(*columns).from_(table(members, members), copy=False)
    return query.group_by(column("unit"), column("place"), copy=False)


def _crowded(canonical: CanonicalQuery) -> exp.Select:
    """Touched groups beside how many of them the unit has, and the key to be hashed."""
    crowd = alias(exp.Window(this=how_many(), partition_by=[column("unit", "touched")]), "crowd")
    columns = [column(name, "touched") for name in ("unit", "place", "members", "amount")]
    same_place = exp.EQ(this=column("place", "bins"), expression=column("place", "touched"))
    query = select(*columns, column("key", "bins"), crowd).from_(table("touched", "touched"), copy=False)
    return query.join(table("bins", "bins"), on=same_place, copy=False)


def _ranked_groups(canonical: CanonicalQuery) -> exp.Select:
    """Touched groups with their rank among the unit's; the hash is taken only where a unit touches too many."""
    unit, group = canonical.unit, canonical.group
    if unit is None or group is None:
        raise AssertionError("groups are cut only where there are units and groups")
    key = canonical_field(_LABEL if canonical.ranges else group, column("key"))
    digest = sha256_of(canonical.salt, [canonical_field(unit, column("unit")), key])
    rank = _rank(column("crowd"), canonical.groups, digest, [column("unit"), column("place")])
    columns = [column(name) for name in ("unit", "place", "members", "amount")]
    return select(*columns, rank).from_(table("crowded", "crowded"), copy=False)


def _totals(spots: str, spot: str) -> exp.Select:
    """Spots of chosen groups beside how many rows of the unit all of them hold."""
    total = alias(exp.Window(this=exp.Sum(this=column("members")), partition_by=[column("unit")]), "total")
    return select(column("unit"), column(spot), total).from_(table(spots, spots), copy=False)


def _ranked_rows(canonical: CanonicalQuery, measure: RawMeasure, spot: str) -> exp.Select:
    """Rows of chosen groups with their rank among the unit's; hashed only where there are more than k."""
    unit = canonical.unit
    if unit is None:
        raise AssertionError("rows are cut only where there are units")
    fields = [canonical_field(unit, column("unit", "kept"))]
    fields += [canonical_field(each, column(_ordering(place), "kept")) for place, each in enumerate(canonical.ordering)]
    read = [column("steps", "kept")] if isinstance(measure, SumSteps) else []
    order = [column("unit", "kept"), column(spot, "kept"), *read]
    rank = _rank(column("total", "totals"), canonical.rows, sha256_of(canonical.salt, fields), order)
    same = [exp.EQ(this=column(name, "totals"), expression=column(name, "kept")) for name in ("unit", spot)]
    query = select(*(each.copy() for each in order), rank).from_(table("kept", "kept"), copy=False)
    return query.join(table("totals", "totals"), on=all_of(same), copy=False)


def _rank(
    size: exp.Expression, bound: int, digest: exp.Expression, unit_and_ties: Sequence[exp.Expression]
) -> exp.Expression:
    """The rank by (digest, ties) within a unit, the digest left out for units of at most `bound`: all are kept."""
    unit, *ties = unit_and_ties
    needed = exp.Case(ifs=[exp.If(this=exp.GT(this=size, expression=number(bound)), true=digest)])
    order = [exp.Ordered(this=each.copy(), desc=False) for each in (needed, *ties)]
    window = exp.Window(this=exp.RowNumber(), partition_by=[unit.copy()], order=exp.Order(expressions=order))
    return alias(window, "rank")


def _least(ranked: str, bound: int) -> exp.Select:
    least = exp.LTE(this=column("rank"), expression=number(bound))
    return select(exp.Star()).from_(table(ranked, ranked), copy=False).where(least, copy=False)


def _row_amount(measure: RawMeasure) -> exp.Expression:
    return _clamped(column("steps"), measure) if isinstance(measure, SumSteps) else number(1)


def _clamped(steps: exp.Expression, measure: SumSteps) -> exp.Expression:
    clamped = within(steps, number(measure.lower), number(measure.upper))
    return exp.cast(clamped, "BIGINT")  # within ±2⁶², so that the sum over units is a sum of BIGINT: 128 bits wide


def _sum_over(amount: exp.Expression, rows: str) -> exp.Select:
    query = select(column("place"), alias(exp.Sum(this=amount), "answer")).from_(table(rows, rows), copy=False)
    return query.group_by(column("place"), copy=False)


def _ordering(place: int) -> str:
    return f"ordering_{place}"
