"""Every field of every leaf: the rule that a false one breaks, or why nobody without the market's keys can check it."""

from typing import TypeAlias

__all__ = ["CHECKED", "PARTLY", "UNCHECKED"]

Field: TypeAlias = tuple[str, str]

_EVERY = (
    "key-epoch",
    "dataset",
    "snapshot",
    "product-plan",
    "draw",
    "sale",
    "withdrawal",
    "credit-note",
    "price-book",
    "audit-report",
    "freeze",
    "thaw",
)

CHECKED: dict[Field, str] = {
    **{(kind, "index"): "A4 leaf-index" for kind in _EVERY},
    **{(kind, "at"): "A4 time" for kind in _EVERY},
    ("key-epoch", "purpose"): "A4 key-purpose",
    ("key-epoch", "epoch"): "A4 key-number",
    ("key-epoch", "public_key"): "A4 announced-key",
    ("dataset", "lineage"): "A4 dataset-of-snapshot",
    ("dataset", "unit"): "A1 unit",
    ("dataset", "adjacency"): "A1 adjacency",
    ("dataset", "salt"): "A1 salt",
    ("dataset", "budget_kind"): "A4 unreadable-leaf",
    ("dataset", "budget_nano"): "A3 budget",
    ("dataset", "promise"): "A3 promise",
    ("dataset", "schema"): "A1 question-of-schema",
    ("dataset", "reserve_minor"): "A3 price",
    ("snapshot", "lineage"): "A4 dataset-of-snapshot",
    ("snapshot", "snapshot"): "A4 snapshot-of-plan",
    ("snapshot", "content"): "A4 one-content",
    ("product-plan", "product"): "A3 planned",
    ("product-plan", "lineage"): "A1 chain-identity",
    ("product-plan", "snapshot"): "A1 snapshot-of-lineage",
    ("product-plan", "question"): "A1 fingerprint",
    ("product-plan", "fingerprint"): "A1 fingerprint",
    ("product-plan", "chain"): "A1 chain-identity",
    ("product-plan", "derivation"): "A1 derivation",
    ("product-plan", "tiers"): "A2 planned",
    ("product-plan", "currency"): "A3 book-version",
    ("product-plan", "book_version"): "A3 book-version",
    ("product-plan", "licence"): "A3 licence",
    ("plan-tier", "rank"): "A1 rank-of-chain",
    ("plan-tier", "law"): "A1 change-set",
    ("plan-tier", "epsilon"): "A1 guarantee",
    ("plan-tier", "level_nano"): "A1 level",
    ("plan-tier", "half_width"): "A1 error-bar",
    ("plan-tier", "price_minor"): "A3 book",
    ("draw", "chain"): "A2 planned",
    ("draw", "place"): "A2 order-of-drawing",
    ("draw", "role"): "A4 unreadable-leaf",
    ("draw", "law"): "A2 planned",
    ("draw", "parents"): "A2 nearest-parents",
    ("draw", "parent_commitments"): "A2 nearest-parents",
    ("draw", "epoch"): "A2 epoch",
    ("draw", "sampler"): "A2 sampler",
    ("draw", "stream"): "A4 unreadable-leaf",
    ("draw", "grain"): "A1 draw-shape",
    ("draw", "length"): "A1 draw-shape",
    ("draw", "commitment"): "A7 commitment",
    ("draw", "key_hash"): "A7 key",
    ("sale", "order"): "A3 one-leaf-an-order",
    ("sale", "product"): "A3 product-of-chain",
    ("sale", "chain"): "A3 product-of-chain",
    ("sale", "law"): "A3 planned",
    ("sale", "charge_nano"): "A3 increment",
    ("sale", "price_minor"): "A3 price",
    ("sale", "currency"): "A3 book-version",
    ("sale", "book_version"): "A3 book-version",
    ("sale", "licence"): "A3 licence",
    ("withdrawal", "product"): "A4 product-of-withdrawal",
    ("credit-note", "note"): "A4 one-note",
    ("credit-note", "order"): "A3 credit",
    ("credit-note", "amount_minor"): "A3 credit",
    ("credit-note", "currency"): "A3 credit-currency",
    ("price-book", "chain"): "A3 book-of-chain",
    ("price-book", "book_version"): "A3 book-version",
    ("price-book", "currency"): "A3 book-version",
    ("price-book", "prices_minor"): "A3 book",
    ("audit-report", "report"): "A4 one-report",
    ("audit-report", "size"): "A4 report-size",
    ("freeze", "chain"): "A4 chain-of-freeze",
    ("thaw", "chain"): "A4 frozen-before-thaw",
}
"""The rule whose finding a false value brings up (one of several, for most); a test falsifies each."""

PARTLY: dict[Field, str] = {
    **{(kind, "at"): "form and order only; no leaf proves the hour" for kind in _EVERY},
    (
        "dataset",
        "schema",
    ): "questions must fit it; that the owner's file holds such columns, and that one person has "
    "one unit, is the owner's word",
    ("dataset", "budget_nano"): "charges stay within it; its amount is the owner's choice",
    ("snapshot", "content"): "a keyed digest: it comes once in the log; that it is the rows' needs the market's key",
    (
        "draw",
        "commitment",
    ): "opened at or below the highest issued tier; above it, it stays closed until sold",
    ("draw", "key_hash"): "opened for draws whose parents are issued; the noise of a truth draw is never shown",
    ("sale", "price_minor"): "an upper bound; upgrades are credited and analysts pay nothing, and roles are not logged",
}
"""What a check of the field leaves open."""

UNCHECKED: dict[Field, str] = {
    ("snapshot", "seal"): "a digest of the snapshot's file under the market's key",
    ("sale", "pseudonym"): "who bought is the market's to know; no check of privacy needs it",
    ("withdrawal", "reason"): "words",
    ("credit-note", "reason"): "words",
    ("audit-report", "digest"): "of the market's report on itself: hold the report you are given against it",
    ("audit-report", "verdict"): "the market's word on itself; audit it yourself",
    ("freeze", "check"): "the market's word on why it stopped a chain; that it stopped is checked",
    ("freeze", "rule"): "the market's word on why it stopped a chain; that it stopped is checked",
    ("thaw", "reason"): "words",
}
"""Fields that no check reads, and why."""
