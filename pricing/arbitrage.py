"""Whether any good of a catalogue can be had for less by combining others: certificate, relaxation, exact search."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Literal

from pricing.catalogue import Catalogue, Good
from pricing.errors import InvalidProductError
from pricing.limit import UNLIMITED, Limit
from pricing.reach import market_for, yields
from pricing.search import Cheapest, Search

__all__ = ["Finding", "Verdict", "audit_catalogue", "cheapest_bundle"]


class Verdict(StrEnum):
    """What the check can say; only SAFE and ARBITRAGE are proofs."""

    SAFE = "safe"
    ARBITRAGE = "arbitrage"
    UNCERTIFIED = "uncertified"


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one good: under ARBITRAGE the bundle that yields it and its cost, else the best lower bound.

    `lower_bound` is inf where the rest of the catalogue cannot yield the good at all. `stage`: 0 by comparison of
    prices, 1 certificate, 2 relaxation, 3 search.

    Example:
                >>> Finding("total@1", Verdict.SAFE, 3000, 1, 3100.0).verdict
                <Verdict.SAFE: 'safe'>
    """

    name: str
    verdict: Verdict
    price: int
    stage: int
    lower_bound: float
    cost: int | None = None
    bundle: tuple[str, ...] = ()


def cheapest_bundle(name: str, catalogue: Catalogue, limit: Limit = UNLIMITED) -> Cheapest:
    """Return the cheapest bundle that yields `name`, goods of its own chain at least as accurate left out.

    Raises:     UnknownTierError: no such good.
    Example:
                >>> from pricing.catalogue import Product
                >>> rows = {"east": (1, 0), "west": (0, 1)}
                >>> bins = [Product(name, name, (rows[name],), 8.0, 10, "EUR") for name in rows]
                >>> total = Product("total", "t", ((1, 1),), 16.0, 25, "EUR")
                >>> cheapest_bundle("total", Catalogue((*bins, total))).names
                ('east', 'west')
    """
    search = Search(market_for(name, catalogue))
    bound = search.one_cut()
    if bound == inf:
        return Cheapest(None, (), inf, proven=search.certifies(1))
    bound = max(bound, search.relaxation(limit, goal=inf))
    return search.integer(limit, bound, below=None)


def audit_catalogue(catalogue: Catalogue, level: Literal[1, 2, 3], limit: Limit = UNLIMITED) -> list[Finding]:
    """Return one finding a good, from the cheapest stage (up to `level`) that settles it.

    Guarantee:  SAFE is only said with a proof in whole numbers (`pricing.proof`) in which every rounding favours the
                attacker; a variance within 10⁻⁹ of the target's counts as reached. ARBITRAGE names a bundle that was
                checked to reach the target. Out of time, or out of reach of the stages allowed: UNCERTIFIED.
    Args:       level: 1 for a form's live check, 2 at publication, 3 in a nightly audit. limit: over all goods.
    Raises:     InvalidProductError: a level that is not 1, 2 or 3.
    Example:
                >>> from pricing.catalogue import Product
                >>> rows = {"east": (1, 0), "west": (0, 1)}
                >>> bins = [Product(name, name, (rows[name],), 8.0, 10, "EUR") for name in rows]
                >>> total = Product("total", "t", ((1, 1),), 16.0, 25, "EUR")
                >>> findings = audit_catalogue(Catalogue((*bins, total)), 3)
                >>> [(finding.name, finding.verdict.value, finding.cost) for finding in findings]
                [('east', 'safe', None), ('west', 'safe', None), ('total', 'arbitrage', 20)]
    """
    if level not in (1, 2, 3):
        raise InvalidProductError("level", "1, 2 or 3", level)
    goods = catalogue.goods
    findings = []
    for done, good in enumerate(goods, start=1):
        findings.append(_finding(good, catalogue, level, limit))
        limit.progress("arbitrage", done, len(goods))
    return findings


def _finding(good: Good, catalogue: Catalogue, level: int, limit: Limit) -> Finding:
    """Compare prices first; search only where no single good settles it."""
    name, price = good.name, good.price
    rivals = [other for other in catalogue.goods if other != good and yields(other, good, catalogue)]
    cheapest = min(rivals, key=lambda other: other.price, default=good)
    if cheapest.price < price:
        return Finding(name, Verdict.ARBITRAGE, price, 0, float(cheapest.price), cheapest.price, (cheapest.name,))
    if price == 0 or limit.is_over():
        return Finding(name, _verdict(safe=price == 0), price, 0, 0.0)
    return _searched(good, Search(market_for(name, catalogue, below=price)), level, limit)


def _searched(good: Good, search: Search, level: int, limit: Limit) -> Finding:
    """Go through the stages until one settles it."""
    name, price = good.name, good.price
    bound, stage = search.one_cut(), 1
    safe = search.certifies(price)
    if level > 1 and not safe:
        bound, stage = max(bound, search.relaxation(limit, goal=price)), 2
        safe = search.certifies(price)
    if level == 1 or safe:
        return Finding(name, _verdict(safe=safe), price, stage, bound)
    found = search.rounded(bound)
    if level == 3:
        found, stage = search.integer(limit, bound, below=price), 3
    if found.cost is not None and found.cost < price:
        return Finding(name, Verdict.ARBITRAGE, price, stage, found.lower_bound, found.cost, found.names)
    return Finding(name, _verdict(safe=found.proven), price, stage, found.lower_bound)


def _verdict(*, safe: bool) -> Verdict:
    return Verdict.SAFE if safe else Verdict.UNCERTIFIED
