"""Products: a question on a snapshot, its chain planned and priced at publication."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import msgspec
from sqlalchemy import Connection, select

from app.catalog.arbitrage import Offer, check_catalogue, live_offers, offer_of, verdict_on
from app.catalog.datasets import DatasetRow
from app.catalog.ladders import add_tiers, laws_of_chain, tier_row
from app.clock import new_id
from app.errors import ConflictError, InvalidQueryError, InvalidRequestError, NotFoundError
from app.keyring import Keyring
from app.ledger.money import balance
from app.log.journal import append
from app.log.leaves import BookLeaf, PlanLeaf, PlanTier, WithdrawalLeaf, plain_text
from app.queries import components
from app.queries.canonical import CanonicalQuery, SumSteps, canonicalise, fingerprint, permutation
from app.queries.model import Query
from app.queries.sensitivity import Derivation, derive
from app.store.schema import book_prices, chains, datasets, offers, planned_tiers, products
from pricing.arbitrage import Verdict
from pricing.book import PriceBook, TierPrice
from pricing.errors import ArbitrageError, CurrencyMismatchError
from pricing.limit import UNLIMITED, Limit
from pricing.money import check_currency
from tiers.accounting.levels import tier_level
from tiers.budget import Ladder, decimal_text
from tiers.chain import ChainPlan, PlannedTier, extend, plan
from tiers.identity import TierLaw, chain_identity
from tiers.rank import by_accuracy

__all__ = [
    "DRAFT",
    "INTERNAL",
    "LIVE",
    "PART",
    "RETIRED",
    "WITHDRAWN",
    "NewProduct",
    "PlannedProduct",
    "book_of_chain",
    "check_offer",
    "grain_of",
    "move",
    "parts_of",
    "plan_product",
    "planned_offer",
    "publish",
    "reprice",
    "shared",
    "shared_prices",
    "stored_product",
    "withdraw",
]

DRAFT, LIVE, RETIRED, WITHDRAWN, INTERNAL = "draft", "live", "retired", "withdrawn", "internal"
PART = "part"
"""The count of a mean: on sale with its sum, never alone."""

_MOVES = {(DRAFT, LIVE), (DRAFT, RETIRED), (LIVE, RETIRED), (RETIRED, LIVE)}


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
    family: str = "auto"
    delta: str = "0"


@dataclass(frozen=True, slots=True)
class PlannedProduct:
    """A product before it is stored: everything that follows from its parameters, no data read.

    A mean is its centred sum, and for companion the count that goes with it.
    """

    new: NewProduct
    canonical: CanonicalQuery
    order: tuple[int, ...]
    derivation: Derivation
    chain: str
    fingerprint: str
    plan: ChainPlan
    book: PriceBook
    companion: "PlannedProduct | None" = None

    @property
    def grain(self) -> int:
        """Return the exponent of the answer's lattice step."""
        return grain_of(self.canonical)


def grain_of(canonical: CanonicalQuery) -> int:
    """Return the exponent j of the lattice step 2^j: a sum's grain, 0 for counts."""
    return canonical.measure.grain_exponent if isinstance(canonical.measure, SumSteps) else 0


