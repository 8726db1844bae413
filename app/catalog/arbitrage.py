"""The live catalogue as an arbitrageur sees it: which products estimate combinations of which others.

Products are compared where they count or sum the same thing over parts of one column. What contribution bounds and
clamps leave out may differ between them; it stands outside the error bar, and so outside this check.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from app.queries.canonical import CanonicalQuery, CountUnits, SumSteps
from app.queries.conditions import Atom, Condition, Junction, condition_document
from app.store.schema import book_prices, chains, planned_tiers, products
from pricing.arbitrage import Finding, Verdict, audit_catalogue
from pricing.catalogue import CATALOGUE_LIMIT, Catalogue, Product
from pricing.errors import InvalidProductError
from pricing.limit import UNLIMITED, Limit
from tiers.canonical import canonical_bytes
from tiers.identity import TierLaw

__all__ = ["Offer", "check_catalogue", "live_offers", "offer_of", "verdict_on"]

_CELLS = 256


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


def live_offers(connection: Connection) -> list[Offer]:
    """Return every chain of a live product at its current book; a mean's two are sold together only, and left out."""
    return _offers(connection, (products.c.state == "live") & products.c.parts_json.is_(None))


def offer_of(connection: Connection, product: str) -> Offer:
    """Return a product's chain as it would be on sale at its current book, whether it is or not."""
    return _offers(connection, products.c.id == product)[0]


def _offers(connection: Connection, which: Any) -> list[Offer]:
    wanted = (
        select(
            chains.c.id,
            chains.c.dataset_id,
            chains.c.snapshot_id,
            chains.c.query_json,
            chains.c.currency,
            products.c.title,
            planned_tiers.c.law_json,
            planned_tiers.c.epsilon,
            book_prices.c.price_minor,
        )
        .join(products, products.c.chain_id == chains.c.id)
        .join(planned_tiers, planned_tiers.c.chain_id == chains.c.id)
        .join(
            book_prices,
            (book_prices.c.chain_id == chains.c.id)
            & (book_prices.c.law == planned_tiers.c.law)
            & (book_prices.c.version == chains.c.book_version),
        )
        .where(which)
        .order_by(products.c.leaf_index, planned_tiers.c.rank)
    )
    found: dict[str, Offer] = {}
    listed: set[tuple[str, TierLaw]] = set()
    for row in connection.execute(wanted):
        law = TierLaw.from_document(msgspec.json.decode(row.law_json))
        priced = (f"{row.title} @ ε {row.epsilon}", law.noise.variance(), row.price_minor)
        query = msgspec.json.decode(row.query_json, type=CanonicalQuery)
        offer = found.setdefault(
            row.id, Offer(row.dataset_id, row.snapshot_id, row.id, row.title, query, row.currency, ())
        )
        if (row.id, law) not in listed:  # several products may offer one tier: it is one good, under the first name
            listed.add((row.id, law))
            found[row.id] = replace(offer, tiers=(*offer.tiers, priced))
    return list(found.values())


def verdict_on(chain: str, offers: Sequence[Offer], findings: Sequence[Finding], names: Mapping[str, str]) -> str:
    """Return the verdict on a chain: safe only if every tier of it is, and no other product could bear on it unseen.

    Products of the same measure on the same snapshot that stand in no common class with it are not compared: they
    leave it uncertified.
    """
    target = next(offer for offer in offers if offer.chain == chain)
    bases = {part.base for part in _parts(target.query)}
    kin = [offer for offer in offers if offer.snapshot == target.snapshot and _measured(offer) == _measured(target)]
    unseen = [offer for offer in kin if {part.base for part in _parts(offer.query)} != bases]
    if unseen or (len(bases) != 1 and len(kin) > 1):
        names_seen = {finding.verdict for finding in findings if names.get(finding.name) == chain}
        return (Verdict.ARBITRAGE if Verdict.ARBITRAGE in names_seen else Verdict.UNCERTIFIED).value
    mine = {finding.verdict for finding in findings if names.get(finding.name) == chain}
    for verdict in (Verdict.ARBITRAGE, Verdict.UNCERTIFIED):
        if verdict in mine:
            return verdict.value
    return Verdict.SAFE.value


def _measured(offer: Offer) -> str:
    measure = offer.query.measure
    return f"{type(measure).__name__}/{measure.column.id if isinstance(measure, SumSteps) else ''}"


