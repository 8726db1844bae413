"""Verdicts on a catalogue: safe, arbitrage with its bundle, or uncertified and why. Pure: offers in, rulings out."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from app.catalog.classes import OPEN, Judged, Offer, Pack
from app.catalog.parts import clamp_of, measure_of, mentioned, one_lattice, parts_of, summed_column
from app.queries.canonical import CanonicalQuery
from pricing.arbitrage import Finding, Verdict
from pricing.limit import UNLIMITED, Limit

__all__ = [
    "LATE",
    "Ruling",
    "bought",
    "judge_own",
    "names_of",
    "ruling_of_pack",
    "rulings_of",
    "undercut_by",
    "undercut_packs",
    "unsettled_by",
    "untold",
    "worst_ruling",
]

_ABSENT = "nothing of it is on sale"
_PARTS = "each part can be had for less than the whole; whether all can is not settled"


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict on one chain: under arbitrage the good, its price, the bundle and what it costs; else why not."""

    verdict: str
    reason: str = ""
    good: str | None = None
    price_minor: int | None = None
    stage: int = 0
    bundle: tuple[str, ...] = ()
    cost_minor: int | None = None


LATE = Ruling("uncertified", "out of time before it was settled")


def ruling_of_pack(pack: Pack, offers: Sequence[Offer], judged: Sequence[Judged]) -> Ruling:
    """Return the verdict on a pack: safe if one of its parts alone cannot be had for less than the whole.

    A part that stands in no class, and that nothing else bears on, can be had nowhere else. Arbitrage only if what
    gives each of its parts costs less in all.
    """
    mine = [each for each in judged if each.chain == pack.title]
    undercut: dict[str, Finding] = {}
    for chain in dict.fromkeys(chain for chain, _ in pack.parts):
        (offer,) = (offer for offer in offers if offer.chain == chain)
        about = [each for each in mine if chain in each.parts]
        if all(each.finding.verdict is Verdict.SAFE for each in about) and not untold(offer, offers):
            return Ruling("safe", stage=max((each.finding.stage for each in about), default=0))
        cheaper = [each.finding for each in about if each.finding.verdict is Verdict.ARBITRAGE]
        if cheaper:
            undercut[chain] = min(cheaper, key=lambda finding: finding.cost or 0)
    names, cost = bought([(finding.bundle, finding.cost or 0) for finding in undercut.values()], judged)
    if len(undercut) == len({chain for chain, _ in pack.parts}) and cost < pack.price:
        stage = max(finding.stage for finding in undercut.values())
        return Ruling("arbitrage", "other products give it for less", pack.title, pack.price, stage, names, cost)
    return Ruling("uncertified", _PARTS if undercut else next((each.reason for each in mine if each.reason), OPEN))


def bought(ways: Sequence[tuple[tuple[str, ...], int]], judged: Sequence[Judged]) -> tuple[tuple[str, ...], int]:
    """Return what is bought in all by some ways, each with its cost, and what that costs: each good is paid for once.

    Example:
        >>> bought([(("both",), 80), (("both",), 80), (("more",), 10)], [])
        (('both', 'more'), 90)
    """
    listed = {each.finding.name: each.finding.price for each in judged}
    listed |= {names[0]: cost for names, cost in ways if len(names) == 1}
    every = tuple(sorted({name for names, _ in ways for name in names}))
    return every, sum(listed[name] for name in every)


def judge_own(
    own: Sequence[Offer], packs: Sequence[Pack], offers: Sequence[Offer], judged: Sequence[Judged]
) -> list[Ruling]:
    """Return the verdict on each of some offers and packs among all offers, from a check that saw all their classes."""
    sold = [offer for offer in own if any(price is not None for _, _, price in offer.tiers)]
    undercut = [undercut_by(name, judged) for name in (*(each.chain for each in own), *(pack.title for pack in packs))]
    found = [_rule(offer, offers, judged) for offer in sold]
    found += [ruling_of_pack(pack, offers, judged) for pack in packs]
    return [*(ruling for ruling in undercut if ruling is not None), *found]


