"""Products: a question on a snapshot, its chain planned and priced at publication."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec
from sqlalchemy import Connection, select

from app.catalog.arbitrage import Checked, check_offer
from app.catalog.books import book_of_chain, insert_book, reprice, require_currency
from app.catalog.classes import Offer
from app.catalog.datasets import DatasetRow
from app.clock import new_id
from app.errors import ConflictError, InvalidQueryError, InvalidRequestError
from app.keyring import Keyring
from app.log.journal import append
from app.log.leaves import PlanLeaf, PlanTier, plain_text
from app.queries import components
from app.queries.canonical import CanonicalQuery, SumSteps, canonicalise, fingerprint, permutation
from app.queries.model import Query
from app.queries.sensitivity import Derivation, derive
from app.store.schema import chains, offers, planned_tiers, products
from pricing.book import PriceBook, TierPrice
from pricing.errors import ArbitrageError
from pricing.money import check_currency
from tiers.budget import Ladder, decimal_text
from tiers.canonical import canonical_bytes
from tiers.chain import ChainPlan, PlannedTier, plan
from tiers.identity import chain_identity

__all__ = [
    "DRAFT",
    "INTERNAL",
    "LIVE",
    "RETIRED",
    "WITHDRAWN",
    "NewProduct",
    "PlannedProduct",
    "grain_of",
    "plan_product",
    "planned_offer",
    "publish",
]

DRAFT, LIVE, RETIRED, WITHDRAWN, INTERNAL = "draft", "live", "retired", "withdrawn", "internal"


@dataclass(frozen=True, slots=True)
class NewProduct:
    """What an owner publishes: a question, a ladder with a price a tier (most accurate first), and the words for it."""

    title: str
    description: str
    unit_label: str
    left_out: str
    licence: str
    currency: str
    query: Query
    epsilons: tuple[str, ...]
    prices_minor: tuple[int, ...]
    state: str = "live"


@dataclass(frozen=True, slots=True)
class PlannedProduct:
    """A product before it is stored: everything that follows from its parameters, no data read."""

    new: NewProduct
    canonical: CanonicalQuery
    order: tuple[int, ...]
    derivation: Derivation
    chain: str
    fingerprint: str
    plan: ChainPlan
    book: PriceBook

    @property
    def grain(self) -> int:
        """Return the exponent of the answer's lattice step."""
        return grain_of(self.canonical)


def grain_of(canonical: CanonicalQuery) -> int:
    """Return the exponent j of the lattice step 2^j: a sum's grain, 0 for counts."""
    return canonical.measure.grain_exponent if isinstance(canonical.measure, SumSteps) else 0


def plan_product(dataset: DatasetRow, new: NewProduct) -> PlannedProduct:
    """Plan a product; a plan or book that cannot exist is refused here, not at the first sale.

    Raises:     InvalidQueryError: outside the model or without derivable sensitivity. BudgetOrderError and
                InvalidParameterError: a bad ladder. InvalidPriceError: a bad book, or one that falls with accuracy.
    """
    if len(new.prices_minor) != len(new.epsilons):
        raise InvalidRequestError(f"prices: expected one a tier ({len(new.epsilons)}), got {len(new.prices_minor)}")
    check_currency(new.currency)
    if new.query.ordering == ():
        raise InvalidQueryError(
            "ordering: expected at least one column, or none given for the data set's own, got none"
        )
    canonical = canonicalise(new.query, dataset.schema)
    if len(components(canonical)) != 1:
        raise InvalidQueryError(
            "measure: expected one that a single chain answers, got a mean (publish its sum and its count)"
        )
    derivation = derive(canonical)
    chain_plan = plan(Ladder.parse(new.epsilons), derivation.change_set, "tsg")
    digest = fingerprint(canonical.fingerprint_document())
    chain = chain_identity(dataset.id, dataset.snapshot, digest)
    prices = zip(chain_plan.tiers, new.prices_minor, strict=True)
    try:
        book = PriceBook(chain, 1, new.currency, tuple(TierPrice(tier.law.identity, price) for tier, price in prices))
    except ArbitrageError:
        falls = next(rank for rank, (a, b) in enumerate(pairwise(new.prices_minor), start=1) if b > a)
        raise InvalidRequestError(
            f"prices: expected none that falls with accuracy, got {new.prices_minor[falls]} at ε "
            f"{new.epsilons[falls]} above {new.prices_minor[falls - 1]} at ε {new.epsilons[falls - 1]}"
        ) from None
    order = permutation(new.query, dataset.schema)
    return PlannedProduct(new, canonical, order, derivation, chain, digest, chain_plan, book)


