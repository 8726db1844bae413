"""Reserves: one integer curve, whatever the cuts; caps: within budget, in integers."""

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricing.book import PriceBook, TierPrice
from pricing.errors import InvalidDemandError, InvalidPriceError, TimeLimitError
from pricing.limit import Limit
from pricing.money import MONEY_LIMIT
from pricing.quote import Holding, quote
from pricing.scarcity import ReserveCurve, compensation, history_values, plan_caps
from tiers.budget import NANO
from tiers.errors import BudgetExceededError

CURVE = ReserveCurve(100, 2000, 10 * NANO)


def nano(epsilon):
    return round(epsilon * NANO)


def test_cumulative_reserve_reference():
    assert [CURVE.cumulative(nano(u)) for u in (0, 0.5, 1, 2, 2.5, 5, 7.5, 9, 10)] == [
        0,
        21,
        46,
        113,
        158,
        587,
        1752,
        3265,
        4914,
    ]
    assert [CURVE.between(nano(a), nano(b)) for a, b in ((0, 0.5), (0.5, 1), (0, 1))] == [21, 25, 46]


def test_threshold_reference():
    assert [round(CURVE.threshold(z), 4) for z in (0, 0.5, 1)] == [36.7879, 271.2488, 2000]
    assert CURVE.threshold(0.250267) == pytest.approx(100, abs=1e-4)
    assert CURVE.threshold(1 / (1 + math.log(20))) == pytest.approx(100)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 10**13), st.data())
def test_the_curve_is_the_ceiling_of_its_formula_and_rises(low, extra, total, data):
    curve = ReserveCurve(low, low + extra, total)
    a, b = sorted(data.draw(st.lists(st.integers(0, total), min_size=2, max_size=2)))
    k = math.log((low + extra) / low) + 1
    exact = total / NANO * low / math.e * math.expm1(k * b / total) / k
    assert exact - 1e-6 * (1 + exact) <= curve.cumulative(b) <= exact * (1 + 1e-6) + 1
    assert curve.cumulative(a) <= curve.cumulative(b)


@given(st.lists(st.integers(0, 10 * NANO), min_size=3, max_size=3))
def test_a_stretch_of_budget_costs_the_same_however_it_is_cut(levels):
    a, b, c = sorted(levels)
    assert CURVE.between(a, c) == CURVE.between(a, b) + CURVE.between(b, c)


def test_the_last_unit_of_budget_is_exact():
    tight = ReserveCurve(1, 1, 1)
    assert (tight.cumulative(0), tight.cumulative(1)) == (0, 1)
    assert ReserveCurve(1, MONEY_LIMIT, NANO).cumulative(1) == 1


PRICES = st.lists(st.integers(0, 3000), min_size=3, max_size=3).map(lambda prices: sorted(prices, reverse=True))
LEVELS = (nano(2), nano(1), nano(0.5))


