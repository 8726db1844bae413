"""Ranges, bins, means, quantiles and thresholds: one form, its change set, and what is refused."""

import itertools

import msgspec
import pytest

from app.errors import InvalidQueryError
from app.queries.canonical import CanonicalQuery, canonicalise, fingerprint, permutation
from app.queries.compile import compile_query
from app.queries.component import components
from app.queries.model import (
    And,
    Comparison,
    GroupByRanges,
    IsNull,
    Not,
    Quantile,
    Query,
    Range,
    Sum,
    Threshold,
    parse_query,
)
from app.queries.sensitivity import derive
from tests.queries.support import schema_of
from tests.queries.words import CITIES, MEAN, ROWS, SCHEMA, UNITS, altered, binned, ranged
from tiers.sensitivity import ChangeSet


def mark(query, schema=SCHEMA):
    return [fingerprint(each.query.fingerprint_document()) for each in components(canonicalise(query, schema))]


ONE_QUESTION = {
    "closed whole numbers": [ranged({"lower": 1, "upper": 5, "end": "closed"}), ranged({"lower": "1.0", "upper": 6})],
    "closed at the last whole number": [
        ranged({"lower": 1, "upper": 2**63 - 1, "end": "closed"}),
        ranged({"lower": 1}),
    ],
    "from the first whole number": [ranged({"lower": -(2**63), "upper": 1}), ranged({"upper": 1})],
    "closed days": [
        ranged({"lower": "2013-01-01", "upper": "2013-01-31", "end": "closed"}, column="day"),
        ranged({"lower": "2013-01-01", "upper": "2013-02-01"}, column="day"),
    ],
    "closed moments": [
        ranged({"upper": "2013-01-01T10:00:00.999999Z", "end": "closed"}, column="at"),
        ranged({"upper": "2013-01-01T12:00:01+02:00"}, column="at"),
    ],
    "reals": [
        ranged({"lower": "1.50", "upper": 2}, column="score"),
        ranged({"lower": "1.5", "upper": "2.0"}, column="score"),
    ],
    "order": [ranged({"lower": 1}, {"upper": 9}), ranged({"upper": 9}, {"lower": 1})],
    "bins": [
        binned("age", 0, 10, "20.0", below="kept"),
        ranged({"lower": 0, "upper": 9, "end": "closed"}, {"upper": 0}, {"lower": 10, "upper": 20}),
    ],
    "bins open above": [binned("age", 0, 10, above="kept"), ranged({"lower": 10}, {"lower": 0, "upper": 10})],
    "quantile": [
        Query(
            measure=Quantile(of="units", fraction=fraction), group_by=binned("age", 0, 10).group_by, groups_per_unit=2
        )
        for fraction in ("0.5", "0.9")
    ]
    + [binned("age", 0, 10)],
    "threshold": [
        Query(measure=ROWS, rows_per_unit=3),
        Query(measure=Threshold(of="rows", at=10), rows_per_unit=3),
        Query(measure=Threshold(of="rows", at=99), rows_per_unit=3),
    ],
    "mean": [
        Query(measure=altered(MEAN, **changes), rows_per_unit=3)
        for changes in ({}, {"centre": "1.00"}, {"upper": "4"}, {"sum_share": "0.25"})
    ],
    "ordering": [
        Query(measure=ROWS, group_by=CITIES, groups_per_unit=2, rows_per_unit=3, **fields)
        for fields in ({}, {"ordering": SCHEMA.ordering})
    ],
}


@pytest.mark.parametrize("name", list(ONE_QUESTION))
def test_one_question_has_one_fingerprint(name):
    assert len({tuple(mark(query)) for query in ONE_QUESTION[name]}) == 1


NEAR_MISSES = [
    binned("age", 0, 10),
    binned("age", 0, 10, below="kept"),
    binned("age", 0, 10, above="kept"),
    binned("age", 0, 5, 10),
    binned("score", 0, 10),
    ranged({"lower": 0, "upper": 10, "end": "closed"}),
    ranged({"lower": 0, "upper": 10, "end": "closed"}, column="score"),
    ranged({"lower": 0, "upper": 10}, {"lower": 0, "upper": 5}),
    ranged({"upper": 10}),
    ranged({"lower": 10}),
    *(
        Query(measure=ROWS, group_by=CITIES, groups_per_unit=2, rows_per_unit=3, ordering=ordering)
        for ordering in (None, ("age",), ("age", "city"), ("city", "age"), ())
    ),
]


