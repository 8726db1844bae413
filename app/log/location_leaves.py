"""The leaves of location panels: what is opened, what each question cost and committed to, who bought which answer.

No leaf holds a place, a noisy value or an answer. Who was charged what is committed to, not shown: it is a function of
what was released, and would give away answers that nobody bought.
"""

from typing import Annotated, TypeAlias

import msgspec

from app.log.leaf_base import Hex, LeafBase, Natural, Text

__all__ = ["LocationAnswerLeaf", "LocationLeaf", "LocationRound", "LocationSaleLeaf", "LocationSpace"]

_Question: TypeAlias = Annotated[str, msgspec.Meta(max_length=2**16)]
_Coordinates: TypeAlias = Annotated[list[Text], msgspec.Meta(min_length=1, max_length=3)]


class LocationSpace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where people are: a box in units of distance, its grid, and its diagonal Λ (rounded up), the promise's reach."""

    low: _Coordinates
    high: _Coordinates
    grain: Text
    diagonal: Text


class LocationLeaf(LeafBase, frozen=True, kw_only=True, tag="location-panel"):
    """A location panel opens: who is in it is public, where each is, is not.

    Args:       promise: what ρ means ("cgp": D_α ≤ ρ·α·dist² for two places of one person). budget_nano, query_nano: in
                10⁻⁹ ρ a squared unit, of each person, in all and on one question. beta, rounds, law: how questions are
                asked. prices_minor: by kind, of a question at `query_nano`.
    """

    panel: Text
    lineage: Text
    snapshot: Text
    people: Natural
    unit: Text
    space: LocationSpace
    promise: Text
    budget_nano: Natural
    query_nano: Natural
    beta: Text
    rounds: Natural
    law: Text
    prices_minor: Annotated[dict[Text, Natural], msgspec.Meta(min_length=1, max_length=8)]
    currency: Text
    licence: Text


class LocationRound(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A round: how many were asked, and the most that one of them was charged."""

    asked: Natural
    most_nano: Natural


class LocationAnswerLeaf(LeafBase, frozen=True, kw_only=True, tag="location-answer", omit_defaults=True):
    """A question is answered, once: in which rounds, at what charge; commitments to what was released and read.

    Args:       number: of the panel's questions, from 1. query: names panel, question and budget. transcript, ledger,
                answer: commitments to the released values, to what each person has spent after, and to the answer.
                most_nano: the most that one person was charged for the question in all, as its first receipt says (a
                question from before leaves said it: nothing).
    """

    panel: Text
    number: Natural
    query: Hex
    question: _Question
    budget_nano: Natural
    rounds: Annotated[list[LocationRound], msgspec.Meta(min_length=1, max_length=64)]
    transcript: Hex
    ledger: Hex
    answer: Hex
    most_nano: Natural | None = None


class LocationSaleLeaf(LeafBase, frozen=True, kw_only=True, tag="location-sale"):
    """An order of a question's answer; the people were charged when it was drawn."""

    order: Text
    pseudonym: Text
    panel: Text
    query: Hex
    price_minor: Natural
    currency: Text
    licence: Text
