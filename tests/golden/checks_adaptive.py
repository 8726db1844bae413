"""Checks of adaptive queries: widths, budgets, eliminations with given noise, readings, and their simulations."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tests.golden.golden_cases import Checked
from tiers.accounting.people import People
from tiers.adaptive.budgeting import Reallocation, allocation, doubling_split
from tiers.adaptive.counting import calibrated_threshold, read_count
from tiers.adaptive.density import FAR, LEFT_OUT, plug_in_mean, unbiased_kernel
from tiers.adaptive.elimination import Fate, averaging, eliminate_far, keep_nearest
from tiers.adaptive.measures import saved_share
from tiers.adaptive.neighbours import nearest_bound
from tiers.adaptive.shapes import Disc, Polygon, distance_from
from tiers.adaptive.threshold import halfway, read_threshold
from tiers.adaptive.widths import (
    chi_width,
    chi_width_bound,
    confidence_each,
    gaussian_widths,
    laplace_width,
    tsg_width,
)
from tiers.noise.tsg import TwoSidedGeometric

Data = Mapping[str, Any]
SHAPES = {
    "disc c=(1,2) R=3": Disc((1.0, 2.0), 3.0),
    "poly (0,0)(4,0)(4,1)(1,1)(1,4)(0,4)": Polygon(
        ((0.0, 0.0), (4.0, 0.0), (4.0, 1.0), (1.0, 1.0), (1.0, 4.0), (0.0, 4.0))
    ),
}


def chi_quantiles(case: Data, checked: Checked) -> None:
    checked.close(chi_width_bound(case["d"], float(case["beta"])), case["lam"])
    checked.close(chi_width(case["d"], float(case["beta"])), case["lam_tight_chi"])


def averaged_rounds(case: Data, checked: Checked) -> None:
    rhos = np.array([[float(rho) for rho in case["rhos"]]])
    each = confidence_each(float(case["beta0"]), case["n"], rhos.shape[1])
    checked.close(each, case["beta_each"])
    widths = gaussian_widths(rhos, case["d"], each, bound=True)[0]
    for got, want in zip(widths, case["h"], strict=True):
        checked.close(got, want)
    kept = averaging(np.zeros(1, np.int32), rhos, widths[None])
    last = np.ones(rhos.shape[1])  # a running average gives each round what the later ones leave of it
    for place in range(rhos.shape[1]):
        last[place] = kept.weight[0, place] * np.prod(1 - kept.weight[0, place + 1 :])
    for got, want in zip(last, case["weights_last"], strict=True):
        checked.close(got, want)
    checked.close(kept.sigma[0, -1] ** 2, case["var_last"])


def bound_of_nearest(case: Data, checked: Checked) -> None:
    given = case["knn_bound"]
    got = nearest_bound(float(given["rho0"]), given["d"], float(given["beta"]), given["n"], bound=True)
    checked.close(got, case["bound"])


def pure_widths(case: Data, checked: Checked) -> None:
    epsilon, beta = Fraction(case["pure_widths"]["eps"]), Fraction(case["pure_widths"]["beta"])
    law = TwoSidedGeometric(epsilon)
    checked.close(laplace_width(float(epsilon), float(beta)), case["laplace_h"])
    checked.same(tsg_width(law, beta), case["tsg_h"])
    checked.close(2 * (1 - law.cdf(case["tsg_h"])), case["tsg_tail_beyond_h"])


def reallocated(case: Data, checked: Checked) -> None:
    rule, queries, budget = Reallocation(case["rule"]), case["m"], Fraction(case["B"])
    remaining = budget
    checked.same(len(case["trace"]), queries)
    for step, share in zip(case["trace"], case["used_fraction"], strict=True):
        checked.same(remaining, Fraction(step["remaining_before"]))
        given = allocation(rule, step["query"], queries, budget, remaining)
        checked.same(given, Fraction(step["allocation"]))
        checked.close(float(given), step["allocation_float"])
        checked.same(given * Fraction(share), Fraction(step["used"]))
        remaining -= given * Fraction(share)
    checked.same(remaining, Fraction(case["remaining_end"]))


def doubled(case: Data, checked: Checked) -> None:
    checked.same(case["split"], "doubling")
    checked.same([part * case["r"] for part in doubling_split(case["c"])], [Fraction(part) for part in case["parts"]])


def signed_distances(case: Data, checked: Checked) -> None:
    points = np.array(case["points"], np.float64)
    for got, want in zip(SHAPES[case["shape"]].signed_distance(points), case["proj"], strict=True):
        checked.close(got, want)


def kernels(case: Data, checked: Checked) -> None:
    distance, bandwidth, sigma = (float(case["kde"][name]) for name in ("dist", "b", "sigma"))
    dimensions = case["kde"]["d"]
    checked.close(math.exp(-((distance / bandwidth) ** 2) / 2), case["true"])
    checked.close(plug_in_mean(distance, bandwidth, sigma, dimensions), case["mean_of_plug_in"])
    for shown in case["debiased_value_at_noisy_dist"]:
        noisy = np.array([float(shown["noisy_dist"])])
        checked.close(unbiased_kernel(noisy, bandwidth, sigma, dimensions)[0], shown["value"])


def calibrated(case: Data, checked: Checked) -> None:
    given = case["eta_calibrated"]
    checked.close(calibrated_threshold(float(given["omega"]), float(given["sigma"]), given["d"]), case["eta"])


def left_out(case: Data, checked: Checked) -> None:
    checked.same(case["kde_elimination"]["nu_high_over_b"], FAR)
    checked.close(LEFT_OUT, case["max_contribution_per_point"])


def pie(case: Data, checked: Checked) -> None:
    x, r = np.array(case["x"], np.float64), np.array(case["r"], np.float64)
    noise = np.array(case["noise"], np.float64)
    people, rounds = r.shape
    away = Disc((0.0, 0.0), 4.0).signed_distance if "NI" in case["algorithm"] else _from_origin
    point = {"point": True, "dist": False}[case["mode"]]
    values, dimensions = (x, 2) if point else (away(x), 1)

    def release(place: int, who: People) -> tuple[np.ndarray, np.ndarray]:
        scale = 1 / np.sqrt(2 * r[who, place])
        return values[who] + noise[who, place] * (scale[:, None] if point else scale), np.ones(len(who), np.bool_)

    each = confidence_each(float(case["beta0"]), people, rounds)
    widths = gaussian_widths(r, dimensions, each, bound=not case["tight_h"])
    intervals = averaging(np.arange(people, dtype=np.int32), r, widths)
    estimate = away if point else (lambda shown: shown)
    if case["algorithm"] == "PIE-NI (disc radius 4 at origin, nu=0)":
        ended = eliminate_far(intervals, release, estimate)
        left = [sorted(case["S0"]), sorted(case["S1"])]
        checked.same([ended.of(fate).tolist() for fate in (Fate.ABOVE, Fate.BELOW)], left)
        checked.same(read_count(ended, intervals).estimate, case["count"])
    else:
        checked.same(case["algorithm"], "PIE-k (k=2, p=origin)")
        ended = keep_nearest(intervals, release, estimate, 2)
    checked.same(ended.rounds, case["jhat"])
    checked.same(ended.of(Fate.UNDECIDED).tolist(), case["G"])
    survivors = [ended.survivors(place).tolist() for place in range(1, ended.rounds + 1)]
    checked.same(survivors, case["survivors_per_round"])
    spent = [float(r[person, : ended.answered[person]].sum()) for person in range(people)]
    for got, want in zip(spent, case["spent"], strict=True):
        checked.close(got, want)
    for person, want in case["estimates"].items():
        checked.close(ended.estimate[int(person)], want)
    checked.close(saved_share(spent, r.sum(axis=1)), case["PrivSav"])


def _from_origin(points: np.ndarray) -> np.ndarray:
    return distance_from((0.0, 0.0), points)


def simulated_kernel(case: Data, checked: Checked) -> None:
    """The named numbers are in the statistic's text: dist 1.3, b 1, σ 0.4 in two dimensions."""
    checked.same([case["statistic"], case["N"]], ["KDE debiased, dist=1.3 b=1 sigma=0.4 d=2", 200_000])
    checked.close(case["z"], Fraction(9, 2))
    checked.same(case["sd"], "use sample sd")
    noisy = np.array([1.3, 0.0]) + 0.4 * np.random.default_rng(11).standard_normal((case["N"], 2))
    terms = unbiased_kernel(np.hypot(noisy[:, 0], noisy[:, 1]), 1.0, 0.4, 2)
    checked.close(math.exp(-(1.3**2) / 2), case["expected"])
    miss = abs(terms.mean() - float(case["expected"])) / (terms.std() / math.sqrt(case["N"]))
    checked.same(miss <= float(case["z"]), True)


