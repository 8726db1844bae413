"""A filter a person: the same decisions as one filter each, and nobody's depends on another's."""

from fractions import Fraction

import numpy as np
import pytest

from tiers.accounting.charges import LedgerKind
from tiers.accounting.filters import Decision, ZCDPFilter, replay
from tiers.accounting.people import PeopleLedger
from tiers.budget import NANO
from tiers.errors import InvalidParameterError


def of(units: list[int], *charges: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array(units, np.intp), np.array(charges, np.int64)


@pytest.mark.parametrize("seed", range(5))
def test_everybody_has_the_decisions_of_a_filter_of_their_own(seed: int) -> None:
    generator = np.random.default_rng(seed)
    people, rounds = 40, 60
    budgets = generator.integers(1, 2000, people)
    ledger = PeopleLedger(LedgerKind.ZCDP, budgets.astype(np.int64), np.zeros(people, np.int64))
    asked: list[list[int]] = [[] for _ in range(people)]
    said: list[list[Decision]] = [[] for _ in range(people)]
    for _ in range(rounds):
        who = np.flatnonzero(generator.random(people) < 0.5)
        charges = generator.integers(0, 200, len(who))
        ledger, admitted = ledger.charge(who, charges)
        for person, charge, fits in zip(who.tolist(), charges.tolist(), admitted.tolist(), strict=True):
            asked[person].append(charge)
            said[person].append(Decision.CONT if fits else Decision.HALT)
    for person in range(people):
        decisions, after = replay(ZCDPFilter(int(budgets[person])), asked[person])
        assert list(decisions) == said[person]
        assert after.spent_nano == ledger.spent[person]
    assert any(Decision.HALT in decisions for decisions in said)


def test_a_refusal_spends_nothing_and_does_not_latch() -> None:
    ledger = PeopleLedger.even(LedgerKind.PURE, 2, Fraction(1))
    ledger, admitted = ledger.charge(*of([0, 1], 5 * NANO, NANO))
    assert admitted.tolist() == [False, True]
    ledger, admitted = ledger.charge(*of([0, 1], NANO // 10, 1))
    assert admitted.tolist() == [True, False]
    assert ledger.remaining.tolist() == [NANO - NANO // 10, 0]


def test_a_ledger_before_is_not_touched_by_the_one_after() -> None:
    before = PeopleLedger.even(LedgerKind.ZCDP, 1, Fraction(1))
    after, _ = before.charge(*of([0], NANO))
    assert before.remaining.tolist() == [NANO]
    assert after.remaining.tolist() == [0]


def test_what_other_products_spent_is_gone() -> None:
    spent = np.array([NANO, NANO - 1, 0], np.int64)
    ledger = PeopleLedger(LedgerKind.ZCDP, np.full(3, NANO, np.int64), spent)
    assert ledger.admits(*of([0, 1, 2], 1, 1, 1)).tolist() == [False, True, True]


def test_a_promise_becomes_the_budget_of_its_filter() -> None:
    ledger = PeopleLedger.promising(1, Fraction(1), Fraction(1, 10**6), Fraction(1))
    assert ledger.budget.tolist() == [22360381]
    assert ledger.kind is LedgerKind.APPROX


@pytest.mark.parametrize(
    ("who", "charges"),
    [
        (np.array([0, 0]), np.array([1, 1])),
        (np.array([1, 0]), np.array([1, 1])),
        (np.array([-1]), np.array([1])),
        (np.array([3]), np.array([1])),
        (np.array([0]), np.array([1, 1])),
        (np.array([0]), np.array([-1])),
        (np.array([0]), np.array([0.5])),
        (np.array([0]), np.array([np.nan])),
        (np.array([0.0]), np.array([1])),
        (np.array([0]), np.array([2**62 + 1])),
    ],
)
def test_bad_requests_are_refused_and_leave_the_ledger(who: np.ndarray, charges: np.ndarray) -> None:
    ledger = PeopleLedger.even(LedgerKind.ZCDP, 3, Fraction(1))
    with pytest.raises(InvalidParameterError):
        ledger.charge(who, charges)
    assert ledger.spent.tolist() == [0, 0, 0]


@pytest.mark.parametrize("budget", [0, Fraction(1, 10**10), 0.5, float("nan"), 10**10, True])
def test_bad_budgets_are_refused(budget: object) -> None:
    with pytest.raises(InvalidParameterError, match="budget"):
        PeopleLedger.even(LedgerKind.ZCDP, 1, budget)  # type: ignore[arg-type]


def test_bad_ledgers_are_refused() -> None:
    one, none = np.ones(1, np.int64), np.zeros(0, np.int64)
    for budget, spent in [(none, none), (one, one * 2), (one, np.zeros(2, np.int64)), (one * 1.0, one), (one, -one)]:
        with pytest.raises(InvalidParameterError):
            PeopleLedger(LedgerKind.ZCDP, budget, spent)
    with pytest.raises(InvalidParameterError, match="promising"):
        PeopleLedger.even(LedgerKind.APPROX, 1, Fraction(1))
    for people in (0, True, 1.0):
        with pytest.raises(InvalidParameterError, match="people"):
            PeopleLedger.even(LedgerKind.ZCDP, people, Fraction(1))  # type: ignore[arg-type]


def test_a_promise_that_allows_no_unit_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="budget"):
        PeopleLedger.promising(1, Fraction(1, 10**6), Fraction(1, 10**9), Fraction(1))
