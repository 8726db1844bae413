"""What a buyer holds, and how it is verified offline: receipt, leaves of sale and draw, inclusion, opening, answer."""

from collections.abc import Collection
from typing import Any

import msgspec

from app.audit.need import Need
from app.audit.reading import UNREADABLE
from app.log.heads import TreeHead, public_keys, verify_document
from app.log.leaf_base import Hex
from app.log.leaves import DrawLeaf, SaleLeaf
from app.log.proofs import Proved
from app.queries.readings import joint_half_width
from tiers.audit.findings import Finding
from tiers.budget import decimal_text
from tiers.chain import CONFIDENCE, answer_bytes
from tiers.identity import TierLaw, commitment

__all__ = ["Bundle", "verify_bundle"]

_SHARED = ("order", "pseudonym", "chain", "law", "charge_nano", "price_minor", "currency", "book_version", "licence")


class Bundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One order with all that proves it: what `GET /v1/orders/{order}/proof` gives, and a file keeps.

    Args:       leaf: the sale's, as it is in the log. law: the tier's law in full. proof: the path from leaf to head.
                draw: the leaf of the draw that is sold: the log's commitment to its answer, which auditors replay.
                draw_proof: its path to the same head.
    """

    receipt: dict[str, Any]
    leaf: dict[str, Any]
    law: dict[str, Any]
    opening: Hex
    answer: dict[str, Any]
    head: TreeHead
    proof: list[Hex]
    draw: dict[str, Any]
    draw_proof: list[Hex]


def verify_bundle(bundle: Bundle, publics: Collection[str]) -> tuple[Finding, ...]:
    """Return what is wrong with a bundle; nothing of it is believed but what a trusted key signed.

    Args:       publics: the market's public keys (hex), got from elsewhere; one of them must have signed each part.
    Raises:     AuditError: no key, or one that is none.
    """
    trusted = public_keys(publics)
    found: list[Finding] = []
    need = Need(found, "bundle")
    receipt, head = bundle.receipt, bundle.head
    body = {name: value for name, value in receipt.items() if name != "signature"}
    try:
        signature = str(receipt.get("signature"))
        signed = any(verify_document("receipt", body, signature, public) for public in trusted)
        need(signed, "A4", "receipt-signature", f"key {receipt.get('key')}", "no trusted key signed the receipt")
        leaf, digest, included = Proved(leaf=bundle.leaf, proof=bundle.proof).read(head)
        need(digest.hex() == receipt.get("leaf_hash"), "A4", "leaf-hash", receipt.get("leaf_hash"), digest.hex()[:16])
        sale = isinstance(leaf, SaleLeaf) and leaf.index == receipt.get("leaf_index")
        need(sale, "A4", "leaf-index", receipt.get("leaf_index"), "the leaf of another place or kind")
        for name in _SHARED:
            same = getattr(leaf, name, None) == receipt.get(name)
            need(same, "A3", "receipt-of-leaf", name, "the receipt says it otherwise than the log")
        need(any(head.signed_by(key) for key in trusted), "A4", "head-signature", f"key {head.key}", "no trusted key")
        need(included, "A4", "inclusion", f"leaf {leaf.index} of {head.size}", "the proof does not lead to the head")
        _check_draw(bundle, leaf.index, need)
        _check_answer(bundle, need)
    except (msgspec.MsgspecError, LookupError, *UNREADABLE) as error:
        found.append(Finding("A4", "unreadable-bundle", "bundle", "an order with its proof", type(error).__name__))
    return tuple(found)


def _check_draw(bundle: Bundle, sold: int, need: Need) -> None:
    """The receipt's commitment is the log's: else one buyer could be sold an answer that no auditor ever sees."""
    receipt, head = bundle.receipt, bundle.head
    draw, _, included = Proved(leaf=bundle.draw, proof=bundle.draw_proof).read(head)
    need(included, "A4", "draw-inclusion", f"leaf {draw.index} of {head.size}", "the proof does not lead to the head")
    if not isinstance(draw, DrawLeaf):
        need(False, "A2", "draw-of-sale", f"leaf {draw.index}", "no draw's leaf")
        return
    same = (draw.chain, TierLaw.from_document(draw.law).identity) == (receipt["chain"], receipt["law"])
    need(same and draw.index < sold, "A2", "draw-of-sale", f"leaf {draw.index}", "not the sold tier's, before its sale")
    sealed = draw.commitment == receipt["commitment"]
    need(sealed, "A7", "answer-of-draw", receipt["commitment"], draw.commitment[:16])


def _check_answer(bundle: Bundle, need: Need) -> None:
    receipt, answer = bundle.receipt, bundle.answer
    law = TierLaw.from_document(bundle.law)
    need(law.identity == receipt["law"], "A1", "law", receipt["law"], law.identity[:16])
    epsilon = decimal_text(law.epsilon())
    need(receipt["epsilon"] == answer["epsilon"] == epsilon, "A1", "guarantee", receipt["epsilon"], epsilon)
    half_width = str(law.noise.half_width(CONFIDENCE))
    for stated in (answer["half_width"], receipt.get("half_width") or half_width):
        need(stated == half_width, "A1", "error-bar", stated, half_width)
    joint = str(joint_half_width(law.noise, CONFIDENCE))
    need(receipt.get("joint_half_width") in (None, joint), "A1", "error-bar", receipt.get("joint_half_width"), joint)
    need(
        answer["chain"] == receipt["chain"] and answer["law"] == receipt["law"],
        "A2",
        "answer-of-receipt",
        "",
        "another",
    )
    values = [int(value) for value in answer["values"]]
    sealed = commitment(bytes.fromhex(bundle.opening), receipt["chain"], law, answer_bytes(values))
    need(sealed == receipt["commitment"], "A7", "commitment", receipt["commitment"], sealed[:16])
