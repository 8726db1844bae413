"""Plans: which law stands on which tier, decided before any data are read, with a certificate for every step down."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from tiers.budget import Ladder, decimal_text, nano_up, parse_decimal
from tiers.chain.families import AUTO, BestAlone, best_alone, calibrate, candidates
from tiers.errors import BudgetOrderError, InvalidParameterError, NoResidualError, SlackNotAllowedError, TierError
from tiers.guarantee import ApproxDP, PureDP
from tiers.identity import TierLaw
from tiers.noise.composition import maximal_changes
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.law import NoiseLaw
from tiers.noise.skellam import Skellam
from tiers.noise.tails import TableTails
from tiers.residual.certificate import Certificate
from tiers.residual.plan import Residual, residual
from tiers.sensitivity import ChangeSet

__all__ = ["CONFIDENCE", "ChainPlan", "PlannedTier", "best_path", "plan", "plan_of"]

CONFIDENCE = Fraction(95, 100)
_BITS = 120


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

    @property
    def best_alone(self) -> BestAlone:
        """Return the least noisy mechanism with this guarantee, were the tier sold alone."""
        return best_alone(self.epsilon, self.law.delta, self.law.change_set)

    @property
    def ratio(self) -> float | None:
        """Return how many times the variance of the best single-tier mechanism this tier has; 1.0 at best.

        None where δ > 0 and there are too many change vectors to maximise over: the best is not known then, and
        two-sided geometric noise at its pure ε, which stands in, may be far from it.
        """
        if self.law.delta:
            try:
                maximal_changes(self.law.change_set)
            except InvalidParameterError:
                return None
        return self.variance / self.best_alone.variance


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """The tiers of one chain, most accurate first; every step down is a certified residual.

    Guarantee:  any set of tiers is as private as its best member, in the Blackwell order: the chain is Markov, and each
                residual law depends on its two tiers' laws alone. With slack, up to (1 + e^ε)·τ of δ.
    Raises:     InvalidParameterError: no tier, ranks that do not rise, several change sets or nominal δ.
                BudgetOrderError: ε does not fall strictly with rank.
    """

    change_set: ChangeSet
    tiers: tuple[PlannedTier, ...]

    def __post_init__(self) -> None:
        if not self.tiers:
            raise InvalidParameterError("plan", "one tier or more", 0)
        for upper, lower in pairwise(self.tiers):
            if lower.rank <= upper.rank:
                raise InvalidParameterError("ranks", "rising from tier to tier", (upper.rank, lower.rank))
            if lower.epsilon >= upper.epsilon:
                raise BudgetOrderError(lower.rank, decimal_text(upper.epsilon), decimal_text(lower.epsilon))
        if {tier.law.change_set for tier in self.tiers} != {self.change_set}:
            raise InvalidParameterError("change set", "one for all tiers of a chain", "several")
        if len({tier.law.delta for tier in self.tiers}) != 1:
            raise InvalidParameterError("delta", "one nominal δ for all tiers of a chain", "several")

    @property
    def edges(self) -> tuple[Residual, ...]:
        """Return the residuals from each tier to the next, recomputed from the laws."""
        return tuple(
            residual(upper.law.noise, lower.law.noise, allow_slack=True) for upper, lower in pairwise(self.tiers)
        )

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """Return what each step down rests on."""
        return tuple(edge.certificate for edge in self.edges)

    @property
    def exact(self) -> bool:
        """Return whether no step down has slack: only then may tiers be added between others or above."""
        return all(certificate.tau == 0 for certificate in self.certificates)

    def slack(self, rank: int) -> Fraction:
        """Return how far the tier's law may be off in total variation: the τ of one entry, summed down the chain."""
        above = zip(self.tiers[1:], self.certificates, strict=True)
        return sum((certificate.tau for tier, certificate in above if tier.rank <= rank), Fraction(0))

    def guarantee(self, rank: int) -> PureDP | ApproxDP:
        """Return what holds for a tier, and for every set of tiers of which it is the best.

        Law:        (ε, δ), or with slack (ε, δ + (1 + e^ε)·τ·bins), rounded up; pure where δ and τ are 0.
        Example:
            >>> plan(Ladder.parse(["2", "1"]), 1).guarantee(2).epsilon
            Fraction(1, 1)
        """
        tier = next((tier for tier in self.tiers if tier.rank == rank), None)
        if tier is None:
            raise InvalidParameterError("rank", "a rank of the plan", rank)
        tau = self.slack(rank)
        if tau == 0 and tier.law.delta == 0:
            return PureDP(tier.epsilon)
        touched = min(self.change_set.bins, self.change_set.total)
        return ApproxDP(tier.epsilon, tier.law.delta).with_slack(tau * touched)


