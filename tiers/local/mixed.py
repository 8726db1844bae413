"""Mixed plans: people on different paths, so that a dense menu has every tier near its optimum."""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
from scipy.optimize import linprog

from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.menu import Floats, Menu
from tiers.local.paths import Path, Paths, cheapest_path, least_worst_ratio
from tiers.local.planning import SubsetPlan, subset_plan_of

__all__ = ["SHARE_UNIT", "MixedPlan", "plan_mixed"]

SHARE_UNIT = 2**32
_ROUNDS = 400
_BOUND = 8.0


@dataclass(frozen=True, slots=True)
class MixedPlan:
    """Paths with the share of people on each, and the ratios of their mixture.

    The variance of a count at tier i is n·Σ_path share·V_i(path): a path's own estimates, added up.

    Guarantee:  as of each path: everybody's tier i is ε_i-LDP; paths are assigned once, by a public label that does not
                depend on anybody's value.
    Args:       shares: in units of 2⁻³², adding up to 2³². lower_bound: no mixture of paths that the planner looks at
                (ratios up to 8, the menu's sizes) has a smaller objective, by duality.
    """

    paths: tuple[SubsetPlan, ...]
    shares: tuple[int, ...]
    ratios: tuple[float, ...]
    lower_bound: float

    def __post_init__(self) -> None:
        if len(self.paths) != len(self.shares) or sum(self.shares) != SHARE_UNIT or min(self.shares) <= 0:
            raise InvalidParameterError("shares", f"one a path, positive, adding up to {SHARE_UNIT}", self.shares)

    @property
    def worst_ratio(self) -> float:
        """Return the largest variance against the single-tier optimum."""
        return max(self.ratios)

    @property
    def mean_ratio(self) -> float:
        """Return the mean variance against the single-tier optimum."""
        return sum(self.ratios) / len(self.ratios)

    def path_of(self, label: int) -> int:
        """Return the path of a person whose public label is a uniform 32-bit word.

        Raises:     InvalidParameterError: a label that is not such a word.
        """
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < SHARE_UNIT:
            raise InvalidParameterError("label", "a word of 32 bits", label)
        return bisect_right(list(accumulate(self.shares)), label)


def plan_mixed(
    domain_size: int, ladder: Ladder, *, mean_weight: Fraction = Fraction(0), tolerance: float = 1e-3
) -> MixedPlan:
    """Return the mixture of paths of least (1 − w)·worst + w·mean ratio, w = `mean_weight`.

    A linear programme over paths by column generation: the dynamic programme, weighted by the programme's dual values,
    either finds a path that improves the mixture or proves how little any path can. Domains above 129 values use a grid
    of set sizes.

    Args:       tolerance: stop within this part of the proved lower bound.
    Raises:     InvalidParameterError: a domain out of range, or a weight outside [0, 1].
    Example:
        >>> plan = plan_mixed(4, Ladder.parse(["2", "1.5", "1", "0.5"]))
        >>> plan.worst_ratio <= max(plan_mixed(4, Ladder.parse(["2", "1.5", "1", "0.5"])).ratios) < 1.05
        True
    """
    if not 0 <= mean_weight <= 1:
        raise InvalidParameterError("mean weight", "a part from 0 to 1", mean_weight)
    menu, mean = Menu.thinned(domain_size, ladder), float(mean_weight)
    tiers = len(ladder)
    whole = Menu.of(domain_size, ladder)
    single = least_worst_ratio(whole)
    columns = [cheapest_path(whole, np.ones(tiers), bound=single)]
    paths = Paths(menu, _BOUND)
    columns += [paths.cheapest(np.eye(tiers)[tier] + 1e-3) for tier in range(tiers)]
    best_bound = 0.0
    for _ in range(_ROUNDS):
        weights, value, prices = _mixture(columns, mean)
        found = paths.cheapest(prices + mean / tiers)
        best_bound = max(best_bound, float(np.dot(prices + mean / tiers, found.ratios)))
        if value - best_bound <= tolerance * value or found in columns:
            break
        columns.append(found)
    return _mixed(menu, columns, weights, best_bound)


def _mixture(columns: list[Path], mean: float) -> tuple[Floats, float, Floats]:
    """Return the shares, the objective and the tiers' dual prices of the best mixture of these paths."""
    ratios = np.array([path.ratios for path in columns]).T
    cost = np.append(mean * ratios.mean(axis=0), 1.0 if mean < 1 else 0.0)
    cover = np.hstack([ratios * (1 - mean), -np.ones((len(ratios), 1))])
    total = np.append(np.ones(len(columns)), 0.0)[None, :]
    solved = linprog(cost, A_ub=cover, b_ub=np.zeros(len(ratios)), A_eq=total, b_eq=[1.0], method="highs")
    assert solved.status == 0, solved.message
    return solved.x[:-1], float(solved.fun), -solved.ineqlin.marginals * (1 - mean)


def _mixed(menu: Menu, columns: list[Path], weights: Floats, bound: float) -> MixedPlan:
    chosen = [(path, weight) for path, weight in zip(columns, weights, strict=True) if weight > 1e-9]
    ends = [round(SHARE_UNIT * float(end)) for end in accumulate(weight for _, weight in chosen)]
    ends[-1] = SHARE_UNIT
    shares = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    kept = [(path, share) for (path, _), share in zip(chosen, shares, strict=True) if share > 0]
    plans = tuple(subset_plan_of(menu, path) for path, _ in kept)
    mixed = sum(share / SHARE_UNIT * np.array(path.ratios) for path, share in kept)
    return MixedPlan(plans, tuple(share for _, share in kept), tuple(np.asarray(mixed).tolist()), bound)
