"""What a menu of tiers allows: the best single tier at each ε, and the variance of any (set size, odds)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.local.subset import check_domain

__all__ = ["Menu", "best_subset_size", "report_variance"]

Floats = npt.NDArray[np.float64]
_MANY = 128


def report_variance(domain_size: int, subset_size: Floats, strength: Floats) -> Floats:
    """Return (t(1−t) + (d−1)f(1−f))/(t−f)² of Subset(d, k) at c = k(e^ε − 1) = d·s/(1−s), elementwise.

    Law:        t = (k + c)/(d + c), f = (c(k−1)/(d−1) + k)/(d + c), t − f = c(d−k)/((d−1)(d+c)).
    Example:
        >>> c = np.expm1(np.array([2.0]))
        >>> round(float(report_variance(10, np.array([1.0]), c)[0]), 6)
        5.022117
    """
    d, k, c = domain_size, subset_size, strength
    true, false = k + c, c * (k - 1) / (d - 1) + k
    gap = c * (d - k) / (d - 1)
    spread: Floats = (true * (d - k) + (d - 1) * false * (d + c - false)) / gap**2
    return spread


def best_subset_size(domain_size: int, epsilon: Fraction) -> tuple[int, float]:
    """Return the set size of least variance at ε, and that variance.

    Example:
        >>> best_subset_size(10, Fraction(1))[0]  # near d/(e^ε + 1)
        3
    """
    sizes = np.arange(1, check_domain(domain_size), dtype=np.float64)
    spread = report_variance(domain_size, sizes, sizes * np.expm1(float(epsilon)))
    best = int(spread.argmin())
    return best + 1, float(spread[best])


@dataclass(frozen=True)
class Menu:
    """A domain and a ladder, with the candidates of the planners: sizes k, and strengths c = k(e^ε_i − 1).

    Args:       sizes: the set sizes that a plan may use, rising; all of 1 … d−1 unless told.
    Raises:     InvalidParameterError: a domain out of range, or sizes that do not rise within 1 … d−1.
    """

    domain_size: int
    ladder: Ladder
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        check_domain(self.domain_size)
        rising = self.sizes == tuple(sorted(set(self.sizes)))
        if not self.sizes or not rising or not 1 <= self.sizes[0] <= self.sizes[-1] < self.domain_size:
            raise InvalidParameterError("sizes", f"rising integers from 1 to {self.domain_size - 1}", self.sizes)

    @classmethod
    def of(cls, domain_size: int, ladder: Ladder) -> "Menu":
        """Return the menu with every set size."""
        return cls(domain_size, ladder, tuple(range(1, check_domain(domain_size))))

    @classmethod
    def thinned(cls, domain_size: int, ladder: Ladder, limit: int = _MANY) -> "Menu":
        """Return the menu with at most about `limit` sizes: a geometric grid and every tier's own best."""
        if check_domain(domain_size) <= limit + 1:
            return cls.of(domain_size, ladder)
        grid = np.unique(np.geomspace(1, domain_size - 1, limit).round().astype(int)).tolist()
        best = {best_subset_size(domain_size, epsilon)[0] for epsilon in ladder}
        return cls(domain_size, ladder, tuple(sorted(best.union(grid))))

    @cached_property
    def size_column(self) -> Floats:
        """Return the sizes as a column of doubles."""
        return np.array(self.sizes, dtype=np.float64)[:, None]

    @cached_property
    def optima(self) -> Floats:
        """Return each tier's least variance, over all sizes."""
        return np.array([best_subset_size(self.domain_size, epsilon)[1] for epsilon in self.ladder])

    @cached_property
    def caps(self) -> Floats:
        """Return c = k(e^ε_i − 1), a row for each tier, a column for each size."""
        grown = np.expm1([float(epsilon) for epsilon in self.ladder])
        return np.asarray(grown)[:, None] * self.size_column[:, 0]

    def ratios(self, sizes: Sequence[int], strengths: Sequence[float]) -> Floats:
        """Return each tier's variance against its optimum on a path."""
        k, c = np.array(sizes, dtype=np.float64), np.array(strengths, dtype=np.float64)
        found: Floats = report_variance(self.domain_size, k, c) / self.optima
        return found
