"""One canonical question as one SQL expression: built from nodes, never from anybody's SQL text."""

from sqlglot import exp

from app.queries.canonical import CanonicalQuery, CountRows, CountUnits, SumSteps
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

__all__ = ["ROWS_TABLE", "compile_query"]

ROWS_TABLE = "dataset_rows"
"""The one table of a snapshot; its columns are called by their stable ids."""


def compile_query(canonical: CanonicalQuery) -> exp.Expression:
    """Return the SELECT whose rows, in order, are (place, answer) for each key, or one row (0, answer).

    Every step is a deterministic function of one unit's own rows, followed by an exact sum over units:

    - kept: rows whose `where` is TRUE, whose unit is not null, whose group is declared, whose summed value is finite;
    - touched: per unit and declared group, how many rows there are (and the clamped total of steps);
    - chosen: the at most g touched groups of a unit with the least SHA-256(salt ‖ unit ‖ key), ties by key;
    - counted: of the rows in chosen groups the k with the least SHA-256(salt ‖ unit ‖ ordering columns), ties by key.

    Hashed fields are decimal length in code points, colon, text; "-" for a null. Whole numbers and times are written
    as whole numbers (days, microseconds since 1970 in UTC). Render with `.sql(dialect="duckdb")`.

    Guarantee:  equal tables up to row order give equal answers; no value in a row can make the query fail or wrap.
    """
    answer = _alias(exp.Coalesce(this=_column("answer", "answers"), expressions=[number(0)]), "answer")
    same_place = exp.EQ(this=_column("place", "answers"), expression=_column("place", "bins"))
    query = _select(_column("place", "bins"), answer).from_(_table("bins", "bins"), copy=False)
    query.join(_table("answers", "answers"), on=same_place, join_type="left", copy=False).order_by(
        _column("place", "bins"), copy=False
    )
    for name, step in _steps(canonical):  # in place: sqlglot otherwise copies the whole tree, keys and all, each time
        query.with_(name, as_=step, copy=False)
    return query


def _steps(canonical: CanonicalQuery) -> list[tuple[str, exp.Expression]]:
    steps = [("bins", _bins(canonical)), ("kept", _kept(canonical))]
    if canonical.unit is None:
        return [*steps, ("answers", _sum_over(_row_amount(canonical.measure), "kept"))]
    steps.append(("touched", _touched(canonical)))
    chosen = "touched"
    if canonical.cuts_groups:
        steps.append(("crowded", _crowded(canonical)))
        steps.append(("ranked", _ranked_groups(canonical)))
        steps.append(("chosen", _least("ranked", canonical.groups)))
        chosen = "chosen"
    if not canonical.cuts_rows_across_groups:
        return [*steps, ("answers", _sum_over(_column("amount"), chosen))]
    return [
        *steps,
        ("totals", _totals(chosen)),
        ("ordered", _ranked_rows(canonical)),
        ("counted", _least("ordered", canonical.rows)),
        ("answers", _sum_over(number(1), "counted")),
    ]


def _bins(canonical: CanonicalQuery) -> exp.Select:
    """(place, key) of each declared key; one nameless bin without groups."""
    if canonical.group is None:
        return _select(_alias(number(0), "place"))
    pairs = [
        exp.Tuple(expressions=[number(place), exp.Literal.string(key)]) for place, key in enumerate(canonical.keys)
    ]
    alias = exp.TableAlias(this=_name("declared"), columns=[_name("place"), _name("key")])
    typed = _alias(exp.cast(_column("key"), SQL_TYPES[canonical.group.type]), "key")
    return _select(_column("place"), typed).from_(exp.Values(expressions=pairs, alias=alias), copy=False)


def _kept(canonical: CanonicalQuery) -> exp.Select:
    """One line a row that counts: unit, place of its group, steps, ordering fields."""
    columns = [_alias(number(0) if canonical.group is None else _column("place", "bins"), "place")]
    conditions = [] if canonical.where is None else [condition_expression(canonical.where)]
    if canonical.unit is not None:
        columns.append(_alias(value_of(canonical.unit), "unit"))
        conditions.append(is_known(value_of(canonical.unit)))
    if isinstance(canonical.measure, SumSteps):
        columns.append(_alias(row_steps(canonical.measure), "steps"))
        conditions.append(is_known(value_of(canonical.measure.column)))
    columns += [_alias(value_of(column), _ordering(place)) for place, column in enumerate(canonical.ordering)]
    query = _select(*columns).from_(_table(ROWS_TABLE, "source"), copy=False)
    if canonical.group is not None:
        same_key = exp.EQ(this=value_of(canonical.group), expression=_column("key", "bins"))
        query.join(_table("bins", "bins"), on=same_key, join_type="inner", copy=False)
    return query.where(all_of(conditions), copy=False) if conditions else query


