"""Panels in the log (A1 to A4): menus that keep their ε, rounds in order under one plan, sales within list prices."""

from collections.abc import Mapping, Set

from cryptography.exceptions import InvalidSignature

from app.audit.need import Need
from app.audit.reading import UNREADABLE
from app.errors import InvalidRequestError
from app.log.heads import public_key
from app.log.panel_leaves import (
    LateDrawLeaf,
    LateTierLeaf,
    PanelLeaf,
    PanelSaleLeaf,
    PanelTier,
    RoundLeaf,
)
from app.panels.mechanism import BY_STEPS, read_plan
from app.panels.plans.base import Plan
from app.panels.plans.late import LATE_MECHANISMS
from app.panels.plans.points import PointsPlan
from app.panels.spending import SPENDING
from tiers.audit.findings import Finding
from tiers.budget import Ladder, decimal_text, nano_up
from tiers.local.columns.between import LATE_SAMPLER
from tiers.local.columns.chain import SAMPLER
from tiers.noise.law import parse_rational

__all__ = ["PanelAudit", "needing", "signed_round"]


class PanelAudit:
    """What the log has said of panels so far; memory grows with panels and rounds.

    Reports are not in the log: `app.panels.replay` holds a disclosed round against its leaf.
    """

    def __init__(self) -> None:
        self.panels: dict[str, PanelLeaf] = {}
        self.rounds: dict[str, int] = {}
        self.menus: dict[str, list[PanelTier]] = {}
        self.drawn: dict[tuple[str, int], int] = {}
        self._key_hashes: set[str] = set()
        self._spending: set[str] = set()

    def panel(self, leaf: PanelLeaf) -> list[Finding]:
        """Take a panel that opens: its laws keep each ε and follow from each other, as `read_plan` checks."""
        found, need = needing(leaf.index)
        need(leaf.panel not in self.panels, "A4", "one-panel", leaf.panel, "opened before")
        need(len(set(leaf.domain)) == len(leaf.domain), "A1", "panel-domain", "values that differ", "one twice")
        promised = "steps" if leaf.mechanism in BY_STEPS else "values"
        need(leaf.promise == promised, "A1", "panel-promise", leaf.promise, leaf.mechanism)
        need(leaf.spending in (None, SPENDING), "A3", "panel-spending", str(leaf.spending), SPENDING)
        try:
            ladder = Ladder.parse([parse_rational("epsilon", tier.epsilon) for tier in leaf.tiers])
            if [decimal_text(epsilon) for epsilon in ladder] != [tier.epsilon for tier in leaf.tiers]:
                raise ValueError("epsilon: expected its one form, got another")
            plan = read_plan(leaf.mechanism, leaf.size, ladder, [tier.law for tier in leaf.tiers])
            _check_steps(leaf, plan, need)
            top = nano_up(ladder.epsilons[0])
            need(leaf.budget_nano >= top, "A3", "panel-budget", str(leaf.budget_nano), f"at least {top}, for one round")
        except (*UNREADABLE, InvalidRequestError) as error:
            need(False, "A1", "panel-plan", leaf.mechanism, str(error)[:200])
        prices = [tier.price_minor for tier in leaf.tiers]
        need(prices == sorted(prices, reverse=True), "A3", "panel-prices", str(prices), "prices that never rise")
        self.panels.setdefault(leaf.panel, leaf)
        self.menus.setdefault(leaf.panel, list(leaf.tiers))
        return found

    def round(self, leaf: RoundLeaf, epochs: Set[int], keys: Mapping[int, str]) -> list[Finding]:
        """Take a closed round: the next one of its panel, under the panel's laws, signed by an announced key."""
        record = leaf.record
        found, need = needing(leaf.index)
        panel, due = self.panels.get(record.panel), self.rounds.get(record.panel, 0) + 1
        if panel is not None and (leaf.index, leaf.at) == (panel.index + 1, panel.at):
            due = max(1, record.round)  # a panel from before panels were logged enters with the round that it closes
        need(record.round == due, "A4", "round-order", f"round {record.round}", f"round {due} is due")
        self.rounds[record.panel] = max(record.round, due)
        self.drawn.setdefault((record.panel, record.round), len(record.tiers))
        said = (record.mechanism, record.domain_size, [(tier.epsilon, tier.law) for tier in record.tiers])
        if panel is None:
            need(False, "A4", "panel-of-round", record.panel, "no earlier panel's leaf")
        else:
            planned = (panel.mechanism, panel.size, [(tier.epsilon, tier.law) for tier in panel.tiers])
            need(said == planned, "A1", "laws-of-panel", record.mechanism, "the panel opened with others")
        bound = (panel is not None and panel.spending is not None) or record.panel in self._spending
        need(record.spent is not None or not bound, "A3", "round-spending", f"round {record.round}", "no root")
        if record.spent is not None:
            self._spending.add(record.panel)
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
        menu = self.menus[leaf.panel]
        drawn = min(len(menu), self.drawn.get((leaf.panel, leaf.round), 0))
        if leaf.rank >= drawn:
            need(False, "A3", "tier-of-round", f"tier {leaf.rank}", f"{drawn} tiers drawn before")
            return found
        price = menu[leaf.rank].price_minor
        need(leaf.price_minor <= price, "A3", "panel-price", str(leaf.price_minor), f"list {price}")
        need(leaf.currency == panel.currency, "A3", "panel-currency", leaf.currency, panel.currency)
        need(leaf.licence == panel.licence, "A3", "panel-licence", leaf.licence, panel.licence)
        return found

    def late_tier(self, leaf: LateTierLeaf) -> list[Finding]:
        """Take a tier that joins a menu: numbered on, below the top, its law and price between its neighbours'."""
        found, need = needing(leaf.index)
        panel, menu = self.panels.get(leaf.panel), self.menus.get(leaf.panel)
        if panel is None or menu is None:
            need(False, "A4", "panel-of-tier", leaf.panel, "no earlier panel's leaf")
            return found
        need(leaf.number == len(menu), "A4", "tier-order", f"tier {leaf.number}", f"tier {len(menu)} is due")
        try:
            tiers = sorted([*menu, leaf.tier], key=lambda tier: parse_rational("epsilon", tier.epsilon), reverse=True)
            ladder = Ladder.parse([parse_rational("epsilon", tier.epsilon) for tier in tiers])
            if decimal_text(parse_rational("epsilon", leaf.tier.epsilon)) != leaf.tier.epsilon:
                raise ValueError("epsilon: expected its one form, got another")
            if panel.mechanism not in LATE_MECHANISMS or tiers[0] is leaf.tier:
                raise ValueError("tier: expected one below the top, of a mechanism that admits it, got another")
            metric = read_plan(panel.mechanism, panel.size, ladder, [tier.law for tier in tiers]).metric
        except (*UNREADABLE, InvalidRequestError) as error:
            need(False, "A1", "late-plan", leaf.tier.epsilon, str(error)[:200])
            tiers = [*menu, leaf.tier]
        else:
            prices = [tier.price_minor for tier in tiers]
            need(prices == sorted(prices, reverse=True), "A3", "panel-prices", str(prices), "prices that never rise")
            due = None if metric is None else metric.across(parse_rational("epsilon", leaf.tier.epsilon))
            same = leaf.tier.across in (None, due)  # added tiers did not always say it
            need(same, "A1", "panel-across", str(leaf.tier.across), str(due))
        menu.append(leaf.tier)
        return found

    def late_draw(self, leaf: LateDrawLeaf) -> list[Finding]:
        """Take an added tier of a closed round: the next due there, by this version's sampler, with its own key."""
        found, need = needing(leaf.index)
        closed = self.drawn.get((leaf.panel, leaf.round))
        if closed is None:
            need(False, "A4", "round-of-draw", f"round {leaf.round} of {leaf.panel}", "no earlier leaf closes it")
            return found
        due = leaf.number == closed and leaf.number < len(self.menus.get(leaf.panel, []))
        need(due, "A4", "late-order", f"tier {leaf.number}", f"tier {closed} is due, once the panel has it")
        self.drawn[leaf.panel, leaf.round] = max(closed, leaf.number + 1)
        need(leaf.sampler == LATE_SAMPLER, "A2", "late-sampler", leaf.sampler, LATE_SAMPLER)
        need(leaf.key_hash not in self._key_hashes, "A2", "round-keys", "a new key for every step", "one used before")
        self._key_hashes.add(leaf.key_hash)
        return found


