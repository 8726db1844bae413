"""A lattice law as certified fixed-point numbers: what the frameworks read when there is no closed form."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from flint import arb

from tiers.errors import InvalidParameterError
from tiers.real import Real, precision

__all__ = ["LatticeTable"]


_WIDTH_LIMIT = 1 << 19


class _Masses(Protocol):
    @property
    def bits(self) -> int: ...
    @property
    def error(self) -> int: ...
    @property
    def reach(self) -> int: ...
    def mass(self, k: int) -> int: ...


@dataclass(frozen=True, slots=True)
class LatticeTable:
    """Probabilities of the integers first, first + 1, … in units of 2^−bits, each within a stated error.

    Law:        |masses[i] − 2^bits·P(X = first + i)| ≤ error, and 2^bits·P(X not listed) ≤ outside.
    Args:       first: the least integer listed. masses: non-negative integers. bits: of the unit.
                error: units by which one entry may be off. outside: units that all unlisted integers may hold together.
    Raises:     InvalidParameterError: no entry, a negative one, or masses that cannot be a probability law.
    Example:
        >>> LatticeTable(first=-1, masses=(1, 2, 1), bits=2).pmf(0)
        0.5
    """

    first: int
    masses: tuple[int, ...]
    bits: int
    error: int = 0
    outside: int = 0

    def __post_init__(self) -> None:
        if not self.masses or min(self.masses) < 0:
            raise InvalidParameterError("masses", "one or more non-negative integers", len(self.masses))
        if not 1 <= self.bits <= 1 << 16 or self.error < 0 or self.outside < 0:
            raise InvalidParameterError("table", "1 ≤ bits ≤ 65536, error ≥ 0, outside ≥ 0", self.bits)
        slack = self.error * len(self.masses)
        if not -slack - self.outside <= sum(self.masses) - (1 << self.bits) <= slack:
            raise InvalidParameterError("masses", "a total of 2^bits within the stated errors", "another total")

    @classmethod
    def of(cls, probabilities: "dict[int, Fraction]") -> "LatticeTable":
        """Return the exact table of finitely many rational probabilities; refuses a sum that is not 1.

        Example:
            >>> LatticeTable.of({0: Fraction(2, 3), 5: Fraction(1, 3)}).last
            5
        """
        if not probabilities or sum(probabilities.values()) != 1 or min(probabilities.values()) < 0:
            raise InvalidParameterError("probabilities", "non-negative rationals that sum to 1", "others")
        bits, first, last = 256, min(probabilities), max(probabilities)
        if last - first >= _WIDTH_LIMIT:
            raise InvalidParameterError("probabilities", f"a range below {_WIDTH_LIMIT} integers", last - first)
        listed = (probabilities.get(k, Fraction(0)) for k in range(first, last + 1))
        return cls(first, tuple((p.numerator << bits) // p.denominator for p in listed), bits, error=1)

    @classmethod
    def from_reals(
        cls, probability: Callable[[int], Real], first: int, last: int, outside: Fraction, bits: int = 128
    ) -> "LatticeTable":
        """Return the table of any law given by ball-valued probabilities and a certified bound on all the others.

        Args:       probability: k to P(X = k) as a real number. first, last: the integers listed.
                    outside: at least the probability of all integers not listed.
        Raises:     InvalidParameterError: a range too wide, or probabilities that do not fit `outside`.
        Example:
            >>> from tiers.real import exact
            >>> def halves(k: int):
            ...     return lambda: exact(Fraction(1, 2 ** (k + 1)))
            >>> LatticeTable.from_reals(halves, 0, 40, Fraction(1, 2**41)).pmf(3)
            0.0625
        """
        if not 0 <= last - first < _WIDTH_LIMIT:
            raise InvalidParameterError("range", f"from 1 to {_WIDTH_LIMIT} integers", last - first + 1)
        masses = tuple(_units(probability(k), bits) for k in range(first, last + 1))
        return cls(first, masses, bits, error=1, outside=math.ceil(outside * (1 << bits)))

    @classmethod
    def from_tails(cls, tails: _Masses) -> "LatticeTable":
        """Return the table of a symmetric law from its masses; refused where it would hold 2¹⁹ entries or more."""
        if 2 * tails.reach >= _WIDTH_LIMIT:
            raise InvalidParameterError("law", f"one that fits a table of {_WIDTH_LIMIT} entries", 2 * tails.reach)
        half = [tails.mass(k) for k in range(tails.reach + 1)]
        return cls(-tails.reach, (*half[:0:-1], *half), tails.bits, tails.error, 2 * tails.error)

    @property
    def last(self) -> int:
        """Return the largest integer listed."""
        return self.first + len(self.masses) - 1

    def mass(self, k: int) -> int:
        """Return the units of P(X = k), 0 where k is not listed."""
        place = k - self.first
        return self.masses[place] if 0 <= place < len(self.masses) else 0

    def pmf(self, k: int) -> float:
        """Return P(X = k) as a double."""
        return self.mass(k) / (1 << self.bits)

    def variance(self) -> float:
        """Return the variance of what is listed."""
        total = sum(self.masses)
        mean = Fraction(sum(place * mass for place, mass in enumerate(self.masses)), total)
        second = Fraction(sum(place * place * mass for place, mass in enumerate(self.masses)), total)
        return float(second - mean**2)


def _units(probability: Real, bits: int) -> int:
    working = bits + 64
    while working < 1 << 16:
        with precision(working):
            ball = probability() * arb(2) ** bits
            if ball.rad() < 0.25:
                return max(0, int((ball.mid() + arb(0.5)).floor().unique_fmpz()))
        working *= 2
    raise InvalidParameterError("probability", "one that ball arithmetic can place", f"none at 2^-{bits}")
