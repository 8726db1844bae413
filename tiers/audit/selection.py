"""Which draws may be tested, and when: those whose opening did not depend on what they turned out to be.

A buyer who goes up from a low tier only where its answer looks odd selects the residual between the two tiers: opened
residuals then have another law than drawn ones, in an honest market. So a draw is tested only if its parents were at or
below the highest issued tier before anybody had seen anything made from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tiers.audit.records import DrawRecord, History
from tiers.audit.replay import openable
from tiers.identity import Role, TierLaw
from tiers.rank import more_accurate

__all__ = ["Due", "due_draws"]


@dataclass(frozen=True, slots=True)
class Due:
    """A draw to test, and the leaf that decided on it: the draw's own, or the first sale of its chain after it."""

    leaf: int
    draw: DrawRecord


def due_draws(history: History, after: int = -1) -> Iterator[Due]:
    """Yield the residuals and bridges that may be tested, in the order of the leaves that decided on them.

    Law:        due at the draw's leaf if its upper parent is at or below the highest tier issued by then; else at the
                first later sale of the chain if that sale issues the parent or better; else never.
    Guarantee:  whether and when a draw is tested depends on earlier leaves and on draws that it did not touch, so given
                its parents it has its claimed law at the moment of the test, whatever buyers do.
    Args:       after: leave out what was decided at or before this leaf.
    Example:
        >>> list(due_draws(History((), {}, {}, (), (), ())))
        []
    """
    laws = {(draw.spec.chain, draw.spec.law.identity): draw.spec.law for draw in history.draws}
    events = sorted(
        [(draw.leaf, 0, draw) for draw in history.draws] + [(sale.leaf, 1, sale) for sale in history.sales],
        key=lambda event: event[:2],
    )
    highest: dict[str, TierLaw] = {}
    waiting: dict[str, list[DrawRecord]] = {}
    for leaf, _, event in events:
        if isinstance(event, DrawRecord):
            if event.spec.role not in (Role.RESIDUAL, Role.BRIDGE):
                continue
            chain = event.spec.chain
            if openable(event.spec.parents[0], highest.get(chain)):
                ready = [event]
            else:
                waiting.setdefault(chain, []).append(event)
                continue
        else:
            chain = event.chain
            sold = laws.get((chain, event.law))
            if sold is None:
                continue
            if chain not in highest or more_accurate(sold, highest[chain]):
                highest[chain] = sold
            drawn = waiting.pop(chain, [])
            ready = [draw for draw in drawn if openable(draw.spec.parents[0], highest[chain])]
        if leaf > after:
            yield from (Due(leaf, draw) for draw in ready)
