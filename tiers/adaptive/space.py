"""Where people are: points of a public grid, and the finer lattice on which noise is added to them."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiers.accounting.conversions import is_rational
from tiers.errors import InvalidParameterError

__all__ = ["FARTHEST_STEPS", "Places", "Space"]

Places: TypeAlias = npt.NDArray[np.int64]
_SIDE_MOST = 2**40
FARTHEST_STEPS = 2**40
"""How many noise steps from 0 distances are computed in doubles: they err by less than 2⁻¹⁰ of a step there."""


@dataclass(frozen=True, slots=True)
class Space:
    """A box of grid points: the data are places on the grid, and the metric is the grid's Euclidean distance.

    Noise is added on a lattice `fine` times finer, so that rounding a distance to the lattice stretches no distance of
    two places by more than 1 + 2/fine.

    Args:       corner: of the box, in units. grain: distance of neighbouring places, in units. sides: places along each
                dimension. fine: noise steps a grain.
    Raises:     InvalidParameterError: not such numbers, or a box of a single place.
    Example:
        >>> space = Space((Fraction(0), Fraction(0)), Fraction(1, 10), (101, 101))
        >>> space.locate(np.array([[0.26, 99.0]])).tolist(), space.reach_steps
        ([[3, 100]], 144816)
    """

    corner: tuple[Fraction, ...]
    grain: Fraction
    sides: tuple[int, ...]
    fine: int = 1024

    def __post_init__(self) -> None:
        if not is_rational(self.grain) or self.grain <= 0:
            raise InvalidParameterError("grain", "a positive rational", self.grain)
        if not self.sides or any(type(side) is not int or not 1 <= side <= _SIDE_MOST for side in self.sides):
            raise InvalidParameterError("sides", "integers from 1 to 2⁴⁰, one a dimension", self.sides)
        if max(self.sides) == 1:
            raise InvalidParameterError("sides", "more than one place", self.sides)
        if len(self.corner) != len(self.sides) or not all(is_rational(value) for value in self.corner):
            raise InvalidParameterError("corner", "a rational a dimension", self.corner)
        if type(self.fine) is not int or not 1 <= self.fine <= 2**20 or max(self.sides) * self.fine > 2**52:
            raise InvalidParameterError("fine", "an integer from 1 to 2²⁰, at most 2⁵² steps a side", self.fine)

    @property
    def dimensions(self) -> int:
        """Return the number of coordinates."""
        return len(self.sides)

    @property
    def step(self) -> Fraction:
        """Return the length of a noise step, in units."""
        return self.grain / self.fine

    @property
    def reach_steps(self) -> int:
        """Return the diagonal of the box in noise steps, rounded up: no two places are farther apart."""
        return math.isqrt(sum(((side - 1) * self.fine) ** 2 for side in self.sides)) + 1

    @property
    def farthest_steps(self) -> int:
        """Return how far from 0 a coordinate of a place can be, in noise steps, rounded up.

        Example:
            >>> Space((Fraction(-3),), Fraction(1, 2), (5,), fine=16).farthest_steps
            96
        """
        spans = zip(self.corner, self.sides, strict=True)
        ends = [end for low, side in spans for end in (low, low + (side - 1) * self.grain)]
        return math.ceil(max(abs(end) for end in ends) / self.step)

    def locate(self, points: npt.NDArray[np.float64]) -> Places:
        """Return the nearest place of each point; points outside the box go to its edge (which stretches no distance).

        Raises:     InvalidParameterError: coordinates that are not finite, or of another dimension.
        """
        rows = np.asarray(points, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dimensions:
            raise InvalidParameterError("points", f"rows of {self.dimensions} coordinates", rows.shape)
        if not np.isfinite(rows).all():
            raise InvalidParameterError("points", "finite coordinates", "NaN or infinity")
        scaled = (rows - np.array([float(value) for value in self.corner])) / float(self.grain)
        kept: Places = np.clip(np.floor(scaled + 0.5), 0, np.array(self.sides) - 1).astype(np.int64)
        return kept

    def check(self, places: Places) -> Places:
        """Return places if they are such.

        Raises:     InvalidParameterError: no rows, another dimension or type, or a place outside the box.
        """
        if not isinstance(places, np.ndarray) or places.dtype != np.int64 or places.ndim != 2:
            raise InvalidParameterError("places", "rows of int64", getattr(places, "dtype", type(places)))
        if not len(places) or places.shape[1] != self.dimensions:
            raise InvalidParameterError("places", f"at least one row of {self.dimensions}", places.shape)
        if places.min() < 0 or (places.max(axis=0) >= np.array(self.sides)).any():
            raise InvalidParameterError("places", "within the box", "places beyond it")
        return places

    def coordinates(self, places: Places) -> npt.NDArray[np.float64]:
        """Return the coordinates of places, in units."""
        origin = np.array([float(value) for value in self.corner])
        found: npt.NDArray[np.float64] = origin + places * float(self.grain)
        return found
