"""A5 of a log: every draw that nobody has chosen, shown to a watch in the order in which it became due."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.audit.statistics import OpenedEdge
from app.audit.stream import BROKEN
from tiers.audit.conformance import alarm_findings
from tiers.audit.findings import Finding
from tiers.audit.records import ChainKey, DrawRecord, SaleRecord
from tiers.audit.selection import Selector
from tiers.audit.steps import Seen, pair_name, steps_of
from tiers.audit.watch import Watch
from tiers.identity import Role, TierLaw

__all__ = ["Watching"]

_LAW = "law"
_Ints = NDArray[np.int64]
_DRAWS_TOGETHER, _VALUES_TOGETHER = 512, 2**16


class Watching:
    """An edge check that goes on from a watch: what was decided up to the watch's leaf has been seen already.

    Chains are opened one after the other, but draws are tested in the order of the leaves that decided on them: buyers
    may choose chains by what they saw in others. So the noise of what opens, eight bytes an entry and some forty a
    draw, is kept until the log has been read.

    Guarantee:  as `Watch`: over all audits that hand on its state, a false alarm has probability at most α.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._selector = Selector()
        self._due: dict[ChainKey, int] = {}
        self._opened = _Opened()
        self._chains: dict[str, dict[str, int]] = {}
        self._last = watch.leaf

    def read(self, record: DrawRecord | SaleRecord) -> None:
        """Take the next draw or sale of the log."""
        self._last = max(self._last, record.leaf)
        if isinstance(record, SaleRecord):
            due = self._selector.sale(record)
        else:
            due = self._selector.draw(record)
            if record.spec.role in (Role.RESIDUAL, Role.BRIDGE):
                self._chains.setdefault(pair_name(record.spec), {}).setdefault(record.spec.chain, record.leaf)
        for each in due:
            if each.leaf > self.watch.leaf:
                self._due[each.draw.spec.chain, each.draw.spec.law.identity] = each.leaf

    def take(self, edge: OpenedEdge) -> None:
        """Keep an edge that is due."""
        leaf = self._due.pop((edge.chain, edge.law.identity), None)
        if leaf is not None and all(len(answer) == len(edge.answer) for answer in edge.answers):
            self._opened.keep(leaf, edge)

    def findings(self) -> Iterable[Finding]:
        """Show what was kept to the watch, and return its alarms, a pair's for each chain that has it.

        An alarm that was answered is told as before, of the chains that it was about.
        """
        opened, self._opened = self._opened, _Opened()
        self.watch.leaf = max(self.watch.leaf, self._last)  # first: what breaks below is not seen a second time
        for together in opened.in_order():
            yield from self._show(together)
        for each in self.watch.answered():
            yield from self._of_chains(alarm_findings([each.alarm]), until=each.leaf)
        yield from self._of_chains(alarm_findings(self.watch.alarms()), until=self._last)

    def _show(self, together: list[Seen]) -> Iterator[Finding]:
        """Show draws to the watch; one that has no law to be held against is found, and hides no other."""
        try:
            self.watch.see_all(together)
        except BROKEN as error:
            refused = [draw for draw in together if not _testable(draw)]
            if not refused:
                raise
            for draw in refused:
                place, wanted = f"chain {draw.edge.chain[:12]}", "noise that can be tested"
                yield Finding("A4", "unreadable-log", place, wanted, type(error).__name__, chain=draw.edge.chain)
            self.watch.see_all([draw for draw in together if draw not in refused])

    def _of_chains(self, alarms: Iterable[Finding], *, until: int) -> Iterator[Finding]:
        for alarm in alarms:
            known = self._chains.get(alarm.where, {}) if alarm.rule == _LAW else {}
            chains = sorted(chain for chain, leaf in known.items() if leaf <= until)
            yield from (replace(alarm, chain=chain) for chain in chains) if chains else (alarm,)


def _testable(draw: Seen) -> bool:
    try:
        steps_of([draw])
    except BROKEN:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Step:
    """What a watch must know of a draw: an `Edge`."""

    chain: str
    role: Role
    law: TierLaw
    parents: tuple[TierLaw, ...]


class _Opened:
    """Opened draws with their noise, in columns: when each was due, its leaf, its step, its chain, where its noise is.

    Noise beyond 64 bits, which no honest draw has, is kept beside as it is.
    """

    def __init__(self) -> None:
        self._due, self._leaf, self._step, self._chain = (array("q") for _ in range(4))
        self._start, self._noise = array("q", [0]), array("q")
        self._steps: dict[tuple[Role, TierLaw, tuple[TierLaw, ...]], int] = {}
        self._chains: dict[str, int] = {}
        self._wide: dict[int, tuple[list[int], list[int]]] = {}

    def keep(self, due: int, edge: OpenedEdge) -> None:
        """Keep the noise of an edge, and a bridge's gaps."""
        upper, *lower = edge.answers
        noise = [value - above for value, above in zip(edge.answer, upper, strict=True)]
        gaps = [low - high for low, high in zip(lower[0], upper, strict=True)] if lower else []
        try:
            self._noise.extend(array("q", noise + gaps))
        except OverflowError:
            self._wide[len(self._due)] = noise, gaps
        self._start.append(len(self._noise))
        self._due.append(due)
        self._leaf.append(edge.leaf)
        self._step.append(self._steps.setdefault((edge.role, edge.law, edge.parents), len(self._steps)))
        self._chain.append(self._chains.setdefault(edge.chain, len(self._chains)))

    def in_order(self) -> Iterator[list[Seen]]:
        """Yield what was kept in the order in which it became due, in pieces of bounded size."""
        steps, chains, flat = list(self._steps), list(self._chains), np.frombuffer(self._noise, np.int64)
        piece, values = list[Seen](), 0
        for at in np.lexsort((np.array(self._leaf), np.array(self._due))).tolist():
            role, law, parents = steps[self._step[at]]
            noise, gaps = self._noise_of(at, flat, bridged=len(parents) > 1)
            piece.append(Seen(_Step(chains[self._chain[at]], role, law, parents), noise, gaps))
            values += len(noise)
            if len(piece) == _DRAWS_TOGETHER or values >= _VALUES_TOGETHER:
                yield piece
                piece, values = [], 0
        if piece:
            yield piece

    def _noise_of(self, at: int, flat: _Ints, *, bridged: bool) -> tuple[Sequence[int] | _Ints, list[int] | None]:
        if at in self._wide:
            noise, gaps = self._wide[at]
            return noise, gaps or None
        kept = flat[self._start[at] : self._start[at + 1]]
        if not bridged:
            return kept, None
        half = len(kept) // 2
        return kept[:half], kept[half:].tolist()
