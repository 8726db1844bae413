"""Signed distances: how far a point is outside a shape, negative inside. None stretches a distance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tiers.errors import InvalidParameterError

__all__ = ["Disc", "Points", "Polygon", "Rectangle", "Shape", "distance_from"]

Points: TypeAlias = npt.NDArray[np.float64]
_CHUNK = 1 << 11  # of points
_ROOM = 1e-9  # for rounding, where edges are left out
_VERTICES_MOST = 4096


class Shape(Protocol):
    """Any region with a signed distance: |d(x) − d(y)| ≤ ‖x − y‖, negative inside."""

    def signed_distance(self, points: Points, /) -> Points:
        """Return the signed distance of each row of `points`, in units."""
        ...


def distance_from(centre: Sequence[float], points: Points) -> Points:
    """Return the distance of each point from a public one; it stretches no distance.

    Raises:     InvalidParameterError: a centre of another dimension, or not finite.
    Example:
        >>> distance_from([0.0, 0.0], np.array([[3.0, 4.0]])).tolist()
        [5.0]
    """
    origin = _finite("centre", centre)
    if points.ndim != 2 or points.shape[1:] != origin.shape:
        raise InvalidParameterError("points", f"rows of {len(origin)} coordinates", points.shape)
    away = points - origin
    found: Points = np.sqrt(np.einsum("ij,ij->i", away, away))
    return found


@dataclass(frozen=True, slots=True)
class Disc:
    """A ball about a centre, in any dimension.

    Raises:     InvalidParameterError: a radius that is not positive and finite, or a centre that is not finite.
    Example:
        >>> Disc((1.0, 2.0), 3.0).signed_distance(np.array([[1.0, 2.0], [5.0, 2.0]])).tolist()
        [-3.0, 1.0]
    """

    centre: tuple[float, ...]
    radius: float

    def __post_init__(self) -> None:
        _finite("centre", self.centre)
        if not (isinstance(self.radius, float) and 0 < self.radius < math.inf):
            raise InvalidParameterError("radius", "a finite float > 0", self.radius)

    @property
    def inradius(self) -> float:
        """Return the radius of the largest ball inside."""
        return self.radius

    def signed_distance(self, points: Points) -> Points:
        """Return ‖x − centre‖ − radius."""
        return distance_from(self.centre, points) - self.radius


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A box with sides along the axes, in any dimension.

    Raises:     InvalidParameterError: corners that are not finite, or not one strictly below the other.
    Example:
        >>> Rectangle((0.0, 0.0), (4.0, 2.0)).signed_distance(np.array([[1.0, 1.0], [7.0, 6.0]])).tolist()
        [-1.0, 5.0]
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        low, high = _finite("low", self.low), _finite("high", self.high)
        if low.shape != high.shape or not (low < high).all():
            raise InvalidParameterError("rectangle", "low < high in every coordinate", (self.low, self.high))

    @property
    def inradius(self) -> float:
        """Return half the shortest side."""
        return min(high - low for low, high in zip(self.low, self.high, strict=True)) / 2

    def signed_distance(self, points: Points) -> Points:
        """Return the distance to the box outside, and minus the distance to its nearest side inside."""
        low, high = np.array(self.low), np.array(self.high)
        if points.ndim != 2 or points.shape[1:] != low.shape:
            raise InvalidParameterError("points", f"rows of {len(low)} coordinates", points.shape)
        beyond = np.maximum(low - points, points - high)
        outside = np.maximum(beyond, 0)
        found: Points = np.sqrt(np.einsum("ij,ij->i", outside, outside)) + np.minimum(beyond.max(axis=1), 0)
        return found


@dataclass(frozen=True, slots=True)
class Polygon:
    """A simple polygon in the plane, convex or not, its border included in the distance.

    Args:       vertices: 3 to 4,096, in order around, either way round; the last joins the first.
    Raises:     InvalidParameterError: fewer or more, not finite, two neighbours equal, no area, or a border that meets
                itself.
    Example:
        >>> shape = Polygon(((0.0, 0.0), (4.0, 0.0), (4.0, 1.0), (1.0, 1.0), (1.0, 4.0), (0.0, 4.0)))
        >>> shape.signed_distance(np.array([[0.5, 0.5], [3.0, 3.0], [1.0, 2.0]])).tolist()
        [-0.5, 2.0, 0.0]
    """

    vertices: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not 3 <= len(self.vertices) <= _VERTICES_MOST:
            raise InvalidParameterError("polygon", f"3 to {_VERTICES_MOST} vertices", len(self.vertices))
        corners = np.array([_finite("vertex", vertex) for vertex in self.vertices])
        if corners.shape[1:] != (2,):
            raise InvalidParameterError("vertices", "pairs of coordinates", corners.shape)
        ends = np.roll(corners, -1, axis=0)
        if (corners == ends).all(axis=1).any():
            raise InvalidParameterError("polygon", "no two neighbouring vertices that are equal", "two that are")
        if _area(corners, ends) == 0:
            raise InvalidParameterError("polygon", "a positive area", 0)
        if _meets_itself(corners, ends):
            raise InvalidParameterError("polygon", "a border that does not meet itself", "one that does")

    def signed_distance(self, points: Points) -> Points:
        """Return the distance to the nearest edge, negative where a ray crosses the border an odd number of times.

        Points are taken in chunks of near ones, for which few edges can be the nearest: the others are not looked at.
        """
        if points.ndim != 2 or points.shape[1] != 2:
            raise InvalidParameterError("points", "rows of 2 coordinates", points.shape)
        ends = np.array(self.vertices, np.float64)
        starts = np.roll(ends, 1, axis=0)
        found, order = np.empty(len(points)), _by_place(points)
        for start in range(0, len(points), _CHUNK):
            part = order[start : start + _CHUNK]
            x, y = points[part, 0], points[part, 1]
            middle = np.array([[(x.min() + x.max()) / 2, (y.min() + y.max()) / 2]])
            away = _squares(middle[:, 0], middle[:, 1], starts[:, None], ends[:, None])[:, 0]
            reach = math.sqrt(float(away.min())) + math.hypot(float(np.ptp(x)), float(np.ptp(y))) * (1 + _ROOM)
            near = np.sqrt(away) <= reach * (1 + _ROOM)
            least = np.full(len(part), np.inf)
            for a, b in zip(starts[near], ends[near], strict=True):
                np.minimum(least, _squares(x, y, a, b), out=least)
            inside = _inside(x, y, starts, ends)
            found[part] = np.where(inside, -1, 1) * np.sqrt(least)
        return found


def _by_place(points: Points) -> npt.NDArray[np.intp]:
    """Return an order of the points in which neighbours are near: cell by cell of a square grid."""
    cells = math.isqrt(len(points) // _CHUNK) + 1
    low, span = points.min(axis=0, initial=np.inf), np.ptp(points, axis=0) if len(points) else np.ones(2)
    scale = np.divide(cells, span, out=np.zeros(2), where=span > 0)
    cell = np.minimum(((points - low) * scale).astype(np.int32), cells - 1)
    return np.argsort(cell[:, 0] * cells + cell[:, 1], kind="stable")


def _squares(x: Points, y: Points, a: Points, b: Points) -> Points:
    """Return the squared distances of points from a segment."""
    ex, ey = b[..., 0] - a[..., 0], b[..., 1] - a[..., 1]
    along, across = x - a[..., 0], y - a[..., 1]
    share = (along * ex + across * ey) / (ex * ex + ey * ey)
    np.minimum(share, 1.0, out=share)
    np.maximum(share, 0.0, out=share)
    along -= share * ex
    across -= share * ey
    along *= along
    across *= across
    along += across
    return along


def _inside(x: Points, y: Points, starts: Points, ends: Points) -> npt.NDArray[np.bool_]:
    """Return for which points a ray to the right crosses the border an odd number of times."""
    inside = np.zeros(len(x), np.bool_)
    low, high = np.minimum(starts, ends), np.maximum(starts, ends)
    met = (low[:, 1] <= y.max()) & (high[:, 1] >= y.min()) & (high[:, 0] >= x.min())
    for (ax, ay), (bx, by) in zip(starts[met], ends[met], strict=True):
        crossing = (y < ay) != (y < by)
        if crossing.any():
            left = (x - ax) * (by - ay) < (y - ay) * (bx - ax)
            inside ^= crossing & (left if by > ay else ~left)
    return inside


def _area(corners: Points, ends: Points) -> float:
    """Twice the signed area, about the first vertex, which loses nothing to a far origin."""
    one, two = corners - corners[0], ends - corners[0]
    return float((one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]).sum())


def _meets_itself(corners: Points, ends: Points) -> bool:
    """Whether two edges share a point that is not the vertex between them."""
    count = len(corners)
    for place in range(count):
        others = np.arange(place + 1, count)
        if place == 0:
            others = others[others != count - 1]
        others = others[others != place + 1]
        if len(others) and _touch(corners[place], ends[place], corners[others], ends[others]).any():
            return True
        if _folds_back(corners[place], ends[place], ends[(place + 1) % count]):
            return True
    return False


def _touch(a: Points, b: Points, c: Points, d: Points) -> npt.NDArray[np.bool_]:
    """Whether the segment ab shares a point with each segment cd."""
    sides = [np.sign(_turn(*three)) for three in ((a, b, c), (a, b, d), (c, d, a), (c, d, b))]
    boxes = (np.maximum(c, d) >= np.minimum(a, b)).all(axis=1) & (np.minimum(c, d) <= np.maximum(a, b)).all(axis=1)
    meets: npt.NDArray[np.bool_] = (sides[0] * sides[1] <= 0) & (sides[2] * sides[3] <= 0) & boxes
    return meets


def _folds_back(a: Points, b: Points, c: Points) -> bool:
    """Whether the next edge runs back over this one."""
    return bool(_turn(a, b, c) == 0 and ((b - a) * (c - b)).sum() < 0)


def _turn(a: Points, b: Points, c: Points) -> Points:
    one, two = b - a, c - a
    found: Points = one[..., 0] * two[..., 1] - one[..., 1] * two[..., 0]
    return found


def _finite(name: str, values: Sequence[float]) -> Points:
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise InvalidParameterError(name, "finite coordinates", values)
    return found