def plan(
    ladder: Ladder,
    change_set: ChangeSet | int,
    family: str = AUTO,
    delta: Fraction | str = Fraction(0),
    *,
    allow_slack: bool = False,
) -> ChainPlan:
    """Return the best chain for a ladder: the family of each tier, certified step by step.

    With "auto" the least noisy family is chosen tier by tier as far as exact residuals lead from one to the next: of
    all paths the one with the least worst ratio of a tier's variance to the best single-tier mechanism, and among
    these the least sum of ratios. A path of two-sided geometric tiers always exists, so "auto" never needs slack; a
    family asked for by name may, where the owner allows it.

    Law:        φ(tier i)·φ(residual i) = φ(tier i + 1) for every pair of neighbours.
    Guarantee:  tier i is (ε_i, δ)-DP for every change in the set, and so is every coalition whose best tier is i.
    Args:       change_set: what one unit may change; an integer is the sensitivity of one number. family: "auto" or
                the name of a family for all tiers. delta: the nominal δ of the chain, an exact decimal; 0 means pure.
                allow_slack: the owner accepts steps that are off by a proved τ; such chains are drawn top-down only.
    Raises:     NoResidualError: a step for which no residual exists, with a witness. SlackNotAllowedError: only one
                with slack. InvalidParameterError: pure Skellam (with its real δ), unknown family, bad δ or sensitivity,
                anything but a Ladder.
                BudgetOrderError: ε does not fall strictly.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), sections 3 and 4; the choice of families is ours.
    Example:
        >>> chain = plan(Ladder.parse(["2", "1"]), ChangeSet.scalar(1))
        >>> [tier.half_width for tier in chain.tiers], round(chain.tiers[1].same_as_above, 4)
        ([1, 3], 0.5679)
        >>> [tier.law.noise.family for tier in plan(Ladder.parse(["4", "1.5"]), 2).tiers]
        ['msdlap', 'tsg']
    """
    if not isinstance(ladder, Ladder):
        raise InvalidParameterError("ladder", "a Ladder: only that has been checked", ladder)
    if not isinstance(family, str):
        raise InvalidParameterError("family", "a name", family)
    if not isinstance(change_set, ChangeSet) and (type(change_set) is not int or not 1 <= change_set <= 2**62):
        raise InvalidParameterError("sensitivity", "a ChangeSet, or an integer from 1 to 2⁶²", change_set)
    changes = change_set if isinstance(change_set, ChangeSet) else ChangeSet.scalar(change_set)
    nominal = parse_decimal("delta", delta)
    if nominal >= 1:
        raise InvalidParameterError("delta", "a decimal with 0 ≤ δ < 1", str(delta))
    return _plan(ladder, changes, family, nominal, allow_slack)


@lru_cache(maxsize=256)
def _plan(ladder: Ladder, change_set: ChangeSet, family: str, delta: Fraction, allow_slack: bool) -> ChainPlan:
    if family == AUTO:
        layers = [candidates(epsilon, delta, change_set) for epsilon in ladder]
    else:
        layers = [(calibrate(family, epsilon, delta, change_set),) for epsilon in ladder]
    laws = _choose(ladder, delta, change_set, layers, allow_slack=False)
    if isinstance(laws, TierError) and allow_slack:
        laws = _choose(ladder, delta, change_set, layers, allow_slack=True)
    if isinstance(laws, TierError):
        raise laws
    return plan_of([TierLaw(noise, change_set, delta) for noise in laws], allow_slack=allow_slack)


