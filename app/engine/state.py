"""A chain, a tier and an answer as the engine reads them from the store."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
from sqlalchemy import Connection, Row, bindparam, select

from app.errors import NotFoundError
from app.queries.canonical import CanonicalQuery
from app.settings import Settings
from app.store.schema import chains, datasets, draws, offers, planned_tiers, products, snapshots
from tiers.accounting.charges import ChargeRule, LedgerKind, charge_rule
from tiers.canonical import tagged_hash
from tiers.identity import Role, TierLaw

__all__ = [
    "ChainState",
    "DrawRow",
    "Tier",
    "answer_document",
    "chain_of_product",
    "etag_of",
    "offered_laws",
    "tiers_of_chain",
]

# Statements of every sale are built once: to build one costs as much as to run it.
_TIERS = (
    select(
        planned_tiers,
        draws.c.commitment,
        draws.c.sealed_answer,
        draws.c.place,
        draws.c.role,
        draws.c.parents_json,
        draws.c.epoch,
        draws.c.sampler,
    )
    .join(
        draws,
        (draws.c.chain_id == planned_tiers.c.chain_id) & (draws.c.law == planned_tiers.c.law),
        isouter=True,
    )
    .where(planned_tiers.c.chain_id == bindparam("chain"))
    .order_by(planned_tiers.c.rank)
)
_CHAIN = (
    select(
        products.c.id.label("product_id"),
        products.c.state,
        products.c.licence,
        products.c.order_json,
        products.c.request_json,
        products.c.parts_json,
        chains,
        snapshots.c.file,
        snapshots.c.seal,
        snapshots.c.source,
        datasets.c.owner_id,
        datasets.c.budget_kind,
        datasets.c.budget_nano,
        datasets.c.spent_nano,
        datasets.c.reserve_low_minor,
        datasets.c.reserve_high_minor,
    )
    .join(chains, chains.c.id == products.c.chain_id)
    .join(snapshots, snapshots.c.id == chains.c.snapshot_id)
    .join(datasets, datasets.c.id == chains.c.dataset_id)
    .where(products.c.id == bindparam("product"))
)
_OFFERS = select(offers.c.law).where(offers.c.product_id == bindparam("product"))


@dataclass(frozen=True, slots=True)
class DrawRow:
    """How a tier's one answer was drawn."""

    place: int
    role: Role
    parents: tuple[str, ...]
    epoch: int
    sampler: str


@dataclass(frozen=True, slots=True)
class Tier:
    """A planned tier as stored; `drawn` says whether its one answer exists."""

    chain: str
    law: str
    rank: int
    document: TierLaw
    epsilon: str
    level_nano: int
    half_width: str
    same_as_above: str | None
    commitment: str | None
    sealed: bytes | None
    draw: DrawRow | None

    @property
    def drawn(self) -> bool:
        """Return whether the tier's answer has been drawn."""
        return self.sealed is not None


@dataclass(frozen=True, slots=True)
class ChainState:
    """One chain with what its draws need: the owner, the snapshot's file and seal, the question, the epoch."""

    id: str
    dataset: str
    owner: str
    snapshot: str
    file: Path
    seal: str
    source: str | None
    fingerprint: str
    query: CanonicalQuery
    keys: tuple[str, ...]
    length: int
    grain: int
    epoch: int
    highest_nano: int
    highest_rank: int | None
    kind: LedgerKind
    budget_nano: int
    spent_nano: int
    reserve: tuple[int, int] | None
    tiers: tuple[Tier, ...]

    @property
    def drawn(self) -> tuple[Tier, ...]:
        """Return the tiers whose answers exist, in the order of their drawing."""
        known = [tier for tier in self.tiers if tier.draw is not None]
        return tuple(sorted(known, key=lambda tier: tier.draw.place if tier.draw else 0))

    @property
    def top_nano(self) -> int:
        """Return the highest level of its tiers: what is reserved at the opening, where increments are not sound."""
        return max(tier.level_nano for tier in self.tiers)

    @property
    def rule(self) -> ChargeRule:
        """Return how the chain is charged in its dataset's ledger."""
        rules = {charge_rule(self.kind, tier.document.noise.family) for tier in self.tiers}
        return ChargeRule.RESERVE if ChargeRule.RESERVE in rules else ChargeRule.INCREMENT

    def tier(self, law: str) -> Tier:
        """Return the tier of a law; raises NotFoundError."""
        for tier in self.tiers:
            if tier.law == law:
                return tier
        raise NotFoundError("tier: expected a law of this chain, got another")


