"""Publication: a planned product is stored, logged and priced, on a chain of its own or on its question's."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
from sqlalchemy import Connection, select

from app.catalog.arbitrage import Checked, current_check, proposed, refuse_arbitrage, store_checked
from app.catalog.books import book_of_chain, insert_book, reprice, require_currency
from app.catalog.datasets import DatasetRow
from app.catalog.ladders import add_tiers, laws_of_chain, tier_row
from app.catalog.locating import refuse_located
from app.catalog.products import INTERNAL, LIVE, PART, PlannedProduct, checked_book
from app.catalog.shelf import Listed, Proposal
from app.clock import new_id
from app.errors import ConflictError
from app.keyring import Keyring
from app.log.journal import append
from app.log.leaves import PlanLeaf, PlanTier, plain_text
from app.store.schema import chains, offers, planned_tiers, products
from pricing.book import PriceBook, TierPrice
from tiers.budget import decimal_text
from tiers.chain import PlannedTier
from tiers.rank import by_accuracy

__all__ = ["planned_offer", "publish"]


def publish(
    connection: Connection,
    keyring: Keyring,
    dataset: DatasetRow,
    planned: PlannedProduct,
    at: str,
    checked: Checked | None,
) -> str:
    """Store and log a product; a second one on a published question shares that question's chain, tiers and prices.

    Args:       checked: the verdict on `planned_offer`; None where there is nothing to compare.
    Raises:     ConflictError: the dataset's people are in a location panel; the chain has other prices for the same
                laws, or reserved too little for a new one; an analyst asks for tiers that it lacks; or some product of
                the catalogue, this one included, could be had for less by combining others.
    """
    require_currency(connection, dataset.owner, planned.book.currency)
    refuse_located(connection, dataset.id)
    current = None
    if planned.new.state not in (INTERNAL, PART):
        current = current_check(connection, planned_offer(connection, dataset, planned), checked)
    companion = planned.companion and publish(connection, keyring, dataset, planned.companion, at, checked)
    existing = connection.execute(select(chains.c.id).where(chains.c.id == planned.chain)).one_or_none()
    if existing is None:
        _open_chain(connection, keyring, dataset, planned)
    else:
        _join_chain(connection, keyring, dataset, planned, at)
    known = _known(connection, planned.chain)
    if current is not None:
        refuse_arbitrage(current.ruling)
        on_sale = planned.new.state == LIVE
        store_checked(connection, planned.chain, current if on_sale else replace(current, around={}))
    verdict = INTERNAL if planned.new.state == INTERNAL or checked is None else checked.about(planned.chain).verdict
    product = new_id("prod")
    new = planned.new
    book = book_of_chain(connection, planned.chain)
    (logged,) = append(
        connection, keyring, at, [lambda index: _leaf(index, at, product, dataset, planned, book, known)]
    )
    connection.execute(
        products.insert().values(
            id=product,
            dataset_id=dataset.id,
            chain_id=planned.chain,
            title=new.title,
            description=new.description,
            unit_label=new.unit_label,
            left_out=new.left_out,
            licence=new.licence,
            derivation_json=msgspec.json.encode(planned.derivation.sentences).decode(),
            order_json=msgspec.json.encode(planned.order).decode(),
            request_json=msgspec.json.encode(new).decode(),
            parts_json=None if companion is None else msgspec.json.encode([product, companion]).decode(),
            state=new.state,
            arbitrage=verdict,
            leaf_index=logged.index,
            created_at=at,
        )
    )
    laws = [tier.law.identity for tier in planned.plan.tiers]
    connection.execute(offers.insert(), [{"product_id": product, "law": law} for law in laws])
    return product


def _open_chain(connection: Connection, keyring: Keyring, dataset: DatasetRow, planned: PlannedProduct) -> None:
    connection.execute(
        chains.insert().values(
            id=planned.chain,
            dataset_id=dataset.id,
            snapshot_id=dataset.snapshot,
            fingerprint=planned.fingerprint,
            query_json=msgspec.json.encode(planned.canonical).decode(),
            keys_json=msgspec.json.encode(planned.canonical.labels).decode(),
            length=planned.canonical.length,
            grain=planned.grain,
            epoch=keyring.noise_epoch,
            highest_nano=0,
            highest_rank=None,
            book_version=planned.book.version,
            currency=planned.book.currency,
        )
    )
    rows = [tier_row(dataset.budget.kind, planned.chain, tier) for tier in planned.plan.tiers]
    connection.execute(planned_tiers.insert(), rows)
    insert_book(connection, planned.book)


def _join_chain(
    connection: Connection,
    keyring: Keyring,
    dataset: DatasetRow,
    planned: PlannedProduct,
    at: str,
) -> None:
    """Check that a product fits a chain that exists; a chain that only analysts asked for takes the owner's prices."""
    book = book_of_chain(connection, planned.chain)
    states = connection.execute(select(products.c.state).where(products.c.chain_id == planned.chain)).scalars()
    owners = {tier.law: tier.price for tier in planned.book.tiers}
    if planned.new.state != INTERNAL and set(states) == {INTERNAL}:
        taken = tuple(TierPrice(tier.law, owners.get(tier.law, tier.price)) for tier in book.tiers)
        epsilons = [decimal_text(law.epsilon()) for law in laws_of_chain(connection, planned.chain)]
        fresh = checked_book(planned.chain, book.version + 1, planned.book.currency, taken, epsilons)
        reprice(connection, keyring, fresh, at)
        book = fresh
    known = {tier.law: tier.price for tier in book.tiers}
    late = [tier for tier in planned.plan.tiers if tier.law.identity not in known]
    if planned.new.state == INTERNAL:
        if late:
            raise ConflictError(
                "ladder: expected tiers of the chain that this question has already, got others (the owner adds)",
                reason="late-tier",
                epsilons=[decimal_text(tier.epsilon) for tier in late],
                chain=planned.chain,
            )
        return  # analysts pay nothing, whatever the chain's prices are
    differing = [tier.law for tier in planned.book.tiers if known.get(tier.law, tier.price) != tier.price]
    if differing or planned.book.currency != book.currency:
        raise ConflictError(
            "prices: expected the chain's own (one good has one price), got others", chain=planned.chain, laws=differing
        )
    if late:
        add_tiers(connection, dataset.budget.kind, planned.chain, [tier.law for tier in late], at)
        ranked = by_accuracy(laws_of_chain(connection, planned.chain))
        prices = {**known, **owners}
        tiers = tuple(TierPrice(law.identity, prices[law.identity]) for law in ranked)
        epsilons = [decimal_text(law.epsilon()) for law in ranked]
        extended = checked_book(planned.chain, book.version + 1, book.currency, tiers, epsilons)
        insert_book(connection, extended)
        connection.execute(chains.update().where(chains.c.id == planned.chain).values(book_version=extended.version))