def _touched(canonical: CanonicalQuery) -> exp.Select:
    """Per unit and touched group: how many rows, and what the unit adds there if the group is chosen."""
    match canonical.measure:
        case CountUnits():
            amount = number(1)
        case CountRows():
            amount = exp.Least(this=_how_many(), expressions=[number(canonical.rows)], ignore_nulls=True)
        case SumSteps() as measure:
            amount = _clamped(exp.Sum(this=_column("steps")), measure)
    group = [_column("unit"), _column("place")]
    columns = [_column("unit"), _column("place"), _alias(_how_many(), "members"), _alias(amount, "amount")]
    return _select(*columns).from_(_table("kept", "kept"), copy=False).group_by(*group, copy=False)


def _crowded(canonical: CanonicalQuery) -> exp.Select:
    """Touched groups beside how many of them the unit has, and the key to be hashed."""
    crowd = _alias(exp.Window(this=_how_many(), partition_by=[_column("unit", "touched")]), "crowd")
    columns = [_column(name, "touched") for name in ("unit", "place", "members", "amount")]
    same_place = exp.EQ(this=_column("place", "bins"), expression=_column("place", "touched"))
    query = _select(*columns, _column("key", "bins"), crowd).from_(_table("touched", "touched"), copy=False)
    return query.join(_table("bins", "bins"), on=same_place, copy=False)


def _ranked_groups(canonical: CanonicalQuery) -> exp.Select:
    """Touched groups with their rank among the unit's; the hash is taken only where a unit touches too many."""
    unit, group = canonical.unit, canonical.group
    if unit is None or group is None:
        raise AssertionError("groups are cut only where there are units and groups")
    fields = [canonical_field(unit, _column("unit")), canonical_field(group, _column("key"))]
    rank = _rank(_column("crowd"), canonical.groups, sha256_of(canonical.salt, fields))
    columns = [_column(name) for name in ("unit", "place", "members", "amount")]
    return _select(*columns, rank).from_(_table("crowded", "crowded"), copy=False)


def _totals(chosen: str) -> exp.Select:
    """Chosen groups beside how many rows of the unit all of them hold."""
    total = _alias(exp.Window(this=exp.Sum(this=_column("members")), partition_by=[_column("unit")]), "total")
    return _select(_column("unit"), _column("place"), total).from_(_table(chosen, chosen), copy=False)


def _ranked_rows(canonical: CanonicalQuery) -> exp.Select:
    """Rows of chosen groups with their rank among the unit's; hashed only where there are more than k."""
    unit = canonical.unit
    if unit is None:
        raise AssertionError("rows are cut only where there are units")
    fields = [canonical_field(unit, _column("unit", "kept"))]
    fields += [
        canonical_field(column, _column(_ordering(place), "kept")) for place, column in enumerate(canonical.ordering)
    ]
    rank = _rank(_column("total", "totals"), canonical.rows, sha256_of(canonical.salt, fields), table="kept")
    same = [exp.EQ(this=_column(name, "totals"), expression=_column(name, "kept")) for name in ("unit", "place")]
    query = _select(_column("place", "kept"), rank).from_(_table("kept", "kept"), copy=False)
    return query.join(_table("totals", "totals"), on=all_of(same), copy=False)


def _rank(size: exp.Expression, bound: int, digest: exp.Expression, table: str | None = None) -> exp.Expression:
    """The rank by (digest, place) within a unit, the digest left out for units of at most `bound`: all are kept."""
    needed = exp.Case(ifs=[exp.If(this=exp.GT(this=size, expression=number(bound)), true=digest)])
    order = [exp.Ordered(this=needed, desc=False), exp.Ordered(this=_column("place", table), desc=False)]
    unit = _column("unit", table)
    window = exp.Window(this=exp.RowNumber(), partition_by=[unit], order=exp.Order(expressions=order))
    return _alias(window, "rank")


def _least(table: str, bound: int) -> exp.Select:
    within = exp.LTE(this=_column("rank"), expression=number(bound))
    return _select(exp.Star()).from_(_table(table, table), copy=False).where(within, copy=False)


def _row_amount(measure: CountUnits | CountRows | SumSteps) -> exp.Expression:
    return _clamped(_column("steps"), measure) if isinstance(measure, SumSteps) else number(1)


def _clamped(steps: exp.Expression, measure: SumSteps) -> exp.Expression:
    clamped = within(steps, number(measure.lower), number(measure.upper))
    return exp.cast(clamped, "BIGINT")  # within ±2⁶², so that the sum over units is a sum of BIGINT: 128 bits wide


def _sum_over(amount: exp.Expression, table: str) -> exp.Select:
    query = _select(_column("place"), _alias(exp.Sum(this=amount), "answer")).from_(_table(table, table), copy=False)
    return query.group_by(_column("place"), copy=False)


def _how_many() -> exp.Expression:
    return exp.Count(this=exp.Star())


def _ordering(place: int) -> str:
    return f"ordering_{place}"


def _select(*columns: exp.Expression) -> exp.Select:
    return exp.select(*columns, copy=False)


def _table(name: str, alias: str) -> exp.Expression:
    return exp.Table(this=_name(name), alias=exp.TableAlias(this=_name(alias)))


def _alias(value: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=value, alias=_name(name))


def _name(name: str) -> exp.Expression:
    return exp.to_identifier(name, quoted=True)


def _column(name: str, table: str | None = None) -> exp.Expression:
    return exp.column(name, table=table, quoted=True)
