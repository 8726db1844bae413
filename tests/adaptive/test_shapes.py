"""Signed distances: against plain Python, never stretched, and refused where there is no inside."""

import math

import numpy as np
import pytest

from tests.adaptive import oracles
from tiers.adaptive.shapes import Disc, Polygon, Rectangle, distance_from
from tiers.errors import InvalidParameterError


def star(count: int, seed: int) -> tuple[tuple[float, float], ...]:
    """A simple polygon that is far from convex: radii at random over rising angles."""
    generator = np.random.default_rng(seed)
    angles = np.sort(generator.uniform(0, 2 * math.pi, count))
    radii = generator.uniform(0.2, 1, count)
    return tuple((float(r * math.cos(t)), float(r * math.sin(t))) for r, t in zip(radii, angles, strict=True))


@pytest.mark.parametrize("count", [3, 4, 12, 100])
def test_a_polygon_is_where_the_border_runs_round_it(count: int) -> None:
    vertices = star(count, count)
    points = np.random.default_rng(1).uniform(-1.3, 1.3, (400, 2))
    got = Polygon(vertices).signed_distance(points)
    want = [oracles.polygon_distance((float(x), float(y)), vertices) for x, y in points]
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    again = Polygon(vertices[::-1]).signed_distance(points)  # the other way round
    np.testing.assert_allclose(again, want, rtol=1e-9, atol=1e-12)
    assert (got < 0).any()


def test_chunks_of_near_points_give_what_single_points_give() -> None:
    shape = Polygon(star(60, 9))
    points = np.random.default_rng(2).normal(0, 2, (9000, 2))
    points[:50] = 1e6  # far from everything
    whole = shape.signed_distance(points)
    for place in range(0, 9000, 450):
        assert shape.signed_distance(points[place : place + 1])[0] == whole[place]
    assert shape.signed_distance(points[:0]).tolist() == []
    np.testing.assert_array_equal(
        shape.signed_distance(np.full((5000, 2), 0.5)),
        whole[:0].tolist() or 5000 * [shape.signed_distance(np.array([[0.5, 0.5]]))[0]],
    )


@pytest.mark.parametrize(
    "shape",
    [Disc((0.1, 0.2), 0.7), Rectangle((-0.5, -0.2), (0.4, 0.9)), Polygon(star(30, 4)), Polygon(star(5, 5))],
    ids=lambda shape: type(shape).__name__,
)
def test_guarantee_no_shape_stretches_a_distance(shape: Disc | Rectangle | Polygon) -> None:
    generator = np.random.default_rng(3)
    x = generator.uniform(-1.5, 1.5, (20_000, 2))
    y = x + generator.normal(0, 1, x.shape) * 10 ** generator.uniform(-6, 0.3, (len(x), 1))
    moved = np.abs(shape.signed_distance(x) - shape.signed_distance(y))
    assert (moved <= np.hypot(*(x - y).T) * (1 + 1e-9) + 1e-12).all()
    assert moved.max() > 0.5


def test_points_on_the_border_and_at_the_corners_are_at_distance_zero() -> None:
    square = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    border = np.array([[0, 0], [1, 1], [0.5, 0], [1, 0.25]], np.float64)
    for shape in (Polygon(square), Rectangle((0.0, 0.0), (1.0, 1.0))):
        assert np.abs(shape.signed_distance(border)).max() == 0
        assert shape.signed_distance(np.array([[0.5, 0.5]])).tolist() == [-0.5]
        assert shape.signed_distance(np.array([[2.0, 2.0]])) == pytest.approx(math.sqrt(2))


def test_shapes_have_any_dimension() -> None:
    points = np.array([[0.0, 0.0, 0.0, 2.0]])
    assert Disc((0.0,) * 4, 0.5).signed_distance(points).tolist() == [1.5]
    assert Rectangle((-1.0,) * 4, (1.0,) * 4).signed_distance(points).tolist() == [1.0]
    assert Rectangle((-1.0, -3.0), (1.0, 3.0)).inradius == 1.0


@pytest.mark.parametrize(
    "vertices",
    [
        ((0.0, 0.0), (1.0, 0.0)),
        ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0)),
        ((0.0, 0.0), (1.0, 1.0), (0.0, 0.0)),
        ((0.0, 0.0), (0.0, 0.0), (1.0, 1.0), (0.0, 1.0)),
        ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0)),
        ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (1.0, 0.0), (0.0, 2.0)),
        ((0.0, 0.0), (2.0, 0.0), (1.0, 0.0), (1.0, 1.0)),
        ((0.0, 0.0), (1.0, 0.0), (1.0, math.nan)),
        ((0.0, 0.0), (1.0, 0.0), (1.0, math.inf)),
        ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0)),
        ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (2.0, 4.0), (2.0, 0.0), (0.0, 4.0)),
    ],
)
def test_a_polygon_without_an_inside_is_refused(vertices: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(InvalidParameterError):
        Polygon(vertices)  # type: ignore[arg-type]


def test_other_shapes_without_an_inside_are_refused() -> None:
    for radius in (0.0, -1.0, math.nan, math.inf, 1, True):
        with pytest.raises(InvalidParameterError, match="radius"):
            Disc((0.0,), radius)
    for low, high in [((0.0,), (0.0,)), ((1.0,), (0.0,)), ((0.0,), (1.0, 1.0)), ((math.nan,), (1.0,))]:
        with pytest.raises(InvalidParameterError):
            Rectangle(low, high)
    with pytest.raises(InvalidParameterError, match="centre"):
        distance_from([math.nan], np.zeros((1, 1)))
    for shape in (Disc((0.0, 0.0), 1.0), Rectangle((0.0, 0.0), (1.0, 1.0)), Polygon(star(3, 1))):
        with pytest.raises(InvalidParameterError, match="points"):
            shape.signed_distance(np.zeros((1, 3)))
