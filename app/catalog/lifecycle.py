"""What happens to a product after its publication: on sale, off sale, withdrawn for good."""

from dataclasses import replace

import msgspec
from sqlalchemy import Connection, select

from app.catalog.arbitrage import Checked, check_offer, offer_of, store_checked
from app.catalog.books import book_of_chain
from app.catalog.products import DRAFT, LIVE, RETIRED, WITHDRAWN, NewProduct
from app.errors import ConflictError, NotFoundError
from app.keyring import Keyring
from app.log.journal import append
from app.log.leaves import WithdrawalLeaf
from app.store.schema import offers, planned_tiers, products
from tiers.budget import Ladder, decimal_text

__all__ = ["move", "parts_of", "stored_product", "withdraw"]

_MOVES = {(DRAFT, LIVE), (DRAFT, RETIRED), (LIVE, RETIRED), (RETIRED, LIVE)}


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


def move(connection: Connection, product: str, state: str, checked: Checked | None = None) -> None:
    """Move a product between draft, live and retired; a withdrawn one stays withdrawn; going live needs a verdict.

    A retired product's answers stay with those who bought them; back on sale, it sells the same answers.

    Raises:     NotFoundError: no such product. ConflictError: no way from its state to that one.
    """
    current = connection.execute(select(products.c.state).where(products.c.id == product)).scalar_one_or_none()
    if current is None:
        raise NotFoundError("product: expected an existing id, got another")
    if (current, state) not in _MOVES:
        raise ConflictError(f"product: expected a move that exists, got {current} to {state}")
    if state == LIVE:
        current = check_offer(connection, offer_of(connection, product), checked)
        chain = connection.execute(select(products.c.chain_id).where(products.c.id == product)).scalar_one()
        store_checked(connection, chain, current)
    connection.execute(products.update().where(products.c.id == product).values(state=state))


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
