"""Panels: plans against the paper's templates, exact Subset reports against peers, ranges against trees.

Every ratio is of CPU time, the median of interleaved runs in one process: ours on arrays under a fresh key, peers as
their documentation shows (a call a report). The best peer of a row is the fastest of those that have a Subset.
"""

# ruff: noqa: B023 - every closure below runs before its loop goes on

import math
import os
import resource
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.row import Row, at_least, at_most, beside
from benchmarks.sampling import cpu, fresh, interleaved
from tiers.budget import Ladder
from tiers.local.columns.chain import SubsetChain, encode_sets, step_for
from tiers.local.columns.coins import flip_words
from tiers.local.columns.counts import covered_by_sets
from tiers.local.columns.large import singletons
from tiers.local.device import encoder
from tiers.local.estimate import estimate
from tiers.local.flips import Flips
from tiers.local.mixed import plan_mixed
from tiers.local.planning import plan_subset, template_ratios
from tiers.local.subset import Subset
from tiers.metric.ranges import Grid, range_estimate, variance_bound

DOMAINS = (4, 10, 32, 100, 1000)
SIZES = (16, 128, 1024)
BARS = {16: 20, 128: 15, 1024: 25}
PEOPLE = 100_000
FOUR = Ladder.parse(["2", "1", "0.5", "0.25"])

EXPECTED = [
    *(
        f"plan, d = {d}, {menu}: {what}"
        for d in DOMAINS
        for menu in ("5 tiers 0.5…4", "20 tiers 0.1…5")
        for what in ("one path, worst", "one path, mean", "mixed, worst", "mixed, mean", "paper's templates, worst")
    ),
    *(f"one exact Subset report, d = {d}: × best peer" for d in SIZES),
    *(f"all four tiers of a person, d = {d}: × one peer report" for d in SIZES),
    *(f"aggregate and estimate, d = {d}: × best peer" for d in SIZES),
    *(f"one report a call, d = {d}: × multi-freq-ldpy" for d in SIZES),
    "reports derived to 4 tiers: peak memory",
    "reports derived to 4 tiers: pace of the last tenth against the first",
    "2-D ranges, m = 256, n = 10⁶: worst error, measured against the exact bound",
    "2-D ranges, m = 256, n = 10⁶: × less variance than a hierarchy",
]


def rows(quick: bool) -> list[Row]:
    """Measure every row of the table."""
    warnings.filterwarnings("ignore")  # peers warn of their own deprecations
    return [*_plans(quick), *_reports(3 if quick else 5), *_stream(quick), *_ranges(quick)]


def _finite(ratio: float) -> float:
    """Return 0 for no ratio at all: JSON has no infinity."""
    return ratio if math.isfinite(ratio) else 0.0


def _even(high: str, low: str, tiers: int) -> Ladder:
    top, bottom = Fraction(high), Fraction(low)
    return Ladder(tuple(top - (top - bottom) * i / (tiers - 1) for i in range(tiers)))


def _plans(_: bool) -> list[Row]:
    found = []
    for d in DOMAINS:
        for menu, ladder in (("5 tiers 0.5…4", _even("4", "0.5", 5)), ("20 tiers 0.1…5", _even("5", "0.1", 20))):
            plan = plan_subset(d, ladder, slack=Fraction(1, 100))
            mixed = plan_mixed(d, ladder)
            name, few = f"plan, d = {d}, {menu}: ", len(ladder) == 5
            worst, mean = plan.worst_ratio, plan.mean_ratio
            bars = (1.0005 if few and d == 10 else 1.66, 1.06, 1.16)
            found += [
                at_most(
                    name + "one path, worst", worst, bars[0], "× optimum", "worst within 1 % of the least, then mean"
                ),
                at_most(name + "one path, mean", mean, bars[1], "× optimum", "of the same path"),
                at_most(name + "mixed, worst", mixed.worst_ratio, bars[2], "× optimum", f"{len(mixed.paths)} paths"),
                beside(name + "mixed, mean", mixed.mean_ratio, "× optimum", f"duality bound {mixed.lower_bound:.4f}"),
                beside(
                    name + "paper's templates, worst",
                    _finite(max(template_ratios(d, ladder))),
                    "× optimum",
                    "0: some tier has no template",
                ),
            ]
    return found


