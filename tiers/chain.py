"""A chain: one answer at several tiers, each derived from the tier above by exactly the noise that is missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tiers.budget import Ladder, nano_up
from tiers.canonical import canonical_bytes
from tiers.errors import InvalidParameterError
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.sampling.digits import SAMPLER, digit_sampler
from tiers.sampling.words import KeyedWords
from tiers.sensitivity import ChangeSet

__all__ = ["CONFIDENCE", "ChainPlan", "Draw", "PlannedTier", "answer_bytes", "draw_chain", "noise_of", "plan", "specs"]

CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class PlannedTier:
    """One tier of a plan, with everything that can be said before any data are read.

    `half_width` is the least h with P(|noise| ≤ h) ≥ 95 % for one entry, in steps; `same_as_above` the probability that
    an entry shows the same number as the tier above (None for tier 1).
    """

    rank: int
    law: TierLaw
    epsilon: Fraction
    level_nano: int
    half_width: int
    variance: float
    same_as_above: float | None


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """The tiers of one chain, most accurate first; every step down is a certified residual.

    Guarantee:  any set of tiers is as private as its best member, in the Blackwell order: the chain is Markov, and each
                residual law depends on its two tiers' laws alone.
    """

    change_set: ChangeSet
    tiers: tuple[PlannedTier, ...]

    def tier_of(self, law: str) -> PlannedTier | None:
        """Return the tier whose law has this identity, if the plan has it."""
        return next((tier for tier in self.tiers if tier.law.identity == law), None)


def plan(ladder: Ladder, change_set: ChangeSet) -> ChainPlan:
    """Return the two-sided geometric chain of a ladder for a change set.

    Law:        tier i adds TSG(e^(−ε_i/Δ₁)) to every entry; tier i → i+1 adds the zero-inflated residual.
    Guarantee:  tier i is exactly ε_i-DP for every change in the set, and so is every coalition whose best tier is i.
    Raises:     NoResidualError: never for a strictly falling ladder; kept as the planner's contract.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), sections 3 and 4.
    Example:
        >>> chain = plan(Ladder.parse(["2", "1"]), ChangeSet.scalar(1))
        >>> [tier.half_width for tier in chain.tiers], round(chain.tiers[1].same_as_above, 4)
        ([1, 3], 0.5679)
    """
    tiers: list[PlannedTier] = []
    for rank, epsilon in enumerate(ladder, start=1):
        noise = TwoSidedGeometric.at(epsilon, change_set)
        same = tiers[-1].law.noise.residual_to(noise).pmf(0) if tiers else None
        tiers.append(
            PlannedTier(
                rank=rank,
                law=TierLaw(noise, change_set),
                epsilon=epsilon,
                level_nano=nano_up(epsilon),
                half_width=noise.half_width(CONFIDENCE),
                variance=noise.variance(),
                same_as_above=same,
            )
        )
    return ChainPlan(change_set, tuple(tiers))


@dataclass(frozen=True, slots=True)
class Draw:
    """One tier as drawn: its spec, its answer, and nothing of the noise."""

    spec: DrawSpec
    answer: tuple[int, ...]


def specs(chain: str, chain_plan: ChainPlan, *, epoch: int, grain: int, length: int) -> tuple[DrawSpec, ...]:
    """Return the draws that make a chain top-down: one base draw, then one residual below each tier."""
    laws = [tier.law for tier in chain_plan.tiers]
    made = []
    for place, law in enumerate(laws):
        parents = (laws[place - 1],) if place else ()
        role = Role.RESIDUAL if place else Role.BASE
        made.append(DrawSpec(chain, epoch, role, law, parents, grain, length, SAMPLER))
    return tuple(made)


def noise_of(spec: DrawSpec, key: bytes) -> tuple[int, ...]:
    """Return the noise of one draw: a pure function of spec and key, so that it can be replayed.

    Raises:     InvalidParameterError: a sampler or role that this version does not draw.
    """
    if spec.sampler != SAMPLER:
        raise InvalidParameterError("sampler", SAMPLER, spec.sampler)
    law: TwoSidedGeometric | ZeroInflated
    if spec.role is Role.BASE:
        law = spec.law.noise
    elif spec.role is Role.RESIDUAL:
        law = spec.parents[0].noise.residual_to(spec.law.noise)
    else:
        raise InvalidParameterError("role", "base or residual", spec.role.value)
    return digit_sampler(law).draw(KeyedWords(key), spec.length)


def draw_chain(
    truth: Sequence[int], draws: Sequence[DrawSpec], key_of: Callable[[DrawSpec], bytes]
) -> tuple[Draw, ...]:
    """Return every tier of a chain, computed top-down from the exact integers of the query.

    Args:       truth: exact integers, one an entry, of any size. draws: from `specs`. key_of: the draw's stream key.
    Returns:    one draw a tier, in rank order; exact Python integers, so nothing can wrap.
    """
    made: list[Draw] = []
    above = tuple(truth)
    for spec in draws:
        if spec.length != len(above):
            raise InvalidParameterError("truth", f"{spec.length} entries", len(above))
        noise = noise_of(spec, key_of(spec))
        above = tuple(value + extra for value, extra in zip(above, noise, strict=True))
        made.append(Draw(spec, above))
    return tuple(made)


def answer_bytes(answer: Sequence[int]) -> bytes:
    """Return the canonical bytes of an answer: its integers as decimal strings, in canonical key order."""
    return canonical_bytes([str(value) for value in answer])
