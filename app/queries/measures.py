"""What is counted or summed, in canonical form."""

import math
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec

from app.errors import InvalidQueryError
from app.queries.conditions import ColumnRef
from app.queries.model import Count, Mean, Measure, Quantile, Sum, Threshold
from app.queries.schema import DatasetSchema
from tiers.budget import decimal_text

__all__ = [
    "STEPS_LIMIT",
    "CanonicalMeasure",
    "CountRows",
    "CountUnits",
    "MeanSteps",
    "RawMeasure",
    "SumSteps",
    "canonical_measure",
    "counts_rows",
    "measure_document",
    "raw",
]

STEPS_LIMIT = 2**62


class CountUnits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="count units"):
    """1 for each unit (in each of its kept groups)."""


class CountRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="count rows"):
    """1 for each kept row (in each of the unit's kept groups that it falls into)."""


class SumSteps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="sum"):
    """Each unit's total per group in steps of 2^grain_exponent, `centre` off each row, clamped to [lower, upper]."""

    column: ColumnRef
    lower: int
    upper: int
    grain_exponent: int
    centre: int = 0

    @property
    def step(self) -> int:
        """The largest change of one entry when a unit comes or goes, in steps."""
        return max(abs(self.lower), abs(self.upper))


class MeanSteps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="mean"):
    """A centred sum and the count of the same rows, the sum at `sum_share` of ε: see `app.queries.component`."""

    total: SumSteps
    sum_share: str


RawMeasure: TypeAlias = CountUnits | CountRows | SumSteps
CanonicalMeasure: TypeAlias = RawMeasure | MeanSteps


def raw(measure: CanonicalMeasure) -> RawMeasure:
    """Return the measure of one raw vector; raises InvalidQueryError for a mean, which is answered by two."""
    if isinstance(measure, MeanSteps):
        raise InvalidQueryError("measure: expected one of a mean's two components, got the mean itself")
    return measure


def counts_rows(measure: Measure) -> bool:
    """Return whether it matters how many rows of one unit are kept, so that a bound on them is called for."""
    return isinstance(measure, Mean) or (not isinstance(measure, Sum) and measure.of == "rows")


def canonical_measure(measure: Measure, schema: DatasetSchema) -> CanonicalMeasure:
    """Return the measure of the raw vector: a quantile's is its histogram's, a threshold's its count's.

    Raises:     InvalidQueryError: a column that cannot be summed; an empty clamp, one beyond ±2⁶² steps; a centre that
                is no whole number of steps, or not within ±2⁶²; a share of 0.
    """
    match measure:
        case Count(of=of) | Quantile(of=of) | Threshold(of=of):
            return CountRows() if of == "rows" else CountUnits()
        case Sum():
            return _sum(measure, 0, schema)
        case Mean():
            share, centre = (
                Fraction(measure.sum_share),
                Fraction(measure.centre) / Fraction(2) ** measure.grain_exponent,
            )
            if share == 0:
                raise InvalidQueryError("sum_share: expected 0 < w < 1, got 0")
            if centre.denominator != 1 or abs(centre) >= STEPS_LIMIT:
                raise InvalidQueryError(
                    "centre: expected a whole number of steps of the grain within ±2⁶², got another"
                )
            return MeanSteps(_sum(measure, int(centre), schema), decimal_text(share))


def measure_document(measure: CanonicalMeasure) -> dict[str, Any]:
    """Return the measure as the plain document that is fingerprinted."""
    match measure:
        case CountUnits():
            return {"type": "count units"}
        case CountRows():
            return {"type": "count rows"}
        case SumSteps(column=column, lower=lower, upper=upper, grain_exponent=exponent, centre=centre):
            document: dict[str, Any] = {
                "type": "sum",
                "column": [column.id, column.type],
                "clamp": [str(lower), str(upper)],
                "grain_exponent": exponent,
            }
            return document | ({"centre": str(centre)} if centre else {})
        case MeanSteps(total=total, sum_share=share):
            return {"type": "mean", "total": measure_document(total), "sum_share": share}


def _sum(measure: Sum | Mean, centre: int, schema: DatasetSchema) -> SumSteps:
    column = schema.column(measure.column)
    if column.type not in ("integer", "real"):
        raise InvalidQueryError(f"{column.name}: expected an integer or real column to sum, got {column.type}")
    grain = Fraction(2) ** measure.grain_exponent
    lower, upper = math.ceil(Fraction(measure.lower) / grain), math.floor(Fraction(measure.upper) / grain)
    if lower > upper:
        raise InvalidQueryError("clamp: expected lower ≤ upper with a whole step between them, got none")
    if not -STEPS_LIMIT <= lower <= upper <= STEPS_LIMIT:
        raise InvalidQueryError("clamp: expected bounds within ±2⁶² steps of the grain, got more")
    return SumSteps(ColumnRef(column.stable_id, column.type), lower, upper, measure.grain_exponent, centre)
