"""Which mechanism a panel has: the one that was asked for, or the one of least variance over its menu."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from app.errors import InvalidRequestError
from app.panels.plans.base import Law, Mechanism, Plan
from app.panels.plans.bits import BitsPlan
from app.panels.plans.mixture import MixturePlan
from app.panels.plans.sets import SetsPlan
from app.panels.plans.values import HashesPlan, ValuesPlan
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.planning import plan_subset, spending
from tiers.local.subset import check_domain

__all__ = ["MECHANISMS", "choose", "plan_of", "read_plan"]

_BY_VALUES: dict[Mechanism, Callable[[int, Ladder, Fraction], Plan]] = {
    "subset": lambda size, ladder, _: SetsPlan.of("subset", plan_subset(size, ladder)),
    "randomized-response": lambda size, ladder, _: ValuesPlan.of(size, ladder),
    "local-hash": lambda size, ladder, _: HashesPlan.of(size, ladder),
    "mixed": MixturePlan.of,
}
_READERS: dict[str, Callable[[int, Ladder, Sequence[Law]], Plan]] = {
    "subset": partial(SetsPlan.read, "subset"),
    "randomized-response": ValuesPlan.read,
    "local-hash": HashesPlan.read,
    "mixed": MixturePlan.read,
    "flips": BitsPlan.read,
    "singletons": partial(SetsPlan.read, "singletons"),
}
MECHANISMS: tuple[Mechanism, ...] = (*_BY_VALUES, "flips")
"""What an owner may ask for; of equals, the first is chosen."""


def plan_of(mechanism: Mechanism, domain_size: int, ladder: Ladder, mean_weight: Fraction = Fraction(0)) -> Plan:
    """Return the plan of a mechanism.

    Args:       mean_weight: of a mixed plan: how much the mean ratio counts beside the worst, from 0 to 1.
    Raises:     InvalidParameterError: a domain, an ε or a weight out of range.
    Example:
        >>> [law.buckets for law in plan_of("local-hash", 40, Ladder.parse(["2", "1"])).laws]
        [8, 4]
    """
    if mechanism == "flips":
        return BitsPlan.of(domain_size, ladder)
    if mechanism == "singletons":  # randomised response as sets of one value: panels opened before it had its own form
        return SetsPlan.of(mechanism, spending(domain_size, 1, ladder))
    return _BY_VALUES[mechanism](check_domain(domain_size), ladder, mean_weight)


def read_plan(mechanism: str, domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> Plan:
    """Return the plan that stored laws name: nothing is planned again, and every ε and every step is checked.

    Raises:     InvalidParameterError: a mechanism or laws that are none, or a tier above its ε. NoResidualError: a step
                that no operator makes. InvalidRequestError: a domain below 2.
    """
    if mechanism not in _READERS:
        raise InvalidParameterError("mechanism", f"one of {', '.join(MECHANISMS)}", "another")
    plan = _READERS[mechanism](domain_size, ladder, laws)
    if [plan.parameters(rank) for rank in range(len(ladder))] != [dict(law) for law in laws]:
        raise InvalidParameterError("laws", "their one form", "another")
    return plan


def choose(asked: str, domain_size: int, ladder: Ladder, *, ordered: bool, mean_weight: Fraction = Fraction(0)) -> Plan:
    """Return the plan that was asked for, or, for "auto", the one of least variance over the menu that keeps ε.

    "Least" is the smallest worst ratio to each tier's best single mechanism, then the smallest mean. Flips promise ε a
    step and not ε for any two values: they serve ordered panels, and those only.

    Raises:     InvalidRequestError: a mechanism that does not keep the promise that was asked for.
    Example:
        >>> choose("auto", 16, Ladder.parse(["1", "0.5"]), ordered=False).mechanism
        'subset'
    """
    fitting = [name for name in MECHANISMS if (name == "flips") == ordered]
    if asked != "auto":
        fitting = [name for name in fitting if name == asked]
    if not fitting:
        kind = "ε a step: flips" if ordered else f"ε for any two values: {', '.join(_BY_VALUES)}"
        raise InvalidRequestError(f"mechanism: expected one that promises {kind}, got another")
    plans = [plan_of(name, domain_size, ladder, mean_weight) for name in fitting]
    return min(plans, key=lambda plan: (max(plan.ratios), sum(plan.ratios) / len(plan.ratios)))
