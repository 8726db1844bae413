"""One budget over data of many kinds: columns, snapshots, sensors, each with a metric of its own.

A person's data is a tuple of components, and two tuples are as far apart as their farthest component: dist_∞ = max_l
dist_l. A mechanism that reads one component keeps its cost, and costs add up, for Σ ε_l·dist_l ≤ (Σ ε_l)·max dist_l
(and Σ ρ_l·dist_l² likewise). Components need not be known in advance. Data that changed is a new component: asking the
new value is a new charge, and nothing is refunded for the old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tiers.accounting.metric import Cost, MetricFilter, cost_nano
from tiers.errors import InvalidParameterError

__all__ = ["Component", "ComponentLedger"]


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a person's data at one version: what a charge is for.

    Args:       name: of the column or sensor. version: of its value, from 1; a change is the next one.
    Raises:     InvalidParameterError: an empty name or a version that is not an integer ≥ 1.
    Example:
        >>> Component("place").changed()
        Component(name='place', version=2)
    """

    name: str
    version: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidParameterError("component", "a name", self.name)
        if type(self.version) is not int or self.version < 1:
            raise InvalidParameterError("version", "an integer ≥ 1", self.version)

    def changed(self) -> "Component":
        """Return the component that the changed value is."""
        return Component(self.name, self.version + 1)


@dataclass(frozen=True, slots=True)
class ComponentLedger:
    """A filter over dist_∞ and what each component has been charged within it.

    Law:        spent = Σ over components, whatever the metrics: every mechanism reads one component.
    Guarantee:  the transcript is B-GP (B-CGP) with respect to dist_∞, hence for each component alone as well.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, theorem 5.1 and corollary 5.1.
    Example:
        >>> from fractions import Fraction
        >>> from tiers.accounting.filters import PureFilter
        >>> from tiers.accounting.metric import Measure
        >>> ledger = ComponentLedger(MetricFilter(PureFilter.of(Fraction(1))))
        >>> half = Cost(Measure.GP, Fraction(1, 2))
        >>> place = Component("place")
        >>> ledger = ledger.charge(place, half).charge(place.changed(), half)
        >>> ledger.ledger.filter.remaining_nano, ledger.charged[place]
        (0, 500000000)
    """

    ledger: MetricFilter
    charged: Mapping[Component, int] = field(default_factory=lambda: MappingProxyType({}))

    def charge(self, component: Component, cost: Cost) -> "ComponentLedger":
        """Return the ledger after a mechanism that reads this component alone; raises as `MetricFilter.charge`."""
        after = self.ledger.charge(cost)
        units = cost_nano(cost, self.ledger.kind, self.ledger.reach)
        before = self.charged.get(component, 0)
        return ComponentLedger(after, MappingProxyType({**self.charged, component: before + units}))
