"""Questions about a location panel in their one canonical form, and asked in rounds of any origin."""

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec

from app.errors import InvalidRequestError
from app.locations.terms import Terms, coordinate_of
from app.locations.wire import (
    AskedQuestion,
    DensityQuestion,
    DiscQuestion,
    NearestQuestion,
    PolygonQuestion,
    RectangleQuestion,
)
from tiers.accounting.people import PeopleLedger
from tiers.adaptive.asking import Answer, Opening
from tiers.adaptive.queries import count_rounds, density_rounds, distances_from, nearest_rounds
from tiers.adaptive.release import Lipschitz
from tiers.adaptive.shapes import Disc, Polygon, Rectangle, Shape
from tiers.budget import decimal_text, parse_decimal
from tiers.canonical import canonical_bytes
from tiers.errors import InvalidParameterError

__all__ = [
    "ask_rounds",
    "canonical",
    "kind_of",
    "phi_of",
    "query_identity",
    "question_text",
    "read_question",
    "shape_of",
]

Corner: TypeAlias = tuple[Fraction, ...]
_READ = msgspec.json.Decoder(AskedQuestion)


def canonical(terms: Terms, asked: AskedQuestion) -> AskedQuestion:
    """Return a question in its one form: decimals in theirs, a polygon counterclockwise from its least vertex.

    Vertices on a straight line between their neighbours are left out, so the same region has the same name.

    Raises:     InvalidRequestError: another dimension than the space's, or anything farther from the space than its
                diagonal. InvalidParameterError: a degenerate shape, a bandwidth or radius that is not positive, k ≥ n.
    """
    match asked:
        case DiscQuestion():
            made: AskedQuestion = DiscQuestion(
                centre=_point(terms, asked.centre), radius=_length(terms, "radius", asked.radius)
            )
        case RectangleQuestion():
            made = RectangleQuestion(low=_point(terms, asked.low), high=_point(terms, asked.high))
        case PolygonQuestion():
            shape_of(asked)  # as it came: two neighbours that are equal are refused, not left out
            corners = [_exact(point) for point in asked.vertices]
            made = PolygonQuestion(vertices=tuple(_point(terms, _texts(corner)) for corner in _turned(corners)))
        case DensityQuestion():
            made = DensityQuestion(
                point=_point(terms, asked.point), bandwidth=_length(terms, "bandwidth", asked.bandwidth)
            )
        case NearestQuestion():
            if asked.k >= terms.people:
                raise InvalidRequestError(f"k: expected an integer with 1 ≤ k < {terms.people}, got {asked.k}")
            made = NearestQuestion(point=_point(terms, asked.point), k=asked.k)
    phi_of(made)
    return made


def question_text(question: AskedQuestion) -> str:
    """Return a canonical question's canonical JSON: what leaf and receipt quote."""
    return canonical_bytes(msgspec.to_builtins(question)).decode()


def read_question(text: str) -> AskedQuestion:
    """Return the question of a text; raises msgspec.MsgspecError."""
    found: AskedQuestion = _READ.decode(text.encode())
    return found


def query_identity(panel: str, question: str, budget_nano: int) -> str:
    """Return what names a question of a panel at a budget: its answer is drawn once, under this name.

    Example:
        >>> query_identity("location_1", "{}", 1) == query_identity("location_1", "{}", 2)
        False
    """
    named = canonical_bytes({"budget_nano": budget_nano, "panel": panel, "question": question})
    return hashlib.sha256(b"tiermarket/location-query/1\n" + named).hexdigest()


def kind_of(question: AskedQuestion) -> str:
    """Return the kind that a question is priced as."""
    match question:
        case DensityQuestion():
            return "density"
        case NearestQuestion():
            return "nearest"
        case _:
            return "range"


def phi_of(question: AskedQuestion) -> Lipschitz:
    """Return what of a point is released with noise: its signed distance from the border, or its distance."""
    match question:
        case DensityQuestion() | NearestQuestion():
            return distances_from(_floats(question.point))
        case _:
            return shape_of(question).signed_distance


