"""Plan a panel's chain for its menu: one path for everybody, and the paper's fixed templates for comparison."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Protocol, Self, TypeVar

import numpy as np

from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.menu import Menu, best_subset_size, report_variance
from tiers.local.paths import Path, cheapest_path, least_worst_ratio
from tiers.local.signal import Signal
from tiers.local.subset import Subset

__all__ = ["SubsetPlan", "check_tiers", "nests", "plan_subset", "spending", "subset_plan_of", "template_ratios"]


class _Tier(Protocol):
    @property
    def signal(self) -> Signal: ...

    @property
    def coverage(self) -> Fraction: ...

    def epsilon(self) -> float: ...

    def check_step(self, lower: Self, /) -> None: ...


_Law = TypeVar("_Law", bound=_Tier)


def check_tiers(ladder: Ladder, tiers: Sequence[_Law]) -> None:
    """Refuse a chain of which a tier spends more than its ε, or a step is made by no operator; decided by balls.

    Raises:     InvalidParameterError: a tier above its ε, or more or fewer of them. NoResidualError: such a step.
    Example:
        >>> check_tiers(Ladder.parse(["2", "1"]), [Subset.paying(9, k, Fraction(e)) for k, e in ((1, 2), (2, 1))])
    """
    if len(tiers) != len(ladder):
        raise InvalidParameterError("plan", f"{len(ladder)} tiers", len(tiers))
    for epsilon, tier in zip(ladder, tiers, strict=True):
        if not tier.signal.within(epsilon, tier.coverage):
            raise InvalidParameterError("tier", f"at most ε = {epsilon}", tier.epsilon())
    for upper, lower in pairwise(tiers):
        upper.check_step(lower)


@dataclass(frozen=True, slots=True)
class SubsetPlan:
    """The tiers of a panel, top first: tier i spends at most ladder ε_i, and each step obeys the nesting law.

    Guarantee:  tier i is ε_i-LDP, and any coalition of tiers has the ε of its best one, for each is derived from the
                tier above alone.
    Raises:     InvalidParameterError: a tier that spends more than it is sold for, or none. NoResidualError: a step
                that the nesting law forbids.
    """

    ladder: Ladder
    tiers: tuple[Subset, ...]
    ratios: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.tiers) == len(self.ratios) == len(self.ladder):
            raise InvalidParameterError("plan", f"{len(self.ladder)} tiers", len(self.tiers))
        check_tiers(self.ladder, self.tiers)

    @property
    def worst_ratio(self) -> float:
        """Return the largest variance against the single-tier optimum."""
        return max(self.ratios)

    @property
    def mean_ratio(self) -> float:
        """Return the mean variance against the single-tier optimum."""
        return math.fsum(self.ratios) / len(self.ratios)


def nests(upper: Subset, lower: Subset) -> bool:
    """Return whether expansion and rescaling lead from one mechanism to the other.

    Law:        k′ ≥ k and k′(e^ε′ − 1) ≤ k(e^ε − 1).
    Example:
        >>> one, two = Subset.paying(10, 1, Fraction(2)), Subset.paying(10, 2, Fraction(1))
        >>> nests(one, two), nests(two, one)
        (True, False)
    """
    same = upper.domain_size == lower.domain_size
    return same and lower.subset_size >= upper.subset_size and upper.signal.reaches(lower.signal)


def plan_subset(domain_size: int, ladder: Ladder, *, slack: Fraction = Fraction(0)) -> SubsetPlan:
    """Return the plan with the least worst ratio, and among those the least mean: exact over all set sizes.

    Args:       slack: by how much more than the least worst ratio may be given up for the mean, as a part of it.
    Raises:     InvalidParameterError: a domain out of range, or a negative slack.
    Example:
        >>> plan = plan_subset(10, Ladder.parse(["2.1", "1.5", "1", "0.5", "0.1"]))
        >>> [tier.subset_size for tier in plan.tiers], plan.worst_ratio
        ([1, 2, 3, 4, 5], 1.0)
    """
    if not isinstance(slack, Fraction) or slack < 0:
        raise InvalidParameterError("slack", "a Fraction of at least 0", slack)
    menu = Menu.of(domain_size, ladder)
    path = cheapest_path(menu, np.ones(len(ladder)), bound=least_worst_ratio(menu) * float(1 + slack))
    return subset_plan_of(menu, path)


def spending(domain_size: int, subset_size: int, ladder: Ladder) -> SubsetPlan:
    """Return the plan of one set size that spends every ε; raises as Subset does.

    Example:
        >>> [round(ratio, 3) for ratio in spending(10, 1, Ladder.parse(["3", "1"])).ratios]
        [1.0, 1.407]
    """
    tiers = tuple(Subset.paying(domain_size, subset_size, epsilon) for epsilon in ladder)
    best = [best_subset_size(domain_size, epsilon)[1] for epsilon in ladder]
    return SubsetPlan(ladder, tiers, tuple(t.variance() / least for t, least in zip(tiers, best, strict=True)))


def subset_plan_of(menu: Menu, path: Path) -> SubsetPlan:
    """Return a path as mechanisms, each signal exact: that of the tier whose cap binds."""
    tiers = []
    for size, (tier, bound_size) in zip(path.sizes, path.binding, strict=True):
        coverage = Fraction(bound_size, menu.domain_size)
        tiers.append(Subset(menu.domain_size, size, Signal.paying(menu.ladder.epsilons[tier], coverage=coverage)))
    return SubsetPlan(menu.ladder, tuple(tiers), path.ratios)


def template_ratios(domain_size: int, ladder: Ladder) -> tuple[float, ...]:
    """Return what the paper's fixed templates give: a tier is served from the closest one at or below its ε.

    Law:        ε_k = ln(d/k − 1) for k = 1 … ⌊(d−1)/2⌋; infinite where every template is above the tier's ε.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), section 5.3.
    Example:
        >>> round(max(template_ratios(10, Ladder.parse(["4", "2", "1", "0.5"]))), 2)
        9.96
    """
    found = []
    for epsilon in ladder:
        _, optimum = best_subset_size(domain_size, epsilon)
        sizes = [k for k in range(1, (domain_size - 1) // 2 + 1) if math.log(domain_size / k - 1) <= float(epsilon)]
        if not sizes:
            found.append(math.inf)
            continue
        k = np.array([float(sizes[0])])  # the smallest such size has the largest ε
        found.append(float(report_variance(domain_size, k, domain_size - 2 * k)[0]) / optimum)
    return tuple(found)
