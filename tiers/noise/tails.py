"""Tails of a symmetric log-concave law as fixed-point integers: from a table where one fits, else ball by ball."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from flint import arb

from tiers.noise.table import LatticeTable
from tiers.real import precision

__all__ = ["BallTails", "TableTails", "Tails"]


class Tails(Protocol):
    """P(X = k) and P(X ≥ k) of a symmetric log-concave law in units of 2^−bits, each within `error` units."""

    @property
    def bits(self) -> int:
        """Return the exponent of the unit."""
        ...

    @property
    def error(self) -> int:
        """Return the units by which a mass or a tail may be off."""
        ...

    @property
    def unit_error(self) -> int:
        """Return the units by which one mass may be off."""
        ...

    @property
    def variance(self) -> float:
        """Return the variance if the law is nearly Gaussian and its masses are dear; 0.0 means: just search."""
        ...

    @property
    def reach(self) -> int:
        """Return some K with P(X > K) of at most `error` units."""
        ...

    def mass(self, k: int) -> int:
        """Return the units of P(X = k)."""
        ...

    def tail(self, k: int) -> int:
        """Return the units of P(X ≥ k), for any integer k."""
        ...


class TableTails:
    """Tails read off a symmetric table: lists of integers, for speed.

    Example:
        >>> from tiers.noise.skellam_table import skellam_table
        >>> tails = TableTails(skellam_table(Fraction(1), 64))
        >>> tails.tail(0) + tails.tail(1) == 2**64
        True
    """

    __slots__ = ("bits", "error", "masses", "reach", "tails", "unit_error", "variance")

    def __init__(self, table: LatticeTable) -> None:
        half = list(table.masses[-table.first :])
        self.reach = len(half) - 1
        self.bits, self.variance = table.bits, 0.0
        self.unit_error = max(1, table.error)  # of one mass
        self.error = len(half) * table.error + table.outside
        self.masses = [*half, 0]
        self.tails = [*list(accumulate(reversed(half)))[::-1], 0]

    def mass(self, k: int) -> int:
        """Return the units of P(X = k)."""
        k = k if k >= 0 else -k
        return self.masses[k] if k <= self.reach else 0

    def tail(self, k: int) -> int:
        """Return the units of P(X ≥ k)."""
        if k <= 0:
            return (1 << self.bits) - self.tail(1 - k)
        return self.tails[k] if k <= self.reach else 0


@dataclass(slots=True)
class BallTails:
    """Tails computed one at a time from balls of log P(X = k) and log P(X ≥ k), for laws too wide for a table.

    Each is right to `accuracy` bits only, so that laws whose masses are dear need not pay for all of them.
    """

    log_mass: Callable[[int, int], arb]
    log_tail: Callable[[int, int], arb]
    bits: int
    reach: int
    accuracy: int = 0
    variance: float = 0.0
    known: dict[tuple[bool, int], int] = field(default_factory=dict)

    @property
    def error(self) -> int:
        """Return the units by which a mass or a tail may be off."""
        return 1 << (self.bits - (self.accuracy or self.bits))

    @property
    def unit_error(self) -> int:
        """Return the units by which one mass may be off."""
        return self.error

    def mass(self, k: int) -> int:
        """Return the units of P(X = k)."""
        return self._units(True, abs(k))

    def tail(self, k: int) -> int:
        """Return the units of P(X ≥ k)."""
        if k <= 0:
            return (1 << self.bits) - self.tail(1 - k)
        return self._units(False, k)

    def _units(self, is_mass: bool, k: int) -> int:
        if k > self.reach:
            return 0
        if (is_mass, k) not in self.known:
            source = self.log_mass if is_mass else self.log_tail
            with precision(self.bits + 64 + 2 * self.reach.bit_length()):
                ball = source(k, self.accuracy or self.bits).exp() * arb(2) ** self.bits
                self.known[is_mass, k] = int((ball.mid() + arb(0.5)).floor().unique_fmpz())
                assert ball.rad() < self.error / 2
        return self.known[is_mass, k]
