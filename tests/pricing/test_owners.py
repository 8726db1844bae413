"""Owners: every cent conserved, carried, and undone line by line."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.errors import InvalidShareError
from pricing.money import MONEY_LIMIT, largest_remainder
from pricing.owners import SUB, SaleSplit, contracted_weights, payout, quota_method, reverse, reverse_part, split_sale

WEIGHTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**6), min_size=1).filter(
    lambda w: any(w.values())
)


def test_split_reference():
    split = split_sale(10001, 1500, {"a": 10**6, "b": 10**6, "c": 5 * 10**5, "d": 25 * 10**4})
    assert (split.fee, split.pool) == (1500, 8501)
    assert largest_remainder(split.pool, [10**6, 10**6, 5 * 10**5, 25 * 10**4]) == [3091, 3091, 1546, 773]


def test_a_thousand_small_sales_carry_their_remainders():
    accrued, paid = dict.fromkeys("abcd", 0), dict.fromkeys("abcd", 0)
    for _ in range(1000):
        for owner, units in split_sale(5, 0, {"a": 50, "b": 30, "c": 12, "d": 8}).accruals:
            accrued[owner] += units
        for owner, due in payout(accrued, paid).due.items():
            paid[owner] += due
    assert paid == {"a": 2500, "b": 1500, "c": 600, "d": 400}
    assert payout(accrued, paid).suspense == dict.fromkeys("abcd", 0)


@given(st.integers(0, MONEY_LIMIT), st.integers(0, 10_000), WEIGHTS)
def test_guarantee_split_sale(net, fee_bps, weights):
    """Every unit is conserved, and every share is within one unit of the exact one."""
    split = split_sale(net, fee_bps, weights)
    assert split.fee + split.pool == net
    assert split.fee == net * fee_bps // 10_000
    assert sum(units for _, units in split.accruals) == split.pool * SUB
    for owner, units in split.accruals:
        assert abs(units - Fraction(split.pool * SUB * weights[owner], sum(weights.values()))) < 1
        assert weights[owner] or not units


@given(st.integers(0, 10**6), WEIGHTS)
def test_the_order_of_owners_does_not_matter(net, weights):
    backwards = dict(reversed(list(weights.items())))
    assert split_sale(net, 100, weights) == split_sale(net, 100, backwards)


@given(st.integers(0, MONEY_LIMIT), st.integers(0, 10_000), WEIGHTS)
def test_a_split_and_its_reversal_are_nothing(net, fee_bps, weights):
    split = split_sale(net, fee_bps, weights)
    undone = reverse(split)
    assert (split.net + undone.net, split.fee + undone.fee, split.pool + undone.pool) == (0, 0, 0)
    assert all(a + b == 0 for (_, a), (_, b) in zip(split.accruals, undone.accruals, strict=True))


@given(st.integers(1, 10**6), st.integers(0, 10_000), WEIGHTS, st.lists(st.integers(0, 10**6), max_size=3))
def test_partial_credits_add_up_to_the_full_reversal(net, fee_bps, weights, cuts):
    split = split_sale(net, fee_bps, weights)
    levels = sorted({0, net, *(cut % net for cut in cuts)})
    total = dict.fromkeys(weights, 0)
    for before, after in pairwise(levels):
        part = reverse_part(split, after - before, before)
        assert part.net == before - after
        assert -split.fee - 1 < part.fee <= 0
        for owner, units in part.accruals:
            total[owner] += units
        exact = {owner: Fraction(units * (after - before), net) for owner, units in split.accruals}
        assert all(abs(units + exact[owner]) <= 2 * SUB for owner, units in part.accruals)
    assert total == {owner: -units for owner, units in split.accruals}


def test_re_running_the_split_on_a_smaller_total_would_have_raised_a_share():
    assert (largest_remainder(4, [6, 6, 2]), largest_remainder(3, [6, 6, 2])) == ([2, 2, 0], [1, 1, 1])
    part = reverse_part(split_sale(4, 0, {"a": 6, "b": 6, "c": 2}), 1)
    assert all(units <= 0 for _, units in part.accruals)


@given(st.lists(st.tuples(st.integers(0, 50), WEIGHTS), min_size=1, max_size=20))
def test_guarantee_payout(sales):
    """No payout is negative, and paid plus suspense is what was accrued."""
    accrued: dict[str, int] = {}
    paid: dict[str, int] = {}
    exact: dict[str, Fraction] = {}
    pool = 0
    for net, weights in sales:
        split = split_sale(net, 1500, weights)
        pool += split.pool
        for owner, units in split.accruals:
            accrued[owner] = accrued.get(owner, 0) + units
            exact[owner] = exact.get(owner, Fraction(0)) + Fraction(split.pool * weights[owner], sum(weights.values()))
        due = payout(accrued, paid).due
        assert min(due.values()) >= 0
        for owner, amount in due.items():
            paid[owner] = paid.get(owner, 0) + amount
    left = payout(accrued, paid).suspense
    assert sum(paid.values()) * SUB + sum(left.values()) == pool * SUB
    assert all(0 <= units < SUB for units in left.values())
    assert all(abs(paid[owner] - exact[owner]) < 1 + Fraction(len(sales), SUB) for owner in paid)


def test_an_owner_overpaid_before_a_reversal_waits():
    result = payout({"a": 300_000, "b": 5 * SUB}, {"a": 4, "b": 1})
    assert (result.due, result.suspense) == ({"a": 0, "b": 4}, {"a": 300_000 - 4 * SUB, "b": 0})


@pytest.mark.parametrize(("total", "shares"), [(10, [5, 4, 1]), (11, [5, 5, 1]), (0, [0, 0, 0])])
def test_quota_method_reference(total, shares):
    assert quota_method(total, [6, 6, 2]) == shares


def test_the_quota_method_favours_large_weights_within_their_quota():
    """Its next unit goes to the largest weight/(share + 1) among those below their upper quota: 7/3 beats 2/1 here."""
    assert quota_method(3, [7, 2, 1]) == [3, 0, 0]
    assert quota_method(4, [7, 2, 1]) == [3, 1, 0]


@given(st.integers(0, 60), st.lists(st.integers(0, 50), min_size=1, max_size=5).filter(any))
def test_the_quota_method_stays_in_quota_and_never_takes_back(total, weights):
    shares, more = quota_method(total, weights), quota_method(total + 1, weights)
    assert sum(shares) == total
    assert all(before <= after for before, after in zip(shares, more, strict=True))
    assert all(
        abs(share - Fraction(total * weight, sum(weights))) < 1 for share, weight in zip(shares, weights, strict=True)
    )


def test_weights_are_contract_times_loss():
    assert contracted_weights({"a": 3, "b": 2, "c": 5}, {"a": 10, "b": 0}) == {"a": 30, "b": 0, "c": 0}
    with pytest.raises(InvalidShareError, match="contract of 'd'"):
        contracted_weights({"a": 3}, {"d": 1})


BAD_SPLITS = [
    (-1, 0, {"a": 1}),
    (1.0, 0, {"a": 1}),
    (True, 0, {"a": 1}),
    (MONEY_LIMIT + 1, 0, {"a": 1}),
    (1, -1, {"a": 1}),
    (1, 10_001, {"a": 1}),
    (1, 0.5, {"a": 1}),
    (1, 0, {}),
    (1, 0, {"a": 0}),
    (1, 0, {"a": -1, "b": 2}),
    (1, 0, {"a": 0.5}),
]


@pytest.mark.parametrize(("net", "fee_bps", "weights"), BAD_SPLITS, ids=range(len(BAD_SPLITS)))
def test_a_bad_split_is_refused(net, fee_bps, weights):
    with pytest.raises(InvalidShareError):
        split_sale(net, fee_bps, weights)


@pytest.mark.parametrize(
    ("fields"), [(10, 1, 8, ()), (10, 1, 9, (("a", 8 * SUB),)), (2, 0, 2, (("a", SUB), ("a", SUB)))]
)
def test_a_posting_that_does_not_add_up_cannot_exist(fields):
    with pytest.raises(InvalidShareError):
        SaleSplit(*fields)


def test_bad_payouts_credits_and_totals_are_refused():
    for accrued, paid in (({"a": 0.5}, {}), ({}, {"a": 1}), ({"a": 1}, {"a": -1}), ({"a": True}, {})):
        with pytest.raises(InvalidShareError):
            payout(accrued, paid)
    split = split_sale(10, 0, {"a": 1})
    for credited, already in ((11, 0), (6, 5), (-1, 0), (1, -1), (0.5, 0)):
        with pytest.raises(InvalidShareError):
            reverse_part(split, credited, already)
    assert reverse_part(split_sale(0, 0, {"a": 1}), 0).net == 0
    for total, weights in ((-1, [1]), (10**6 + 1, [1]), (1, [0]), (1, []), (1, [-1])):
        with pytest.raises(InvalidShareError):
            quota_method(total, weights)


@pytest.mark.parametrize(
    ("total", "weights", "shares"),
    [(3, [1, 1, 4], [1, 0, 2]), (6, [1, 2, 6], [1, 1, 4]), (6, [1, 1, 2, 20], [0, 0, 1, 5])],
)
def test_nobody_passes_a_share_that_is_exact_already(total, weights, shares):
    assert quota_method(total, weights) == shares
