"""A panel's mechanism: its tiers, the kernels that derive them, and every linear reading of a tier's counts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from app.errors import InvalidRequestError
from tiers.budget import Ladder
from tiers.local.columns.chain import SubsetChain, check_sets, report_key
from tiers.local.columns.coins import flip_words
from tiers.local.columns.counts import covered_by_sets
from tiers.local.columns.large import LargeStep, words_of
from tiers.local.columns.small import SMALL_DOMAIN, SmallStep
from tiers.local.flips import Flips, reflip
from tiers.local.menu import best_subset_size
from tiers.local.planning import SubsetPlan, plan_subset
from tiers.local.subset import Subset
from tiers.sampling.words import KeyedWords

__all__ = ["CONFIDENCE", "MECHANISMS", "Mechanism", "Plan", "choose"]

Sets = npt.NDArray[np.unsignedinteger]
Counts = npt.NDArray[np.int64]
Mechanism = Literal["subset", "randomized-response", "flips"]
MECHANISMS: tuple[Mechanism, ...] = ("subset", "randomized-response", "flips")
CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True)
class Plan:
    """A panel's tiers, most accurate first. A report is a set of `bits` places: Subset's own, or the bits that are 1.

    Guarantee:  tier i is ε_i-LDP (flips: ε_i a step of the ordered domain); a coalition has its best tier's ε.
    Args:       domain_size: d. subset: the tiers of a set mechanism, or None for flips.
    """

    mechanism: Mechanism
    domain_size: int
    ladder: Ladder
    subset: SubsetPlan | None

    @classmethod
    def of(cls, mechanism: Mechanism, domain_size: int, ladder: Ladder) -> "Plan":
        """Return the plan of a mechanism; the same arguments give the same plan.

        Raises:     InvalidParameterError: a domain or an ε out of range.
        Example:
            >>> plan = Plan.of("randomized-response", 4, Ladder.parse(["2", "1"]))
            >>> [tier.subset_size for tier in plan.subset.tiers]
            [1, 1]
        """
        if mechanism == "subset":
            return cls(mechanism, domain_size, ladder, plan_subset(domain_size, ladder))
        if mechanism == "randomized-response":
            tiers = tuple(Subset.paying(domain_size, 1, epsilon) for epsilon in ladder)
            best = [best_subset_size(domain_size, epsilon)[1] for epsilon in ladder]
            ratios = tuple(tier.variance() / least for tier, least in zip(tiers, best, strict=True))
            return cls(mechanism, domain_size, ladder, SubsetPlan(ladder, tiers, ratios))
        if domain_size < 2:
            raise InvalidRequestError("domain: expected at least 2 values, got fewer")
        return cls(mechanism, domain_size, ladder, None)

    @property
    def bits(self) -> int:
        """Return how many places a report has: the last threshold of ordered data is certain, and not sent."""
        return self.domain_size if self.subset else self.domain_size - 1

    def size(self, rank: int) -> int | None:
        """Return how many values a report of a tier (from 0) holds, or None where that is free."""
        return self.subset.tiers[rank].subset_size if self.subset else None

    @property
    def small(self) -> bool:
        """Return whether a report is one 16-bit set, and not a column of 64-bit words."""
        return self.subset is not None and self.domain_size <= SMALL_DOMAIN

    @property
    def width(self) -> int:
        """Return the bytes of a stored report."""
        return 2 if self.small else 8 * words_of(self.bits)

    @cached_property
    def flips(self) -> tuple[Flips, ...]:
        """Return the flip of each tier, for ordered data."""
        return tuple(Flips(epsilon) for epsilon in self.ladder)

    def parameters(self, rank: int) -> dict[str, str]:
        """Return the canonical texts that identify a tier: what a device needs of the top one."""
        law = self.subset.tiers[rank] if self.subset else self.flips[rank]
        return {"family": law.family} | law.parameters()

    def keys(self, secret: bytes, name: str) -> list[bytes]:
        """Return the key of each step, top down."""
        laws: tuple[Subset | Flips, ...] = self.subset.tiers if self.subset else self.flips
        return [report_key(secret, name, upper, lower) for upper, lower in pairwise(laws)]

    def columns(self, raw: bytes) -> Sets:
        """Return stored reports as the kernels' columns."""
        if self.small:
            return np.frombuffer(raw, np.dtype("<u2")).astype(np.uint16)
        return np.ascontiguousarray(np.frombuffer(raw, np.dtype("<u8")).reshape(-1, self.width // 8).T)

    def stored(self, sets: Sets) -> bytes:
        """Return the kernels' columns as stored reports, one after another."""
        return sets.astype("<u2").tobytes() if self.small else np.ascontiguousarray(sets.T).astype("<u8").tobytes()

    def derive(self, keys: Sequence[bytes], first: int, top: Sets, *, start: int = 0) -> list[Sets]:
        """Return every tier from `start` down of reports `first`, `first + 1`, …, given that tier's reports.

        Args:       keys: of the steps from `start` down.
        """
        if self.subset is not None:
            plan = self.subset
            below = SubsetPlan(Ladder(plan.ladder.epsilons[start:]), plan.tiers[start:], plan.ratios[start:])
            return SubsetChain(below, self._steps[start:], tuple(keys)).derive(first, top)
        tiers, (lines, count) = [top], top.shape
        for key, (upper, lower) in zip(keys, list(pairwise(self.flips))[start:], strict=True):
            coins = flip_words(KeyedWords(key), first * lines, count * lines, reflip(upper, lower))
            below_it = tiers[-1] ^ np.ascontiguousarray(coins.reshape(count, lines).T)
            below_it[-1] &= np.uint64((1 << self.bits - 64 * (lines - 1)) - 1)
            tiers.append(below_it)
        return tiers

    @cached_property
    def _steps(self) -> tuple[SmallStep | LargeStep, ...]:
        assert self.subset is not None
        return SubsetChain.of(self.subset, bytes(32), "").steps

    def check(self, rank: int, sets: Sets) -> Sets:
        """Return a tier's reports as they are; refuses a set that its mechanism cannot give."""
        return sets if self.subset is None else check_sets(self.subset.tiers[rank], sets)

    def count(self, sets: Sets) -> Counts:
        """Return how many reports hold each place."""
        return covered_by_sets(self.bits, sets)

    def linear(self, rank: int, counts: Counts, reports: int, weights: Sequence[float]) -> tuple[float, float]:
        """Return the unbiased Σ over people of the weight of their value, and the half-width of its 95 % bar.

        Law:        sets: Σ_v w_v(c_v − n·f)/(t−f). Flips: n(w_1 + w_d)/2 + Σ_k (w_k − w_{k+1})(2c_k − n)/(2α).
                    A report moves this within a span r, so the bar is r·√(n·ln(2/β)/2), whatever the data.
        Reference:  Hoeffding 1963, theorem 2.
        Example:
            >>> plan = Plan.of("randomized-response", 2, Ladder.parse(["2"]))
            >>> value, bar = plan.linear(0, np.array([60, 40]), 100, [1.0, 1.0])
            >>> round(value, 9), bar
            (100.0, 0.0)
        """
        wanted = np.asarray(weights, np.float64)
        if self.subset is not None:
            rates = self.subset.tiers[rank].rates()
            total = float(wanted @ (counts - reports * rates.false)) / rates.gap
            ordered, size = np.sort(wanted), self.subset.tiers[rank].subset_size
            span = float(ordered[-size:].sum() - ordered[:size].sum()) / rates.gap
        else:
            signal = self.flips[rank].signal.value()
            steps = wanted[:-1] - wanted[1:]
            total = reports * (wanted[0] + wanted[-1]) / 2 + float(steps @ (2 * counts - reports)) / (2 * signal)
            span = float(np.abs(steps).sum()) / signal
        return total, span * math.sqrt(reports * math.log(2 / float(1 - CONFIDENCE)) / 2)


def choose(asked: str, domain_size: int, ladder: Ladder, *, ordered: bool) -> Plan:
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
        kind = "ε a step: flips" if ordered else "ε for any two values: subset or randomized-response"
        raise InvalidRequestError(f"mechanism: expected one that promises {kind}, got another")
    plans = [Plan.of(name, domain_size, ladder) for name in fitting]
    return min(plans, key=lambda plan: (plan.subset.worst_ratio, plan.subset.mean_ratio) if plan.subset else (1.0, 1.0))
