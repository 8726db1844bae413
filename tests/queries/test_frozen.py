"""Fingerprints of questions that are sold already: a change here would give a sold question a second answer."""

import pytest

from app.queries.canonical import canonicalise, fingerprint
from app.queries.component import components
from app.queries.model import (
    And,
    Between,
    Comparison,
    Count,
    GroupByBins,
    GroupByKeys,
    GroupByRanges,
    In,
    IsNull,
    Mean,
    Not,
    Or,
    Query,
    Range,
    Sum,
)
from tests.queries.support import schema_of

CITIES = GroupByKeys(column="city", keys=("c", "a", "b"))
AGES = GroupByKeys(column="age", keys=(5, "-1.0", 2))
WHERE = Or(
    operands=(
        And(operands=(Between(column="day", lower="2013-01-01", upper="2013-12-31"), Not(operand=IsNull(column="at")))),
        In(column="city", values=("b", "a")),
        Comparison(column="score", operator="<", value="0.10"),
    )
)
SCORES = Sum(column="score", lower="-1.5", upper="2", grain_exponent=-3)
QUESTIONS = {
    "units": (Query(measure=Count(of="units")), {}),
    "units where": (Query(measure=Count(of="units"), where=WHERE), {}),
    "rows": (Query(measure=Count(of="rows"), rows_per_unit=7), {}),
    "rows, each a unit": (Query(measure=Count(of="rows"), where=WHERE, group_by=CITIES), {"unit": None}),
    "units by city, cut": (Query(measure=Count(of="units"), group_by=CITIES, groups_per_unit=2), {}),
    "units by city, uncut": (Query(measure=Count(of="units"), group_by=CITIES, groups_per_unit=3), {}),
    "rows by age, cut": (Query(measure=Count(of="rows"), group_by=AGES, groups_per_unit=2, rows_per_unit=4), {}),
    "rows by age, no ordering": (
        Query(measure=Count(of="rows"), group_by=AGES, groups_per_unit=3, rows_per_unit=4),
        {"ordering": ()},
    ),
    "sum": (Query(measure=SCORES), {}),
    "sum by city, cut": (Query(measure=SCORES, where=WHERE, group_by=CITIES, groups_per_unit=1), {}),
    "sum, each row a unit": (Query(measure=SCORES, group_by=AGES), {"unit": None}),
}
FROZEN = {
    "units": "a52b6d07a8c42180ff71b4620daa6982d83a65dfb260a08bb07f12a7a89f30f8",
    "units where": "6e257f983db927f895c75235d07d66ca0d22d59fdec6c3a7a77b6af6e4262f64",
    "rows": "9335a2a1f4978022477891c232806dfe2c4ef136d923cece44e9f98f085b39d8",
    "rows, each a unit": "08fd8eb0e42b21be3d63e2037e60b4126830b06cf0a9b8e5d8d770fcae740437",
    "units by city, cut": "a7d98746ecf54d75366b49f5b3b2fc1535e107e61f1df4e63940bbff10181001",
    "units by city, uncut": "35256313716196cbe05dfd8a3a631fd232571cb54f354192cece22a5d09283d3",
    "rows by age, cut": "4dd9984f876a44c249fcd98fd127c44bcee8810e0c28e4c13078b5ecdcbfdccf",
    "rows by age, no ordering": "f4c453b7266f6afdb31f2a0597c71d2b6349cae5c91cced757b9abac39a95458",
    "sum": "694b4d2610107aec7e49bf9729ab8076a6e04534a6feca29df2d01d1b8687eb5",
    "sum by city, cut": "b707991dcc762323cbfb650e339acae2fb1b2372f04076966efabf828b7d84dc",
    "sum, each row a unit": "6956a4fd62cf1cf8fa89aeeb57c4d71416febb191b53a8dae8da1ee4f83b283f",
}


NEWER = {
    "ranges": Query(
        measure=Count(of="rows"),
        group_by=GroupByRanges(
            column="score", ranges=(Range(lower="0.5", upper=2, end="closed"), Range(lower=1), Range(upper="-0.1"))
        ),
        rows_per_unit=3,
        groups_per_unit=2,
        ordering=("day",),
    ),
    "bins": Query(
        measure=Count(of="units"),
        group_by=GroupByBins(column="at", edges=("2013-01-01T00:00:00Z", "2014-01-01T00:00:00Z"), below="kept"),
        groups_per_unit=1,
    ),
    "mean": Query(
        measure=Mean(column="age", centre="4", lower="-8", upper="8", grain_exponent=1, sum_share="0.8"),
        group_by=CITIES,
        rows_per_unit=3,
        groups_per_unit=2,
    ),
}
NEWER_FROZEN = {
    "ranges": ["4c9916c4376ae4c23d96a8221385af16f3fa7b001707f9a91f6adc727471467a"],
    "bins": ["b4d54ff68c60998163a01c4635b0e787c7b51176b42fd3e9fa6230739b027eb9"],
    "mean": [
        "9b5d470d9e0627126b5cf2850daec5e0ba98eae63ebf21d7c015f0b72e8dd987",
        "a823069babec4c6a8121379e26fb6d7135a9ee83f31fb81fdd8c9fc75704786a",
    ],
}


def mark(name):
    query, changes = QUESTIONS[name]
    return fingerprint(canonicalise(query, schema_of(**changes)).fingerprint_document())


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_a_question_keeps_the_fingerprint_under_which_it_was_sold(name):
    assert mark(name) == FROZEN[name]


def newer_marks(name):
    parts = components(canonicalise(NEWER[name], schema_of()))
    return [fingerprint(each.query.fingerprint_document()) for each in parts]


@pytest.mark.parametrize("name", list(NEWER))
def test_ranges_bins_and_means_are_frozen_too(name):
    assert newer_marks(name) == NEWER_FROZEN[name]
