"""Panels in the log (A1 to A4): menus that keep their ε, rounds in order under one plan, sales within list prices."""

from collections.abc import Mapping, Set
from fractions import Fraction

from cryptography.exceptions import InvalidSignature

from app.audit.reading import UNREADABLE
from app.errors import InvalidRequestError
from app.log.heads import public_key
from app.log.panel_leaves import PanelLeaf, PanelSaleLeaf, RoundLeaf
from app.panels.mechanism import read_plan
from tiers.audit.findings import Finding
from tiers.budget import Ladder, decimal_text, nano_up
from tiers.local.columns.chain import SAMPLER

__all__ = ["PanelAudit", "needing", "signed_round"]


class PanelAudit:
    """What the log has said of panels so far; memory grows with panels and rounds.

    Reports are not in the log: `app.panels.replay` holds a disclosed round against its leaf.
    """

    def __init__(self) -> None:
        self.panels: dict[str, PanelLeaf] = {}
        self.rounds: dict[str, int] = {}
        self._key_hashes: set[str] = set()

    def panel(self, leaf: PanelLeaf) -> list[Finding]:
        """Take a panel that opens: its laws keep each ε and follow from each other, as `read_plan` checks."""
        found, need = needing(leaf.index)
        need(leaf.panel not in self.panels, "A4", "one-panel", leaf.panel, "opened before")
        need(len(set(leaf.domain)) == len(leaf.domain), "A1", "panel-domain", "values that differ", "one twice")
        ordered = leaf.mechanism == "flips"
        need(leaf.promise == ("steps" if ordered else "values"), "A1", "panel-promise", leaf.promise, leaf.mechanism)
        try:
            ladder = Ladder.parse([Fraction(tier.epsilon) for tier in leaf.tiers])
            if [decimal_text(epsilon) for epsilon in ladder] != [tier.epsilon for tier in leaf.tiers]:
                raise ValueError("epsilon: expected its one form, got another")
            read_plan(leaf.mechanism, len(leaf.domain), ladder, [tier.law for tier in leaf.tiers])
            top = nano_up(ladder.epsilons[0])
            need(leaf.budget_nano >= top, "A3", "panel-budget", str(leaf.budget_nano), f"at least {top}, for one round")
        except (*UNREADABLE, InvalidRequestError) as error:
            need(False, "A1", "panel-plan", leaf.mechanism, str(error)[:200])
        prices = [tier.price_minor for tier in leaf.tiers]
        need(prices == sorted(prices, reverse=True), "A3", "panel-prices", str(prices), "prices that never rise")
        self.panels.setdefault(leaf.panel, leaf)
        return found

    def round(self, leaf: RoundLeaf, epochs: Set[int], keys: Mapping[int, str]) -> list[Finding]:
        """Take a closed round: the next one of its panel, under the panel's laws, signed by an announced key."""
        record = leaf.record
        found, need = needing(leaf.index)
        panel, due = self.panels.get(record.panel), self.rounds.get(record.panel, 0) + 1
        need(record.round == due, "A4", "round-order", f"round {record.round}", f"round {due} is due")
        self.rounds[record.panel] = max(record.round, due)
        said = (record.mechanism, record.domain_size, [(tier.epsilon, tier.law) for tier in record.tiers])
        if panel is None:
            need(False, "A4", "panel-of-round", record.panel, "no earlier panel's leaf")
        else:
            planned = (panel.mechanism, len(panel.domain), [(tier.epsilon, tier.law) for tier in panel.tiers])
            need(said == planned, "A1", "laws-of-panel", record.mechanism, "the panel opened with others")
        need(record.reports > 0, "A4", "round-reports", "0 reports", "at least 1")
        need(record.epoch in epochs, "A2", "round-epoch", f"epoch {record.epoch}", "no earlier leaf opens it")
        need(record.sampler == SAMPLER, "A2", "round-sampler", record.sampler, SAMPLER)
        first, *others = [tier.key_hash for tier in record.tiers]
        fresh = [key for key in others if key is not None and key not in self._key_hashes]
        apart = first is None and len(fresh) == len(others) == len(set(fresh))
        need(apart, "A2", "round-keys", "a new key for every step", "one missing, or used before")
        self._key_hashes.update(fresh)
        need(signed_round(leaf, keys.get(leaf.key)), "A4", "round-signature", f"key {leaf.key}", "it does not verify")
        return found

    def sale(self, leaf: PanelSaleLeaf) -> list[Finding]:
        """Take a sale: of a tier of a closed round, at most at its list price, under the panel's terms."""
        found, need = needing(leaf.index)
        panel, closed = self.panels.get(leaf.panel), self.rounds.get(leaf.panel, 0)
        if panel is None or not 1 <= leaf.round <= closed:
            need(False, "A3", "round-of-sale", f"round {leaf.round} of {leaf.panel}", "no earlier leaf closes it")
            return found
        if leaf.rank >= len(panel.tiers):
            need(False, "A3", "tier-of-round", f"tier {leaf.rank}", f"{len(panel.tiers)} tiers")
            return found
        price = panel.tiers[leaf.rank].price_minor
        need(leaf.price_minor <= price, "A3", "panel-price", str(leaf.price_minor), f"list {price}")
        need(leaf.currency == panel.currency, "A3", "panel-currency", leaf.currency, panel.currency)
        need(leaf.licence == panel.licence, "A3", "panel-licence", leaf.licence, panel.licence)
        return found


def needing(index: int) -> "tuple[list[Finding], _Need]":
    """Return a list, and what adds a finding about a leaf to it where something does not hold."""
    found: list[Finding] = []
    return found, _Need(found, f"leaf {index}")


class _Need:
    def __init__(self, found: list[Finding], where: str) -> None:
        self.found, self.where = found, where

    def __call__(self, holds: bool, check: str, rule: str, claimed: str, otherwise: str) -> None:
        if not holds:
            self.found.append(Finding(check, rule, self.where, claimed[:60], otherwise))


def signed_round(leaf: RoundLeaf, public: str | None) -> bool:
    """Return whether a round's record is signed by the key that a public half (hex) is of."""
    if public is None:
        return False
    try:
        public_key(public).verify(bytes.fromhex(leaf.signature), leaf.record.encode())
    except (InvalidSignature, ValueError):
        return False
    return True
