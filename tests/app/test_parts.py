"""What is derivable from what: the parts of questions against answers computed row by row on many small tables."""

import itertools
import random

import numpy as np
import pytest

from app.catalog.classes import Offer
from app.catalog.parts import Part, parts_of
from app.queries.canonical import canonicalise
from app.queries.model import Count, GroupByKeys, In, Query, Sum
from app.queries.schema import Column, DatasetSchema
from tests.app.judging import judge
from tests.queries.oracle import answers

CITIES = ("a", "b", "c")
COLUMNS = (
    Column(name="person", type="text"),
    Column(name="city", type="text"),
    Column(name="day", type="integer"),
    Column(name="amount", type="integer"),
)
SUBSETS = [subset for size in (1, 2, 3) for subset in itertools.combinations(CITIES, size)]


def schema(unit: str | None) -> DatasetSchema:
    ordering = () if unit is None else ("day", "amount")
    return DatasetSchema(
        columns=COLUMNS, salt="0" * 64, max_rows_per_unit=5, max_groups_per_unit=3, unit=unit, ordering=ordering
    )


def questions(unit: str | None) -> list[Query]:
    """Every subset's total and every histogram, counted by rows (k = 2, 1), by units and summed under a clamp."""
    found = []
    rows = Count(of="rows")
    measures = {"rows": rows, "one row": rows, "units": Count(of="units"), "sum": None, "narrow": None}
    measures["sum"] = Sum(column="amount", lower="-2", upper="3", grain_exponent=0)
    measures["narrow"] = Sum(column="amount", lower="-2", upper="2", grain_exponent=0)
    for name, measure in measures.items():
        rows = {"rows": 2, "one row": 1}.get(name) if unit is not None else None
        if unit is None and name == "one row":
            continue
        for subset in SUBSETS:
            asked = In(column="city", values=subset)
            found.append(Query(measure=measure, where=asked, rows_per_unit=rows))
            for groups in sorted({1, 2, len(subset)}) if unit is not None else (None,):
                by = GroupByKeys(column="city", keys=subset)
                found.append(Query(measure=measure, group_by=by, rows_per_unit=rows, groups_per_unit=groups))
    return found


def tables(count: int) -> list[list[dict[str, object]]]:
    source = random.Random(5)
    found = []
    for _ in range(count):
        size = source.randrange(1, 16)
        found.append(
            [
                {
                    "person": source.choice("pqrstuvw"),
                    "city": source.choice(CITIES),
                    "day": day,
                    "amount": source.randrange(-4, 5),
                }
                for day in range(size)
            ]
        )
    return found


@pytest.mark.parametrize("unit", ["person", None])
def test_derivable_means_equal_on_every_table_and_nothing_else_does(unit: str | None) -> None:
    declared = schema(unit)
    asked = questions(unit)
    worlds = tables(220)
    known: dict[str, list[tuple[dict[str, float], np.ndarray]]] = {}
    for query in asked:
        canonical = canonicalise(query, declared)
        (part,) = parts_of(canonical)
        assert isinstance(part, Part)
        values = np.array([answers(world, query, declared) for world in worlds], dtype=float)
        assert values.shape[1] == len(part.rows)
        for place, row in enumerate(part.rows):
            known.setdefault(part.base, []).append((dict(row), values[:, place]))
    for members in known.values():
        cells = sorted({cell for row, _ in members for cell in row})
        vectors = np.array([[row.get(cell, 0.0) for cell in cells] for row, _ in members])
        columns = np.array([column for _, column in members])
        for number in range(len(members)):
            others = [place for place in range(len(members)) if place != number]
            weights, *_ = np.linalg.lstsq(vectors[others].T, vectors[number], rcond=None)
            derivable = np.allclose(weights @ vectors[others], vectors[number], atol=1e-9)
            if derivable:
                assert np.allclose(weights @ columns[others], columns[number], atol=1e-6), members[number][0]
    # No relation over the whole catalogue is missed: the answers have exactly the rank that the parts say,
    # but for cuts of groups that keep two or more, which stand in no class with anything else.
    plain = {base: members for base, members in known.items() if '"cut":' not in base}
    ranks = 0
    for members in plain.values():
        cells = sorted({cell for row, _ in members for cell in row})
        ranks += np.linalg.matrix_rank(np.array([[row.get(cell, 0.0) for cell in cells] for row, _ in members]))
    everything = [column for members in plain.values() for _, column in members]
    assert np.linalg.matrix_rank(np.array(everything)) == ranks
    assert unit is None or len(plain) < len(known)


def test_the_first_two_of_three_are_what_two_pairs_and_the_first_of_three_say() -> None:
    """An exact relation between cuts of groups: nothing here is called safe beside the others."""
    declared, worlds = schema("person"), tables(220)
    units = Count(of="units")

    def cut(keys: tuple[str, ...], kept: int) -> tuple[Offer, np.ndarray]:
        query = Query(measure=units, group_by=GroupByKeys(column="city", keys=keys), groups_per_unit=kept)
        title = f"{kept} of {''.join(keys)}"
        offer = Offer("d", "s", title, title, canonicalise(query, declared), "EUR", ((title, 1.0, 1),))
        return offer, np.array([answers(world, query, declared)[0] for world in worlds])

    (two, left), *others = cut(CITIES, 2), cut(("a", "b"), 1), cut(("a", "c"), 1), cut(CITIES, 1)
    assert np.array_equal(left, others[0][1] + others[1][1] - others[2][1])
    offers = [two, *(offer for offer, _ in others)]
    for place, offer in enumerate(offers):
        assert judge(offer, offers[:place] + offers[place + 1 :]).verdict == "uncertified"
