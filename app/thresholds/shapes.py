"""A threshold question as it travels: what is asked, what it may cost, how far it has come."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

__all__ = [
    "ThresholdLookView",
    "ThresholdOrderView",
    "ThresholdQuoteView",
    "ThresholdRequest",
    "ThresholdStepView",
]


class ThresholdRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Is a count above `above`? With `beta` all that is decided may be wrong, 0 < β < 1.

    `key` names the entry of a grouped count, as its listing does. `highest`: the ε of the tier beyond which nothing is
    to be bought; without it, the highest that the caller may buy.
    """

    above: Annotated[int, Meta(ge=0, lt=2**50)]
    beta: Annotated[str, Meta(pattern=r"^0\.[0-9]{1,12}\Z")] = "0.05"
    key: Annotated[str, Meta(max_length=1_000, pattern=r"^[^\x00]*\Z")] | None = None
    highest: Annotated[str, Meta(min_length=1, max_length=30)] | None = None


class ThresholdLookView(msgspec.Struct, frozen=True, kw_only=True):
    """A tier that may be looked at: it decides where its value is beyond `half_width` steps from the threshold.

    `amount_minor` and `charge` are of the whole question, if it ends here, as far as is known now.
    """

    law: str
    rank: int
    epsilon: str
    half_width: str
    amount_minor: int
    charge: str


class ThresholdQuoteView(msgspec.Struct, frozen=True, kw_only=True):
    """What a question may cost: tiers in the order in which they are looked at, and the most that will be paid."""

    quote: str
    product: str
    chain: str
    above: int
    beta: str
    key: str | None
    looks: list[ThresholdLookView]
    most_minor: int
    most_charge: str
    currency: str
    licence: str
    expires_at: str


class ThresholdStepView(msgspec.Struct, frozen=True, kw_only=True):
    """A tier that was revealed, and so bought: an order like any other, with its signed receipt."""

    order: str
    law: str
    rank: int
    epsilon: str
    half_width: str
    value: str
    amount_minor: int
    receipt: dict[str, Any]


class ThresholdOrderView(msgspec.Struct, frozen=True, kw_only=True):
    """A question as far as it has come. `seems_above` is what the last value says by itself, decided or not.

    `ended`: "decided"; "looked at all", undecided; or "open": the same order, sent again, goes on. `halt` is why it did
    not go on now.
    """

    order: str
    product: str
    chain: str
    above: int
    beta: str
    key: str | None
    answer: Literal["above", "not above", "undecided"]
    seems_above: bool | None
    ended: Literal["decided", "looked at all", "open"]
    steps: list[ThresholdStepView]
    paid_minor: int
    most_minor: int
    currency: str
    charge: str
    halt: dict[str, Any] | None
    at: str
