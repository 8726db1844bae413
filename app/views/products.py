"""Listings of products: what each tier promises and costs."""

from typing import Any

import msgspec

from app.views.datasets import BudgetState

__all__ = ["MeanBarView", "ProductView", "TierView"]


class MeanBarView(msgspec.Struct, frozen=True, kw_only=True):
    """What a mean's tier promises before it is sold: half-widths that both noises keep to together, 95 % of the time.

    `sum_half_width` is in units of the column, `count_half_width` in rows, `reach` the most that a unit's centred total
    can be, `largest` the largest size of a mean. A mean of at least `rows` rows is then known to b = (sum_half_width +
    reach · count_half_width) / (rows − count_half_width), or not at all, and as it is shown, to 12 digits, to b +
    5·10⁻¹² · (largest + b), rounded up; the interval that is shown with the answer is mostly narrower.
    """

    confidence: str
    sum_half_width: str
    count_half_width: int
    reach: str
    largest: str
    bars: list[dict[str, Any]]


class TierView(msgspec.Struct, frozen=True, kw_only=True):
    """One tier on a listing: what it promises and costs, and whether the budget still admits it.

    `added_at` is the time of a tier that joined a chain already drawn: what was known by then may have moved its owner
    to add it, so its error bar holds only as far as it did not. A mean's half-widths are its sum's:
    its own bars are in `mean`.
    """

    rank: int
    law: str
    epsilon: str
    delta: str
    family: str
    half_width: str
    half_width_value: str
    same_as_above: str | None
    price_minor: int
    admitted: bool
    added_at: str | None
    mean: MeanBarView | None = None


class ProductView(msgspec.Struct, frozen=True, kw_only=True):
    """A product's listing. Keys stand in the owner's order; answers come in canonical (sorted) order.

    A mean's listing is its centred sum's, at the ε and price of both parts, with the count's for `companion`.
    """

    product: str
    leaf_index: int
    dataset: str
    dataset_title: str
    dataset_notice: str
    chain: str
    snapshot: str
    fingerprint: str
    title: str
    description: str
    unit_label: str
    left_out: str
    licence: str
    state: str
    derivation: list[str]
    keys: list[str]
    grain_exponent: int
    currency: str
    book_version: int
    budget_state: BudgetState
    arbitrage: str
    tiers: list[TierView]
    companion: "ProductView | None" = None