@given(PRICES, st.integers(0, nano(8)), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_with_the_reserve_quotes_rise_with_accuracy_and_splitting_never_pays(prices, used, path):
    book = PriceBook("c", 1, "EUR", tuple(TierPrice(str(rank), price) for rank, price in enumerate(prices, start=1)))

    def buy(ranks):
        held, charged, budget = Holding(), 0, used
        for rank in ranks:
            delta = max(0, LEVELS[rank - 1] - charged)
            offer = quote(book, str(rank), held, reserve=CURVE.between(budget, budget + delta))
            held = Holding(min(rank, held.rank or 9), held.net_paid + offer.amount)
            charged, budget = charged + delta, budget + delta
        return held.net_paid

    direct = [buy([rank]) for rank in (1, 2, 3)]
    assert direct == sorted(direct, reverse=True)
    assert buy(path) >= direct[min(path) - 1]


@pytest.mark.parametrize(
    ("low", "high", "total"),
    [
        (0, 1, 1),
        (2, 1, 1),
        (1, MONEY_LIMIT + 1, 1),
        (1, 2, 0),
        (1, 2, 10**15 + 1),
        (1.0, 2, 1),
        (True, 2, 1),
        (1, 2, 1.5),
    ],
)
def test_a_malformed_curve_is_refused(low, high, total):
    with pytest.raises(InvalidPriceError):
        ReserveCurve(low, high, total)


def test_budget_beyond_the_total_is_refused_and_so_are_bad_levels():
    with pytest.raises(BudgetExceededError):
        CURVE.cumulative(10 * NANO + 1)
    for bad in (-1, 0.5, True):
        with pytest.raises(InvalidPriceError):
            CURVE.cumulative(bad)
    with pytest.raises(InvalidPriceError, match="at least the 2 used before"):
        CURVE.between(2, 1)
    with pytest.raises(InvalidPriceError, match="reserve"):
        ReserveCurve(MONEY_LIMIT, MONEY_LIMIT, 10**15).cumulative(10**15)


@given(st.integers(1, 10**6), st.integers(0, 9_999), st.integers(0, 50), st.integers(0, 10 * NANO))
def test_a_reserve_lifted_to_the_compensation_pays_owners_for_all_budget_used_and_the_fee_on_it(rate, fee, wider, used):
    low = compensation(rate, fee)
    brought = ReserveCurve(low, low + wider, 10 * NANO).cumulative(used)
    assert brought * (10_000 - fee) * NANO >= rate * used * 10_000


def test_compensation_is_the_least_low_that_does():
    assert (compensation(250, 1500), compensation(0, 0), compensation(1, 0)) == (800, 0, 3)
    assert compensation(10**12, 0) == math.ceil(Fraction(2_718_281_828_459_045_236, 10**18) * 10**12)
    bare = ReserveCurve(799, 799, 10**15)  # at the very start the margin is low/e: 799/e·0.85 < 250 ≤ 800/e·0.85
    assert bare.cumulative(NANO) * 0.85 < 250 <= ReserveCurve(800, 800, 10**15).cumulative(NANO) * 0.85


@pytest.mark.parametrize(("rate", "fee"), [(-1, 0), (1, 10_000), (1, -1), (0.5, 0), (MONEY_LIMIT, 0)])
def test_bad_compensation_is_refused(rate, fee):
    with pytest.raises(InvalidPriceError):
        compensation(rate, fee)


def best_caps(values, costs, total):
    """Try every assignment of caps."""
    choices = [range(-1, len(row)) for row in values]
    worth = [
        sum(values[q][rank] for q, rank in enumerate(pick) if rank >= 0)
        for pick in product(*choices)
        if sum(costs[q][rank] for q, rank in enumerate(pick) if rank >= 0) <= total
    ]
    return max(worth)


@st.composite
def plans(draw):
    tiers = draw(st.integers(1, 3))
    rows = draw(st.integers(1, 3))
    falling = st.lists(st.integers(1, 9), min_size=tiers, max_size=tiers).map(lambda row: sorted(row, reverse=True))
    return (
        [draw(falling) for _ in range(rows)],
        [[NANO * cost for cost in draw(falling)] for _ in range(rows)],
        NANO * draw(st.integers(0, 20)),
    )


@settings(max_examples=60, deadline=None)
@given(plans())
def test_guarantee_plan_caps(plan):
    """Caps fit the budget in integers, and lie between what one query is worth below the bound and the bound."""
    values, costs, total = plan
    found = plan_caps(values, costs, total)
    spent = sum(costs[q][cap - 1] for q, cap in enumerate(found.caps) if cap)
    assert (spent, found.used_nano) == (found.used_nano, spent)
    assert spent <= total
    assert found.value == sum(values[q][cap - 1] for q, cap in enumerate(found.caps) if cap)
    best = best_caps(values, costs, total)
    assert found.value <= best <= found.upper_bound + 1e-6
    assert found.value >= found.upper_bound - max(map(max, values)) - 1e-6
    assert found.shadow_price >= -1e-9


def test_history_values_count_every_tier_at_or_below_the_cap():
    bought = [[{1}] * 2 + [{2}] * 3 + [{3}] * 10, [{1}]]
    assert history_values(bought, [[900, 500, 50], [7]]) == [[3800, 2000, 500], [7]]


def test_a_buyer_who_upgraded_paid_in_all_for_the_best_tier():
    """Three steps up to 900 bring 900, not 1450; with the top out of reach 500, with the middle too 50."""
    assert history_values([[{3, 2, 1}], [{1, 3}], []], [[900, 500, 50]] * 3) == [
        [900, 500, 50],
        [900, 50, 50],
        [0, 0, 0],
    ]


@given(
    st.lists(st.sets(st.integers(1, 4)), max_size=5),
    st.lists(st.integers(0, 99), min_size=4, max_size=4).map(lambda row: sorted(row, reverse=True)),
)
def test_history_values_are_what_quotes_would_bring(buyers, prices):
    """Every buyer buys up one by one, as far as the cap lets them: the quotes add up to the value."""
    book = PriceBook("c", 1, "EUR", tuple(TierPrice(str(rank), price) for rank, price in enumerate(prices, start=1)))
    (values,) = history_values([buyers], [prices])
    for cap in range(1, 5):
        income = 0
        for ranks in buyers:
            held = Holding()
            for rank in sorted((rank for rank in ranks if rank >= cap), reverse=True):
                offered = quote(book, str(rank), held)
                held = Holding(rank, held.net_paid + offered.amount)
            income += held.net_paid
        assert values[cap - 1] == income


@pytest.mark.parametrize(
    ("values", "costs"),
    [
        ([], []),
        ([[]], [[]]),
        ([[1]], [[1, 2]]),
        ([[1, 1]], [[1, 2]]),
        ([[-1]], [[1]]),
        ([[0.5]], [[1]]),
        ([[True]], [[1]]),
        ([[1]], [[10**30]]),
    ],
)
def test_a_plan_without_demand_or_with_bad_rows_is_refused(values, costs):
    with pytest.raises(InvalidDemandError):
        plan_caps(values, costs, NANO)


@pytest.mark.parametrize(
    ("bought", "prices", "name"),
    [
        ([[{1}]], [[1], [2]], "buyers"),
        ([[{3}]], [[2, 1]], "rank"),
        ([[{0}]], [[2, 1]], "rank"),
        ([[{True}]], [[2, 1]], "rank"),
        ([[{1.0}]], [[2, 1]], "rank"),
        ([[{1}]], [[-1]], "prices"),
        ([], [], "prices"),
    ],
)
def test_history_of_other_shape_is_refused(bought, prices, name):
    with pytest.raises(InvalidDemandError, match=name):
        history_values(bought, prices)


def test_a_plan_out_of_time_says_so():
    with pytest.raises(TimeLimitError):
        plan_caps([[10 - i, 5] for i in range(9)], [[2, 1]] * 9, 7, Limit(seconds_left=lambda: 0.0))
    with pytest.raises(TimeLimitError):
        plan_caps([[10, 5]], [[2, 1]], 7, Limit(seconds_left=lambda: float("nan")))


def test_a_cap_that_costs_all_that_is_left_is_taken_and_of_equal_ones_the_cheaper():
    assert plan_caps([[1000, 400]], [[2 * NANO, NANO]], NANO).caps == (2,)
    assert plan_caps([[900, 500], [300, 200]], [[NANO, NANO // 2]] * 2, NANO + NANO // 2).caps == (1, 2)
    generous = plan_caps([[500, 500, 500]], [[3 * NANO, 2 * NANO, NANO]], 10 * NANO)
    assert (generous.caps, generous.used_nano) == ((3,), NANO)
