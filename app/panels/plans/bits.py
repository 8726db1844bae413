"""Reports of ordered data: threshold bits, each flipped on its own; ε is promised a step."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from app.errors import InvalidRequestError
from app.log.axes import Metric, metric_of
from app.panels.plans.base import CONFIDENCE, Counts, Fault, Labels, Law, Plan, Weights, signal_of
from app.panels.plans.lists import Lists
from app.panels.plans.sets import pack_sets, unpack_sets
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.columns.coins import flip_words
from tiers.local.columns.counts import covered_by_sets
from tiers.local.columns.large import words_of
from tiers.local.flips import Flips, reflip
from tiers.metric.products import half_width, product_sum
from tiers.metric.quantiles import rank_radius
from tiers.metric.ranges import Grid
from tiers.sampling.words import KeyedWords

__all__ = ["BitsPlan", "FlippedPlan"]


@dataclass(frozen=True)
class FlippedPlan(Plan):
    """Tiers of flips; a report is the rising list of the thresholds whose bit is 1; the last is certain: not sent."""

    flips: tuple[Flips, ...]

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Return how many values each axis has."""

    @property
    def metric(self) -> Metric:
        """Return how far apart two values are, in steps, each of which ε is promised for."""
        return metric_of(self.sizes)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return 1 for each tier: a flip below is a single flip at its ε."""
        return (1.0,) * len(self.flips)

    @property
    def bits(self) -> int:
        """Return how many bits a report has."""
        return self.metric.diameter

    @property
    def width(self) -> int:
        """Return the bytes of a stored report: whole words."""
        return 8 * words_of(self.bits)

    def grid(self, rank: int) -> Grid:
        """Return a tier's grid: its axes and its flips."""
        return Grid(self.sizes, self.flips[rank])

    def pack(
        self, reports: Lists, labels: Labels | None = None, rank: int = 0
    ) -> tuple[npt.NDArray[np.uint8], list[Fault]]:
        """Return reports as bits, and the rows that are not in their one form."""
        return pack_sets(reports, self.bits, None, self.width)

    def unpack(self, raw: bytes) -> Lists:
        """Return the rising thresholds of stored reports."""
        return unpack_sets(np.frombuffer(raw, np.uint8).reshape(-1, self.width))

    def derive(self, keys: Sequence[bytes], first: int, top: bytes, *, start: int = 0) -> list[bytes]:
        """Return every tier from `start` down: each bit turned again."""
        tiers = [self._words(top)]
        count, lines = tiers[0].shape
        last = np.uint64((1 << self.bits - 64 * (lines - 1)) - 1)
        if (tiers[0][:, -1] & ~last).any():
            raise InvalidParameterError("report", f"{self.bits} bits", "more")
        for key, (upper, lower) in zip(keys, list(pairwise(self.flips))[start:], strict=True):
            coins = flip_words(KeyedWords(key), first * lines, count * lines, reflip(upper, lower))
            below = tiers[-1] ^ coins.reshape(count, lines)
            below[:, -1] &= last
            tiers.append(below)
        return [tier.astype("<u8").tobytes() for tier in tiers]

    def count_bar(self, rank: int) -> float:
        """Return the half-width of one count from one report: of an inner value of an axis, which two bits decide."""
        edge = rank_radius(Grid((2,), self.flips[rank]), 1, 1 - CONFIDENCE)
        return edge if max(self.sizes) == 2 else math.sqrt(2) * edge

    def count_width(self, rank: int, reports: int) -> float:
        """Return the half-width of one count among so many reports: of an inner value of the longest axis."""
        rows = [np.ones(size) for size in self.sizes]
        longest = max(range(len(rows)), key=lambda axis: self.sizes[axis])
        rows[longest] = np.eye(1, self.sizes[longest], 1 if self.sizes[longest] > 2 else 0)[0]
        return half_width(self.grid(rank), reports, rows, 1 - CONFIDENCE)

    def _held(self, raw: bytes) -> Counts:
        """Return how many reports hold each threshold."""
        return covered_by_sets(self.bits, np.ascontiguousarray(self._words(raw).T))

    def _words(self, raw: bytes) -> npt.NDArray[np.uint64]:
        return np.frombuffer(raw, np.dtype("<u8")).reshape(-1, self.width // 8).astype(np.uint64)


@dataclass(frozen=True)
class BitsPlan(FlippedPlan):
    """Flips of one ordered domain."""

    @classmethod
    def of(cls, domain_size: int, ladder: Ladder) -> "BitsPlan":
        """Return the plan; raises InvalidRequestError below two values."""
        if domain_size < 2:
            raise InvalidRequestError("domain: expected at least 2 values, got fewer")
        return cls("flips", domain_size, ladder, tuple(Flips(epsilon) for epsilon in ladder))

    @classmethod
    def read(cls, domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> "BitsPlan":
        """Return the plan that stored laws name; raises InvalidParameterError where they are not its own."""
        plan = cls.of(domain_size, ladder)
        named = [law.get("family") == Flips.family and signal_of(law) for law in laws]
        if named != [flips.signal for flips in plan.flips]:
            raise InvalidParameterError("laws", "the flips of each ε", "others")
        return plan

    @property
    def laws(self) -> tuple[Flips, ...]:
        """Return the law of each tier."""
        return self.flips

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the domain's size: one axis."""
        return (self.domain_size,)

    def count(self, rank: int, raw: bytes) -> Counts:
        """Return how many reports hold each threshold."""
        return self._held(raw)

    def linear(
        self, rank: int, counts: Counts, reports: int, weights: Weights, miss: Fraction = 1 - CONFIDENCE
    ) -> tuple[float, float]:
        """Return n(w_1 + w_d)/2 + Σ_k (w_k − w_{k+1})(2c_k − n)/(2α) with its bar."""
        grid, observed = self.grid(rank), np.append(2 * counts - reports, reports).astype(np.float64)
        return product_sum(grid, observed, [weights]), half_width(grid, reports, [weights], miss)
