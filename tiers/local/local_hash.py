"""Local hashing: a report is one bucket of a public hash of the report's own, and buckets nest from tier to tier."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError, NoResidualError
from tiers.local.rates import Rates
from tiers.local.signal import Signal

__all__ = ["BUCKET_LIMIT", "LocalHash", "bucket_of", "buckets_of"]

BUCKET_LIMIT = 2**16
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class LocalHash:
    """A bucket of g: the value's own with probability s, else a uniform one. Over g = 2 it is binary response.

    Law:        P(bucket = h(x)) = t = s + (1−s)/g = e^ε/(e^ε + g − 1); a false value's bucket comes with f = 1/g, over
                the hashes, up to g·2⁻³².
    Guarantee:  ε-LDP with e^ε = 1 + s·g/(1−s), attained, whatever the hash is: hashes serve accuracy only.
    Args:       buckets: g, 2 to 65,536. signal: s.
    Raises:     InvalidParameterError: g out of range.
    Reference:  Wang, Blocki, Li, Jha 2017; Wang et al. 2026 (arXiv 2606.15543), section 5.
    Example:
        >>> round(LocalHash.paying(4, Fraction(1)).rates().true, 6)  # e/(e + 3)
        0.475367
    """

    buckets: int
    signal: Signal
    family: ClassVar[str] = "local-hash"

    def __post_init__(self) -> None:
        g = self.buckets
        if isinstance(g, bool) or not isinstance(g, int) or not 2 <= g <= BUCKET_LIMIT:
            raise InvalidParameterError("buckets", f"an integer from 2 to {BUCKET_LIMIT}", g)

    @classmethod
    def paying(cls, buckets: int, epsilon: Fraction) -> "LocalHash":
        """Return the mechanism that spends exactly ε; raises as the constructors do."""
        cls(buckets, Signal.rational(Fraction(1, 2)))
        return cls(buckets, Signal.paying(epsilon, coverage=Fraction(1, buckets)))

    @property
    def coverage(self) -> Fraction:
        """Return κ = 1/g."""
        return Fraction(1, self.buckets)

    def rates(self) -> Rates:
        """Return how often a report covers the true value, and any other one."""
        s, rest, g = self.signal.value(), self.signal.rest(), self.buckets
        return Rates(s + rest / g, 1 / g, s * (g - 1) / g, rest * (g - 1) / g)

    def epsilon(self) -> float:
        """Return the ε that is spent, as a double."""
        return self.signal.epsilon_at(self.coverage)

    def probability(self, bucket: int, hashed: int) -> Fraction:
        """Return P(bucket | the value's own bucket) exactly, for a rational signal."""
        s = self.signal.fraction()
        return s * (bucket == hashed) + (1 - s) / self.buckets

    def check_step(self, lower: "LocalHash") -> None:
        """Refuse a tier below that no merging and rescaling reaches.

        The nesting law: (g, s) reaches (g′, s′) iff g′ divides g and s′ ≤ s.

        Raises:     NoResidualError: buckets that do not nest, or a larger signal.
        """
        if self.buckets % lower.buckets:
            witness = f"{lower.buckets} buckets do not divide {self.buckets}"
            raise NoResidualError(repr(self), repr(lower), witness)
        if not self.signal.reaches(lower.signal):
            witness = f"the signal below ({lower.signal.value():.6g}) is larger than {self.signal.value():.6g}"
            raise NoResidualError(repr(self), repr(lower), witness)

    def parameters(self) -> dict[str, str]:
        """Return the canonical texts that identify the mechanism."""
        return {"buckets": str(self.buckets)} | self.signal.parameters()


def bucket_of(seed: tuple[int, int], value: int, buckets: int) -> int:
    """Return the bucket of a value under one report's public hash.

    Law:        h = ⌊((a·x + b) mod 2⁶⁴)/2³²⌋ mod g for a seed (a, b) of two 64-bit words: any two values of 32 bits
                have independent uniform h before the last mod, over the seeds; buckets nest, as g′ | g gives
                (h mod g) mod g′ = h mod g′.
    Reference:  Dietzfelbinger 1996, strongly universal multiply-shift.
    Example:
        >>> bucket_of((3, 2**63), 5, 4), bucket_of((3, 2**63), 5, 2)
        (0, 0)
    """
    a, b = seed
    return ((a * value + b & _MASK) >> 32) % buckets


def buckets_of(seeds: npt.NDArray[np.uint64], values: npt.NDArray[np.integer], buckets: int) -> npt.NDArray[np.uint16]:
    """Return `bucket_of` for many reports: seeds of shape (2, n), values of shape (n,) or one value for all."""
    moved = seeds[0] * np.asarray(values).astype(np.uint64) + seeds[1]
    moved >>= np.uint64(32)
    found: npt.NDArray[np.uint16] = (moved % np.uint64(buckets)).astype(np.uint16)
    return found
