"""Ranges, bins, means, quantiles, thresholds and orderings outside the model: refused by name."""

import msgspec
import pytest

from app.errors import InvalidQueryError
from app.queries.canonical import canonicalise
from app.queries.model import (
    Quantile,
    Query,
    Sum,
    parse_query,
)
from tests.queries.support import schema_of
from tests.queries.words import CITIES, MEAN, ROWS, SCHEMA, altered, binned, ranged

REFUSED = {
    "text ranges": (ranged({"lower": "a"}, column="city"), "a column with an order, got text"),
    "boolean bins": (binned("flag", 0, 1), "a column with an order, got boolean"),
    "another type": (binned("age", "x", 1), "age: expected a whole number"),
    "half edges": (binned("age", 0, "1.5"), "age: expected a whole number"),
    "edges that fall": (binned("age", 1, 0), "edges: expected each above"),
    "an edge twice": (binned("age", 1, "1.0"), "edges: expected each above"),
    "texts that fall by size": (binned("score", 9, "10.0", 2), "edges: expected each above"),
    "one edge": (binned("age", 1), "at least one bin"),
    "a bin below all": (binned("age", -(2**63), 5, below="kept"), "without a value"),
    "an empty range": (ranged({"lower": 2, "upper": 2}), "without a value"),
    "a range upside down": (ranged({"lower": 3, "upper": 2, "end": "closed"}), "without a value"),
    "no end": (ranged({}), "at least one end"),
    "no end, closed": (ranged({"lower": 1, "end": "closed"}), "a closed end to be given"),
    "one range twice": (ranged({"upper": 5}, {"upper": 5}), "each range once"),
    "one range in two spellings": (ranged({"upper": 5}, {"upper": 4, "end": "closed"}), "each range once"),
    "too many over one value": (
        ranged(*({"lower": lower} for lower in range(101))),
        "at most 100 that cover one value",
    ),
    "no bound on groups": (altered(ranged({"upper": 5}), groups_per_unit=None), "groups_per_unit: expected a bound"),
    "no bound on rows": (altered(ranged({"upper": 5}), measure=ROWS), "rows_per_unit: expected a bound"),
    "quantile of nothing": (Query(measure=Quantile(of="units", fraction="0.5")), "declared bins"),
    "quantile over keys": (
        Query(measure=Quantile(of="units", fraction="0.5"), group_by=CITIES, groups_per_unit=1),
        "declared bins",
    ),
    "quantile over ranges": (
        altered(ranged({"upper": 5}), measure=Quantile(of="units", fraction="0.5")),
        "declared bins",
    ),
    "mean without k": (Query(measure=MEAN), "rows_per_unit: expected a bound"),
    "mean over the ceiling": (Query(measure=MEAN, rows_per_unit=101), "ceiling 100"),
    "mean of text": (Query(measure=altered(MEAN, column="city"), rows_per_unit=1), "integer or real column to sum"),
    "mean of half a step": (Query(measure=altered(MEAN, centre="0.5"), rows_per_unit=1), "centre: expected a whole"),
    "mean of a far centre": (
        Query(measure=altered(MEAN, centre=str(2**62)), rows_per_unit=1),
        "centre: expected a whole",
    ),
    "mean without a share": (Query(measure=altered(MEAN, sum_share="0.0"), rows_per_unit=1), "sum_share: expected"),
    "mean with an empty clamp": (Query(measure=altered(MEAN, upper="-4"), rows_per_unit=1), "clamp: expected"),
    "mean with real ordering": (Query(measure=MEAN, rows_per_unit=1, ordering=("score",)), "not real"),
    "mean without ordering": (Query(measure=MEAN, rows_per_unit=1, ordering=()), "ordering: expected columns by which"),
    "ordering of one number": (Query(measure=ROWS, rows_per_unit=1, ordering=("age",)), "ordering: expected none"),
    "ordering of units": (altered(ranged({"upper": 5}), ordering=("age",)), "ordering: expected none"),
    "ordering of a sum": (
        Query(measure=Sum(column="age", lower="0", upper="1", grain_exponent=0), ordering=("age",)),
        "ordering: expected none",
    ),
    "ordering twice": (Query(measure=MEAN, rows_per_unit=1, ordering=("age", "age")), "each column once"),
    "ordering nowhere": (Query(measure=MEAN, rows_per_unit=1, ordering=("nowhere",)), "declared column"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_question_outside_the_model_is_refused_by_name(name):
    query, words = REFUSED[name]
    with pytest.raises(InvalidQueryError, match=words):
        canonicalise(query, SCHEMA)


def test_a_mean_needs_something_to_cut_rows_by():
    with pytest.raises(InvalidQueryError, match="ordering: expected columns"):
        canonicalise(Query(measure=MEAN, rows_per_unit=1), schema_of(ordering=()))
    given = canonicalise(Query(measure=MEAN, rows_per_unit=1, ordering=("day",)), schema_of(ordering=()))
    assert [column.id for column in given.ordering] == ["day"]
    assert canonicalise(Query(measure=MEAN), schema_of(unit=None, ordering=())).ordering == ()


def wire(measure, **fields):
    return msgspec.json.encode({"measure": measure} | fields)


QUANTILE = {"type": "quantile", "of": "units", "fraction": "0.5"}
MEAN_WIRE = {
    "type": "mean",
    "column": "a",
    "centre": "0",
    "lower": "0",
    "upper": "1",
    "grain_exponent": 0,
    "sum_share": "0.5",
}
HOSTILE = [
    *(
        wire(QUANTILE | {"fraction": each})
        for each in ("1", "0", "-0.5", ".5", "0.5\n", "٠.٥", 0.5, "0." + "1" * 31, "NaN")
    ),
    *(wire(MEAN_WIRE | {"sum_share": each}) for each in ("1.0", "1", "0", 0.5, "0,5", "1/2", None)),
    *(wire(MEAN_WIRE | {"centre": each}) for each in ("nan", "1e3", 1, "1\n", None)),
    *(wire({"type": "threshold", "of": "units", "at": each}) for each in (0, -1, 1.5, "1", True, 2**62 + 1, None)),
    *(
        wire(QUANTILE, group_by={"type": "bins", "column": "a", "edges": each})
        for each in ([], [True], [1.5], [None], "ab")
    ),
    wire(QUANTILE, group_by={"type": "bins", "column": "a", "edges": list(range(10_001))}),
    wire(QUANTILE, group_by={"type": "bins", "column": "a", "edges": [1, 2], "below": "maybe"}),
    wire(QUANTILE, group_by={"type": "ranges", "column": "a", "ranges": [{"lower": 1}] * 1_001}),
    wire(QUANTILE, group_by={"type": "ranges", "column": "a", "ranges": []}),
    wire(QUANTILE, group_by={"type": "ranges", "column": "a", "ranges": [{"lower": 1, "end": "half"}]}),
    wire(QUANTILE, group_by={"type": "ranges", "column": "a", "ranges": [{"lower": 1, "step": 2}]}),
    wire(QUANTILE, ordering=["a"] * 33),
    wire(QUANTILE, ordering="a"),
]


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_hostile_json_is_refused_in_one_short_sentence(place):
    with pytest.raises(InvalidQueryError) as refusal:
        parse_query(HOSTILE[place])
    assert len(refusal.value.detail) < 400
