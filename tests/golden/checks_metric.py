"""Checks of metric local privacy: linear counting, ranges by flips, quantiles, and their simulations."""

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from tests.golden.golden_cases import Checked
from tiers.local.columns.coins import flip_words
from tiers.local.flips import Flips, insertion_flip, reflip
from tiers.metric.linear import Strategy, identity_scales, prefix_strategy
from tiers.metric.quantiles import rank_radius, visited
from tiers.metric.ranges import Grid, encode, range_estimate, variance, variance_bound
from tiers.real import to_float
from tiers.sampling.words import KeyedWords

Data = Mapping[str, Any]
NO_ZERO = Fraction("5.345529420184391e-51")  # what 50 digits left of an exact 0


def flip_constants(case: Data, checked: Checked) -> None:
    flips = Flips(Fraction(case["eps"]))
    grid = Grid((5,), flips)
    checked.close(grid.signal, case["alpha"])
    checked.close(flips.rates().false, case["flip"])
    inner = variance(grid, [[3]], [(2, 4)])
    edge = variance(grid, [[2]], [(1, 3)])
    checked.close(inner + 1, case["w_in"])
    checked.close(variance(grid, [[5]], [(2, 4)]), case["w_out"])
    checked.close(variance(grid, [[5]], [(1, 5)], edges=False) + 1, case["w_full"])
    checked.close(edge + 1, case["w_edge_in"])
    checked.close(variance(grid, [[5]], [(1, 3)]), case["w_edge_out"])
    checked.close(variance_bound(grid, 1, [(2, 4)]), case["var1d_interior_per_user"])
    checked.close(variance_bound(grid, 1, [(1, 3)]), case["var1d_edge_per_user_edgeaware"])


def reflipping(case: Data, checked: Checked) -> None:
    upper, lower = (Flips(Fraction(case[name])) for name in ("eps_hi", "eps_lo"))
    checked.close(to_float(reflip(upper, lower)), case["reflip"])
    high, low = upper.rates().false, lower.rates().false
    checked.close((low - high) / (1 - 2 * high), case["reflip_alt"])


def flip_bridge(case: Data, checked: Checked) -> None:
    agree, differ = insertion_flip(*(Flips(Fraction(epsilon)) for epsilon in case["bridge"]))
    checked.close(1 - to_float(agree), case["p_mid_equals_hi_given_hi_eq_lo"])
    checked.close(1 - to_float(differ), case["p_mid_equals_hi_given_hi_ne_lo"])


def star_of_flips(case: Data, checked: Checked) -> None:
    top, *below = (Flips(Fraction(epsilon)) for epsilon in case["star_trap"])
    turns = [to_float(reflip(top, lower)) for lower in below]

    def joint(true: int, seen: tuple[int, int]) -> float:
        total = 0.0
        for bit in (0, 1):
            chance = top.rates().true if bit == true else top.rates().false
            total += chance * math.prod(1 - q if out == bit else q for out, q in zip(seen, turns, strict=True))
        return total

    worst = max(math.log(joint(1, seen) / joint(0, seen)) for seen in product((0, 1), repeat=2))
    checked.close(worst, case["coalition_23_log_ratio"])
    checked.same(case["note"], "tiers 2 and 3 both derived from tier 1: exceeds eps2=1.2; auditor must reject")
    assert worst > float(below[0].epsilon)


def matrices(case: Data, checked: Checked) -> None:
    """Column x of B is what a person with value x is expected to show; row x of its inverse is the estimate of point x."""
    m, attributes = case["m"], case["D"]
    grid = Grid((m,) * attributes, Flips(Fraction(1)))
    places = [point[::-1] for point in product(range(1, m + 1), repeat=attributes)]
    bits = [part.astype(int) for part in encode(places, grid.sizes)]
    for row, corner in enumerate(places):
        for column in range(len(places)):
            shown = math.prod(int(bits[d][column, corner[d] - 1]) for d in range(attributes))
            checked.same(shown, case["B_over_alpha_pow_D"][row][column])
        sides = [grid.corners(d, (value, value)) for d, value in enumerate(corner)]
        for column, other in enumerate(places):
            weight = math.prod(side.get(k, 0.0) for side, k in zip(sides, other, strict=True))
            checked.same(weight, case["Binv_times_2alpha_pow_D"][row][column])


def encoding(case: Data, checked: Checked) -> None:
    checked.same(encode([[case["x"]]], (case["m"],))[0][0].tolist(), case["encode"])


