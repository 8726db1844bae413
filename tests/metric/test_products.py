"""Sums of products of weights by enumeration: every output of one person, every data set of a few."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from tiers.errors import InvalidParameterError
from tiers.local.flips import Flips
from tiers.metric.products import (
    box_weights,
    cell_half_width,
    cell_sum,
    half_width,
    product_sum,
    product_variance,
    product_variance_bound,
    product_variance_estimate,
)
from tiers.metric.ranges import Grid, encode, range_estimate, variance, variance_bound, weighted_sum

HALF, ONE = Flips(Fraction(1, 2)), Flips(Fraction(1))
MISS = Fraction(1, 20)
SIZES = [(3,), (4,), (3, 2), (2, 3), (2, 2, 2)]


def points(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return list(product(*(range(1, size + 1) for size in sizes)))


def outputs(grid: Grid) -> list[list[np.ndarray]]:
    """Every report, as its rows of ±1 with the certain bit."""
    found = []
    for bits in product((-1, 1), repeat=grid.diameter):
        parts, at = [], 0
        for size in grid.sizes:
            parts.append(np.array([[*bits[at : at + size - 1], 1]], np.int8))
            at += size - 1
        found.append(parts)
    return found


def chances(grid: Grid, point: tuple[int, ...]) -> np.ndarray:
    """How likely each output is for a person at a point."""
    rates, true = grid.flips.rates(), encode([point], grid.sizes)
    return np.array(
        [
            math.prod(
                rates.true if seen == due else rates.false
                for part, known in zip(parts, true, strict=True)
                for seen, due in zip(part[0, :-1], known[0, :-1], strict=True)
            )
            for parts in outputs(grid)
        ]
    )


def random_weights(grid: Grid, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.integers(-3, 4, size).astype(float) for size in grid.sizes]


def boxes(sizes: Sequence[int]) -> list[list[tuple[int, int]]]:
    sides = [[(low, high) for low in range(1, size + 1) for high in range(low, size + 1)] for size in sizes]
    return [list(each) for each in product(*sides)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("flips", [HALF, ONE], ids=["0.5", "1"])
def test_products_are_unbiased_with_the_stated_variance_and_its_estimate_is_too(
    sizes: tuple[int, ...], flips: Flips
) -> None:
    grid = Grid(sizes, flips)
    tables = [grid.observe(parts) for parts in outputs(grid)]
    wanted = [random_weights(grid, seed) for seed in range(4)] + [box_weights(grid, box) for box in boxes(sizes)[::5]]
    for weights in wanted:
        sums = np.array([product_sum(grid, table, weights) for table in tables])
        spreads = np.array([product_variance_estimate(grid, table, weights) for table in tables])
        largest = 0.0
        for point in points(sizes):
            chance = chances(grid, point)
            due = math.prod(float(row[x - 1]) for row, x in zip(weights, point, strict=True))
            exact = product_variance(grid, [point], weights)
            assert float(chance @ sums) == pytest.approx(due, abs=1e-9)
            assert float(chance @ sums**2) - due**2 == pytest.approx(exact, abs=1e-8)
            assert float(chance @ spreads) == pytest.approx(exact, abs=1e-8)
            largest = max(largest, exact)
        assert product_variance_bound(grid, 1, weights) == pytest.approx(largest, abs=1e-9)


@pytest.mark.parametrize("moved", [1e6, 3e8, 1e12])
def test_weights_far_from_0_keep_their_variance_and_their_bar(moved: float) -> None:
    weights = np.arange(8.0) % 2
    line, square = Grid((8,), ONE), Grid((8, 3), ONE)
    due, bar = product_variance_bound(line, 10**6, [weights]), half_width(line, 10**6, [weights], MISS)
    assert product_variance_bound(line, 10**6, [weights + moved]) == pytest.approx(due)
    assert product_variance(line, [[1], [8]], [weights + moved]) == pytest.approx(due * 2e-6)
    assert half_width(line, 10**6, [weights + moved], MISS) == pytest.approx(bar)
    factor = np.array([1.0, 2.0, 4.0])
    both = product_variance_bound(square, 1, [weights + moved, factor + moved])
    one, other = (
        product_variance_bound(Grid((len(row),), ONE), 1, [row]) for row in (weights, factor)
    )  # of the largest squares (moved + 1)² and (moved + 4)²
    assert both == pytest.approx(one * (moved + 4) ** 2 + other * (moved + 1) ** 2 + one * other)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_box_is_a_product_of_ranges(sizes: tuple[int, ...]) -> None:
    grid = Grid(sizes, ONE)
    people = points(sizes)[::2]
    observed = grid.observe(encode(people, sizes))
    for box in boxes(sizes):
        weights = box_weights(grid, box)
        assert product_sum(grid, observed, weights) == pytest.approx(range_estimate(grid, observed, box), abs=1e-9)
        assert product_variance(grid, people, weights) == pytest.approx(variance(grid, people, box), abs=1e-9)
        assert product_variance_bound(grid, 7, weights) == pytest.approx(variance_bound(grid, 7, box), abs=1e-9)
        outer = weights[0]
        for row in weights[1:]:
            outer = outer[..., None] * row
        assert cell_sum(grid, observed, outer) == pytest.approx(product_sum(grid, observed, weights), abs=1e-9)


@pytest.mark.parametrize("epsilon", [20, 36, 38, 50])
def test_a_range_has_a_variance_also_where_flips_are_next_to_never(epsilon: int) -> None:
    grid, box = Grid((5, 5), Flips(Fraction(epsilon))), [(2, 4), (1, 2)]
    each = 2 * math.exp(-epsilon)  # 1/(cosh ε − 1), to a part in e^ε
    assert variance_bound(grid, 7, box) == pytest.approx(7 * 1.5 * each, rel=1e-8, abs=0)
    assert variance(grid, [[3, 1], [5, 1]], box) == pytest.approx(1.5 * each + each, rel=1e-8, abs=0)


def test_a_marginal_is_the_reports_of_one_axis() -> None:
    sizes = (3, 4, 2)
    grid, people = Grid(sizes, HALF), points(sizes)[::3]
    observed, weights = grid.observe(encode(people, sizes)), np.array([1.0, -2.0, 5.0, 0.5])
    own, table = grid.marginal(observed, 1)
    assert own == Grid((4,), HALF)
    assert (table == own.observe([encode(people, sizes)[1]])).all()
    others = [np.ones(3), weights, np.ones(2)]
    value, each = weighted_sum(own, table, weights.tolist())
    assert value == pytest.approx(product_sum(grid, observed, others))
    assert each * len(people) == pytest.approx(product_variance_bound(grid, len(people), others))
    assert each * len(people) == pytest.approx(product_variance(grid, people, others))


def summed(laws: Sequence[dict[float, float]]) -> dict[float, float]:
    """The law of a sum of independent parts."""
    found = {0.0: 1.0}
    for law in laws:
        after: dict[float, float] = {}
        for known, chance in found.items():
            for value, part in law.items():
                place = round(known + value, 9)
                after[place] = after.get(place, 0.0) + chance * part
        found = after
    return found


@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 2), (3, 2)], ids=str)
@pytest.mark.parametrize("flips", [HALF, Flips(Fraction(2))], ids=["0.5", "2"])
@pytest.mark.parametrize("people", [1, 2, 5, 40])
def test_guarantee_half_width_holds_for_every_data_set(sizes: tuple[int, ...], flips: Flips, people: int) -> None:
    grid = Grid(sizes, flips)
    tables = [grid.observe(parts) for parts in outputs(grid)]
    few = points(sizes) if people < 6 else [points(sizes)[0], points(sizes)[-1]]
    if people > 2 and len(few) > 4:
        few = few[:3]
    for box in boxes(sizes)[::2]:
        weights = box_weights(grid, box)
        bars = [half_width(grid, people, weights, MISS)]
        outer = weights[0] if len(sizes) == 1 else np.outer(weights[0], weights[1])
        bars.append(cell_half_width(grid, people, outer, MISS))
        sums = [product_sum(grid, table, weights) for table in tables]
        laws: dict[tuple[int, ...], dict[float, float]] = {}
        for point in few:
            law: dict[float, float] = {}
            for value, chance in zip(sums, chances(grid, point), strict=True):
                law[round(value, 9)] = law.get(round(value, 9), 0.0) + float(chance)
            laws[point] = law
        groups = combinations_with_replacement(few, people) if people < 6 else [(few[0],) * people, (few[1],) * people]
        for group in groups:
            truth = sum(all(low <= x <= high for x, (low, high) in zip(point, box, strict=True)) for point in group)
            law = summed([laws[point] for point in group])
            for bar in bars:
                assert sum(chance for value, chance in law.items() if abs(value - truth) > bar + 1e-6) <= float(MISS)


def test_the_bar_is_the_least_of_three_each_in_its_own_case() -> None:
    tail = math.log(40)
    low, high = Flips(Fraction(1, 10)), Flips(Fraction(4))
    edge = [np.array([1.0, 0.0, 0.0])]
    grid = Grid((3,), low)
    proxy = 2 * grid.signal / float(low.epsilon) / (4 * grid.signal**2)
    assert half_width(grid, 50, edge, MISS) == pytest.approx(math.sqrt(2 * 50 * tail * proxy))
    grid = Grid((3,), high)
    span, spread = 1 / grid.signal, product_variance_bound(grid, 1, edge)
    first = tail * span / 3
    assert half_width(grid, 10**6, edge, MISS) == pytest.approx(first + math.sqrt(first**2 + 2 * 10**6 * spread * tail))
    grid, box = Grid((3, 3), low), [np.array([0.0, 1.0, 0.0])] * 2
    assert half_width(grid, 1, box, MISS) == pytest.approx(math.sqrt(tail / 2) * 2 / grid.signal**2)
    assert half_width(grid, 1, [np.ones(3), np.ones(3)], MISS) == 0


@pytest.mark.parametrize("flat", [False, True])
def test_the_bar_of_cells_is_hoeffding_s_over_what_each_bit_can_move(flat: bool) -> None:
    """Both tails: 2·exp(−2t²/(n·Σr²)) = β, r of a bit the most that turning it moves a report's part, by enumeration."""
    grid, people = Grid((3, 3), Flips(Fraction(1))), 11
    weights = np.add.outer([0.0, 1.0, 5.0], [0.0, 2.0, 3.0]) + np.outer([1.0, -4.0, 2.0], [0.0, 1.0, 7.0]) * (not flat)
    parts = {}
    for bits in product((-1, 1), repeat=4):
        report = [np.array([[*bits[:2], 1]], np.int8), np.array([[*bits[2:], 1]], np.int8)]
        parts[bits] = cell_sum(grid, grid.observe(report), weights)
    moved = [
        max(abs(part - parts[(*bits[:at], -bits[at], *bits[at + 1 :])]) for bits, part in parts.items())
        for at in range(4)
    ]
    span = max(parts.values()) - min(parts.values())
    assert span**2 > sum(each**2 for each in moved)
    width = cell_half_width(grid, people, weights, MISS)
    beta = 2 * math.exp(-2 * width**2 / (people * sum(each**2 for each in moved)))
    assert beta == pytest.approx(float(MISS), rel=1e-12)


