"""Which draws may be tested, and when: those whose opening did not depend on what they turned out to be.

A buyer who goes up from a low tier only where its answer looks odd selects the residual between the two tiers: opened
residuals then have another law than drawn ones, in an honest market. So a draw is tested only if its parents were at or
below the highest issued tier before anybody had seen anything made from it.
"""

from dataclasses import dataclass, field

from tiers.audit.records import DrawRecord, SaleRecord
from tiers.audit.replay import openable
from tiers.identity import Role, TierLaw
from tiers.rank import more_accurate

__all__ = ["Due", "Selector"]


@dataclass(frozen=True, slots=True)
class Due:
    """A draw to test, and the leaf that decided on it: the draw's own, or the first sale of its chain after it."""

    leaf: int
    draw: DrawRecord


@dataclass(slots=True)
class Selector:
    """The residuals and bridges that may be tested, as a log is read: it keeps chains' laws and what waits for a sale.

    Law:        due at the draw's leaf if its upper parent is at or below the highest tier issued by then; else at the
                first later sale of the chain if that sale issues the parent or better; else never.
    Guarantee:  whether and when a draw is tested depends on earlier leaves and on draws that it did not touch, so given
                its parents it has its claimed law at the moment of the test, whatever buyers do.
    Example:
        >>> from tiers.budget import Ladder
        >>> from tiers.chain import plan, specs
        >>> top, low = specs("0" * 64, plan(Ladder.parse(["2", "1"]), 1), epoch=1, grain=0, length=1)
        >>> selector = Selector()
        >>> [selector.draw(DrawRecord(leaf, spec, leaf, (), "", "")) for leaf, spec in enumerate((top, low))]
        [(), ()]
        >>> [due.leaf for due in selector.sale(SaleRecord(2, "order", "p", "0" * 64, top.law.identity, 0, 0))]
        [2]
    """

    highest: dict[str, TierLaw] = field(default_factory=dict)
    laws: dict[tuple[str, str], TierLaw] = field(default_factory=dict)
    waiting: dict[str, list[DrawRecord]] = field(default_factory=dict)

    def draw(self, record: DrawRecord) -> tuple[Due, ...]:
        """Take in a draw; it is due at once where its upper parent is issued already."""
        spec = record.spec
        self.laws[spec.chain, spec.law.identity] = spec.law
        if spec.role not in (Role.RESIDUAL, Role.BRIDGE):
            return ()
        if openable(spec.parents[0], self.highest.get(spec.chain)):
            return (Due(record.leaf, record),)
        self.waiting.setdefault(spec.chain, []).append(record)
        return ()

    def sale(self, record: SaleRecord) -> tuple[Due, ...]:
        """Take in a sale; what waited for it is due, or never will be."""
        sold = self.laws.get((record.chain, record.law))
        if sold is None:
            return ()
        known = self.highest.get(record.chain)
        if known is None or more_accurate(sold, known):
            self.highest[record.chain] = known = sold
        drawn = self.waiting.pop(record.chain, [])
        return tuple(Due(record.leaf, draw) for draw in drawn if openable(draw.spec.parents[0], known))
