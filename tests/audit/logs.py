"""Small logs of drawn chains as records, without a market around them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from app.audit.statistics import opened_edges
from app.audit.watching import Watching
from tiers.audit.findings import Finding
from tiers.audit.records import DrawRecord, SaleRecord
from tiers.audit.watch import Watch
from tiers.identity import DrawSpec

Rows = np.ndarray


@dataclass
class Log:
    """Leaves in the order in which they are added."""

    draws: list[DrawRecord] = field(default_factory=list)
    sales: list[SaleRecord] = field(default_factory=list)
    answers: dict[tuple[str, str], tuple[bytes, tuple[int, ...]]] = field(default_factory=dict)
    leaf: int = 0

    def draw(self, specs: Iterable[DrawSpec], rows: Rows | None = None) -> None:
        for place, spec in enumerate(specs):
            self.draws.append(DrawRecord(self._next(), spec, place, (), "", ""))
            if rows is not None:
                answer = tuple(int(value) for value in rows[place])
                self.answers[spec.chain, spec.law.identity] = (b"", answer)

    def sell(self, spec: DrawSpec) -> None:
        leaf = self._next()
        self.sales.append(SaleRecord(leaf, f"order {leaf}", "p", spec.chain, spec.law.identity, 0, 0))

    def records(self, until: int | None = None) -> list[DrawRecord | SaleRecord]:
        """The log, or its beginning, leaf by leaf."""
        events = sorted([*self.draws, *self.sales], key=lambda each: each.leaf)
        return [each for each in events if until is None or each.leaf <= until]

    def _next(self) -> int:
        self.leaf += 1
        return self.leaf


def audited(log: Log, watch: Watch, until: int | None = None) -> list[Finding]:
    """Read a log, or its beginning, then open its chains in an order that has nothing to do with it."""
    watching = Watching(watch)
    known = log.records(until)
    for record in known:
        watching.read(record)
    for chain in sorted({draw.spec.chain for draw in log.draws}):
        draws = [draw for draw in log.draws if draw.spec.chain == chain and draw in known]
        answers = {name: answer for name, (_, answer) in log.answers.items() if name[0] == chain}
        for edge in opened_edges(draws, answers):
            watching.take(edge)
    return list(watching.findings())
