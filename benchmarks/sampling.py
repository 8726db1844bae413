"""Exact noise against the exact and the insecure samplers of others: CPU time, both sides in one process.

Every ratio is the median of interleaved pairs: the peer, then ours, then again, so that a change of the machine's pace
meets both. Ours draws from a fresh key each time (as every draw of the product does), straight onto counts into a
preallocated array; peers are called as their documentation shows.
"""

# ruff: noqa: B023 - every closure below runs before its loop goes on

import math
import os
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from statistics import median
from typing import Any

import numpy as np

from benchmarks.row import Row, at_least, at_most, beside
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sampling.cells import cell_sampler
from tiers.sampling.choose import CELLS, GRID, sampler_for, sampler_named, vector_sampler
from tiers.sampling.digits import digit_sampler
from tiers.sampling.grid import grid_sampler
from tiers.sampling.survival import _skellam_survivals, skellam_law, tsg_law, zero_inflated_law
from tiers.sampling.words import KeyedWords

EPSILONS = ("0.01", "0.1", "1", "5")
RATES = (1, 100, 10**4)
LARGE_RATES = (10**6, 10**8, 10**12)
LENGTHS = (100_000, 1_000_000)

EXPECTED = [
    *(
        f"exact TSG vector, n = {n}, ε = {epsilon}: × {peer}"
        for n in LENGTHS
        for epsilon in EPSILONS
        for peer in ("OpenDP make_laplace i64", "python-dp", "numpy's insecure geometric difference")
    ),
    *(f"exact TSG vector, n = 1000, ε = {epsilon}: × OpenDP make_laplace i64" for epsilon in EPSILONS),
    *(
        f"{what}, ε = {epsilon}: × {peer}"
        for epsilon in EPSILONS
        for what in ("one draw by digits", "a vector of 16")
        for peer in ("python-dp", "OpenDP's scalar call")
    ),
    *(f"fused residual draw added to 1e6 counts, ε = {epsilon}: × a plain TSG draw" for epsilon in EPSILONS),
    *(f"exact Skellam vector, λ = {rate}: × scipy's insecure skellam.rvs" for rate in (*RATES, *LARGE_RATES)),
    "exact Skellam vector, λ = 10¹² against 10⁸: flat cost",
    "cold table, TSG ε = 0.01",
    "cold table, Skellam λ = 10⁴",
    "lattice Laplace on grid 2^-20: × OpenDP f64 Laplace",
    "lattice Laplace on grid 2^-20: × numpy laplace",
    "lattice Gaussian, σ = 1024 steps: × OpenDP f64 Gaussian",
]


