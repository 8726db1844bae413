"""Price books of stored chains: read at their current version, and replaced by a new one."""

from sqlalchemy import Connection, bindparam, select

from app.errors import NotFoundError
from app.keyring import Keyring
from app.ledger.money import balance
from app.log.journal import append
from app.log.leaves import BookLeaf
from app.store.schema import book_prices, chains, datasets, planned_tiers
from pricing.book import PriceBook, TierPrice
from pricing.errors import CurrencyMismatchError

__all__ = ["book_of_chain", "insert_book", "reprice", "require_currency"]

_BOOK = (
    select(chains.c.currency, chains.c.book_version, book_prices.c.law, book_prices.c.price_minor)
    .join(book_prices, (book_prices.c.chain_id == chains.c.id) & (book_prices.c.version == chains.c.book_version))
    .join(planned_tiers, (planned_tiers.c.chain_id == chains.c.id) & (planned_tiers.c.law == book_prices.c.law))
    .where(chains.c.id == bindparam("chain"))
    .order_by(planned_tiers.c.rank)
)


def book_of_chain(connection: Connection, chain: str) -> PriceBook:
    """Return the chain's current book, ranks in order."""
    rows = connection.execute(_BOOK, {"chain": chain}).all()
    if not rows:
        raise NotFoundError("chain: expected an existing id, got another")
    prices = tuple(TierPrice(row.law, row.price_minor) for row in rows)
    return PriceBook(chain, rows[0].book_version, rows[0].currency, prices)


def reprice(connection: Connection, keyring: Keyring, book: PriceBook, at: str) -> PriceBook:
    """Store and log a new version of a chain's book, checked before; what was quoted at the old one is stale now."""
    owner = select(datasets.c.owner_id).join(chains, chains.c.dataset_id == datasets.c.id)
    owner_id = connection.execute(owner.where(chains.c.id == book.chain_id)).scalar_one()
    require_currency(connection, owner_id, book.currency)
    insert_book(connection, book)
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


def require_currency(connection: Connection, owner: str, currency: str) -> None:
    """Refuse a book that its owner could not be paid in."""
    kept_in = balance(connection, owner).currency
    if kept_in != currency:
        raise CurrencyMismatchError(kept_in, currency)


def insert_book(connection: Connection, book: PriceBook) -> None:
    connection.execute(
        book_prices.insert(),
        [
            {"chain_id": book.chain_id, "version": book.version, "law": tier.law, "price_minor": tier.price}
            for tier in book.tiers
        ],
    )
