"""Queries that spend only what the data make them: how often they fail, what they save, and how fast they are."""

import math
import resource
import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from app.adaptive.data import uniforms
from app.adaptive.experiments import savings
from benchmarks.row import Row, at_most, beside
from tiers.accounting.charges import LedgerKind
from tiers.accounting.filters import ZCDPFilter
from tiers.accounting.people import PeopleLedger
from tiers.adaptive.budgeting import doubling_split, even_split
from tiers.adaptive.elimination import Fate, averaging, eliminate_far, keep_nearest
from tiers.adaptive.queries import Plan, count_inside
from tiers.adaptive.release import keyed_streams
from tiers.adaptive.rounds import Mode, round_law
from tiers.adaptive.shapes import Disc, Polygon
from tiers.adaptive.space import Space
from tiers.adaptive.threshold import halfway
from tiers.adaptive.tiers import TierRounds, tier_intervals, tier_laws
from tiers.adaptive.widths import confidence_each, lattice_widths
from tiers.budget import NANO, Ladder

__all__ = ["EXPECTED", "rows"]

BETA = 0.1
FAILURES = ("range (PIE-NI, distances)", "range (PIE-NI, points)", "nearest (PIE-k)", "threshold (tier chain)")
SPEEDS = (
    "PIE-NI, 10⁶ people × 10 rounds: time",
    "PIE-NI, 10⁶ people × 10 rounds: peak memory",
    "100 polygons of 100 vertices × 10⁶ points: time",
    "100 polygons of 100 vertices × 10⁶ points: memory above the points",
    "a filter's decision",
    "a filter's decision, one of 10⁶ people at once",
)
SAVINGS = ("count", "density", "nearest")
EXPECTED = (
    *(f"{name}: failures above β, exact binomial test" for name in FAILURES),
    *(f"{name}: share of the budget saved" for name in SAVINGS),
    *SPEEDS,
)
SPACE = Space((Fraction(0), Fraction(0)), Fraction(1, 100), (10_001, 10_001))


def rows(quick: bool) -> list[Row]:
    """Measure; `quick` takes fewer runs and people, and says so."""
    return [*_failures(1000 if quick else 10_000), *_savings(quick), *_speeds(quick)]


def _failures(runs: int) -> list[Row]:
    """Failures are wrong decisions (or one of the k nearest lost); the bar is on the test's p value against β."""
    found = []
    for name, count in zip(FAILURES, (_far(runs, 1), _far(runs, 2), _near(runs), _threshold(runs)), strict=True):
        p = binomtest(count, runs, BETA, alternative="greater").pvalue
        how = f"{count} of {runs} runs failed, β = {BETA}; p = {p:.3g} that they exceed it by chance"
        found.append(at_most(f"{name}: failures above β, exact binomial test", count / runs, BETA, "", how))
        assert p > 1e-3, name
    return found


def _far(runs: int, dimensions: int, people: int = 20, rounds: int = 4) -> int:
    """All runs at once: a person's rounds do not depend on others, and widths are those of one run."""
    generator = np.random.default_rng(dimensions)
    budget = NANO // 2
    mode = Mode.DISTANCE if dimensions == 1 else Mode.POINT
    laws = [round_law(math.floor(budget * part), SPACE, mode) for part in doubling_split(rounds)]
    sigmas, step = [law.sigma for law in laws], float(SPACE.step)
    widths = np.array([lattice_widths(sigmas, dimensions, step, confidence_each(BETA, people, rounds))])
    classes = np.zeros(runs * people, np.int32)
    intervals = averaging(classes, np.array([[law.precision(SPACE.step) for law in laws]]), widths)
    border = generator.choice(widths[0], len(classes)) * generator.choice([-1, 1], len(classes))
    if dimensions == 1:  # people sit where an interval just does or does not reach the border: the worst places
        true = border * generator.uniform(0.0, 1.2, len(classes))
        values = np.floor(true / step + 0.5).astype(np.int64)
        ended = eliminate_far(intervals, _released(values, laws, step), lambda shown: shown)
    else:
        true = border * generator.uniform(0.0, 1.2, len(classes))
        points = np.column_stack([50 + true, generator.uniform(0, 100, len(classes))])
        values = np.floor(points / step + 0.5).astype(np.int64)
        ended = eliminate_far(intervals, _released(values, laws, step), lambda shown: shown[:, 0] - 50)
    wrong = ((ended.fate == Fate.BELOW) & (true >= 0)) | ((ended.fate == Fate.ABOVE) & (true <= 0))
    return int(wrong.reshape(runs, people).any(axis=1).sum())


