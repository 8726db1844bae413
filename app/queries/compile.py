"""One canonical question as one SQL expression: built from nodes, never from anybody's SQL text."""

from sqlglot import exp

from app.queries.canonical import CanonicalQuery, CountRows, CountUnits, SumSteps
from app.queries.expressions import (
    all_of,
    canonical_field,
    condition_expression,
    literal,
    number,
    row_steps,
    sha256_of,
    value_of,
)

__all__ = ["ROWS_TABLE", "compile_query"]

ROWS_TABLE = "dataset_rows"
"""The one table of a snapshot; its columns are called by their stable ids."""


def compile_query(canonical: CanonicalQuery) -> exp.Expression:
    """Return the SELECT whose rows, in order, are (place, answer) for each key, or one row (0, answer).

    Every step is a deterministic function of one unit's own rows, followed by an exact sum over units:

    - kept: rows whose `where` is TRUE, whose unit is not null, whose group is declared and whose summed value is finite;
    - touched: per unit and declared group, how many rows there are (and the clamped total of steps);
    - chosen: the at most g touched groups of a unit with the least SHA-256(salt ‖ unit ‖ key), ties by key;
    - counted: of the rows in chosen groups the k with the least SHA-256(salt ‖ unit ‖ ordering columns), ties by key.

    Hashed fields are decimal length in code points, colon, text; "-" for a null. Whole numbers and times are written
    as whole numbers (days, microseconds since 1970 in UTC). Render with `.sql(dialect="duckdb")`.

    Guarantee:  equal tables up to row order give equal answers; no value in a row can make the query fail or wrap.
    """
    query = exp.select(_column("place", "bins"), exp.alias_(_zero_if_null(_column("answer", "answers")), "answer"))
    query = query.from_(exp.to_table("bins")).join(
        exp.to_table("answers"),
        on=exp.EQ(this=_column("place", "answers"), expression=_column("place", "bins")),
        join_type="left",
    )
    query = query.order_by(_column("place", "bins"))
    for name, step in _steps(canonical):
        query = query.with_(name, as_=step)
    return query


def _steps(canonical: CanonicalQuery) -> list[tuple[str, exp.Expression]]:
    steps = [("bins", _bins(canonical)), ("kept", _kept(canonical))]
    if canonical.unit is None:
        return [*steps, ("answers", _sum_over(_row_amount(canonical.measure), "kept"))]
    steps.append(("touched", _touched(canonical)))
    chosen = "touched"
    if canonical.cuts_groups:
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


def _bins(canonical: CanonicalQuery) -> exp.Expression:
    """(place, key) of each declared key; one nameless bin without groups."""
    if canonical.group is None:
        return exp.select(exp.alias_(number(0), "place"))
    group = canonical.group
    pairs = [exp.Tuple(expressions=[number(place), literal(group, key)]) for place, key in enumerate(canonical.keys)]
    return exp.select("place", "key").from_(exp.values(pairs, alias="declared", columns=["place", "key"]))


def _kept(canonical: CanonicalQuery) -> exp.Expression:
    """One line a row that counts: unit, place of its group, steps, ordering fields."""
    columns = [exp.alias_(_column("place", "bins") if canonical.group else number(0), "place")]
    conditions = []
    if canonical.where is not None:
        conditions.append(condition_expression(canonical.where))
    if canonical.unit is not None:
        columns.append(exp.alias_(value_of(canonical.unit), "unit"))
        conditions.append(_is_known(value_of(canonical.unit)))
    if isinstance(canonical.measure, SumSteps):
        columns.append(exp.alias_(row_steps(canonical.measure), "steps"))
        conditions.append(_is_known(value_of(canonical.measure.column)))
    columns += [
        exp.alias_(value_of(column), f"ordering_{position}") for position, column in enumerate(canonical.ordering)
    ]
    query = exp.select(*columns).from_(exp.alias_(exp.to_table(ROWS_TABLE), "source", table=True))
    if canonical.group is not None:
        same_key = exp.EQ(this=value_of(canonical.group), expression=_column("key", "bins"))
        query = query.join(exp.to_table("bins"), on=same_key, join_type="inner")
    return query.where(all_of(conditions)) if conditions else query


def _touched(canonical: CanonicalQuery) -> exp.Expression:
    """Per unit and touched group: how many rows, and what the unit adds there if the group is chosen."""
    match canonical.measure:
        case CountUnits():
            amount = number(1)
        case CountRows():
            amount = exp.Least(this=exp.Count(this=exp.Star()), expressions=[number(canonical.rows)], ignore_nulls=True)
        case SumSteps() as measure:
            amount = _clamped(exp.Sum(this=_column("steps")), measure)
    columns = [
        _column("unit"),
        _column("place"),
        exp.alias_(exp.Count(this=exp.Star()), "members"),
        exp.alias_(amount, "amount"),
    ]
    return exp.select(*columns).from_("kept").group_by(_column("unit"), _column("place"))