def test_a_whole_axis_changes_no_bar() -> None:
    one, two = Grid((5,), ONE), Grid((5, 7), ONE)
    weights = np.array([0.0, 1.0, 4.0, -2.0, 0.0])
    for people in (1, 100, 10**6):
        assert half_width(two, people, [weights, np.ones(7)], MISS) == pytest.approx(
            half_width(one, people, [weights], MISS)
        )
        assert half_width(two, people, [weights, 3 * np.ones(7)], MISS) == pytest.approx(
            3 * half_width(one, people, [weights], MISS)
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda grid, table: product_sum(grid, table, [[1, 2, 3]]),
        lambda grid, table: product_sum(grid, table, [[1, 2, 3], [1, 2, 3]]),
        lambda grid, table: product_sum(grid, table, [[1, 2, math.nan], [1, 2]]),
        lambda grid, table: product_variance_bound(grid, 0, [[1, 2, 3], [1, 2]]),
        lambda grid, table: product_variance_bound(grid, True, [[1, 2, 3], [1, 2]]),
        lambda grid, table: half_width(grid, 0, [[1, 2, 3], [1, 2]], MISS),
        lambda grid, table: half_width(grid, 1, [[1, 2, 3], [1, 2]], Fraction(1)),
        lambda grid, table: cell_half_width(grid, 1, np.ones((3, 2)), Fraction(0)),
        lambda grid, table: cell_sum(grid, table, np.ones((2, 3))),
        lambda grid, table: cell_sum(grid, table, np.full((3, 2), np.inf)),
        lambda grid, table: box_weights(grid, [(1, 3)]),
        lambda grid, table: box_weights(grid, [(1, 4), (1, 1)]),
        lambda grid, table: box_weights(grid, [(2, 1), (1, 1)]),
    ],
)
def test_bad_input_is_one_clear_error(make: object) -> None:
    grid = Grid((3, 2), ONE)
    with pytest.raises(InvalidParameterError):
        make(grid, grid.observe(encode([[1, 1]], (3, 2))))  # type: ignore[operator]


def test_the_bar_of_a_table_is_no_wider_than_reports_can_move_it() -> None:
    """One corner alone counts, and every bit is in it: bit by bit the bar would be √D times as wide."""
    grid, miss = Grid((2, 2), Flips(Fraction(1))), Fraction(1, 20)
    found = cell_half_width(grid, 50, np.array([[1.0, -1.0], [-1.0, 1.0]]), miss)
    assert found == pytest.approx(2 / grid.signal**2 * math.sqrt(50 * math.log(2 / 0.05) / 2), rel=1e-12)
