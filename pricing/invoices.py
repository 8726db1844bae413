"""Papers of a sale: invoices that add up, credit notes that never exceed them, receipts chained by hash."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import pairwise

from pricing.errors import InvalidInvoiceError, OvercreditError
from pricing.money import MONEY_LIMIT, check_currency, check_minor
from pricing.quote import Quote

__all__ = ["Charge", "CreditNote", "Invoice", "Line", "Receipt", "allot", "credit", "lines_of", "verify_receipts"]

_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_TEXT_LIMIT = 1024


class Charge(StrEnum):
    """Why a line is there."""

    LIST = "LIST"
    UPGRADE_CREDIT = "UPGRADE_CREDIT"
    RESERVE = "RESERVE"
    INTERNAL_ZERO = "INTERNAL_ZERO"
    SAMPLE = "SAMPLE"
    REFUND = "REFUND"


@dataclass(frozen=True, slots=True)
class Line:
    """One signed amount with its reason: only credits are negative, internal and sample lines are zero.

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
        negative = self.kind in (Charge.UPGRADE_CREDIT, Charge.REFUND)
        free = self.kind in (Charge.INTERNAL_ZERO, Charge.SAMPLE)
        if (self.amount < 0 and not negative) or (self.amount > 0 and negative) or (self.amount and free):
            sign = "at most 0" if negative else "0" if free else "at least 0"
            raise InvalidInvoiceError(f"{self.kind} line", f"an amount of {sign}", self.amount)


def lines_of(quote: Quote) -> tuple[Line, ...]:
    """Return the lines of a quote: list price, credit, what the reserve adds; their sum is the quote's amount.

    Example:
                >>> offer = Quote(1800, 3000, 1200, 0, "EUR", 1, 1, "c1", "tsg:1")
                >>> [(line.kind.value, line.amount) for line in lines_of(offer)]
                [('LIST', 3000), ('UPGRADE_CREDIT', -1200)]
    """
    lines = [Line(Charge.LIST, quote.law, quote.list_price)]
    if quote.credit:
        lines.append(Line(Charge.UPGRADE_CREDIT, "already held or paid on this chain", -quote.credit))
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
    """What a buyer can show later, in a form that hashes the same everywhere: integers and decimal texts, no float.

    Args:       epsilon, delta, charged: decimal texts. commitment: the answer's hiding commitment. previous: digest of
                the receipt before it, None for the first. The other fields are what they are called.
    Raises:     InvalidInvoiceError: blank texts, non-decimal budgets, no line, or a malformed digest.
    Example:
                >>> line = Line(Charge.LIST, "tsg:1", 3000)
                >>> sale = ("o1", "b7", "q", "s1", "c1", "tsg:1", "1", "0", "0.5", "tsg", 1, (line,), "EUR", "ab" * 32)
                >>> len(Receipt(*sale).digest())
                64
    """

    order: str
    buyer: str
    query: str
    snapshot: str
    chain_id: str
    law: str
    epsilon: str
    delta: str
    charged: str
    mechanism: str
    book_version: int
    lines: tuple[Line, ...]
    currency: str
    commitment: str
    previous: str | None = None

    def __post_init__(self) -> None:
        for name in ("order", "buyer", "query", "snapshot", "chain_id", "law", "mechanism"):
            _check_text(name, getattr(self, name))
        for name in ("epsilon", "delta", "charged"):
            if not isinstance(getattr(self, name), str) or not _DECIMAL.match(getattr(self, name)):
                raise InvalidInvoiceError(name, "a decimal text such as '0.5'", getattr(self, name))
        check_minor("book_version", self.book_version, low=1)
        check_currency(self.currency)
        if not isinstance(self.lines, tuple) or not self.lines:
            raise InvalidInvoiceError("lines", "a tuple of at least one line", self.lines)
        for name in ("commitment", "previous"):
            value = getattr(self, name)
            if not (name == "previous" and value is None) and not (isinstance(value, str) and _DIGEST.match(value)):
                raise InvalidInvoiceError(name, "64 hexadecimal digits", value)

    def canonical(self) -> bytes:
        """Return the receipt as JSON with sorted keys, no blanks, UTF-8: the bytes that are hashed and logged."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["lines"] = [{"kind": line.kind.value, "text": line.text, "amount": line.amount} for line in self.lines]
        text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8")

    def digest(self) -> str:
        """Return the SHA-256 of `canonical` in hexadecimal."""
        return hashlib.sha256(self.canonical()).hexdigest()


def verify_receipts(receipts: Sequence[Receipt]) -> None:
    """Pass if each receipt names the digest of the one before it.

    Raises:     InvalidInvoiceError: no receipt at all (nothing was verified), or the first broken link.
    Example:
                >>> verify_receipts([])
                Traceback (most recent call last):
                pricing.errors.InvalidInvoiceError: receipts: expected at least one, got []
    """
    if not receipts:
        raise InvalidInvoiceError("receipts", "at least one", list(receipts))
    for number, (before, after) in enumerate(pairwise(receipts), start=2):
        if after.previous != before.digest():
            raise InvalidInvoiceError(f"receipt {number}", f"the digest {before.digest()} before it", after.previous)


def _check_text(name: str, value: str) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > _TEXT_LIMIT:
        raise InvalidInvoiceError(name, f"a text of 1 to {_TEXT_LIMIT} characters", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise InvalidInvoiceError(name, "text that UTF-8 can carry", "a lone surrogate") from fault
