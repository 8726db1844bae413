"""What stands on sale, read from the store: tiers at their books, means, bundles, and a digest of all that."""

import hashlib
from collections.abc import Set
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.catalog.shelf import Listed, ListedBundle
from app.queries.canonical import CanonicalQuery
from app.store.schema import (
    book_prices,
    bundle_parts,
    bundle_prices,
    bundles,
    chains,
    offers,
    planned_tiers,
    products,
)
from tiers.identity import TierLaw

__all__ = ["linked", "listed_bundles", "listed_tiers", "rivals_version", "sold_laws"]


def linked(connection: Connection, snapshots: Set[str]) -> frozenset[str]:
    """Return some snapshots and all that bundles on sale link them with: what is compared is compared together."""
    spans: dict[str, set[str]] = {}
    for bundle, snapshot in connection.execute(_spans()):
        spans.setdefault(bundle, set()).add(snapshot)
    found = set(snapshots)
    while more := {each for span in spans.values() if span & found for each in span} - found:
        found |= more
    return frozenset(found)


def rivals_version(connection: Connection, snapshots: Set[str]) -> str:
    """Return a digest of all that stands on some snapshots: the same digest, the same offers, packs and bundles."""
    wanted = (
        select(products.c.id, products.c.state, chains.c.id, chains.c.book_version)
        .join(chains, chains.c.id == products.c.chain_id)
        .where(products.c.state.in_(("live", "part")), chains.c.snapshot_id.in_(sorted(snapshots)))
        .order_by(products.c.id)
    )
    rows = [list(row) for row in connection.execute(wanted)]
    packed = (
        select(bundles.c.id, bundles.c.version)
        .where(bundles.c.id.in_(_spans(snapshots).with_only_columns(bundle_parts.c.bundle_id)))
        .order_by(bundles.c.id)
    )
    rows += [list(row) for row in connection.execute(packed)]
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


def _spans(snapshots: Set[str] = frozenset()) -> Any:
    """Bundles on sale (with a part on one of some snapshots, if any are named) and the snapshots of their parts."""
    wanted = (
        select(bundle_parts.c.bundle_id, chains.c.snapshot_id)
        .join(bundles, bundles.c.id == bundle_parts.c.bundle_id)
        .join(products, products.c.id == bundle_parts.c.product_id)
        .join(chains, chains.c.id == products.c.chain_id)
        .where(bundles.c.state == "live")
    )
    return wanted.where(chains.c.snapshot_id.in_(sorted(snapshots))) if snapshots else wanted


def listed_bundles(connection: Connection, snapshots: Set[str] = frozenset()) -> list[ListedBundle]:
    """Return every bundle on sale (with a part on some snapshots), with the tier of each chain that it sells."""
    wanted = (
        select(bundles.c.id, bundles.c.title, bundle_prices.c.price_minor)
        .join(
            bundle_prices, (bundle_prices.c.bundle_id == bundles.c.id) & (bundle_prices.c.version == bundles.c.version)
        )
        .where(bundles.c.id.in_(_spans(snapshots).with_only_columns(bundle_parts.c.bundle_id)))
        .order_by(bundles.c.number)
    )
    return [
        ListedBundle(row.id, row.title, row.price_minor, sold_laws(connection, row.id))
        for row in connection.execute(wanted).all()
    ]


def sold_laws(connection: Connection, bundle: str) -> tuple[tuple[str, str], ...]:
    """Return chain and law of all that a bundle sells: a mean is a tier of its sum, and the one of its count beside it.

    Means may share a count's tier, which is sold once.
    """
    wanted = (
        select(bundle_parts.c.law, products.c.id, products.c.chain_id, products.c.parts_json)
        .join(products, products.c.id == bundle_parts.c.product_id)
        .where(bundle_parts.c.bundle_id == bundle)
        .order_by(bundle_parts.c.place)
    )
    sold: dict[tuple[str, str], None] = {}
    for row in connection.execute(wanted).all():
        sold[row.chain_id, row.law] = None
        if row.parts_json is not None:
            count = msgspec.json.decode(row.parts_json, type=list[str])[1]
            place = [law for _, law in _ladder(connection, row.id)].index(row.law)
            sold[_ladder(connection, count)[place]] = None
    return tuple(sold)


def _ladder(connection: Connection, product: str) -> list[tuple[str, str]]:
    """Chain and law of a product's tiers, most accurate first."""
    wanted = (
        select(planned_tiers.c.chain_id, planned_tiers.c.law)
        .join(products, products.c.chain_id == planned_tiers.c.chain_id)
        .join(offers, (offers.c.product_id == products.c.id) & (offers.c.law == planned_tiers.c.law))
        .where(products.c.id == product)
        .order_by(planned_tiers.c.rank)
    )
    return [(row.chain_id, row.law) for row in connection.execute(wanted)]


def listed_tiers(connection: Connection, snapshots: Set[str] = frozenset(), also: str = "") -> list[Listed]:
    """Return every tier on sale (on some snapshots), and those of one product more: a mean's sum, then its count.

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
    if snapshots:
        wanted = wanted.where(chains.c.snapshot_id.in_(sorted(snapshots)))
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