def check_catalogue(
    offers: Sequence[Offer], *, level: int, limit: Limit = UNLIMITED, only: str | None = None
) -> tuple[list[Finding], dict[str, str]]:
    """Check every class of comparable products (those of chain `only`, if named); return findings and chains by name.

    A class that is too large to check yields UNCERTIFIED findings, never SAFE ones.
    """
    findings: list[Finding] = []
    chain_of: dict[str, str] = {}
    for _, members in sorted(_classes(offers).items()):
        if only is not None and all(offer.chain != only for offer, _ in members):
            continue
        built = _catalogue(members, chain_of)
        if built is None:
            findings += _uncertified(members, chain_of)
        elif len(members) > 1 or only is None:
            findings += audit_catalogue(built, level, limit)  # type: ignore[arg-type]
    return findings, chain_of


def _classes(offers: Sequence[Offer]) -> dict[bytes, list[tuple[Offer, "_Part"]]]:
    """Group what measures the same thing over parts of one column; a question may stand in several groups."""
    found: dict[bytes, list[tuple[Offer, _Part]]] = defaultdict(list)
    for offer in offers:
        for part in _parts(offer.query):
            base = {"snapshot": offer.snapshot, "currency": offer.currency, "part": part.base}
            found[canonical_bytes(base)].append((offer, part))
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """A question as parts of one column: each row is a set of the column's values."""

    base: str
    rows: tuple[frozenset[str], ...]
    additive: bool


def _parts(query: CanonicalQuery) -> Iterator[_Part]:
    additive = not isinstance(query.measure, CountUnits) or query.unit is None
    if query.ranges:
        return
    if query.group is not None:
        rest = _base(query, query.group.id, query.where)
        yield _Part(rest, tuple(frozenset([key]) for key in query.keys), additive)
        return
    conditions = _conjuncts(query.where)
    for condition in conditions:
        if isinstance(condition, Atom) and condition.operator == "in":
            others = [other for other in conditions if other is not condition]
            rest = _base(query, condition.column.id, _joined(others))
            yield _Part(rest, (frozenset(condition.values),), additive)


def _base(query: CanonicalQuery, column: str, where: Condition | None) -> str:
    measure = msgspec.to_builtins(query.measure)
    kept = {name: value for name, value in measure.items() if name not in ("lower", "upper")}
    if isinstance(kept.get("column"), dict):
        kept["column"] = kept["column"]["id"]
    document: dict[str, Any] = {
        "measure": kept,
        "unit": "" if query.unit is None else query.unit.id,
        "column": column,
        "where": [] if where is None else [condition_document(where)],
    }
    return canonical_bytes(document).decode()


def _conjuncts(where: Condition | None) -> list[Condition]:
    if where is None:
        return []
    if isinstance(where, Junction) and where.operator == "and":
        return list(where.operands)
    return [where]


def _joined(conditions: list[Condition]) -> Condition | None:
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else Junction("and", tuple(conditions))


def _catalogue(members: list[tuple[Offer, _Part]], chain_of: dict[str, str]) -> Catalogue | None:
    cells = sorted({cell for _, part in members for row in part.rows for cell in _cells(row, part)})
    if len(cells) > _CELLS or sum(len(offer.tiers) for offer, _ in members) > CATALOGUE_LIMIT:
        return None
    goods = []
    for offer, part in members:
        rows = tuple(tuple(float(cell in _cells(row, part)) for cell in cells) for row in part.rows)
        for name, variance, price in offer.tiers:
            unique = name if name not in chain_of or chain_of[name] == offer.chain else f"{name} ({offer.chain[:8]})"
            chain_of[unique] = offer.chain
            try:
                goods.append(Product(unique, offer.chain, rows, variance, price, offer.currency))
            except InvalidProductError:
                return None
    return Catalogue(tuple(goods))


def _cells(row: frozenset[str], part: _Part) -> frozenset[str]:
    """The bins a row adds up: one a value; where parts do not add up (units in several), a bin for the set itself."""
    return row if part.additive or len(row) == 1 else frozenset(["\x00".join(sorted(row))])


def _uncertified(members: list[tuple[Offer, _Part]], chain_of: dict[str, str]) -> list[Finding]:
    found = []
    for offer, _ in members:
        for name, _variance, price in offer.tiers:
            chain_of[name] = offer.chain
            found.append(Finding(name, Verdict.UNCERTIFIED, price, 0, 0.0))
    return found
