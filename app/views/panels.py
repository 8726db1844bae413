"""Panels: listings, rounds, deliveries, quotes, orders, readings."""

from typing import Any, Literal

import msgspec

from app.log.axes import Axis, Metric
from app.views.trade import QuoteLineView

__all__ = [
    "PanelDeliveryView",
    "PanelPlacedView",
    "PanelQuoteView",
    "PanelReadingView",
    "PanelRoundView",
    "PanelTierView",
    "PanelView",
]


class PanelTierView(msgspec.Struct, frozen=True, kw_only=True):
    """One tier of a panel: its ε, its price a round, and the law of its reports.

    `rank` is its number: by accuracy among those that the panel opened with, then in the order of being added.
    The 95 % half-width of one value's count (of one axis) is at most `count_bar` times the square root of the reports;
    `newest_half_width` is that of an inner value in the newest closed round, none before there is one.
    Where ε is a step's, `across` is the ε between the two values farthest apart, and `guarantee` says both.
    """

    rank: int
    epsilon: str
    price_minor: int
    count_bar: str
    newest_half_width: str | None
    law: dict[str, str]
    across: str | None
    guarantee: str | None


class PanelRoundView(msgspec.Struct, frozen=True, kw_only=True):
    """A closed round: how many reports it has, its signed record, and its leaf (none: it is not sold)."""

    round: int
    reports: int
    record: dict[str, Any]
    signing_key: int
    signature: str
    leaf_index: int | None


class PanelView(msgspec.Struct, frozen=True, kw_only=True):
    """A panel's listing; `device_law` is what devices encode with, `open_round` the round that they report in.

    A grid's domain is empty and its `axes` are not. `metric` is the distance whose every step ε is promised for;
    `budget` is then a step's too, and `budget_across` what all rounds promise the two values farthest apart.
    `state`: `live`, or `retired`: off sale.
    """

    panel: str
    leaf_index: int | None
    title: str
    domain: list[str]
    domain_size: int
    axes: list[Axis] | None
    promise: Literal["values", "steps"]
    metric: Metric | None
    mechanism: str
    device_law: dict[str, str]
    tiers: list[PanelTierView]
    currency: str
    licence: str
    state: str
    budget: str
    budget_across: str | None
    open_round: int
    rounds: list[PanelRoundView]


class PanelDeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a delivery: `refusals` names the first hundred refused lines and the rules that they break."""

    round: int
    accepted: int
    refused: int
    refusals: list[dict[str, Any]]


class PanelQuoteView(msgspec.Struct, frozen=True, kw_only=True):
    """What a tier of a round costs the caller until the quote expires; `chain` and `law` name them in papers."""

    quote: str
    panel: str
    round: int
    rank: int
    epsilon: str
    guarantee: str | None
    reports: int
    chain: str
    law: str
    lines: list[QuoteLineView]
    amount_minor: int
    currency: str
    licence: str
    expires_at: str


class PanelPlacedView(msgspec.Struct, frozen=True, kw_only=True):
    """An order as placed: its signed receipt, and the tier's counts with what opens the commitment to them."""

    receipt: dict[str, Any]
    panel: str
    round: int
    rank: int
    opening: str
    counts: list[int]
    replayed: bool


class PanelReadingView(msgspec.Struct, frozen=True, kw_only=True):
    """Estimates read off a tier: unbiased, possibly negative, each with the half-width of its 95 % bar.

    Of a grid each has two variances: `variance_bound` is the largest that any people give, known before the sale (where
    one axis alone counts, it is the variance of all of them); `variance` is read off the same reports, without bias.
    """

    panel: str
    round: int
    epsilon: str
    reports: int
    confidence: str
    values: list[dict[str, str]]
