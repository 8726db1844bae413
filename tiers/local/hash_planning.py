"""Plan a chain of local hashes for its menu: numbers of buckets that divide each other, by a dynamic programme."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.local_hash import LocalHash
from tiers.local.menu import best_subset_size
from tiers.local.planning import check_tiers
from tiers.local.signal import Signal
from tiers.local.subset import check_domain

__all__ = ["PLANNED_BUCKETS", "HashPlan", "hash_bounds", "hash_variance", "plan_hash"]

PLANNED_BUCKETS = 512


@dataclass(frozen=True, slots=True)
class HashPlan:
    """The tiers of a panel of local hashes, top first.

    Guarantee:  tier i is ε_i-LDP, and any coalition of tiers has the ε of its best one.
    Raises:     InvalidParameterError: a tier that spends more than it is sold for, or none. NoResidualError: buckets
                that do not nest, or a signal that rises.
    """

    domain_size: int
    ladder: Ladder
    tiers: tuple[LocalHash, ...]

    def __post_init__(self) -> None:
        check_tiers(self.ladder, self.tiers)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return each tier's variance against the single-tier optimum (Subset's)."""
        best = [best_subset_size(self.domain_size, epsilon)[1] for epsilon in self.ladder]
        return tuple(
            law.rates().variance(self.domain_size) / least for law, least in zip(self.tiers, best, strict=True)
        )


@dataclass(frozen=True, slots=True)
class _Chain:
    """A chain so far: the odds of its last tier, what it costs, and (buckets, tier and buckets whose cap binds)."""

    odds: float
    worst: float
    total: float
    path: tuple[tuple[int, int, int], ...]


def hash_variance(domain_size: int, buckets: int, odds: float) -> float:
    """Return (t(1−t) + (d−1)f(1−f))/(t−f)² of a local hash over g buckets with odds s/(1−s).

    Law:        t = (o + 1/g)/(1 + o), f = 1/g, t − f = o(g−1)/(g(1 + o)).
    Example:
        >>> law = LocalHash.paying(4, Fraction(1))
        >>> abs(hash_variance(30, 4, law.signal.odds_value()) / law.rates().variance(30) - 1) < 1e-12
        True
    """
    true, false = (odds + 1 / buckets) / (1 + odds), 1 / buckets
    gap = odds * (buckets - 1) / (buckets * (1 + odds))
    return (true * (1 - true) + (domain_size - 1) * false * (1 - false)) / gap**2


def hash_bounds(domain_size: int, ladder: Ladder) -> tuple[float, ...]:
    """Return each tier's ratio under the best single local hash: no chain of them has a smaller one.

    Example:
        >>> ladder = Ladder.parse(["3", "2", "1"])
        >>> all(a <= b for a, b in zip(hash_bounds(100, ladder), plan_hash(100, ladder).ratios))
        True
    """
    found = []
    for epsilon in ladder:
        least, odds = best_subset_size(check_domain(domain_size), epsilon)[1], math.expm1(float(epsilon))
        best = min(hash_variance(domain_size, buckets, odds / buckets) for buckets in range(2, PLANNED_BUCKETS + 1))
        found.append(best / least * (1 - 1e-9))
    return tuple(found)


def plan_hash(domain_size: int, ladder: Ladder, *, limit: int = PLANNED_BUCKETS) -> HashPlan:
    """Return the chain of local hashes with the least worst ratio, and among those the least mean.

    Each tier's buckets divide those above, and its odds are the least cap (e^ε − 1)/g so far: more signal is always
    better. Chains that another one beats in odds, worst and mean are dropped.

    Args:       limit: the most buckets that are looked at.
    Raises:     InvalidParameterError: a domain or a limit out of range.
    Example:
        >>> [law.buckets for law in plan_hash(100, Ladder.parse(["3", "2", "1"])).tiers]
        [20, 10, 5]
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 2 <= limit <= PLANNED_BUCKETS:
        raise InvalidParameterError("buckets", f"an integer from 2 to {PLANNED_BUCKETS}", limit)
    best = [best_subset_size(check_domain(domain_size), epsilon)[1] for epsilon in ladder]
    start = _Chain(math.inf, 0.0, 0.0, ())
    states: dict[int, list[_Chain]] = {buckets: [start] for buckets in range(2, limit + 1)}
    for tier, (epsilon, least) in enumerate(zip(ladder, best, strict=True)):
        grown: dict[int, list[_Chain]] = {}
        for above, chains in states.items():
            for buckets in (above,) if tier == 0 else _divisors(above):
                cap = math.expm1(float(epsilon)) / buckets
                for chain in chains:
                    odds = min(cap, chain.odds)
                    binding = (tier, buckets) if cap <= chain.odds else chain.path[-1][1:]
                    ratio = hash_variance(domain_size, buckets, odds) / least
                    path = (*chain.path, (buckets, *binding))
                    grown.setdefault(buckets, []).append(
                        _Chain(odds, max(chain.worst, ratio), chain.total + ratio, path)
                    )
        states = {buckets: _undominated(chains) for buckets, chains in grown.items()}
    found = min((chain for chains in states.values() for chain in chains), key=lambda chain: (chain.worst, chain.total))
    epsilons = ladder.epsilons
    tiers = tuple(
        LocalHash(buckets, Signal.paying(epsilons[tier], coverage=Fraction(1, bound)))
        for buckets, tier, bound in found.path
    )
    return HashPlan(domain_size, ladder, tiers)


def _divisors(buckets: int) -> Iterator[int]:
    return (part for part in range(2, buckets + 1) if buckets % part == 0)


def _undominated(chains: list[_Chain]) -> list[_Chain]:
    kept: list[_Chain] = []
    for chain in sorted(chains, key=lambda each: (-each.odds, each.worst, each.total)):
        if not any(other.worst <= chain.worst and other.total <= chain.total for other in kept):
            kept.append(chain)
    return kept
