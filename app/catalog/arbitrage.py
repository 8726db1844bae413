"""The live catalogue as an arbitrageur sees it: every chain at its current book, and a verdict that is still current.

A check may take seconds, and the store has one writer. So it runs on what was read before (`app.catalog.checking`), and
the writing transaction only compares what the verdict was found on with what is on sale now.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.catalog.shelf import Listed, Proposal, Shelf, shelf_of
from app.catalog.verdicts import Ruling
from app.errors import ConflictError, NotFoundError
from app.queries.canonical import CanonicalQuery
from app.store.schema import book_prices, chains, offers, planned_tiers, price_verdicts, products
from pricing.book import PriceBook
from tiers.identity import TierLaw

__all__ = [
    "CatalogueChangedError",
    "Checked",
    "check_offer",
    "current_check",
    "live_offers",
    "offer_of",
    "proposed",
    "refuse_arbitrage",
    "rivals_version",
    "ruling_of",
    "store_checked",
    "store_ruling",
]


class CatalogueChangedError(Exception):
    """What a verdict was found on is not what is on sale now: it must be found again. Never leaves the market."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A verdict on one proposal, and on what it was found: good only while that is still what stands beside it.

    Args:       around: the verdicts on all that the proposal bears on, its own chains included, by chain.
    """

    proposal: Proposal
    version: str
    ruling: Ruling
    at: str
    around: Mapping[str, Ruling] = field(default_factory=dict)

    def about(self, chain: str) -> Ruling:
        """Return the verdict on one chain; the proposal's where there is none of its own."""
        return self.around.get(chain, self.ruling)


def live_offers(connection: Connection) -> Shelf:
    """Return all that is on sale: every chain of a live product at its current book, and every mean as its packs."""
    return shelf_of(_listed(connection))


def offer_of(connection: Connection, product: str, books: Sequence[PriceBook] = ()) -> Proposal:
    """Return a product as it would be on sale, whether it is or not: at its current books, or at new ones."""
    wanted = (
        select(products.c.parts_json, chains.c.snapshot_id)
        .join(chains, chains.c.id == products.c.chain_id)
        .where(products.c.id == product)
    )
    row = connection.execute(wanted).one()
    parts = (product,) if row.parts_json is None else tuple(msgspec.json.decode(row.parts_json, type=list[str]))
    new = {book.chain_id: book for book in books}
    listed = [
        replace(each, currency=new[each.chain].currency, price=new[each.chain].price_of(each.law))
        if each.chain in new
        else each
        for each in _listed(connection, row.snapshot_id, product)
    ]
    own = connection.execute(select(products.c.chain_id).where(products.c.id.in_(parts))).scalars()
    return Proposal(shelf_of(listed), row.snapshot_id, frozenset(own))


def proposed(connection: Connection, snapshot: str, new: Sequence[Listed]) -> Proposal:
    """Return what would be on sale with a product that is not stored yet."""
    listed = [*_listed(connection, snapshot), *new]
    return Proposal(shelf_of(listed), snapshot, frozenset(each.chain for each in new))


def rivals_version(connection: Connection, snapshot: str) -> str:
    """Return a digest of all that stands on a snapshot: the same digest, the same offers and packs."""
    wanted = (
        select(products.c.id, products.c.state, chains.c.id, chains.c.book_version)
        .join(chains, chains.c.id == products.c.chain_id)
        .where(products.c.state.in_(("live", "part")), chains.c.snapshot_id == snapshot)
        .order_by(products.c.id)
    )
    rows = [list(row) for row in connection.execute(wanted)]
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


def check_offer(connection: Connection, proposal: Proposal, checked: Checked | None) -> Checked:
    """Return the verdict on a proposal, before it is written; refuse certain arbitrage by name.

    Raises:     CatalogueChangedError: the verdict was found on another, or beside others than are on sale now.
                ConflictError: certain arbitrage.
    """
    current = current_check(connection, proposal, checked)
    refuse_arbitrage(current.ruling)
    return current


def current_check(connection: Connection, proposal: Proposal, checked: Checked | None) -> Checked:
    """Return the verdict on a proposal, whatever it is, before anything of it is written.

    Raises:     CatalogueChangedError: the verdict was found on another, or beside others than are on sale now.
    """
    if (
        checked is None
        or checked.proposal != proposal
        or checked.version != rivals_version(connection, proposal.snapshot)
    ):
        raise CatalogueChangedError
    return checked


def refuse_arbitrage(ruling: Ruling) -> None:
    """Refuse what is certain arbitrage, naming the good, the bundle that undercuts it, and both prices.

    Only arbitrage that a proposal is a part of is refused: what else is on sale is for its owner to mend.

    Raises:     ConflictError: certain arbitrage.
    """
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


def store_checked(connection: Connection, chain: str, checked: Checked) -> None:
    """Keep the verdict on a chain as it is written, and those on all that this bears on: none of before is current."""
    for near in {chain, *checked.around}:
        store_ruling(connection, near, checked.about(near), checked.at)


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


def _listed(connection: Connection, snapshot: str | None = None, also: str = "") -> list[Listed]:
    """Return every tier on sale (on a snapshot), and those of one product more: a mean's sum, and beside it its count.

    A product lists what it offers, which may be less than its chain has.
    """
    means = {
        parts[1]: parts[0]
        for text in connection.execute(
            select(products.c.parts_json).where(
                (products.c.state == "live") | (products.c.id == also), products.c.parts_json.is_not(None)
            )
        ).scalars()
        for parts in [msgspec.json.decode(text, type=list[str])]
    }
    wanted = (
        select(
            products.c.id.label("product"),
            products.c.title,
            products.c.state,
            products.c.parts_json,
            chains.c.id,
            chains.c.dataset_id,
            chains.c.snapshot_id,
            chains.c.query_json,
            chains.c.currency,
            planned_tiers.c.law,
            planned_tiers.c.law_json,
            planned_tiers.c.epsilon,
            book_prices.c.price_minor,
        )
        .join(products, products.c.chain_id == chains.c.id)
        .join(offers, offers.c.product_id == products.c.id)
        .join(planned_tiers, (planned_tiers.c.chain_id == chains.c.id) & (planned_tiers.c.law == offers.c.law))
        .join(
            book_prices,
            (book_prices.c.chain_id == chains.c.id)
            & (book_prices.c.law == planned_tiers.c.law)
            & (book_prices.c.version == chains.c.book_version),
        )
        .where(products.c.state.in_(("live", "part")) | (products.c.id.in_([also, *means])))
        .order_by(products.c.leaf_index, planned_tiers.c.rank)
    )
    if snapshot is not None:
        wanted = wanted.where(chains.c.snapshot_id == snapshot)
    found = []
    for row in sorted(connection.execute(wanted), key=lambda row: row.state == "part"):  # a mean's sum before its count
        if row.state == "part" and row.product not in means:
            continue
        mean = means.get(row.product) or (row.product if row.parts_json is not None else None)
        law = TierLaw.from_document(msgspec.json.decode(row.law_json))
        found.append(
            Listed(
                mean,
                row.dataset_id,
                row.snapshot_id,
                row.id,
                row.title,
                msgspec.json.decode(row.query_json, type=CanonicalQuery),
                row.currency,
                row.law,
                row.epsilon,
                law.noise.variance(),
                row.price_minor,
            )
        )
    return found
