"""Listings: what buyers see of products, and owners of their datasets. No answer, no count, no row is in them."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, func, select

from app.catalog.datasets import DatasetRow
from app.catalog.means import bars_of
from app.errors import NotFoundError
from app.ledger.budget import budget_state, nano_text
from app.store.schema import book_prices, chains, datasets, offers, planned_tiers, products
from app.views import DatasetView, ProductView, TierView
from tiers.accounting.charges import LedgerKind, charge_nano, charge_rule
from tiers.accounting.filters import PureFilter
from tiers.budget import decimal_text
from tiers.identity import TierLaw

__all__ = ["dataset_view", "list_products", "product_view"]


def list_products(connection: Connection, *, after: int, count: int) -> list[ProductView]:
    """Return up to `count` live products in the order of their publication, from the one after leaf `after`."""
    newer = _listing().where(products.c.state == "live", products.c.leaf_index > after)
    wanted = newer.order_by(products.c.leaf_index).limit(count)
    return [_product(connection, row) for row in connection.execute(wanted)]


def product_view(connection: Connection, product: str) -> ProductView:
    """Return one product's listing; raises NotFoundError."""
    return _product(connection, _row(connection, product))


def _row(connection: Connection, product: str) -> Row[Any]:
    row = connection.execute(_listing().where(products.c.id == product)).one_or_none()
    if row is None:
        raise NotFoundError("product: expected an existing id, got another")
    return row


def dataset_view(connection: Connection, dataset: DatasetRow) -> DatasetView:
    """Return a dataset with its exact ledger, for its owner: one charge a chain, its highest issued tier."""
    charged = connection.execute(
        select(chains.c.id, chains.c.highest_nano, chains.c.highest_rank).where(chains.c.dataset_id == dataset.id)
    )
    return DatasetView(
        dataset=dataset.id,
        name=dataset.name,
        title=dataset.title,
        snapshot=dataset.snapshot,
        unit=dataset.schema.unit or "row",
        salt=dataset.schema.salt,
        budget_kind=dataset.budget.kind.value,
        promise=None if dataset.budget.promise is None else list(dataset.budget.promise),
        budget=nano_text(dataset.budget.nano),
        spent=nano_text(dataset.spent_nano),
        remaining=nano_text(dataset.budget.nano - dataset.spent_nano),
        chains=[
            {"chain": row.id, "charged": nano_text(row.highest_nano), "highest_issued_rank": row.highest_rank}
            for row in charged
        ],
    )


def _listing() -> Any:
    return (
        select(
            products,
            chains.c.fingerprint,
            chains.c.snapshot_id,
            chains.c.grain,
            chains.c.query_json,
            chains.c.keys_json,
            chains.c.highest_nano,
            chains.c.book_version,
            chains.c.currency,
            datasets.c.title.label("dataset_title"),
            datasets.c.notice.label("dataset_notice"),
            datasets.c.budget_kind,
            datasets.c.budget_nano,
            datasets.c.spent_nano,
        )
        .join(chains, chains.c.id == products.c.chain_id)
        .join(datasets, datasets.c.id == products.c.dataset_id)
    )


def _product(connection: Connection, row: Row[Any]) -> ProductView:
    keys = msgspec.json.decode(row.keys_json, type=list[str])
    tiers, companion = _tiers(connection, row), None
    if row.parts_json is not None:
        other = _row(connection, msgspec.json.decode(row.parts_json, type=list[str])[1])
        companion = msgspec.structs.replace(_product(connection, other), arbitrage=row.arbitrage)
        tiers = [_paired(*pair, row) for pair in zip(tiers, _tiers(connection, other), strict=True)]
    order = msgspec.json.decode(row.order_json, type=list[int])
    return ProductView(
        product=row.id,
        leaf_index=row.leaf_index,
        dataset=row.dataset_id,
        dataset_title=row.dataset_title,
        dataset_notice=row.dataset_notice,
        chain=row.chain_id,
        snapshot=row.snapshot_id,
        fingerprint=row.fingerprint,
        title=row.title,
        description=row.description,
        unit_label=row.unit_label,
        left_out=row.left_out,
        licence=row.licence,
        state=row.state,
        derivation=msgspec.json.decode(row.derivation_json, type=list[str]),
        keys=[keys[place] for place in order] if keys else [],
        grain_exponent=row.grain,
        currency=row.currency,
        book_version=row.book_version,
        budget_state=budget_state(row.budget_nano, row.spent_nano),
        arbitrage=row.arbitrage,
        tiers=[tier.view for tier in tiers],
        companion=companion,
    )


class _Offered(NamedTuple):
    """A tier with what selling it would charge (which buyers are not told), and its law."""

    view: TierView
    due: int
    law: TierLaw


def _tiers(connection: Connection, row: Row[Any]) -> list[_Offered]:
    """Return the tiers that a product offers."""
    wanted = (
        select(planned_tiers, book_prices.c.price_minor)
        .join(offers, (offers.c.law == planned_tiers.c.law) & (offers.c.product_id == row.id))
        .join(
            book_prices,
            (book_prices.c.chain_id == planned_tiers.c.chain_id)
            & (book_prices.c.law == planned_tiers.c.law)
            & (book_prices.c.version == row.book_version),
        )
        .where(planned_tiers.c.chain_id == row.chain_id)
        .order_by(planned_tiers.c.rank)
    )
    ledger = PureFilter(row.budget_nano, row.spent_nano)
    levels = select(func.max(planned_tiers.c.level_nano)).where(planned_tiers.c.chain_id == row.chain_id)
    top = connection.execute(levels).scalar_one()
    return [_tier(tier._asdict(), row, ledger, top) for tier in connection.execute(wanted)]


def _paired(total: _Offered, count: _Offered, row: Row[Any]) -> _Offered:
    """A mean's tier: its sum's, at the price and ε of both, with the bars that are known before there is an answer."""
    due = total.due + count.due
    both = msgspec.structs.replace(
        total.view,
        epsilon=decimal_text(Fraction(total.view.epsilon) + Fraction(count.view.epsilon)),
        price_minor=total.view.price_minor + count.view.price_minor,
        admitted=PureFilter(row.budget_nano, row.spent_nano).admits(due),
        mean=bars_of(row.query_json, (total.law.noise, count.law.noise)),
    )
    return _Offered(both, due, total.law)


def _tier(tier: Mapping[str, Any], row: Row[Any], ledger: PureFilter, top: int) -> _Offered:
    law = TierLaw.from_document(msgspec.json.decode(tier["law_json"]))
    rule = charge_rule(LedgerKind(row.budget_kind), law.noise.family)
    due = charge_nano(rule, tier["level_nano"], top, row.highest_nano)
    view = TierView(
        family=law.noise.family,
        delta=decimal_text(law.delta),
        added_at=tier["added_at"],
        rank=tier["rank"],
        law=tier["law"],
        epsilon=tier["epsilon"],
        half_width=tier["half_width"],
        half_width_value=decimal_text(int(tier["half_width"]) * Fraction(2) ** row.grain),
        same_as_above=tier["same_as_above"],
        price_minor=tier["price_minor"],
        admitted=ledger.admits(due),
    )
    return _Offered(view, due, law)
