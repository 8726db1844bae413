"""Rehearsals: an answer's shape with made-up numbers, from declared metadata; no data, ledger or secret is read."""

import hashlib
from dataclasses import replace
from fractions import Fraction

import msgspec
from sqlalchemy import Connection, select

from app.catalog.lifecycle import parts_of
from app.catalog.readings import read_off, reading_of
from app.errors import NotFoundError, UnknownTierError
from app.formats.readings import ReadOff
from app.queries.canonical import CanonicalQuery, SumSteps
from app.store.schema import chains, offers, planned_tiers, products
from tiers.budget import parse_epsilon

__all__ = ["NOTICE", "rehearse", "rehearse_reading"]

NOTICE = "Dummy numbers of the right shape: drawn from the product's id and its declared bounds, never from the data."
_UNITS = 1_000


def rehearse(connection: Connection, product: str, law: str | None, epsilon: str | None) -> bytes:
    """Return a tier's answer document with dummy numbers: the same for everybody and for ever, as the real one is.

    The numbers are a hash of public ids, spread over what 1,000 units within the declared bounds could give, so
    nothing that is sold, charged or secret can show in them.

    Raises:     NotFoundError: no such product, or no such tier of it.
    """
    if parts_of(connection, product) != (product,):  # a mean's tiers have their sum's laws, and both parts' ε
        law, epsilon = reading_of(connection, product, law, epsilon).parts[0][1].identity, None
    wanted = (
        select(
            chains.c.id, chains.c.query_json, chains.c.keys_json, chains.c.length, chains.c.grain, chains.c.snapshot_id
        )
        .join(products, products.c.chain_id == chains.c.id)
        .where(products.c.id == product)
    )
    chain = connection.execute(wanted).one_or_none()
    if chain is None:
        raise NotFoundError("product: expected an existing id, got another")
    tiers = connection.execute(
        select(planned_tiers.c.law, planned_tiers.c.epsilon, planned_tiers.c.half_width)
        .join(offers, (offers.c.law == planned_tiers.c.law) & (offers.c.product_id == product))
        .where(planned_tiers.c.chain_id == chain.id)
        .order_by(planned_tiers.c.rank)
    ).all()
    asked = None if epsilon is None else parse_epsilon(epsilon)
    fitting = [tier for tier in tiers if law in (None, tier.law) and asked in (None, Fraction(tier.epsilon))]
    if not fitting:
        raise UnknownTierError("tier: expected one that the product offers, got another")
    low, high = _range(msgspec.json.decode(chain.query_json, type=CanonicalQuery))
    tier = fitting[0]
    document = {
        "chain": chain.id,
        "confidence": "0.95",
        "dummy": True,
        "epsilon": tier.epsilon,
        "grain_exponent": chain.grain,
        "half_width": tier.half_width,
        "keys": msgspec.json.decode(chain.keys_json),
        "law": tier.law,
        "notice": NOTICE,
        "snapshot": chain.snapshot_id,
        "values": [str(_between(low, high, f"{product}/{tier.law}/{place}")) for place in range(chain.length)],
    }
    return msgspec.json.encode(document, order="sorted")


def rehearse_reading(connection: Connection, product: str, law: str | None, epsilon: str | None) -> ReadOff:
    """Return what would be read off dummy answers at a tier, with the tier's own noise; raises as `rehearse`."""
    found = reading_of(connection, product, law, epsilon)
    bodies = [
        rehearse(connection, part, tier.identity, None)
        for part, (_, tier) in zip(parts_of(connection, product), found.parts, strict=True)
    ]
    made = read_off(found, bodies, {"product": product, "dummy": "true"})
    return replace(made, document={"dummy": True, "notice": NOTICE, "reading": made.document})


def _range(query: CanonicalQuery) -> tuple[int, int]:
    if isinstance(query.measure, SumSteps):
        return min(0, query.measure.lower) * _UNITS, max(0, query.measure.upper) * _UNITS
    return 0, _UNITS * min(max(1, query.rows), 100)


def _between(low: int, high: int, label: str) -> int:
    return low + int.from_bytes(hashlib.sha256(b"rehearsal/1/" + label.encode()).digest()) % (high - low + 1)
