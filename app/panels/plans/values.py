"""Reports that are one number: a value (randomised response), or a bucket under the report's own hash."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from app.panels.plans.base import CONFIDENCE, Counts, Fault, Labels, Law, Plan, Weights, half_width_of, signal_of
from app.panels.plans.lists import Lists
from app.panels.plans.sets import set_span, set_variance
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.columns.counts import covered_by_hash, covered_by_values
from tiers.local.columns.values import ValueStep
from tiers.local.estimate import estimate
from tiers.local.hash_planning import HashPlan, plan_hash
from tiers.local.local_hash import LocalHash
from tiers.local.menu import best_subset_size
from tiers.local.planning import check_tiers
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.signal import keep
from tiers.local.subset import Subset, check_domain
from tiers.sampling.words import KeyedWords

__all__ = ["HashesPlan", "ValuesPlan"]

_VALUE = np.dtype("<u2")
_HASHED = np.dtype([("seed", "<u8", (2,)), ("bucket", "<u2")])
_HALF = 2**32


@dataclass(frozen=True)
class ValuesPlan(Plan):
    """Tiers of randomised response; a report is a list of one value."""

    tiers: tuple[RandomizedResponse, ...]

    @classmethod
    def of(cls, domain_size: int, ladder: Ladder) -> "ValuesPlan":
        """Return the plan that spends every ε."""
        tiers = tuple(RandomizedResponse.paying(domain_size, epsilon) for epsilon in ladder)
        return cls("randomized-response", domain_size, ladder, tiers)

    @classmethod
    def read(cls, domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> "ValuesPlan":
        """Return the plan that stored laws name, its ε and steps checked; raises InvalidParameterError."""
        check_domain(domain_size)
        if any(
            (law.get("family"), law.get("domain_size")) != (RandomizedResponse.family, str(domain_size)) for law in laws
        ):
            raise InvalidParameterError("law", f"randomised response over {domain_size} values", "another")
        tiers = tuple(RandomizedResponse(domain_size, signal_of(law)) for law in laws)
        check_tiers(ladder, tiers)
        return cls("randomized-response", domain_size, ladder, tiers)

    @property
    def laws(self) -> tuple[RandomizedResponse, ...]:
        """Return the law of each tier."""
        return self.tiers

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return each tier's variance against the best single mechanism's."""
        best = [best_subset_size(self.domain_size, epsilon)[1] for epsilon in self.ladder]
        return tuple(
            law.rates().variance(self.domain_size) / least for law, least in zip(self.tiers, best, strict=True)
        )

    @property
    def width(self) -> int:
        """Return the bytes of a stored report."""
        return _VALUE.itemsize

    def pack(
        self, reports: Lists, labels: Labels | None = None, rank: int = 0
    ) -> tuple[npt.NDArray[np.uint8], list[Fault]]:
        """Return reports as numbers of 16 bits, and the rows that are not one value of the domain."""
        heads = reports.heads(-1)
        outside = (heads < 0) | (heads >= self.domain_size)
        packed = np.where(outside, 0, heads).astype(_VALUE).view(np.uint8).reshape(-1, self.width)
        return packed, [(reports.sizes != 1, "one value"), (outside, f"a value from 0 to {self.domain_size - 1}")]

    def unpack(self, raw: bytes) -> Lists:
        """Return the values of stored reports."""
        return Lists.table(np.frombuffer(raw, _VALUE)[:, None])

    def derive(self, keys: Sequence[bytes], first: int, top: bytes, *, start: int = 0) -> list[bytes]:
        """Return every tier from `start` down: kept, or a uniform value."""
        values = [_within(np.frombuffer(top, _VALUE).astype(np.uint16), self.domain_size)]
        for key, step in zip(keys, self._steps[start:], strict=True):
            values.append(step.apply(KeyedWords(key), first, values[-1]))
        return [tier.astype(_VALUE).tobytes() for tier in values]

    def count(self, rank: int, raw: bytes) -> Counts:
        """Return how many reports name each value."""
        return covered_by_values(self.domain_size, np.frombuffer(raw, _VALUE))

    def count_bar(self, rank: int) -> float:
        """Return the half-width of one count from one report."""
        return half_width_of([(1 / self.laws[rank].rates().gap, 1)])

    def linear(
        self, rank: int, counts: Counts, reports: int, weights: Weights, miss: Fraction = 1 - CONFIDENCE
    ) -> tuple[float, float]:
        """Return Σ_v w_v(c_v − n·f)/(t−f) with its bar: that of the sets of one value, which have the same law."""
        wanted, law = np.asarray(weights, np.float64), self.tiers[rank]
        sets = Subset(self.domain_size, 1, law.signal)
        width = half_width_of([(set_span(sets, wanted), reports)], [set_variance(sets, wanted)], miss)
        return float(wanted @ estimate(law.rates(), counts, reports)), width

    @cached_property
    def _steps(self) -> tuple[ValueStep, ...]:
        return tuple(
            ValueStep(self.domain_size, keep(upper.signal, lower.signal)) for upper, lower in pairwise(self.tiers)
        )