def plan_of(laws: Sequence[TierLaw], *, allow_slack: bool = False) -> ChainPlan:
    """Return the plan that has these laws on its tiers, most accurate first, every step down certified.

    Raises:     NoResidualError, SlackNotAllowedError: a step that is not there. Else as `ChainPlan`.
    Example:
        >>> two, one = (tier.law for tier in plan(Ladder.parse(["2", "1"]), 1).tiers)
        >>> [tier.rank for tier in plan_of([two, one]).tiers]
        [1, 2]
    """
    tiers = []
    for rank, law in enumerate(laws, start=1):
        edge = residual(laws[rank - 2].noise, law.noise, allow_slack=allow_slack) if rank > 1 else None
        epsilon = law.epsilon()
        tiers.append(
            PlannedTier(
                rank=rank,
                law=law,
                epsilon=epsilon,
                level_nano=nano_up(epsilon),
                half_width=_half_width(law.noise),
                variance=law.noise.variance(),
                same_as_above=edge.same_probability() if edge else None,
            )
        )
    if not tiers:
        raise InvalidParameterError("plan", "one tier or more", 0)
    return ChainPlan(tiers[0].law.change_set, tuple(tiers))


def _choose(
    ladder: Ladder,
    delta: Fraction,
    change_set: ChangeSet,
    layers: Sequence[tuple[NoiseLaw, ...]],
    *,
    allow_slack: bool,
) -> tuple[NoiseLaw, ...] | TierError:
    """Return the laws of the best path, or what stands in the way of every path."""
    refusals: dict[tuple[NoiseLaw, NoiseLaw], TierError] = {}

    def leads(upper: NoiseLaw, lower: NoiseLaw) -> bool:
        if (upper, lower) in refusals:
            return False
        try:
            residual(upper, lower, allow_slack=allow_slack)
        except (NoResidualError, SlackNotAllowedError, InvalidParameterError) as refusal:
            refusals[upper, lower] = refusal
            return False
        return True

    if all(len(layer) == 1 for layer in layers):
        laws = tuple(layer[0] for layer in layers)
        return laws if all(leads(upper, lower) for upper, lower in pairwise(laws)) else next(iter(refusals.values()))
    weighed = [
        {law: law.variance() / best_alone(epsilon, delta, change_set).variance for law in layer}
        for epsilon, layer in zip(ladder, layers, strict=True)
    ]
    found = best_path(weighed, leads)
    return found if found is not None else next(iter(refusals.values()))


def best_path(
    layers: Sequence[dict[NoiseLaw, float]], leads: Callable[[NoiseLaw, NoiseLaw], bool]
) -> tuple[NoiseLaw, ...] | None:
    """Return the path through the layers with the least worst weight, then the least sum; None where none leads down.

    Exact: for each possible worst weight, from the least on, a dynamic programme over the laws that stay within it.

    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> one, two, three = (TwoSidedGeometric(Fraction(rate)) for rate in (3, 2, 1))
        >>> best_path([{one: 1.0, two: 1.5}, {three: 1.2}], lambda upper, lower: upper is two) == (two, three)
        True
    """
    least = max(min(layer.values()) for layer in layers)
    for worst in sorted({weight for layer in layers for weight in layer.values() if weight >= least}):
        paths: dict[NoiseLaw, tuple[float, tuple[NoiseLaw, ...]]] = {}
        for place, layer in enumerate(layers):
            reached = {}
            for law, weight in layer.items():
                if weight > worst:
                    continue
                ways = [(0.0, ())] if place == 0 else [way for upper, way in paths.items() if leads(upper, law)]
                if ways:
                    total, path = min(ways, key=lambda way: way[0])
                    reached[law] = (total + weight, (*path, law))
            paths = reached
        if paths:
            return min(paths.values(), key=lambda way: way[0])[1]
    return None


def _half_width(law: NoiseLaw) -> int:
    """Return `law.half_width(CONFIDENCE)`, read off the table of tails that the calibration has left, where it can."""
    if isinstance(law, Skellam | DiscreteGaussian):
        tails = law.tails(_BITS)
        if isinstance(tails, TableTails):
            miss = ((1 - CONFIDENCE).numerator << _BITS) // (1 - CONFIDENCE).denominator
            low, high = -1, tails.reach
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if 2 * tails.tail(middle + 1) <= miss else (middle, high)
            sure = 2 * (tails.tail(high + 1) + tails.error) <= miss and (
                high == 0 or 2 * (tails.tail(high) - tails.error) > miss + 1
            )
            if sure:
                return high
    return law.half_width(CONFIDENCE)
