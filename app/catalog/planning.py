"""Owners' tools beside the simulator: what a subscription really delivers."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.catalog.books import book_of_chain
from app.errors import InvalidRequestError, NotFoundError
from app.store.schema import chains, offers, planned_tiers, products
from pricing.snapshots import emulated_tier, snapshots_to_settle, steady_variance
from tiers.identity import TierLaw

__all__ = ["subscription_floor", "variances_of"]


def subscription_floor(connection: Connection, product: str, epsilon: str, drift: Fraction) -> dict[str, Any]:
    """Return the one-off tier that a subscriber to every snapshot at `epsilon` comes to hold: charge no less.

    Args:       drift: variance of the true value's change from one snapshot to the next, in the answer's unit squared.
    Raises:     NotFoundError: no such product or tier. InvalidProductError: a drift that is not positive.
                InvalidRequestError: a mean, whose sum and count drift each in its own way.
    """
    found = select(products.c.chain_id, products.c.parts_json, chains.c.grain).join(
        chains, chains.c.id == products.c.chain_id
    )
    row = connection.execute(found.where(products.c.id == product)).one_or_none()
    if row is None:
        raise NotFoundError("product: expected an existing id, got another")
    if row.parts_json is not None:
        raise InvalidRequestError("product: expected one answer that drifts, got a mean, which is a sum and a count")
    wanted = (
        select(planned_tiers.c.law, planned_tiers.c.epsilon)
        .join(offers, (offers.c.law == planned_tiers.c.law) & (offers.c.product_id == product))
        .where(planned_tiers.c.chain_id == row.chain_id)
    )
    laws = {tier.epsilon: tier.law for tier in connection.execute(wanted)}
    if epsilon not in laws:
        raise NotFoundError("tier: expected one of the product's, got another")
    variances = variances_of(connection, row.chain_id)
    steps = float(drift / Fraction(4) ** row.grain)
    book = book_of_chain(connection, row.chain_id)
    noise = variances[laws[epsilon]]
    emulated = emulated_tier(book, variances, laws[epsilon], steps)
    return {
        "epsilon": epsilon,
        "emulates": next(text for text, law in laws.items() if law == emulated.law),
        "price_at_least_minor": emulated.price,
        "currency": book.currency,
        "variance_of_one": noise * 4.0**row.grain,
        "variance_of_all": steady_variance(noise, steps) * 4.0**row.grain,
        "snapshots_to_settle": snapshots_to_settle(noise, steps),
    }


def variances_of(connection: Connection, chain: str) -> Mapping[str, float]:
    """Return the variance of every law of a chain, in steps squared, most accurate first."""
    wanted = select(planned_tiers.c.law, planned_tiers.c.law_json).where(planned_tiers.c.chain_id == chain)
    rows = connection.execute(wanted.order_by(planned_tiers.c.rank))
    return {row.law: TierLaw.from_document(msgspec.json.decode(row.law_json)).noise.variance() for row in rows}
