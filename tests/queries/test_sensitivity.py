"""The derived change sets, their sentences, and what is refused."""

import pytest

from app.errors import InvalidQueryError
from app.queries.canonical import canonicalise
from app.queries.model import Count, GroupByKeys, Query, Sum
from app.queries.sensitivity import derive
from tests.queries.support import schema_of
from tiers.sensitivity import ChangeSet

CITIES = GroupByKeys(column="city", keys=("a", "b", "c"))


def derived(query, **changes):
    return derive(canonicalise(query, schema_of(**changes)))


def total(lower, upper, exponent=0, **fields):
    return Query(measure=Sum(column="age", lower=lower, upper=upper, grain_exponent=exponent), **fields)


@pytest.mark.parametrize(
    ("query", "bins", "step", "l1"),
    [
        (Query(measure=Count(of="units")), 1, 1, 1),
        (Query(measure=Count(of="units"), group_by=CITIES, groups_per_unit=2), 2, 1, 2),
        (Query(measure=Count(of="units"), group_by=CITIES, groups_per_unit=9), 3, 1, 3),
        (Query(measure=Count(of="rows"), rows_per_unit=7), 1, 7, 7),
        (Query(measure=Count(of="rows"), rows_per_unit=10, group_by=CITIES, groups_per_unit=2), 2, 10, 10),
        (Query(measure=Count(of="rows"), rows_per_unit=2, group_by=CITIES, groups_per_unit=3), 2, 2, 2),
        (total("-3", "2"), 1, 3, 3),
        (total("0", "0.4", -2), 1, 1, 1),
        (total("-1", "2.4", -1, group_by=CITIES, groups_per_unit=2), 2, 4, 8),
        (total("0", str(2**62)), 1, 2**62, 2**62),
    ],
)
def test_the_change_set_follows_from_the_bounds(query, bins, step, l1):
    assert derived(query).change_set == ChangeSet(bins=bins, step=step, total=l1)


def test_where_each_row_is_a_unit_one_row_changes_one_entry():
    grouped = Query(measure=Count(of="rows"), group_by=CITIES)
    assert derived(grouped, unit=None).change_set == ChangeSet(bins=1, step=1, total=1)


@pytest.mark.parametrize("query", [total("0", "0"), total("-0.4", "0.3"), total("-1", "1", 1)])
def test_a_clamp_that_leaves_only_zero_is_refused(query):
    with pytest.raises(InvalidQueryError, match="sensitivity above 0"):
        derived(query)


def test_a_sensitivity_beyond_the_lattice_is_refused():
    with pytest.raises(InvalidQueryError, match="Δ₁ ≤ 2⁶²"):
        derived(total("0", str(2**62), group_by=CITIES, groups_per_unit=2))


def test_the_sentences_state_the_numbers():
    text = " ".join(derived(total("-1", "2.4", -1, group_by=CITIES, groups_per_unit=2)).sentences)
    for words in ("'person'", "g = 2 of the 3 declared keys", "2^-1 = 0.5", "[-2, 4] steps", "c = 4", "Δ₁ = 8"):
        assert words in text
