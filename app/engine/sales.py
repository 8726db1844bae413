"""Orders: one decision, made read-only first and again, for good, in the sale's transaction."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, Row, bindparam, select

from app.audit.gate import Gate
from app.auth.accounts import Caller
from app.catalog.products import PART, NewProduct
from app.clock import new_id, time_text
from app.engine.bundling import bundle_price_now, open_sale
from app.engine.kept import refuse_another
from app.engine.lines import SaleLine, below_ceiling, priced_lines, refuse_above_ceiling
from app.engine.papers import line_receipt, log_sale
from app.engine.quoting import check_licence, confirm_quote, quotes_of, refuse_off_sale
from app.engine.release import ComputedDraw, ReleaseEngine
from app.engine.state import ChainState, Tier, chain_of_product, offered_laws
from app.errors import AuditFindingError
from app.keyring import Keyring
from app.ledger.amounts import amounts_of
from app.ledger.budget import charge, charge_of, check_pace
from app.ledger.earnings import accrue
from app.ledger.loans import keep_loans
from app.ledger.money import post, post_to_market, require_funds
from app.ledger.refunds import issue_invoice
from app.queries.model import Mean, Quantile, Threshold
from app.queries.readings import joint_half_width
from app.settings import Settings
from app.store.schema import entitlements, orders
from pricing.money import Money
from tiers.audit.findings import Finding
from tiers.canonical import Document, canonical_bytes
from tiers.chain import CONFIDENCE

__all__ = ["ChainUndrawnError", "Desk", "PlacedOrder", "ReleaseRefusedError"]

Computed: TypeAlias = Mapping[str, tuple[ComputedDraw, ...]]
_PART = "\x1f"  # no caller's key holds it

_PLACED = select(orders).where(
    orders.c.account_id == bindparam("account"), orders.c.idempotency_key == bindparam("key")
)
_HELD = select(entitlements.c.law).where(
    entitlements.c.account_id == bindparam("account_id"),
    entitlements.c.chain_id == bindparam("chain_id"),
    entitlements.c.law == bindparam("law"),
)


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

    A mean's companion is the order of its count. A bundle's first order carries the others, and the id of the sale.
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
    others: tuple["PlacedOrder", ...] = ()
    sale: str | None = None


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

        A mean is two orders, of its sum and of its count, and a bundle one for each chain: all or none. All lines are
        admitted before the first one is sold.

        Args:       computed: the draws of each chain that were due when the caller made them. licence: the one that the
                    buyer accepts; an analyst, who buys nothing, need not.
        Raises:     ChainUndrawnError: admitted, but the tier must be drawn first, or again: others were faster.
                    QuoteExpiredError, ForbiddenError, ChainFrozenError, ReleaseRefusedError, InsufficientFundsError,
                    BudgetRefusedError, IdempotencyError: refused, nothing stored. InvalidRequestError, ConflictError:
                    none, or another, licence is accepted.
        """
        digest = hashlib.sha256(canonical_bytes({"quote": quote_id})).hexdigest()
        placed = self._replay(connection, caller, key, digest, licence)
        if placed:
            return _joined(placed)
        cited = quotes_of(connection, caller, quote_id)
        lines = self._admit(connection, caller, cited, now, licence)
        sale = None if cited[0].bundle_id is None else open_sale(connection, caller.id, cited[0], time_text(now))
        self._refuse_undrawn(lines, computed or {})
        sold = [
            self._sell(connection, caller, line, digest, _PART * place + key, now, computed or {}, sale)
            for place, line in enumerate(lines)
        ]
        if sale is not None:
            issue_invoice(connection, sold[0][0])
        return _joined([order for _, order in sold], sale)

    def _admit(
        self, connection: Connection, caller: Caller, cited: Sequence[Row[Any]], now: datetime, licence: str | None
    ) -> list["_Admitted"]:
        """Decide on all lines together: rights, prices, budgets, pace and money, before anything is written."""
        first = cited[0]

        def on_sale(place: int, row: Row[Any]) -> None:
            check_licence(row.licence, caller, licence)
            refuse_off_sale(row, caller, part=place > 0 and (first.bundle_id is None or row.state == PART))

        price = None if first.bundle_id is None else bundle_price_now(connection, caller, first)
        asked = [(each.product_id, each.law) for each in cited]
        lines = priced_lines(connection, self.settings, caller, asked, price, on_sale)
        if price is None:  # a mean is its two parts together
            refuse_above_ceiling(caller, sum((line.tier.document.epsilon() for line in lines), Fraction(0)))
        dues: dict[str, int] = {}
        admitted = []
        for each, line in zip(cited, lines, strict=True):
            confirm_quote(each, line.chain.id, line.offered, now)
            laws = offered_laws(connection, line.product)
            due = charge_of(line.chain, line.tier, partial(_within_reach, caller, laws))
            whole = dues.get(line.chain.dataset, 0) + due
            check_pace(connection, caller.id, line.chain, whole if due else 0, now)
            dues[line.chain.dataset] = whole
            admitted.append(_Admitted(line, due))
        require_funds(connection, caller.id, Money(sum(line.offered.amount for line in lines), first.currency))
        return admitted

    def _refuse_undrawn(self, lines: Sequence["_Admitted"], computed: Computed) -> None:
        """Ask for the draws of the first chain that needs some; those of all chains are there before one is sold."""
        for each in lines:
            wanted = self.engine.due(each.line.chain, each.line.tier)
            made = computed.get(each.line.chain.id, ())
            if wanted and tuple(draw.spec for draw in made) != wanted:
                raise ChainUndrawnError(each.line.chain, each.line.tier)

    def _sell(
        self,
        connection: Connection,
        caller: Caller,
        admitted: "_Admitted",
        digest: str,
        key: str,
        now: datetime,
        computed: Computed,
        sale: str | None,
    ) -> tuple[str, PlacedOrder]:
        """Sell one line that was admitted; return its order."""
        line, due = admitted.line, admitted.due
        at, order_id = time_text(now), new_id("order")
        price = Money(line.offered.amount, line.offered.currency)
        post(connection, caller.id, "payment", -price, order_id, at)
        post_to_market(connection, "sale", price, order_id, at)
        if self.engine.due(line.chain, line.tier):
            self.engine.install(connection, line.chain, computed[line.chain.id], at)
            chain, row = chain_of_product(connection, self.settings, line.product)
            line = replace(line, chain=chain, row=row, tier=chain.tier(line.tier.law))
        charge(connection, line.chain, line.tier, due)
        loss = line.chain.highest_nano + due
        accrue(connection, line.chain.dataset, price, loss, self.settings.fee_bps, order_id, at)
        leaf = log_sale(connection, self.keyring, caller, line, order_id, due, at)
        found = self.gate.check(connection, line.chain, leaf.index)
        if found:
            raise ReleaseRefusedError(found)
        told: dict[str, Document] = {}
        if line.row.parts_json is not None or line.row.state == PART:
            told = {"joint_half_width": str(joint_half_width(line.tier.document.noise, CONFIDENCE))}
        if sale is not None:
            told |= {"bundle_order": sale, "discount_minor": line.offered.discount}
        receipt = line_receipt(connection, self.keyring, caller, line, order_id, due, at, leaf, told)
        connection.execute(
            orders.insert(),
            {
                "id": order_id,
                "account_id": caller.id,
                "idempotency_key": key,
                "request_digest": digest,
                "product_id": line.product,
                "chain_id": line.chain.id,
                "law": line.tier.law,
                **amounts_of(line.offered),
                "sale_id": sale,
                "charge_nano": due,
                "receipt_json": receipt.decode(),
                "leaf_index": leaf.index,
                "created_at": at,
            },
        )
        if sale is None:
            issue_invoice(connection, order_id)
        keep_loans(connection, order_id, line.offered, line.holding, lent_by=sale if line.lends else None)
        self._entitle(connection, caller, line.chain, line.tier, order_id)
        return order_id, _placed(receipt.decode(), line.product, line.chain, line.tier, line.row, replayed=False)

    def _replay(
        self, connection: Connection, caller: Caller, key: str, digest: str, licence: str | None
    ) -> list[PlacedOrder]:
        """Return the orders that a key placed: its first, and those of the same sale."""
        found: list[PlacedOrder] = []
        while True:
            named = {"account": caller.id, "key": _PART * len(found) + key}
            row = connection.execute(_PLACED, named).one_or_none()
            if row is None:
                return found
            refuse_another(row, digest)
            chain, listed = chain_of_product(connection, self.settings, row.product_id)
            check_licence(listed.licence, caller, licence)
            tier = chain.tier(row.law)
            placed = _placed(row.receipt_json, row.product_id, chain, tier, listed, replayed=True)
            found.append(replace(placed, sale=row.sale_id))

    def _entitle(self, connection: Connection, caller: Caller, chain: ChainState, tier: Tier, order_id: str) -> None:
        held = {"account_id": caller.id, "chain_id": chain.id, "law": tier.law}
        if connection.execute(_HELD, held).one_or_none() is None:
            connection.execute(entitlements.insert(), {**held, "rank": tier.rank, "order_id": order_id})


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A line that may be sold, and what it charges."""

    line: SaleLine
    due: int


def _joined(placed: Sequence[PlacedOrder], sale: str | None = None) -> PlacedOrder:
    """Return the orders of one sale as one: a mean's count beside its sum, a bundle's parts behind the first."""
    first, rest = placed[0], tuple(placed[1:])
    if sale is not None or first.sale is not None:
        return replace(first, sale=sale or first.sale, others=rest)
    return replace(first, companion=rest[0] if rest else None)


def _placed(receipt: str, product: str, chain: ChainState, tier: Tier, row: Row[Any], *, replayed: bool) -> PlacedOrder:
    assert tier.sealed is not None
    assert tier.commitment is not None
    return PlacedOrder(
        receipt.encode(), product, chain, tier, tier.sealed, tier.commitment, _is_read(row), replayed=replayed
    )


def _within_reach(caller: Caller, laws: frozenset[str], tier: Tier) -> bool:
    return tier.law in laws and below_ceiling(caller, tier)


def _is_read(row: Row[Any]) -> bool:
    """Whether the product's question shows more than its raw vector; a mean is read with its sum, not its count."""
    if row.state == PART:
        return False
    query = msgspec.json.decode(row.request_json, type=NewProduct).query
    return isinstance(query.measure, Mean | Quantile | Threshold)
