"""No combination goes unseen: every exact linear relation between answers over two columns is compared or named.

Answers add up over units, so a relation holds on all tables iff it holds on tables of one unit. All of those are tried,
up to two rows a unit, in exact rationals.
"""

import itertools
from functools import cache

import pytest
from flint import fmpq_mat

from app.catalog.classes import Offer
from app.catalog.parts import parts_of
from app.catalog.verdicts import _unseen
from app.queries.canonical import canonicalise
from app.queries.model import And, Count, GroupByKeys, In, IsNull, Not, Query, Sum
from app.queries.schema import Column, DatasetSchema
from tests.queries.oracle import answers

COLUMNS = (
    Column(name="person", type="text"),
    Column(name="city", type="text"),
    Column(name="kind", type="text"),
    Column(name="day", type="integer"),
    Column(name="amount", type="integer"),
)
ROWS = list(itertools.product(("a", "b", "other"), ("x", "y", "other"), (-2, 1, 4, 7, 12, None)))
AB, A, B = ("a", "b"), ("a",), ("b",)
X, Y, XY = ("x",), ("y",), ("x", "y")


def schema(unit: str | None) -> DatasetSchema:
    ordering = () if unit is None else ("day",)
    return DatasetSchema(
        columns=COLUMNS, salt="0" * 64, max_rows_per_unit=5, max_groups_per_unit=3, unit=unit, ordering=ordering
    )


def where(city: tuple[str, ...] | None, kind: tuple[str, ...] | None) -> And | In | None:
    found = [In(column=name, values=values) for name, values in (("city", city), ("kind", kind)) if values]
    return found[0] if len(found) == 1 else And(operands=tuple(found)) if found else None


def clamped(lower: int, upper: int) -> Sum:
    return Sum(column="amount", lower=str(lower), upper=str(upper), grain_exponent=0)


def questions(unit: str | None) -> list[Query]:
    rows, bound = Count(of="rows"), None if unit is None else 1
    kept = None if unit is None else 2
    found = [
        Query(measure=rows, where=where(city, kind), rows_per_unit=bound)
        for city, kind in itertools.product((AB, A, B, None), (XY, X, Y, None))
    ]
    found += [
        Query(
            measure=rows,
            where=where(None, kind),
            rows_per_unit=bound,
            group_by=GroupByKeys(column="city", keys=AB),
            groups_per_unit=kept,
        )
        for kind in (X, XY, None)
    ]
    by_amount = GroupByKeys(column="amount", keys=(1, 4, 7))
    found += [Query(measure=rows, rows_per_unit=bound, group_by=by_amount, groups_per_unit=kept)]
    found += [
        Query(measure=clamped(*ends), where=where(city, kind))
        for ends in ((0, 5), (5, 10), (0, 10))
        for city, kind in ((AB, None), (A, X), (AB, X), (None, None))
    ]
    stated = Not(operand=IsNull(column="amount"))
    found += [
        Query(measure=rows, where=stated, rows_per_unit=bound),
        Query(measure=clamped(0, 5), where=where(B, X)),
        Query(measure=clamped(0, 5), where=In(column="amount", values=(1, 4))),
    ]
    return found


def worlds(unit: str | None) -> list[list[dict[str, object]]]:
    """Every table of one unit with one row, and where units may have several, with two."""
    sizes = (1,) if unit is None else (1, 2)
    return [
        [
            {"person": "p", "city": city, "kind": kind, "amount": amount, "day": day}
            for day, (city, kind, amount) in enumerate(rows)
        ]
        for size in sizes
        for rows in itertools.product(ROWS, repeat=size)
    ]


def rank(vectors: list[tuple[int, ...]]) -> int:
    return int(fmpq_mat(len(vectors), len(vectors[0]), [entry for vector in vectors for entry in vector]).rank())


@pytest.mark.parametrize(("unit", "least"), [(None, (50, 10)), ("person", (7, 4))])
def test_every_exact_relation_is_compared_or_named(unit: str | None, least: tuple[int, int]) -> None:
    declared, asked = schema(unit), questions(unit)
    offers = []
    measured: list[list[tuple[int, ...]]] = []
    for number, query in enumerate(asked):
        canonical = canonicalise(query, declared)
        offers.append(Offer("d", "s", str(number), str(number), canonical, "EUR", (("t", 1.0, 1),)))
        columns = [answers(world, query, declared) for world in worlds(unit)]
        measured.append([tuple(int(column[place]) for column in columns) for place in range(len(columns[0]))])
    basis = _compressed(measured)

    @cache
    def rank_of(members: frozenset[int]) -> int:
        return rank([row for member in sorted(members) for row in basis[member]])

    relations = unexplained = 0
    for size in (1, 2, 3):
        for chosen in itertools.combinations(range(len(asked)), size):
            held = frozenset(chosen)
            for target in set(range(len(asked))) - held:
                if rank_of(held) < rank_of(held | {target}):
                    continue
                if any(rank_of(held - {one}) == rank_of(held - {one} | {target}) for one in held if size > 1):
                    continue  # fewer do
                relations += 1
                if not _compared(offers[target], [offers[one] for one in chosen]):
                    unexplained += 1
                    named = _unseen(offers[target], [offers[target], *(offers[one] for one in chosen)])
                    assert named, (asked[target], [asked[one] for one in chosen])
    assert relations >= least[0]
    assert unexplained >= least[1], "some relations cross classes: what is tested here"


def _compressed(measured: list[list[tuple[int, ...]]]) -> list[list[tuple[int, ...]]]:
    """The same relations on as many tables as there are independent ones."""
    rows = [row for part in measured for row in part]
    kept = list(dict.fromkeys(zip(*rows, strict=True)))
    chosen: list[tuple[int, ...]] = []
    for column in kept:
        if rank([*chosen, column]) > len(chosen):
            chosen.append(column)
        if len(chosen) == len(rows):
            break
    short = iter(zip(*chosen, strict=True))
    return [[next(short) for _ in part] for part in measured]


def _compared(target: Offer, others: list[Offer]) -> bool:
    """Whether one class alone shows that the others yield the target."""
    for part in parts_of(target.query):
        known = [
            row for other in others for each in parts_of(other.query) if each.base == part.base for row in each.rows
        ]
        cells = sorted({cell for row in [*known, *part.rows] for cell in row})
        vectors = [tuple(int(row.get(cell, 0)) for cell in cells) for row in [*known, *part.rows]]
        if known and rank(vectors) == rank(vectors[: len(known)]):
            return True
    return False