def _peers(d: int) -> dict[str, tuple[Callable[[int], Any], Callable[[list[Any]], Any]]]:
    from ldp_toolbox.protocols.frequency.ss import SubsetSelection
    from multi_freq_ldpy.pure_frequency_oracles import SS

    toolbox = SubsetSelection(d, 1.0)
    return {
        "multi-freq-ldpy": (lambda v: SS.SS_Client(v, d, 1.0), lambda r: SS.SS_Aggregator_MI(r, d, 1.0)),
        "ldp-toolbox": (toolbox.obfuscate, toolbox.estimate),
    }


def _reports(runs: int) -> list[Row]:
    found, generator = [], np.random.default_rng(1)
    for d in SIZES:
        values = generator.integers(0, d, PEOPLE)
        few = values[:3000].tolist()
        law = Subset.paying(d, max(1, round(d / (math.e + 1))), Fraction(1))
        kernel = step_for(d, 1, law.subset_size, law.signal.ball)
        ones: Any = np.left_shift(np.uint16(1), values.astype(np.uint16)) if d <= 16 else singletons(d, values)
        plan = plan_subset(d, FOUR)
        top = step_for(d, 1, plan.tiers[0].subset_size, plan.tiers[0].signal.ball)

        def four() -> None:
            chain.derive(0, top.apply(fresh(), 0, ones))

        chain = SubsetChain.of(plan, os.urandom(32), "benchmark")
        sets = kernel.apply(fresh(), 0, ones)
        encode = encoder(law)
        peers = _peers(d)
        sent = {name: [client(value) for value in few] for name, (client, _) in peers.items()}
        works: list[tuple[Callable[[], object], int]] = [
            (lambda: kernel.apply(fresh(), 0, ones), PEOPLE),
            (four, PEOPLE),
            (lambda: estimate(law.rates(), covered_by_sets(d, sets), PEOPLE), PEOPLE),
            (lambda: [encode(value, os.urandom) for value in few], len(few)),
        ]
        for name, (client, server) in peers.items():
            works += [
                (lambda client=client: [client(value) for value in few], len(few)),
                (lambda name=name, server=server: server(sent[name]), len(few)),
            ]
        one, all_four, counted, alone, *others = interleaved(runs, *works)
        clients, servers = dict(zip(peers, others[::2], strict=True)), dict(zip(peers, others[1::2], strict=True))
        best, fastest = min(clients.values()), min(servers.values())
        how = "{:.4g} ns against {:.4g} ns"
        single = clients["multi-freq-ldpy"]
        found += [
            at_least(f"one exact Subset report, d = {d}: × best peer", best / one, BARS[d], "×", how.format(one, best)),
            at_least(
                f"all four tiers of a person, d = {d}: × one peer report",
                best / all_four,
                5,
                "×",
                how.format(all_four, best),
            ),
            at_least(
                f"aggregate and estimate, d = {d}: × best peer",
                fastest / counted,
                30,
                "×",
                how.format(counted, fastest),
            ),
            at_least(
                f"one report a call, d = {d}: × multi-freq-ldpy", single / alone, 1, "×", how.format(alone, single)
            ),
        ]
        found += _others(d, one)
    return found


def _others(d: int, ours: float) -> list[Row]:
    """Peers without a Subset, beside: their own cheapest mechanisms, at the same ε."""
    from pure_ldp.frequency_oracles.direct_encoding import DEClient
    from trasgodp.categorical import dp_randomized_response_kary_array

    direct = DEClient(1.0, d, index_mapper=lambda value: value)
    names = np.array([f"c{value:04d}" for value in np.random.default_rng(0).integers(0, d, 500)])
    response = cpu(lambda: [direct.privatise(value % d) for value in range(3000)], 3000)
    kary = cpu(lambda: dp_randomized_response_kary_array(names, 1.0), len(names))
    return [
        beside(f"Subset report, d = {d}: × pure-ldp's randomised response", response / ours, "×", f"{response:.0f} ns"),
        beside(f"Subset report, d = {d}: × trasgodp's randomised response", kary / ours, "×", f"{kary:.0f} ns"),
    ]


