"""Metric privacy by enumeration: every output of every small grid, every coalition, every range against its definition."""

import math
from fractions import Fraction
from itertools import chain, combinations, pairwise, product

import numpy as np
import pytest

from tiers.errors import InvalidParameterError, NoResidualError
from tiers.local.flips import Flips, reflip
from tiers.metric.linear import (
    Strategy,
    identity_scales,
    line_metric,
    optimal_scales,
    prefix_strategy,
    residual_stay,
    secret_metric,
)
from tiers.metric.quantiles import prefixes, quantile, rank_radius, search, visited
from tiers.metric.ranges import Grid, covariance, encode, range_estimate, variance, variance_bound, weighted_sum
from tiers.real import to_float

HALF, ONE, TWO = (Flips(Fraction(e)) for e in ("0.5", "1", "2"))


def all_ranges(m: int, attributes: int) -> list[tuple[tuple[int, int], ...]]:
    sides = [(low, high) for low in range(1, m + 1) for high in range(low, m + 1)]
    return list(product(sides, repeat=attributes))


@pytest.mark.parametrize("flips", [HALF, ONE], ids=["0.5", "1"])
@pytest.mark.parametrize(("m", "attributes"), [(3, 1), (4, 1), (3, 2)])
def test_guarantee_values_are_told_apart_by_their_distance_exactly(m: int, attributes: int, flips: Flips) -> None:
    grid, rates = Grid((m,) * attributes, flips), flips.rates()
    places = list(product(range(1, m + 1), repeat=attributes))
    bits = np.hstack([part[:, :-1] for part in encode(places, grid.sizes)])
    outputs = np.array(list(product((-1, 1), repeat=bits.shape[1])))
    chances = np.where(outputs[None] == bits[:, None], rates.true, rates.false).prod(axis=2)
    for x, y in combinations(range(len(places)), 2):
        worst = np.abs(np.log(chances[x] / chances[y])).max()
        distance = sum(abs(a - b) for a, b in zip(places[x], places[y], strict=True))
        assert worst == pytest.approx(float(grid.flips.epsilon) * distance, rel=1e-12)


def test_guarantee_every_coalition_of_reflips_learns_its_best_tier() -> None:
    tiers = [TWO, ONE, HALF]
    turns = [to_float(reflip(a, b)) for a, b in pairwise(tiers)]
    joint = {}
    for true in (0, 1):
        for seen in product((0, 1), repeat=3):
            chance = TWO.rates().true if seen[0] == true else TWO.rates().false
            for before, after, q in zip(seen, seen[1:], turns, strict=False):
                chance *= q if before != after else 1 - q
            joint[true, seen] = chance
    for held in chain.from_iterable(combinations(range(3), size) for size in (1, 2, 3)):
        sums: dict[tuple[int, tuple[int, ...]], float] = {}
        for (true, seen), chance in joint.items():
            part = true, tuple(seen[at] for at in held)
            sums[part] = sums.get(part, 0.0) + chance
        worst = max(abs(math.log(sums[1, part] / sums[0, part])) for true, part in sums if true)
        assert worst == pytest.approx(float(tiers[min(held)].epsilon), rel=1e-12)


@pytest.mark.parametrize(("m", "attributes"), [(3, 1), (4, 1), (3, 2), (2, 3)])
def test_estimates_are_unbiased_with_the_stated_variance_for_every_range_and_value(m: int, attributes: int) -> None:
    """All outputs of one person, for every value: the mean is membership, the second moment the stated one."""
    grid, rates = Grid((m,) * attributes, ONE), ONE.rates()
    outputs = np.array(list(product((-1, 1), repeat=attributes * (m - 1)))).reshape(-1, attributes, m - 1)
    whole = np.concatenate([outputs, np.ones((len(outputs), attributes, 1))], axis=2).astype(np.int8)
    for wanted in all_ranges(m, attributes):
        values = np.array([range_estimate(grid, grid.observe(one[:, None]), wanted) for one in whole])
        for place in product(range(1, m + 1), repeat=attributes):
            true = np.vstack(encode([place], grid.sizes))[:, :-1]
            chance = np.where(outputs == true, rates.true, rates.false).reshape(len(outputs), -1).prod(axis=1)
            inside = all(low <= x <= high for x, (low, high) in zip(place, wanted, strict=True))
            mean = float(chance @ values)
            assert mean == pytest.approx(float(inside), abs=1e-12)
            spread = variance(grid, [place], wanted)
            assert float(chance @ values**2) - mean**2 == pytest.approx(spread, abs=1e-11)
            assert spread <= variance_bound(grid, 1, wanted) + 1e-12
            assert spread <= variance(grid, [place], wanted, edges=False) + 1e-12
            assert variance_bound(grid, 1, wanted) == pytest.approx(
                max(variance(grid, [p], wanted) for p in product(range(1, m + 1), repeat=attributes)), abs=1e-12
            )


