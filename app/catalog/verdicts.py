"""Verdicts on a catalogue: safe, arbitrage with its bundle, or uncertified and why. Pure: offers in, rulings out."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.catalog.parts import Part, clamp_of, measure_of, mentioned, parts_of, summed_column
from app.queries.canonical import CanonicalQuery
from pricing.arbitrage import Finding, Verdict, audit_catalogue
from pricing.catalogue import CATALOGUE_LIMIT, VARIANCES, Catalogue, Product
from pricing.errors import InvalidProductError
from pricing.limit import UNLIMITED, Limit
from tiers.canonical import canonical_bytes

__all__ = ["Judged", "Offer", "Ruling", "check_catalogue", "judge", "rulings_of"]

_CELLS = 256
_TIME = "out of time before it was settled"
_OPEN = "not settled by the stages that were run"
_SIZE = "too many cells or tiers to compare"
_VARIANCE = "a variance beyond what can be compared"


@dataclass(frozen=True, slots=True)
class Offer:
    """One chain as it is priced: its question, and for each tier a name, the variance of its noise and its price."""

    dataset: str
    snapshot: str
    chain: str
    title: str
    query: CanonicalQuery
    currency: str
    tiers: tuple[tuple[str, float, int], ...]


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


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding on one tier of a chain, and why it is uncertified where it is."""

    chain: str
    finding: Finding
    reason: str = ""


def judge(offer: Offer, rivals: Sequence[Offer], limit: Limit = UNLIMITED) -> Ruling:
    """Return the verdict on an offer among rivals, by stages 1 and 2: what publication asks.

    Arbitrage is certain arbitrage that the offer is part of, as what is undercut or as what undercuts.
    """
    offers = [*rivals, offer]
    judged = check_catalogue(offers, level=2, limit=limit, only=offer.chain)
    chain_of = {each.finding.name: each.chain for each in judged}
    for each in judged:
        found = each.finding
        concerned = {each.chain, *(chain_of[name] for name in found.bundle)}
        if found.verdict is Verdict.ARBITRAGE and offer.chain in concerned:
            return _ruling(found)
    return _rule(offer, offers, judged)


def rulings_of(offers: Sequence[Offer], judged: Sequence[Judged]) -> dict[str, Ruling]:
    """Return the verdict on every chain from a check of the whole catalogue."""
    return {offer.chain: _rule(offer, offers, judged) for offer in offers}


def check_catalogue(
    offers: Sequence[Offer], *, level: Literal[1, 2, 3], limit: Limit = UNLIMITED, only: str | None = None
) -> list[Judged]:
    """Check every class of comparable products (those of chain `only`, if named) and judge every tier in them.

    A class that is too large to check is uncertified, never safe. A tier whose variance no solver can compare is
    uncertified alone: one that is too noisy stands in for itself with less noise, which can only help an attacker; one
    that is too accurate leaves uncertified what costs more than it, and nothing else.
    """
    names = _names(offers)
    found: list[Judged] = []
    for _, members in sorted(_classes(offers).items()):
        if only is None or any(offer.chain == only for offer, _ in members):
            found += _class_findings(members, names, level, limit)
    return found


def _rule(offer: Offer, offers: Sequence[Offer], judged: Sequence[Judged]) -> Ruling:
    """Safe only if every tier is, and nothing that could bear on the chain went unseen."""
    mine = [each for each in judged if each.chain == offer.chain]
    for each in mine:
        if each.finding.verdict is Verdict.ARBITRAGE:
            return _ruling(each.finding)
    if offer.query.ranges and len([other for other in offers if other.snapshot == offer.snapshot]) > 1:
        return Ruling("uncertified", "ranges of a line are not compared with other questions yet")
    unseen = _unseen(offer, offers)
    if unseen:
        return Ruling("uncertified", f"could be combined in ways that are not compared, with: {', '.join(unseen)}")
    for each in mine:
        if each.finding.verdict is Verdict.UNCERTIFIED:
            return _ruling(each.finding, each.reason)
    return Ruling("safe", stage=max((each.finding.stage for each in mine), default=0))


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


def _unseen(offer: Offer, offers: Sequence[Offer]) -> list[str]:
    """Return the titles of what could bear on an offer but stands in no common class with it.

    What differs in clamps or bounds is another function of the data, bent at other totals, and no combination
    straightens a bend that nothing else has. So those alone bear on an offer that count or sum the very same way; those
    whose conditions read the column that it sums (or that sum one which its conditions read), and so on from them; and
    other clamps of the same column, if they have both of its bends between them.
    """
    others = [other for other in offers if other.snapshot == offer.snapshot and other.chain != offer.chain]
    kin, pending = {offer.chain: offer}, [offer]
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
    if clamped and clamp_of(offer.query) <= bends:
        kin |= {other.chain: other for other in clamped}
    bases = {part.base for part in parts_of(offer.query)}
    if len(bases) != 1 and len(kin) > 1:
        return sorted({other.title for chain, other in kin.items() if chain != offer.chain})
    return sorted({other.title for other in kin.values() if {part.base for part in parts_of(other.query)} != bases})


