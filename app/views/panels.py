"""Panels: listings, rounds, deliveries, quotes, orders, readings."""

from typing import Any, Literal

import msgspec

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

    `count_bar` times the square root of a round's reports is the 95 % half-width of one value's count.
    """

    rank: int
    epsilon: str
    price_minor: int
    count_bar: str
    law: dict[str, str]


class PanelRoundView(msgspec.Struct, frozen=True, kw_only=True):
    """A closed round: how many reports it has, its signed record, and its leaf (none: it is not sold)."""

    round: int
    reports: int
    record: dict[str, Any]
    signing_key: int
    signature: str
    leaf_index: int | None


class PanelView(msgspec.Struct, frozen=True, kw_only=True):
    """A panel's listing; `device_law` is what devices encode with, `open_round` the round that they report in."""

    panel: str
    leaf_index: int | None
    title: str
    domain: list[str]
    promise: Literal["values", "steps"]
    mechanism: str
    device_law: dict[str, str]
    tiers: list[PanelTierView]
    currency: str
    licence: str
    budget: str
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
    """Estimates read off a tier: unbiased, possibly negative, each with the half-width of its 95 % bar."""

    panel: str
    round: int
    epsilon: str
    reports: int
    confidence: str
    values: list[dict[str, str]]
