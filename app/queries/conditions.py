"""Where-trees in one form: negations at the leaves, junctions flat, sorted and without repetition."""

import json
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from app.errors import InvalidQueryError
from app.queries.literals import canonical_text, neighbour, ordered, sort_key
from app.queries.model import And, Between, Comparison, In, IsNull, Not, Or, Where
from app.queries.schema import Column, ColumnType, DatasetSchema

__all__ = ["Atom", "ColumnRef", "Condition", "Junction", "condition_document", "conjunction", "normal_form"]

Operator: TypeAlias = Literal["in", "not in", "<", "<=", ">", ">=", "is null", "is not null"]
_NEGATED: dict[Operator, Operator] = {
    "in": "not in",
    "<": ">=",
    "<=": ">",
    "is null": "is not null",
    "not in": "in",
    ">=": "<",
    ">": "<=",
    "is not null": "is null",
}
_SPELLED: dict[str, Operator] = {"=": "in", "!=": "not in", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CLOSED: dict[Operator, tuple[Operator, int]] = {"<": ("<=", -1), ">": (">=", 1)}


class ColumnRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column as fingerprints and engines know it."""

    id: str
    type: ColumnType


class Atom(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="atom"):
    """One test of one column; null (or NaN, or an infinity) passes "is null" and nothing else."""

    column: ColumnRef
    operator: Operator
    values: tuple[str, ...] = ()


class Junction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="junction"):
    """Two or more conditions, all of them or any of them, in canonical order."""

    operator: Literal["and", "or"]
    operands: tuple["Condition", ...]


Condition: TypeAlias = Atom | Junction


def normal_form(where: Where, schema: DatasetSchema) -> Condition:
    """Return the canonical condition that keeps the same rows of every table.

    Negations move to the leaves by De Morgan's laws, which hold in three-valued logic, as does not (a < x) = a ≥ x
    with both sides unknown for a null. A tree without negations is monotone, so that a leaf which is unknown may count
    as false: what makes `a in (true, false)` and `a is not null` one leaf. Merged further: `between` into two
    comparisons, = and != into lists, lists under one `or` (not-lists under one `and`) on one column, strict bounds of
    whole numbers and dates into closed ones. Not merged: implied bounds, absorbed or distributed terms; two such
    spellings are two chains, which costs budget and never privacy.

    Raises:     InvalidQueryError: an undeclared column, a literal of another type, or an order where there is none.
    """
    return _when_true(where, schema)


def conjunction(*conditions: Condition) -> Condition:
    """Return the canonical condition that holds where all of one or more canonical conditions do."""
    return _junction("and", conditions)


def condition_document(condition: Condition) -> dict[str, Any]:
    """Return the condition as the plain document that is fingerprinted."""
    match condition:
        case Junction(operator=operator, operands=operands):
            return {"operator": operator, "operands": [condition_document(operand) for operand in operands]}
        case Atom(column=column, operator=operator, values=values):
            return {"column": column.id, "type": column.type, "operator": operator, "values": list(values)}


def _when_true(where: Where, schema: DatasetSchema) -> Condition:
    """The condition that holds exactly where `where` is TRUE."""
    match where:
        case And(operands=operands):
            return _junction("and", [_when_true(operand, schema) for operand in operands])
        case Or(operands=operands):
            return _junction("or", [_when_true(operand, schema) for operand in operands])
        case Not(operand=operand):
            return _when_false(operand, schema)
        case Between():
            return _junction("and", [_atom(*leaf) for leaf in _leaves(where, schema)])
        case _:
            return _atom(*_leaves(where, schema)[0])


def _when_false(where: Where, schema: DatasetSchema) -> Condition:
    """The condition that holds exactly where `where` is FALSE (and not where it is unknown)."""
    match where:
        case And(operands=operands):
            return _junction("or", [_when_false(operand, schema) for operand in operands])
        case Or(operands=operands):
            return _junction("and", [_when_false(operand, schema) for operand in operands])
        case Not(operand=operand):
            return _when_true(operand, schema)
        case _:
            leaves = [_atom(column, _NEGATED[operator], values) for column, operator, values in _leaves(where, schema)]
            return _junction("or", leaves)


def _leaves(
    where: Comparison | In | Between | IsNull, schema: DatasetSchema
) -> list[tuple[Column, Operator, list[str]]]:
    """The one test (for `between` two) that a leaf asks, its literals read."""
    column = schema.column(where.column)
    match where:
        case Comparison(operator=operator, value=value):
            leaves = [(column, _SPELLED[operator], [canonical_text(column, value)])]
        case In(values=values):
            leaves = [(column, _SPELLED["="], [canonical_text(column, value) for value in values])]
        case Between(lower=lower, upper=upper):
            leaves = [
                (column, _SPELLED[">="], [canonical_text(column, lower)]),
                (column, _SPELLED["<="], [canonical_text(column, upper)]),
            ]
        case IsNull():
            leaves = [(column, "is null", [])]
    if any(operator[0] in "<>" for _, operator, _ in leaves) and not ordered(column.type):
        raise InvalidQueryError(f"{column.name}: expected =, != or in ({column.type} has no order), got an order")
    return leaves


def _atom(column: Column, operator: Operator, values: Iterable[str]) -> Condition:
    """One leaf in canonical form."""
    kept = sorted(set(values), key=lambda text: sort_key(column.type, text))
    if operator in _CLOSED:
        closed, steps = _CLOSED[operator]
        end = neighbour(column.type, kept[0], steps)
        operator, kept = (closed, [end]) if end is not None else (operator, kept)
    elif column.type == "boolean" and operator == "in" and len(kept) == 2:
        operator, kept = "is not null", []
    elif column.type == "boolean" and operator == "not in" and len(kept) == 1:
        operator, kept = "in", ["true" if kept == ["false"] else "false"]
    return Atom(ColumnRef(column.stable_id, column.type), operator, tuple(kept))


def _junction(operator: Literal["and", "or"], operands: Iterable[Condition]) -> Condition:
    """The operands flattened, lists on one column united, sorted, each once; a lone operand stands for itself."""
    united: Operator = "in" if operator == "or" else "not in"
    lists: dict[ColumnRef, list[str]] = {}
    others: dict[str, Condition] = {}
    for operand in operands:
        for part in operand.operands if isinstance(operand, Junction) and operand.operator == operator else (operand,):
            if isinstance(part, Atom) and part.operator == united:
                lists.setdefault(part.column, []).extend(part.values)
            else:
                others[_order(part)] = part
    for column, values in lists.items():
        merged = _atom(Column(name=column.id, type=column.type), united, values)
        others[_order(merged)] = merged
    parts = tuple(others[key] for key in sorted(others))
    return parts[0] if len(parts) == 1 else Junction(operator, parts)


def _order(condition: Condition) -> str:
    return json.dumps(condition_document(condition), sort_keys=True)
