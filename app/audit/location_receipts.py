"""An order of an answer about places verified offline: receipt, leaves of panel, answer and sale, opening, answer."""

import hmac
from collections.abc import Collection
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.audit.locations import LocationAudit
from app.audit.need import Need
from app.audit.panel_receipts import PanelBundle, check_papers, check_sale, verify_panel_bundle
from app.audit.reading import UNREADABLE
from app.audit.receipts import Bundle, verify_bundle
from app.errors import AppError
from app.locations.terms import ADJACENCY, MEASURE, coordinate_of
from app.locations.transcript import committed
from app.log.heads import TreeHead, public_keys
from app.log.leaf_base import Hex
from app.log.location_leaves import LocationAnswerLeaf, LocationLeaf, LocationSaleLeaf
from app.log.proofs import Proved
from tiers.audit.findings import Finding
from tiers.budget import decimal_text, nano_up

__all__ = ["LocationBundle", "verify_any_bundle", "verify_location_bundle"]


class LocationBundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One order of an answer with all that proves it: what `GET /v1/orders/{order}/proof` gives.

    Args:       panel, question, sale: leaves with their paths to the head. opening: of the commitment to the answer.
    """

    receipt: dict[str, Any]
    head: TreeHead
    panel: Proved
    question: Proved
    sale: Proved
    opening: Hex
    answer: dict[str, Any]


def verify_any_bundle(
    raw: bytes, publics: Collection[str]
) -> tuple[Bundle | PanelBundle | LocationBundle, tuple[Finding, ...]]:
    """Return a bundle of any kind, of a product's order, a panel's or an answer's, with what is wrong with it.

    Raises:     msgspec.MsgspecError: none of them. AuditError: no key, or one that is none.
    """
    try:
        location = msgspec.json.decode(raw, type=LocationBundle)
        return location, verify_location_bundle(location, publics)
    except msgspec.ValidationError:
        pass
    try:
        panel = msgspec.json.decode(raw, type=PanelBundle)
    except msgspec.ValidationError:
        bundle = msgspec.json.decode(raw, type=Bundle)
        return bundle, verify_bundle(bundle, publics)
    return panel, verify_panel_bundle(panel, publics)


def verify_location_bundle(bundle: LocationBundle, publics: Collection[str]) -> tuple[Finding, ...]:
    """Return what is wrong with a bundle; nothing of it is believed but what a trusted key signed.

    Args:       publics: the market's public keys (hex), got from elsewhere; one of them must have signed each part.
    Raises:     AuditError: no key, or one that is none.
    """
    trusted = public_keys(publics)
    found: list[Finding] = []
    try:
        _verify(bundle, trusted, found)
    except (msgspec.MsgspecError, AppError, LookupError, *UNREADABLE) as error:
        found.append(Finding("A4", "unreadable-bundle", "bundle", "an order with its proof", type(error).__name__))
    return tuple(found)


def _verify(bundle: LocationBundle, trusted: list[Ed25519PublicKey], found: list[Finding]) -> None:
    receipt, need = bundle.receipt, Need(found, "bundle")
    places = {"panel": bundle.panel, "question": bundle.question, "sale": bundle.sale}
    leaves, hashes = check_papers(receipt, bundle.head, places.items(), trusted, need)
    panel, question, sale = leaves
    if not (
        isinstance(panel, LocationLeaf)
        and isinstance(question, LocationAnswerLeaf)
        and isinstance(sale, LocationSaleLeaf)
    ):
        need(False, "A4", "leaf-kind", "leaves of panel, answer and sale", "others")
        return
    need(panel.index < question.index < sale.index, "A4", "leaf-order", "panel, answer, sale", "another order")
    check_sale(receipt, sale, hashes[2], need)
    audit = LocationAudit()
    found += audit.panel(panel, {panel.snapshot: panel.lineage})
    audit.answered[panel.panel] = question.number - 1  # what came before is the auditor's to see
    found += [*audit.answer(question), *audit.sale(sale)]
    terms = audit.terms[panel.panel]
    said = [receipt[name] for name in ("panel", "chain", "snapshot", "measure", "adjacency", "unit", "diagonal")]
    due = [panel.panel, question.query, panel.snapshot, MEASURE, ADJACENCY, panel.unit, decimal_text(terms.diagonal)]
    need(said == due, "A1", "promise-of-receipt", said, "the panel's leaf says another")
    spent = nano_up(coordinate_of("budget", str(receipt["epsilon"])))
    need(spent == question.budget_nano, "A1", "budget-of-receipt", receipt["epsilon"], str(question.budget_nano))
    most, charge = question.most_nano, receipt["charge_nano"]
    same = most is None or (type(charge) is int and charge in (0, most))
    need(same, "A3", "charge-of-receipt", charge, f"0 or {most}")
    sealed = committed(bytes.fromhex(bundle.opening), bundle.answer)
    need(hmac.compare_digest(sealed, question.answer), "A7", "commitment", question.answer, sealed[:16])
    need(
        question.answer == receipt["commitment"], "A7", "answer-of-receipt", receipt["commitment"], question.answer[:16]
    )