def simulated_eliminations(case: Data, checked: Checked) -> None:
    """Failures of PIE-NI and PIE-k over N runs: wrong decisions, or one of the k best lost."""
    beta0, runs = 0.2, case["N"]
    checked.same(
        [case["statistic"], case["expected"], case["N"]],
        ["PIE-NI / PIE-k error event frequency", "<= beta0", 600],
    )
    checked.same(
        case["rule"],
        "binomial: failures <= N*beta0 + 4.5*sqrt(N*beta0*(1-beta0)); measured here 0-2 of 600 at beta0=0.2",
    )
    allowed = runs * beta0 + 4.5 * math.sqrt(runs * beta0 * (1 - beta0))
    generator = np.random.default_rng(5)
    wrong = {"NI": 0, "k": 0}
    rounds, people, nearest = 4, 30, 3
    r = np.tile(np.array([float(part) for part in doubling_split(rounds)]), (people, 1))
    intervals = averaging(
        np.arange(people, dtype=np.int32), r, gaussian_widths(r, 1, confidence_each(beta0, people, rounds))
    )
    for _ in range(runs):
        phi = generator.normal(0, 3, people)
        noise = generator.standard_normal((people, rounds)) / np.sqrt(2 * r)

        def release(place: int, who: People) -> tuple[np.ndarray, np.ndarray]:
            return phi[who] + noise[who, place], np.ones(len(who), np.bool_)  # noqa: B023

        far = eliminate_far(intervals, release, lambda shown: shown)
        wrong["NI"] += bool((phi[far.of(Fate.BELOW)] >= 0).any() or (phi[far.of(Fate.ABOVE)] <= 0).any())
        kept = keep_nearest(intervals, release, lambda shown: shown, nearest).of(Fate.UNDECIDED)
        wrong["k"] += not set(np.argsort(phi)[:nearest]) <= set(kept)
    checked.same(wrong["NI"] <= allowed, True)
    checked.same(wrong["k"] <= allowed, True)


