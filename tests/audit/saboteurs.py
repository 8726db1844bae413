"""Engines that draw as no honest market does, and the honest one: rows of answers, one a tier, from a seed."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tiers.audit.steps import Seen
from tiers.audit.watch import Watch
from tiers.budget import Ladder
from tiers.chain import draw_arrays, plan, specs
from tiers.chain.steps import StepLaw, sampler_of, step_sampler
from tiers.identity import DrawSpec, stream_key
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sampling.words import KeyedWords
from tiers.sensitivity import ChangeSet

Rows = NDArray[np.int64]
Engine = Callable[[tuple[DrawSpec, ...], bytes, int], Rows]
LADDER = ("2", "1", "0.5")


def claimed(length: int, number: int = 0, ladder: tuple[str, ...] = LADDER, total: int = 1) -> tuple[DrawSpec, ...]:
    """The draws that a log claims for one chain of two-sided geometric tiers."""
    chain = hashlib.sha256(f"chain {number}".encode()).hexdigest()
    planned = plan(Ladder.parse(list(ladder)), ChangeSet.scalar(total), "tsg")
    return specs(chain, planned, epoch=1, grain=0, length=length)


def _noise(law: StepLaw, secret: bytes, label: str, length: int) -> Rows:
    key = hashlib.sha256(secret + label.encode()).digest()
    return np.array(step_sampler(sampler_of(law, length), law).draw(KeyedWords(key), length), np.int64)


def _laws(draws: tuple[DrawSpec, ...]) -> list[TwoSidedGeometric]:
    return [spec.law.noise for spec in draws]  # type: ignore[misc]


def honest(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    return draw_arrays(np.zeros(draws[0].length, np.int64), draws, lambda spec: stream_key(secret, spec))


def _down(draws: tuple[DrawSpec, ...], secret: bytes, number: int, laws: list[TwoSidedGeometric]) -> Rows:
    """A chain with residuals between `laws`, whatever was claimed."""
    rows = [_noise(laws[0], secret, f"{number} base", draws[0].length)]
    for place, (upper, lower) in enumerate(pairwise(laws)):
        rows.append(rows[-1] + _noise(upper.residual_to(lower), secret, f"{number} {place}", draws[0].length))
    return np.array(rows)


def star(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    laws = _laws(draws)
    top = _noise(laws[0], secret, f"{number} base", draws[0].length)
    steps = [_noise(laws[0].residual_to(law), secret, f"{number} {law}", len(top)) for law in laws[1:]]
    return np.array([top, *(top + step for step in steps)])


def independent(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    return np.array([_noise(law, secret, f"{number} {law}", draws[0].length) for law in _laws(draws)])


def drawn_twice(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    """The middle tier is drawn again after the lower one was made: what is opened is the second draw."""
    laws, rows = _laws(draws), honest(draws, secret, number)
    again = _noise(laws[0].residual_to(laws[1]), secret, f"{number} again", draws[0].length)
    return np.array([rows[0], rows[0] + again, *rows[2:]])


def reused_across_bins(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    rows = _down(draws, secret, number, _laws(draws))
    return np.array([row[np.arange(len(row)) % max(1, len(row) // 2)] for row in rows])


def reused_across_queries(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    return _down(draws, secret, 0, _laws(draws))


def reused_across_tiers(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    laws = _laws(draws)
    rows = [_noise(laws[0], secret, f"{number} base", draws[0].length)]
    for upper, lower in pairwise(laws):
        rows.append(rows[-1] + _noise(upper.residual_to(lower), secret, f"{number} one", draws[0].length))
    return np.array(rows)


def wrong_parameter(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    """The middle tier's rate is 2 % too high: less noise than was claimed and paid for in ε."""
    laws = _laws(draws)
    return _down(draws, secret, number, [laws[0], TwoSidedGeometric(laws[1].rate * Fraction(102, 100)), *laws[2:]])


def clipped_tails(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    """Residuals are cut where their tails fall below 1 %."""
    rows = _down(draws, secret, number, _laws(draws))
    steps = [np.clip(low - high, -cut, cut) for (high, low), cut in zip(pairwise(rows), _cuts(draws), strict=True)]
    return np.cumsum([rows[0], *steps], axis=0)


def _cuts(draws: tuple[DrawSpec, ...]) -> Iterator[int]:
    for upper, lower in pairwise(_laws(draws)):
        step = upper.residual_to(lower)
        inside, cut = step.pmf(0), 0
        while inside < 0.99:
            cut += 1
            inside += 2 * step.pmf(cut)
        yield cut


def float_noise(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    """Laplace noise from doubles, rounded to the lattice."""
    laws, rng = _laws(draws), np.random.default_rng([*secret[:8], number])
    rows = [np.rint(rng.laplace(0, 1 / float(laws[0].rate), draws[0].length))]
    for upper, lower in pairwise(laws):
        noise = rng.laplace(0, 1 / float(lower.rate), draws[0].length)
        stays = rng.random(draws[0].length) < (lower.rate / upper.rate) ** 2
        rows.append(rows[-1] + np.rint(np.where(stays, 0.0, noise)))
    return np.array(rows).astype(np.int64)


def single_precision(draws: tuple[DrawSpec, ...], secret: bytes, number: int) -> Rows:
    """Right in law but for the last digits: noise that went through 24-bit floats, on a lattice finer than they are."""
    rows = _down(draws, secret, number, _laws(draws))
    steps = [np.float32(low - high).astype(np.int64) for high, low in pairwise(rows)]
    return np.cumsum([rows[0], *steps], axis=0)


@dataclass(frozen=True)
class Saboteur:
    """An engine, the process that must catch it, its draws' length, and the number of residual values that suffice."""

    engine: Engine
    process: str
    length: int
    within: int
    total: int = 1


SABOTEURS: dict[str, Saboteur] = {
    "star instead of a chain": Saboteur(star, "law", 8, 2000),
    "independent draws": Saboteur(independent, "law", 8, 3000),
    "a tier drawn twice": Saboteur(drawn_twice, "law", 8, 2000),
    "stream reused across bins": Saboteur(reused_across_bins, "repeats between bins", 8, 300),
    "stream reused across queries": Saboteur(reused_across_queries, "repeats between chains", 8, 300),
    "stream reused across tiers": Saboteur(reused_across_tiers, "repeats between tiers", 16, 2000),
    "parameter 2 % off": Saboteur(wrong_parameter, "law", 1000, 400_000),
    "tails clipped at 1 %": Saboteur(clipped_tails, "law", 100, 10_000),
    "float noise, rounded": Saboteur(float_noise, "law", 500, 100_000),
    "float noise of 24 bits on a fine lattice": Saboteur(single_precision, "law", 8, 300, total=2**30),
}


def values_until_alarm(saboteur: Saboteur, seed: int, watch: Watch | None = None) -> int | None:
    """How many residual values the named process had seen when it raised its alarm; None if it never did in time."""
    watch = Watch() if watch is None else watch
    secret = hashlib.sha256(f"seed {seed}".encode()).digest()
    fed, number = 0, 0
    while fed < saboteur.within:
        draws = claimed(saboteur.length, number, total=saboteur.total)
        rows = saboteur.engine(draws, secret, number)
        watch.see_all([Seen(spec, rows[at] - rows[at - 1]) for at, spec in enumerate(draws) if at])
        fed += sum(spec.length for spec in draws[1:])
        if any(alarm.process == saboteur.process for alarm in watch.alarms()):
            return fed
        number += 1
    return None
