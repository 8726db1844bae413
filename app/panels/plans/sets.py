"""Reports that are sets of values: Subset by its planned chain."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from app.panels.plans.base import (
    CONFIDENCE,
    Counts,
    Fault,
    Labels,
    Law,
    Mechanism,
    Plan,
    Weights,
    half_width_of,
    signal_of,
)
from app.panels.plans.lists import Lists
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.columns.chain import SubsetChain
from tiers.local.columns.counts import covered_by_sets
from tiers.local.columns.large import LargeStep, words_of
from tiers.local.columns.small import SMALL_DOMAIN, SmallStep
from tiers.local.estimate import estimate
from tiers.local.menu import best_subset_size
from tiers.local.planning import SubsetPlan
from tiers.local.subset import Subset

__all__ = [
    "SetsPlan",
    "chain_of",
    "pack_sets",
    "set_columns",
    "set_span",
    "set_variance",
    "set_width",
    "stored_sets",
    "unpack_sets",
]

Sets = npt.NDArray[np.unsignedinteger]
_Sums = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SetsPlan(Plan):
    """Tiers of Subset; a report is the rising list of its set's values.

    Args:       chain: the tiers, checked to nest and to keep each ε.
    """

    chain: SubsetPlan

    @classmethod
    def of(cls, mechanism: Mechanism, chain: SubsetPlan) -> "SetsPlan":
        """Return the plan of a chain."""
        return cls(mechanism, chain.tiers[0].domain_size, chain.ladder, chain)

    @classmethod
    def read(cls, mechanism: Mechanism, domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> "SetsPlan":
        """Return the plan that stored laws name; raises as `chain_of` does."""
        return cls(mechanism, domain_size, ladder, chain_of(domain_size, ladder, laws))

    @property
    def laws(self) -> tuple[Subset, ...]:
        """Return the law of each tier."""
        return self.chain.tiers

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return each tier's variance against the best single mechanism's."""
        return self.chain.ratios

    @property
    def width(self) -> int:
        """Return the bytes of a stored report."""
        return set_width(self.domain_size)

    def pack(
        self, reports: Lists, labels: Labels | None = None, rank: int = 0
    ) -> tuple[npt.NDArray[np.uint8], list[Fault]]:
        """Return reports as bits, and the rows that are no set of the top tier's size in its one form."""
        sizes = np.full(len(reports), self.laws[rank].subset_size)
        return pack_sets(reports, self.domain_size, sizes)

    def unpack(self, raw: bytes) -> Lists:
        """Return the rising values of stored sets."""
        return unpack_sets(np.frombuffer(raw, np.uint8).reshape(-1, self.width))

    def derive(self, keys: Sequence[bytes], first: int, top: bytes, *, start: int = 0) -> list[bytes]:
        """Return every tier from `start` down: expanded and rescaled, step by step."""
        plan = self.chain
        below = SubsetPlan(Ladder(plan.ladder.epsilons[start:]), plan.tiers[start:], plan.ratios[start:])
        chain = SubsetChain(below, self.steps[start:], tuple(keys))
        return [stored_sets(sets) for sets in chain.derive(first, set_columns(self.domain_size, top))]

    def count(self, rank: int, raw: bytes) -> Counts:
        """Return how many reports hold each value."""
        return covered_by_sets(self.domain_size, set_columns(self.domain_size, raw))

    def count_bar(self, rank: int) -> float:
        """Return the half-width of one count from one report."""
        return half_width_of([(1 / self.laws[rank].rates().gap, 1)])

    def linear(
        self, rank: int, counts: Counts, reports: int, weights: Weights, miss: Fraction = 1 - CONFIDENCE
    ) -> tuple[float, float]:
        """Return Σ_v w_v(c_v − n·f)/(t−f) with its bar."""
        wanted, law = np.asarray(weights, np.float64), self.laws[rank]
        width = half_width_of([(set_span(law, wanted), reports)], [set_variance(law, wanted)], miss)
        return float(wanted @ estimate(law.rates(), counts, reports)), width

    @cached_property
    def steps(self) -> tuple[SmallStep | LargeStep, ...]:
        """Return the kernels of the steps; their tables are made once."""
        return SubsetChain.of(self.chain, bytes(32), "").steps


def chain_of(domain_size: int, ladder: Ladder, laws: Sequence[Law]) -> SubsetPlan:
    """Return the chain of Subset that stored laws name, its ε and its steps checked.

    Raises:     InvalidParameterError: no law of Subset, another domain, or a tier above its ε. NoResidualError: a step
                that no operator makes.
    """
    tiers = []
    for law in laws:
        if law.get("family") != Subset.family or law.get("domain_size") != str(domain_size):
            raise InvalidParameterError("law", f"one of Subset over {domain_size} values", "another")
        size = law.get("subset_size", "")
        if not (size.isascii() and size.isdigit() and len(size) < 5):
            raise InvalidParameterError("subset size", "a whole number", "another")
        tiers.append(Subset(domain_size, int(size), signal_of(law)))
    if len(tiers) != len(ladder):
        raise InvalidParameterError("laws", f"{len(ladder)} of them", len(tiers))
    best = [best_subset_size(domain_size, epsilon)[1] for epsilon in ladder]
    ratios = tuple(tier.variance() / least for tier, least in zip(tiers, best, strict=True))
    return SubsetPlan(ladder, tuple(tiers), ratios)


