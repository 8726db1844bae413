"""The black-box check: canaries in two neighbouring tables, through the engine's own bounding, plan and draws.

Each declared key holds one canary or none, so one release is as many trials as it has keys: an entry's law depends on
its own unit alone. A canary has three rows, each ten times over the clamp: what its bounding lets through counts too.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from app.engines import DuckDBSnapshot, ingest_csv
from app.queries.canonical import canonicalise
from app.queries.model import GroupByKeys, Query, Sum
from app.queries.schema import Column, DatasetSchema
from app.queries.sensitivity import derive
from tiers.audit.blackbox import Counts, epsilon_lower, tail_event
from tiers.budget import Ladder
from tiers.chain import ChainPlan, draw_chain, plan, specs
from tiers.identity import DrawSpec, stream_key
from tiers.noise.law import guarantee_of

__all__ = ["CLAIM_DELTA", "BlackBox", "Canaries", "measure", "plant"]

CLAIM_DELTA = Fraction(1, 100)
MISS = Fraction(1, 10**6)
_SALT = "5a" * 32
_Draw = Callable[[Sequence[int], tuple[DrawSpec, ...], Callable[[DrawSpec], bytes]], Sequence[Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Canaries:
    """The exact answers on both tables, and the plan of the question: what a release starts from."""

    without: tuple[int, ...]
    holding: tuple[int, ...]
    plan: ChainPlan


@dataclass(frozen=True, slots=True)
class BlackBox:
    """What the outputs prove of one tier: ε is at least `lower`, and is claimed to be `claim`, both at `delta`."""

    family: str
    tier: str
    lower: float
    claim: float
    delta: Fraction
    trials: int


def plant(
    folder: Path, ladder: Sequence[str], *, step: int = 1, keys: int = 1000, family: str = "auto", delta: str = "0"
) -> Canaries:
    """Write two tables, ask both the same question by the engine, and plan its chain from the question alone.

    Args:       folder: an empty one. step: the clamp, hence Δ. family, delta: of the plan; residuals with slack are
                allowed, for what is tested is each tier alone.
    """
    names = tuple(f"k{place:05d}" for place in range(keys))
    schema = DatasetSchema(
        columns=(Column(name="who", type="text"), Column(name="key", type="text"), Column(name="x", type="integer")),
        unit="who",
        ordering=("x",),
        salt=_SALT,
        max_rows_per_unit=10,
        max_groups_per_unit=2,
    )
    query = Query(
        measure=Sum(column="x", lower="0", upper=str(step), grain_exponent=0),
        group_by=GroupByKeys(column="key", keys=names),
        groups_per_unit=1,
    )
    canonical = canonicalise(query, schema)
    others = ["u0,elsewhere,1"]
    canaries = [f"c{place},{name},{10 * step}" for place, name in enumerate(names) for _ in range(3)]
    answers = []
    for label, rows in (("without", others), ("holding", [*others, *canaries])):
        source, target = folder / f"{label}.csv", folder / f"{label}.duckdb"
        source.write_text("\n".join(["who,key,x", *rows]) + "\n", encoding="utf-8")
        ingest_csv(source, target, schema)
        with DuckDBSnapshot(target) as snapshot:
            answers.append(snapshot.answer(canonical))
    planned = plan(Ladder.parse(list(ladder)), derive(canonical).change_set, family, delta, allow_slack=True)
    return Canaries(answers[0], answers[1], planned)


def measure(canaries: Canaries, secret: bytes, *, releases: int, draw: _Draw | None = None) -> tuple[BlackBox, ...]:
    """Return, tier by tier, the ε that the outputs prove, beside the claim: that of the law's own label or curve.

    Guarantee:  an engine that keeps its claims has a lower bound above one with probability at most 10⁻⁶ a tier.
    Args:       secret: 32 random bytes; each release has streams of its own under it. releases: on each table.
                draw: another engine's way to draw, for tests; the chain's own if none is given.
    """
    drawn = _own if draw is None else draw
    tiers, length = canaries.plan.tiers, len(canaries.without)
    hits = [[0, 0] for _ in tiers]
    pure = tiers[0].law.delta == 0
    delta = Fraction(0) if pure else CLAIM_DELTA
    change, trials = tiers[0].law.change_set, releases * length
    events = [tail_event(tier.law.noise.cdf, change.step, 3 * tier.half_width + 8, trials, delta) for tier in tiers]
    for release in range(releases):
        for side, truth in enumerate((canaries.without, canaries.holding)):
            chain = hashlib.sha256(f"black box {release} {side}".encode()).hexdigest()
            made = specs(chain, canaries.plan, epoch=1, grain=0, length=length)
            rows = drawn(truth, made, lambda spec: stream_key(secret, spec))
            for place, (row, event) in enumerate(zip(rows, events, strict=True)):
                hits[place][side] += sum(value <= event for value in row)
    found = []
    for tier, (likely, rare) in zip(tiers, hits, strict=True):
        lower = epsilon_lower(Counts(likely, trials), Counts(rare, trials), MISS, delta)
        claim = float(guarantee_of(tier.law.noise, change, delta).epsilon)
        found.append(BlackBox(tier.law.noise.family, str(tier.epsilon), lower, claim, delta, trials))
    return tuple(found)


def _own(
    truth: Sequence[int], made: tuple[DrawSpec, ...], key_of: Callable[[DrawSpec], bytes]
) -> Sequence[Sequence[int]]:
    return [draw.answer for draw in draw_chain(truth, made, key_of)]
