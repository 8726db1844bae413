"""A1 of the question itself: its fingerprint, change set, derivation and shape follow from what the log declares.

The pure checks take a law's change set as given. Here it is derived again from the question in the plan's leaf, and
the question is brought to its canonical form again from the schema in its dataset's leaf.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

from app.audit.reading import UNREADABLE
from app.errors import AppError, InvalidQueryError
from app.log.leaves import ADJACENCY, DatasetLeaf, Leaf, PlanLeaf, plain_text
from app.queries.canonical import STEPS_LIMIT, CanonicalQuery, CountRows, SumSteps, canonicalise, fingerprint
from app.queries.component import components
from app.queries.conditions import Atom, ColumnRef, Condition, Junction, normal_form
from app.queries.model import (
    DEPTH_LIMIT,
    GRAIN_EXPONENT_LIMIT,
    NODES_LIMIT,
    And,
    Comparison,
    Count,
    GroupByKeys,
    GroupByRanges,
    In,
    IsNull,
    Mean,
    Not,
    Or,
    Query,
    Range,
    Scalar,
    Where,
)
from app.queries.schema import Column, ColumnType, DatasetSchema
from app.queries.sensitivity import Derivation, derive
from tiers.audit.findings import Finding
from tiers.audit.records import DrawRecord, PlanRecord

__all__ = ["Questions", "read_question", "read_schema", "restated"]

_BROKEN = (*UNREADABLE, AppError, msgspec.MsgspecError)


class Questions:
    """The questions of a log that is read once, in order: what each derives, and the shape that its draws must have."""

    def __init__(self) -> None:
        self._schemas: dict[str, DatasetSchema] = {}
        self._shapes: dict[str, tuple[int, int]] = {}

    def dataset(self, leaf: DatasetLeaf) -> list[Finding]:
        """Take a dataset's leaf, and return what does not follow from the schema that it quotes."""
        try:
            schema = read_schema(leaf.schema)
            self._schemas.setdefault(leaf.lineage, schema)
            return _declared(leaf, schema)
        except _BROKEN as error:
            return [_unread("schema", leaf, error)]

    def plan(self, leaf: PlanLeaf, record: PlanRecord | None) -> list[Finding]:
        """Take a plan, and return what does not follow from its question, or whether that is foreign to its data."""
        where = f"leaf {leaf.index}"
        try:
            question = read_question(leaf.question)
            derived = derive(question)
            self._shapes.setdefault(leaf.chain, (question.length, _grain(question)))
            found = _follows(leaf, question, derived)
            found += _of_schema(where, question, self._schemas.get(leaf.lineage))
        except _BROKEN as error:
            return [_unread("question", leaf, error)]
        laws = [] if record is None else [tier.law for tier in record.tiers]
        if any(law.change_set != derived.change_set for law in laws):
            claimed = ", ".join(sorted({str(law.change_set.total) for law in laws}))
            found.append(Finding("A1", "change-set", where, f"Δ₁ = {claimed}", f"Δ₁ = {derived.change_set.total}"))
        return found

    def draw(self, draw: DrawRecord) -> list[Finding]:
        """Take a draw, and return a finding where it has not the length and grain of its chain's question."""
        due, drawn = self._shapes.get(draw.spec.chain), (draw.spec.length, draw.spec.grain)
        if due is None or drawn == due:
            return []
        claimed, wanted = (f"{length} entries in steps of 2^{grain}" for length, grain in (drawn, due))
        return [Finding("A1", "draw-shape", f"leaf {draw.leaf}", claimed, wanted)]


def read_question(text: str) -> CanonicalQuery:
    """Return the question that a plan's leaf quotes.

    Raises:     msgspec.MsgspecError, InvalidQueryError, RecursionError: none, not in canonical JSON, or beyond bounds.
    Example:
        >>> read_question('{"group":null,"groups":1,"keys":[],"measure":{"type":"count units"},"ordering":[],'
        ...     '"ranges":[],"rows":0,"salt":"","unit":null,"where":null}').length
        1
    """
    question = msgspec.json.decode(text, type=CanonicalQuery)
    if plain_text(question) != text:
        raise InvalidQueryError("question: expected its canonical JSON, got another encoding of it")
    nodes = depth = 0
    level = [] if question.where is None else [question.where]
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if depth > DEPTH_LIMIT + 1 or nodes > 4 * NODES_LIMIT:
            raise InvalidQueryError("question: expected conditions within the model's bounds, got more or deeper ones")
        level = [part for node in level if isinstance(node, Junction) for part in node.operands]
    return question