def undercut_packs(
    own: Set[str], packs: Sequence[Pack], offers: Sequence[Offer], judged: Sequence[Judged]
) -> list[Ruling]:
    """Return the arbitrage on packs of others that tiers of some own chains, or own packs, are certainly part of."""
    names = names_of(own, judged)
    rulings = (ruling_of_pack(pack, offers, judged) for pack in packs)
    return [ruling for ruling in rulings if ruling.verdict == "arbitrage" and not names.isdisjoint(ruling.bundle)]


def names_of(own: Set[str], judged: Sequence[Judged]) -> set[str]:
    """Return the names under which tiers of some chains, and packs, were judged."""
    return {each.finding.name for each in judged if each.chain in own}


def worst_ruling(rulings: Sequence[Ruling]) -> Ruling:
    """Return the first that is arbitrage, else the first uncertified, else the one settled last; of none, uncertified.

    Example:
        >>> worst_ruling([Ruling("safe"), Ruling("uncertified", "open"), Ruling("safe", stage=2)]).reason
        'open'
    """
    for verdict in ("arbitrage", "uncertified"):
        for ruling in rulings:
            if ruling.verdict == verdict:
                return ruling
    return max(rulings, key=lambda ruling: ruling.stage, default=Ruling("uncertified", _ABSENT))


def rulings_of(
    offers: Sequence[Offer],
    judged: Sequence[Judged],
    packs: Sequence[Pack] = (),
    only: Set[str] | None = None,
    limit: Limit = UNLIMITED,
) -> dict[str, Ruling]:
    """Return the verdict on every chain (of `only`) from a check of all its classes, means under their sums' chains.

    Out of time no verdict is found, and none is called safe.
    """
    found: dict[str, list[Ruling]] = {}
    for offer in offers:
        if (only is None or offer.chain in only) and any(price is not None for _, _, price in offer.tiers):
            ruling = LATE if limit.is_over() else _rule(offer, offers, judged)
            found.setdefault(offer.chain, []).append(ruling)
    for pack in packs:
        first = pack.parts[0][0]
        if not pack.bundle and (only is None or first in only):  # a bundle has a verdict of its own
            ruling = LATE if limit.is_over() else ruling_of_pack(pack, offers, judged)
            found.setdefault(first, []).append(ruling)
    return {chain: worst_ruling(rulings) for chain, rulings in found.items()}


def unsettled_by(offers: Sequence[Offer], chains: Set[str], limit: Limit = UNLIMITED) -> set[str]:
    """Return what some chains could be combined with in ways that are not compared, by chain; out of time, all left."""
    return {offer.chain for offer in offers if limit.is_over() or not chains.isdisjoint(_unseen(offer, offers))}


def _rule(offer: Offer, offers: Sequence[Offer], judged: Sequence[Judged]) -> Ruling:
    """Safe only if every tier is, and nothing that could bear on the chain went unseen."""
    mine = [each for each in judged if each.chain == offer.chain]
    for each in mine:
        if each.finding.verdict is Verdict.ARBITRAGE:
            return _ruling(each.finding)
    unseen = untold(offer, offers)
    if unseen:
        return Ruling("uncertified", unseen)
    for each in mine:
        if each.finding.verdict is Verdict.UNCERTIFIED:
            return _ruling(each.finding, each.reason)
    return Ruling("safe", stage=max((each.finding.stage for each in mine), default=0))


def undercut_by(chain: str, judged: Sequence[Judged]) -> Ruling | None:
    """Return the arbitrage that a chain or a pack is part of, if one is certain; a part of a pack alone proves none."""
    chain_of = {each.finding.name: each.chain for each in judged}
    for each in judged:
        found = each.finding
        concerned = {each.chain, *(chain_of[name] for name in found.bundle)}
        if found.verdict is Verdict.ARBITRAGE and chain in concerned and not each.parts:
            return _ruling(found)
    return None