def observations(case: Data, checked: Checked) -> None:
    reports = np.array(case["reports"], np.int8)
    grid = Grid((reports.shape[2],) * reports.shape[1], Flips(Fraction(1)))
    checked.same(grid.observe(reports.swapaxes(0, 1)).tolist(), case["observations_k1_k2"])
    checked.same(case["note"], "the seed example (n=2,D=2,m=3); o_(1,1)=0; ind order: dimension 1 fastest")


def estimates(case: Data, checked: Checked) -> None:
    reports = np.array(case["reports"], np.int8)
    grid = Grid((reports.shape[2],) * reports.shape[1], Flips(Fraction(case["eps"])))
    observed, known = grid.observe(reports.swapaxes(0, 1)), reports.copy()
    known[..., -1] = 1  # bit m is not sent: it is always +1
    tables = {"paper": observed, "edge": grid.observe(known.swapaxes(0, 1))}
    for name, want in case["ranges"].items():
        text, _, kind = name.partition("|")
        numbers = [int(digit) for digit in text if digit.isdigit()]
        wanted = list(zip(numbers[::2], numbers[1::2], strict=True))
        got = range_estimate(grid, tables[kind], wanted, edges=kind == "edge")
        if 0 < abs(Fraction(want)) < Fraction(1, 10**40):
            checked.same(Fraction(want), NO_ZERO)
            checked.close(got, 0)
        else:
            checked.close(got, want)
    points = [point[::-1] for point in product(range(1, grid.sizes[0] + 1), repeat=grid.attributes)]
    checked.same(len(points), len(case["points_in_ind_order"]))
    for point, want in zip(points, case["points_in_ind_order"], strict=True):
        got = range_estimate(grid, observed, [(value, value) for value in point], edges=False)
        checked.close(got, want)


def exact_variance(case: Data, checked: Checked) -> None:
    wanted = [tuple(side) for side in case["range"]]
    grid = Grid((case["m"],) * len(wanted), Flips(Fraction(case["eps"])))
    inside = [all(low <= x <= high for x, (low, high) in zip(xs, wanted, strict=True)) for xs in case["xs"]]
    checked.same(sum(inside), case["true"])
    checked.close(variance(grid, case["xs"], wanted, edges=False), case["var_paper"])
    checked.close(variance(grid, case["xs"], wanted), case["var_edge"])
    checked.same(sum(side != (1, case["m"]) for side in wanted), case["D_R"])
    checked.close(variance_bound(grid, len(inside), wanted, edges=False), case["bound_paper"])
    assert variance(grid, case["xs"], wanted) <= variance_bound(grid, len(inside), wanted) * (1 + 1e-12)


def naive_bound(case: Data, checked: Checked) -> None:
    grid = Grid((9,) * case["D"], Flips(Fraction(case["eps"])))
    people = [[4] * case["D"]] * case["n"]
    wanted = [(3, 5)] * case["D"]
    checked.same(case["all_users_inside"], True)
    checked.same(case["note"], "naive bound n a^-2D 2^-DR is violated")
    checked.close(variance(grid, people, wanted), case["exact"])
    checked.close(variance_bound(grid, case["n"], wanted), case["exact"])
    checked.close(case["n"] * grid.signal ** (-2 * case["D"]) / 2 ** case["D"], case["naive"])


def search(case: Data, checked: Checked) -> None:
    *path, answer = visited([float(count) for count in case["prefix"]], Fraction(case["phi"]))
    checked.same(path, case["visited"])
    checked.same(answer, case["answer"])
    checked.same(Fraction(case["prefix"][-1]), Fraction(case["n"]))


def radius(case: Data, checked: Checked) -> None:
    grid, miss = Grid((case["m"],), Flips(Fraction(case["eps"]))), Fraction(case["beta"])
    checked.same((case["m"] - 1).bit_length(), case["nodes"])
    found = rank_radius(grid, case["n"], miss)
    checked.close(found, case["radius_binary_search"])
    checked.close(rank_radius(grid, case["n"], miss, everywhere=True), case["radius_all_prefixes"])
    checked.close(found * math.sqrt(float(grid.flips.epsilon) / (2 * grid.signal)), case["radius_hoeffding"])