def tiers_of_chain(connection: Connection, chain: str) -> tuple[Tier, ...]:
    """Return a chain's tiers, most accurate first."""
    return tuple(_tier(row) for row in connection.execute(_TIERS, {"chain": chain}))


def chain_of_product(connection: Connection, settings: Settings, product: str) -> tuple[ChainState, Row[tuple[object]]]:
    """Return a product's chain, and the product's row; raises NotFoundError."""
    row = connection.execute(_CHAIN, {"product": product}).one_or_none()
    if row is None:
        raise NotFoundError("product: expected an existing id, got another")
    state = ChainState(
        id=row.id,
        dataset=row.dataset_id,
        owner=row.owner_id,
        snapshot=row.snapshot_id,
        file=settings.snapshots / row.file,
        seal=row.seal,
        source=row.source,
        fingerprint=row.fingerprint,
        query=msgspec.json.decode(row.query_json, type=CanonicalQuery),
        keys=tuple(msgspec.json.decode(row.keys_json, type=list[str])),
        length=row.length,
        grain=row.grain,
        epoch=row.epoch,
        highest_nano=row.highest_nano,
        highest_rank=row.highest_rank,
        kind=LedgerKind(row.budget_kind),
        budget_nano=row.budget_nano,
        spent_nano=row.spent_nano,
        reserve=None if row.reserve_low_minor is None else (row.reserve_low_minor, row.reserve_high_minor),
        tiers=tiers_of_chain(connection, row.id),
    )
    return state, row


def offered_laws(connection: Connection, product: str) -> frozenset[str]:
    """Return the laws that a product offers of its chain."""
    return frozenset(connection.execute(_OFFERS, {"product": product}).scalars())


def answer_document(chain: ChainState, tier: Tier, answer: tuple[int, ...]) -> bytes:
    """Return the JSON in which a tier's one answer travels: lattice integers as text, keys in canonical order."""
    document = {
        "chain": chain.id,
        "confidence": "0.95",
        "epsilon": tier.epsilon,
        "grain_exponent": chain.grain,
        "half_width": tier.half_width,
        "keys": list(chain.keys),
        "law": tier.law,
        "snapshot": chain.snapshot,
        "values": [str(value) for value in answer],
    }
    return msgspec.json.encode(document, order="sorted")


def etag_of(chain: str, law: str, body: bytes) -> str:
    """Return the strong ETag of one representation of one answer."""
    return f'"{tagged_hash("etag/1", chain.encode(), law.encode(), body).hex()[:32]}"'


def _draw(row: Row[tuple[object]]) -> DrawRow:
    parents = tuple(msgspec.json.decode(row.parents_json, type=list[str]))
    return DrawRow(row.place, Role(row.role), parents, row.epoch, row.sampler)


@lru_cache(maxsize=4_096)
def _law(text: str) -> TierLaw:
    return TierLaw.from_document(msgspec.json.decode(text))


def _tier(row: Row[tuple[object]]) -> Tier:
    return Tier(
        chain=row.chain_id,
        law=row.law,
        rank=row.rank,
        document=_law(row.law_json),
        epsilon=row.epsilon,
        level_nano=row.level_nano,
        half_width=row.half_width,
        same_as_above=row.same_as_above,
        commitment=row.commitment,
        sealed=row.sealed_answer,
        draw=None if row.place is None else _draw(row),
    )