def _released(
    values: npt.NDArray[np.int64], laws: list, step: float
) -> Callable[[int, npt.NDArray[np.intp]], tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]]:
    """Rounds of exact lattice draws for everybody, shown to whoever is asked."""
    from tiers.noise.lattice_gaussian import LatticeGaussian
    from tiers.sampling.choose import sampler_for, vector_sampler

    streams = keyed_streams(bytes(32), "benchmark")
    shown = []
    for place, law in enumerate(laws):
        flat = values.reshape(-1).copy()
        noise = LatticeGaussian(Fraction(law.sigma))
        words = streams({"round": str(place), "law": str(law.sigma), "size": str(values.size)})
        vector_sampler(sampler_for(noise, len(flat)), noise).add_to(words, flat, flat)
        shown.append(flat.reshape(values.shape) * step)
    return lambda place, who: (shown[place][who], np.ones(len(who), np.bool_))


def _near(runs: int, people: int = 20, rounds: int = 4, nearest: int = 3) -> int:
    generator = np.random.default_rng(9)
    laws = [round_law(math.floor(NANO * part), SPACE, Mode.DISTANCE) for part in doubling_split(rounds)]
    step, wrong = float(SPACE.step), 0
    widths = np.array([lattice_widths([law.sigma for law in laws], 1, step, confidence_each(BETA, people, rounds))])
    intervals = averaging(np.zeros(people, np.int32), np.array([[law.precision(SPACE.step) for law in laws]]), widths)
    true = np.abs(generator.normal(0, 4, (runs, people)))
    shown = _released(np.floor(true / step + 0.5).astype(np.int64), laws, step)
    whole = [shown(place, np.arange(runs))[0] for place in range(rounds)]
    for run in range(runs):
        ended = keep_nearest(
            intervals,
            lambda place, who, run=run: (whole[place][run, who], np.ones(len(who), np.bool_)),
            lambda values: values,
            nearest,
        )
        best = np.argsort(true[run])[:nearest]
        wrong += not bool((ended.fate[best] == Fate.UNDECIDED).all())
    return wrong


def _threshold(runs: int) -> int:
    """Each run is one count and one chain; wrong is a decided answer on the wrong side."""
    ladder, at = Ladder.parse(["0.08", "0.04", "0.02", "0.01"]), 1000
    counts = np.random.default_rng(4).integers(at - 300, at + 300, runs)
    rounds = TierRounds(
        counts.astype(np.int64),
        ladder,
        PeopleLedger.even(LedgerKind.PURE, runs, Fraction(8, 100)),
        keyed_streams(bytes(32), "threshold"),
    )
    intervals = tier_intervals(tier_laws(ladder), runs, 1.0, BETA / len(ladder))
    ended = eliminate_far(intervals, rounds, lambda shown: shown, low=halfway(at), high=halfway(at))
    wrong = ((ended.fate == Fate.BELOW) & (counts >= at)) | ((ended.fate == Fate.ABOVE) & (counts < at))
    return int(wrong.sum())