def test_near_misses_differ():
    assert len({tuple(mark(query)) for query in NEAR_MISSES}) == len(NEAR_MISSES)


@pytest.mark.parametrize(
    ("change", "fields", "differing"),
    [
        ({"centre": "2"}, {}, [True, False]),
        ({"lower": "-4"}, {}, [True, False]),
        ({"column": "score"}, {}, [True, True]),
        ({}, {"rows_per_unit": 4}, [True, True]),
        ({}, {"ordering": ("day",)}, [True, False]),
        ({}, {"where": Comparison(column="flag", operator="=", value=True)}, [True, True]),
    ],
)
def test_what_makes_another_mean_makes_other_components(change, fields, differing):
    first = mark(Query(measure=MEAN, rows_per_unit=3))
    second = mark(Query(measure=altered(MEAN, **change), **({"rows_per_unit": 3} | fields)))
    assert [one != other for one, other in zip(first, second, strict=True)] == differing


def test_a_component_shares_the_chain_of_the_same_question_asked_alone():
    where = And(operands=(Comparison(column="flag", operator="=", value=True), Not(operand=IsNull(column="age"))))
    query = Query(measure=MEAN, where=where.operands[0], rows_per_unit=3)
    assert mark(query)[1:] == mark(Query(measure=ROWS, where=where, rows_per_unit=3))
    single = schema_of(unit=None)
    plain = altered(MEAN, centre="0")
    total = Sum(column="age", lower="-3", upper="4.9", grain_exponent=0)
    assert mark(Query(measure=plain), single)[:1] == mark(Query(measure=total), single)
    assert mark(Query(measure=plain), single)[1:] == mark(Query(measure=UNITS, where=where.operands[1]), single)


def test_a_mean_is_two_components_that_share_epsilon_and_everything_else_is_one():
    parts = components(canonicalise(Query(measure=altered(MEAN, sum_share="0.7"), rows_per_unit=3), SCHEMA))
    assert [(each.name, str(each.share)) for each in parts] == [("sum", "7/10"), ("count", "3/10")]
    for query in NEAR_MISSES:
        (only,) = components(canonicalise(query, SCHEMA))
        assert (only.name, only.share, only.query) == ("answer", 1, canonicalise(query, SCHEMA))


def test_a_mean_itself_is_neither_compiled_nor_derived():
    canonical = canonicalise(Query(measure=MEAN, rows_per_unit=3), SCHEMA)
    for refused in (derive, compile_query):
        with pytest.raises(InvalidQueryError, match="one of a mean's two components"):
            refused(canonical)


def test_ranges_in_any_order_are_one_question_and_the_permutation_gives_the_callers_order_back():
    declared = ({"lower": 5}, {"lower": -5, "upper": 3}, {"upper": 3}, {"lower": -5, "upper": 1})
    for ranges in itertools.permutations(declared):
        query = ranged(*ranges)
        labels = canonicalise(query, SCHEMA).labels
        assert labels == ("[, 3)", "[-5, 1)", "[-5, 3)", "[5, )")
        expected = [f"[{each.get('lower', '')}, {each.get('upper', '')})" for each in ranges]
        assert [labels[place] for place in permutation(query, SCHEMA)] == expected


def test_ranges_are_ordered_by_value_and_not_by_text():
    labels = canonicalise(ranged({"lower": "10"}, {"lower": "9"}, {"lower": "-1.5"}, column="score"), SCHEMA).labels
    assert labels == ("[-1.5, )", "[9.0, )", "[10.0, )")


@pytest.mark.parametrize("query", [*NEAR_MISSES, Query(measure=MEAN, rows_per_unit=3)])
def test_a_canonical_query_survives_storage_and_a_query_the_wire(query):
    canonical = canonicalise(query, SCHEMA)
    assert msgspec.json.decode(msgspec.json.encode(canonical), type=CanonicalQuery) == canonical
    assert parse_query(msgspec.json.encode(query)) == query


