"""The replay of a round whose panel has added tiers: each tier follows from those it was drawn from, in their order.

Of a tier whose parents are not all shown (they stand above what was sold) the reports are in the disclosure, and are
held against its law and commitment alone.
"""

import hmac
from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.errors import InvalidRequestError
from app.log.disclosures import Extent, Signature
from app.log.heads import TreeHead
from app.log.leaf_base import Hex
from app.log.panel_leaves import LateDrawLeaf, LateTierLeaf, PanelLeaf, PanelSaleLeaf, RoundLeaf
from app.log.proofs import Proved
from app.panels.plans.base import Counts, Plan
from app.panels.plans.late import Menu
from app.panels.plans.lists import Lists
from app.panels.replay import LATE_FORMAT, LINE_LIMIT, Checks, RoundReport, disclosed_tiers, plan_of_record
from app.panels.rounds import RUN, counts_commitment
from tiers.errors import TierError
from tiers.local.columns.between import LATE_SAMPLER
from tiers.noise.law import parse_rational

__all__ = ["DisclosedLate", "replay_late"]

_Report: TypeAlias = list[Annotated[int, msgspec.Meta(ge=0, lt=2**32)]]


class DisclosedLate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line: leaves with proofs, and by tier's number what opens its commitments, and the key of its draw.

    Args:       added, drawn: the leaves by which tiers joined the menu, and by which they were drawn in the round.
    """

    format: str
    head: TreeHead
    panel: Proved
    round: Proved
    sale: Proved
    added: list[Proved]
    drawn: list[Proved]
    openings: dict[str, Hex]
    counts: dict[str, Hex]
    keys: dict[str, Hex]
    signature: Signature


def replay_late(shown: DisclosedLate, trusted: list[Ed25519PublicKey], lines: Iterator[bytes]) -> RoundReport:
    """Return what a disclosure with added tiers proves."""
    return _LateReplay(shown, trusted).report(lines)


class _LateReplay(Checks):
    """One such disclosure while it is read."""

    def __init__(self, shown: DisclosedLate, trusted: list[Ed25519PublicKey]) -> None:
        super().__init__(trusted)
        self.shown = shown

    def report(self, lines: Iterator[bytes]) -> RoundReport:
        shown, reports, tiers = self.shown, 0, 0
        named = self.named(shown.head, shown.panel, shown.round, shown.sale)
        if named is None:
            return RoundReport("", 0, 0, 0, 0, tuple(self.found))
        panel, closed, sale = named
        holds = {"round": closed.record.round, "rank": sale.rank, "added": len(shown.added)}
        self.extent(Extent(LATE_FORMAT, closed.record.panel, shown.head, holds), shown.signature)
        self.check_record(panel, closed, sale, len(closed.record.tiers) + len(shown.drawn))
        try:
            late = self._late(panel, closed, sale)
            if late is not None:
                menu, drawn = late
                tiers, reports = self._derive(menu, closed, drawn, sale.rank, lines)
        except (
            TierError,
            InvalidRequestError,
            ValueError,
            LookupError,
            ArithmeticError,
            msgspec.MsgspecError,
        ) as error:
            self.need(False, "A7", "unreadable-round", "one that can be replayed", type(error).__name__)
        return RoundReport(closed.record.panel, closed.record.round, sale.rank, tiers, reports, tuple(self.found))

    def _late(self, panel: PanelLeaf, closed: RoundLeaf, sale: PanelSaleLeaf) -> tuple[Menu, list[LateDrawLeaf]] | None:
        """Return the menu with its added tiers, every law checked, and their draws in this round."""
        shown, record = self.shown, closed.record
        added = [self.leaf(shown.head, "added", each, LateTierLeaf) for each in shown.added]
        drawn = [self.leaf(shown.head, "drawn", each, LateDrawLeaf) for each in shown.drawn]
        known, joined, draws = len(record.tiers), list[LateTierLeaf](), list[LateDrawLeaf]()
        for place, (tier, draw) in enumerate(zip(added, drawn, strict=False)):
            if tier is None or draw is None:
                return None
            number = known + place
            said = (tier.panel, tier.number) == (record.panel, number) and panel.index < tier.index < draw.index
            same = (draw.panel, draw.round, draw.number) == (record.panel, record.round, number)
            self.need(said and same and closed.index < draw.index, "A4", "late-order", f"tier {number}", "another leaf")
            self.need(draw.sampler == LATE_SAMPLER, "A2", "late-sampler", draw.sampler, LATE_SAMPLER)
            joined.append(tier)
            draws.append(draw)
        if not self.need(
            len(added) == len(drawn), "A7", "evidence", f"{len(added)} added tiers", f"{len(drawn)} draws"
        ):
            return None
        if sale.rank >= known + len(draws):
            return None
        if sale.rank >= known:
            self.need(
                draws[sale.rank - known].index < sale.index, "A7", "sale-of-round", f"leaf {sale.index}", "undrawn"
            )
        epsilons = tuple(parse_rational("epsilon", leaf.tier.epsilon) for leaf in joined)
        menu = Menu(plan_of_record(record), epsilons, tuple(leaf.tier.law for leaf in joined))
        assert menu.plan.laws  # reading them checks every ε and every step
        return menu, draws

    def _derive(
        self, menu: Menu, closed: RoundLeaf, drawn: list[LateDrawLeaf], rank: int, lines: Iterator[bytes]
    ) -> tuple[int, int]:
        """Derive what can be, hold all that is shown against its commitments; return how many tiers and reports."""
        shown, record = self.shown, closed.record
        below, derived = disclosed_tiers(menu, rank)
        names = {str(each) for each in below}
        if not (
            set(shown.openings) == set(shown.counts) == names and set(shown.keys) == {str(each) for each in derived}
        ):
            self.need(False, "A7", "evidence", f"{len(below)} tiers", "openings and keys for others")
            return 0, 0
        said = [(tier.commitment, tier.counts, tier.key_hash) for tier in record.tiers]
        said += [(leaf.commitment, leaf.counts, leaf.key_hash) for leaf in drawn]
        keys = {each: bytes.fromhex(shown.keys[str(each)]) for each in derived}
        for each, key in keys.items():
            self.need(
                sha256(key).hexdigest() == said[each][2], "A7", "key", f"tier {each}", "another key than the draw's"
            )
        roots = [each for each in below if each not in derived]
        plans = {each: menu.plan_of(each) for each in below}
        steps = {each: menu.plan_of(each - 1, each) for each in derived if each not in menu.late}
        digests = {each: hmac.new(bytes.fromhex(shown.openings[str(each)]), digestmod=sha256) for each in below}
        counts: dict[int, Counts] = {each: np.zeros(0, np.int64) for each in below}
        first = 0
        for runs in _runs(lines, len(roots)):
            stored: dict[int, bytes] = {}
            for each, run in zip(roots, runs, strict=True):
                raw = self._packed(plans[each], run, first)
                if raw is None:
                    return len(below), first
                stored[each] = raw
            for each in derived:
                if each in steps:
                    stored[each] = steps[each].derive([keys[each]], first, stored[each - 1])[1]
                else:
                    parents = [stored[parent] for parent in menu.parents(each)]
                    stored[each] = menu.draw(keys[each], each, first, parents)
            for each in below:
                digests[each].update(stored[each])
                counted = plans[each].count(0, stored[each])
                counts[each] = counted + counts[each] if len(counts[each]) else counted
            first += len(runs[0])
        self.need(first == record.reports, "A7", "reports", record.reports, first)
        for each in below:
            same = digests[each].hexdigest() == said[each][0]
            self.need(same, "A7", "tier", f"tier {each} as committed to", "other reports")
            counted_as = counts_commitment(bytes.fromhex(shown.counts[str(each)]), counts[each])
            self.need(counted_as == said[each][1], "A7", "counts", f"tier {each} as committed to", "other counts")
        return len(below), first

    def _packed(self, plan: Plan, run: Lists, first: int) -> bytes | None:
        packed, faults = plan.pack(run)
        for broken, rule in faults:
            where = f"report {first + int(broken.argmax())}"
            if not self.need(not broken.any(), "A7", "report-of-law", rule, where):
                return None
        return packed.tobytes()


def _runs(lines: Iterator[bytes], tiers: int) -> Iterator[list[Lists]]:
    decoder, rows = msgspec.json.Decoder(list[_Report]), list[list[list[int]]]()
    for line in lines:
        if len(line) > LINE_LIMIT:
            raise ValueError("line: expected a shorter one")
        rows.append(decoder.decode(line))
        if len(rows[-1]) != tiers:
            raise ValueError("line: expected a report of every tier that is shown")
        if len(rows) == RUN:
            yield [Lists.of(list(of_tier)) for of_tier in zip(*rows, strict=True)]
            rows = []
    if rows:
        yield [Lists.of(list(of_tier)) for of_tier in zip(*rows, strict=True)]
