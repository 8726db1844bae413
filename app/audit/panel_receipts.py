"""A panel's order verified offline: receipt, leaves of panel, round and sale, inclusion, opening, counts."""

import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.audit.need import Need
from app.audit.panels import PanelAudit, signed_round
from app.audit.reading import UNREADABLE
from app.log.axes import metric_of
from app.log.heads import TreeHead, public_keys, verify_document
from app.log.leaf_base import Hex
from app.log.leaves import Leaf
from app.log.location_leaves import LocationSaleLeaf
from app.log.panel_leaves import (
    LateDrawLeaf,
    LateTierLeaf,
    PanelLeaf,
    PanelSaleLeaf,
    RoundLeaf,
    TierRecord,
    round_identity,
    tier_identity,
)
from app.log.proofs import Proved
from app.panels.rounds import counts_commitment
from tiers.audit.findings import Finding

__all__ = ["PanelBundle", "check_papers", "check_sale", "verify_panel_bundle"]

_SHARED = ("order", "pseudonym", "price_minor", "currency", "licence")
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class PanelBundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One order of a panel's tier with all that proves it: what `GET /v1/orders/{order}/proof` gives.

    Args:       panel, round, sale: leaves with their paths to the head. opening: of the commitment to the tier's
                counts. counts: what every estimate of the tier is read off. added, drawn: of an added tier, the leaves
                by which it and those before it joined the menu, and by which they were drawn in the round.
    """

    receipt: dict[str, Any]
    head: TreeHead
    panel: Proved
    round: Proved
    sale: Proved
    opening: Hex
    counts: list[_Count]
    added: list[Proved] = []
    drawn: list[Proved] = []


def verify_panel_bundle(bundle: PanelBundle, publics: Collection[str]) -> tuple[Finding, ...]:
    """Return what is wrong with a bundle; nothing of it is believed but what a trusted key signed.

    Args:       publics: the market's public keys (hex), got from elsewhere; one of them must have signed each part.
    Raises:     AuditError: no key, or one that is none.
    """
    trusted = public_keys(publics)
    found: list[Finding] = []
    try:
        _verify(bundle, trusted, publics, found)
    except (msgspec.MsgspecError, LookupError, *UNREADABLE) as error:
        found.append(Finding("A4", "unreadable-bundle", "bundle", "an order with its proof", type(error).__name__))
    return tuple(found)


def _verify(
    bundle: PanelBundle, trusted: list[Ed25519PublicKey], publics: Collection[str], found: list[Finding]
) -> None:
    receipt, need = bundle.receipt, Need(found, "bundle")
    places = [("panel", bundle.panel), ("round", bundle.round), ("sale", bundle.sale)]
    late_ones = [("late", each) for each in (*bundle.added, *bundle.drawn)]
    leaves, hashes = check_papers(receipt, bundle.head, [*places, *late_ones], trusted, need)
    panel, closed, sale, *late = leaves
    if not (isinstance(panel, PanelLeaf) and isinstance(closed, RoundLeaf) and isinstance(sale, PanelSaleLeaf)):
        need(False, "A4", "leaf-kind", "leaves of panel, round and sale", "others")
        return
    need(panel.index < closed.index < sale.index, "A4", "leaf-order", "panel, round, sale", "another order")
    check_sale(receipt, sale, hashes[2], need)
    added = [leaf for leaf in late if isinstance(leaf, LateTierLeaf)]
    drawn = [leaf for leaf in late if isinstance(leaf, LateDrawLeaf)]
    _check_round((panel, closed, sale), sorted([*added, *drawn], key=lambda leaf: leaf.index), publics, found)
    tier = [*closed.record.tiers, *map(_late_record, added, drawn)][sale.rank]
    need(hashes[0] == receipt["fingerprint"], "A1", "panel-of-receipt", receipt["fingerprint"], hashes[0][:16])
    named = (round_identity(sale.panel, sale.round), tier_identity(sale.rank, tier.epsilon, tier.law), tier.epsilon)
    said = (receipt["chain"], receipt["law"], receipt["epsilon"])
    need(said == named, "A1", "tier-of-receipt", receipt["law"], "the sold tier has another name, or another ε")
    told, due = receipt.get("guarantee"), _promises(panel, tier.epsilon)
    need(told in due, "A1", "promise-of-receipt", told, due[0] or "ε for any two values, which needs no word")
    counts = np.array(bundle.counts, np.int64)
    sealed = counts_commitment(bytes.fromhex(bundle.opening), counts)
    need(hmac.compare_digest(sealed, tier.counts), "A7", "commitment", tier.counts, sealed[:16])
    need(tier.counts == receipt["commitment"], "A7", "counts-of-round", receipt["commitment"], tier.counts[:16])


def _promises(panel: PanelLeaf, epsilon: str) -> list[str | None]:
    """Return what a receipt may say of ε; of flips that opened before leaves told it, older receipts say nothing."""
    metric = metric_of([panel.size]) if panel.metric is None and panel.mechanism == "flips" else panel.metric
    told = None if metric is None else metric.text(Fraction(epsilon))
    return [told] if panel.metric is not None else [told, None]


def check_papers(
    receipt: Mapping[str, Any],
    head: TreeHead,
    proofs: Iterable[tuple[str, Proved]],
    trusted: Sequence[Ed25519PublicKey],
    need: Need,
) -> tuple[list[Leaf], list[str]]:
    """Return a bundle's leaves and their hashes: receipt and head signed by trusted keys, each leaf below the head."""
    body = {name: value for name, value in receipt.items() if name != "signature"}
    signed = any(verify_document("receipt", body, str(receipt.get("signature")), key) for key in trusted)
    need(signed, "A4", "receipt-signature", f"key {receipt.get('key')}", "no trusted key signed the receipt")
    need(any(head.signed_by(key) for key in trusted), "A4", "head-signature", f"key {head.key}", "no trusted key")
    leaves, hashes = list[Leaf](), list[str]()
    for name, proved in proofs:
        leaf, digest, included = proved.read(head)
        need(included, "A4", "inclusion", f"{name}: leaf {leaf.index}", "the proof does not lead to the head")
        leaves.append(leaf)
        hashes.append(digest.hex())
    return leaves, hashes


