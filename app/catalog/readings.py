"""What a product shows beside its raw answers: a threshold's bit, a quantile's bin, a mean with its interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, select

from app.catalog.datasets import dataset_of
from app.catalog.ladders import laws_of_chain
from app.catalog.lifecycle import parts_of, stored_product
from app.catalog.views import product_view
from app.errors import UnknownTierError
from app.formats.readings import ReadOff
from app.queries.model import Count, Mean, Query
from app.queries.presentation import Presentation, present
from app.queries.schema import DatasetSchema
from app.store.schema import products
from tiers.budget import decimal_text, parse_epsilon
from tiers.identity import TierLaw

__all__ = ["Reading", "read_off", "reading_of"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a product's answers at one tier are read: its question, and product, chain and law of each raw vector."""

    query: Query
    schema: DatasetSchema
    products: tuple[str, ...]
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
    parts, named = [], parts_of(connection, product)
    for part in named:
        listed = product_view(connection, part)
        known = {each.identity: each for each in laws_of_chain(connection, listed.chain)}
        parts.append((listed.chain, known[listed.tiers[places[0]].law]))
    row = select(products.c.dataset_id).where(products.c.id == product)
    schema = dataset_of(connection, connection.execute(row).scalar_one()).schema
    query = stored_product(connection, product).query
    if isinstance(query.measure, Mean) and len(named) == 1:  # a mean's count, which is read as a count
        query = replace(query, measure=Count(of="rows"))
    return Reading(query, schema, tuple(named), tuple(parts))


def read_off(reading: Reading, bodies: Sequence[bytes], about: Mapping[str, str]) -> ReadOff:
    """Return what is read off answers' documents, in canonical order of keys: a function of what their holder has."""
    answers = [msgspec.json.decode(body) for body in bodies]
    raws = [[int(text) for text in answer["values"]] for answer in answers]
    made: Presentation = present(reading.query, reading.schema, raws, [law.noise for _, law in reading.parts])
    epsilon = sum((law.epsilon() for _, law in reading.parts), Fraction(0))
    return ReadOff(msgspec.to_builtins(made), tuple(answers[0]["keys"]), decimal_text(epsilon), about)
