"""What a sale leaves behind besides money: its leaf in the log and the buyer's signed receipt."""

import hashlib
from collections.abc import Mapping

from sqlalchemy import Connection, select

from app.auth.accounts import Caller, Role
from app.engine.lines import SaleLine
from app.keyring import Keyring
from app.log.heads import sign_document
from app.log.journal import Appended, append
from app.log.leaves import SaleLeaf
from app.store.schema import orders
from pricing.invoices import Receipt
from tiers.canonical import Document, canonical_bytes

__all__ = ["log_sale", "signed_receipt"]


def log_sale(
    connection: Connection, keyring: Keyring, caller: Caller, line: SaleLine, order: str, due: int, at: str
) -> Appended:
    """Append the leaf of one line of a sale."""

    def make(index: int) -> SaleLeaf:
        return SaleLeaf(
            index=index,
            at=at,
            order=order,
            pseudonym=caller.pseudonym,
            product=line.product,
            chain=line.chain.id,
            law=line.tier.law,
            charge_nano=due,
            price_minor=line.offered.amount,
            currency=line.offered.currency,
            book_version=line.offered.book_version,
            licence=line.row.licence,
        )

    (sold,) = append(connection, keyring, at, [make])
    return sold


def signed_receipt(
    connection: Connection,
    keyring: Keyring,
    caller: Caller,
    line: SaleLine,
    order: str,
    due: int,
    at: str,
    leaf: Appended,
    told: Mapping[str, Document],
) -> bytes:
    """Return the receipt of one line, chained to the buyer's last one.

    Args:       told: what a bundle's part says besides: the one order of the bundle, and the part's discount.
    """
    last = select(orders.c.receipt_json).where(orders.c.account_id == caller.id).order_by(orders.c.leaf_index.desc())
    before = connection.execute(last.limit(1)).scalar_one_or_none()
    tier = line.tier
    assert tier.commitment is not None
    body: dict[str, Document] = dict(
        Receipt(
            line.offered,
            order=order,
            pseudonym=caller.pseudonym,
            at=at,
            fingerprint=line.chain.fingerprint,
            snapshot=line.chain.snapshot,
            licence=line.row.licence,
            epsilon=tier.epsilon,
            charge_nano=due,
            commitment=tier.commitment,
            leaf_index=leaf.index,
            leaf_hash=leaf.hash.hex(),
            key=keyring.signing_number,
            same_as_above=tier.same_as_above,
            internal=caller.role is Role.ANALYST,
            previous=None if before is None else hashlib.sha256(before.encode()).hexdigest(),
        ).document()
    )
    body |= told
    return canonical_bytes({**body, "signature": sign_document("receipt", body, keyring.signer())})
