"""Classes of comparable products, and a finding on every tier and pack in them. Pure: offers in, findings out."""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from app.catalog.parts import Part, parts_of
from app.queries.canonical import CanonicalQuery
from pricing.arbitrage import Finding, Verdict, audit_catalogue
from pricing.catalogue import CATALOGUE_LIMIT, VARIANCES, Bundle, Catalogue, Product
from pricing.errors import InvalidProductError
from pricing.limit import UNLIMITED, Limit
from tiers.canonical import canonical_bytes

__all__ = ["OPEN", "SIZE", "Judged", "Offer", "Pack", "check_catalogue", "mates"]

OPEN = "not settled by the stages that were run"
SIZE = "too many cells or tiers to compare"
_CELLS = 256
_TIME = "out of time before it was settled"
_VARIANCE = "a variance beyond what can be compared"


@dataclass(frozen=True, slots=True)
class Offer:
    """One chain as it is priced: its question, and for each tier a name, the variance of its noise and its price.

    A tier without a price is sold in packs only.
    """

    dataset: str
    snapshot: str
    chain: str
    title: str
    query: CanonicalQuery
    currency: str
    tiers: tuple[tuple[str, float, int | None], ...]


@dataclass(frozen=True, slots=True)
class Pack:
    """Tiers of several chains at one price, bought whole: a mean is a tier of its sum and one of its count."""

    title: str
    price: int
    parts: tuple[tuple[str, str], ...]  # chain, listed name


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding on one tier of a chain, and why it is uncertified where it is.

    A pack's finding (chain: its title) is about those of its `parts` that stand in one class.
    """

    chain: str
    finding: Finding
    reason: str = ""
    parts: tuple[str, ...] = ()


def check_catalogue(
    offers: Sequence[Offer],
    *,
    level: Literal[1, 2, 3],
    limit: Limit = UNLIMITED,
    only: Set[str] | None = None,
    packs: Sequence[Pack] = (),
) -> list[Judged]:
    """Check every class of comparable products (those of the chains `only`, if named) and judge every tier in them.

    Who wants a part of a pack that is in a class must buy it whole: there it is a bundle, at its whole price.

    A class that is too large to check is uncertified, never safe. A tier whose variance no solver can compare is
    uncertified alone: one that is too noisy stands in for itself with less noise, which can only help an attacker; one
    that is too accurate leaves uncertified what costs more than it, and nothing else.
    """
    names = _names(offers)
    found: list[Judged] = []
    for _, members in sorted(_classes(offers).items()):
        if only is None or any(offer.chain in only for offer, _ in members):
            found += _class_findings(members, packs, names, level, limit)
    return found


def mates(offers: Sequence[Offer], chains: Set[str]) -> set[str]:
    """Return the chains that stand in one class with one of some chains, themselves included where they are on sale.

    Example:
        >>> mates([], {"c1"})
        set()
    """
    classes = ({offer.chain for offer, _ in members} for members in _classes(offers).values())
    met = {chain for members in classes if not members.isdisjoint(chains) for chain in members}
    return met | {offer.chain for offer in offers if offer.chain in chains}


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
    members: _Members,
    packs: Sequence[Pack],
    names: Mapping[tuple[str, str], str],
    level: Literal[1, 2, 3],
    limit: Limit,
) -> list[Judged]:
    cells = sorted({cell for _, part in members for row in part.rows for cell in row})
    bundles = _bundles(members, packs, names)
    if len(cells) > _CELLS or sum(len(offer.tiers) for offer, _ in members) + len(bundles) > CATALOGUE_LIMIT:
        return _uncertified(members, bundles, names, SIZE)
    packed = {name for pack in bundles for name in pack.parts}
    chain_of = {pack.name: pack.name for pack in bundles}
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
                if price is None or name in packed:
                    return _uncertified(members, bundles, names, _VARIANCE)
                outside.append((offer.chain, name, price))
                if variance < VARIANCES[0]:
                    keenest = price if keenest is None else min(keenest, price)
                else:
                    noisy.append((price, name))
            if noisy and all(good.chain_id != offer.chain or good.variance < VARIANCES[1] for good in goods):
                price, name = min(noisy)
                stand_ins.add(name)
                goods.append(Product(name, offer.chain, rows, VARIANCES[1], price, offer.currency))
        findings = audit_catalogue(Catalogue(tuple(goods), bundles), level, limit) if goods else []
    except InvalidProductError:
        return _uncertified(members, bundles, names, SIZE)
    over = limit.is_over()
    parts = {pack.name: tuple(chain_of[part] for part in pack.parts) for pack in bundles}
    judged = [
        replace(
            _judged(finding, chain_of[finding.name], stand_ins, keenest, over=over), parts=parts.get(finding.name, ())
        )
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
        return Judged(chain, finding, _TIME if over else OPEN)
    return Judged(chain, finding)


def _bundles(members: _Members, packs: Sequence[Pack], names: Mapping[tuple[str, str], str]) -> tuple[Bundle, ...]:
    """Each pack as far as it is in the class; bought by its parts here, but at its whole price."""
    here = {offer.chain for offer, _ in members}
    held = [(pack, tuple(names[part] for part in pack.parts if part[0] in here)) for pack in packs]
    return tuple(Bundle(pack.title, parts, pack.price) for pack, parts in held if parts)


def _uncertified(
    members: _Members, bundles: Sequence[Bundle], names: Mapping[tuple[str, str], str], reason: str
) -> list[Judged]:
    found = []
    chain_of = {}
    for offer, _ in members:
        for listed, _, price in offer.tiers:
            name = names[offer.chain, listed]
            chain_of[name] = offer.chain
            if price is not None:
                found.append(Judged(offer.chain, Finding(name, Verdict.UNCERTIFIED, price, 0, 0.0), reason))
    for pack in bundles:
        parts = tuple(chain_of[part] for part in pack.parts)
        finding = Finding(pack.name, Verdict.UNCERTIFIED, pack.price, 0, 0.0)
        found.append(Judged(pack.name, finding, reason, parts))
    return found
