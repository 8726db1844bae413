"""Small logs of drawn chains as records, without a market around them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tiers.audit.records import DrawRecord, Evidence, History, SaleRecord
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

    def history(self) -> History:
        return History((), {}, {}, (), tuple(self.draws), tuple(self.sales))

    def evidence(self) -> Evidence:
        return Evidence(self.answers, {})

    def _next(self) -> int:
        self.leaf += 1
        return self.leaf