def check_sale(receipt: Mapping[str, Any], sale: PanelSaleLeaf | LocationSaleLeaf, digest: str, need: Need) -> None:
    """Hold a receipt against its sale's leaf."""
    need(digest == receipt["leaf_hash"], "A4", "leaf-hash", receipt["leaf_hash"], digest[:16])
    need(sale.index == receipt["leaf_index"], "A4", "leaf-index", receipt["leaf_index"], str(sale.index))
    for name in _SHARED:
        same = getattr(sale, name) == receipt[name]
        need(same, "A3", "receipt-of-leaf", name, "the receipt says it otherwise than the log")


def _check_round(
    leaves: tuple[PanelLeaf, RoundLeaf, PanelSaleLeaf],
    late: Sequence[LateTierLeaf | LateDrawLeaf],
    publics: Collection[str],
    found: list[Finding],
) -> None:
    """The menu keeps its ε, the round is the panel's own and signed, the sale within its terms: as in a whole log."""
    panel, closed, sale = leaves
    audit = PanelAudit()
    found += audit.panel(panel)
    audit.rounds[panel.panel] = closed.record.round - 1  # what came before is the auditor's to see
    signer = [public for public in publics if signed_round(closed, public)]
    found += audit.round(closed, {closed.record.epoch}, {closed.key: signer[0]} if signer else {})
    for leaf in late:
        found += audit.late_tier(leaf) if isinstance(leaf, LateTierLeaf) else audit.late_draw(leaf)
    last = max((leaf.index for leaf in late), default=closed.index)
    if last > sale.index or any(isinstance(leaf, LateDrawLeaf) and leaf.index < closed.index for leaf in late):
        found.append(Finding("A4", "leaf-order", "bundle", "panel, round, added tier, sale", "another order"))
    found += audit.sale(sale)
    if (sale.panel, sale.round) != (closed.record.panel, closed.record.round):
        found.append(
            Finding("A3", "round-of-sale", "bundle", f"round {sale.round}", "the round that is shown is another")
        )


def _late_record(tier: LateTierLeaf, drawn: LateDrawLeaf) -> TierRecord:
    """An added tier of a round as its record: its law from the menu's leaf, its commitments from its draw's."""
    return TierRecord(
        epsilon=tier.tier.epsilon,
        law=tier.tier.law,
        commitment=drawn.commitment,
        counts=drawn.counts,
        key_hash=drawn.key_hash,
    )
