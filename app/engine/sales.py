"""Orders: one decision, made read-only first and again, for good, in the sale's transaction."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, Row, select

from app.audit.freezing import refuse_frozen
from app.audit.gate import Gate
from app.auth.accounts import Caller, Role
from app.catalog.books import book_of_chain
from app.catalog.products import NewProduct
from app.clock import new_id, time_text
from app.engine.quoting import (
    below_ceiling,
    check_licence,
    confirm_quote,
    price_of,
    quote_of,
    refuse_off_sale,
    refuse_whole_above_ceiling,
)
from app.engine.release import ComputedDraw, ReleaseEngine
from app.engine.state import ChainState, Tier, chain_of_product, offered_laws
from app.errors import AuditFindingError, IdempotencyError
from app.keyring import Keyring
from app.ledger.amounts import amounts_of
from app.ledger.budget import charge, charge_of, check_pace
from app.ledger.earnings import accrue
from app.ledger.money import market_account, post
from app.ledger.refunds import issue_invoice
from app.ledger.sold import receipt_before, signed_receipt
from app.log.journal import Appended, append
from app.log.leaves import SaleLeaf
from app.queries.model import Mean, Quantile, Threshold
from app.settings import Settings
from app.store.schema import entitlements, orders
from pricing.invoices import Receipt
from pricing.money import Money
from pricing.quote import Quote
from tiers.audit.findings import Finding
from tiers.canonical import canonical_bytes

__all__ = ["ChainUndrawnError", "Desk", "PlacedOrder", "ReleaseRefusedError"]

Computed: TypeAlias = Mapping[str, tuple[ComputedDraw, ...]]
_PART = "\x1f"  # no caller's key holds it


class ChainUndrawnError(Exception):
    """The sale needs draws that nobody has made yet; carries chain and tier. Never leaves the engine."""

    def __init__(self, chain: ChainState, tier: Tier) -> None:
        self.chain, self.tier = chain, tier
        super().__init__("tier: expected a drawn answer, got none yet")


class ReleaseRefusedError(AuditFindingError):
    """The gate found something: the sale is undone, and the chain is to be frozen for what is found."""

    def __init__(self, found: tuple[Finding, ...]) -> None:
        self.found = found
        rules = sorted({f"{finding.check} {finding.rule}" for finding in found})
        super().__init__(f"release: expected one that passes the audit, got {', '.join(rules)}", rules=rules)


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """An order as stored; `replayed` tells a retry from the first time, `read` whether more than the vector is shown.

    A mean's companion is the order of its count.
    """

    receipt: bytes
    product: str
    chain: ChainState
    tier: Tier
    sealed: bytes
    commitment: str
    read: bool
    replayed: bool
    companion: "PlacedOrder | None" = None


@dataclass(frozen=True, slots=True)
class Desk:
    """The sales desk: the only writer of orders, entitlements and charges."""

    settings: Settings
    keyring: Keyring
    engine: ReleaseEngine
    gate: Gate

    def order(
        self,
        connection: Connection,
        caller: Caller,
        quote_id: str,
        key: str,
        now: datetime,
        computed: Computed | None = None,
        licence: str | None = None,
    ) -> PlacedOrder:
        """Sell what a quote offers, or return the order that this idempotency key already placed.

        One transaction: right to the tier, price, budget, draws, money, order, log. Anything that fails leaves nothing.

        A mean is two orders, of its sum and of its count: both or none.

        Args:       computed: the draws of each chain that were due when the caller made them. licence: the one that the
                    buyer accepts; an analyst, who buys nothing, need not.
        Raises:     ChainUndrawnError: admitted, but the tier must be drawn first, or again: others were faster.
                    QuoteExpiredError, ForbiddenError, ChainFrozenError, ReleaseRefusedError, InsufficientFundsError,
                    BudgetRefusedError, IdempotencyError: refused, nothing stored. InvalidRequestError, ConflictError:
                    none, or another, licence is accepted.
        """
        whole = hashlib.sha256(canonical_bytes({"quote": quote_id})).hexdigest()
        made = computed or {}
        placed, other = self._order_one(connection, caller, quote_id, whole, key, now, made, licence)
        second = self._replay(connection, caller, _PART + key, whole, licence) if placed.replayed else None
        if other:  # a mean is two orders of one transaction, under one key
            second, _ = self._order_one(connection, caller, other, whole, _PART + key, now, made, licence)
        return replace(placed, companion=second)

    def _order_one(
        self,
        connection: Connection,
        caller: Caller,
        quote_id: str,
        digest: str,
        key: str,
        now: datetime,
        computed: Computed,
        licence: str | None,
    ) -> tuple[PlacedOrder, str]:
        """Place one order; return it with the quote that goes with its own, or "" for none."""
        placed = self._replay(connection, caller, key, digest, licence)
        if placed is not None:
            return placed, ""
        cited = quote_of(connection, caller, quote_id)
        chain, row = chain_of_product(connection, self.settings, cited.product_id)
        check_licence(row.licence, caller, licence)
        refuse_off_sale(row, caller, part=key.startswith(_PART))
        refuse_frozen(connection, chain.id)
        tier = chain.tier(cited.law)
        book = book_of_chain(connection, chain.id)
        offered = price_of(connection, caller, chain, book, tier)
        refuse_whole_above_ceiling(connection, caller, cited)
        confirm_quote(cited, chain.id, offered, now)
        laws = offered_laws(connection, cited.product_id)
        due = charge_of(chain, tier, lambda other: other.law in laws and below_ceiling(caller, other))
        check_pace(connection, caller.id, chain, due, now)
        at, order_id = time_text(now), new_id("order")
        price = Money(offered.amount, offered.currency)
        post(connection, caller.id, "payment", -price, order_id, at)
        post(connection, market_account(connection, price.currency, at), "sale", price, order_id, at)
        wanted = self.engine.due(chain, tier)
        if wanted:
            made = computed.get(chain.id, ())
            if tuple(draw.spec for draw in made) != wanted:
                raise ChainUndrawnError(chain, tier)
            self.engine.install(connection, chain, made, at)
            chain, row = chain_of_product(connection, self.settings, cited.product_id)
            tier = chain.tier(cited.law)
        charge(connection, chain, tier, due)
        loss = chain.highest_nano + due
        accrue(connection, chain.dataset, price, loss, self.settings.fee_bps, order_id, at)
        leaf = self._log_sale(connection, caller, cited, chain, order_id, due, row.licence, at)
        found = self.gate.check(connection, chain, leaf.index)
        if found:
            raise ReleaseRefusedError(found)
        receipt = self._receipt(connection, caller, offered, chain, tier, order_id, due, row.licence, at, leaf)
        connection.execute(
            orders.insert().values(
                id=order_id,
                account_id=caller.id,
                idempotency_key=key,
                request_digest=digest,
                product_id=cited.product_id,
                chain_id=chain.id,
                law=tier.law,
                **amounts_of(offered),
                charge_nano=due,
                receipt_json=receipt.decode(),
                leaf_index=leaf.index,
                created_at=at,
            )
        )
        issue_invoice(connection, order_id)
        self._entitle(connection, caller, chain, tier, order_id)
        assert tier.sealed is not None
        assert tier.commitment is not None
        placed = PlacedOrder(
            receipt, cited.product_id, chain, tier, tier.sealed, tier.commitment, _is_read(row), replayed=False
        )
        return placed, cited.companion or ""

    def _replay(
        self, connection: Connection, caller: Caller, key: str, digest: str, licence: str | None
    ) -> PlacedOrder | None:
        wanted = select(orders).where(orders.c.account_id == caller.id, orders.c.idempotency_key == key)
        row = connection.execute(wanted).one_or_none()
        if row is None:
            return None
        if row.request_digest != digest:
            raise IdempotencyError("Idempotency-Key: expected a new key for a new request, got one that is used")
        chain, listed = chain_of_product(connection, self.settings, row.product_id)
        check_licence(listed.licence, caller, licence)
        tier = chain.tier(row.law)
        assert tier.sealed is not None
        assert tier.commitment is not None
        return PlacedOrder(
            row.receipt_json.encode(),
            row.product_id,
            chain,
            tier,
            tier.sealed,
            tier.commitment,
            _is_read(listed),
            replayed=True,
        )

    def _entitle(self, connection: Connection, caller: Caller, chain: ChainState, tier: Tier, order_id: str) -> None:
        held = select(entitlements.c.law).where(
            entitlements.c.account_id == caller.id,
            entitlements.c.chain_id == chain.id,
            entitlements.c.law == tier.law,
        )
        if connection.execute(held).one_or_none() is None:
            connection.execute(
                entitlements.insert().values(
                    account_id=caller.id, chain_id=chain.id, law=tier.law, rank=tier.rank, order_id=order_id
                )
            )

    def _log_sale(
        self,
        connection: Connection,
        caller: Caller,
        cited: Row[Any],
        chain: ChainState,
        order_id: str,
        due: int,
        licence: str,
        at: str,
    ) -> Appended:
        def make(index: int) -> SaleLeaf:
            return SaleLeaf(
                index=index,
                at=at,
                order=order_id,
                pseudonym=caller.pseudonym,
                product=cited.product_id,
                chain=chain.id,
                law=cited.law,
                charge_nano=due,
                price_minor=cited.amount_minor,
                currency=cited.currency,
                book_version=cited.book_version,
                licence=licence,
            )

        (sold,) = append(connection, self.keyring, at, [make])
        return sold

    def _receipt(
        self,
        connection: Connection,
        caller: Caller,
        offered: Quote,
        chain: ChainState,
        tier: Tier,
        order_id: str,
        due: int,
        licence: str,
        at: str,
        leaf: Appended,
    ) -> bytes:
        assert tier.commitment is not None
        receipt = Receipt(
            offered,
            order=order_id,
            pseudonym=caller.pseudonym,
            at=at,
            fingerprint=chain.fingerprint,
            snapshot=chain.snapshot,
            licence=licence,
            epsilon=tier.epsilon,
            charge_nano=due,
            commitment=tier.commitment,
            leaf_index=leaf.index,
            leaf_hash=leaf.hash.hex(),
            key=self.keyring.signing_number,
            same_as_above=tier.same_as_above,
            internal=caller.role is Role.ANALYST,
            previous=receipt_before(connection, caller.id),
        )
        return signed_receipt(self.keyring, receipt)


def _is_read(row: Row[Any]) -> bool:
    """Whether the product's question shows more than its raw vector."""
    query = msgspec.json.decode(row.request_json, type=NewProduct).query
    return isinstance(query.measure, Mean | Quantile | Threshold)