def planned_offer(connection: Connection, dataset: DatasetRow, planned: PlannedProduct) -> Proposal:
    """Return what would be on sale beside a product that is not stored yet, itself included."""
    mean = None if planned.companion is None else f"mean of {planned.chain}"
    new = [
        Listed(
            mean,
            dataset.id,
            dataset.snapshot,
            part.chain,
            part.new.title,
            part.canonical,
            part.book.currency,
            tier.law.identity,
            decimal_text(tier.epsilon),
            tier.law.noise.variance(),
            price.price,
        )
        for part in (planned, planned.companion)
        if part is not None
        for tier, price in zip(part.plan.tiers, part.book.tiers, strict=True)
    ]
    return proposed(connection, dataset.snapshot, new)


def _known(connection: Connection, chain: str) -> Mapping[str, tuple[int, int]]:
    """The rank and the level of each law of a chain."""
    wanted = select(planned_tiers.c.law, planned_tiers.c.rank, planned_tiers.c.level_nano)
    return {
        row.law: (row.rank, row.level_nano)
        for row in connection.execute(wanted.where(planned_tiers.c.chain_id == chain))
    }


def _leaf(
    index: int,
    at: str,
    product: str,
    dataset: DatasetRow,
    planned: PlannedProduct,
    book: PriceBook,
    known: Mapping[str, tuple[int, int]],
) -> PlanLeaf:
    return PlanLeaf(
        index=index,
        at=at,
        product=product,
        lineage=dataset.id,
        snapshot=dataset.snapshot,
        question=plain_text(planned.canonical),
        fingerprint=planned.fingerprint,
        chain=planned.chain,
        derivation=list(planned.derivation.sentences),
        tiers=[
            _leaf_tier(tier, book.price_of(tier.law.identity), *known[tier.law.identity]) for tier in planned.plan.tiers
        ],
        currency=book.currency,
        book_version=book.version,
        licence=planned.new.licence,
    )


def _leaf_tier(tier: PlannedTier, price_minor: int, rank: int, level_nano: int) -> PlanTier:
    return PlanTier(
        rank=rank,
        law=tier.law.document(),
        epsilon=decimal_text(tier.epsilon),
        level_nano=level_nano,
        half_width=str(tier.half_width),
        price_minor=price_minor,
    )
