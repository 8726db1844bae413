"""What is on sale, as an arbitrageur sees it: chains with the tiers sold alone, and means as packs. Pure."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction

from app.catalog.classes import Judged, Offer, Pack, check_catalogue, mates
from app.catalog.verdicts import Ruling, judge_own, rulings_of, undercut_packs, unsettled_by, worst_ruling
from app.queries.canonical import CanonicalQuery
from pricing.limit import UNLIMITED, Limit
from tiers.budget import decimal_text

__all__ = ["Listed", "Proposal", "Shelf", "judge_proposal", "rulings_around", "shelf_of"]


@dataclass(frozen=True, slots=True)
class Listed:
    """One tier that a product lists, at its chain's price; `mean` names the mean that it is sold in, None if alone."""

    mean: str | None
    dataset: str
    snapshot: str
    chain: str
    title: str
    query: CanonicalQuery
    currency: str
    law: str
    epsilon: str
    variance: float
    price: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """All offers and packs of a catalogue, each chain once."""

    offers: tuple[Offer, ...]
    packs: tuple[Pack, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The shelf of a snapshot as a write would make it, and the chains whose tiers or prices are the write's."""

    shelf: Shelf
    snapshot: str
    chains: frozenset[str]


def shelf_of(listed: Sequence[Listed]) -> Shelf:
    """Return each chain's tiers once, under the first name they are listed by, and a pack for every tier of a mean.

    A tier that only means sell has no price of its own. A pack costs what its parts' books say together, so whoever
    holds a part already pays for the other alone: credit brings no pack below its parts, nor a part below its book.
    """
    chains: dict[str, Offer] = {}
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for each in sorted(listed, key=lambda one: one.mean is not None):
        alone = each.mean is None
        name = f"{each.title} @ ε {each.epsilon}" if alone else f"part of {each.title} @ ε {each.epsilon}"
        offer = chains.get(each.chain) or Offer(
            each.dataset, each.snapshot, each.chain, each.title, each.query, each.currency, ()
        )
        if (each.chain, each.law) not in names:
            names[each.chain, each.law] = name
            taken.add(name)
            offer = replace(offer, tiers=(*offer.tiers, (name, each.variance, each.price if alone else None)))
        chains[each.chain] = offer
    packs = []
    for mean in dict.fromkeys(each.mean for each in listed if each.mean is not None):
        parts: dict[str, list[Listed]] = {}
        for each in listed:
            if each.mean == mean:
                parts.setdefault(each.chain, []).append(each)
        for tiers in zip(*parts.values(), strict=True):
            epsilon = decimal_text(sum((Fraction(tier.epsilon) for tier in tiers), Fraction(0)))
            title = f"{tiers[0].title} @ ε {epsilon}"
            while title in taken:
                title += f" ({mean[-8:]})"
            taken.add(title)
            held = tuple((tier.chain, names[tier.chain, tier.law]) for tier in tiers)
            packs.append(Pack(title, sum(tier.price for tier in tiers), held))
    return Shelf(tuple(chains.values()), tuple(packs))


def judge_proposal(proposal: Proposal, limit: Limit = UNLIMITED) -> Ruling:
    """Return the worst verdict on a proposal's own chains, and on the packs that hold a part of one, by stages 1 and 2.

    Arbitrage is certain arbitrage that one of them is part of, as what is undercut or as what undercuts.
    """
    offers, packs = proposal.shelf.offers, proposal.shelf.packs
    mine = [offer for offer in offers if offer.chain in proposal.chains]
    own = [pack for pack in packs if any(chain in proposal.chains for chain, _ in pack.parts)]
    judged = _judged(proposal.shelf, proposal.chains | {chain for pack in own for chain, _ in pack.parts}, limit)
    met = {each.chain for each in judged if each.parts}
    others = [pack for pack in packs if pack.title in met and pack not in own]
    around = _judged(proposal.shelf, {chain for pack in others for chain, _ in pack.parts}, limit)
    names = proposal.chains | {pack.title for pack in own}
    return worst_ruling(
        [*judge_own(mine, own, offers, judged), *undercut_packs(names, others, offers, [*judged, *around])]
    )


def rulings_around(proposal: Proposal, limit: Limit = UNLIMITED) -> dict[str, Ruling]:
    """Return the verdicts, by stages 1 and 2, on all that a proposal bears on, by chain; packs by their first part.

    It bears on what stands in one class with a chain of its own, or with the other part of a pack that holds one (which
    has another price then); on what it could be combined with in ways that are not compared; and on packs of these.
    """
    offers, packs = proposal.shelf.offers, proposal.shelf.packs
    own = proposal.chains | _partners(packs, proposal.chains)
    near = mates(offers, own) | unsettled_by(offers, proposal.chains, limit)
    near |= {pack.parts[0][0] for pack in packs if any(chain in near for chain, _ in pack.parts)}
    judged = check_catalogue(offers, level=2, limit=limit, only=near | _partners(packs, near), packs=packs)
    return rulings_of(offers, judged, packs, only=near, limit=limit)


def _partners(packs: Sequence[Pack], chains: Set[str]) -> set[str]:
    held = (pack for pack in packs if any(chain in chains for chain, _ in pack.parts))
    return {chain for pack in held for chain, _ in pack.parts}


def _judged(shelf: Shelf, chains: Set[str], limit: Limit) -> list[Judged]:
    return check_catalogue(shelf.offers, level=2, limit=limit, only=chains, packs=shelf.packs)
