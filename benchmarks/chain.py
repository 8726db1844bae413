"""A chain of five tiers on many cells against five releases by others: CPU time, both sides in one process.

Ours is what a release of a histogram takes: the first tier's noise added to the checked counts, then each residual
added to the tier above, every tier under a key of its own, into preallocated results. Peers cannot do this: their five
answers are independent, so together they cost the sum of the budgets.
"""

import math
import os
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from threading import Thread

import numpy as np
import numpy.typing as npt

from benchmarks import _planning
from benchmarks.row import Row, at_least, at_most, beside
from benchmarks.sampling import fresh, interleaved
from tiers.budget import Ladder
from tiers.chain import draw_chain, plan, specs
from tiers.identity import DrawSpec, chain_identity, stream_key
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sampling.arrays import check_counts
from tiers.sampling.choose import CELLS, VectorSampler, vector_sampler
from tiers.sampling.digits import digit_sampler
from tiers.sensitivity import ChangeSet

LADDER = ("2", "1", "0.5", "0.25", "0.1")
CELLS_MANY = 1_000_000
TIERS, CELLS_OF, SCALES = (2, 5, 10, 20), (1000, 10_000, 100_000, 1_000_000), ("0.1", "1", "10")
SINGLE = ("1", "0.01", "0.0001", "0.000001")
SHAPES = (
    "cost against tiers is linear: an entry and tier, 20 tiers against 5",
    "cost against cells is linear: an entry and tier, 1e6 cells against 1e5",
    "cost against 1/ε, vectors, is at most logarithmic: ε / 100",
    "cost against 1/ε, one draw by digits, is at most logarithmic: ε / 10⁶",
)

EXPECTED = [
    "5-tier chain on 1e6 cells: × five independent insecure numpy draws",
    "5-tier chain on 1e6 cells: × five OpenDP releases",
    "5-tier chain on 1e6 cells: working memory beyond the five results",
    "one scalar answer at 5 tiers, by digits",
    "plan of 10 tiers",
    *(f"cost against tiers: {tiers} from ε = 2 down to 0.1, 1e5 cells, an entry and tier" for tiers in TIERS),
    *(f"cost against cells: {cells}, 5 tiers, an entry and tier" for cells in CELLS_OF),
    *(f"cost against 1/ε: every ε × {scale}, 5 tiers on 1e5 cells, an entry and tier" for scale in SCALES),
    *(f"cost against 1/ε: one draw by digits, ε = {epsilon}" for epsilon in SINGLE),
    *SHAPES,
    *_planning.EXPECTED,
]

Counts = npt.NDArray[np.int64]


def edges(epsilons: Sequence[Fraction]) -> list[VectorSampler]:
    """Return the samplers of a chain's draws: the first tier's noise, then each residual."""
    laws = [TwoSidedGeometric(epsilon) for epsilon in epsilons]
    steps = [upper.residual_to(lower) for upper, lower in pairwise(laws)]
    return [vector_sampler(CELLS, law) for law in (laws[0], *steps)]


def run_chain(samplers: Sequence[VectorSampler], truth: Counts, results: Sequence[Counts]) -> None:
    """Put every tier into its preallocated result, each derived from the tier above."""
    check_counts(truth)
    above = truth
    for sampler, result in zip(samplers, results, strict=True):
        above = sampler.perturb(fresh(), above, result)


def rows(quick: bool) -> list[Row]:
    """Measure every row of the table."""
    warnings.filterwarnings("ignore")  # peers warn of their own deprecations
    runs = 3 if quick else 5
    return [*_against_peers(runs), _memory(), *_scalar_and_plan(runs), *_scaling(runs), *_planning.rows(runs)]


def _against_peers(runs: int) -> list[Row]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    epsilons = [Fraction(epsilon) for epsilon in LADDER]
    samplers, truth = edges(epsilons), np.arange(CELLS_MANY, dtype=np.int64)
    results = [np.empty_like(truth) for _ in epsilons]
    generator = np.random.default_rng(1)
    shares = [-math.expm1(-float(epsilon)) for epsilon in epsilons]
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    releases = [dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=1 / float(epsilon)) for epsilon in epsilons]
    few = truth[:20_000]
    ours, numpy, opendp = interleaved(
        runs,
        (lambda: run_chain(samplers, truth, results), CELLS_MANY),
        (
            lambda: [truth + generator.geometric(p, CELLS_MANY) - generator.geometric(p, CELLS_MANY) for p in shares],
            CELLS_MANY,
        ),
        (lambda: [release(few) for release in releases], len(few)),
    )
    how = f"{ours:.1f} ns a cell for all five against {{:.0f}} ns"
    return [
        at_least(EXPECTED[0], numpy / ours, 7, "×", how.format(numpy)),
        at_least(EXPECTED[1], opendp / ours, 2000, "×", how.format(opendp)),
    ]