def read_schema(text: str) -> DatasetSchema:
    """Return the schema that a dataset's leaf quotes; raises as `read_question`."""
    schema = msgspec.json.decode(text, type=DatasetSchema)
    if plain_text(schema) != text:
        raise InvalidQueryError("schema: expected its canonical JSON, got another encoding of it")
    return schema


def restated(question: CanonicalQuery, schema: DatasetSchema) -> CanonicalQuery:
    """Return what a canonical question becomes when it is asked again of a schema: itself, if it is of that schema.

    So unit, columns with their types, keys, literals, k and g under their ceilings, salt and ordering are compared.

    Raises:     InvalidQueryError: an undeclared column, a bound above its ceiling, a literal of another type.
    Example:
        >>> schema = DatasetSchema(
        ...     columns=(Column(name="City", id="c", type="text"),), salt="0" * 64, max_rows_per_unit=1,
        ...     max_groups_per_unit=1)
        >>> asked = Query(measure=Count(of="units"), group_by=GroupByKeys(column="City", keys=("b", "a")))
        >>> question = canonicalise(asked, schema)
        >>> restated(question, schema) == question
        True
    """
    names = {(column.stable_id, column.type): column for column in schema.columns}

    def named(reference: ColumnRef) -> Column:
        found = names.get((reference.id, reference.type))
        if found is None:
            raise InvalidQueryError(f"column: expected a declared one, got {reference.id[:60]!r} of {reference.type}")
        return found

    if isinstance(question.measure, SumSteps) and (question.rows > 0 or question.measure.centre):
        return _sum_of_mean(question, schema, named)
    counts_rows = isinstance(question.measure, CountRows)
    grouped = question.group is not None
    bare = canonicalise(
        Query(
            measure=Count(of="rows" if counts_rows else "units"),
            group_by=None if question.group is None else _grouping(question, named(question.group)),
            ordering=tuple(named(reference).name for reference in question.ordering) or None,
            rows_per_unit=question.rows if counts_rows else None,
            groups_per_unit=question.groups if grouped and schema.unit is not None else None,
        ),
        schema,
    )
    measure = question.measure if isinstance(question.measure, SumSteps) else bare.measure
    if isinstance(measure, SumSteps):
        _check_sum(measure, named(measure.column))
    where = None if question.where is None else normal_form(_spelled(question.where, named), schema)
    return msgspec.structs.replace(bare, measure=measure, where=where)


def _sum_of_mean(
    question: CanonicalQuery, schema: DatasetSchema, named: Callable[[ColumnRef], Column]
) -> CanonicalQuery:
    """The centred sum of a mean: which rows it is taken over follows from the mean, asked with any clamp."""
    measure = question.measure
    assert isinstance(measure, SumSteps)
    column = named(measure.column)
    _check_sum(measure, column)
    asked = Query(
        measure=Mean(column=column.name, centre="0", lower="0", upper="1", grain_exponent=0, sum_share="0.5"),
        group_by=None if question.group is None else _grouping(question, named(question.group)),
        ordering=tuple(named(reference).name for reference in question.ordering) or None,
        rows_per_unit=question.rows or None,
        groups_per_unit=question.groups if question.group is not None and schema.unit is not None else None,
    )
    bare = components(canonicalise(asked, schema))[0].query
    where = None if question.where is None else normal_form(_spelled(question.where, named), schema)
    return msgspec.structs.replace(bare, measure=measure, where=where)


def _grouping(question: CanonicalQuery, column: Column) -> GroupByKeys | GroupByRanges:
    if not question.ranges:
        return GroupByKeys(column=column.name, keys=question.keys)

    def end(text: str | None) -> Any:
        return None if text is None else next(_literal_values(column.type, (text,)))

    declared = (Range(lower=end(each.lower), upper=end(each.upper)) for each in question.ranges)
    return GroupByRanges(column=column.name, ranges=tuple(declared))


