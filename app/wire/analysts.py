"""Bodies of analysts: questions and dashboards."""

from typing import Annotated, Literal

from msgspec import Meta

from app.queries.model import Query
from app.wire.base import Decimal, Identity, Line, RequestBody

__all__ = ["DashboardRequest", "QuestionRequest", "TileRequest"]


class QuestionRequest(RequestBody, frozen=True, kw_only=True):
    """An analyst's own question on a dataset that allows them."""

    dataset: Identity
    title: Line = "ad-hoc question"
    query: Query


class TileRequest(RequestBody, frozen=True, kw_only=True):
    """One number or chart of a dashboard: a product at a tier, and how it is shown."""

    product: Identity
    epsilon: Decimal
    title: Line
    display: Literal["number", "bars", "table"] = "bars"


class DashboardRequest(RequestBody, frozen=True, kw_only=True):
    """A dashboard, kept as data."""

    name: Line
    tiles: Annotated[tuple[TileRequest, ...], Meta(min_length=1, max_length=50)]