def test_covariances_add_up_to_the_variance_of_a_difference() -> None:
    grid, people = Grid((4, 4), ONE), [[1, 2], [3, 3], [4, 1]]
    whole, left, right = [(1, 4), (2, 3)], [(1, 2), (2, 3)], [(3, 4), (2, 3)]
    both = covariance(grid, people, left, right)
    sum_of = variance(grid, people, left) + variance(grid, people, right) + 2 * both
    assert sum_of == pytest.approx(variance(grid, people, whole), rel=1e-12)


def test_a_weighted_sum_is_unbiased_with_the_stated_variance() -> None:
    grid, rates, weights = Grid((4,), HALF), HALF.rates(), [1.0, 5.0, 2.0, 2.5]
    outputs = np.array(list(product((-1, 1), repeat=3)))
    whole = np.concatenate([outputs, np.ones((8, 1))], axis=1).astype(np.int8)
    sums = [weighted_sum(grid, grid.observe(one[None, None]), weights) for one in whole]
    for value in range(1, 5):
        true = encode([[value]], (4,))[0][0, :-1]
        chance = np.where(outputs == true, rates.true, rates.false).prod(axis=1)
        totals = np.array([total for total, _ in sums])
        assert float(chance @ totals) == pytest.approx(weights[value - 1], rel=1e-12)
        assert float(chance @ totals**2) - weights[value - 1] ** 2 == pytest.approx(sums[0][1], rel=1e-11)


def test_prefixes_and_quantiles_of_reports_without_noise() -> None:
    grid = Grid((8,), Flips(Fraction(50)))
    people = [[v] for v in (1, 2, 2, 5, 7, 8, 8, 8)]
    counts = prefixes(grid, grid.observe(encode(people, (8,))))
    assert counts == pytest.approx([1, 3, 3, 3, 4, 4, 5, 8])
    assert [quantile(counts.round(6), Fraction(n, 8)) for n in range(1, 9)] == [1, 2, 2, 5, 7, 8, 8, 8]
    assert rank_radius(grid, 10, Fraction(1, 10)) < rank_radius(grid, 10, Fraction(1, 10), everywhere=True)


@pytest.mark.parametrize("miss", [Fraction(1, 20), Fraction(1, 2)])
@pytest.mark.parametrize(("m", "path"), [(2, 1), (8, 3), (9, 4), (10, 4), (64, 6)])
def test_a_rank_radius_shares_its_miss_among_both_tails_of_every_place(m: int, path: int, miss: Fraction) -> None:
    """Each tail of a prefix is at most exp(−D²/2v), v = n·(2α/ε)/(2α)² its proxy; 2L of them must add up to β."""
    longest = max(len(search(lambda place, at=at: float(place > at), m, Fraction(1))) - 1 for at in range(m))
    assert longest == path
    for flips in (HALF, ONE, TWO):
        epsilon, alpha, people = float(flips.epsilon), math.tanh(float(flips.epsilon) / 2), 70
        proxy = people * (2 * alpha / epsilon) / (2 * alpha) ** 2
        for places, everywhere in ((path, False), (m - 1, True)):
            radius = rank_radius(Grid((m,), flips), people, miss, everywhere=everywhere)
            assert 2 * places * math.exp(-(radius**2) / (2 * proxy)) == pytest.approx(float(miss), rel=1e-12)


