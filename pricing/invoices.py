"""Papers of a sale: invoices that add up, credit notes that never exceed them, what receipts say."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from pricing.errors import InvalidInvoiceError, OvercreditError
from pricing.money import MONEY_LIMIT, check_currency, check_minor
from pricing.quote import Quote

__all__ = ["Charge", "CreditNote", "Invoice", "Line", "Receipt", "allot", "credit", "lines_of"]

_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_TEXT_LIMIT = 1024


class Charge(StrEnum):
    """Why a line is there."""

    LIST = "LIST"
    UPGRADE_CREDIT = "UPGRADE_CREDIT"
    BUNDLE_DISCOUNT = "BUNDLE_DISCOUNT"
    BUNDLE_PART = "BUNDLE_PART"
    RESERVE = "RESERVE"
    INTERNAL_ZERO = "INTERNAL_ZERO"
    SAMPLE = "SAMPLE"
    REFUND = "REFUND"


@dataclass(frozen=True, slots=True)
class Line:
    """One signed amount with its reason: only credits and discounts are negative, internal and sample lines are zero.

    Raises:     InvalidInvoiceError: a sign or an amount its kind does not have. InvalidPriceError: not minor units.
    Example:
                >>> Line(Charge.LIST, "tier tsg:1", 3000).amount
                3000
    """

    kind: Charge
    text: str
    amount: int

    def __post_init__(self) -> None:
        check_minor("line", self.amount, low=-MONEY_LIMIT)
        _check_text("line", self.text)
        if not isinstance(self.kind, Charge):
            raise InvalidInvoiceError("kind of line", "a Charge", self.kind)
        negative = self.kind in (Charge.UPGRADE_CREDIT, Charge.BUNDLE_DISCOUNT, Charge.REFUND)
        free = self.kind in (Charge.INTERNAL_ZERO, Charge.SAMPLE)
        if (self.amount < 0 and not negative) or (self.amount > 0 and negative) or (self.amount and free):
            sign = "at most 0" if negative else "0" if free else "at least 0"
            raise InvalidInvoiceError(f"{self.kind} line", f"an amount of {sign}", self.amount)


def lines_of(quote: Quote) -> tuple[Line, ...]:
    """Return the lines of a quote: list price, credit, discount, what the reserve adds; their sum is its amount.

    Example:
                >>> offer = Quote(1800, 3000, 1200, 0, "EUR", 1, 1, "c1", "tsg:1")
                >>> [(line.kind.value, line.amount) for line in lines_of(offer)]
                [('LIST', 3000), ('UPGRADE_CREDIT', -1200)]
    """
    lines = [Line(Charge.LIST, quote.law, quote.list_price)]
    if quote.credit:
        lines.append(Line(Charge.UPGRADE_CREDIT, "already held or paid on this chain", -quote.credit))
    if quote.discount:
        lines.append(Line(Charge.BUNDLE_DISCOUNT, "bought in a bundle", -quote.discount))
    if quote.top_up:
        lines.append(Line(Charge.RESERVE, "reserve for the budget used", quote.top_up))
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class Invoice:
    """What a buyer owes; issued once and never edited. Taxes are out of scope and say so: `tax` is always None.

    Raises:     InvalidInvoiceError: no line, a negative total, a blank number. InvalidPriceError: currency or amounts.
    Example:
                >>> Invoice("INV-1", "buyer-7", "EUR", (Line(Charge.LIST, "tsg:1", 3000),)).total
                3000
    """

    number: str
    buyer: str
    currency: str
    lines: tuple[Line, ...]
    tax: None = None

    def __post_init__(self) -> None:
        _check_text("invoice number", self.number)
        _check_text("buyer", self.buyer)
        check_currency(self.currency)
        if not isinstance(self.lines, tuple) or not self.lines:
            raise InvalidInvoiceError("lines", "a tuple of at least one line", self.lines)
        if self.total < 0:
            raise InvalidInvoiceError("total", "at least 0", self.total)
        check_minor("total", self.total)

    @property
    def total(self) -> int:
        """The sum of the lines."""
        return sum(line.amount for line in self.lines)


@dataclass(frozen=True, slots=True)
class CreditNote:
    """Money returned on one line of one invoice; has its own number and leaves the invoice as it is.

    Raises:     InvalidInvoiceError: blank fields, or an amount below 1.
    Example:
                >>> CreditNote("CN-1", "INV-1", 1, 500, "duplicate charge").amount
                500
    """

    number: str
    invoice: str
    line_no: int
    amount: int
    reason: str

    def __post_init__(self) -> None:
        for name in ("number", "invoice", "reason"):
            _check_text(f"credit note {name}", getattr(self, name))
        check_minor("line number", self.line_no, low=1)
        check_minor("credit", self.amount, low=1)


def credit(
    invoice: Invoice, line_no: int, amount: int, reason: str, *, prior: Sequence[CreditNote], number: str
) -> CreditNote:
    """Return a credit note on one line (counted from 1), if line and invoice still have that much to give back.

    Entitlement and privacy budget are not touched: information cannot be recalled, ε is never returned.

    Args:       prior: every earlier note on this invoice. number: the next of the credit notes' own series.
    Raises:     OvercreditError: more than is left of the line, or of the invoice.
                InvalidInvoiceError: no such line, a note of another invoice among `prior`, a number used before.
    Example:
                >>> invoice = Invoice("INV-1", "buyer-7", "EUR", (Line(Charge.LIST, "tsg:1", 3000),))
                >>> credit(invoice, 1, 500, "duplicate charge", prior=[], number="CN-1").line_no
                1
    """
    note = CreditNote(number, invoice.number, line_no, amount, reason)
    if line_no > len(invoice.lines):
        raise InvalidInvoiceError("line number", f"1 to {len(invoice.lines)}", line_no)
    for earlier in prior:
        if earlier.invoice != invoice.number:
            raise InvalidInvoiceError("earlier credit notes", f"those of {invoice.number!r}", earlier.invoice)
    taken = [earlier.number for earlier in prior]
    if len(set(taken)) < len(taken):
        raise InvalidInvoiceError("earlier credit notes", "each once", taken)
    if number in taken or number == invoice.number:
        raise InvalidInvoiceError("credit note number", "one not used before", number)
    line_left = max(0, invoice.lines[line_no - 1].amount) - sum(n.amount for n in prior if n.line_no == line_no)
    left = invoice.total - sum(earlier.amount for earlier in prior)
    if amount > line_left:
        raise OvercreditError(f"line {line_no} of {invoice.number}", max(0, line_left), amount)
    if amount > left:
        raise OvercreditError(f"invoice {invoice.number}", max(0, left), amount)
    return note


def allot(invoice: Invoice, amount: int, *, prior: Sequence[CreditNote]) -> tuple[tuple[int, int], ...]:
    """Return how a credit falls on the invoice's lines: from the first that has something left, (line, amount) each.

    Raises:     OvercreditError: more than is left of the invoice. InvalidPriceError: an amount below 1.
    Example:
                >>> lines = (Line(Charge.LIST, "tsg:1", 10), Line(Charge.RESERVE, "reserve", 11))
                >>> allot(Invoice("INV-1", "buyer-7", "EUR", lines), 15, prior=[])
                ((1, 10), (2, 5))
    """
    check_minor("credit", amount, low=1)
    left = invoice.total - sum(note.amount for note in prior)
    if amount > left:
        raise OvercreditError(f"invoice {invoice.number}", max(0, left), amount)
    shares = []
    for number, line in enumerate(invoice.lines, start=1):
        open_here = line.amount - sum(note.amount for note in prior if note.line_no == number)
        share = min(amount, open_here)
        if share > 0:
            shares.append((number, share))
            amount -= share
    return tuple(shares)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a buyer can show later, in a form that hashes the same everywhere: integers and texts, no float.

    Args:       offered: the quote that was sold. epsilon: decimal text. charge_nano: budget that this sale used.
                internal: an analyst's, for nothing. commitment: the answer's hiding commitment. leaf_index, leaf_hash:
                the sale's leaf of the log. key: number of the key that signs. previous: SHA-256 of the buyer's receipt
                before it, None for the first. half_width: of the tier's 95 % bar, in steps; joint_half_width: what a
                part of a mean keeps to, so that both parts do together 95 % of the time. guarantee: what ε promises, in
                words, where it is a step's and not any two values'. The other fields are what they are called.
    Raises:     InvalidInvoiceError: blank texts, a budget that is no decimal, or a malformed digest.
                InvalidPriceError: a negative or fractional charge.
    Example:
                >>> offered = Quote(1800, 3000, 1200, 0, "EUR", 1, 1, "c1", "tsg:1")
                >>> sale = ("o1", "b7", "2026-05-01", "f1", "s1", "licence", "1", 10**9, "ab" * 32, 4, "cd" * 32, 1)
                >>> document = Receipt(offered, *sale).document()
                >>> document["list_minor"], document["credit_minor"], document["price_minor"]
                (3000, 1200, 1800)
    """

    offered: Quote
    order: str
    pseudonym: str
    at: str
    fingerprint: str
    snapshot: str
    licence: str
    epsilon: str
    charge_nano: int
    commitment: str
    leaf_index: int
    leaf_hash: str
    key: int
    same_as_above: str | None = None
    internal: bool = False
    previous: str | None = None
    half_width: str | None = None
    joint_half_width: str | None = None
    guarantee: str | None = None

    def __post_init__(self) -> None:
        for name in ("order", "pseudonym", "at", "fingerprint", "snapshot", "licence"):
            _check_text(name, getattr(self, name))
        if not isinstance(self.epsilon, str) or not _DECIMAL.match(self.epsilon):
            raise InvalidInvoiceError("epsilon", "a decimal text such as '0.5'", self.epsilon)
        for name in ("charge_nano", "leaf_index", "key"):
            check_minor(name, getattr(self, name))
        for name in ("commitment", "leaf_hash", "previous"):
            value = getattr(self, name)
            if not (name == "previous" and value is None) and not (isinstance(value, str) and _DIGEST.match(value)):
                raise InvalidInvoiceError(name, "64 hexadecimal digits", value)

    def document(self) -> dict[str, str | int | None]:
        """Return the receipt as it is spelled, signed and chained."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        offered = named.pop("offered")
        kind = Charge.INTERNAL_ZERO if named.pop("internal") else Charge.LIST
        return named | {
            "book_version": offered.book_version,
            "chain": offered.chain_id,
            "charge_type": kind.value,
            "credit_minor": offered.credit,
            "currency": offered.currency,
            "law": offered.law,
            "list_minor": offered.list_price,
            "price_minor": offered.amount,
            "reserve_minor": offered.reserve,
        }


def _check_text(name: str, value: str) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > _TEXT_LIMIT:
        raise InvalidInvoiceError(name, f"a text of 1 to {_TEXT_LIMIT} characters", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise InvalidInvoiceError(name, "text that UTF-8 can carry", "a lone surrogate") from fault
