"""Which mechanism a panel has: the one that was asked for, or the one of least variance over its menu."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from app.errors import InvalidRequestError
from app.panels.plans.base import Law, Mechanism, Plan
from app.panels.plans.bits import BitsPlan
from app.panels.plans.mixture import MixturePlan
from app.panels.plans.points import PointsPlan
from app.panels.plans.sets import SetsPlan
from app.panels.plans.values import HashesPlan, ValuesPlan
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.hash_planning import hash_bounds
from tiers.local.planning import plan_subset, spending
from tiers.local.subset import check_domain

__all__ = ["BY_STEPS", "MECHANISMS", "choose", "plan_of", "read_plan"]

_BY_VALUES: dict[Mechanism, Callable[[int, Ladder, Fraction], Plan]] = {
    "subset": lambda size, ladder, _: SetsPlan.of("subset", plan_subset(size, ladder)),
    "randomized-response": lambda size, ladder, _: ValuesPlan.of(size, ladder),
    "local-hash": lambda size, ladder, _: HashesPlan.of(size, ladder),
    "mixed": MixturePlan.of,
}
BY_STEPS: tuple[Mechanism, ...] = ("flips", "points")
"""Those whose ε is a step's."""
MECHANISMS: tuple[Mechanism, ...] = (*_BY_VALUES, *BY_STEPS)
_READERS: dict[str, Callable[[int, Ladder, Sequence[Law]], Plan]] = {
    "subset": partial(SetsPlan.read, "subset"),
    "randomized-response": ValuesPlan.read,
    "local-hash": HashesPlan.read,
    "mixed": MixturePlan.read,
    "flips": BitsPlan.read,
    "points": PointsPlan.read,
    "singletons": partial(SetsPlan.read, "singletons"),
}
"""What an owner may ask for; of equals, the first is chosen."""
_EQUAL = 1e-9


def plan_of(
    mechanism: Mechanism,
    domain_size: int,
    ladder: Ladder,
    mean_weight: Fraction = Fraction(0),
    *,
    sizes: tuple[int, ...] = (),
) -> Plan:
    """Return the plan of a mechanism.

    Args:       mean_weight: of a mixed plan: how much the mean ratio counts beside the worst, from 0 to 1. sizes: of
                points: how many values each axis has; one axis unless told.
    Raises:     InvalidParameterError: a domain, an ε or a weight out of range. InvalidRequestError: too few values, or
                more axes or cells than a grid may have.
    Example:
        >>> [law.buckets for law in plan_of("local-hash", 40, Ladder.parse(["2", "1"])).laws]
        [8, 4]
    """
    if mechanism == "flips":
        return BitsPlan.of(domain_size, ladder)
    if mechanism == "points":
        return PointsPlan.over(sizes or (domain_size,), ladder)
    if mechanism == "singletons":  # randomised response as sets of one value: panels opened before it had its own form
        return SetsPlan.of(mechanism, spending(domain_size, 1, ladder))
    return _BY_VALUES[mechanism](check_domain(domain_size), ladder, mean_weight)


def read_plan(mechanism: str, domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> Plan:
    """Return the plan that stored laws name: nothing is planned again, and every ε and every step is checked.

    Raises:     InvalidParameterError: a mechanism or laws that are none, or a tier above its ε. NoResidualError: a step
                that no operator makes. InvalidRequestError: a domain below 2, or a grid too large.
    """
    if mechanism not in _READERS:
        raise InvalidParameterError("mechanism", f"one of {', '.join(MECHANISMS)}", "another")
    plan = _READERS[mechanism](domain_size, ladder, laws)
    if [plan.parameters(rank) for rank in range(len(ladder))] != [dict(law) for law in laws]:
        raise InvalidParameterError("laws", "their one form", "another")
    return plan


def choose(
    asked: str,
    domain_size: int,
    ladder: Ladder,
    *,
    ordered: bool,
    mean_weight: Fraction = Fraction(0),
    sizes: tuple[int, ...] = (),
) -> Plan:
    """Return the plan that was asked for, or, for "auto", the one of least variance over the menu that keeps ε.

    "Least" is the smallest worst ratio to each tier's best single mechanism, then the smallest mean. Flips promise ε a
    step and not ε for any two values: they serve ordered panels, and those only; of points, where there are axes.

    Args:       sizes: how many values each axis of a grid has; empty for a plain domain.

    Raises:     InvalidRequestError: a mechanism that does not keep the promise that was asked for.
    Example:
        >>> choose("auto", 16, Ladder.parse(["1", "0.5"]), ordered=False).mechanism
        'subset'
    """
    if sizes and not ordered:
        raise InvalidRequestError('promise: expected "steps" of a panel with axes, got "values"')
    by_steps: Mechanism = "points" if sizes else "flips"
    fitting = [by_steps] if ordered else list(_BY_VALUES)
    if asked != "auto":
        fitting = [name for name in fitting if name == asked]
    if not fitting:
        values = f"ε for any two values: {', '.join(_BY_VALUES)}"
        kind = f"ε a step: {by_steps}" if ordered else values
        raise InvalidRequestError(f"mechanism: expected one that promises {kind}, got {asked!r}")
    found: Plan | None = None
    for name in sorted(fitting, key=lambda each: (each == "local-hash", MECHANISMS.index(each))):
        if found is not None and _least_of(name, domain_size, ladder) >= _merit(found):
            continue
        plan = plan_of(name, domain_size, ladder, mean_weight, sizes=sizes)
        found = plan if found is None or _merit(plan) < _merit(found) else found
    assert found is not None
    return found


def _merit(plan: Plan) -> tuple[float, float]:
    """The worst ratio of a plan's tiers, and the mean one."""
    return max(plan.ratios), sum(plan.ratios) / len(plan.ratios)


def _least_of(mechanism: Mechanism, domain_size: int, ladder: Ladder) -> tuple[float, float]:
    """What no plan of a mechanism can be below: what has no chance need not be planned."""
    if mechanism == "local-hash":
        ratios = hash_bounds(domain_size, ladder)
        return max(ratios), sum(ratios) / len(ratios)
    return (
        (1 + _EQUAL, 1 + _EQUAL) if mechanism == "mixed" else (0.0, 0.0)
    )  # a mixture's tiers are no better than the best
