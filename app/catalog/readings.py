"""What a product shows beside its raw answers: a threshold's bit, a quantile's bin, a mean with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.catalog.datasets import dataset_of
from app.catalog.ladders import laws_of_chain
from app.catalog.lifecycle import parts_of, stored_product
from app.catalog.views import product_view
from app.errors import UnknownTierError
from app.queries.model import Query
from app.queries.presentation import Presentation, present
from app.queries.schema import DatasetSchema
from app.store.schema import products
from tiers.budget import parse_epsilon
from tiers.identity import TierLaw

__all__ = ["Reading", "reading_of", "shown"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a product's answers at one tier are read: its question, and the chain and law of each raw vector."""

    query: Query
    schema: DatasetSchema
    parts: tuple[tuple[str, TierLaw], ...]


def reading_of(connection: Connection, product: str, law: str | None = None, epsilon: str | None = None) -> Reading:
    """Return how a tier of a product is read, the tier asked for by its (first) law or its whole ε, else the top one.

    Raises:     NotFoundError: no such product, or it offers no such tier.
    """
    view = product_view(connection, product)
    asked = None if epsilon is None else parse_epsilon(epsilon)
    places = [
        place
        for place, tier in enumerate(view.tiers)
        if law in (None, tier.law) and asked in (None, Fraction(tier.epsilon))
    ]
    if not places:
        raise UnknownTierError("tier: expected one that the product offers, got another")
    parts = []
    for part in parts_of(connection, product):
        listed = product_view(connection, part)
        known = {each.identity: each for each in laws_of_chain(connection, listed.chain)}
        parts.append((listed.chain, known[listed.tiers[places[0]].law]))
    row = select(products.c.dataset_id).where(products.c.id == product)
    schema = dataset_of(connection, connection.execute(row).scalar_one()).schema
    return Reading(stored_product(connection, product).query, schema, tuple(parts))


def shown(reading: Reading, raws: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the presentation of raw answers, in canonical order of keys: a function of what their holder has."""
    made: Presentation = present(reading.query, reading.schema, raws, [law.noise for _, law in reading.parts])
    document: dict[str, Any] = msgspec.to_builtins(made)
    return document