def cpu(work: Callable[[], object], items: int) -> float:
    """Return the CPU nanoseconds an item of one run; short works are repeated until a run takes 10 ms."""
    start = time.process_time_ns()
    work()
    spent = time.process_time_ns() - start
    times = max(1, min(20_000, 10_000_000 // max(spent, 1)))
    if times > 1:
        start = time.process_time_ns()
        for _ in range(times):
            work()
        spent = time.process_time_ns() - start
    return spent / times / items


def interleaved(runs: int, *works: tuple[Callable[[], object], int]) -> list[float]:
    """Return the median nanoseconds an item of each work, all works in turn, `runs` times after a warm-up."""
    for work, _ in works:
        work()
    seen = [[cpu(work, items) for work, items in works] for _ in range(runs)]
    return [median(column) for column in zip(*seen, strict=True)]


def rows(quick: bool) -> list[Row]:
    """Measure every row of the table."""
    warnings.filterwarnings("ignore")  # peers warn of their own deprecations
    import opendp.prelude as dp

    dp.enable_features("contrib")
    runs = 3 if quick else 5
    found = []
    for part in (_tsg_vectors, _single_draws, _residuals, _skellam, _cold_tables, _grids):
        found += part(dp, runs)
    return found


def fresh() -> KeyedWords:
    return KeyedWords(os.urandom(32))


def _tsg_vectors(dp: Any, runs: int) -> list[Row]:
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    generator, found = np.random.default_rng(1), []
    for epsilon in EPSILONS:
        law, p = TwoSidedGeometric(Fraction(epsilon)), -math.expm1(-float(epsilon))
        opendp = dp.m.make_laplace(
            dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=1 / float(epsilon)
        )
        pydp = LaplaceMechanism(float(epsilon), 1.0)
        small = np.zeros(20_000, np.int64)  # OpenDP's cost an element is the same from 1,000 elements on
        for n in (1000, *LENGTHS):
            sampler = vector_sampler(sampler_for(law, n), law)
            counts, out = np.zeros(n, np.int64), np.empty(n, np.int64)
            ours, theirs, loop, numpy = interleaved(
                runs,
                (lambda: sampler.perturb(fresh(), counts, out), n),
                (lambda: opendp(counts[: len(small)]), min(n, len(small))),
                (lambda: [pydp.add_noise(5) for _ in range(3000)], 3000),
                (lambda: generator.geometric(p, n) - generator.geometric(p, n), n),
            )
            how = f"{ours:.2f} ns a draw against {{:.4g}} ns"
            name = f"exact TSG vector, n = {n}, ε = {epsilon}: × "
            if n == 1000:
                bar = 500 if float(epsilon) >= 1 else 250
                found.append(at_least(name + "OpenDP make_laplace i64", theirs / ours, bar, "×", how.format(theirs)))
                continue
            found += [
                at_least(name + "OpenDP make_laplace i64", theirs / ours, 2000, "×", how.format(theirs)),
                at_least(name + "python-dp", loop / ours, 800, "×", how.format(loop)),
                at_least(name + "numpy's insecure geometric difference", numpy / ours, 4, "×", how.format(numpy)),
            ]
    return found


def _single_draws(dp: Any, runs: int) -> list[Row]:
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    found = []
    for epsilon in EPSILONS:
        law = TwoSidedGeometric(Fraction(epsilon))
        digits, sixteen = digit_sampler(law), sampler_named(sampler_for(law, 16), law)
        opendp = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=1 / float(epsilon))
        pydp, keys = LaplaceMechanism(float(epsilon), 1.0), [os.urandom(32) for _ in range(64)]
        words = KeyedWords(keys[0])
        next(words.tail(0))  # its cipher stands ready
        one, vector, ours_again, loop, scalar = interleaved(
            runs,
            (lambda: [digits.draw_alone(key) for key in keys], 64),
            (lambda: [sixteen.draw(KeyedWords(key), 16) for key in keys], 64),
            (lambda: [digits.draw_one(words, element) for element in range(64)], 64),
            (lambda: [pydp.add_noise(5) for _ in range(640)], 640),
            (lambda: [opendp(5) for _ in range(64)], 64),
        )
        how = f"{one:.0f} ns, a key of its own, against {{:.0f}} ns"
        found += [
            at_least(f"one draw by digits, ε = {epsilon}: × python-dp", loop / one, 1, "×", how.format(loop)),
            at_least(
                f"one draw by digits, ε = {epsilon}: × OpenDP's scalar call", scalar / one, 20, "×", how.format(scalar)
            ),
            at_least(
                f"a vector of 16, ε = {epsilon}: × python-dp",
                16 * loop / vector,
                8,
                "×",
                f"{vector:.0f} ns ({sampler_for(law, 16)}) against {16 * loop:.0f} ns",
            ),
            at_least(
                f"a vector of 16, ε = {epsilon}: × OpenDP's scalar call",
                16 * scalar / vector,
                180,
                "×",
                f"{vector:.0f} ns against {16 * scalar:.0f} ns",
            ),
            beside(
                f"one draw by digits, one key for many, ε = {epsilon}: × python-dp",
                loop / ours_again,
                "×",
                f"{ours_again:.0f} ns: what is left without setting up a cipher",
            ),
        ]
    return found


def _residuals(_: Any, runs: int) -> list[Row]:
    n, found = 1_000_000, []
    counts, out = np.zeros(n, np.int64), np.empty(n, np.int64)
    for epsilon in EPSILONS:
        lower = TwoSidedGeometric(Fraction(epsilon))
        plain = vector_sampler(CELLS, lower)
        residual = vector_sampler(CELLS, TwoSidedGeometric(4 * lower.rate).residual_to(lower))
        ours, base = interleaved(
            runs,
            (lambda: residual.perturb(fresh(), counts, out), n),
            (lambda: plain.perturb(fresh(), counts, out), n),
        )
        name = f"fused residual draw added to 1e6 counts, ε = {epsilon}: × a plain TSG draw"
        found.append(at_most(name, ours / base, 1.3, "×", f"{ours:.2f} ns against {base:.2f} ns"))
    return found


def _skellam(_: Any, runs: int) -> list[Row]:
    from scipy.stats import skellam

    n, found, costs = 200_000, [], {}
    counts, out = np.zeros(n, np.int64), np.empty(n, np.int64)
    for rate in (*RATES, *LARGE_RATES):
        large = rate in LARGE_RATES
        law = Skellam(Fraction(rate))
        sampler = vector_sampler(sampler_for(law, n), law)
        ours, scipy = interleaved(
            runs,
            (lambda: sampler.perturb(fresh(), counts, out), n),
            (lambda: skellam.rvs(rate, rate, size=n), n),
        )
        costs[rate] = ours
        name, bar = f"exact Skellam vector, λ = {rate}: × scipy's insecure skellam.rvs", 3 if large else 15
        how = f"{ours:.2f} ns ({sampler_for(law, n)}) against {scipy:.1f} ns"
        found.append(at_least(name, scipy / ours, bar, "×", how))
    flat = costs[10**12] / costs[10**8]
    found.append(at_most("exact Skellam vector, λ = 10¹² against 10⁸: flat cost", flat, 1.2, "×", "by slabs"))
    return found


def _cold_tables(_: Any, runs: int) -> list[Row]:
    def skellam() -> None:
        _skellam_survivals.cache_clear()
        cell_sampler(skellam_law(Fraction(10**4)))

    hundredth = TwoSidedGeometric(Fraction(1, 100))
    residual = TwoSidedGeometric(Fraction(4, 100)).residual_to(hundredth)
    laplace, poisson, step = interleaved(
        2 * runs,
        (lambda: cell_sampler(tsg_law(hundredth)), 1_000_000),
        (skellam, 1_000_000),
        (lambda: cell_sampler(zero_inflated_law(residual)), 1_000_000),
    )
    return [
        at_most("cold table, TSG ε = 0.01", laplace, 10, "ms", "certified thresholds and cells"),
        at_most("cold table, Skellam λ = 10⁴", poisson, 10, "ms", "certified recurrence, no Bessel function"),
        beside("cold table, residual ε = 0.04 → 0.01", step, "ms", "one fused table"),
    ]


def _grids(dp: Any, runs: int) -> list[Row]:
    n, generator = 200_000, np.random.default_rng(1)
    counts, out, few = np.zeros(n, np.int64), np.empty(n, np.int64), np.zeros(5000)
    domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False))
    laplace = dp.m.make_laplace(domain, dp.l1_distance(T="f64"), scale=1.0)
    gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=1024.0)
    grid, normal = grid_sampler(Fraction(1, 2**20)), cell_sampler(skellam_law(Fraction(2**19)))
    ours, bell, theirs, their_bell, numpy = interleaved(
        runs,
        (lambda: grid.perturb(fresh(), counts, out), n),
        (lambda: normal.perturb(fresh(), counts, out), n),
        (lambda: laplace(few), len(few)),
        (lambda: gaussian(few), len(few)),
        (lambda: generator.laplace(size=n), n),
    )
    name, how = "lattice Laplace on grid 2^-20: × ", f"{ours:.2f} ns ({GRID}) against {{:.1f}} ns"
    return [
        at_least(name + "OpenDP f64 Laplace", theirs / ours, 1500, "×", how.format(theirs)),
        at_least(name + "numpy laplace", numpy / ours, 1, "×", how.format(numpy)),
        at_least(
            "lattice Gaussian, σ = 1024 steps: × OpenDP f64 Gaussian",
            their_bell / bell,
            500,
            "×",
            f"{bell:.2f} ns ({CELLS}) against {their_bell:.0f} ns",
        ),
    ]
