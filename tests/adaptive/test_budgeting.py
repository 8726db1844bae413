"""Budgets over queries and rounds: exact, never more than is there, and everything carried over."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers.adaptive.budgeting import (
    Reallocation,
    allocation,
    allocations_nano,
    doubling_split,
    even_split,
    share_of_savings,
)
from tiers.errors import InvalidParameterError

SHARES = st.fractions(0, 1, max_denominator=9)


@given(st.sampled_from(list(Reallocation)), st.lists(SHARES, min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_an_allocation_is_between_the_even_share_and_what_is_left(rule: Reallocation, used: list[Fraction]) -> None:
    budget, queries = Fraction(7, 3), len(used)
    remaining = budget
    for query, share in enumerate(used, start=1):
        given_now = allocation(rule, query, queries, budget, remaining)
        assert budget / queries <= given_now <= remaining
        remaining -= share * given_now
    assert remaining >= 0


@given(
    st.sampled_from(list(Reallocation)),
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(1, 10**9), SHARES), min_size=1, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_whole_units_are_the_exact_allocation_rounded_down(
    rule: Reallocation, queries: int, people: list[tuple[int, Fraction]]
) -> None:
    budget = np.array([units for units, _ in people], np.int64)
    remaining = budget.copy()
    for query in range(1, queries + 1):
        got = allocations_nano(rule, query, queries, budget, remaining)
        for person, units in enumerate(budget.tolist()):
            exactly = allocation(rule, query, queries, Fraction(units), Fraction(int(remaining[person])))
            assert got[person] == exactly.numerator // exactly.denominator
        remaining = remaining - np.array([int(units * share) for units, (_, share) in zip(got, people, strict=True)])


def test_whoever_has_less_left_than_an_even_share_gets_what_is_left() -> None:
    budget, left = np.full(3, 900, np.int64), np.array([0, 100, 900], np.int64)
    assert allocations_nano(Reallocation.EVEN, 1, 3, budget, left).tolist() == [0, 100, 300]


def test_even_reallocation_spends_all_in_the_end_and_the_fixed_rule_keeps_a_quarter_of_the_last_savings() -> None:
    kept = {}
    for rule in Reallocation:
        remaining = Fraction(1)
        for query, share in enumerate([Fraction(0), Fraction(1, 2), Fraction(1)], start=1):
            remaining -= share * allocation(rule, query, 3, Fraction(1), remaining)
        kept[rule] = remaining
    assert kept[Reallocation.EVEN] == kept[Reallocation.LINEAR] == 0 < kept[Reallocation.FIXED]


def test_shares_rise_linearly_from_three_quarters_to_one() -> None:
    shares = [share_of_savings(Reallocation.LINEAR, query, 6) for query in range(2, 7)]
    assert shares[0] == Fraction(3, 4)
    assert shares[-1] == 1
    assert len({later - earlier for earlier, later in itertools.pairwise(shares)}) == 1
    assert share_of_savings(Reallocation.LINEAR, 2, 2) == 1


@pytest.mark.parametrize("rounds", [1, 2, 10, 64])
def test_splits_are_wholes(rounds: int) -> None:
    assert sum(even_split(rounds)) == sum(doubling_split(rounds)) == 1
    assert all(later == 2 * earlier for earlier, later in itertools.pairwise(doubling_split(rounds)))


@pytest.mark.parametrize("rounds", [0, -1, 65, True, 2.0])
def test_bad_rounds_are_refused(rounds: object) -> None:
    for split in (even_split, doubling_split):
        with pytest.raises(InvalidParameterError, match="rounds"):
            split(rounds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "queries", "budget", "remaining"),
    [(0, 3, 1, 1), (4, 3, 1, 1), (1, 0, 1, 1), (1, 3, 0, 1), (1, 3, 0.5, 1), (2, 3, 1, Fraction(1, 2)), (1, 3, 1, 0.5)],
)
def test_bad_allocations_are_refused(query: int, queries: int, budget: object, remaining: object) -> None:
    with pytest.raises(InvalidParameterError):
        allocation(Reallocation.EVEN, query, queries, budget, remaining)  # type: ignore[arg-type]
