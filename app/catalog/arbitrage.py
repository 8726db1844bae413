"""The live catalogue as an arbitrageur sees it: every chain at its current book, and a verdict that is still current.

A check may take seconds, and the store has one writer. So it runs on what was read before (`app.catalog.checking`), and
the writing transaction only compares what the verdict was found on with what is on sale now.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.catalog.classes import Offer
from app.catalog.verdicts import Ruling
from app.errors import ConflictError, NotFoundError
from app.queries.canonical import CanonicalQuery
from app.store.schema import book_prices, chains, planned_tiers, price_verdicts, products
from tiers.identity import TierLaw

__all__ = [
    "CatalogueChangedError",
    "Checked",
    "check_offer",
    "leave_uncompared",
    "live_offers",
    "offer_of",
    "rivals_of",
    "rivals_version",
    "ruling_of",
    "store_ruling",
]


class CatalogueChangedError(Exception):
    """What a verdict was found on is not what is on sale now: it must be found again. Never leaves the market."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A verdict on one offer, and on what it was found: good only while that is still what stands beside it."""

    offer: Offer
    version: str
    ruling: Ruling
    at: str


def live_offers(connection: Connection) -> list[Offer]:
    """Return every chain of a live product at its current book; a mean's two are sold together only, and left out."""
    return _offers(connection, (products.c.state == "live") & products.c.parts_json.is_(None))


def offer_of(connection: Connection, product: str) -> Offer:
    """Return a product's chain as it would be on sale at its current book, whether it is or not."""
    return _offers(connection, products.c.id == product)[0]


def rivals_of(connection: Connection, offer: Offer) -> list[Offer]:
    """Return what is on sale on the same snapshot, the offer's own chain left out: all that can bear on it."""
    return _offers(connection, _beside(offer))


def rivals_version(connection: Connection, offer: Offer) -> str:
    """Return a digest of all that `rivals_of` depends on: the same digest, the same offers."""
    wanted = (
        select(products.c.id, chains.c.id, chains.c.book_version)
        .join(chains, chains.c.id == products.c.chain_id)
        .where(_beside(offer))
        .order_by(products.c.id)
    )
    rows = [list(row) for row in connection.execute(wanted)]
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


def check_offer(connection: Connection, offer: Offer, checked: Checked | None) -> str:
    """Store the verdict on an offer and return it; refuse certain arbitrage by name.

    Only arbitrage that this offer is a part of is refused: what others have on sale is theirs to mend.

    Raises:     CatalogueChangedError: the verdict was found on another offer, or beside others than are on sale now.
                ConflictError: certain arbitrage.
    """
    if checked is None or checked.offer != offer or checked.version != rivals_version(connection, offer):
        raise CatalogueChangedError
    ruling = checked.ruling
    if ruling.verdict == "arbitrage":
        raise ConflictError(
            f"prices: expected none that a bundle undercuts, got {ruling.good} at {ruling.price_minor} minor units, "
            f"which {' + '.join(ruling.bundle)} gives for {ruling.cost_minor}",
            reason="arbitrage",
            good=ruling.good,
            price_minor=ruling.price_minor,
            bundle=list(ruling.bundle),
            cost_minor=ruling.cost_minor,
        )
    store_ruling(connection, offer.chain, ruling, checked.at)
    return ruling.verdict


def leave_uncompared(connection: Connection, chain: str, at: str) -> str:
    """Store that a mean's chain was compared with nothing, and return that verdict: uncertified."""
    ruling = Ruling("uncertified", "a mean is sold whole, as two answers, and compared with no other product")
    store_ruling(connection, chain, ruling, at)
    return ruling.verdict


def store_ruling(connection: Connection, chain: str, ruling: Ruling, at: str) -> None:
    """Keep a verdict on a chain, in place of the one before it, and show it on the chain's listed products."""
    connection.execute(price_verdicts.delete().where(price_verdicts.c.chain_id == chain))
    connection.execute(
        price_verdicts.insert().values(
            chain_id=chain,
            verdict=ruling.verdict,
            reason=ruling.reason,
            good=ruling.good,
            price_minor=ruling.price_minor,
            stage=ruling.stage,
            bundle_json=msgspec.json.encode(ruling.bundle).decode(),
            cost_minor=ruling.cost_minor,
            at=at,
        )
    )
    listed = (products.c.chain_id == chain) & (products.c.state != "internal")
    connection.execute(products.update().where(listed).values(arbitrage=ruling.verdict))


def ruling_of(connection: Connection, chain: str) -> dict[str, Any]:
    """Return the newest verdict on a chain; raises NotFoundError (analysts' questions have none)."""
    row = connection.execute(select(price_verdicts).where(price_verdicts.c.chain_id == chain)).one_or_none()
    if row is None:
        raise NotFoundError("verdict: expected a product that was checked, got one that was not")
    return {
        "verdict": row.verdict,
        "reason": row.reason,
        "good": row.good,
        "price_minor": row.price_minor,
        "stage": row.stage,
        "bundle": msgspec.json.decode(row.bundle_json),
        "cost_minor": row.cost_minor,
        "at": row.at,
    }


def _beside(offer: Offer) -> Any:
    return (
        (products.c.state == "live")
        & products.c.parts_json.is_(None)
        & (chains.c.id == products.c.chain_id)
        & (chains.c.snapshot_id == offer.snapshot)
        & (chains.c.id != offer.chain)
    )


def _offers(connection: Connection, which: Any) -> list[Offer]:
    wanted = (
        select(
            chains.c.id,
            chains.c.dataset_id,
            chains.c.snapshot_id,
            chains.c.query_json,
            chains.c.currency,
            products.c.title,
            planned_tiers.c.law_json,
            planned_tiers.c.epsilon,
            book_prices.c.price_minor,
        )
        .join(products, products.c.chain_id == chains.c.id)
        .join(planned_tiers, planned_tiers.c.chain_id == chains.c.id)
        .join(
            book_prices,
            (book_prices.c.chain_id == chains.c.id)
            & (book_prices.c.law == planned_tiers.c.law)
            & (book_prices.c.version == chains.c.book_version),
        )
        .where(which)
        .order_by(products.c.leaf_index, planned_tiers.c.rank)
    )
    found: dict[str, Offer] = {}
    listed: set[tuple[str, TierLaw]] = set()
    for row in connection.execute(wanted):
        law = TierLaw.from_document(msgspec.json.decode(row.law_json))
        priced = (f"{row.title} @ ε {row.epsilon}", law.noise.variance(), row.price_minor)
        offer = found.get(row.id)
        if offer is None:
            query = msgspec.json.decode(row.query_json, type=CanonicalQuery)
            offer = Offer(row.dataset_id, row.snapshot_id, row.id, row.title, query, row.currency, ())
            found[row.id] = offer
        if (row.id, law) not in listed:  # several products may offer one tier: it is one good, under the first name
            listed.add((row.id, law))
            found[row.id] = replace(offer, tiers=(*offer.tiers, priced))
    return list(found.values())