def threshold(case: Data, checked: Checked) -> None:
    r, noise = np.array(case["r"], np.float64), np.array(case["noise"], np.float64)
    at = case["q"] * case["N"]
    assert at.denominator == 1, "a whole threshold"

    def release(place: int, who: People) -> tuple[np.ndarray, np.ndarray]:
        return case["true_count"] + noise[who, place] / np.sqrt(2 * r[who, place]), np.ones(len(who), np.bool_)

    each = confidence_each(float(case["beta0"]), 1, r.shape[1])
    intervals = averaging(np.zeros(1, np.int32), r, gaussian_widths(r, 1, each, bound=not case["tight_h"]))
    bound = halfway(int(at))
    ended = eliminate_far(intervals, release, lambda shown: shown, low=bound, high=bound)
    wanted = [case[name] for name in ("S0", "S1", "G")]
    checked.same([ended.of(fate).tolist() for fate in (Fate.ABOVE, Fate.BELOW, Fate.UNDECIDED)], wanted)
    checked.same(ended.rounds, case["jhat"])
    checked.same(case["algorithm"], "threshold query (Algorithm 9): answer = 1{|H|<qN}")
    answer = read_threshold(ended, int(at))
    checked.same(int(answer.below), case["answer"])
    checked.same(answer.below, case["true_count"] < at)
    checked.close(saved_share([r[0, : answer.rounds].sum()], r.sum(axis=1)), case["PrivSav"])
