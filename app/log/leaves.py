"""The leaves of the release log: one schema a kind, canonical JSON, commitments instead of answers.

No leaf holds an answer, an unkeyed hash of one, a key, a row or a person's name. Buyers stand under pseudonyms.
Integers stay within 2⁵³; everything else that is a number is a decimal string, and what is longer (a question, a
schema) is JSON in a text. Which field an auditor checks against what is written in `app.audit.fields`.
"""

from typing import Annotated, Any, TypeAlias

import msgspec

from app.log.leaf_base import Hex, LeafBase, Natural, Text
from app.log.location_leaves import LocationAnswerLeaf, LocationLeaf, LocationSaleLeaf
from app.log.panel_leaves import (
    LateDrawLeaf,
    LateTierLeaf,
    PanelLeaf,
    PanelSaleLeaf,
    PanelStopLeaf,
    PanelThawLeaf,
    RoundLeaf,
)
from tiers.canonical import canonical_bytes

__all__ = [
    "ADJACENCY",
    "BookLeaf",
    "CreditLeaf",
    "DatasetLeaf",
    "DrawLeaf",
    "EpochLeaf",
    "FreezeLeaf",
    "Leaf",
    "PlanLeaf",
    "PlanTier",
    "ReportLeaf",
    "SaleLeaf",
    "SnapshotLeaf",
    "ThawLeaf",
    "WithdrawalLeaf",
    "decode",
    "encode",
    "encode_read",
    "plain_text",
]

ADJACENCY = "add or remove one unit with all its rows"
"""The one notion of neighbours that a dataset's leaf may state."""

Law: TypeAlias = dict[str, Any]
Question: TypeAlias = Annotated[str, msgspec.Meta(max_length=2**24)]  # a request of 4 MiB, spelled in full
Schema: TypeAlias = Annotated[str, msgspec.Meta(max_length=2**22)]
Grain: TypeAlias = Annotated[int, msgspec.Meta(ge=-64, le=64)]


class EpochLeaf(LeafBase, frozen=True, kw_only=True, tag="key-epoch"):
    """A key's number comes into force: the owners' noise secrets, or the signing key (with its public half)."""

    purpose: Text
    epoch: Natural
    public_key: Text | None


class DatasetLeaf(LeafBase, frozen=True, kw_only=True, tag="dataset", omit_defaults=True):
    """A lineage opens, with its unit, adjacency, public salt and budget, and what its owner declares of its columns.

    Args:       schema: the canonical JSON of the declared schema. reserve_minor: the ends of a reserve curve, or none.
                budget_kind: pure, zcdp or approx. budget_nano: in 10⁻⁹ of ε, or of ρ. promise: the ε and δ of an approx
                budget, from which its ρ follows; for no other.
    """

    lineage: Text
    unit: Text
    adjacency: Text
    salt: Text
    budget_kind: Text
    budget_nano: Natural
    schema: Schema
    reserve_minor: Annotated[list[Natural], msgspec.Meta(min_length=2, max_length=2)] | None
    promise: Annotated[list[Text], msgspec.Meta(min_length=2, max_length=2)] | None = None


class SnapshotLeaf(LeafBase, frozen=True, kw_only=True, tag="snapshot"):
    """An immutable snapshot of a lineage, bound to a keyed digest of its content."""

    lineage: Text
    snapshot: Text
    content: Hex
    seal: Hex


