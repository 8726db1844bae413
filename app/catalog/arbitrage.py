"""The live catalogue as an arbitrageur sees it: every chain at its current book, and a verdict that is still current.

A check may take seconds, and the store has one writer. So it runs on what was read before (`app.catalog.checking`), and
the writing transaction only compares what the verdict was found on with what is on sale now.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.catalog.listing import linked, listed_bundles, listed_tiers, rivals_version
from app.catalog.shelf import Listed, ListedBundle, Proposal, Shelf, shelf_of
from app.catalog.verdicts import Ruling
from app.errors import ConflictError, NotFoundError
from app.store.schema import bundles, chains, price_verdicts, products
from pricing.book import PriceBook

__all__ = [
    "CatalogueChangedError",
    "Checked",
    "bundle_offer",
    "check_offer",
    "current_check",
    "live_offers",
    "offer_of",
    "proposed",
    "refuse_arbitrage",
    "ruling_of",
    "store_around",
    "store_bundle_ruling",
    "store_checked",
    "store_ruling",
    "verdict_text",
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
    """Return all that is on sale: every chain of a live product at its current book, means as packs, and bundles."""
    return shelf_of(listed_tiers(connection), listed_bundles(connection))


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
    around = linked(connection, {row.snapshot_id})
    listed = [
        replace(each, currency=new[each.chain].currency, price=new[each.chain].price_of(each.law))
        if each.chain in new
        else each
        for each in listed_tiers(connection, around, product)
    ]
    own = connection.execute(select(products.c.chain_id).where(products.c.id.in_(parts))).scalars()
    return Proposal(shelf_of(listed, listed_bundles(connection, around)), around, frozenset(own))


def proposed(connection: Connection, snapshot: str, new: Sequence[Listed]) -> Proposal:
    """Return what would be on sale with a product that is not stored yet."""
    around = linked(connection, {snapshot})
    listed = [*listed_tiers(connection, around), *new]
    return Proposal(shelf_of(listed, listed_bundles(connection, around)), around, frozenset(each.chain for each in new))


def bundle_offer(connection: Connection, bundle: ListedBundle, snapshots: Set[str]) -> Proposal:
    """Return what would be on sale with a bundle, whether it is or not, at its price or at another."""
    around = linked(connection, snapshots)
    others = [each for each in listed_bundles(connection, around) if each.bundle != bundle.bundle]
    return Proposal(shelf_of(listed_tiers(connection, around), [*others, bundle]), around, frozenset(), bundle.bundle)


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
        or checked.version != rivals_version(connection, proposal.snapshots)
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
    store_ruling(connection, chain, checked.about(chain), checked.at)
    store_around(connection, checked)


def store_around(connection: Connection, checked: Checked) -> None:
    """Keep the verdicts on all that a proposal bears on: chains, and bundles by their ids."""
    known = set(connection.execute(select(bundles.c.id).where(bundles.c.id.in_(checked.around))).scalars())
    for near, ruling in checked.around.items():
        store = store_bundle_ruling if near in known else store_ruling
        store(connection, near, ruling, checked.at)


def store_bundle_ruling(connection: Connection, bundle: str, ruling: Ruling, at: str) -> None:
    """Keep a verdict on a bundle, in place of the one before it."""
    kept = {"arbitrage": ruling.verdict, "verdict_json": verdict_text(ruling, at)}
    connection.execute(bundles.update().where(bundles.c.id == bundle).values(**kept))


def verdict_text(ruling: Ruling, at: str) -> str:
    """Return a verdict as a bundle's row keeps it."""
    return msgspec.json.encode({**msgspec.to_builtins(ruling), "at": at}).decode()


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
