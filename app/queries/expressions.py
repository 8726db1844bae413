"""The building blocks of compiled questions: typed values, conditions, rounding to steps, hashes."""

import math
from collections.abc import Sequence

from sqlglot import exp

from app.queries.canonical import STEPS_LIMIT, SumSteps
from app.queries.conditions import Atom, ColumnRef, Condition, Junction
from app.queries.schema import ColumnType

__all__ = [
    "SQL_TYPES",
    "all_of",
    "canonical_field",
    "condition_expression",
    "is_known",
    "literal",
    "number",
    "row_steps",
    "sha256_of",
    "value_of",
    "where_known",
    "within",
]

SQL_TYPES: dict[ColumnType, str] = {
    "integer": "BIGINT",
    "real": "DOUBLE",
    "text": "TEXT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
_LARGEST_REAL = "1.7976931348623157e+308"
_COMPARISONS = {"<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}


def number(value: int) -> exp.Expression:
    """Return a whole number as a literal."""
    return exp.Literal.number(value)


def literal(column: ColumnRef, text: str) -> exp.Expression:
    """Return a canonical text as a literal of its column's type: always a quoted string, cast where it is not text."""
    quoted = exp.Literal.string(text)
    return quoted if column.type == "text" else exp.cast(quoted, SQL_TYPES[column.type])


def value_of(column: ColumnRef) -> exp.Expression:
    """Return the column of the source row; a real one is null where it is NaN or infinite, in every engine."""
    bare = exp.column(column.id, table="source", quoted=True)
    return bare if column.type != "real" else where_known(column, bare)


def where_known(column: ColumnRef, outcome: exp.Expression) -> exp.Expression:
    """Return `outcome` where the column of the source row has a value, null where it has none, NaN or an infinity."""
    bare = exp.column(column.id, table="source", quoted=True)
    known = is_known(bare)
    if column.type == "real":
        known = exp.Between(this=bare, low=_real(f"-{_LARGEST_REAL}"), high=_real(_LARGEST_REAL))
    return exp.Case(ifs=[exp.If(this=known, true=outcome)])


def condition_expression(condition: Condition) -> exp.Expression:
    """Return the condition in SQL; TRUE in the same rows as in the model."""
    match condition:
        case Junction(operator="and", operands=operands):
            return all_of([condition_expression(operand) for operand in operands])
        case Junction(operands=operands):
            return exp.or_(*(condition_expression(operand) for operand in operands), copy=False)
        case Atom():
            return _atom(condition)


def all_of(conditions: Sequence[exp.Expression]) -> exp.Expression:
    """Return the conjunction of one or more conditions."""
    return exp.and_(*conditions, copy=False)


def is_known(value: exp.Expression) -> exp.Expression:
    """Return whether the value is not null."""
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def within(value: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """Return a value, which is not null, cut to [low, high]."""
    below = exp.Least(this=value, expressions=[high], ignore_nulls=True)
    return exp.Greatest(this=below, expressions=[low], ignore_nulls=True)


def row_steps(measure: SumSteps) -> exp.Expression:
    """Return a row's value in steps of the grain: ⌊y⌋ + [y − ⌊y⌋ ≥ ½], y = x/γ, within ±2⁶². Nothing in it can fail.

    Written out, because engines round and cast differently. Reals are cut to ±2⁶² steps, then scaled, which is exact
    (γ is a power of two; a value so small that it loses digits rounds to the same step). Whole numbers never leave 64
    bits: cut first where steps are finer than 1, divided with the floor taken by the remainder where coarser. A centre,
    below 2⁶², is taken off last.
    """
    value, exponent = value_of(measure.column), measure.grain_exponent
    steps = _real_steps(value, exponent) if measure.column.type == "real" else _integer_steps(value, exponent)
    return exp.Sub(this=exp.paren(steps), expression=_big(measure.centre)) if measure.centre else steps


def canonical_field(column: ColumnRef, value: exp.Expression) -> exp.Expression:
    """Return `value` as one field of a hash: length in code points, colon, text; "-" for a null."""
    text = _field_text(column, value)
    prefixed = _joined([exp.cast(exp.Length(this=text), "TEXT"), exp.Literal.string(":"), text.copy()])
    return exp.Coalesce(this=prefixed, expressions=[exp.Literal.string("-")])


def sha256_of(salt: str, fields: Sequence[exp.Expression]) -> exp.Expression:
    """Return SHA-256, in hex, of the salt's hex digits followed by the fields, in UTF-8."""
    return exp.SHA2(this=_joined([exp.Literal.string(salt), *fields]), length=number(256))


def _atom(atom: Atom) -> exp.Expression:
    value = value_of(atom.column)
    values = [literal(atom.column, text) for text in atom.values]
    match atom.operator:
        case "in":
            return exp.In(this=value, expressions=values)
        case "not in":
            return exp.Not(this=exp.In(this=value, expressions=values))
        case "is null":
            return exp.Is(this=value, expression=exp.Null())
        case "is not null":
            return is_known(value)
        case operator:
            return _COMPARISONS[operator](this=value, expression=values[0])


def _real_steps(value: exp.Expression, exponent: int) -> exp.Expression:
    limit = repr(math.ldexp(1.0, exponent) * STEPS_LIMIT)
    cut = within(value, _real(f"-{limit}"), _real(limit))
    if exponent > 0:  # |x| ≤ ½ is 0 steps of 2 or more, and PostgreSQL refuses products that underflow
        tiny = exp.Between(this=cut, low=_real("-0.5"), high=_real("0.5"))
        cut = exp.Case(ifs=[exp.If(this=tiny, true=_real("0"))], default=cut.copy())
    steps = cut if exponent == 0 else _times(cut, _real(repr(math.ldexp(1.0, -exponent))))
    floor = exp.Floor(this=steps)
    upper_half = exp.GTE(this=exp.Sub(this=steps.copy(), expression=floor.copy()), expression=_real("0.5"))
    return exp.cast(exp.Add(this=floor, expression=_bit(upper_half, _real("1"), _real("0"))), "BIGINT")


def _integer_steps(value: exp.Expression, exponent: int) -> exp.Expression:
    if exponent <= 0:
        limit = STEPS_LIMIT >> -exponent
        cut = within(value, number(-limit), number(limit))
        return cut if exponent == 0 else _times(cut, _big(1 << -exponent))
    grain = _big(1 << exponent)
    remainder = exp.Mod(this=value, expression=grain)
    remainder = exp.Mod(this=exp.paren(exp.Add(this=exp.paren(remainder), expression=grain)), expression=grain.copy())
    whole = exp.IntDiv(this=exp.paren(exp.Sub(this=value.copy(), expression=exp.paren(remainder))), expression=grain)
    upper_half = exp.GTE(this=exp.paren(remainder.copy()), expression=_big(1 << (exponent - 1)))
    return exp.Add(this=exp.paren(whole), expression=_bit(upper_half, number(1), number(0)))


def _bit(condition: exp.Expression, one: exp.Expression, zero: exp.Expression) -> exp.Expression:
    return exp.Case(ifs=[exp.If(this=condition, true=one)], default=zero)


def _times(value: exp.Expression, factor: exp.Expression) -> exp.Expression:
    return exp.Mul(this=exp.paren(value), expression=factor)


def _field_text(column: ColumnRef, value: exp.Expression) -> exp.Expression:
    epoch = exp.cast(exp.Literal.string("1970-01-01"), "DATE")
    match column.type:
        case "text":
            return value
        case "boolean":
            whole = _bit(value, number(1), number(0))
            return exp.Case(ifs=[exp.If(this=is_known(value.copy()), true=exp.cast(whole, "TEXT"))])
        case "date":
            return exp.cast(exp.paren(exp.Sub(this=value, expression=epoch)), "TEXT")
        case "timestamp":
            return exp.cast(_microseconds(value, epoch), "TEXT")
        case _:
            return exp.cast(value, "TEXT")


def _microseconds(moment: exp.Expression, epoch: exp.Expression) -> exp.Expression:
    """Microseconds since 1970, from whole parts: engines give the epoch itself as a float."""
    days = exp.Sub(this=exp.cast(moment, "DATE"), expression=epoch)
    total = _times(exp.cast(exp.paren(days), "BIGINT"), number(86_400_000_000))
    for part, factor in (("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("MICROSECONDS", 1)):
        extracted = exp.cast(exp.Extract(this=exp.var(part), expression=moment.copy()), "BIGINT")
        total = exp.Add(this=total, expression=_times(extracted, number(factor)))
    return exp.paren(total)


def _joined(parts: Sequence[exp.Expression]) -> exp.Expression:
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return joined


def _real(text: str) -> exp.Expression:
    return exp.cast(exp.Literal.string(text), "DOUBLE")


def _big(value: int) -> exp.Expression:
    return exp.cast(number(value), "BIGINT")
