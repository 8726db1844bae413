"""The words in which tests of the query model ask: a few questions' parts over `tests.queries.support`'s columns."""

import msgspec

from app.queries.model import Count, GroupByBins, GroupByKeys, GroupByRanges, Mean, Query, Range
from tests.queries.support import schema_of

SCHEMA = schema_of()
ROWS, UNITS = Count(of="rows"), Count(of="units")
CITIES = GroupByKeys(column="city", keys=("a", "b", "c"))
MEAN = Mean(column="age", centre="1", lower="-3", upper="4.9", grain_exponent=0, sum_share="0.5")


def ranged(*ranges, column="age", **fields):
    grouped = GroupByRanges(column=column, ranges=tuple(Range(**each) for each in ranges))
    return Query(measure=UNITS, group_by=grouped, groups_per_unit=2, **fields)


def binned(column, *edges, **fields):
    return Query(measure=UNITS, group_by=GroupByBins(column=column, edges=edges, **fields), groups_per_unit=2)


def altered(struct, **changes):
    return msgspec.structs.replace(struct, **changes)
