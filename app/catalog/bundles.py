"""Bundles: tiers of several products at one price, composed by their owner, priced in versions, on sale or off it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Row, func, select

from app.catalog.arbitrage import Checked, bundle_offer, check_offer, store_around, store_bundle_ruling, verdict_text
from app.catalog.bundle_contents import BundlePart, chain_parts, chosen_parts, parts_of_bundle, refuse_price
from app.catalog.products import DRAFT, LIVE, RETIRED
from app.catalog.shelf import ListedBundle, Proposal
from app.catalog.verdicts import Ruling
from app.clock import new_id
from app.errors import ConflictError, NotFoundError
from app.store.schema import bundle_parts, bundle_prices, bundles
from pricing.errors import CurrencyMismatchError
from pricing.money import Money

__all__ = [
    "NewBundle",
    "bundle_on_sale",
    "compose",
    "composed_offer",
    "move_bundle",
    "owned_bundle",
    "price_of_bundle",
    "refuse_bundle_prices",
    "reprice_bundle",
    "stored_offer",
]

_MOVES = {(DRAFT, LIVE), (DRAFT, RETIRED), (LIVE, RETIRED), (RETIRED, LIVE)}


@dataclass(frozen=True, slots=True)
class NewBundle:
    """What an owner composes: products, each at a law or an ε of its listing, and one price for all."""

    title: str
    description: str
    parts: tuple[tuple[str, str | None, str | None], ...]
    currency: str
    price_minor: int
    state: str


def composed_offer(connection: Connection, owner: str, new: NewBundle) -> Proposal | None:
    """Return what would be on sale with a bundle that is not stored yet; None where it would not be.

    Raises:     as `compose`.
    """
    parts = chosen_parts(connection, owner, new.parts, new.currency)
    refuse_price(new.title, new.price_minor, parts)
    return _proposal(connection, "", new.title, new.price_minor, parts) if new.state == LIVE else None


def compose(connection: Connection, owner: str, new: NewBundle, at: str, checked: Checked | None) -> str:
    """Store a bundle of the owner's own products; return its id.

    Raises:     NotFoundError: a product or tier that there is not, or of somebody else. InvalidRequestError: fewer than
                two parts, a product twice, two tiers of one chain, or different licences. ConflictError: a price that
                its parts undercut, or that undercuts one of them, alone or in combination with others; a part that is
                not on sale, in a bundle that is to be.
    """
    parts = chosen_parts(connection, owner, new.parts, new.currency)
    refuse_price(new.title, new.price_minor, parts)
    ruling = Ruling("uncertified", "not on sale yet")
    if new.state == LIVE:
        _refuse_off_sale(parts)
        current = check_offer(connection, _proposal(connection, "", new.title, new.price_minor, parts), checked)
        ruling = current.ruling
        store_around(connection, current)
    bundle = new_id("bundle")
    number = int(connection.execute(select(func.coalesce(func.max(bundles.c.number), 0))).scalar_one()) + 1
    connection.execute(
        bundles.insert().values(
            id=bundle,
            number=number,
            owner_id=owner,
            title=new.title,
            description=new.description,
            licence=parts[0].view.licence,
            currency=parts[0].view.currency,
            state=new.state,
            version=1,
            arbitrage=ruling.verdict,
            verdict_json=verdict_text(ruling, at),
            created_at=at,
        )
    )
    rows = [
        {"bundle_id": bundle, "place": place, "product_id": part.view.product, "law": part.tier.law}
        for place, part in enumerate(parts)
    ]
    connection.execute(bundle_parts.insert(), rows)
    _insert_price(connection, bundle, 1, new.price_minor, at)
    return bundle


def stored_offer(connection: Connection, row: Row[tuple[object]], price_minor: int | None = None) -> Proposal:
    """Return what would be on sale with a stored bundle, whether it is or not: at its price, or at another."""
    price = price_of_bundle(connection, row) if price_minor is None else price_minor
    return _proposal(connection, row.id, row.title, price, parts_of_bundle(connection, row.id))


def reprice_bundle(
    connection: Connection, row: Row[tuple[object]], price: Money, at: str, checked: Checked | None
) -> None:
    """Give a bundle a new version of its price; what was quoted at the old one is stale now.

    Raises:     ConflictError: certain arbitrage. CurrencyMismatchError: a price in another currency.
    """
    if price.currency != row.currency:
        raise CurrencyMismatchError(row.currency, price.currency)
    price_minor = price.amount
    refuse_price(row.title, price_minor, parts_of_bundle(connection, row.id))
    if row.state == LIVE:
        _keep(connection, row.id, check_offer(connection, stored_offer(connection, row, price_minor), checked))
    _insert_price(connection, row.id, row.version + 1, price_minor, at)
    connection.execute(bundles.update().where(bundles.c.id == row.id).values(version=row.version + 1))


def move_bundle(connection: Connection, row: Row[tuple[object]], state: str, at: str, checked: Checked | None) -> None:
    """Move a bundle between draft, live and retired; what it sold stays sold, and what it lent stays lent.

    Raises:     ConflictError: no way from its state to that one, a part that is not on sale, certain arbitrage.
    """
    if (row.state, state) not in _MOVES:
        raise ConflictError(f"bundle: expected a move that exists, got {row.state} to {state}")
    if state == LIVE:
        parts = parts_of_bundle(connection, row.id)
        _refuse_off_sale(parts)
        refuse_price(row.title, price_of_bundle(connection, row), parts)
        _keep(connection, row.id, check_offer(connection, stored_offer(connection, row), checked))
    connection.execute(bundles.update().where(bundles.c.id == row.id).values(state=state))


def refuse_bundle_prices(connection: Connection, chains: Mapping[str, Mapping[str, int]]) -> None:
    """Refuse new prices by law, chain by chain, with which a bundle on sale would cost more than its parts, or less.

    Raises:     ConflictError: names the bundle.
    """
    live = select(bundles).where(bundles.c.state == LIVE).order_by(bundles.c.number)
    for row in connection.execute(live).all():
        parts = parts_of_bundle(connection, row.id)
        if any(each.chain in chains for each in chain_parts(parts)):
            refuse_price(row.title, price_of_bundle(connection, row), parts, chains)


def owned_bundle(connection: Connection, owner: str, bundle: str) -> Row[tuple[object]]:
    """Return a bundle of the owner's own; raises NotFoundError for another's as for none."""
    row = connection.execute(select(bundles).where(bundles.c.id == bundle)).one_or_none()
    if row is None or row.owner_id != owner:
        raise NotFoundError("bundle: expected an existing id, got another")
    return row


def bundle_on_sale(connection: Connection, bundle: str) -> Row[tuple[object]]:
    """Return a bundle that may be sold now; a draft is unknown to buyers.

    Raises:     NotFoundError: no such bundle. ConflictError: a retired one.
    """
    row = connection.execute(select(bundles).where(bundles.c.id == bundle)).one_or_none()
    if row is None or row.state == DRAFT:
        raise NotFoundError("bundle: expected an existing id, got another")
    if row.state != LIVE:
        raise ConflictError(f"bundle: expected one on sale, got one that is {row.state}")
    return row


def price_of_bundle(connection: Connection, row: Row[tuple[object]]) -> int:
    """Return a bundle's price of now."""
    wanted = select(bundle_prices.c.price_minor).where(
        bundle_prices.c.bundle_id == row.id, bundle_prices.c.version == row.version
    )
    return int(connection.execute(wanted).scalar_one())


def _keep(connection: Connection, bundle: str, current: Checked) -> None:
    store_around(connection, current)
    store_bundle_ruling(connection, bundle, current.ruling, current.at)


def _refuse_off_sale(parts: Sequence[BundlePart]) -> None:
    for part in parts:
        if part.view.state != LIVE:
            raise ConflictError(
                f"parts: expected products on sale, got {part.view.title!r}, which is {part.view.state}"
            )


def _proposal(
    connection: Connection, bundle: str, title: str, price_minor: int, parts: Sequence[BundlePart]
) -> Proposal:
    sold = tuple((each.chain, each.law) for each in chain_parts(parts))
    snapshots = frozenset(part.view.snapshot for part in parts)
    return bundle_offer(connection, ListedBundle(bundle or "new", title, price_minor, sold), snapshots)


def _insert_price(connection: Connection, bundle: str, version: int, price_minor: int, at: str) -> None:
    row = {"bundle_id": bundle, "version": version, "price_minor": price_minor, "at": at}
    connection.execute(bundle_prices.insert().values(**row))
