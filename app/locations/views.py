"""What the API shows of location panels."""

from typing import Any

import msgspec

from app.locations.wire import LocationAxis, LocationPrices
from app.views import QuoteLineView

__all__ = [
    "LocationAnswerView",
    "LocationLedgerView",
    "LocationOpenedView",
    "LocationPlacedView",
    "LocationPromiseView",
    "LocationQuoteView",
    "LocationView",
]


class LocationPromiseView(msgspec.Struct, frozen=True, kw_only=True):
    """What ρ means on the panel, and what a person's whole budget comes to between opposite ends of the space.

    `adjacency`: what two tables that cannot be told apart differ in. `diagonal`: Λ, rounded up. `rho_whole`: of a
    person's budget at that distance.
    """

    measure: str
    adjacency: str
    unit: str
    diagonal: str
    budget: str
    query_budget: str
    rho_whole: str
    sentence: str


class LocationView(msgspec.Struct, frozen=True, kw_only=True):
    """A location panel as everybody sees it: who is in it is public, where they are is not.

    `state`: `live`, or `retired`: off sale.
    """

    panel: str
    leaf_index: int
    title: str
    dataset: str
    snapshot: str
    people: int
    axes: list[LocationAxis]
    grain: str
    promise: LocationPromiseView
    least_budget: str
    beta: str
    rounds: int
    prices: LocationPrices
    currency: str
    licence: str
    answered: int
    state: str


class LocationOpenedView(msgspec.Struct, frozen=True, kw_only=True):
    """A panel that was opened, with what its owner alone is told: how many people stood outside the declared space."""

    opened: LocationView
    outside: int


class LocationLedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """What people's budgets come to, for the panel's owner: the least, the mean and the most that is left of one.

    `exhausted`: how many have too little left for a first round of any question. `saved_share`: which part they did not
    pay of what those whom the answered questions asked could have paid at most: what a question allowed, or what a
    person had left before it, if that was less.
    """

    people: int
    budget: str
    answered: int
    least_left: str
    mean_left: str
    most_left: str
    exhausted: int
    saved_share: str


class LocationQuoteView(msgspec.Struct, frozen=True, kw_only=True):
    """A question in its one form, and what it costs this caller now.

    `askable` of the panel's `people` have budget enough left to be asked, each up to what is left of their own; of a
    question that has its answer, that many were.
    """

    quote: str
    panel: str
    question: dict[str, Any]
    budget: str
    query: str
    people: int
    askable: int
    law: str
    lines: list[QuoteLineView]
    amount_minor: int
    currency: str
    licence: str
    expires_at: str


class LocationPlacedView(msgspec.Struct, frozen=True, kw_only=True):
    """An order: its receipt, the answer, and what opens the log's commitment to it."""

    receipt: dict[str, Any]
    panel: str
    query: str
    answer: dict[str, Any]
    opening: str
    replayed: bool


class LocationAnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that the caller bought."""

    panel: str
    query: str
    answer: dict[str, Any]
    opening: str
