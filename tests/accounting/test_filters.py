"""Filters decide in whole units: nothing is lost to rounding, and a refusal leaves the rest usable."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers.accounting.conversions import zcdp_admits
from tiers.accounting.filters import (
    ApproxFilter,
    Decision,
    PureFilter,
    ZCDPFilter,
    increment,
    nano_down,
    replay,
    replay_latched,
)
from tiers.budget import NANO, nano_up
from tiers.errors import BudgetExceededError, InvalidParameterError

Filter = PureFilter | ZCDPFilter | ApproxFilter
PROMISE = Fraction(1), Fraction(1, 10**6)
MAKERS = [lambda: PureFilter(NANO), lambda: ZCDPFilter(NANO), lambda: ApproxFilter.of(*PROMISE)]


def test_ten_purchases_of_a_tenth_leave_exactly_nothing() -> None:
    ledger = PureFilter.of(Fraction(1))
    for _ in range(10):
        ledger = ledger.charge(nano_up(Fraction("0.1")))
    assert ledger.remaining_nano == 0
    assert not ledger.admits(1)


@pytest.mark.parametrize("make", MAKERS)
def test_one_unit_more_than_remains_is_refused_and_all_that_remains_is_not(make: object) -> None:
    ledger = make().charge(7)  # type: ignore[operator]
    with pytest.raises(BudgetExceededError):
        ledger.charge(ledger.remaining_nano + 1)
    assert not ledger.admits(ledger.remaining_nano + 1)
    assert ledger.charge(ledger.remaining_nano).remaining_nano == 0


def test_half_three_tenths_and_a_fifth_make_one() -> None:
    ledger = ZCDPFilter.of(Fraction(1))
    for text in ("0.5", "0.3", "0.2"):
        ledger = ledger.charge(nano_up(Fraction(text)))
    assert ledger.remaining_nano == 0


def test_five_is_refused_and_then_a_tenth_is_granted() -> None:
    ledger = PureFilter.of(Fraction(1))
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.charge(nano_up(Fraction(5)))
    assert (refusal.value.requested_nano, refusal.value.remaining_nano) == (5 * NANO, NANO)
    assert ledger.charge(nano_up(Fraction("0.1"))).remaining_nano == 9 * NANO // 10


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, NANO // 5), max_size=6), st.sampled_from(MAKERS))
def test_order_of_purchases_does_not_change_the_total(charges: list[int], maker: object) -> None:
    ends = set()
    for order in itertools.islice(itertools.permutations(charges), 24):
        ledger: Filter = maker()  # type: ignore[operator]
        if sum(charges) <= ledger.budget_nano:
            for charge in order:
                ledger = ledger.charge(charge)
            ends.add(ledger.spent_nano)
    assert len(ends) <= 1
    assert ends <= {sum(charges)}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40_000_000), max_size=30), st.sampled_from(MAKERS))
def test_no_run_ever_spends_more_than_the_budget(charges: list[int], maker: object) -> None:
    ledger: Filter = maker()  # type: ignore[operator]
    decisions, after = replay(ledger, charges)
    granted = [charge for charge, decision in zip(charges, decisions, strict=True) if decision is Decision.CONT]
    assert after.spent_nano == sum(granted) <= after.budget_nano
    latched, end = replay_latched(ledger, charges)
    first = decisions.index(Decision.HALT) if Decision.HALT in decisions else len(charges)
    assert latched == decisions[:first] + (Decision.HALT,) * (len(charges) - first)
    assert end.spent_nano == sum(charges[:first])


def test_approx_filter_is_formula_ten_to_the_last_unit() -> None:
    for epsilon, delta, reach in itertools.product(("0.5", "1", "8"), ("1e-5", "1e-9"), (1, 10)):
        promise = Fraction(epsilon), Fraction(delta), Fraction(reach)
        ledger = ApproxFilter.of(*promise)
        assert zcdp_admits(Fraction(ledger.budget_nano, NANO), *promise)
        assert not zcdp_admits(Fraction(ledger.budget_nano + 1, NANO), *promise)
        assert ledger.charge(ledger.budget_nano).remaining_nano == 0


def test_approx_filter_cannot_be_made_with_more_than_its_promise() -> None:
    ledger = ApproxFilter.of(*PROMISE)
    with pytest.raises(InvalidParameterError, match="budget_nano: expected at most"):
        ApproxFilter(*PROMISE, Fraction(1), ledger.budget_nano + 1)
    assert ApproxFilter(*PROMISE, Fraction(1), ledger.budget_nano) == ledger


def test_a_charge_leaves_every_other_field_as_it_was() -> None:
    before = ApproxFilter.of(*PROMISE)
    after = before.charge(5)
    assert (after.epsilon, after.delta, after.reach, after.budget_nano) == (*PROMISE, 1, before.budget_nano)
    assert (before.spent_nano, after.spent_nano) == (0, 5)
    assert isinstance(after, ApproxFilter)


def test_budgets_round_down_and_charges_up() -> None:
    assert PureFilter.of(Fraction(2, 3)).budget_nano == nano_down(Fraction(2, 3)) == 666_666_666
    assert nano_up(Fraction(2, 3)) == 666_666_667
    ledger = PureFilter.of(Fraction(1, 3))
    assert not ledger.admits(nano_up(Fraction(1, 3)))


BAD_CHARGES = [math.nan, math.inf, 0.1, 1.0, -1, True, "1", None, Fraction(1)]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("bad", BAD_CHARGES)
def test_a_charge_that_is_no_integer_fails_closed(maker: object, bad: int) -> None:
    ledger: Filter = maker()  # type: ignore[operator]
    assert not ledger.admits(bad)
    with pytest.raises(InvalidParameterError, match="charge_nano: expected"):
        ledger.charge(bad)


@pytest.mark.parametrize("kind", [PureFilter, ZCDPFilter])
@pytest.mark.parametrize("bad", [0, -1, 0.5, math.nan, True, "1"])
def test_a_budget_that_is_no_positive_integer_is_refused(kind: type[PureFilter], bad: int) -> None:
    with pytest.raises(InvalidParameterError, match="budget_nano: expected"):
        kind(bad)
    with pytest.raises(InvalidParameterError, match="spent_nano: expected"):
        kind(10, bad or -1)
    with pytest.raises(InvalidParameterError, match="spent_nano: expected at most the budget 10"):
        kind(10, 11)


@pytest.mark.parametrize("bad", [0, 0.5, math.nan, math.inf, -1, True, "1", Fraction(1, 2 * NANO)])
def test_a_budget_that_is_no_rational_of_a_unit_or_more_is_refused(bad: Fraction) -> None:
    for kind in (PureFilter, ZCDPFilter):
        with pytest.raises(InvalidParameterError, match="budget: expected"):
            kind.of(bad)


def test_a_promise_worth_less_than_a_unit_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="budget: expected a promise"):
        ApproxFilter.of(Fraction(1, 10**6), Fraction(1, 10**300))
    for bad in (Fraction(0), Fraction(1), 0.5, math.nan):
        with pytest.raises(InvalidParameterError, match="delta: expected"):
            ApproxFilter.of(Fraction(1), bad)  # type: ignore[arg-type]


def test_guarantee_pure_filter() -> None:
    decisions, after = replay(PureFilter(10), [6, 5, 4, 1])
    assert [decision.value for decision in decisions] == ["CONT", "HALT", "CONT", "HALT"]
    assert after.remaining_nano == 0


def test_guarantee_zcdp_filter() -> None:
    assert replay(ZCDPFilter(10), [6, 5, 4, 1])[0] == replay(PureFilter(10), [6, 5, 4, 1])[0]


def test_an_approx_ledger_never_spends_what_formula_three_does_not_allow() -> None:
    ledger = ApproxFilter.of(*PROMISE)
    spent = replay(ledger, [7_000_000] * 4)[1].spent_nano
    assert zcdp_admits(Fraction(spent, NANO), *PROMISE)


def test_guarantee_increment() -> None:
    levels = [3, 1, 7, 7, 2, 9]
    charged = 0
    for level in levels:
        charged += increment(level, charged)
    assert charged == max(levels)