@dataclass(frozen=True)
class HashesPlan(Plan):
    """Tiers of local hashing; a report is its seed (two words, each as its halves of 32 bits) and then its bucket.

    The seed stays with the report in every tier; buckets merge, and are kept or drawn afresh.
    """

    chain: HashPlan

    @classmethod
    def of(cls, domain_size: int, ladder: Ladder) -> "HashesPlan":
        """Return the plan with the least worst ratio."""
        return cls("local-hash", domain_size, ladder, plan_hash(domain_size, ladder))

    @classmethod
    def read(cls, domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> "HashesPlan":
        """Return the plan that stored laws name, its ε and steps checked; raises InvalidParameterError."""
        tiers = []
        for law in laws:
            buckets = law.get("buckets", "")
            if law.get("family") != LocalHash.family or not (
                buckets.isascii() and buckets.isdigit() and len(buckets) < 6
            ):
                raise InvalidParameterError("law", "a local hash", "another")
            tiers.append(LocalHash(int(buckets), signal_of(law)))
        return cls("local-hash", domain_size, ladder, HashPlan(check_domain(domain_size), ladder, tuple(tiers)))

    @property
    def laws(self) -> tuple[LocalHash, ...]:
        """Return the law of each tier."""
        return self.chain.tiers

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return each tier's variance against the best single mechanism's."""
        return self.chain.ratios

    @property
    def width(self) -> int:
        """Return the bytes of a stored report."""
        return _HASHED.itemsize

    def pack(
        self, reports: Lists, labels: Labels | None = None, rank: int = 0
    ) -> tuple[npt.NDArray[np.uint8], list[Fault]]:
        """Return reports as seed and bucket, and the rows that are none."""
        buckets = self.laws[rank].buckets
        shape = reports.sizes == 5
        table = np.zeros((len(reports), 5), np.int64)
        table[shape] = reports.flat[np.repeat(shape, reports.sizes)].reshape(-1, 5)
        words: npt.NDArray[np.bool_] = np.any((table[:, :4] < 0) | (table[:, :4] >= _HALF), axis=1)
        outside = (table[:, 4] < 0) | (table[:, 4] >= buckets)
        rows = np.zeros(len(reports), _HASHED)
        halves = np.where(words[:, None], 0, table[:, :4]).astype(np.uint64)
        rows["seed"] = halves[:, 0::2] << np.uint64(32) | halves[:, 1::2]
        rows["bucket"] = np.where(outside, 0, table[:, 4])
        return rows.view(np.uint8).reshape(-1, self.width), [
            (~shape, "a seed in four halves of 32 bits, and a bucket"),
            (words, "halves of 32 bits"),
            (outside, f"a bucket from 0 to {buckets - 1}"),
        ]

    def unpack(self, raw: bytes) -> Lists:
        """Return the halves of the seed, and the bucket, of stored reports."""
        rows = np.frombuffer(raw, _HASHED)
        seeds = rows["seed"]
        halves = np.stack([seeds >> np.uint64(32), seeds & np.uint64(_HALF - 1)], axis=2).reshape(-1, 4)
        return Lists.table(np.column_stack([halves.astype(np.int64), rows["bucket"].astype(np.int64)]))

    def derive(self, keys: Sequence[bytes], first: int, top: bytes, *, start: int = 0) -> list[bytes]:
        """Return every tier from `start` down: buckets merged, and kept or drawn afresh."""
        rows = np.frombuffer(top, _HASHED)
        buckets = [_within(rows["bucket"].astype(np.uint16), self.laws[start].buckets)]
        for key, step in zip(keys, self._steps[start:], strict=True):
            buckets.append(step.apply(KeyedWords(key), first, buckets[-1]))
        tiers = []
        for named in buckets:
            tier = rows.copy()
            tier["bucket"] = named
            tiers.append(tier.tobytes())
        return tiers

    def count(self, rank: int, raw: bytes) -> Counts:
        """Return how many reports name each value's bucket under their own hash."""
        rows = np.frombuffer(raw, _HASHED)
        seeds = np.ascontiguousarray(rows["seed"].T).astype(np.uint64)
        return covered_by_hash(self.domain_size, seeds, rows["bucket"].astype(np.uint16), self.laws[rank].buckets)

    def count_bar(self, rank: int) -> float:
        """Return the half-width of one count from one report."""
        return half_width_of([(1 / self.laws[rank].rates().gap, 1)])

    def linear(
        self, rank: int, counts: Counts, reports: int, weights: Weights, miss: Fraction = 1 - CONFIDENCE
    ) -> tuple[float, float]:
        """Return n·m + Σ_v (w_v − m)(c_v − n·f)/(t−f), m the weights' median, with its bar.

        Law:        Σ_v x_v = n is known, so any m is unbiased; a report covers any set of values, so that it moves the
                    sum within Σ|w_v − m|/(t−f), which the median makes least.
        Example:
            >>> plan = HashesPlan.of(3, Ladder.parse(["2"]))
            >>> plan.linear(0, np.array([40, 50, 60]), 100, [1.0, 1.0, 1.0])
            (100.0, 0.0)
        """
        wanted, rates = np.asarray(weights, np.float64), self.laws[rank].rates()
        middle = float(np.median(wanted))
        total = reports * middle + float((wanted - middle) @ estimate(rates, counts, reports))
        return total, half_width_of([(float(np.abs(wanted - middle).sum()) / rates.gap, reports)], miss=miss)

    @cached_property
    def _steps(self) -> tuple[ValueStep, ...]:
        return tuple(ValueStep(lower.buckets, keep(upper.signal, lower.signal)) for upper, lower in pairwise(self.laws))


def _within(values: npt.NDArray[np.uint16], below: int) -> npt.NDArray[np.uint16]:
    if len(values) and int(values.max()) >= below:
        raise InvalidParameterError("report", f"a number from 0 to {below - 1}", "one beyond")
    return values