def _related(first: CanonicalQuery, second: CanonicalQuery) -> bool:
    if measure_of(first) == measure_of(second):
        return True
    return summed_column(first) in mentioned(second) or summed_column(second) in mentioned(first)


def _same_column(first: CanonicalQuery, second: CanonicalQuery) -> bool:
    return summed_column(first) is not None and summed_column(first) == summed_column(second)


_Members = list[tuple[Offer, Part]]


def _classes(offers: Sequence[Offer]) -> dict[bytes, _Members]:
    """Group what measures the same thing over parts of one column; a question may stand in several groups."""
    found: dict[bytes, _Members] = defaultdict(list)
    for offer in offers:
        for part in parts_of(offer.query):
            base = {"snapshot": offer.snapshot, "currency": offer.currency, "part": part.base}
            found[canonical_bytes(base)].append((offer, part))
    return found


def _names(offers: Sequence[Offer]) -> Mapping[tuple[str, str], str]:
    """Return a name of its own for every tier, by chain and listed name: titles may be the same."""
    taken: dict[str, str] = {}
    found = {}
    for offer in offers:
        for name, _, _ in offer.tiers:
            own = name if taken.setdefault(name, offer.chain) == offer.chain else f"{name} ({offer.chain[:8]})"
            taken[own] = offer.chain
            found[offer.chain, name] = own
    return found


def _class_findings(
    members: _Members, names: Mapping[tuple[str, str], str], level: Literal[1, 2, 3], limit: Limit
) -> list[Judged]:
    cells = sorted({cell for _, part in members for row in part.rows for cell in row})
    if len(cells) > _CELLS or sum(len(offer.tiers) for offer, _ in members) > CATALOGUE_LIMIT:
        return _uncertified(members, names, _SIZE)
    chain_of: dict[str, str] = {}
    goods: list[Product] = []
    outside: list[tuple[str, str, int]] = []  # chain, name, price of tiers that no solver can compare
    stand_ins: set[str] = set()
    keenest: int | None = None  # the lowest price among those that are too accurate
    try:
        for offer, part in members:
            rows = tuple(tuple(float(row.get(cell, 0)) for cell in cells) for row in part.rows)
            noisy: list[tuple[int, str]] = []
            for listed, variance, price in offer.tiers:
                name = names[offer.chain, listed]
                chain_of[name] = offer.chain
                if VARIANCES[0] <= variance <= VARIANCES[1]:
                    goods.append(Product(name, offer.chain, rows, variance, price, offer.currency))
                    continue
                outside.append((offer.chain, name, price))
                if variance < VARIANCES[0]:
                    keenest = price if keenest is None else min(keenest, price)
                else:
                    noisy.append((price, name))
            if noisy and all(good.chain_id != offer.chain or good.variance < VARIANCES[1] for good in goods):
                price, name = min(noisy)
                stand_ins.add(name)
                goods.append(Product(name, offer.chain, rows, VARIANCES[1], price, offer.currency))
        findings = audit_catalogue(Catalogue(tuple(goods)), level, limit) if goods else []
    except InvalidProductError:
        return _uncertified(members, names, _SIZE)
    over = limit.is_over()
    judged = [
        _judged(finding, chain_of[finding.name], stand_ins, keenest, over=over)
        for finding in findings
        if finding.name not in stand_ins
    ]
    lost = [
        Judged(chain, Finding(name, Verdict.UNCERTIFIED, price, 0, 0.0), _VARIANCE) for chain, name, price in outside
    ]
    return judged + lost


def _judged(finding: Finding, chain: str, stand_ins: set[str], keenest: int | None, *, over: bool) -> Judged:
    """Keep a finding only as far as it is proved in spite of what could not be compared."""
    beaten = finding.verdict is Verdict.SAFE and keenest is not None and finding.price > keenest
    if beaten or not stand_ins.isdisjoint(finding.bundle):
        return Judged(chain, Finding(finding.name, Verdict.UNCERTIFIED, finding.price, finding.stage, 0.0), _VARIANCE)
    if finding.verdict is Verdict.UNCERTIFIED:
        return Judged(chain, finding, _TIME if over else _OPEN)
    return Judged(chain, finding)


def _uncertified(members: _Members, names: Mapping[tuple[str, str], str], reason: str) -> list[Judged]:
    found = []
    for offer, _ in members:
        for listed, _, price in offer.tiers:
            name = names[offer.chain, listed]
            found.append(Judged(offer.chain, Finding(name, Verdict.UNCERTIFIED, price, 0, 0.0), reason))
    return found