def _check_sum(measure: SumSteps, column: Column) -> None:
    if column.type not in ("integer", "real"):
        raise InvalidQueryError(f"sum: expected an integer or real column, got {column.type}")
    if not -STEPS_LIMIT <= measure.lower <= measure.upper <= STEPS_LIMIT:
        raise InvalidQueryError("clamp: expected lower ≤ upper within ±2⁶² steps, got others")
    if abs(measure.centre) >= STEPS_LIMIT:
        raise InvalidQueryError("centre: expected one within ±2⁶² steps, got another")
    if abs(measure.grain_exponent) > GRAIN_EXPONENT_LIMIT:
        raise InvalidQueryError(f"grain: expected an exponent within ±{GRAIN_EXPONENT_LIMIT}, got another")


def _spelled(condition: Condition, named: Callable[[ColumnRef], Column]) -> Where:
    """One of the spellings that have this canonical form."""
    if isinstance(condition, Junction):
        operands = tuple(_spelled(operand, named) for operand in condition.operands)
        return And(operands=operands) if condition.operator == "and" else Or(operands=operands)
    column = named(condition.column)
    values = tuple(_literals(condition))
    match condition.operator:
        case "in":
            return In(column=column.name, values=values)
        case "not in":
            return Not(operand=In(column=column.name, values=values))
        case "is null":
            return IsNull(column=column.name)
        case "is not null":
            return Not(operand=IsNull(column=column.name))
        case operator:
            if len(values) != 1:
                raise InvalidQueryError(f"comparison: expected one value, got {len(values)}")
            return Comparison(column=column.name, operator=operator, value=values[0])


def _literals(atom: Atom) -> Iterator[Scalar]:
    return _literal_values(atom.column.type, atom.values)


def _literal_values(kind: ColumnType, texts: tuple[str, ...]) -> Iterator[Scalar]:
    for text in texts:
        if kind == "boolean" and text in ("true", "false"):
            yield text == "true"
        elif kind == "real":
            if len(text) > 30 or not text.isascii():
                raise InvalidQueryError("literal: expected the shortest text of a binary64, got another")
            number = Decimal(text)
            if not number.is_finite() or abs(number.adjusted()) > 40:
                raise InvalidQueryError("literal: expected a decimal that a question can state, got another")
            yield int(number) if number == number.to_integral_value() else format(number, "f")
        else:
            yield text


def _declared(leaf: DatasetLeaf, schema: DatasetSchema) -> list[Finding]:
    due = {"unit": schema.unit or "row", "salt": schema.salt, "adjacency": ADJACENCY}
    return [
        Finding("A1", name, f"leaf {leaf.index}", getattr(leaf, name)[:60], text)
        for name, text in due.items()
        if getattr(leaf, name) != text
    ]


def _follows(leaf: PlanLeaf, question: CanonicalQuery, derived: Derivation) -> list[Finding]:
    where = f"leaf {leaf.index}"
    found = []
    digest = fingerprint(question.fingerprint_document())
    if digest != leaf.fingerprint:
        found.append(Finding("A1", "fingerprint", where, leaf.fingerprint[:16], digest[:16]))
    if leaf.derivation != list(derived.sentences):
        found.append(Finding("A1", "derivation", where, " ".join(leaf.derivation)[:200], derived.sentences[-1]))
    return found


def _of_schema(where: str, question: CanonicalQuery, schema: DatasetSchema | None) -> list[Finding]:
    if schema is None:
        return [Finding("A1", "question-of-schema", where, "a question on declared columns", "no earlier schema")]
    try:
        again = restated(question, schema)
    except _BROKEN as error:
        return [Finding("A1", "question-of-schema", where, "a question that the schema allows", str(error)[:200])]
    differing = [name for name in CanonicalQuery.__struct_fields__ if getattr(again, name) != getattr(question, name)]
    if not differing:
        return []
    return [Finding("A1", "question-of-schema", where, "a question of this schema", f"other {', '.join(differing)}")]


def _unread(rule: str, leaf: Leaf, error: Exception) -> Finding:
    wanted = "one with a reading in its canonical form"
    return Finding("A1", rule, f"leaf {leaf.index}", wanted, str(error)[:200])


def _grain(question: CanonicalQuery) -> int:
    return question.measure.grain_exponent if isinstance(question.measure, SumSteps) else 0
