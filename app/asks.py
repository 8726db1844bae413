"""Query strings of the API: closed to unknown names, every value bounded."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from app.wire.base import Currency, Decimal, Identity, Minor

__all__ = [
    "ConsistencyQuery",
    "EarningsQuery",
    "IdPageQuery",
    "InclusionQuery",
    "JobsQuery",
    "LeavesQuery",
    "PageQuery",
    "PanelsQuery",
    "RulesQuery",
    "SearchQuery",
]


class _Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names what it knows and refuses the rest."""


class PageQuery(_Query, frozen=True, kw_only=True):
    """A page: at most `count` items from the one after `after`, the last `leaf_index` seen."""

    after: Annotated[int, Meta(ge=-1, le=2**53 - 1)] = -1
    count: Annotated[int, Meta(ge=1, le=200)] = 50


class IdPageQuery(_Query, frozen=True, kw_only=True):
    """A page: at most `count` items from the one after `after`, the last id seen."""

    after: Identity | None = None
    count: Annotated[int, Meta(ge=1, le=200)] = 50


class JobsQuery(IdPageQuery, frozen=True, kw_only=True):
    """Jobs, newest first: those of a `state` and a `kind`."""

    state: Literal["running", "done", "failed"] | None = None
    kind: Literal["audit", "export", "location-order", "order", "price-audit"] | None = None


class PanelsQuery(PageQuery, frozen=True, kw_only=True):
    """Panels on sale, or off it: `q` holds words that all occur."""

    q: Annotated[str, Meta(max_length=200, pattern=r"^[^\x00]*\Z")] = ""
    on_sale: bool = True


class RulesQuery(_Query, frozen=True, kw_only=True):
    """The δ at which what was spent in ρ is read as an ε."""

    delta: Decimal = "0.000001"


class SearchQuery(PageQuery, frozen=True, kw_only=True):
    """Products: `q` holds words that all occur; one offered tier has `epsilon` and costs at most `max_price_minor`."""

    q: Annotated[str, Meta(max_length=200, pattern=r"^[^\x00]*\Z")] = ""
    dataset: Identity | None = None
    currency: Currency | None = None
    epsilon: Decimal | None = None
    max_price_minor: Minor | None = None
    on_sale: bool | None = None


class LeavesQuery(_Query, frozen=True, kw_only=True):
    """Leaves of the log: `count` of them from `start`."""

    start: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0
    count: Annotated[int, Meta(ge=1, le=1_000)] = 100


class InclusionQuery(_Query, frozen=True, kw_only=True):
    """A leaf, and the size of the tree that holds it."""

    index: Annotated[int, Meta(ge=0, le=2**53 - 1)]
    size: Annotated[int, Meta(ge=1, le=2**53 - 1)]


class ConsistencyQuery(_Query, frozen=True, kw_only=True):
    """Two sizes that the log has had."""

    earlier: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    size: Annotated[int, Meta(ge=1, le=2**53 - 1)]


class EarningsQuery(_Query, frozen=True, kw_only=True):
    """The currency of earnings."""

    currency: Currency = "EUR"
