"""Products: a question on a snapshot, and what follows from it: chain, ladder, book. No store is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from app.catalog.datasets import DatasetRow
from app.errors import InvalidQueryError, InvalidRequestError
from app.queries import components
from app.queries.canonical import CanonicalQuery, SumSteps, canonicalise, fingerprint, permutation
from app.queries.model import Query
from app.queries.sensitivity import Derivation, derive
from pricing.book import PriceBook, TierPrice
from pricing.errors import ArbitrageError
from pricing.money import check_currency
from tiers.accounting.levels import tier_level
from tiers.budget import Ladder, decimal_text
from tiers.chain import ChainPlan, extend, plan
from tiers.identity import TierLaw, chain_identity

__all__ = [
    "DRAFT",
    "INTERNAL",
    "LIVE",
    "PART",
    "RETIRED",
    "WITHDRAWN",
    "NewProduct",
    "PlannedProduct",
    "checked_book",
    "grain_of",
    "plan_product",
    "shared",
    "shared_prices",
]

DRAFT, LIVE, RETIRED, WITHDRAWN, INTERNAL = "draft", "live", "retired", "withdrawn", "internal"
PART = "part"
"""The count of a mean: on sale with its sum, never alone."""


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
    book = checked_book(
        chain, 1, new.currency, tuple(TierPrice(tier.law.identity, price) for tier, price in prices), new.epsilons
    )
    order = permutation(new.query, dataset.schema)
    return PlannedProduct(new, canonical, order, derivation, chain, digest, chain_plan, book)


def _ladder(new: NewProduct, derivation: Derivation, known: tuple[TierLaw, ...]) -> ChainPlan:
    """The tiers that a product offers, with the ranks that they have on the chain as it will be."""
    ladder = Ladder.parse(new.epsilons)
    if not known:
        return plan(ladder, derivation.change_set, new.family, new.delta)
    whole = extend(known, ladder, new.family, new.delta)
    return ChainPlan(whole.change_set, tuple(tier for tier in whole.tiers if tier.epsilon in set(ladder)))


def checked_book(
    chain: str, version: int, currency: str, tiers: tuple[TierPrice, ...], epsilons: Sequence[str] = ()
) -> PriceBook:
    """Return a book; raises InvalidRequestError where a price falls with accuracy, saying where if the ε are known."""
    try:
        return PriceBook(chain, version, currency, tiers)
    except ArbitrageError:
        prices = [tier.price for tier in tiers]
        falls = next(rank for rank, (a, b) in enumerate(pairwise(prices), start=1) if b > a)
        lower, upper = (f" at ε {epsilons[place]}" if epsilons else "" for place in (falls, falls - 1))
        raise InvalidRequestError(
            f"prices: expected none that falls with accuracy, got {prices[falls]}{lower} "
            f"above {prices[falls - 1]}{upper}"
        ) from None
