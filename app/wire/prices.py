"""Bodies of owners' tools: demand for a menu, subscriptions."""

from typing import Annotated

from msgspec import Meta

from app.wire.base import Decimal, Identity, Minor, RequestBody

__all__ = ["DemandRequest", "SimulationRequest", "SubscriptionRequest"]


class DemandRequest(RequestBody, frozen=True, kw_only=True):
    """A kind of buyer: how many, and what each would pay for every tier, most accurate first, in minor units."""

    count: Annotated[int, Meta(ge=1, le=100_000)]
    values_minor: Annotated[tuple[Minor, ...], Meta(min_length=1, max_length=64)]


class SimulationRequest(RequestBody, frozen=True, kw_only=True):
    """Demand for one menu; `product` compares with the prices it has now."""

    demand: Annotated[tuple[DemandRequest, ...], Meta(min_length=1, max_length=500)]
    product: Identity | None = None


class SubscriptionRequest(RequestBody, frozen=True, kw_only=True):
    """A subscription to every snapshot at one tier; `drift`: variance of the value's change, in its unit squared."""

    epsilon: Decimal
    drift: Decimal
