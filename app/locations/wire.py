"""Request bodies of location panels: a space, a plan, prices by kind of question, and the questions themselves."""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from app.queries.schema import Name
from app.wire.base import Currency, Decimal, Identity, Line, Minor

__all__ = [
    "AskedQuestion",
    "DensityQuestion",
    "DiscQuestion",
    "LocationAxis",
    "LocationPrices",
    "LocationQuoteRequest",
    "LocationRequest",
    "NearestQuestion",
    "PolygonQuestion",
    "RectangleQuestion",
]

Point: TypeAlias = Annotated[tuple[Decimal, ...], Meta(min_length=1, max_length=3)]
VERTICES_LIMIT = 256
NEAREST_LIMIT = 1_000
ROUNDS_LIMIT = 16


class _Closed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names what it knows and refuses the rest."""


class LocationAxis(_Closed, frozen=True, kw_only=True):
    """A coordinate: the dataset's column, and the declared ends of the space along it, in units of distance."""

    column: Name
    low: Decimal
    high: Decimal


class LocationPrices(_Closed, frozen=True, kw_only=True):
    """The list price of a question of each kind at `query_budget`, in minor units; a kind without one is not sold."""

    range: Minor | None = None
    density: Minor | None = None
    nearest: Minor | None = None


class LocationRequest(_Closed, frozen=True, kw_only=True):
    """A location panel on a dataset of one row a person.

    `grain`: distance of neighbouring places of the grid on which people are taken to be. `unit`: what distances are
    counted in. `budget`: the ρ a squared unit of distance that one person may spend in all; `query_budget`: on one
    question at most. `beta`: how likely an answer's decisions may be wrong. `rounds`: at most so many a question.
    """

    dataset: Identity
    title: Line
    axes: Annotated[tuple[LocationAxis, ...], Meta(min_length=1, max_length=3)]
    grain: Decimal
    unit: Line
    budget: Decimal
    query_budget: Decimal
    beta: Decimal = "0.05"
    rounds: Annotated[int, Meta(ge=1, le=ROUNDS_LIMIT)] = 10
    prices: LocationPrices
    currency: Currency
    licence: Line


class DiscQuestion(_Closed, frozen=True, kw_only=True, tag_field="type", tag="disc"):
    """How many people are within a radius of a centre?"""

    centre: Point
    radius: Decimal


class RectangleQuestion(_Closed, frozen=True, kw_only=True, tag_field="type", tag="rectangle"):
    """How many people are in a box along the axes?"""

    low: Point
    high: Point


class PolygonQuestion(_Closed, frozen=True, kw_only=True, tag_field="type", tag="polygon"):
    """How many people are in a simple polygon of the plane?"""

    vertices: Annotated[tuple[Point, ...], Meta(min_length=3, max_length=VERTICES_LIMIT)]


class DensityQuestion(_Closed, frozen=True, kw_only=True, tag_field="type", tag="density"):
    """What is the Gaussian kernel density of people at a point?"""

    point: Point
    bandwidth: Decimal


class NearestQuestion(_Closed, frozen=True, kw_only=True, tag_field="type", tag="nearest"):
    """Which people, by their numbers in the panel, are the k nearest to a point?"""

    point: Point
    k: Annotated[int, Meta(ge=1, le=NEAREST_LIMIT)]


AskedQuestion: TypeAlias = DiscQuestion | RectangleQuestion | PolygonQuestion | DensityQuestion | NearestQuestion


class LocationQuoteRequest(_Closed, frozen=True, kw_only=True):
    """A question, and the ρ a squared unit of distance that each person may spend on it, to be quoted."""

    question: AskedQuestion
    budget: Decimal