def _check_steps(leaf: PanelLeaf, plan: Plan, need: Need) -> None:
    """Hold what a leaf says of axes and steps against its laws; flips that opened before leaves said it say nothing."""
    axes = leaf.axes or []
    sizes = plan.sizes if isinstance(plan, PointsPlan) else ()
    same = sizes == tuple(len(axis.values) for axis in axes) and not (axes and leaf.domain)
    names = [axis.name for axis in axes]
    apart = all(len(set(each)) == len(each) for each in (names, *(axis.values for axis in axes)))
    need(
        same and apart, "A1", "panel-axes", f"{len(axes)} axes", "those of its laws, with names and values that differ"
    )
    due = None if leaf.metric is None and leaf.mechanism == "flips" else plan.metric
    need(leaf.metric == due, "A1", "panel-metric", str(leaf.metric), str(due))
    across = [None if due is None else due.across(epsilon) for epsilon in plan.ladder]
    told = [tier.across for tier in leaf.tiers]
    need(told == across, "A1", "panel-across", str(told), str(across))


def needing(index: int) -> tuple[list[Finding], Need]:
    """Return a list, and what adds a finding about a leaf to it where something does not hold."""
    found: list[Finding] = []
    return found, Need(found, f"leaf {index}")


def signed_round(leaf: RoundLeaf, public: str | None) -> bool:
    """Return whether a round's record is signed by the key that a public half (hex) is of."""
    if public is None:
        return False
    try:
        public_key(public).verify(bytes.fromhex(leaf.signature), leaf.record.encode())
    except (InvalidSignature, ValueError):
        return False
    return True
