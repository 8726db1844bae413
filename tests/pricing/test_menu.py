"""Menus: the dynamic programme against every menu, and against buyers who choose."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from pricing import envy as envy_module
from pricing import independent as independent_module
from pricing.envy import menu_envy_free
from pricing.errors import InvalidDemandError, TimeLimitError
from pricing.independent import cheapest_copies, menu_independent
from pricing.limit import Limit, limit_of
from pricing.menu import menu_revenue, menu_threshold
from tests.pricing.market import laplace, tsg

COUNTS = (80, 50, 30, 20, 12, 8, 5, 3)
LADDER = [0.25 * step for step in range(1, 9)]


def mass_market(values):
    """One valuation a tier, given from the lowest tier up; rank 1 first out."""
    return [[value] * count for value, count in zip(values, COUNTS, strict=True)][::-1]


TWO_SEGMENTS = mass_market((20, 24, 28, 32, 60, 600, 800, 1000))
CUBIC = mass_market([round(1000 * (e / 2) ** 3) for e in LADDER])
GEOMETRIC = [[2**k] * 2 ** (8 - k) for k in range(8, 0, -1)]


@pytest.mark.parametrize(
    ("upwards", "prices", "revenue"),
    [
        ([[300, 300, 500], [400, 900], [800, 800, 2000], [5000]], [300, 400, 800, 5000], 9100),
        ([[900, 100], [300, 300, 300], [2000]], [300, 300, 2000], 3200),
        ([[1000] * 3, [400] * 10, [700] * 2], [400, 400, 700], 6600),
    ],
)
def test_threshold_reference(upwards, prices, revenue):
    menu = menu_threshold(upwards[::-1])
    assert (list(menu.prices), menu.revenue, menu.proven) == (prices[::-1], revenue, True)


def test_monotone_reference_revenues():
    assert [menu_threshold(demand).revenue for demand in (TWO_SEGMENTS, CUBIC, GEOMETRIC)] == [16800, 17704, 2048]


@pytest.mark.parametrize(
    ("demand", "precisions", "revenue"),
    [
        (TWO_SEGMENTS, [1 / tsg(e) for e in LADDER], 13400),
        (CUBIC, [1 / laplace(e) for e in LADDER], 12320),
        (CUBIC, [1 / tsg(e) for e in LADDER], 13064),
        (CUBIC, LADDER, 10208),
        (GEOMETRIC, range(1, 9), 1004),
    ],
    ids=["two segments, TSG", "cubic, Laplace", "cubic, TSG", "cubic, composition", "geometric"],
)
def test_subadditive_reference_revenues(demand, precisions, revenue):
    menu = menu_independent(demand, list(precisions)[::-1])
    assert menu.proven
    assert menu.revenue == pytest.approx(revenue, abs=0.01)


DEMAND = st.lists(st.lists(st.integers(0, 6), max_size=4), min_size=1, max_size=3).filter(
    lambda demand: any(map(any, demand))
)


def best_threshold(demand):
    """Try every monotone integer menu."""
    menus = [menu for menu in product(range(7), repeat=len(demand)) if list(menu) == sorted(menu, reverse=True)]
    return max(
        sum(price * sum(value >= price for value in row) for price, row in zip(menu, demand, strict=True))
        for menu in menus
    )


@given(DEMAND)
def test_guarantee_menu_threshold(demand):
    """The programme equals trying every monotone integer menu."""
    menu = menu_threshold(demand)
    listed = [price for price in menu.prices if price is not None]
    assert menu.revenue == best_threshold(demand)
    assert listed == sorted(listed, reverse=True)
    sales = sum(
        price * sum(value >= price for value in row)
        for price, row in zip(menu.prices, demand, strict=True)
        if price is not None
    )
    assert sales == menu.revenue


@given(DEMAND)
def test_a_tier_without_a_buyer_is_not_listed(demand):
    for price, row in zip(menu_threshold(demand).prices, demand, strict=True):
        assert price is None or any(value >= price for value in row)


@given(DEMAND)
def test_arrays_and_lists_give_the_same_menu(demand):
    arrays = [np.array(row, dtype=np.int32) for row in demand]
    assert menu_threshold(arrays) == menu_threshold(demand)


BAD_DEMAND = [
    [],
    [[]],
    [[], []],
    [[-1]],
    [[1.5]],
    [[True]],
    [[1, True]],
    [["1"]],
    [[[1]]],
    [[2**53]],
    [[10**30]],
    [[float("nan")]],
    [np.array([1.0])],
    [np.array([[1]])],
    [np.array([2**63], dtype=np.uint64)],
    [[2**52] * 4000],
]


@pytest.mark.parametrize("demand", BAD_DEMAND, ids=range(len(BAD_DEMAND)))
def test_bad_or_empty_demand_is_refused(demand):
    with pytest.raises(InvalidDemandError):
        menu_threshold(demand)


def test_all_zero_valuations_list_nothing():
    assert (menu_threshold([[0], [0, 0]]).prices, menu_threshold([[0]]).revenue) == ((None, None), 0)


def test_the_programme_reports_progress_and_stops_on_time():
    steps = []
    menu_threshold([[3], [2], [1]], Limit(progress=lambda *step: steps.append(step)))
    assert steps == [("menu", 1, 3), ("menu", 2, 3), ("menu", 3, 3)]
    ticks = iter(range(100))
    with pytest.raises(TimeLimitError, match="menu: expected 3 steps within the time limit, got 1"):
        menu_threshold([[3], [2], [1]], limit_of(2, lambda: next(ticks)))


VALUES = st.integers(1, 3).flatmap(
    lambda tiers: st.lists(
        st.lists(st.integers(0, 5), min_size=tiers, max_size=tiers).map(lambda row: sorted(row, reverse=True)),
        min_size=1,
        max_size=3,
    )
)


def best_chosen(values, counts):
    """Try every monotone menu of integer prices, tiers listed or not."""
    best = 0
    for menu in product([None, *range(6)], repeat=len(values[0])):
        listed = [price for price in menu if price is not None]
        if listed == sorted(listed, reverse=True):
            best = max(best, menu_revenue(values, counts, menu))
    return best


@settings(max_examples=40, deadline=None)
@given(VALUES, st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_guarantee_menu_envy_free(values, counts):
    """With no gap allowed it equals trying every monotone menu on buyers who choose."""
    counts = counts[: len(values)]
    menu = menu_envy_free(values, counts, gap=0.0)
    listed = [price for price in menu.prices if price is not None]
    assert menu.revenue == menu_revenue(values, counts, menu.prices) == best_chosen(values, counts)
    assert listed == sorted(listed, reverse=True)
    assert menu.revenue <= menu.upper_bound


def test_one_shape_of_value_makes_versions_worthless():
    """Every type values tier t at theta times one curve: the best menu is one tier, and the threshold programme overshoots."""
    curve, thetas = (100, 60, 30), (1, 2, 3, 4, 5, 6)
    values = [[theta * height for height in curve] for theta in thetas]
    counts = [12, 10, 8, 6, 4, 2]
    menu = menu_envy_free(values, counts)
    single = max(
        price * sum(c for row, c in zip(values, counts, strict=True) if row[0] >= price)
        for price in (row[0] for row in values)
    )
    assert menu.revenue == single


def test_the_threshold_menu_loses_when_buyers_trade_down():
    values, counts = [[1000, 950, 900], [300, 290, 280]], [10, 20]
    predicted = menu_threshold([[1000] * 10, [], [280] * 20])
    assert predicted.revenue == 15600
    assert menu_revenue(values, counts, predicted.prices) == 280 * 30
    assert menu_envy_free(values, counts).revenue >= 280 * 30


def test_ties_are_broken_as_asked():
    assert menu_revenue([[10, 7]], [1], [6, 3]) == 6
    assert menu_revenue([[10, 7]], [1], [6, 3], "cheaper") == 3
    assert menu_revenue([[5]], [4], [5]) == 20
    assert menu_revenue([[5]], [4], [5], "cheaper") == 0
    assert menu_revenue([[5]], [4], [None]) == 0


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([], []),
        ([[]], [1]),
        ([[1], [1, 2]], [1, 1]),
        ([[1]], [1, 2]),
        ([[1]], [0]),
        ([[-1]], [1]),
        ([[1.5]], [1]),
        ([[1]], [-1]),
        ([[1]], [True]),
    ],
)
def test_bad_buyer_types_are_refused(values, counts):
    with pytest.raises(InvalidDemandError):
        menu_envy_free(values, counts)
    with pytest.raises(InvalidDemandError):
        menu_revenue(values, counts, [1])


def test_bad_prices_and_oversized_programmes_are_refused():
    for prices in ([1, 2], [-1], [0.5]):
        with pytest.raises(InvalidDemandError):
            menu_revenue([[5]], [1], prices)
    with pytest.raises(InvalidDemandError, match="20000"):
        menu_envy_free([[1] * 20] * 60, [1] * 60)


def test_out_of_time_the_best_single_tier_is_offered_and_not_called_proven():
    menu = menu_envy_free([[20, 6], [4, 3]], [1, 5], Limit(seconds_left=lambda: 0.0))
    assert (menu.prices, menu.revenue, menu.proven) == ((4, None), 24, False)
    assert menu.upper_bound >= 32


@given(st.lists(st.integers(0, 9), min_size=3, max_size=3), st.integers(1, 6))
def test_the_covering_knapsack_equals_trying_every_number_of_copies(prices, needed):
    precisions = [3.0, 2.0, 1.0]
    cost, copies = cheapest_copies(prices, precisions, float(needed))
    tried = [
        sum(map(int.__mul__, prices, pick))
        for pick in product(range(7), repeat=3)
        if sum(x * n for x, n in zip(precisions, pick, strict=True)) >= needed
    ]
    assert cost == pytest.approx(min(tried))
    assert sum(x * n for x, n in zip(precisions, copies, strict=True)) >= needed - 1e-6


@pytest.mark.parametrize(
    ("prices", "precisions", "needed"),
    [
        ([], [], 1.0),
        ([1.0], [1.0, 1.0], 1.0),
        ([-1.0], [1.0], 1.0),
        ([float("nan")], [1.0], 1.0),
        ([float("inf")], [1.0], 1.0),
        ([1.0], [0.0], 1.0),
        ([1.0], [1.0], 0.0),
        ([1.0], [1.0], float("nan")),
        ([1.0], [1.0], 2e9),
    ],
)
def test_bad_copies_are_refused(prices, precisions, needed):
    with pytest.raises(InvalidDemandError):
        cheapest_copies(prices, precisions, needed)


def test_independent_prices_are_never_above_monotone_ones():
    for demand in ([[5], [3, 3], [1]], [[9], [4], [4]]):
        assert menu_independent(demand, [4.0, 2.0, 1.0]).revenue <= menu_threshold(demand).revenue + 1e-6


@pytest.mark.parametrize(
    ("demand", "precisions"),
    [
        ([], []),
        ([[0]], [1.0]),
        ([[1]], [1.0, 2.0]),
        ([[1], [1]], [1.0, 2.0]),
        ([[1], [1]], [1.0, 1.0]),
        ([[1]], [0.0]),
        ([[1]], [float("nan")]),
        ([[1]], [float("inf")]),
        ([[1], [1]], [2e9, 1.0]),
    ],
)
def test_bad_independent_demand_is_refused(demand, precisions):
    with pytest.raises(InvalidDemandError):
        menu_independent(demand, precisions)


@pytest.mark.parametrize("seconds", [0.0, 1e-9, float("nan")])
def test_an_independent_menu_out_of_time_claims_nothing(seconds):
    """A solver that is stopped may hold a menu that is not the best: it is no yardstick."""
    demand = [[int(1000 * 0.74**tier) + 7 * buyer for buyer in range(12)] for tier in range(10)]
    precisions = [1 / tsg(0.25 * step) for step in range(10, 0, -1)]
    menu = menu_independent(demand, precisions, Limit(seconds_left=lambda: seconds))
    assert (menu.proven, menu.revenue, set(menu.prices)) == (False, 0.0, {0.0})


class Told:
    """What a solver says."""

    def __init__(self, status, x, bound=0.0):
        self.status, self.x, self.mip_dual_bound = status, x, bound


def test_an_independent_menu_that_a_solver_did_not_finish_is_not_believed(monkeypatch):
    honest = independent_module.milp
    for faulty in (lambda result: Told(1, result.x), lambda _: Told(0, None)):
        monkeypatch.setattr(
            independent_module, "milp", lambda *args, faulty=faulty, **rest: faulty(honest(*args, **rest))
        )
        assert not menu_independent([[5], [3]], [2.0, 1.0]).proven


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=2, max_size=3).filter(lambda d: any(map(any, d))))
def test_guarantee_menu_independent(demand):
    """The programme equals every choice of who buys, each solved by itself, under every bundle that undercuts."""
    precisions = [4.0, 2.0, 1.0][: len(demand)]
    menu = menu_independent(demand, precisions)
    assert menu.proven
    assert menu.revenue == pytest.approx(best_independent(demand, precisions), abs=1e-3)
    for price, needed in zip(menu.prices, precisions, strict=True):
        assert cheapest_copies(menu.prices, precisions, needed)[0] >= price - 1e-5


def best_independent(demand, precisions):
    tiers = range(len(precisions))
    bundles = [
        np.array([float(other == tier) - copies[other] for other in tiers])
        for tier in tiers
        for copies in product(range(5), repeat=len(precisions))
        if sum(x * n for x, n in zip(precisions, copies, strict=True)) >= precisions[tier]
    ]
    best = 0.0
    for least in product(*([None, *set(row)] for row in demand)):
        sold = [0 if low is None else sum(v >= low for v in row) for low, row in zip(least, demand, strict=True)]
        most = [(0, 100 if low is None else low) for low in least]
        best = max(best, -linprog(-np.array(sold, float), np.array(bundles), np.zeros(len(bundles)), bounds=most).fun)
    return best


def test_an_envy_free_menu_is_proven_within_its_gap_and_not_beyond(monkeypatch):
    """The best menu earns 32 of 40 that all value: a solver's bound decides what may be said about it."""
    values, counts = [[20, 6], [4, 3]], [1, 5]
    assert menu_envy_free(values, counts, gap=0.0).proven
    honest = envy_module.milp
    for bound, gap, proven in ((32.0, 0.0, True), (35.0, 0.1, True), (36.0, 0.1, False), (32.1, 1e-3, False)):
        monkeypatch.setattr(
            envy_module, "milp", lambda *args, b=bound, **rest: Told(0, honest(*args, **rest).x, -b / (6 * 20))
        )
        menu = menu_envy_free(values, counts, gap=gap)
        assert (menu.prices, menu.proven) == ((17, 3), proven)
        assert menu.upper_bound == pytest.approx(bound, rel=2e-6)
        assert menu.upper_bound >= bound
