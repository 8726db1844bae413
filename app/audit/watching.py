"""A5 of a log: every draw that nobody has chosen, shown to a watch in the order in which it became due."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.audit.statistics import OpenedEdge
from tiers.audit.conformance import alarm_findings
from tiers.audit.findings import Finding
from tiers.audit.records import ChainKey, DrawRecord, SaleRecord
from tiers.audit.selection import Selector
from tiers.audit.watch import Watch, pair_name
from tiers.identity import Role

__all__ = ["Watching"]

_LAW = "law"


class Watching:
    """An edge check that goes on from a watch: what was decided up to the watch's leaf has been seen already.

    Chains are opened one after the other, but draws are tested in the order of the leaves that decided on them: buyers
    may choose chains by what they saw in others. So the noise of what opens, eight bytes an entry, is kept until the
    log has been read.

    Guarantee:  as `Watch`: over all audits that hand on its state, a false alarm has probability at most α.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._selector = Selector()
        self._due: dict[ChainKey, int] = {}
        self._opened: list[tuple[int, int, OpenedEdge, Sequence[int], Sequence[int] | None]] = []
        self._chains: dict[str, set[str]] = {}
        self._last = watch.leaf

    def read(self, record: DrawRecord | SaleRecord) -> None:
        """Take the next draw or sale of the log."""
        self._last = max(self._last, record.leaf)
        if isinstance(record, SaleRecord):
            due = self._selector.sale(record)
        else:
            due = self._selector.draw(record)
            if record.spec.role in (Role.RESIDUAL, Role.BRIDGE):
                self._chains.setdefault(pair_name(record.spec), set()).add(record.spec.chain)
        for each in due:
            if each.leaf > self.watch.leaf:
                self._due[each.draw.spec.chain, each.draw.spec.law.identity] = each.leaf

    def take(self, edge: OpenedEdge) -> None:
        """Keep an edge that is due."""
        leaf = self._due.pop((edge.chain, edge.law.identity), None)
        if leaf is not None and all(len(answer) == len(edge.answer) for answer in edge.answers):
            upper, *lower = edge.answers
            noise = _packed([value - above for value, above in zip(edge.answer, upper, strict=True)])
            gaps = _packed([low - high for low, high in zip(lower[0], upper, strict=True)]) if lower else None
            self._opened.append((leaf, edge.leaf, replace(edge, answer=(), answers=()), noise, gaps))

    def findings(self) -> Iterable[Finding]:
        """Show what was kept to the watch, and return its alarms, a pair's for each chain that has it."""
        due = sorted(self._opened, key=lambda each: each[:2])
        self._opened.clear()
        self.watch.leaf = max(self.watch.leaf, self._last)  # first: what breaks below is not seen a second time
        for _, _, edge, noise, gaps in due:
            self.watch.see(edge, noise, gaps)
        for alarm in alarm_findings(self.watch):
            chains = self._chains.get(alarm.where, ()) if alarm.rule == _LAW else ()
            yield from (replace(alarm, chain=chain) for chain in sorted(chains)) if chains else (alarm,)


def _packed(values: list[int]) -> Sequence[int]:
    try:
        return array("q", values)
    except OverflowError:
        return values