def _savings(quick: bool) -> list[Row]:
    people = 2000 if quick else 20_000
    found = []
    for row in savings(people=people, budgets=("0.1", "1", "10"), split="doubling10", mode="distance"):
        if row.budget == "1":
            how = (
                f"{people} people, ρ = {row.budget} a km², distances, 10 doubling rounds: {row.measure} {row.error:.4g}"
                f" against the baseline's {row.baseline_error:.4g}"
            )
            found.append(beside(f"{row.question}: share of the budget saved", row.saved, "", how))
        else:
            how = f"{row.measure} {row.error:.4g} against the baseline's {row.baseline_error:.4g}"
            found.append(beside(f"{row.question}, ρ = {row.budget}: share saved", row.saved, "", how))
    return found


def _speeds(quick: bool) -> list[Row]:
    people = 100_000 if quick else 1_000_000
    return [*_many_people(people), *_many_polygons(people, 10 if quick else 100), *_decisions(people)]


def _many_people(people: int) -> list[Row]:
    """The worst case: everybody is on the border, so that nobody is decided and all take part in all rounds."""
    turn = 2 * math.pi * uniforms("speed", people)
    places = SPACE.locate(np.column_stack([50 + 20 * np.cos(turn), 50 + 20 * np.sin(turn)]))
    ledger = PeopleLedger.even(LedgerKind.ZCDP, people, Fraction(1, 10))
    plan = Plan(SPACE, Mode.DISTANCE, even_split(10), BETA)
    start, clock = time.process_time(), time.perf_counter()
    answer = count_inside(
        plan, places, Disc((50.0, 50.0), 20.0), ledger.remaining, ledger, keyed_streams(bytes(32), "speed")
    )
    spent, waited = time.process_time() - start, time.perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    asked = int(answer.ended.answered.sum())
    how = f"{people} people, {asked} noisy distances in {answer.ended.rounds} rounds; {waited:.2f} s by the clock"
    return [at_most(SPEEDS[0], spent, 20, "s of CPU", how), at_most(SPEEDS[1], peak, 2, "GiB", how)]


def _many_polygons(people: int, polygons: int) -> list[Row]:
    generator = np.random.default_rng(8)
    points = generator.uniform(0, 100, (people, 2))
    shapes = []
    for _ in range(polygons):
        angles = np.sort(generator.uniform(0, 2 * math.pi, 100))
        radii = generator.uniform(10, 30, 100)
        x, y = 50 + radii * np.cos(angles), 50 + radii * np.sin(angles)
        shapes.append(Polygon(tuple(zip(x.tolist(), y.tolist(), strict=True))))
    start, inside = time.process_time(), 0
    for shape in shapes:
        inside += int((shape.signed_distance(points) < 0).sum())
    spent = time.process_time() - start
    tracemalloc.start()  # what arrays hold, to the byte: a process keeps what earlier rows gave back
    shapes[0].signed_distance(points)
    grown = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    how = f"{polygons} polygons × {people} points, {spent / polygons / people / 100 * 1e9:.2f} ns a point and edge"
    return [
        beside(SPEEDS[2], spent, "s of CPU", how),
        at_most(SPEEDS[3], grown, 256, "MiB", f"in chunks; {inside} inside"),
    ]


def _decisions(people: int) -> list[Row]:
    ledger = ZCDPFilter(NANO, NANO // 3)
    start = time.process_time_ns()
    for charge in range(100_000):
        ledger.admits(charge)
    one = (time.process_time_ns() - start) / 100_000 / 1000
    crowd_ledger = PeopleLedger.even(LedgerKind.ZCDP, people, Fraction(1))
    who, charges = np.arange(people), np.full(people, 1000, np.int64)
    start = time.process_time_ns()
    for _ in range(10):
        crowd_ledger, _ = crowd_ledger.charge(who, charges)
    many = (time.process_time_ns() - start) / 10 / people / 1000
    return [
        at_most(SPEEDS[4], one, 2, "µs", "`admits` of one filter, Python's loop included"),
        at_most(SPEEDS[5], many, 2, "µs", f"{people} people decided and charged by one call"),
    ]
