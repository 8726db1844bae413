"""The rules of a question in plain Python, slow and obvious, read from the wire query and not from its canonical form."""

import hashlib
import math
from datetime import UTC, date, datetime
from fractions import Fraction

from app.queries.model import And, Between, Comparison, Count, In, IsNull, Not, Or


def answers(rows, query, schema):
    """One integer for each key in the caller's order, or one alone."""
    types = {column.name: column.type for column in schema.columns}
    group = query.group_by
    keys = [()] if group is None else [(literal(key, types[group.column]),) for key in group.keys]
    units = {}
    for number, row in enumerate(rows):
        cells = {name: known(value) for name, value in row.items()}
        unit = number if schema.unit is None else cells[schema.unit]
        key = () if group is None else (cells[group.column],)
        summed = None if isinstance(query.measure, Count) else cells[query.measure.column]
        if (
            unit is None
            or key not in keys
            or (query.where is not None and truth(query.where, cells, types) is not True)
        ):
            continue
        if isinstance(query.measure, Count) or summed is not None:
            units.setdefault(unit, []).append((key, cells))
    totals = dict.fromkeys(keys, 0)
    for unit, members in units.items():
        for key, amount in contribution(unit, members, query, schema, types).items():
            totals[key] += amount
    return [totals[key] for key in keys]


def contribution(unit, members, query, schema, types):
    touched = sorted({key for key, _ in members}, key=lambda key: (digest(schema, unit, [*key]), key))
    chosen = touched if schema.unit is None else touched[: query.groups_per_unit or 1]
    members = [(key, cells) for key, cells in members if key in chosen]
    if query.measure == Count(of="units"):
        return dict.fromkeys(chosen, 1)
    if query.measure == Count(of="rows"):
        members.sort(key=lambda each: (digest(schema, unit, [each[1][name] for name in schema.ordering]), each[0]))
        kept = [key for key, _ in members[: query.rows_per_unit]]
        return {key: kept.count(key) for key in chosen}
    sums = {}
    for key, cells in members:
        sums[key] = sums.get(key, 0) + steps(cells[query.measure.column], query.measure.grain_exponent)
    grain = Fraction(2) ** query.measure.grain_exponent
    lower = math.ceil(Fraction(query.measure.lower) / grain)
    upper = math.floor(Fraction(query.measure.upper) / grain)
    return {key: max(lower, min(upper, total)) for key, total in sums.items()}


def steps(value, exponent):
    return max(-(2**62), min(2**62, math.floor(Fraction(value) / Fraction(2) ** exponent + Fraction(1, 2))))


def digest(schema, unit, values):
    text = schema.salt + "".join(field(value) for value in [unit, *values])
    return hashlib.sha256(text.encode()).hexdigest()


def field(value):
    if value is None:
        return "-"
    if isinstance(value, datetime):
        since = value - datetime(1970, 1, 1)
        value = (since.days * 86400 + since.seconds) * 10**6 + since.microseconds
    elif isinstance(value, date):
        value = (value - date(1970, 1, 1)).days
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return f"{len(text)}:{text}"


def known(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value


def literal(value, kind):
    if kind == "integer":
        return int(Fraction(value))
    if kind == "real":
        return float(Fraction(value))
    if kind == "date":
        return date.fromisoformat(value)
    if kind == "timestamp":
        moment = datetime.fromisoformat(value)
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return value


def truth(where, cells, types):
    """TRUE, FALSE or unknown (None), by the tables of three-valued logic."""
    match where:
        case And(operands=operands):
            return conjunction([truth(operand, cells, types) for operand in operands])
        case Or(operands=operands):
            return negation(conjunction([negation(truth(operand, cells, types)) for operand in operands]))
        case Not(operand=operand):
            return negation(truth(operand, cells, types))
        case IsNull(column=column):
            return cells[column] is None
    cell, kind = cells[where.column], types[where.column]
    if cell is None:
        return None
    match where:
        case In(values=values):
            return cell in [literal(value, kind) for value in values]
        case Between(lower=lower, upper=upper):
            return literal(lower, kind) <= cell <= literal(upper, kind)
        case Comparison(operator=operator, value=value):
            other = literal(value, kind)
            return {
                "=": lambda: cell == other,
                "!=": lambda: cell != other,
                "<": lambda: cell < other,
                "<=": lambda: cell <= other,
                ">": lambda: cell > other,
                ">=": lambda: cell >= other,
            }[operator]()


def negation(value):
    return None if value is None else not value


def conjunction(values):
    if False in values:
        return False
    return None if None in values else True
