"""Verdicts on owners' bundles, whose parts are also sold alone. Pure: offers, packs and findings in, rulings out."""

from collections.abc import Mapping, Sequence, Set
from itertools import combinations

from app.catalog.classes import OPEN, Judged, Offer, Pack, bases_of, tier_names
from app.catalog.verdicts import Ruling, bought, ruling_of_pack, untold
from pricing.arbitrage import Verdict

__all__ = ["ruling_of_bundle"]

_JOINT = "each part costs its own price at least; whether all can be had together for less is not settled"
_Way = tuple[tuple[str, ...], int]  # what is bought, and for how much


def ruling_of_bundle(pack: Pack, offers: Sequence[Offer], packs: Sequence[Pack], judged: Sequence[Judged]) -> Ruling:
    """Return the verdict on a bundle from a check that saw all classes of its parts.

    Safe if all its parts stand in one class and no other, in which the whole cannot be had for less; or if each part
    costs its own price at least and no good could serve two of them, since then all cost their sum, which a bundle does
    not exceed. Arbitrage if what gives every part costs less in all.
    """
    own = {offer.chain: offer for offer in offers if offer.chain in dict(pack.parts)}
    mine = [each for each in judged if each.chain == pack.title]
    found = _cheaper(pack, offers, packs, judged)
    if found is not None:
        return found
    whole = [each for each in mine if set(each.parts) == set(own)]
    told = all(not untold(offer, offers) for offer in own.values())
    alone = all(len(bases_of(offer)) == 1 for offer in own.values())
    if told and alone and whole and all(each.finding.verdict is Verdict.SAFE for each in whole):
        return Ruling("safe", stage=whole[0].finding.stage)
    units = [each for each in packs if not each.bundle and set(each.parts) <= set(pack.parts)]
    inside = {part for unit in units for part in unit.parts}
    singles = [part for part in pack.parts if part not in inside]
    firm = all(ruling_of_pack(unit, offers, judged).verdict == "safe" for unit in units)
    firm = firm and all(_costs_its_price(own[chain], name, offers, judged) for chain, name in singles)
    if not firm:
        return Ruling("uncertified", next((each.reason for each in mine if each.reason), OPEN))
    reach = [_reach({chain for chain, _ in unit.parts}, pack, offers, packs) for unit in units]
    reach += [_reach({chain}, pack, offers, packs) for chain, _ in singles]
    if any(not one.isdisjoint(other) for one, other in combinations(reach, 2)):
        return Ruling("uncertified", _JOINT)
    return Ruling("safe", stage=max((each.finding.stage for each in judged), default=0))


def _cheaper(pack: Pack, offers: Sequence[Offer], packs: Sequence[Pack], judged: Sequence[Judged]) -> Ruling | None:
    """The arbitrage, if buying every part alone, or as the check found, costs less than the bundle."""
    own, named = {offer.chain: offer for offer in offers}, tier_names(offers)
    alone = {part: _alone(part, own, packs, named) for part in pack.parts}
    seen: dict[tuple[str, str], _Way] = {}
    for each in judged:
        finding = each.finding
        if finding.verdict is Verdict.ARBITRAGE and finding.cost is not None:
            for part in pack.parts:
                meant = (each.chain == part[0] and finding.name == named[part]) or (
                    each.chain == pack.title and part[0] in each.parts
                )
                if meant and (part not in seen or finding.cost < seen[part][1]):
                    seen[part] = (finding.bundle, finding.cost)
    for found in (alone, {**alone, **seen}):
        ways = [way for way in found.values() if way is not None]
        names, cost = bought(ways, judged)
        if len(ways) == len(found) and cost < pack.price:
            return Ruling("arbitrage", "other products give it for less", pack.title, pack.price, 2, names, cost)
    return None


def _alone(
    part: tuple[str, str], own: Mapping[str, Offer], packs: Sequence[Pack], named: Mapping[tuple[str, str], str]
) -> _Way | None:
    """A part at its own price; one that only means sell, in the cheapest mean."""
    chain, name = part
    (price,) = (price for listed, _, price in own[chain].tiers if listed == name)
    if price is not None:
        return (named[part],), price
    means = [each for each in packs if not each.bundle and part in each.parts]
    cheapest = min(means, key=lambda each: each.price, default=None)
    return None if cheapest is None else ((cheapest.title,), cheapest.price)


def _costs_its_price(offer: Offer, listed: str, offers: Sequence[Offer], judged: Sequence[Judged]) -> bool:
    """Whether a tier was proved, wherever it stands, not to be had for less than its own price."""
    name = tier_names(offers)[offer.chain, listed]
    found = [each.finding for each in judged if each.chain == offer.chain and each.finding.name == name]
    classes = len(bases_of(offer))
    return len(found) >= classes and all(each.verdict is Verdict.SAFE for each in found) and not untold(offer, offers)


def _reach(chains: Set[str], pack: Pack, offers: Sequence[Offer], packs: Sequence[Pack]) -> frozenset[str]:
    """Return every chain that may bear on some chains: through common classes, packs that are sold, and so on."""
    groups = [{chain for chain, _ in other.parts} for other in packs if other != pack]
    stands = {offer.chain: set(bases_of(offer)) for offer in offers}
    bases = {base for each in stands.values() for base in each}
    groups += [{chain for chain, in_ in stands.items() if base in in_} for base in bases]
    found = set(chains)
    while True:
        more = {chain for group in groups if group & found for chain in group} - found
        if not more:
            return frozenset(found)
        found |= more