@pytest.mark.parametrize("m", [4, 7, 10])
def test_the_solver_agrees_with_the_closed_forms(m: int) -> None:
    one = np.eye(m)
    for size in (0, 1, m // 3, m // 2, m):
        on, off = identity_scales(m, size, 1.0)
        closed = Strategy(one, np.array([on] * size + [off] * (m - size)), one)
        metric = secret_metric(m, size, 1.0)
        assert (closed.cost() <= metric + 1e-12).all()
        found = optimal_scales(one, one, metric)
        assert (found.cost() <= metric + 1e-12).all()
        assert found.total_error(1) == pytest.approx(closed.total_error(1), rel=1e-4)
    prefix = prefix_strategy(m, 1.0)
    found = optimal_scales(prefix.rows, prefix.reader, line_metric(m, 1.0))
    assert found.total_error(1) == pytest.approx(prefix.total_error(1), rel=1e-4)
    assert prefix.total_error(3) == pytest.approx(2 * 3 * m * (m - 1))
    assert prefix.cost() == pytest.approx(line_metric(m, 1.0), rel=1e-12)


def test_flips_have_at_most_half_the_error_of_the_prefix_strategy() -> None:
    m = 6
    for epsilon in ("0.1", "1", "4"):
        grid = Grid((m,), Flips(Fraction(epsilon)))
        total = sum(variance_bound(grid, 1, wanted) for wanted in all_ranges(m, 1))
        assert total == pytest.approx(m * (m - 1) / (2 * (math.cosh(float(Fraction(epsilon))) - 1)), rel=1e-12)
        assert total <= prefix_strategy(m, float(Fraction(epsilon))).total_error(1) / 2


def test_tiers_of_strategies_need_more_noise_below_in_every_coordinate() -> None:
    one = np.eye(5)
    upper = optimal_scales(one, one, secret_metric(5, 1, 2.0))
    free = optimal_scales(one, one, line_metric(5, 0.8))
    held = optimal_scales(one, one, line_metric(5, 0.8), least=upper.scales)
    assert (held.scales >= upper.scales * (1 - 1e-9)).all()
    assert (residual_stay(upper, Strategy(one, np.maximum(held.scales, upper.scales), one)) <= 1).all()
    assert held.total_error(1) >= free.total_error(1) * (1 - 1e-6)
    with pytest.raises(NoResidualError, match="more noise above"):
        residual_stay(upper, Strategy(one, upper.scales / 2, one))
    with pytest.raises(NoResidualError, match="rows differ"):
        residual_stay(upper, prefix_strategy(5, 1.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Grid((1,), ONE),
        lambda: Grid((), ONE),
        lambda: Grid((3, True), ONE),
        lambda: Grid((2.0,), ONE),  # type: ignore[arg-type]
        lambda: Grid([3], ONE),  # type: ignore[arg-type]
        lambda: Grid((2**14, 2**14), ONE),
        lambda: encode([[0]], (4,)),
        lambda: encode([[1, 5]], (5, 4)),
        lambda: encode([[1.5]], (4,)),  # type: ignore[list-item]
        lambda: encode([[1]], (4, 4)),
        lambda: encode([], (4,)),
        lambda: Grid((3,), ONE).observe(np.zeros((0, 1, 3), np.int8)),
        lambda: Grid((3,), ONE).observe(np.ones((1, 1, 4), np.int8)),
        lambda: Grid((3,), ONE).observe(np.zeros((1, 1, 3), np.int8)),
        lambda: variance_bound(Grid((3,), ONE), 0, [(1, 2)]),
        lambda: variance_bound(Grid((3,), ONE), 1, [(2, 1)]),
        lambda: variance_bound(Grid((3,), ONE), 1, [(1, 4)]),
        lambda: variance_bound(Grid((3, 3), ONE), 1, [(1, 2)]),
        lambda: weighted_sum(Grid((3,), ONE), np.ones(3), [1.0]),
        lambda: prefixes(Grid((3, 3), ONE), np.ones((3, 3))),
        lambda: quantile([1.0], Fraction(0)),
        lambda: quantile([], Fraction(1, 2)),
        lambda: quantile([math.nan, 1.0], Fraction(1, 2)),
        lambda: rank_radius(Grid((3,), ONE), 0, Fraction(1, 2)),
        lambda: rank_radius(Grid((3,), ONE), 1, Fraction(1)),
        lambda: rank_radius(Grid((3, 3), ONE), 1, Fraction(1, 2)),
        lambda: Grid((3, 4), ONE).observe([np.ones((2, 3), np.int8), np.ones((2, 3), np.int8)]),
        lambda: Grid((3,), ONE).observe([]),
        lambda: Strategy(np.eye(2), np.zeros(2), np.eye(2)),
        lambda: Strategy(np.eye(2), np.array([1.0, math.nan]), np.eye(2)),
        lambda: Strategy(np.eye(2), np.ones(3), np.eye(2)),
        lambda: optimal_scales(np.eye(2), np.eye(2), np.ones((3, 3))),
        lambda: optimal_scales(np.eye(2), np.eye(2), np.zeros((2, 2))),
        lambda: identity_scales(3, 4, 1.0),
        lambda: identity_scales(3, 1, math.nan),
        lambda: secret_metric(3, 4, 1.0),
    ],
)
def test_bad_input_is_one_clear_error(make: object) -> None:
    with pytest.raises(InvalidParameterError):
        make()  # type: ignore[operator]


def test_a_search_asks_for_the_prefixes_on_its_path_and_no_others() -> None:
    estimates = [*np.random.default_rng(3).normal(0, 40, 1000).cumsum().tolist(), 900.0]
    for share in (Fraction(1, 100), Fraction(1, 2), Fraction(99, 100), Fraction(1)):
        asked: list[int] = []

        def prefix(place: int, asked: list[int] = asked) -> float:
            asked.append(place)
            return float(estimates[place - 1])

        path = search(prefix, 1001, share)
        assert path == visited(estimates, share)
        assert asked == [1001, *path[:-1]]
        assert len(asked) <= 11