def identity_strategy(case: Data, checked: Checked) -> None:
    checked.same(case["problem"], "identity strategy, metric E_S, eps=1")
    m, size = case["m"], case["S_size"]
    on, off = identity_scales(m, size, 1.0)
    checked.close(on, case["scale_on_S"])
    if case["scale_off_S"] is None:
        checked.same(size, m)
    else:
        checked.close(off, case["scale_off_S"])
    strategy = Strategy(np.eye(m), np.array([on] * size + [off] * (m - size)), np.eye(m))
    checked.close(strategy.total_error(1), case["total_error_per_user"])
    checked.close(
        strategy.total_error(1) / Strategy(np.eye(m), np.full(m, 2.0), np.eye(m)).total_error(1),
        case["ratio_to_eps_LDP"],
    )


def prefix_ranges(case: Data, checked: Checked) -> None:
    checked.same(case["problem"], "1-D ranges, lower-triangular strategy, eps=1, n=1")
    found, wider = prefix_strategy(case["m"], 1.0), prefix_strategy(case["m"] + 2, 1.0)
    errors = found.errors(1)
    checked.same(len(errors), case["n_ranges"])
    checked.close(found.total_error(1), case["total_error"])
    checked.close(errors.mean(), case["avg"])
    checked.close(wider.errors(1).max(), case["err_interior"])
    checked.close(errors[0], case["err_edge"])
    checked.close(errors[case["m"] - 1], case["err_full"])


def cost_matrix(case: Data, checked: Checked) -> None:
    checked.same(case["problem"], "privacy cost matrix max-log-ratio")
    rows, scales = (np.array([[float(v) for v in row] for row in case["A"]]), np.array([float(v) for v in case["s"]]))
    strategy = Strategy(rows, scales, np.eye(len(rows)))
    for got, want in zip(strategy.cost(), case["cost"], strict=True):
        for one, other in zip(got, want, strict=True):
            checked.close(one, other)
    checked.close(strategy.total_error(1), case["total_error_B_identity"])


def simulated_ranges(case: Data, checked: Checked) -> None:
    """The product's own exact flips of everybody's bits, all runs at once; the sample's variance as well."""
    checked.same([case["statistic"], case["N"], Fraction(case["z"])], ["range estimate", 20000, Fraction(9, 2)])
    checked.same(case["also"], "sample variance within 10% of sd^2")
    wanted, runs = [tuple(side) for side in case["range"]], case["N"]
    grid = Grid((case["m"],) * len(wanted), Flips(Fraction(case["eps"])))
    edges = bool(case["edge"])
    true = np.stack(encode(case["xs"], grid.sizes), axis=1)
    checked.close(math.sqrt(variance(grid, case["xs"], wanted, edges=edges)), case["sd"])
    count = runs * true.size
    words = flip_words(KeyedWords(bytes(32)), 0, -(-count // 64), grid.flips.flip)
    turns = np.unpackbits(words.view(np.uint8), bitorder="little")[:count].reshape(runs, *true.shape)
    reports = (true * (1 - 2 * turns.astype(np.int8))).astype(np.float64)
    if edges:
        reports[..., -1] = 1
    observed = np.einsum("rik,ril->rkl", reports[:, :, 0], reports[:, :, 1])
    units = np.eye(grid.cells).reshape(-1, *grid.sizes)  # the estimate is linear in what is observed
    found = observed.reshape(runs, -1) @ [range_estimate(grid, unit, wanted, edges=edges) for unit in units]
    inside = sum(all(low <= x <= high for x, (low, high) in zip(xs, wanted, strict=True)) for xs in case["xs"])
    checked.same(inside, case["expected"])
    sd = float(case["sd"])
    assert abs(found.mean() - case["expected"]) <= float(case["z"]) * sd / math.sqrt(runs)
    assert abs(found.var() / sd**2 - 1) < 0.1


def simulated_reflips(case: Data, checked: Checked) -> None:
    checked.same(
        [case["statistic"], case["N"], Fraction(case["z"])],
        ["fraction of bits changed by reflip 2.0->1.0", 200000, Fraction(9, 2)],
    )
    turn = reflip(Flips(Fraction(2)), Flips(Fraction(1)))
    checked.close(to_float(turn), case["expected"])
    checked.close(math.sqrt(to_float(turn) * (1 - to_float(turn))), case["sd"])
    changed = int(np.bitwise_count(flip_words(KeyedWords(bytes(32)), 0, case["N"] // 64, turn)).sum())
    room = float(case["z"]) * float(case["sd"]) / math.sqrt(case["N"])
    assert abs(changed / case["N"] - to_float(turn)) <= room
