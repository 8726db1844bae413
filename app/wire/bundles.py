"""Bodies about bundles: composed and priced."""

from typing import Annotated, Literal

from msgspec import Meta

from app.wire.base import Currency, Decimal, Identity, LawName, Line, Minor, Paragraph, RequestBody

__all__ = ["BundlePartRequest", "BundlePriceRequest", "BundleRequest"]


class BundlePartRequest(RequestBody, frozen=True, kw_only=True):
    """A product of the caller's own in a bundle, at exactly one of a law or an ε that it offers."""

    product: Identity
    law: LawName | None = None
    epsilon: Decimal | None = None


class BundleRequest(RequestBody, frozen=True, kw_only=True):
    """A bundle: tiers of several products, all under one licence, at one price."""

    title: Line
    description: Paragraph = ""
    parts: Annotated[tuple[BundlePartRequest, ...], Meta(min_length=2, max_length=16)]
    currency: Currency
    price_minor: Minor
    state: Literal["draft", "live"] = "live"


class BundlePriceRequest(RequestBody, frozen=True, kw_only=True):
    """A bundle's new price: the next version."""

    currency: Currency
    price_minor: Minor
