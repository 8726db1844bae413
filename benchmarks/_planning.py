"""The rows of `chain` on plans, the product's own drawing functions, and exact (ε, δ) beside other accountants.

Everything here is the product path: `plan`, `draw_chain`, `draw_arrays`, `gaussian_epsilon`, `Skellam.epsilon_at`.
"""

import math
import os
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from benchmarks.row import Row, at_least, at_most, beside
from benchmarks.sampling import interleaved
from tiers.accounting.gaussian import gaussian_epsilon, gaussian_mu
from tiers.budget import Ladder
from tiers.chain import ChainPlan, draw_arrays, draw_chain, plan, specs
from tiers.identity import stream_key
from tiers.noise import hockey
from tiers.noise.skellam import Skellam
from tiers.real import precision
from tiers.sensitivity import ChangeSet

TEN = ("5", "4", "3", "2", "1.5", "1", "0.75", "0.5", "0.25", "0.1")
FIVE = ("2", "1", "0.5", "0.25", "0.1")
MICRO = "0.000001"
PLANS: dict[str, tuple[ChangeSet, str, str]] = {
    "pure, sensitivity 1": (ChangeSet.scalar(1), "auto", "0"),
    "pure, sensitivity 4, two families": (ChangeSet.scalar(4), "auto", "0"),
    "multi-scale, sensitivity 64": (ChangeSet.scalar(64), "msdlap", "0"),
    "pure, 2 bins by 10, 15 in all": (ChangeSet(2, 10, 15), "auto", "0"),
    "δ = 1e-6": (ChangeSet.scalar(1), "auto", MICRO),
    "two-sided geometric, δ = 1e-6, 500 bins by 1": (ChangeSet(500, 1, 500), "tsg", MICRO),
    "δ = 1e-6, 2 bins by 10, 15 in all": (ChangeSet(2, 10, 15), "auto", MICRO),
    "δ = 1e-6, 4 bins by 4, 10 in all": (ChangeSet(4, 4, 10), "auto", MICRO),
    "Skellam, δ = 1e-6": (ChangeSet.scalar(1), "skellam", MICRO),
    "Skellam, δ = 1e-6, sensitivity 16": (ChangeSet.scalar(16), "skellam", MICRO),
    "Skellam, δ = 1e-6, sensitivity 64": (ChangeSet.scalar(64), "skellam", MICRO),
    "Skellam, δ = 1e-6, 2 bins by 10, 15 in all": (ChangeSet(2, 10, 15), "skellam", MICRO),
    "discrete Gaussian with slack, δ = 1e-6, sensitivity 16": (ChangeSet.scalar(16), "discrete-gaussian", MICRO),
}
RATES = {1: 10, 100: 50, 10_000: 150}
CELLS_MANY = 1_000_000

EXPECTED = [
    *(f"plan of 10 tiers, nothing kept: {name}" for name in PLANS),
    "plan of 10 tiers, kept",
    "one scalar answer at 5 tiers through draw_chain, keys ready",
    "one scalar answer at 5 tiers through draw_chain, with key derivations",
    "5 tiers on 1e6 cells through draw_arrays: × five independent insecure numpy draws",
    "exact ε of 20 Gaussians at δ = 1e-6: × OpenDP's zCDP route",
    "exact ε of one Gaussian at δ = 1e-6: × OpenDP's zCDP route",
    "exact ε of 20 Gaussians: relative error",
    *(f"exact ε of Skellam λ = {rate} at δ = 1e-6: × dp-accounting from pmfs" for rate in RATES),
    *(f"exact ε of Skellam λ = {rate}: relative error" for rate in RATES),
]


def rows(runs: int) -> list[Row]:
    """Measure every row of `EXPECTED`."""
    return [*_plans(runs), *_drawing(runs), *_gaussians(runs), *_skellams(runs)]


