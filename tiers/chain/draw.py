"""Draws: every tier of a chain from one truth, top-down, each a pure function of its spec, its key and its parents."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tiers.chain.balls import StepLaw
from tiers.chain.planner import ChainPlan
from tiers.chain.steps import between, sampler_of, step_law, step_sampler, step_vector
from tiers.errors import InvalidParameterError
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.noise.law import NoiseLaw
from tiers.sampling.arrays import COUNT_LIMIT, Integers
from tiers.sampling.choose import Sampler
from tiers.sampling.digits import DigitSampler
from tiers.sampling.words import KeyedWords

__all__ = ["Draw", "answer_bytes", "answer_of", "draw_arrays", "draw_chain", "noise_of", "specs"]


@dataclass(frozen=True, slots=True)
class Draw:
    """One tier as drawn: its spec, its answer, and nothing of the noise."""

    spec: DrawSpec
    answer: tuple[int, ...]


def specs(chain: str, chain_plan: ChainPlan, *, epoch: int, grain: int, length: int) -> tuple[DrawSpec, ...]:
    """Return the draws that make a chain top-down: one base draw, then one residual below each tier.

    Each names its sampler: by digits for single answers, whose work then says nothing of what is drawn; by cells for
    vectors.
    """
    laws = [tier.law for tier in chain_plan.tiers]
    made = []
    for place, law in enumerate(laws):
        parents = (laws[place - 1],) if place else ()
        role = Role.RESIDUAL if place else Role.BASE
        step = step_law(role, law.noise, tuple(parent.noise for parent in parents))
        made.append(DrawSpec(chain, epoch, role, law, parents, grain, length, sampler_of(step, length)))
    return tuple(made)


def noise_of(spec: DrawSpec, key: bytes, gaps: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the noise of one draw: a pure function of its arguments, so that it can be replayed, whatever its role.

    Args:       gaps: for late tiers only, one an entry: how far the lower end lies from the upper end; from the upper
                neighbour's answer for a bridge, from the truth for a late top.
    Returns:    what is added to the upper end: the truth for a base draw or a late top, else the tier above.
    Raises:     InvalidParameterError: a sampler that does not draw this law, gaps that are missing or not due.
    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain.planner import plan
        >>> base, step = specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=3)
        >>> len(noise_of(step, bytes(32)))
        3
    """
    if spec.role is Role.BASE or spec.role is Role.RESIDUAL:
        if gaps:
            raise InvalidParameterError("gaps", "none for a base or residual draw", len(gaps))
        sampler = _sampler_of(spec.role, spec.sampler, spec.law.noise, spec.parents[0].noise if spec.parents else None)
        if spec.length == 1 and isinstance(sampler, DigitSampler):
            return (sampler.draw_alone(key),)
        return sampler.draw(KeyedWords(key), spec.length)
    late = between(spec.role, spec.law.noise, tuple(parent.noise for parent in spec.parents))
    if spec.sampler != late.name:
        raise InvalidParameterError("sampler", late.name, spec.sampler)
    if len(gaps) != spec.length:
        raise InvalidParameterError("gaps", f"{spec.length} entries", len(gaps))
    return late.draw(KeyedWords(key), gaps)


