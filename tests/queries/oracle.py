"""The rules of a question in plain Python, slow and obvious, read from the wire query and not from its canonical form."""

import hashlib
import itertools
import math
from datetime import UTC, date, datetime
from fractions import Fraction

from app.queries.model import And, Between, Comparison, GroupByBins, GroupByKeys, In, IsNull, Mean, Not, Or, Range, Sum
from app.queries.ranges import intervals


def answers(rows, query, schema):
    """One integer for each group in the caller's order, or one alone; for a mean the sums, then the counts."""
    types = {column.name: column.type for column in schema.columns}
    groups = groups_of(query, types, schema)
    column = getattr(query.measure, "column", None)
    units = {}
    for number, row in enumerate(rows):
        cells = {name: known(value) for name, value in row.items()}
        unit = number if schema.unit is None else cells[schema.unit]
        places = places_of(groups, None if query.group_by is None else cells[query.group_by.column])
        if unit is None or not places or (query.where is not None and truth(query.where, cells, types) is not True):
            continue
        if column is None or cells[column] is not None:
            units.setdefault(unit, []).append((places, cells))
    totals = [[0] * len(groups) for _ in range(2 if isinstance(query.measure, Mean) else 1)]
    for unit, members in units.items():
        for part, amounts in zip(totals, contributions(unit, members, groups, query, schema), strict=True):
            for place, amount in amounts.items():
                part[place] += amount
    return totals if isinstance(query.measure, Mean) else totals[0]


def groups_of(query, types, schema):
    """For each group what is hashed of it, where it stands among the others, and which values belong to it."""
    group = query.group_by
    if group is None:
        return [(None, 0, lambda value: True)]
    kind = types[group.column]
    if isinstance(group, GroupByKeys):
        keys = [literal(key, kind) for key in group.keys]
        return [(key, key, lambda value, key=key: value is not None and value == key) for key in keys]
    labels = [interval.label for interval in intervals(group, schema.column(group.column))]
    return [
        (label, place, lambda value, each=each: value is not None and covers(each, value, kind))
        for place, (label, each) in enumerate(zip(labels, wire_ranges(group), strict=True))
    ]


def wire_ranges(group):
    if not isinstance(group, GroupByBins):
        return group.ranges
    bins = [Range(lower=lower, upper=upper) for lower, upper in itertools.pairwise(group.edges)]
    below = [Range(upper=group.edges[0])] if group.below == "kept" else []
    return [*below, *bins, *([Range(lower=group.edges[-1])] if group.above == "kept" else [])]


def covers(each, value, kind):
    if each.lower is not None and value < literal(each.lower, kind):
        return False
    if each.upper is None:
        return True
    upper = literal(each.upper, kind)
    return value <= upper if each.end == "closed" else value < upper


def cuts_passed(query, value, kind):
    """How many ends of ranges lie at or below a value: rows that are tied are cut in this order."""
    cuts = set()
    for each in wire_ranges(query.group_by):
        cuts |= {(literal(each.lower, kind), 0)} if each.lower is not None else set()
        cuts |= {(literal(each.upper, kind), int(each.end == "closed"))} if each.upper is not None else set()
    return sum(cut < (value, 0.5) for cut in cuts)


def places_of(groups, value):
    return [place for place, (_, _, holds) in enumerate(groups) if holds(value)]


def contributions(unit, members, groups, query, schema):
    """What one unit adds to each group: one dictionary, or two for a mean."""
    touched = sorted(
        {place for places, _ in members for place in places}, key=lambda place: rank(unit, groups[place], schema)
    )
    most = query.groups_per_unit if schema.unit is not None else None
    chosen = touched[:most]
    members = [([place for place in places if place in chosen], cells) for places, cells in members]
    members = [(places, cells) for places, cells in members if places]
    measure = query.measure
    if not isinstance(measure, Sum | Mean) and measure.of == "units":
        return [dict.fromkeys(chosen, 1)]
    if schema.unit is not None and not isinstance(measure, Sum):
        members.sort(key=lambda member: row_rank(unit, member, groups, query, schema))
        members = members[: query.rows_per_unit]
    counts = {place: sum(place in places for places, _ in members) for place in chosen}
    if not isinstance(measure, Sum | Mean):
        return [counts]
    grain = Fraction(2) ** measure.grain_exponent
    centre = Fraction(measure.centre) / grain if isinstance(measure, Mean) else 0
    lower, upper = math.ceil(Fraction(measure.lower) / grain), math.floor(Fraction(measure.upper) / grain)
    sums = {}
    for places, cells in members:
        for place in places:
            sums[place] = sums.get(place, 0) + steps(cells[measure.column], measure.grain_exponent) - centre
    clamped = {place: int(max(lower, min(upper, total))) for place, total in sums.items()}
    return [clamped, counts] if isinstance(measure, Mean) else [clamped]


def rank(unit, group, schema):
    hashed, order, _ = group
    return digest(schema, unit, [] if hashed is None else [hashed]), order


def row_rank(unit, member, groups, query, schema):
    places, cells = member
    ordering = schema.ordering if query.ordering is None else query.ordering
    spot = groups[places[0]][1]
    if query.group_by is not None and not isinstance(query.group_by, GroupByKeys):
        kind = schema.column(query.group_by.column).type
        spot = cuts_passed(query, cells[query.group_by.column], kind)
    measure = query.measure
    value = steps(cells[measure.column], measure.grain_exponent) if isinstance(measure, Mean) else 0
    return digest(schema, unit, [cells[name] for name in ordering]), spot, value


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