def _ranked_groups(canonical: CanonicalQuery) -> exp.Expression:
    """Touched groups with their rank among the unit's; the hash is taken only where a unit touches too many."""
    unit, group = canonical.unit, canonical.group
    if unit is None or group is None:
        raise AssertionError("groups are cut only where units and groups are")
    crowd = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[_column("unit")])
    counted = exp.select("unit", "place", "members", "amount", exp.alias_(crowd, "crowd")).from_("touched")
    digest = sha256_of(
        canonical.salt, [canonical_field(unit, _column("unit", "t")), canonical_field(group, _column("key", "b"))]
    )
    return (
        exp.select(
            _column("unit", "t"),
            _column("place", "t"),
            _column("members", "t"),
            _column("amount", "t"),
            _rank_where(_column("crowd", "t"), canonical.groups, digest, _column("unit", "t"), _column("place", "t")),
        )
        .from_(counted.subquery("t"))
        .join(
            exp.alias_(exp.to_table("bins"), "b", table=True),
            on=exp.EQ(this=_column("place", "b"), expression=_column("place", "t")),
        )
    )


def _totals(chosen: str) -> exp.Expression:
    """Chosen groups beside how many rows of the unit all of them hold."""
    total = exp.Window(this=exp.Sum(this=_column("members")), partition_by=[_column("unit")])
    return exp.select("unit", "place", exp.alias_(total, "total")).from_(chosen)


def _ranked_rows(canonical: CanonicalQuery) -> exp.Expression:
    """Rows of chosen groups with their rank among the unit's; hashed only where there are more than k."""
    unit = canonical.unit
    if unit is None:
        raise AssertionError("rows are cut only where there are units")
    fields = [
        canonical_field(column, _column(f"ordering_{position}", "r"))
        for position, column in enumerate(canonical.ordering)
    ]
    digest = sha256_of(canonical.salt, [canonical_field(unit, _column("unit", "r")), *fields])
    both = all_of(
        [exp.EQ(this=_column(name, "c"), expression=_column(name, "r")) for name in ("unit", "place")],
    )
    return (
        exp.select(
            _column("place", "r"),
            _rank_where(_column("total", "c"), canonical.rows, digest, _column("unit", "r"), _column("place", "r")),
        )
        .from_(exp.alias_(exp.to_table("kept"), "r", table=True))
        .join(exp.alias_(exp.to_table("totals"), "c", table=True), on=both)
    )


def _rank_where(
    size: exp.Expression, bound: int, digest: exp.Expression, unit: exp.Expression, place: exp.Expression
) -> exp.Expression:
    """The rank by (digest, place) within a unit, the digest left out for units of at most `bound`: all are kept."""
    needed = exp.Case(ifs=[exp.If(this=exp.GT(this=size, expression=number(bound)), true=digest)])
    order = exp.Order(expressions=[exp.Ordered(this=needed, desc=False), exp.Ordered(this=place, desc=False)])
    return exp.alias_(exp.Window(this=exp.RowNumber(), partition_by=[unit], order=order), "rank")


def _least(table: str, bound: int) -> exp.Expression:
    return exp.select("*").from_(table).where(exp.LTE(this=_column("rank"), expression=number(bound)))


def _row_amount(measure: CountUnits | CountRows | SumSteps) -> exp.Expression:
    return _clamped(_column("steps"), measure) if isinstance(measure, SumSteps) else number(1)


def _clamped(steps: exp.Expression, measure: SumSteps) -> exp.Expression:
    below = exp.Least(this=steps, expressions=[number(measure.upper)], ignore_nulls=True)
    clamped = exp.Greatest(this=below, expressions=[number(measure.lower)], ignore_nulls=True)
    return exp.cast(clamped, "BIGINT")  # within ±2⁶², so that the sum over units is a sum of BIGINT: 128 bits wide


def _sum_over(amount: exp.Expression, table: str) -> exp.Expression:
    columns = [_column("place"), exp.alias_(exp.Sum(this=amount), "answer")]
    return exp.select(*columns).from_(table).group_by(_column("place"))


def _zero_if_null(value: exp.Expression) -> exp.Expression:
    return exp.Coalesce(this=value, expressions=[number(0)])


def _is_known(value: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def _column(name: str, table: str | None = None) -> exp.Expression:
    return exp.column(name, table=table, quoted=True)
