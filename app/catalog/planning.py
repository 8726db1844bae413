"""Owners' tools beside the simulator: up to which tier to sell, and what a subscription really delivers."""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from app.catalog.books import book_of_chain
from app.errors import NotFoundError
from app.ledger.budget import nano_text
from app.store.schema import chains, datasets, orders, planned_tiers, products
from pricing.limit import UNLIMITED, Limit
from pricing.scarcity import history_values, plan_caps
from pricing.snapshots import emulated_tier, snapshots_to_settle, steady_variance
from tiers.accounting.filters import increment
from tiers.identity import TierLaw

__all__ = ["subscription_floor", "tier_caps", "variances_of"]

CAPS_LABEL = (
    "up to: income if the sales so far come once more, at today's prices, each question up to its cap and all within "
    "the budget that remains; not a forecast"
)


def tier_caps(connection: Connection, dataset: str, limit: Limit = UNLIMITED) -> dict[str, Any]:
    """Return up to which tier each question on sale should be sold, by the sales so far and the budget that remains.

    A tier costs what it would add to its chain's charge. Sales count at today's list prices.

    Raises:     NotFoundError: nothing of the dataset is on sale. TimeLimitError: not solved in time.
    """
    live = (products.c.dataset_id == dataset) & (products.c.state == "live")
    titles = {
        row.chain_id: row.title
        for row in connection.execute(
            select(products.c.chain_id, products.c.title).where(live).order_by(products.c.leaf_index.desc())
        )
    }
    if not titles:
        raise NotFoundError("dataset: expected something on sale, got nothing")
    sold: dict[tuple[str, str], int] = defaultdict(int)
    counted = select(orders.c.chain_id, orders.c.law, func.count().label("units")).where(orders.c.amount_minor > 0)
    for row in connection.execute(counted.group_by(orders.c.chain_id, orders.c.law)):
        sold[row.chain_id, row.law] = row.units
    wanted = (
        select(planned_tiers, chains.c.highest_nano)
        .join(chains, chains.c.id == planned_tiers.c.chain_id)
        .where(planned_tiers.c.chain_id.in_(titles))
        .order_by(planned_tiers.c.rank)
    )
    tiers: dict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(wanted):
        tiers[row.chain_id].append(row)
    order = sorted(titles)
    prices = [[tier.price for tier in book_of_chain(connection, chain).tiers] for chain in order]
    sales = [[sold[chain, tier.law] for tier in tiers[chain]] for chain in order]
    costs = [[increment(tier.level_nano, tier.highest_nano) for tier in tiers[chain]] for chain in order]
    budget = connection.execute(
        select(datasets.c.budget_nano - datasets.c.spent_nano).where(datasets.c.id == dataset)
    ).scalar_one()
    plan = plan_caps(history_values(sales, prices), costs, int(budget), limit)
    return {
        "label": CAPS_LABEL,
        "caps": [
            {
                "chain": chain,
                "title": titles[chain],
                "rank": cap,
                "epsilon": None if cap is None else tiers[chain][cap - 1].epsilon,
            }
            for chain, cap in zip(order, plan.caps, strict=True)
        ],
        "budget": nano_text(int(budget)),
        "uses": nano_text(plan.used_nano),
        "up_to_minor": plan.value,
        "bound_minor": round(plan.upper_bound, 2),
        "worth_of_one_epsilon_minor": round(plan.shadow_price, 2),
    }


def subscription_floor(connection: Connection, product: str, epsilon: str, drift: Fraction) -> dict[str, Any]:
    """Return the one-off tier that a subscriber to every snapshot at `epsilon` comes to hold: charge no less.

    Args:       drift: variance of the true value's change from one snapshot to the next, in the answer's unit squared.
    Raises:     NotFoundError: no such product or tier. InvalidProductError: a drift that is not positive.
    """
    found = select(products.c.chain_id, chains.c.grain).join(chains, chains.c.id == products.c.chain_id)
    row = connection.execute(found.where(products.c.id == product)).one_or_none()
    if row is None:
        raise NotFoundError("product: expected an existing id, got another")
    wanted = select(planned_tiers.c.law, planned_tiers.c.epsilon).where(planned_tiers.c.chain_id == row.chain_id)
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