def _stream(quick: bool) -> list[Row]:
    """Encode, derive to four tiers and count, run by run; in full 10⁸ reports."""
    d, run, total = 16, 1_000_000, 5_000_000 if quick else 100_000_000
    plan = plan_subset(d, FOUR)
    chain, words = SubsetChain.of(plan, os.urandom(32), "stream"), fresh()
    values = np.arange(run) % d
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts = np.zeros((4, d), np.int64)
    spent = []
    for first in range(0, total, run):

        def work() -> None:
            tiers = chain.derive(first, encode_sets(plan.tiers[0], words, first, values))
            for tier, sets in enumerate(tiers):
                counts[tier] += covered_by_sets(d, sets)

        import time

        start = time.process_time_ns()
        work()
        spent.append((time.process_time_ns() - start) / run)
    assert (counts.sum(axis=1) == [total * tier.subset_size for tier in plan.tiers]).all()
    tenth = max(1, len(spent) // 10)
    head, tail = float(np.median(spent[:tenth])), float(np.median(spent[-tenth:]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    how = f"{total:.0e} reports, {sum(spent) / len(spent):.1f} ns of CPU each; {before / 2**20:.2f} GiB before"
    return [
        at_most("reports derived to 4 tiers: peak memory", peak, 2, "GiB", how),
        at_most("reports derived to 4 tiers: pace of the last tenth against the first", tail / head, 1.25, "×", how),
    ]


def _ranges(quick: bool) -> list[Row]:
    """Everybody's bits are turned exactly; the tables of observations are summed run by run."""
    m, people, ranges = 256, 20_000 if quick else 1_000_000, 60
    grid, generator = Grid((m, m), Flips(Fraction(1))), np.random.default_rng(2)
    places = np.clip(generator.normal((100, 150), (30, 40), (people, 2)).round(), 1, m).astype(np.int64)
    observed = np.zeros((m, m))
    for part, signs in _turned(grid, places):
        observed += grid.observe(signs.swapaxes(0, 1)) if part else 0.0
    wanted = [
        tuple((low, high) for low, high in np.sort(generator.integers(2, m, (2, 2)), axis=1).tolist())
        for _ in range(ranges)
    ]
    errors = []
    for sides in wanted:
        inside = np.ones(people, np.bool_)
        for attribute, (low, high) in enumerate(sides):
            inside &= (places[:, attribute] >= low) & (places[:, attribute] <= high)
        errors.append(
            (range_estimate(grid, observed, sides) - int(inside.sum())) / math.sqrt(variance_bound(grid, people, sides))
        )
    root = math.sqrt(sum(error**2 for error in errors) / ranges)
    flat = variance_bound(grid, people, wanted[0])
    tree = _hierarchy(m, people)
    how = f"{ranges} interior ranges of {people} people at ε = 1 a step; root mean square {root:.2f} of the bound"
    return [
        at_most(
            "2-D ranges, m = 256, n = 10⁶: worst error, measured against the exact bound",
            max(map(abs, errors)),
            4,
            "σ",
            how,
        ),
        beside(
            "2-D ranges, m = 256, n = 10⁶: × less variance than a hierarchy",
            tree / flat,
            "×",
            f"{tree:.3g} (binary tree, closed form, each person one pair of levels, ε = 1 in all) against {flat:.3g},"
            " which does not grow with m; the two promise different things: 1 a step against 1 in all",
        ),
    ]


def _turned(grid: Grid, places: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int8]]]:
    words, run = fresh(), 4096
    values = grid.sizes[0]
    each = 2 * values // 64
    for at in range(0, len(places), run):
        part = places[at : at + run]
        turns = flip_words(words, at * each, len(part) * each, grid.flips.flip)
        bits = np.unpackbits(turns.view(np.uint8), bitorder="little").reshape(len(part), 2, values)
        true = np.where(np.arange(1, values + 1) >= part[:, :, None], 1, -1).astype(np.int8)
        signs = true * (1 - 2 * bits.astype(np.int8))
        signs[..., -1] = 1
        yield len(part), signs


def _hierarchy(m: int, people: int) -> float:
    """Return the variance of a typical 2-D range by a binary hierarchy with local hashing at ε = 1 (Wang et al. 2019).

    Each person reports one pair of levels of log² m, so a node's variance is levels²·n·4e^ε/(e^ε−1)²; a range has
    about (log₂ m)² nodes.
    """
    levels = int(math.log2(m)) ** 2
    node = 4 * math.e / (math.e - 1) ** 2
    return levels * people * node * levels