def forget() -> None:
    """Empty every cache of the package, so that the next plan is made from nothing."""
    for name, module in list(sys.modules.items()):
        for value in vars(module).values() if name.startswith("tiers.") else ():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _plans(runs: int) -> list[Row]:
    ladder, found = Ladder.parse(TEN), []
    for name, (change, family, delta) in PLANS.items():
        slack = family == "discrete-gaussian"

        def warm(
            change: ChangeSet = change, family: str = family, delta: str = delta, slack: bool = slack
        ) -> ChainPlan:
            return plan(ladder, change, family, delta, allow_slack=slack)

        def cold(made: Callable[[], ChainPlan] = warm) -> object:
            forget()
            return made()

        (spent,) = interleaved(runs, (cold, 1_000_000))
        chosen = [tier.law.noise.family for tier in warm().tiers]
        how = ", ".join(f"{chosen.count(each)} {each}" for each in dict.fromkeys(chosen))
        found.append(at_most(f"plan of 10 tiers, nothing kept: {name}", spent, 100, "ms", how))
    change = ChangeSet.scalar(1)

    def hundred() -> None:
        for _ in range(100):
            plan(ladder, change)

    (kept,) = interleaved(runs, (hundred, 100_000))
    return [*found, at_most("plan of 10 tiers, kept", kept, 50, "µs", "the same call again")]


def _drawing(runs: int) -> list[Row]:
    ladder = Ladder.parse(FIVE)
    draws = specs("0" * 64, plan(ladder, 1), epoch=1, grain=0, length=1)
    secret = os.urandom(32)
    ready = {id(spec): stream_key(secret, spec) for spec in draws}

    def many(work: Callable[[], object]) -> Callable[[], None]:
        def repeated() -> None:
            for _ in range(100):
                work()

        return repeated

    bare, whole = interleaved(
        runs,
        (many(lambda: draw_chain([7], draws, lambda spec: ready[id(spec)])), 100_000),
        (many(lambda: draw_chain([7], draws, lambda spec: stream_key(secret, spec))), 100_000),
    )
    truth = np.arange(CELLS_MANY, dtype=np.int64)
    results = np.empty((len(FIVE), CELLS_MANY), np.int64)
    wide = specs("0" * 64, plan(ladder, 1), epoch=1, grain=0, length=CELLS_MANY)
    generator = np.random.default_rng(1)
    shares = [-math.expm1(-float(epsilon)) for epsilon in ladder]
    ours, numpy = interleaved(
        runs,
        (lambda: draw_arrays(truth, wide, lambda _: os.urandom(32), results), CELLS_MANY),
        (
            lambda: [truth + generator.geometric(p, CELLS_MANY) - generator.geometric(p, CELLS_MANY) for p in shares],
            CELLS_MANY,
        ),
    )
    return [
        at_most("one scalar answer at 5 tiers through draw_chain, keys ready", bare, 50, "µs", "by digits"),
        beside("one scalar answer at 5 tiers through draw_chain, with key derivations", whole, "µs", "HKDF, documents"),
        at_least(
            "5 tiers on 1e6 cells through draw_arrays: × five independent insecure numpy draws",
            numpy / ours, 7, "×", f"{ours:.1f} ns a cell for all five against {numpy:.0f} ns",
        ),
    ]  # fmt: skip


def _gaussians(runs: int) -> list[Row]:
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    sigmas = [Fraction(5) + Fraction(25, 19) * place for place in range(20)]
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="f64")

    def build(chosen: list[Fraction]) -> Any:
        steps = [dp.m.make_gaussian(*space, scale=float(sigma)) for sigma in chosen]
        release = dp.c.make_composition(steps) if len(steps) > 1 else steps[0]
        return dp.c.make_zCDP_to_approxDP(release)

    def mu_of(chosen: list[Fraction]) -> float:
        return gaussian_mu([1 / (2 * sigma**2) for sigma in chosen])

    found = []
    for name, chosen in (("20 Gaussians", sigmas), ("one Gaussian", sigmas[:1])):
        made, mu = build(chosen), mu_of(chosen)
        mine, other, mine_whole, other_whole = interleaved(
            runs,
            (lambda each=mu: [gaussian_epsilon(each, 1e-6) for _ in range(50)], 50_000),
            (lambda each=made: each.map(1.0).epsilon(1e-6), 1000),
            (lambda each=chosen: gaussian_epsilon(mu_of(each), 1e-6), 1000),
            (lambda each=chosen: build(each).map(1.0).epsilon(1e-6), 1000),
        )
        loose = made.map(1.0).epsilon(1e-6) / gaussian_epsilon(mu, 1e-6) - 1
        how = f"{mine:.1f} µs against {other:.0f}, both composed before; theirs is {loose:.1%} too large"
        row = f"exact ε of {name} at δ = 1e-6: × OpenDP's zCDP route"
        found.append(at_least(row, other / mine, 400, "×", how))
        how = f"{mine_whole:.0f} µs from exact rationals against {other_whole:.0f}"
        found.append(beside(f"the same of {name}, composition included", other_whole / mine_whole, "×", how))
    error = _gaussian_error(sigmas, gaussian_epsilon(mu_of(sigmas), 1e-6))
    how = "proved in balls: δ(ε) ≤ 1e-6 < δ(ε·(1 − 1e-12))"
    return [*found, at_most("exact ε of 20 Gaussians: relative error", error, 1e-12, "", how)]


