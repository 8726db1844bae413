"""Bodies about panels: opened, fed, quoted, read."""

from typing import Annotated, Literal

from msgspec import Meta

from app.log.axes import Axis
from app.panels.intake import ReportRow
from app.panels.readings import Reading
from app.wire.base import Currency, Decimal, Line, RequestBody, RoundNumber
from app.wire.products import TierRequest

__all__ = ["PanelQuoteRequest", "PanelReadingRequest", "PanelReportsRequest", "PanelRequest"]


class PanelRequest(RequestBody, frozen=True, kw_only=True):
    """A panel: its domain, its menu (most accurate first) with prices, and the ε that one device may spend in all.

    The domain is a list of values, or the grid of one to three ordered `axes`. `promise` says what ε (of tiers and of
    the budget) means: for any two values, or for each step of an ordered domain; a grid's is a step's. `mechanism` is
    one that keeps it, or "auto" for the one of least variance over the menu. `mean_weight`: of a mixed plan, how
    much the mean ratio counts beside the worst, from 0 to 1.
    """

    title: Line
    domain: Annotated[tuple[Line, ...], Meta(min_length=2, max_length=4_096)] = ()
    axes: Annotated[tuple[Axis, ...], Meta(min_length=1, max_length=3)] = ()
    promise: Literal["values", "steps"] = "values"
    mechanism: Literal["auto", "subset", "randomized-response", "local-hash", "mixed", "flips", "points"] = "auto"
    mean_weight: Decimal = "0"
    tiers: Annotated[tuple[TierRequest, ...], Meta(min_length=1, max_length=20)]
    currency: Currency
    licence: Line
    budget: Decimal


class PanelReportsRequest(RequestBody, frozen=True, kw_only=True):
    """Reports for a panel's open round, as rows, or as a file of the data folder: exactly one of both.

    `version` is that of the form of reports: 1.
    """

    version: Literal[1]
    round: RoundNumber
    reports: Annotated[tuple[ReportRow, ...], Meta(min_length=1, max_length=20_000)] | None = None
    file: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]*\Z")] | None = None


class PanelQuoteRequest(RequestBody, frozen=True, kw_only=True):
    """A tier of a closed round, to be quoted."""

    round: RoundNumber
    epsilon: Decimal


class PanelReadingRequest(RequestBody, frozen=True, kw_only=True):
    """What is to be read off a tier that the caller holds."""

    round: RoundNumber
    epsilon: Decimal
    reading: Reading
