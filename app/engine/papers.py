"""What a sale leaves behind besides money: its leaf in the log and the buyer's signed receipt."""

from collections.abc import Mapping

from sqlalchemy import Connection

from app.auth.accounts import Caller, Role
from app.engine.lines import SaleLine
from app.keyring import Keyring
from app.ledger.sold import receipt_before, signed_receipt
from app.log.journal import Appended, append
from app.log.leaves import SaleLeaf
from pricing.invoices import Receipt
from tiers.canonical import Document

__all__ = ["line_receipt", "log_sale"]


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


def line_receipt(
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

    Args:       told: what a bundle's part says besides, the one order of the bundle and the part's discount; what a
                mean's says, its half-width for both parts together.
    """
    tier = line.tier
    assert tier.commitment is not None
    receipt = Receipt(
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
        previous=receipt_before(connection, caller.id),
        half_width=tier.half_width,
    )
    return signed_receipt(keyring, receipt, told)
