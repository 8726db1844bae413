"""What a bundle holds: tiers of products, the chains that they are sold from, and the price that they allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import Connection, select

from app.catalog.arbitrage import refuse_arbitrage
from app.catalog.products import DRAFT, LIVE, RETIRED
from app.catalog.verdicts import Ruling
from app.catalog.views import product_view
from app.errors import InvalidRequestError, NotFoundError
from app.store.schema import bundle_parts, datasets, products
from app.views import ProductView, TierView
from pricing.bundles import check_bundle_price
from pricing.errors import ArbitrageError, CurrencyMismatchError
from tiers.budget import parse_epsilon

__all__ = [
    "PARTS_LIMIT",
    "BundlePart",
    "ChainPart",
    "chain_parts",
    "chosen_parts",
    "parts_of_bundle",
    "refuse_price",
]

PARTS_LIMIT = 16
"""The most chains that one bundle sells tiers of."""


@dataclass(frozen=True, slots=True)
class ChainPart:
    """What a bundle sells of one chain: the product that it is sold through, the law, and its price alone."""

    product: str
    chain: str
    law: str
    price_minor: int


@dataclass(frozen=True, slots=True)
class BundlePart:
    """A product's tier in a bundle: the product's listing of now, and the tier's place on it."""

    view: ProductView
    place: int

    @property
    def tier(self) -> TierView:
        """Return the tier as its product lists it (a mean's: both its parts)."""
        return self.view.tiers[self.place]

    @property
    def name(self) -> str:
        """Return what refusals call it."""
        return f"{self.view.title} @ ε {self.tier.epsilon}"

    @property
    def sold(self) -> tuple[ChainPart, ...]:
        """Return the tiers of chains that it is: one, or a mean's two."""
        own, count = self.tier, self.view.companion
        if count is None:
            return (ChainPart(self.view.product, self.view.chain, own.law, own.price_minor),)
        beside = count.tiers[self.place]
        return (
            ChainPart(self.view.product, self.view.chain, own.law, own.price_minor - beside.price_minor),
            ChainPart(count.product, count.chain, beside.law, beside.price_minor),
        )


def parts_of_bundle(connection: Connection, bundle: str) -> list[BundlePart]:
    """Return a bundle's parts as their products list them now, in the order of its composition."""
    wanted = select(bundle_parts).where(bundle_parts.c.bundle_id == bundle).order_by(bundle_parts.c.place)
    return [_part(product_view(connection, row.product_id), row.law) for row in connection.execute(wanted).all()]


def chain_parts(parts: Sequence[BundlePart]) -> tuple[ChainPart, ...]:
    """Return what is sold of each chain: a mean is its sum and its count, and means may share a count.

    Raises:     InvalidRequestError: two tiers of one chain (of which the better gives the other), one chain in all, or
                too many.
    """
    found: dict[str, ChainPart] = {}
    for part in parts:
        for each in part.sold:
            if found.setdefault(each.chain, each).law != each.law:
                raise InvalidRequestError(
                    f"parts: expected one tier of each chain (the better one gives the other), got two at {part.name}"
                )
    if len(found) < 2:
        raise InvalidRequestError("parts: expected tiers of at least two chains, got one question twice")
    if len(found) > PARTS_LIMIT:
        raise InvalidRequestError(f"parts: expected tiers of at most {PARTS_LIMIT} chains, got {len(found)}")
    return tuple(found.values())


def chosen_parts(
    connection: Connection, owner: str, asked: Sequence[tuple[str, str | None, str | None]], currency: str
) -> list[BundlePart]:
    """Return what an owner asked for, each a product with a law or an ε.

    Raises:     NotFoundError: a product or tier that there is not, or of somebody else. InvalidRequestError: fewer than
                two, a product twice, two tiers of one chain, several licences. CurrencyMismatchError: another currency.
    """
    if len(asked) < 2 or len({product for product, _, _ in asked}) < len(asked):
        raise InvalidRequestError("parts: expected at least two products, each once, got another list")
    parts = []
    for product, law, epsilon in asked:
        mine = (
            select(products.c.state)
            .join(datasets, datasets.c.id == products.c.dataset_id)
            .where(products.c.id == product, datasets.c.owner_id == owner)
        )
        state = connection.execute(mine).scalar_one_or_none()
        if state not in (DRAFT, LIVE, RETIRED):
            raise NotFoundError("parts: expected products of the caller's own, got another id")
        view = product_view(connection, product)
        if (law is None) == (epsilon is None):
            raise InvalidRequestError("parts: expected exactly one of law and epsilon each, got both or none")
        wanted = law or ""
        if epsilon is not None:
            named = parse_epsilon(epsilon)
            wanted = next((tier.law for tier in view.tiers if Fraction(tier.epsilon) == named), "")
        parts.append(_part(view, wanted))
    if len({part.view.licence for part in parts}) > 1:
        raise InvalidRequestError("parts: expected products of one licence, which an order accepts, got several")
    for part in parts:
        if part.view.currency != currency:
            raise CurrencyMismatchError(part.view.currency, currency)
    chain_parts(parts)
    return parts


def _part(view: ProductView, law: str) -> BundlePart:
    for place, tier in enumerate(view.tiers):
        if tier.law == law:
            return BundlePart(view, place)
    raise NotFoundError(f"parts: expected a tier that {view.title!r} offers, got another")


def refuse_price(
    title: str,
    price_minor: int,
    parts: Sequence[BundlePart],
    fresh: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Refuse a bundle that costs more than its parts or less than one of them, at their prices of now or fresh ones.

    Raises:     ConflictError: names what is undercut, by what, and both prices.
    """
    books = fresh or {}
    goods: dict[str, int] = {}
    for part in parts:
        name = part.name if part.name not in goods else f"{part.name} ({part.view.product[-8:]})"
        goods[name] = sum(books.get(each.chain, {}).get(each.law, each.price_minor) for each in part.sold)
    alone = sum(books.get(each.chain, {}).get(each.law, each.price_minor) for each in chain_parts(parts))
    try:
        check_bundle_price(title, price_minor, goods, alone)
    except ArbitrageError as refused:
        reason = "other products give it for less"
        refuse_arbitrage(Ruling("arbitrage", reason, refused.target, refused.price, 0, refused.bundle, refused.cost))
