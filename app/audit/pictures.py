"""A chain as an audit saw it, tier by tier: what a report shows of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from tiers.audit.findings import Finding
from tiers.audit.provenance import ChainDraws
from tiers.audit.records import ClaimedTier, PlanRecord
from tiers.audit.replay import Replay
from tiers.budget import decimal_text
from tiers.rank import by_accuracy, more_accurate

__all__ = ["ChainPicture", "TierPicture", "picture_of"]


@dataclass(frozen=True, slots=True)
class TierPicture:
    """One tier and the edge that leads to it.

    Args:       half_width: 95 % bar in lattice steps. place: in the order of drawing; None where it is not drawn.
                edge: replayed, closed, broken or undrawn. verdict: the same in words.
    """

    rank: int
    law: str
    epsilon: str
    half_width: str
    issued: bool
    place: int | None
    role: str
    edge: str
    verdict: str


@dataclass(frozen=True, slots=True)
class ChainPicture:
    """One chain, its tiers most accurate first, and what was found of it."""

    chain: str
    lineage: str
    products: int
    tiers: tuple[TierPicture, ...]
    findings: tuple[str, ...]


def picture_of(
    chain: str, plans: Iterable[PlanRecord], drawn: ChainDraws, replayed: Replay, found: Iterable[Finding]
) -> ChainPicture:
    """Return the picture of a chain."""
    known = list(plans)
    claimed: dict[str, ClaimedTier] = {}
    for plan in known:
        for tier in plan.tiers:
            claimed.setdefault(tier.law.identity, tier)
    reasons = {closed.law: closed.reason for closed in replayed.not_replayable}
    texts = tuple(finding.text() for finding in found)
    by_leaf = {finding.where: finding.text() for finding in found}
    tiers = []
    for rank, law in enumerate(by_accuracy([tier.law for tier in claimed.values()]), start=1):
        draw = drawn.draws.get(law.identity)
        issued = drawn.issued is not None and not more_accurate(law, drawn.issued)
        if draw is None:
            edge, verdict = "undrawn", "not drawn yet"
        elif f"leaf {draw.leaf}" in by_leaf:
            edge, verdict = "broken", by_leaf[f"leaf {draw.leaf}"]
        elif law.identity in reasons:
            edge, verdict = "closed", reasons[law.identity]
        else:
            edge, verdict = "replayed", "re-derived bit for bit from parent and key"
        tiers.append(
            TierPicture(
                rank=rank,
                law=law.identity,
                epsilon=decimal_text(law.epsilon()),
                half_width=str(claimed[law.identity].half_width),
                issued=issued and draw is not None,
                place=None if draw is None else draw.place,
                role="" if draw is None else draw.spec.role.value,
                edge=edge,
                verdict=verdict,
            )
        )
    lineage = known[0].lineage if known else ""
    return ChainPicture(chain, lineage, len({plan.product for plan in known}), tuple(tiers), texts)
