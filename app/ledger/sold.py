"""Every order, of a product, of a panel's tier or of an answer about places, in the columns that papers need."""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Connection, Subquery, bindparam, select, union_all

from app.keyring import Keyring
from app.log.heads import sign_document
from app.store.location_schema import location_orders
from app.store.panel_schema import panel_orders
from app.store.schema import orders
from pricing.invoices import Receipt
from tiers.canonical import Document, canonical_bytes

__all__ = ["receipt_before", "receipt_of", "signed_receipt", "sold_orders"]

_COLUMNS = (
    "id",
    "account_id",
    "chain_id",
    "law",
    "amount_minor",
    "list_minor",
    "credit_minor",
    "reserve_minor",
    "discount_minor",
    "currency",
    "receipt_json",
    "leaf_index",
    "created_at",
)


_TABLES = (orders, panel_orders, location_orders)
_NOTHING: Mapping[str, Document] = MappingProxyType({})
_NEWEST = tuple(
    select(table.c.receipt_json, table.c.leaf_index)
    .where(table.c.account_id == bindparam("account"), table.c.leaf_index.is_not(None))
    .order_by(table.c.leaf_index.desc())
    .limit(1)
    for table in _TABLES
)


def sold_orders() -> Subquery:
    """Return all orders; those of panels name a round, or a question, where others name a chain.

    And a tier, or a question's budget, where others name a law.
    """
    return union_all(
        *(select(*(table.c[name] for name in _COLUMNS)).where(table.c.leaf_index.is_not(None)) for table in _TABLES)
    ).subquery("sold")


def receipt_of(connection: Connection, account: str, order: str) -> str | None:
    """Return the signed receipt of an account's own order; None where it has no such order."""
    sold = sold_orders()
    wanted = select(sold.c.receipt_json).where(sold.c.id == order, sold.c.account_id == account)
    found: str | None = connection.execute(wanted).scalar_one_or_none()
    return found


def receipt_before(connection: Connection, account: str) -> str | None:
    """Return the SHA-256 of an account's newest receipt: the next one names it."""
    found = [row for wanted in _NEWEST for row in connection.execute(wanted, {"account": account})]
    newest = max(found, key=lambda row: int(row.leaf_index), default=None)
    return None if newest is None else hashlib.sha256(newest.receipt_json.encode()).hexdigest()


def signed_receipt(keyring: Keyring, receipt: Receipt, told: Mapping[str, Document] = _NOTHING) -> bytes:
    """Return a receipt, and what it tells besides, as it is spelled and signed by the newest key."""
    body: dict[str, Document] = {**receipt.document(), **told}
    return canonical_bytes({**body, "signature": sign_document("receipt", body, keyring.signer())})