def plan_product(dataset: DatasetRow, new: NewProduct, known: tuple[tuple[TierLaw, ...], ...] = ()) -> PlannedProduct:
    """Plan a product; a plan or book that cannot exist is refused here, not at the first sale.

    Args:       known: the laws of each chain of the question, where it has them: tiers that it lacks are added.
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
    parts = components(canonical)
    laws = known or ((),) * len(parts)
    if len(parts) == 1:
        return _plan_part(dataset, new, canonical, laws[0])
    total, count = (
        _plan_part(dataset, each, part.query, mine)
        for each, part, mine in zip(shared(new, parts[0].share), parts, laws, strict=True)
    )
    return replace(total, companion=count)


def shared(new: NewProduct, share: Fraction) -> tuple[NewProduct, NewProduct]:
    """Return the two parts of a mean: w and 1 − w of each ε, and of each price as far as minor units allow.

    Both books rise with accuracy where the mean's does: ⌊w·price⌋ and what is left of price never fall in price.
    """
    ladder = Ladder.parse(new.epsilons)
    first, rest = shared_prices(new.prices_minor, share)
    return (
        replace(new, epsilons=tuple(decimal_text(epsilon * share) for epsilon in ladder), prices_minor=first),
        replace(
            new,
            epsilons=tuple(decimal_text(epsilon * (1 - share)) for epsilon in ladder),
            prices_minor=rest,
            state=INTERNAL if new.state == INTERNAL else PART,
        ),
    )


def shared_prices(prices: Sequence[int], share: Fraction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return ⌊w·price⌋ for each price, and what is left of it.

    Example:
        >>> shared_prices([9001, 3000], Fraction(3, 5))
        ((5400, 1800), (3601, 1200))
    """
    first = tuple(price * share.numerator // share.denominator for price in prices)
    return first, tuple(price - part for price, part in zip(prices, first, strict=True))


def _plan_part(
    dataset: DatasetRow, new: NewProduct, canonical: CanonicalQuery, known: tuple[TierLaw, ...]
) -> PlannedProduct:
    derivation = derive(canonical)
    chain_plan = _ladder(new, derivation, known)
    for tier in chain_plan.tiers:
        tier_level(dataset.budget.kind, tier.law)  # refuses a law that the ledger cannot charge
    digest = fingerprint(canonical.fingerprint_document())
    chain = chain_identity(dataset.id, dataset.snapshot, digest)
    prices = zip(chain_plan.tiers, new.prices_minor, strict=True)
    book = _book(chain, 1, new.currency, tuple(TierPrice(tier.law.identity, price) for tier, price in prices), new)
    order = permutation(new.query, dataset.schema)
    return PlannedProduct(new, canonical, order, derivation, chain, digest, chain_plan, book)


def publish(
    connection: Connection, keyring: Keyring, dataset: DatasetRow, planned: PlannedProduct, at: str, limit: Limit
) -> str:
    """Store and log a product; a second one on a published question shares that question's chain, tiers and prices.

    Args:       limit: how long the arbitrage check against the live catalogue may take; what it does not settle in
                time is "uncertified", never "safe".
    Raises:     ConflictError: the chain has other prices for the same laws, or reserved too little for a new one; an
                analyst asks for tiers that it lacks; or some product of the catalogue, this one included, could be had
                for less by combining others.
    """
    _same_currency(connection, dataset.owner, planned.book.currency)
    companion = planned.companion and publish(connection, keyring, dataset, planned.companion, at, limit)
    mean = companion is not None or planned.new.state == PART
    existing = connection.execute(select(chains.c.id).where(chains.c.id == planned.chain)).one_or_none()
    if existing is None:
        _open_chain(connection, keyring, dataset, planned)
    else:
        _join_chain(connection, keyring, dataset, planned, at, limit)
    ranks = _ranks(connection, planned.chain)
    internal = planned.new.state == INTERNAL
    verdict = "internal" if internal else Verdict.UNCERTIFIED.value
    if not internal and not mean:  # no estimate of a mean from other products is compared with it
        verdict = check_offer(connection, planned_offer(dataset, planned), limit)
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


def withdraw(connection: Connection, keyring: Keyring, product: str, reason: str, at: str) -> None:
    """Take a product off sale and log it; answers already sold stay what they are."""
    state = connection.execute(select(products.c.state).where(products.c.id == product)).scalar_one_or_none()
    if state is None:
        raise NotFoundError("product: expected an existing id, got another")
    if state == WITHDRAWN:
        raise ConflictError("product: expected one on sale, got one that is withdrawn")
    for part in parts_of(connection, product):
        connection.execute(products.update().where(products.c.id == part).values(state=WITHDRAWN))

        def leaf(index: int, part: str = part) -> WithdrawalLeaf:
            return WithdrawalLeaf(index=index, at=at, product=part, reason=reason)

        append(connection, keyring, at, [leaf])


def book_of_chain(connection: Connection, chain: str) -> PriceBook:
    """Return the chain's current book, ranks in order."""
    wanted = (
        select(chains.c.currency, chains.c.book_version, book_prices.c.law, book_prices.c.price_minor)
        .join(book_prices, (book_prices.c.chain_id == chains.c.id) & (book_prices.c.version == chains.c.book_version))
        .join(planned_tiers, (planned_tiers.c.chain_id == chains.c.id) & (planned_tiers.c.law == book_prices.c.law))
        .where(chains.c.id == chain)
        .order_by(planned_tiers.c.rank)
    )
    rows = connection.execute(wanted).all()
    if not rows:
        raise NotFoundError("chain: expected an existing id, got another")
    prices = tuple(TierPrice(row.law, row.price_minor) for row in rows)
    return PriceBook(chain, rows[0].book_version, rows[0].currency, prices)


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
    _insert_book(connection, planned.book)


def _join_chain(
    connection: Connection, keyring: Keyring, dataset: DatasetRow, planned: PlannedProduct, at: str, limit: Limit
) -> None:
    """Check that a product fits a chain that exists; a chain that only analysts asked for takes the owner's prices."""
    book = book_of_chain(connection, planned.chain)
    states = connection.execute(select(products.c.state).where(products.c.chain_id == planned.chain)).scalars()
    owners = {tier.law: tier.price for tier in planned.book.tiers}
    if planned.new.state != INTERNAL and set(states) == {INTERNAL}:
        taken = tuple(TierPrice(tier.law, owners.get(tier.law, tier.price)) for tier in book.tiers)
        fresh = _book(planned.chain, book.version + 1, planned.book.currency, taken)
        reprice(connection, keyring, planned_offer(dataset, planned), fresh, at, limit)
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
        extended = _book(planned.chain, book.version + 1, book.currency, tiers)
        _insert_book(connection, extended)
        connection.execute(chains.update().where(chains.c.id == planned.chain).values(book_version=extended.version))


def planned_offer(dataset: DatasetRow, planned: PlannedProduct) -> Offer:
    """Return a product as the arbitrage check sees it."""
    priced = zip(planned.plan.tiers, planned.book.tiers, strict=True)
    title = planned.new.title
    tiers = tuple(
        (f"{title} @ ε {decimal_text(tier.epsilon)}", tier.law.noise.variance(), price.price) for tier, price in priced
    )
    return Offer(dataset.id, dataset.snapshot, planned.chain, title, planned.canonical, planned.book.currency, tiers)


def check_offer(connection: Connection, offer: Offer, limit: Limit) -> str:
    """Check the catalogue with this offer in it; return the verdict on it, and refuse certain arbitrage by name.

    Only arbitrage that this offer is a part of is refused: what others have on sale is theirs to mend.
    """
    offers = [*(other for other in live_offers(connection) if other.chain != offer.chain), offer]
    findings, chain_of = check_catalogue(offers, level=2, limit=limit, only=offer.chain)
    for finding in findings:
        concerned = {chain_of.get(name) for name in (finding.name, *finding.bundle)}
        if finding.verdict is Verdict.ARBITRAGE and offer.chain in concerned:
            raise ConflictError(
                f"prices: expected none that a bundle undercuts, got {finding.name} at {finding.price} minor units, "
                f"which {' + '.join(finding.bundle)} gives for {finding.cost}",
                reason="arbitrage",
                good=finding.name,
                price_minor=finding.price,
                bundle=list(finding.bundle),
                cost_minor=finding.cost,
            )
    if offer.query.ranges:
        return Verdict.UNCERTIFIED.value  # ranges of a line are not compared with each other yet
    return verdict_on(offer.chain, offers, findings, chain_of)


def move(connection: Connection, product: str, state: str, limit: Limit = UNLIMITED) -> None:
    """Move a product between draft, live and retired; a withdrawn one stays withdrawn; going live is checked again.

    A retired product's answers stay with those who bought them; back on sale, it sells the same answers.

    Raises:     NotFoundError: no such product. ConflictError: no way from its state to that one.
    """
    current = connection.execute(select(products.c.state).where(products.c.id == product)).scalar_one_or_none()
    if current is None:
        raise NotFoundError("product: expected an existing id, got another")
    if (current, state) not in _MOVES:
        raise ConflictError(f"product: expected a move that exists, got {current} to {state}")
    verdict = {}
    if state == LIVE and len(parts_of(connection, product)) == 1:
        verdict = {"arbitrage": check_offer(connection, offer_of(connection, product), limit)}
    connection.execute(products.update().where(products.c.id == product).values(state=state, **verdict))


def stored_product(connection: Connection, product: str) -> NewProduct:
    """Return a product as it was published, with its chain's prices of now; raises NotFoundError."""
    wanted = select(products.c.request_json, products.c.chain_id).where(products.c.id == product)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError("product: expected an existing id, got another")
    new = msgspec.json.decode(row.request_json, type=NewProduct)
    offered = select(planned_tiers.c.law).where(planned_tiers.c.chain_id == row.chain_id)
    laws = connection.execute(
        offered.join(offers, (offers.c.law == planned_tiers.c.law) & (offers.c.product_id == product)).order_by(
            planned_tiers.c.rank
        )
    ).scalars()
    book = book_of_chain(connection, row.chain_id)
    prices = tuple(book.price_of(law) for law in laws)
    parts = parts_of(connection, product)
    if len(parts) == 1:
        return replace(new, prices_minor=prices)
    count = stored_product(connection, parts[1])
    whole = tuple(a + b for a, b in zip(prices, count.prices_minor, strict=True))
    ladders = zip(Ladder.parse(new.epsilons), Ladder.parse(count.epsilons), strict=True)
    return replace(new, prices_minor=whole, epsilons=tuple(decimal_text(a + b) for a, b in ladders))


def parts_of(connection: Connection, product: str) -> tuple[str, ...]:
    """Return the products that are sold together as this one: itself, and for a mean its count."""
    text = connection.execute(select(products.c.parts_json).where(products.c.id == product)).scalar_one_or_none()
    return (product,) if text is None else tuple(msgspec.json.decode(text, type=list[str]))


def reprice(
    connection: Connection, keyring: Keyring, offer: Offer | None, book: PriceBook, at: str, limit: Limit
) -> PriceBook:
    """Store and log a new version of a chain's book; what was quoted at the old one is stale from now on.

    Args:       offer: the chain at its new prices, as the arbitrage check sees it; none for a part of a mean.
    Raises:     ConflictError: the new prices would be certain arbitrage.
    """
    owner = select(datasets.c.owner_id).join(chains, chains.c.dataset_id == datasets.c.id)
    owner_id = connection.execute(owner.where(chains.c.id == book.chain_id)).scalar_one()
    _same_currency(connection, owner_id, book.currency)
    verdict = Verdict.UNCERTIFIED.value if offer is None else check_offer(connection, offer, limit)
    connection.execute(products.update().where(products.c.chain_id == book.chain_id).values(arbitrage=verdict))
    _insert_book(connection, book)
    connection.execute(
        chains.update().where(chains.c.id == book.chain_id).values(book_version=book.version, currency=book.currency)
    )
    append(
        connection,
        keyring,
        at,
        [
            lambda index: BookLeaf(
                index=index,
                at=at,
                chain=book.chain_id,
                book_version=book.version,
                currency=book.currency,
                prices_minor={tier.law: tier.price for tier in book.tiers},
            )
        ],
    )
    return book


def _same_currency(connection: Connection, owner: str, currency: str) -> None:
    """Refuse a book that its owner could not be paid in."""
    kept_in = balance(connection, owner).currency
    if kept_in != currency:
        raise CurrencyMismatchError(kept_in, currency)


def _ladder(new: NewProduct, derivation: Derivation, known: tuple[TierLaw, ...]) -> ChainPlan:
    """The tiers that a product offers, with the ranks that they have on the chain as it will be."""
    ladder = Ladder.parse(new.epsilons)
    if not known:
        return plan(ladder, derivation.change_set, new.family, new.delta)
    whole = extend(known, ladder, new.family, new.delta)
    return ChainPlan(whole.change_set, tuple(tier for tier in whole.tiers if tier.epsilon in set(ladder)))


def _book(
    chain: str, version: int, currency: str, tiers: tuple[TierPrice, ...], new: NewProduct | None = None
) -> PriceBook:
    try:
        return PriceBook(chain, version, currency, tiers)
    except ArbitrageError:
        prices = [tier.price for tier in tiers]
        falls = next(rank for rank, (a, b) in enumerate(pairwise(prices), start=1) if b > a)
        lower, upper = (f" at ε {new.epsilons[place]}" if new else "" for place in (falls, falls - 1))
        raise InvalidRequestError(
            f"prices: expected none that falls with accuracy, got {prices[falls]}{lower} "
            f"above {prices[falls - 1]}{upper}"
        ) from None


def _insert_book(connection: Connection, book: PriceBook) -> None:
    connection.execute(
        book_prices.insert(),
        [
            {"chain_id": book.chain_id, "version": book.version, "law": tier.law, "price_minor": tier.price}
            for tier in book.tiers
        ],
    )


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
            _leaf_tier(dataset, tier, book.price_of(tier.law.identity), ranks[tier.law.identity])
            for tier in planned.plan.tiers
        ],
        currency=book.currency,
        book_version=book.version,
        licence=planned.new.licence,
    )


def _leaf_tier(dataset: DatasetRow, tier: PlannedTier, price_minor: int, rank: int) -> PlanTier:
    return PlanTier(
        rank=rank,
        law=tier.law.document(),
        epsilon=decimal_text(tier.epsilon),
        level_nano=tier_level(dataset.budget.kind, tier.law),
        half_width=str(tier.half_width),
        price_minor=price_minor,
    )