def publish(
    connection: Connection,
    keyring: Keyring,
    dataset: DatasetRow,
    planned: PlannedProduct,
    at: str,
    checked: Checked | None,
) -> str:
    """Store and log a product; a second one on a published question shares that question's chain, tiers and prices.

    Args:       checked: the verdict on `planned_offer`; None for a question of analysts, which is not on sale.
    Raises:     ConflictError: the chain has other laws (late tiers do not exist yet) or other prices for the same
                ones; or some product of the catalogue, this one included, could be had for less by combining others.
    """
    require_currency(connection, dataset.owner, planned.book.currency)
    existing = connection.execute(select(chains.c.id).where(chains.c.id == planned.chain)).one_or_none()
    if existing is None:
        _open_chain(connection, keyring, dataset, planned)
    else:
        _join_chain(connection, keyring, dataset, planned, at, checked)
    ranks = _ranks(connection, planned.chain)
    verdict = "internal"
    if planned.new.state != INTERNAL:
        assert checked is not None
        verdict = check_offer(connection, planned_offer(dataset, planned), checked)
    product = new_id("prod")
    new = planned.new
    book = book_of_chain(connection, planned.chain)
    (logged,) = append(
        connection, keyring, at, [lambda index: _leaf(index, at, product, dataset, planned, book, ranks)]
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
    connection.execute(planned_tiers.insert(), [_tier_row(planned.chain, tier) for tier in planned.plan.tiers])
    insert_book(connection, planned.book)


def _join_chain(
    connection: Connection,
    keyring: Keyring,
    dataset: DatasetRow,
    planned: PlannedProduct,
    at: str,
    checked: Checked | None,
) -> None:
    """Check that a product fits a chain that exists; a chain that only analysts asked for takes the owner's prices."""
    book = book_of_chain(connection, planned.chain)
    states = connection.execute(select(products.c.state).where(products.c.chain_id == planned.chain)).scalars()
    if planned.new.state != INTERNAL and set(states) == {INTERNAL} and _laws(planned.book) == _laws(book):
        fresh = replace(planned.book, version=book.version + 1)
        assert checked is not None
        reprice(connection, keyring, planned_offer(dataset, planned), fresh, at, checked)
        book = fresh
    known = {tier.law: tier.price for tier in book.tiers}
    late = [tier for tier in planned.plan.tiers if tier.law.identity not in known]
    if late:
        raise ConflictError(
            "ladder: expected tiers of the chain that this question has already, got others (no late tiers yet)",
            reason="late-tier",
            epsilons=[decimal_text(tier.epsilon) for tier in late],
            chain=planned.chain,
        )
    if planned.new.state == INTERNAL:
        return  # analysts pay nothing, whatever the chain's prices are
    differing = [tier.law for tier in planned.book.tiers if known[tier.law] != tier.price]
    if differing or planned.book.currency != book.currency:
        raise ConflictError(
            "prices: expected the chain's own (one good has one price), got others", chain=planned.chain, laws=differing
        )


def planned_offer(dataset: DatasetRow, planned: PlannedProduct) -> Offer:
    """Return a product as the arbitrage check sees it."""
    priced = zip(planned.plan.tiers, planned.book.tiers, strict=True)
    title = planned.new.title
    tiers = tuple(
        (f"{title} @ ε {decimal_text(tier.epsilon)}", tier.law.noise.variance(), price.price) for tier, price in priced
    )
    return Offer(dataset.id, dataset.snapshot, planned.chain, title, planned.canonical, planned.book.currency, tiers)


def _laws(book: PriceBook) -> tuple[str, ...]:
    return tuple(tier.law for tier in book.tiers)


def _tier_row(chain: str, tier: PlannedTier) -> Mapping[str, object]:
    return {
        "chain_id": chain,
        "law": tier.law.identity,
        "rank": tier.rank,
        "law_json": canonical_bytes(tier.law.document()).decode(),
        "epsilon": decimal_text(tier.epsilon),
        "level_nano": tier.level_nano,
        "half_width": str(tier.half_width),
        "same_as_above": None if tier.same_as_above is None else f"{tier.same_as_above:.4f}",
    }


def _ranks(connection: Connection, chain: str) -> Mapping[str, int]:
    rows = connection.execute(
        select(planned_tiers.c.law, planned_tiers.c.rank).where(planned_tiers.c.chain_id == chain)
    )
    return {row.law: row.rank for row in rows}


def _leaf(
    index: int,
    at: str,
    product: str,
    dataset: DatasetRow,
    planned: PlannedProduct,
    book: PriceBook,
    ranks: Mapping[str, int],
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
            _leaf_tier(tier, book.price_of(tier.law.identity), ranks[tier.law.identity]) for tier in planned.plan.tiers
        ],
        currency=book.currency,
        book_version=book.version,
        licence=planned.new.licence,
    )


def _leaf_tier(tier: PlannedTier, price_minor: int, rank: int) -> PlanTier:
    return PlanTier(
        rank=rank,
        law=tier.law.document(),
        epsilon=decimal_text(tier.epsilon),
        level_nano=tier.level_nano,
        half_width=str(tier.half_width),
        price_minor=price_minor,
    )
