"""Bundles on sale and as ordered."""

from typing import Any

import msgspec

__all__ = ["BundleOrderView", "BundlePartView", "BundleView"]


class BundlePartView(msgspec.Struct, frozen=True, kw_only=True):
    """A tier in a bundle, as its product lists it; `admitted`: whether the budget still admits it."""

    product: str
    title: str
    dataset: str
    dataset_title: str
    unit_label: str
    law: str
    epsilon: str
    half_width_value: str
    price_minor: int
    admitted: bool


class BundleView(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle's listing: what it holds, what that costs alone, and what the bundle saves who holds none of it.

    `on_sale`: it is live, and so is every part of it, and the budget admits each.
    """

    bundle: str
    number: int
    title: str
    description: str
    licence: str
    currency: str
    state: str
    version: int
    price_minor: int
    alone_minor: int
    saving_minor: int
    on_sale: bool
    arbitrage: str
    parts: list[BundlePartView]


class BundleOrderView(msgspec.Struct, frozen=True, kw_only=True):
    """The one order of a bundle, and the orders that are its lines, a signed receipt each."""

    order: str
    bundle: str
    title: str
    version: int
    amount_minor: int
    discount_minor: int
    currency: str
    at: str
    receipts: list[dict[str, Any]]