def answer_of(spec: DrawSpec, key: bytes, parents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the answer of a draw that the answers of its parents determine: what an auditor replays.

    Args:       parents: the parents' answers, in the order of `spec.parents`.
    Raises:     InvalidParameterError: a truth draw, or answers of other lengths.
    """
    if spec.role.reads_truth:
        raise InvalidParameterError("role", "residual or bridge, to be replayed", spec.role.value)
    if len(parents) != len(spec.parents) or any(len(answer) != spec.length for answer in parents):
        raise InvalidParameterError("parents", f"{len(spec.parents)} answers of {spec.length} entries", len(parents))
    upper = parents[0]
    gaps = [below - above for above, below in zip(upper, parents[1], strict=True)] if len(parents) > 1 else ()
    return tuple(value + extra for value, extra in zip(upper, noise_of(spec, key, gaps), strict=True))


def draw_chain(
    truth: Sequence[int], draws: Sequence[DrawSpec], key_of: Callable[[DrawSpec], bytes]
) -> tuple[Draw, ...]:
    """Return every tier of a chain, computed top-down from the exact integers of the query.

    Args:       truth: exact integers, one an entry, of any size. draws: from `specs`. key_of: the draw's stream key.
    Returns:    one draw a tier, in rank order; exact Python integers, so nothing can wrap.
    Raises:     InvalidParameterError: a truth that is no Python integer (a float would swallow the noise, a numpy
                integer wrap), or of another length.
    """
    made: list[Draw] = []
    above = tuple(truth)
    for value in above:
        if type(value) is not int:
            raise InvalidParameterError("truth", "Python integers", type(value).__name__)
    for spec in draws:
        if spec.length != len(above):
            raise InvalidParameterError("truth", f"{spec.length} entries", len(above))
        noise = noise_of(spec, key_of(spec))
        above = tuple([value + extra for value, extra in zip(above, noise, strict=True)])
        made.append(Draw(spec, above))
    return tuple(made)


def draw_arrays(
    truth: Integers, draws: Sequence[DrawSpec], key_of: Callable[[DrawSpec], bytes], out: Integers | None = None
) -> Integers:
    """Return every tier of a long vector as int64, one row a tier: the same numbers as `draw_chain` gives.

    Working memory beyond the rows is a chunk of each sampler's own.

    Args:       truth: an int64 vector. out: rows to fill, of shape (tiers, entries); made where none are given.
    Raises:     InvalidParameterError: arrays of another kind; a truth so large, or noise so wide, that an answer could
                leave the range of int64 (with probability above 2⁻¹²⁸): use `draw_chain`, which is exact at any size.
    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain.planner import plan
        >>> draws = specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=1000)
        >>> draw_arrays(np.zeros(1000, np.int64), draws, lambda spec: bytes(32)).shape
        (2, 1000)
    """
    shape = (len(draws), len(truth))
    rows = np.empty(shape, np.int64) if out is None else out
    if rows.dtype != np.int64 or rows.shape != shape or truth.dtype != np.int64 or truth.ndim != 1:
        raise InvalidParameterError("arrays", f"int64 of shapes {shape[1:]} and {shape}", (truth.dtype, rows.shape))
    laws = [_law_of(spec) for spec in draws]
    largest = max(int(truth.max(initial=0)), -int(truth.min(initial=0)))
    if largest + max((_reach(spec.law) for spec in draws), default=0) > COUNT_LIMIT:
        raise InvalidParameterError(
            "truth", "one that with its noise stays within ±2⁶²", "a larger one, or wider noise"
        )
    above = truth
    for row, spec, law in zip(rows, draws, laws, strict=True):
        if spec.length != len(truth):
            raise InvalidParameterError("truth", f"{spec.length} entries", len(truth))
        words = KeyedWords(key_of(spec))
        sampler = step_sampler(spec.sampler, law)
        if isinstance(sampler, DigitSampler) or not hasattr(sampler, "perturb"):
            np.add(above, np.array(sampler.draw(words, spec.length), np.int64), out=row)
        else:
            step_vector(spec.sampler, law).perturb(words, above, row)
        above = row
    return rows


def answer_bytes(answer: Sequence[int]) -> bytes:
    """Return the canonical bytes of an answer: its integers as decimal strings, in canonical key order.

    Example:
        >>> answer_bytes([12, -3]), answer_bytes([])
        (b'["12","-3"]', b'[]')
    """
    texts = '","'.join([str(value) for value in answer])
    return f'["{texts}"]'.encode() if len(answer) else b"[]"


def _law_of(spec: DrawSpec) -> StepLaw:
    return step_law(spec.role, spec.law.noise, tuple([parent.noise for parent in spec.parents]))


@lru_cache(maxsize=4096)
def _sampler_of(role: Role, name: str, law: NoiseLaw, parent: NoiseLaw | None) -> Sampler:
    return step_sampler(name, step_law(role, law, () if parent is None else (parent,)))


def _reach(law: TierLaw) -> int:
    """Return what the tier's noise exceeds with probability below 2⁻¹²⁸: tails fall at least like e^(−rate·k/step)."""
    return math.ceil(100 * math.sqrt(law.noise.variance())) + 200 * law.change_set.step