def untold(offer: Offer, offers: Sequence[Offer]) -> str:
    """Say why a verdict on the offer's classes is not all that could be said; empty if it is."""
    unseen = _unseen(offer, offers)
    if unseen and offer.query.ranges:
        return "ranges of a line are not compared with other questions yet"
    titles = ", ".join(sorted(set(unseen.values())))
    return f"could be combined in ways that are not compared, with: {titles}" if unseen else ""


def _ruling(finding: Finding, reason: str = "") -> Ruling:
    return Ruling(
        finding.verdict.value,
        reason or "other products give it for less",
        finding.name,
        finding.price,
        finding.stage,
        finding.bundle,
        finding.cost,
    )


def _unseen(offer: Offer, offers: Sequence[Offer]) -> dict[str, str]:
    """Return what could bear on an offer but stands in no common class with it: chains and their titles.

    What differs in clamps or bounds is another function of the data, bent at other totals, and no combination
    straightens a bend that nothing else has. So those alone bear on an offer that count or sum the very same way; those
    whose conditions read the column that it sums (or that sum one which its conditions read), and so on from them; and
    other sums of the same column, if they have both of its bends between them or count in other steps. And clamps whose
    ends close a circle count: what is clamped to 0..5 and to 5..10 is together what is clamped to 0..10, and 5 for each
    unit; and so do two sums from other centres.
    """
    others = [other for other in offers if other.snapshot == offer.snapshot and other.chain != offer.chain]
    if offer.query.ranges:
        return {other.chain: other.title for other in others}
    kin = {offer.chain: offer} | {other.chain: other for other in _counters(offer, others)}
    pending = list(kin.values())
    while pending:
        each = pending.pop()
        for other in others:
            if other.chain not in kin and _related(each.query, other.query):
                kin[other.chain] = other
                pending.append(other)
    bends: set[int] = set()
    clamped = [other for other in others if other.chain not in kin and _same_column(offer.query, other.query)]
    for other in clamped:
        bends |= clamp_of(other.query)
    whole = clamped and clamp_of(offer.query) <= bends
    kin |= {other.chain: other for other in clamped if whole or not one_lattice(offer.query, other.query)}
    bases = {part.base for part in parts_of(offer.query)}
    if len(bases) != 1:
        return {chain: other.title for chain, other in kin.items() if chain != offer.chain}
    return {
        chain: other.title for chain, other in kin.items() if {part.base for part in parts_of(other.query)} != bases
    }


def _counters(offer: Offer, others: Sequence[Offer]) -> list[Offer]:
    """Return the sums of each column, the offer's own left out, whose clamps close a circle or whose steps differ."""
    found: list[Offer] = []
    for column in {summed_column(other.query) for other in others} - {None, summed_column(offer.query)}:
        sums = [other for other in others if summed_column(other.query) == column]
        mixed = any(not one_lattice(sums[0].query, other.query) for other in sums[1:])
        if mixed or _circle({clamp_of(other.query) for other in sums}):
            found += sums
    return found


def _circle(clamps: set[frozenset[int]]) -> bool:
    """Whether ends, joined by clamps, close a circle: joined ends are one group, and a clamp within one closes it."""
    groups: list[frozenset[int]] = []
    for clamp in clamps:
        met = [group for group in groups if group & clamp]
        if any(clamp <= group for group in met):
            return True
        groups = [group for group in groups if group not in met] + [clamp.union(*met)]
    return False


def _related(first: CanonicalQuery, second: CanonicalQuery) -> bool:
    if measure_of(first) == measure_of(second):
        return True
    return summed_column(first) in mentioned(second) or summed_column(second) in mentioned(first)


def _same_column(first: CanonicalQuery, second: CanonicalQuery) -> bool:
    return summed_column(first) is not None and summed_column(first) == summed_column(second)