def _gaussian_error(sigmas: list[Fraction], epsilon: float) -> float:
    """Return 10⁻¹² if balls prove that the exact ε lies within it below `epsilon`, else infinity."""
    square = sum(1 / sigma**2 for sigma in sigmas)
    with precision(256):
        mu = (arb(square.numerator) / arb(square.denominator)).sqrt()

        def delta(at: arb) -> arb:
            high, low = at / mu + mu / 2, at / mu - mu / 2
            return ((low / arb(2).sqrt()).erfc() - at.exp() * (high / arb(2).sqrt()).erfc()) / 2

        exact, wanted = arb(epsilon), arb(1e-6)
        holds = delta(exact) <= wanted and delta(exact * (1 - arb(10) ** -12)) > wanted
    return 1e-12 if holds else math.inf


def _skellams(runs: int) -> list[Row]:
    from dp_accounting.pld import privacy_loss_distribution

    change, wanted, found = ChangeSet.scalar(1), Fraction(1, 10**6), []
    for rate, bar in RATES.items():
        law = Skellam(Fraction(rate))
        lower, upper = _pmfs(rate)

        def theirs(lower: Any = lower, upper: Any = upper) -> float:
            made = privacy_loss_distribution.from_two_probability_mass_functions(lower, upper)
            return float(made.get_epsilon_for_delta(1e-6))

        def ours(law: Skellam = law) -> float:
            return law.epsilon_at(wanted, change)

        forget()
        (cold,) = interleaved(1, (lambda each=ours: (forget(), each()), 1000))
        mine, other = interleaved(runs, (lambda each=ours: [each() for _ in range(50)], 50_000), (theirs, 1000))
        loose = theirs() / ours() - 1
        how = f"{mine:.0f} µs ({cold:.0f} with its table) against {other:.0f}; theirs is {loose:.1e} too large"
        name = f"exact ε of Skellam λ = {rate} at δ = 1e-6: × dp-accounting from pmfs"
        found.append(at_least(name, other / mine, bar, "×", how))
    return [*found, *_skellam_errors()]


def _skellam_errors() -> list[Row]:
    change, wanted, found = ChangeSet.scalar(1), Fraction(1, 10**6), []
    for rate in RATES:
        law = Skellam(Fraction(rate))
        epsilon = Fraction(law.epsilon_at(wanted, change))
        below = epsilon * (1 - Fraction(1, 10**12))
        certain = law.delta(epsilon, change) <= 1e-6 * (1 + 1e-11) and _certain_above(law, below)
        how = "certified table: δ(ε) ≤ 1e-6 < δ(ε·(1 − 1e-12))"
        error = 1e-12 if certain else math.inf
        found.append(at_most(f"exact ε of Skellam λ = {rate}: relative error", error, 1e-12, "", how))
    return found


def _certain_above(law: Skellam, epsilon: Fraction) -> bool:
    """Return whether certainly δ(ε) > 10⁻⁶: the table's value less all that it may be off by."""
    bits = 192
    value, error = hockey.delta_units(law.tails(bits), 1, hockey.gamma_units(epsilon, bits))
    return (value - error) * 10**6 > 1 << bits


def _pmfs(rate: int) -> tuple[dict[int, float], dict[int, float]]:
    """Return what dp-accounting reads: log pmfs of Skellam(rate) and of it shifted by 1, on 12 deviations."""
    from scipy import special

    reach = int(12 * math.sqrt(2 * rate) + 40)
    places = np.arange(-reach, reach + 1)
    logs = np.log(np.maximum(special.ive(np.abs(places), 2 * rate), 1e-300)).tolist()
    return dict(zip(places.tolist(), logs, strict=True)), dict(zip((places + 1).tolist(), logs, strict=True))