def shape_of(question: DiscQuestion | RectangleQuestion | PolygonQuestion) -> Shape:
    """Return the region of a range question; raises InvalidParameterError for a degenerate one."""
    match question:
        case DiscQuestion():
            return Disc(_floats(question.centre), _float("radius", question.radius))
        case RectangleQuestion():
            return Rectangle(_floats(question.low), _floats(question.high))
        case PolygonQuestion():
            if any(len(point) != 2 for point in question.vertices):
                raise InvalidRequestError("vertices: expected two coordinates each, got another number")
            return Polygon(tuple((x, y) for x, y in map(_floats, question.vertices)))


def ask_rounds(
    terms: Terms, question: AskedQuestion, budget_nano: int, ledger: PeopleLedger, opening: Opening
) -> Answer[Any]:
    """Return the answer to a canonical question by rounds that are drawn now, or were kept.

    Raises:     InvalidParameterError: nobody can be asked, or too few; before the first round.
    """
    allowed, plan = terms.allowed(budget_nano), terms.plan
    match question:
        case DensityQuestion():
            bandwidth = _float("bandwidth", question.bandwidth)
            return density_rounds(plan, _floats(question.point), bandwidth, allowed, ledger, opening)
        case NearestQuestion():
            return nearest_rounds(plan, _floats(question.point), question.k, allowed, ledger, opening)
        case _:
            return count_rounds(plan, shape_of(question), allowed, ledger, opening)


def _turned(corners: Sequence[Corner]) -> list[Corner]:
    """Return a polygon's proper corners, counterclockwise, from the least one; raises where all are on a line."""
    count = len(corners)
    kept = [
        corner
        for place, corner in enumerate(corners)
        if _turn(corners[place - 1], corner, corners[(place + 1) % count]) != 0
    ]
    area = sum(
        (one[0] - corners[0][0]) * (two[1] - corners[0][1]) - (two[0] - corners[0][0]) * (one[1] - corners[0][1])
        for one, two in zip(corners, (*corners[1:], corners[0]), strict=True)
    )
    if area == 0:  # what doubles may have seen as one: decimals on a line are seldom so in binary
        raise InvalidParameterError("polygon", "a positive area", 0)
    if area < 0:
        kept.reverse()
    first = kept.index(min(kept))
    return kept[first:] + kept[:first]


def _turn(a: Corner, b: Corner, c: Corner) -> Fraction:
    return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])


def _point(terms: Terms, texts: Sequence[str]) -> tuple[str, ...]:
    """Return a point in its one form: within the space and its diagonal around, where doubles tell noise steps."""
    space, point = terms.space, _exact(texts)
    if len(point) != space.dimensions:
        raise InvalidRequestError(f"point: expected {space.dimensions} coordinates, got {len(point)}")
    for value, low, side in zip(point, space.corner, space.sides, strict=True):
        high = low + (side - 1) * space.grain
        if not low - terms.diagonal <= value <= high + terms.diagonal:
            raise InvalidRequestError(
                "point: expected one at most the space's diagonal away from it, got a farther one"
            )
    return _texts(point)


def _length(terms: Terms, name: str, text: str) -> str:
    value = parse_decimal(name, text)
    if not 0 < value <= 4 * terms.diagonal:
        raise InvalidRequestError(f"{name}: expected more than 0, at most four times the space's diagonal, got another")
    return decimal_text(value)


def _exact(texts: Sequence[str]) -> Corner:
    return tuple(coordinate_of("coordinate", text) for text in texts)


def _texts(point: Corner) -> tuple[str, ...]:
    return tuple(decimal_text(value) for value in point)


def _floats(texts: Sequence[str]) -> tuple[float, ...]:
    return tuple(_float("coordinate", text) for text in texts)


def _float(name: str, text: str) -> float:
    return float(coordinate_of(name, text))
