"""The closed query model: what an owner may publish and an analyst may ask, as bounded wire structs."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from app.errors import InvalidQueryError
from app.queries.schema import GROUPS_LIMIT, ORDERING_LIMIT, ROWS_LIMIT, Name

__all__ = [
    "COVER_LIMIT",
    "DEPTH_LIMIT",
    "EDGES_LIMIT",
    "GRAIN_EXPONENT_LIMIT",
    "KEYS_LIMIT",
    "NODES_LIMIT",
    "QUERY_BYTES_LIMIT",
    "RANGES_LIMIT",
    "And",
    "Between",
    "Comparison",
    "Count",
    "GroupBy",
    "GroupByBins",
    "GroupByKeys",
    "GroupByRanges",
    "In",
    "IsNull",
    "Mean",
    "Measure",
    "Not",
    "Or",
    "Quantile",
    "Query",
    "Range",
    "Scalar",
    "Sum",
    "Threshold",
    "Where",
    "checked",
    "parse_query",
]

DEPTH_LIMIT = 16
NODES_LIMIT = 1_000
KEYS_LIMIT = 10_000
EDGES_LIMIT = 10_000
RANGES_LIMIT = 1_000
COVER_LIMIT = 100
GRAIN_EXPONENT_LIMIT = 62
QUERY_BYTES_LIMIT = 2**22
_MESSAGE_LIMIT = 200

Integer: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Text: TypeAlias = Annotated[str, Meta(max_length=1_000, pattern=r"^[^\x00]*\Z")]
Scalar: TypeAlias = Integer | Text | bool
_Decimal: TypeAlias = Annotated[str, Meta(max_length=62, pattern=r"^-?[0-9]{1,30}(\.[0-9]{1,30})?\Z")]
_Share: TypeAlias = Annotated[str, Meta(max_length=32, pattern=r"^0\.[0-9]{1,30}\Z")]
_Grain: TypeAlias = Annotated[int, Meta(ge=-GRAIN_EXPONENT_LIMIT, le=GRAIN_EXPONENT_LIMIT)]
_Operands: TypeAlias = Annotated[tuple["Where", ...], Meta(min_length=1, max_length=NODES_LIMIT)]


class And(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="and"):
    """Every operand is true."""

    operands: _Operands


class Or(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="or"):
    """At least one operand is true."""

    operands: _Operands


class Not(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="not"):
    """The operand is false: not merely unknown, so `not (a = 1)` drops the rows whose a is null."""

    operand: "Where"


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="comparison"):
    """A column against one value; text and booleans know = and != only (engines disagree on the order of text)."""

    column: Name
    operator: Literal["=", "!=", "<", "<=", ">", ">="]
    value: Scalar


class In(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="in"):
    """The column equals one of the values."""

    column: Name
    values: Annotated[tuple[Scalar, ...], Meta(min_length=1, max_length=KEYS_LIMIT)]


class Between(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="between"):
    """lower ≤ column ≤ upper, both ends included."""

    column: Name
    lower: Scalar
    upper: Scalar


class IsNull(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="is_null"):
    """The column has no value (or, where it is real, NaN or an infinity)."""

    column: Name


Where: TypeAlias = And | Or | Not | Comparison | In | Between | IsNull


class Count(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="count"):
    """How many rows, or how many units, are kept by `where`."""

    of: Literal["rows", "units"]


class Sum(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sum"):
    """The sum of a column, each unit's total (per group) clamped to [lower, upper], in steps of γ = 2^grain_exponent.

    Each row is rounded half up to a whole number of steps and saturates at ±2⁶² steps; null, NaN and ±infinity are
    dropped before anything else; a unit without a row left in a group adds 0 there, whatever the clamp.
    """

    column: Name
    lower: _Decimal
    upper: _Decimal
    grain_exponent: _Grain


class Mean(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mean"):
    """The mean of a column over the rows kept, from two raw answers: a centred sum, and the count that goes with it.

    The kept rows are those where the column is known, at most k a unit (rows_per_unit), the same ones for both. What
    is estimated is centre + Σ over units of [Σ over its kept rows of (value − centre), clamped to [lower, upper]] ÷ how
    many rows are kept: the mean of the kept rows itself as long as no unit's total is clamped.

    Args:       centre: near the mean as the public expects it, a whole number of steps; it decides how much noise is
                left in the quotient. lower, upper: of a unit's centred total. sum_share: w, the sum's part of ε.
    """

    column: Name
    centre: _Decimal
    lower: _Decimal
    upper: _Decimal
    grain_exponent: _Grain
    sum_share: _Share


class Quantile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="quantile"):
    """The declared bin of `group_by` below whose upper end a `fraction` of rows, or of units, lies.

    What is sold is the histogram over the bins, the same one whatever the fraction; the quantile is read off beside it.
    """

    of: Literal["rows", "units"]
    fraction: _Share


class Threshold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="threshold"):
    """Whether a count reaches `at`. What is sold is the count, the same one whatever the threshold."""

    of: Literal["rows", "units"]
    at: Annotated[int, Meta(ge=1, le=2**62)]


class GroupByKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="keys"):
    """One answer for each declared public key, rows or no rows; values of the column that are not declared are dropped.

    The order of `keys` is the caller's and is the order of the answer shown; see `app.queries.canonical.permutation`.
    """

    column: Name
    keys: Annotated[tuple[Integer | Text, ...], Meta(min_length=1, max_length=KEYS_LIMIT)]


class GroupByBins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="bins"):
    """One answer for each bin between declared public edges, which rise: edge ≤ value < next edge.

    A value below the first edge or from the last edge on is dropped, or where so declared kept in a further bin that is
    open to that side. Null, NaN and ±infinity fall into no bin.
    """

    column: Name
    edges: Annotated[tuple[Integer | Text, ...], Meta(min_length=1, max_length=EDGES_LIMIT)]
    below: Literal["dropped", "kept"] = "dropped"
    above: Literal["dropped", "kept"] = "dropped"


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """lower ≤ value < upper, or ≤ upper where `end` is "closed"; an end left out is open to that side, never both."""

    lower: Integer | Text | None = None
    upper: Integer | Text | None = None
    end: Literal["open", "closed"] = "open"


class GroupByRanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ranges"):
    """One answer for each declared public range; ranges may overlap, and a row adds to each that covers its value.

    At most 100 may cover one value: an engine visits each row once for each.
    The order of `ranges` is the caller's, as with keys.
    """

    column: Name
    ranges: Annotated[tuple[Range, ...], Meta(min_length=1, max_length=RANGES_LIMIT)]


Measure: TypeAlias = Count | Sum | Mean | Quantile | Threshold
GroupBy: TypeAlias = GroupByKeys | GroupByBins | GroupByRanges


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question. A histogram is a grouped count.

    `where` is evaluated in three-valued logic and a row is kept only where it is TRUE.

    Args:       measure: what is counted or summed. where: which rows. group_by: the declared keys, bins or ranges.
                rows_per_unit: k, the most rows of one unit that count, over all groups; for counts of rows and means.
                groups_per_unit: g, the most groups one unit adds to; with group_by only.
                ordering: the product's own columns, never real, by which a unit's rows are cut to k; the data set's
                unless given, and only where it can matter which rows are kept.
    Raises:     InvalidQueryError: `where` is deeper than 16 or holds more than 1,000 nodes.
    Example:
        >>> Query(measure=Count(of="rows"), rows_per_unit=10).groups_per_unit is None
        True
    """

    measure: Measure
    where: Where | None = None
    group_by: GroupBy | None = None
    rows_per_unit: Annotated[int, Meta(ge=1, le=ROWS_LIMIT)] | None = None
    groups_per_unit: Annotated[int, Meta(ge=1, le=GROUPS_LIMIT)] | None = None
    ordering: Annotated[tuple[Name, ...], Meta(max_length=ORDERING_LIMIT)] | None = None

    def __post_init__(self) -> None:
        level: list[Where] = [] if self.where is None else [self.where]
        nodes, depth = 0, 0
        while level:
            depth, nodes = depth + 1, nodes + len(level)
            if depth > DEPTH_LIMIT or nodes > NODES_LIMIT:
                raise InvalidQueryError(f"where: expected depth ≤ {DEPTH_LIMIT} and ≤ {NODES_LIMIT} nodes, got more")
            level = [child for node in level for child in _children(node)]


def _children(node: Where) -> tuple[Where, ...]:
    match node:
        case And(operands=operands) | Or(operands=operands):
            return operands
        case Not(operand=operand):
            return (operand,)
        case _:
            return ()


def parse_query(document: bytes) -> Query:
    """Return the query that a JSON document states.

    Raises:     InvalidQueryError: over 4 MiB, not JSON, nested too deeply, an unknown field, or a value out of bounds.
    Example:
        >>> parse_query(b'{"measure": {"type": "count", "of": "units"}}').measure.of
        'units'
    """
    if len(document) > QUERY_BYTES_LIMIT:
        raise InvalidQueryError(f"query: expected at most {QUERY_BYTES_LIMIT} bytes, got {len(document)}")
    try:
        return msgspec.json.decode(document, type=Query)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidQueryError(f"query: expected the documented JSON, got {str(error)[:_MESSAGE_LIMIT]!r}") from error


def checked(query: Query) -> Query:
    """Return `query` read once more against every bound: one built in Python has not been through the decoder."""
    try:
        return msgspec.convert(msgspec.to_builtins(query), Query)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidQueryError(f"query: expected values in bounds, got {str(error)[:_MESSAGE_LIMIT]!r}") from error