def _memory() -> Row:
    samplers = edges([Fraction(epsilon) for epsilon in LADDER])
    truth = np.arange(CELLS_MANY, dtype=np.int64)
    results = [np.empty_like(truth) for _ in LADDER]
    tracemalloc.start()
    alone = Thread(target=run_chain, args=(samplers, truth, results))  # a thread of its own has no work space yet
    alone.start()
    alone.join()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return at_most(EXPECTED[2], peak / truth.nbytes, 3, "arrays", f"{peak / 2**20:.1f} MiB at the peak, one chunk")


def _scalar_and_plan(runs: int) -> list[Row]:
    ladder = Ladder.parse(list(LADDER))
    made = plan(ladder, ChangeSet.scalar(1))
    draws = specs(chain_identity("lineage", "snapshot", "0" * 64), made, epoch=1, grain=0, length=1)
    secret, keys = os.urandom(32), {spec.law.identity: os.urandom(32) for spec in draws}
    laws = [TwoSidedGeometric(epsilon) for epsilon in ladder]
    steps = [upper.residual_to(lower) for upper, lower in pairwise(laws)]
    samplers = [digit_sampler(law) for law in (laws[0], *steps)]

    def answer() -> int:
        value = 7
        for sampler, key in zip(samplers, keys.values(), strict=True):
            value += sampler.draw_alone(key)
        return value

    def key_of(spec: DrawSpec) -> bytes:
        return stream_key(secret, spec)

    ten = Ladder.parse([str(Fraction(11 - rank)) for rank in range(1, 11)])
    drawn, whole, planned = interleaved(
        runs,
        (answer, 1000),
        (lambda: draw_chain([7], draws, key_of), 1000),
        (lambda: (_planning.forget(), plan(ten, ChangeSet.scalar(1))), 1_000_000),
    )
    return [
        at_most("one scalar answer at 5 tiers, by digits", drawn, 50, "µs", "five draws, five keys ready"),
        beside("the same through draw_chain", whole, "µs", "with identities, HKDF and the canonical documents"),
        at_most("plan of 10 tiers", planned, 100, "ms", "from a ladder, nothing kept"),
    ]


def _scaling(runs: int) -> list[Row]:
    """Return the cost against tiers, cells and 1/ε: a table, and what it shows as four ratios."""
    ladder = [Fraction(epsilon) for epsilon in LADDER]
    even = {tiers: [2 - Fraction(19, 10) * place / (tiers - 1) for place in range(tiers)] for tiers in TIERS}
    works = [_chain_of(even[tiers], 100_000) for tiers in TIERS]
    works += [_chain_of(ladder, cells) for cells in CELLS_OF]
    works += [_chain_of([epsilon * Fraction(scale) for epsilon in ladder], 100_000) for scale in SCALES]
    keys = [os.urandom(32) for _ in range(64)]
    for epsilon in SINGLE:
        sampler = digit_sampler(TwoSidedGeometric(Fraction(epsilon)))
        works.append((lambda sampler=sampler: [sampler.draw_alone(key) for key in keys], 64))
    spent = dict(zip(EXPECTED[5:], interleaved(runs, *works), strict=False))
    found = [beside(name, cost, "ns", "") for name, cost in spent.items()]
    tiers, cells, scales, single = (
        [cost for name, cost in spent.items() if name.startswith(f"cost against {start}")]
        for start in ("tiers", "cells", "1/ε: every", "1/ε: one")
    )
    return [
        *found,
        at_most(SHAPES[0], tiers[3] / tiers[1], 1.5, "×", "1 where cost is proportional to tiers"),
        at_most(SHAPES[1], cells[3] / cells[2], 1.5, "×", "1 where cost is proportional to cells"),
        at_most(SHAPES[2], scales[0] / scales[2], 1 + math.log2(100) / 2, "×", "1 where flat; 100 where linear in 1/ε"),
        at_most(SHAPES[3], single[3] / single[0], 1 + math.log2(10**6) / 10, "×", "1 where flat; 10⁶ where linear"),
    ]


def _chain_of(epsilons: Sequence[Fraction], cells: int) -> tuple[Callable[[], None], int]:
    samplers, truth = edges(epsilons), np.zeros(cells, np.int64)
    results = [np.empty_like(truth) for _ in epsilons]
    return lambda: run_chain(samplers, truth, results), cells * len(epsilons)
