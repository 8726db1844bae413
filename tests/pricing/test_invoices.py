"""Papers: totals that add up, credits that never exceed them, receipts that say what was sold."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.book import PriceBook, TierPrice
from pricing.errors import InvalidInvoiceError, InvalidPriceError, OvercreditError
from pricing.invoices import Charge, CreditNote, Invoice, Line, Receipt, allot, credit, lines_of
from pricing.money import MONEY_LIMIT
from pricing.quote import Holding, quote

BOOK = PriceBook("c", 4, "EUR", (TierPrice("tsg:1", 3000), TierPrice("tsg:1/2", 1200)))
UPGRADE = Invoice("INV-2", "buyer", "EUR", lines_of(quote(BOOK, "tsg:1", Holding(2, 1200), reserve=2500)))
RECEIPT = Receipt(
    quote(BOOK, "tsg:1", Holding(2, 1200)),
    order="o1",
    pseudonym="b7",
    at="2026-05-01T10:00:00Z",
    fingerprint="f1",
    snapshot="s1",
    licence="licence 1",
    epsilon="0.5",
    charge_nano=500_000_000,
    commitment="ab" * 32,
    leaf_index=7,
    leaf_hash="cd" * 32,
    key=1,
    same_as_above="0.5679",
    half_width="9",
    joint_half_width="11",
    guarantee="ε = 0.5 for each step",
)


@given(
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.one_of(st.none(), st.integers(1, 3)),
    st.integers(0, 6000),
    st.integers(0, 6000),
)
def test_the_lines_of_a_quote_add_up_to_it(high, low, rank, net_paid, reserve):
    book = PriceBook("c", 1, "EUR", (TierPrice("a", max(high, low)), TierPrice("b", min(high, low))))
    for law in "ab":
        offer = quote(book, law, Holding(rank, net_paid), reserve=reserve)
        assert sum(line.amount for line in lines_of(offer)) == offer.amount


def test_an_upgrade_shows_list_credit_and_reserve():
    assert [(line.kind.value, line.amount) for line in UPGRADE.lines] == [
        ("LIST", 3000),
        ("UPGRADE_CREDIT", -1200),
        ("RESERVE", 700),
    ]
    assert (UPGRADE.total, UPGRADE.tax) == (2500, None)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3000)), max_size=8))
def test_credits_never_exceed_a_line_or_the_invoice(wishes):
    notes: list[CreditNote] = []
    for number, (line_no, amount) in enumerate(wishes):
        with suppress(OvercreditError):
            notes.append(credit(UPGRADE, line_no, amount, "pricing error", prior=notes, number=f"CN-{number}"))
        for place, line in enumerate(UPGRADE.lines, start=1):
            assert sum(note.amount for note in notes if note.line_no == place) <= max(0, line.amount)
        assert sum(note.amount for note in notes) <= UPGRADE.total


def test_what_is_left_can_be_credited_to_the_last_cent():
    first = credit(UPGRADE, 1, 2000, "failed audit", prior=[], number="CN-1")
    with pytest.raises(OvercreditError, match="invoice INV-2: expected a credit of at most 500"):
        credit(UPGRADE, 1, 501, "failed audit", prior=[first], number="CN-2")
    with pytest.raises(OvercreditError, match="line 3 of INV-2: expected a credit of at most 700"):
        credit(UPGRADE, 3, 701, "failed audit", prior=[], number="CN-2")
    assert credit(UPGRADE, 3, 500, "failed audit", prior=[first], number="CN-2").amount == 500
    with pytest.raises(OvercreditError, match="line 2"):
        credit(UPGRADE, 2, 1, "a credit line gives nothing back", prior=[], number="CN-2")


def test_notes_of_another_invoice_used_numbers_and_missing_lines_are_refused():
    first = credit(UPGRADE, 1, 1, "x", prior=[], number="CN-1")
    for line_no, prior, number in (
        (4, [], "CN-2"),
        (1, [first], "CN-1"),
        (1, [], "INV-2"),
        (1, [first, first], "CN-2"),
        (1, [replace(first, invoice="INV-9")], "CN-2"),
    ):
        with pytest.raises(InvalidInvoiceError):
            credit(UPGRADE, line_no, 1, "x", prior=prior, number=number)


@pytest.mark.parametrize(
    ("kind", "amount"),
    [
        (Charge.LIST, -1),
        (Charge.RESERVE, -1),
        (Charge.UPGRADE_CREDIT, 1),
        (Charge.REFUND, 1),
        (Charge.SAMPLE, 1),
        (Charge.INTERNAL_ZERO, -1),
        ("LIST", 1),
    ],
)
def test_a_line_of_the_wrong_sign_or_kind_is_refused(kind, amount):
    with pytest.raises(InvalidInvoiceError):
        Line(kind, "x", amount)


@pytest.mark.parametrize("amount", [0.5, True, MONEY_LIMIT + 1, -MONEY_LIMIT - 1])
def test_a_line_that_is_not_minor_units_is_refused(amount):
    with pytest.raises(InvalidPriceError):
        Line(Charge.LIST, "x", amount)


@pytest.mark.parametrize("text", ["", "  ", "x" * 1025, None, "\ud800"])
def test_texts_that_cannot_be_printed_or_hashed_are_refused(text):
    with pytest.raises(InvalidInvoiceError):
        Line(Charge.LIST, text, 1)
    with pytest.raises(InvalidInvoiceError):
        replace(RECEIPT, order=text)


def test_malformed_invoices_and_notes_are_refused():
    line = Line(Charge.LIST, "x", 1)
    for fields in (
        ("", "b", "EUR", (line,)),
        ("n", "", "EUR", (line,)),
        ("n", "b", "EUR", ()),
        ("n", "b", "EUR", [line]),
        ("n", "b", "EUR", (Line(Charge.REFUND, "x", -1),)),
    ):
        with pytest.raises(InvalidInvoiceError):
            Invoice(*fields)
    for fields in (("n", "b", "eur", (line,)), ("n", "b", "EUR", (Line(Charge.LIST, "x", MONEY_LIMIT), line))):
        with pytest.raises(InvalidPriceError):
            Invoice(*fields)
    for line_no, amount in ((0, 1), (1, 0), (1, -5), (1.0, 1), (1, 0.5)):
        with pytest.raises(InvalidPriceError):
            CreditNote("CN", "INV", line_no, amount, "x")
    with pytest.raises(InvalidInvoiceError):
        CreditNote("CN", "INV", 1, 1, "")


def test_a_receipt_says_what_was_quoted_and_sold():
    assert RECEIPT.document() == {
        "at": "2026-05-01T10:00:00Z",
        "book_version": 4,
        "chain": "c",
        "charge_nano": 500_000_000,
        "charge_type": "LIST",
        "commitment": "ab" * 32,
        "credit_minor": 1200,
        "currency": "EUR",
        "epsilon": "0.5",
        "fingerprint": "f1",
        "guarantee": "ε = 0.5 for each step",
        "half_width": "9",
        "joint_half_width": "11",
        "key": 1,
        "law": "tsg:1",
        "leaf_hash": "cd" * 32,
        "leaf_index": 7,
        "licence": "licence 1",
        "list_minor": 3000,
        "order": "o1",
        "previous": None,
        "price_minor": 1800,
        "pseudonym": "b7",
        "reserve_minor": 0,
        "same_as_above": "0.5679",
        "snapshot": "s1",
    }
    assert replace(RECEIPT, internal=True).document()["charge_type"] == "INTERNAL_ZERO"


@pytest.mark.parametrize(
    "changes",
    [
        {"order": " "},
        {"licence": ""},
        {"epsilon": 0.5},
        {"epsilon": "1e9"},
        {"epsilon": "0.1\n"},
        {"epsilon": "٣"},
        {"charge_nano": -1},
        {"charge_nano": 0.5},
        {"leaf_index": -1},
        {"commitment": "ab"},
        {"commitment": None},
        {"leaf_hash": None},
        {"previous": "AB" * 32},
        {"previous": "ab" * 32 + "\n"},
    ],
)
def test_a_malformed_receipt_is_refused(changes):
    with pytest.raises((InvalidInvoiceError, InvalidPriceError)):
        replace(RECEIPT, **changes)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=4),
    st.lists(st.integers(1, 40), max_size=6),
)
def test_an_allotted_credit_is_exactly_what_lines_and_invoice_still_admit(amounts, wishes):
    invoice = Invoice("INV-1", "b", "EUR", tuple(Line(Charge.LIST, "tier", amount) for amount in amounts))
    notes = []
    for wish in wishes:
        left = invoice.total - sum(note.amount for note in notes)
        if wish > left:
            with pytest.raises(OvercreditError, match=f"at most {left}"):
                allot(invoice, wish, prior=notes)
            continue
        shares = allot(invoice, wish, prior=notes)
        assert sum(amount for _, amount in shares) == wish
        assert [line for line, _ in shares] == sorted({line for line, _ in shares})
        for line, amount in shares:
            notes.append(credit(invoice, line, amount, "r", prior=notes, number=f"CN-{len(notes) + 1}"))
    for number, amount in enumerate(amounts, start=1):
        assert sum(note.amount for note in notes if note.line_no == number) <= amount


def test_a_line_is_credited_in_full_and_not_a_cent_more():
    invoice = Invoice("INV-1", "b", "EUR", (Line(Charge.LIST, "tier", 10), Line(Charge.RESERVE, "reserve", 11)))
    assert credit(invoice, 1, 10, "r", prior=[], number="CN-1").amount == 10
    with pytest.raises(OvercreditError, match="line 1 of INV-1: expected a credit of at most 10"):
        credit(invoice, 1, 11, "r", prior=[], number="CN-1")


def test_a_credited_upgrade_is_bounded_by_what_was_paid_not_by_the_list_price():
    lines = (Line(Charge.LIST, "tier", 3000), Line(Charge.UPGRADE_CREDIT, "paid before", -1200))
    invoice = Invoice("INV-1", "b", "EUR", lines)
    assert allot(invoice, 1800, prior=[]) == ((1, 1800),)
    with pytest.raises(OvercreditError, match="at most 1800"):
        allot(invoice, 1801, prior=[])
    with pytest.raises(OvercreditError):
        credit(invoice, 2, 1, "r", prior=[], number="CN-1")