def test_a_canonical_query_stored_before_there_were_ranges_is_still_read():
    canonical = canonicalise(Query(measure=Sum(column="age", lower="0", upper="9", grain_exponent=0)), SCHEMA)
    document = msgspec.json.decode(msgspec.json.encode(canonical))
    del document["ranges"], document["measure"]["centre"]
    assert msgspec.convert(document, CanonicalQuery) == canonical


NESTED = GroupByRanges(column="age", ranges=(Range(lower=0), Range(lower=1), Range(lower=2), Range(upper=0)))


@pytest.mark.parametrize(
    ("query", "bins", "step", "l1"),
    [
        (Query(measure=ROWS, group_by=NESTED, rows_per_unit=5, groups_per_unit=4), 4, 5, 15),
        (Query(measure=ROWS, group_by=NESTED, rows_per_unit=5, groups_per_unit=2), 2, 5, 10),
        (Query(measure=ROWS, group_by=NESTED, rows_per_unit=5, groups_per_unit=1), 1, 5, 5),
        (Query(measure=ROWS, group_by=NESTED, rows_per_unit=1, groups_per_unit=4), 3, 1, 3),
        (Query(measure=UNITS, group_by=NESTED, groups_per_unit=4), 4, 1, 4),
        (Query(measure=UNITS, group_by=NESTED, groups_per_unit=9), 4, 1, 4),
        (altered(binned("age", 0, 1, 2, 3), measure=ROWS, rows_per_unit=5), 2, 5, 5),
        (
            Query(
                measure=Sum(column="age", lower="-2", upper="1", grain_exponent=0), group_by=NESTED, groups_per_unit=4
            ),
            4,
            2,
            8,
        ),
    ],
)
def test_the_change_set_follows_from_the_bounds_and_from_how_ranges_overlap(query, bins, step, l1):
    assert derive(canonicalise(query, SCHEMA)).change_set == ChangeSet(bins=bins, step=step, total=l1)


@pytest.mark.parametrize(
    ("fields", "sum_set", "count_set"),
    [
        ({}, (1, 4, 4), (1, 3, 3)),
        ({"group_by": CITIES, "groups_per_unit": 2}, (2, 4, 8), (2, 3, 3)),
        ({"group_by": NESTED, "groups_per_unit": 4}, (4, 4, 16), (4, 3, 9)),
        ({"group_by": NESTED, "groups_per_unit": 4, "rows_per_unit": 1}, (3, 4, 12), (3, 1, 3)),
    ],
)
def test_each_component_of_a_mean_has_a_change_set_of_its_own(fields, sum_set, count_set):
    query = Query(measure=MEAN, **({"rows_per_unit": 3} | fields))
    derived = [derive(each.query).change_set for each in components(canonicalise(query, SCHEMA))]
    assert derived == [ChangeSet(*sum_set), ChangeSet(*count_set)]


def test_where_each_row_is_a_unit_one_row_changes_as_many_entries_as_ranges_cover_it():
    schema = schema_of(unit=None)
    for measure in (ROWS, UNITS):
        found = derive(canonicalise(Query(measure=measure, group_by=NESTED), schema)).change_set
        assert found == ChangeSet(bins=3, step=1, total=3)
    parts = components(canonicalise(Query(measure=MEAN, group_by=NESTED), schema))
    assert [derive(each.query).change_set for each in parts] == [ChangeSet(3, 4, 12), ChangeSet(3, 1, 3)]


def test_the_sentences_state_the_numbers():
    text = " ".join(
        derive(canonicalise(Query(measure=ROWS, group_by=NESTED, rows_per_unit=5, groups_per_unit=4), SCHEMA)).sentences
    )
    for words in ("3 of the ranges cover one value", "g = 4 of the 4 declared ranges", "k = 5", "5 · 3", "Δ₁ = 15"):
        assert words in text
    total = components(canonicalise(Query(measure=MEAN, rows_per_unit=3), SCHEMA))[0].query
    text = " ".join(derive(total).sentences)
    for words in ("k = 3 of its rows are added up", "less 1 steps", "[-3, 4] steps", "c = 4"):
        assert words in text
