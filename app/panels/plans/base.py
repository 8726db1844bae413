"""What every mechanism of a panel answers for; the service over it knows no other difference between them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from app.log.axes import Metric
from app.panels.plans.lists import Lists
from tiers.budget import Ladder
from tiers.local.columns.chain import Identified, report_key
from tiers.local.signal import Signal
from tiers.noise.law import parse_rational

__all__ = [
    "CONFIDENCE",
    "Counts",
    "Fault",
    "Labels",
    "Law",
    "Mechanism",
    "Plan",
    "Weights",
    "half_width_of",
    "signal_of",
]

Counts = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int64]
Weights: TypeAlias = Sequence[float] | npt.NDArray[np.float64]
Law = Mapping[str, str]
Mechanism = Literal["subset", "randomized-response", "local-hash", "mixed", "flips", "points", "singletons"]
Fault: TypeAlias = tuple[npt.NDArray[np.bool_], str]
"""Rows that break a rule, and the rule."""
CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True)
class Plan(ABC):
    """A panel's tiers, most accurate first, and all that is done to their reports.

    Guarantee:  tier i is ε_i-LDP (flips: ε_i a step of the ordered domain); each tier is made from the one above alone,
                so a coalition has its best tier's ε.
    Args:       domain_size: d.
    """

    mechanism: Mechanism
    domain_size: int
    ladder: Ladder

    @property
    @abstractmethod
    def laws(self) -> Sequence[Identified]:
        """Return the law of each tier."""

    @property
    @abstractmethod
    def ratios(self) -> tuple[float, ...]:
        """Return each tier's variance against that of the best single mechanism at its ε."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Return the bytes of a stored report."""

    @property
    def metric(self) -> Metric | None:
        """Return the distance whose every step ε is promised for; none where ε holds for any two values."""
        return None

    @property
    def by_path(self) -> bool:
        """Return whether a stored report starts with the path it follows, and rounds keep those of a path together."""
        return False

    def parameters(self, rank: int) -> dict[str, str]:
        """Return the canonical texts that identify a tier: what a device needs of the top one."""
        law = self.laws[rank]
        return {"family": law.family} | law.parameters()

    def keys(self, secret: bytes, name: str) -> list[bytes]:
        """Return the key of each step, top down."""
        return [report_key(secret, name, upper, lower) for upper, lower in pairwise(self.laws)]

    @abstractmethod
    def pack(
        self, reports: Lists, labels: Labels | None = None, rank: int = 0
    ) -> tuple[npt.NDArray[np.uint8], list[Fault]]:
        """Return reports as stored, a row each, and the rows that a tier's mechanism cannot have given, by rule.

        Args:       labels: the devices' public labels, where reports come from devices: each must be on its path.
        """

    @abstractmethod
    def unpack(self, raw: bytes) -> Lists:
        """Return stored reports in the form in which they are sent."""

    @abstractmethod
    def derive(self, keys: Sequence[bytes], first: int, top: bytes, *, start: int = 0) -> list[bytes]:
        """Return every tier from `start` down of reports `first`, `first + 1`, …, given that tier's reports.

        Args:       keys: of the steps from `start` down.
        Raises:     InvalidParameterError: a report that the tier's mechanism cannot give.
        """

    @abstractmethod
    def count(self, rank: int, raw: bytes) -> Counts:
        """Return what estimates need of a tier's reports; counts of runs add up."""

    @abstractmethod
    def count_bar(self, rank: int) -> float:
        """Return the 95 % half-width of one value's count from one report; it grows with the root of their number."""

    def count_width(self, rank: int, reports: int) -> float:
        """Return the 95 % half-width of one inner value's count among so many reports, as a reading tells it.

        Guarantee:  no data enter; at most `count_bar` times the root of the reports (a
                    mixed plan: to a report a path).
        Example:
            >>> from app.panels.mechanism import choose
            >>> plan = choose("subset", 10, Ladder.parse(["5"]), ordered=False)
            >>> round(plan.count_bar(0) * 3000**0.5, 1), round(plan.count_width(0, 3000), 1)
            (79.4, 38.2)
        """
        return self.linear(rank, np.zeros(self.domain_size, np.int64), reports, np.eye(1, self.domain_size)[0])[1]

    @abstractmethod
    def linear(
        self, rank: int, counts: Counts, reports: int, weights: Weights, miss: Fraction = 1 - CONFIDENCE
    ) -> tuple[float, float]:
        """Return the unbiased Σ over people of their value's weight, and its bar's half-width: 95 % unless told."""


def half_width_of(
    spans: Sequence[tuple[float, int]], variances: Sequence[float] | None = None, miss: Fraction = 1 - CONFIDENCE
) -> float:
    """Return the half-width that covers a sum's error: reports, each moving it within a span; 95 % unless told.

    Law:        √(ln(2/β)/2 · Σ n·r²), whatever the data; or, where no report of a span has more than its variance,
                the lesser of that and L + √(L² + 2·ln(2/β)·Σ n·v) with L = ln(2/β)·max r/3.
    Reference:  Hoeffding 1963, theorem 2; Boucheron, Lugosi, Massart 2013, corollary 2.11 (Bernstein).
    Example:
        >>> round(half_width_of([(2.0, 100)]), 3), round(half_width_of([(2.0, 100)], [0.05]), 3)
        (27.162, 9.012)
    """
    logs = math.log(2 / float(miss))
    width = math.sqrt(logs / 2 * math.fsum(n * span * span for span, n in spans))
    if variances is None or not spans:
        return width
    total = math.fsum(n * variance for (_, n), variance in zip(spans, variances, strict=True))
    linear = logs * max(span for span, _ in spans) / 3
    return min(width, linear + math.sqrt(linear * linear + 2 * logs * total))


def signal_of(law: Law) -> Signal:
    """Return the signal that a law's texts name.

    Raises:     InvalidParameterError: texts that name none.
    Example:
        >>> signal_of({"weight": "1/2", "epsilon": "1", "offset": "0"}).epsilon
        Fraction(1, 1)
    """
    return Signal(*(parse_rational(name, law.get(name)) for name in ("weight", "epsilon", "offset")))
