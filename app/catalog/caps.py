"""Up to which tier each question should be sold: sales so far, prices of now, and the budget that remains."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, func, select

from app.catalog.books import book_of_chain
from app.errors import NotFoundError
from app.ledger.budget import nano_text
from app.store.schema import chains, credit_notes, datasets, offers, orders, planned_tiers, products
from pricing.limit import UNLIMITED, Limit
from pricing.scarcity import history_values, plan_caps
from tiers.accounting.filters import increment
from tiers.budget import decimal_text

__all__ = ["tier_caps"]

CAPS_LABEL = (
    "up to: income if the sales so far come once more, at today's prices, each question up to its cap and all within "
    "the budget that remains; not a forecast"
)
_Chains: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tier:
    """A tier as a buyer sees it: its laws, one a chain; ε, price and charge of all chains together."""

    laws: tuple[str, ...]
    epsilon: Fraction
    price: int
    cost: int


@dataclass(frozen=True, slots=True)
class _Question:
    """Chains sold together (one, or the two of a mean), and the products that sell them; the oldest title on sale."""

    title: str
    products: dict[str, tuple[str, ...]] = field(default_factory=dict)  # to the products of its parts
    live: bool = False


def tier_caps(connection: Connection, dataset: str, limit: Limit = UNLIMITED) -> dict[str, Any]:
    """Return up to which tier each question on sale should be sold, by the sales so far and the budget that remains.

    A tier costs what its first sale would add to the charges of its chains: a mean has two, and a count that is also
    sold otherwise is counted for both. A buyer of several tiers counts once, with the best, at today's list price; what
    was given back whole does not count.

    Raises:     NotFoundError: nothing of the dataset is on sale. TimeLimitError: not solved in time.
    """
    found = {key: question for key, question in _questions(connection, dataset).items() if question.live}
    if not found:
        raise NotFoundError("dataset: expected something on sale, got nothing")
    order = sorted(found)
    tiers = [_tiers(connection, key, found[key]) for key in order]
    bought = [_bought(connection, found[key], row) for key, row in zip(order, tiers, strict=True)]
    values = history_values(bought, [[tier.price for tier in row] for row in tiers])
    left = connection.execute(
        select(datasets.c.budget_nano - datasets.c.spent_nano).where(datasets.c.id == dataset)
    ).scalar_one()
    plan = plan_caps(values, [[tier.cost for tier in row] for row in tiers], int(left), limit)
    return {
        "label": CAPS_LABEL,
        "caps": [
            {
                "chain": key[0],
                "title": found[key].title,
                "rank": cap,
                "epsilon": None if cap is None else decimal_text(row[cap - 1].epsilon),
            }
            for key, row, cap in zip(order, tiers, plan.caps, strict=True)
        ],
        "budget": nano_text(int(left)),
        "uses": nano_text(plan.used_nano),
        "up_to_minor": plan.value,
        "bound_minor": round(plan.upper_bound, 2),
        "worth_of_one_epsilon_minor": round(plan.shadow_price, 2),
    }


def _questions(connection: Connection, dataset: str) -> Mapping[_Chains, _Question]:
    wanted = select(products.c.id, products.c.chain_id, products.c.title, products.c.state, products.c.parts_json)
    rows = connection.execute(wanted.where(products.c.dataset_id == dataset).order_by(products.c.leaf_index)).all()
    chain_of = {row.id: row.chain_id for row in rows}
    found: dict[_Chains, _Question] = {}
    for row in rows:
        if row.state in ("part", "internal"):
            continue  # sold with its sum, and counted there; or sold to nobody
        parts = (row.id,) if row.parts_json is None else tuple(msgspec.json.decode(row.parts_json, type=list[str]))
        key = tuple(chain_of[part] for part in parts)
        known = found.get(key, _Question(row.title))
        live = row.state == "live"
        title = known.title if known.live or not live else row.title
        found[key] = _Question(title, {**known.products, row.id: parts}, known.live or live)
    return found


def _tiers(connection: Connection, key: _Chains, question: _Question) -> list[_Tier]:
    """Return a question's tiers, most accurate first: all that its one chain has, or what is sold together of two."""
    rows = [_laws(connection, chain) for chain in key]
    if len(key) == 1:
        together = {(law,) for law in rows[0]}
    else:
        together = set()
        for parts in question.products.values():
            offered = [
                set(connection.execute(select(offers.c.law).where(offers.c.product_id == part)).scalars())
                for part in parts
            ]
            ranked = ([law for law in row if law in laws] for row, laws in zip(rows, offered, strict=True))
            together |= set(zip(*ranked, strict=True))
    prices = [{tier.law: tier.price for tier in book_of_chain(connection, chain).tiers} for chain in key]
    costs = [_costs(connection, chain, row) for chain, row in zip(key, rows, strict=True)]
    places = list(rows[0])
    return [
        _Tier(
            laws,
            sum((Fraction(row[law].epsilon) for row, law in zip(rows, laws, strict=True)), Fraction(0)),
            sum(price[law] for price, law in zip(prices, laws, strict=True)),
            sum(cost[law] for cost, law in zip(costs, laws, strict=True)),
        )
        for laws in sorted(together, key=lambda laws: places.index(laws[0]))
    ]


def _laws(connection: Connection, chain: str) -> dict[str, Any]:
    wanted = select(planned_tiers).where(planned_tiers.c.chain_id == chain).order_by(planned_tiers.c.rank)
    return {row.law: row for row in connection.execute(wanted)}


def _costs(connection: Connection, chain: str, tiers: Mapping[str, Any]) -> dict[str, int]:
    """Return what the sale of each tier would add to the chain's charge now; where all was reserved, nothing."""
    highest = connection.execute(select(chains.c.highest_nano).where(chains.c.id == chain)).scalar_one()
    return {law: increment(tier.level_nano, highest) for law, tier in tiers.items()}


def _bought(connection: Connection, question: _Question, tiers: list[_Tier]) -> list[set[int]]:
    """Return the ranks that each buyer bought and was not given back whole."""
    given = (
        select(func.coalesce(func.sum(credit_notes.c.amount_minor), 0))
        .where(credit_notes.c.order_id == orders.c.id)
        .scalar_subquery()
    )
    wanted = select(orders.c.account_id, orders.c.law).where(
        orders.c.product_id.in_(question.products), orders.c.amount_minor > given
    )
    place = {tier.laws[0]: rank for rank, tier in enumerate(tiers, start=1)}
    held: dict[str, set[int]] = defaultdict(set)
    for row in connection.execute(wanted):
        if row.law in place:
            held[row.account_id].add(place[row.law])
    return list(held.values())
