"""Orders, what they entitle to, and answers."""

from typing import Any

import msgspec

__all__ = ["AnswerView", "EntitlementView", "OrderView", "PlacedView", "QuoteLineView"]


class OrderView(msgspec.Struct, frozen=True, kw_only=True):
    """An order of the caller's, without its receipt and answer."""

    order: str
    leaf_index: int
    product: str
    title: str
    chain: str
    law: str
    epsilon: str
    amount_minor: int
    currency: str
    at: str

    @classmethod
    def of(cls, row: Any, product: str, epsilon: str) -> "OrderView":
        """Return the view of an order's row, with its good's title beside it."""
        return cls(
            order=row.id,
            leaf_index=row.leaf_index,
            product=product,
            title=row.title,
            chain=row.chain_id,
            law=row.law,
            epsilon=epsilon,
            amount_minor=row.amount_minor,
            currency=row.currency,
            at=row.created_at,
        )


class EntitlementView(msgspec.Struct, frozen=True, kw_only=True):
    """A tier that the caller may read, and where."""

    chain: str
    law: str
    rank: int
    epsilon: str
    product: str
    title: str
    order: str
    leaf_index: int
    answer: str

    @classmethod
    def of(cls, row: Any, product: str, rank: int, epsilon: str, answer: str) -> "EntitlementView":
        """Return the view of what an order's row entitles to, with its good's title beside it."""
        return cls(
            chain=row.chain_id,
            law=row.law,
            rank=rank,
            epsilon=epsilon,
            product=product,
            title=row.title,
            order=row.id,
            leaf_index=row.leaf_index,
            answer=answer,
        )


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it travels: lattice integers as text, keys in canonical order; `dummy` in rehearsals only."""

    chain: str
    confidence: str
    epsilon: str
    grain_exponent: int
    half_width: str
    keys: list[str]
    law: str
    snapshot: str
    values: list[str]
    dummy: bool = False
    notice: str = ""


class PlacedView(msgspec.Struct, frozen=True, kw_only=True):
    """An order as placed: its signed receipt, the opening of the answer's commitment, the answer, what is read off it.

    A mean is two orders: the companion is its count's. A bundle is one order of several, `bundle_order`: the first is
    shown with the `others` behind it.
    """

    receipt: dict[str, Any]
    opening: str
    answer: AnswerView
    replayed: bool
    companion: "PlacedView | None"
    reading: dict[str, Any] | None
    bundle_order: str | None
    others: list["PlacedView"]


class QuoteLineView(msgspec.Struct, frozen=True, kw_only=True):
    """One signed amount of a quote, with its reason."""

    kind: str
    text: str
    amount_minor: int