def set_width(places: int) -> int:
    """Return the bytes of a stored set: two of a small domain, else whole words."""
    return 2 if places <= SMALL_DOMAIN else 8 * words_of(places)


def set_columns(places: int, raw: bytes) -> Sets:
    """Return stored sets as the kernels' columns."""
    if places <= SMALL_DOMAIN:
        return np.frombuffer(raw, np.dtype("<u2")).astype(np.uint16)
    return np.ascontiguousarray(np.frombuffer(raw, np.dtype("<u8")).reshape(-1, words_of(places)).T)


def stored_sets(sets: Sets) -> bytes:
    """Return the kernels' columns as stored sets, one after another."""
    if sets.ndim == 1:
        return sets.astype("<u2").tobytes()
    return np.ascontiguousarray(sets.T).astype("<u8").tobytes()


def set_span(law: Subset, weights: npt.NDArray[np.float64]) -> float:
    """Return how far one report can move Σ w: the largest k weights less the smallest k, over t − f."""
    ordered, size = np.sort(weights), law.subset_size
    return float(ordered[-size:].sum() - ordered[:size].sum()) / law.rates().gap


def set_variance(law: Subset, weights: npt.NDArray[np.float64]) -> float:
    """Return the most that one report's part of Σ w varies, over the values that may be true.

    Law:        with R the report, s the signal and k its size: of (Σ_{v in R} w_v)/(t − f) the variance is
                (s·V₁ + (1−s)·V₀ + s(1−s)·(M₁ − M₀)²)/(t − f)², with M₁, V₁ those of a uniform k-set that holds the true
                value, and M₀, V₀ those of any k-set.
    Example:
        >>> from fractions import Fraction
        >>> law = Subset.paying(9, 2, Fraction(1))
        >>> set_variance(law, np.ones(9))  # every report holds two values
        0.0
    """
    d, k, s = law.domain_size, law.subset_size, float(law.signal.value())
    weights = weights - weights.mean()  # a set holds k of them: this moves every sum alike, and rounding less
    total, squares = weights.sum(keepdims=True), (weights * weights).sum(keepdims=True)
    mean, spread = _drawn(d, k, total, squares)
    kept, apart = _drawn(d - 1, k - 1, total - weights, squares - weights * weights)
    varied = s * apart + (1 - s) * spread + s * (1 - s) * (weights + kept - mean) ** 2
    return float(varied.max()) / law.rates().gap ** 2


def _drawn(among: int, size: int, total: _Sums, squares: _Sums) -> tuple[_Sums, _Sums]:
    """Mean and variance of a uniform set of `size` of `among` weights, by their sum and that of their squares."""
    mean = total / among
    thinned = size * (among - size) / (among - 1) if among > 1 else 0.0
    return size * mean, thinned * np.maximum(squares / among - mean * mean, 0.0)


def pack_sets(
    reports: Lists, places: int, sizes: npt.NDArray[np.int64] | None, width: int | None = None
) -> tuple[npt.NDArray[np.uint8], list[Fault]]:
    """Return rising lists of places as bits, and the rows that are none.

    Args:       sizes: how many places each must hold, or None where that is free.
    """
    flat, owners = reports.flat, reports.owners
    outside, falls = (flat < 0) | (flat >= places), np.zeros(len(flat), np.bool_)
    falls[1:] = (owners[1:] == owners[:-1]) & (flat[1:] <= flat[:-1])
    faults: list[Fault] = [
        (reports.any_of(outside), f"places from 0 to {places - 1}"),
        (reports.any_of(falls), "places that rise: a set has one form"),
    ]
    if sizes is not None:
        one = int(sizes[0]) if len(sizes) and (sizes == sizes[0]).all() else 0
        faults.append((reports.sizes != sizes, f"a set of {one} places" if one else "a set of its path's size"))
    packed = np.zeros((len(reports), width or set_width(places)), np.uint8)
    inside = ~outside
    held, rows = flat[inside], owners[inside]
    np.bitwise_or.at(packed, (rows, held >> 3), (1 << (held & 7)).astype(np.uint8))
    return packed, faults


def unpack_sets(packed: npt.NDArray[np.uint8]) -> Lists:
    """Return the rising places of stored sets, a row each."""
    rows, places = np.nonzero(np.unpackbits(packed, axis=1, bitorder="little"))
    return Lists(places.astype(np.int64), np.searchsorted(rows, np.arange(len(packed) + 1)).astype(np.int64))