class PlanTier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tier as planned and priced."""

    rank: Natural
    law: Law
    epsilon: Text
    level_nano: Natural
    half_width: Text
    price_minor: Natural


class PlanLeaf(LeafBase, frozen=True, kw_only=True, tag="product-plan"):
    """A product: its question on a snapshot, its chain and tiers, and the chain's book in force.

    Args:       question: the canonical JSON of the question in its one form: text, since integers may exceed 2⁵³.
    """

    product: Text
    lineage: Text
    snapshot: Text
    question: Question
    fingerprint: Hex
    chain: Hex
    derivation: Annotated[list[Text], msgspec.Meta(max_length=8)]
    tiers: Annotated[list[PlanTier], msgspec.Meta(min_length=1, max_length=64)]
    currency: Text
    book_version: Natural
    licence: Text


class DrawLeaf(LeafBase, frozen=True, kw_only=True, tag="draw"):
    """A known tier, issued or not: how it was drawn, from which parents, and its hiding commitments."""

    chain: Hex
    place: Natural
    role: Text
    law: Law
    parents: Annotated[list[Law], msgspec.Meta(max_length=2)]
    parent_commitments: Annotated[list[Hex], msgspec.Meta(max_length=2)]
    epoch: Natural
    sampler: Text
    stream: Natural
    grain: Grain
    length: Natural
    commitment: Hex
    key_hash: Hex


class SaleLeaf(LeafBase, frozen=True, kw_only=True, tag="sale"):
    """An order: who (a pseudonym) bought which tier of which chain, what it charged and cost."""

    order: Text
    pseudonym: Text
    product: Text
    chain: Hex
    law: Hex
    charge_nano: Natural
    price_minor: Natural
    currency: Text
    book_version: Natural
    licence: Text


class WithdrawalLeaf(LeafBase, frozen=True, kw_only=True, tag="withdrawal"):
    """A product is taken off sale; what was sold stays sold."""

    product: Text
    reason: Text


class CreditLeaf(LeafBase, frozen=True, kw_only=True, tag="credit-note"):
    """Money of an order given back; its answer stays sold, and its charge stays charged."""

    note: Text
    order: Text
    amount_minor: Natural
    currency: Text
    reason: Text


class BookLeaf(LeafBase, frozen=True, kw_only=True, tag="price-book"):
    """A new version of a chain's book: prices by law, most accurate first."""

    chain: Hex
    book_version: Natural
    currency: Text
    prices_minor: Annotated[dict[Hex, Natural], msgspec.Meta(min_length=1, max_length=64)]


class ReportLeaf(LeafBase, frozen=True, kw_only=True, tag="audit-report"):
    """The market audited itself: which report (its digest), over how many leaves, with what verdict."""

    report: Text
    digest: Hex
    size: Natural
    verdict: Text


class FreezeLeaf(LeafBase, frozen=True, kw_only=True, tag="freeze"):
    """Nothing more of a chain is sold, because of a finding; what was sold stays readable."""

    chain: Hex
    check: Text
    rule: Text


class ThawLeaf(LeafBase, frozen=True, kw_only=True, tag="thaw"):
    """An operator lets a frozen chain be sold again, and says why."""

    chain: Hex
    reason: Text


Leaf: TypeAlias = (
    EpochLeaf
    | DatasetLeaf
    | SnapshotLeaf
    | PlanLeaf
    | DrawLeaf
    | SaleLeaf
    | WithdrawalLeaf
    | CreditLeaf
    | BookLeaf
    | ReportLeaf
    | FreezeLeaf
    | ThawLeaf
    | PanelLeaf
    | RoundLeaf
    | PanelSaleLeaf
    | PanelStopLeaf
    | PanelThawLeaf
    | LateTierLeaf
    | LateDrawLeaf
    | LocationLeaf
    | LocationAnswerLeaf
    | LocationSaleLeaf
)

_DECODER = msgspec.json.Decoder(Leaf)
_ENCODER = msgspec.json.Encoder(order="sorted")  # the canonical form, where every integer is within its bounds


def plain_text(struct: msgspec.Struct) -> str:
    """Return the canonical JSON of a declaration that a leaf quotes in full: sorted keys, no blanks, exact integers."""
    return msgspec.json.encode(struct, order="sorted").decode()


def encode(leaf: Leaf) -> bytes:
    """Return the leaf's canonical bytes: what is hashed into the tree."""
    return canonical_bytes(msgspec.to_builtins(leaf))


def encode_read(leaf: Leaf) -> bytes:
    """Return the canonical bytes of a leaf that was read, fast; of one that no market writes they may be others."""
    return _ENCODER.encode(leaf)


def decode(raw: bytes) -> Leaf:
    """Return the leaf of canonical bytes.

    Raises:     ValueError: not a leaf of a known schema, or not in canonical form (blanks, key order, repeated keys).
    """
    leaf: Leaf = _DECODER.decode(raw)
    if _ENCODER.encode(leaf) != raw and encode(leaf) != raw:
        raise ValueError("leaf: expected canonical JSON, got another encoding of it")
    return leaf
