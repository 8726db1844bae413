"""A valid market's log, written by the very functions that a market uses, without its store: any number of leaves."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from app.engine.release import ComputedDraw
from app.log.leaves import (
    ADJACENCY,
    DatasetLeaf,
    DrawLeaf,
    EpochLeaf,
    Leaf,
    PlanLeaf,
    PlanTier,
    SaleLeaf,
    SnapshotLeaf,
    plain_text,
)
from app.queries.canonical import CanonicalQuery, canonicalise, fingerprint
from app.queries.model import Comparison, Count, GroupByKeys, Query
from app.queries.schema import Column, DatasetSchema
from app.queries.sensitivity import derive
from tiers.accounting.filters import increment
from tiers.budget import Ladder, decimal_text
from tiers.chain import ChainPlan, Draw, answer_bytes, draw_chain, plan, specs
from tiers.identity import DrawSpec, chain_identity, commitment, key_hash, opening_key, stream_key
from tiers.sampling.words import STREAM_VERSION
from tiers.sensitivity import ChangeSet

__all__ = ["Product", "Writer"]

LADDER = ("2", "1", "0.5", "0.1")
PRICES = (9000, 3000, 1200, 500)
KEYS = ("AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
LINEAGE, SNAPSHOT = "data_" + "0" * 24, "snap_" + "0" * 24
SCHEMA = DatasetSchema(
    columns=(
        Column(name="carrier", type="text"),
        Column(name="delay", type="integer"),
        Column(name="plane", type="text"),
    ),
    salt="0" * 64,
    unit="plane",
    max_rows_per_unit=10,
    max_groups_per_unit=2,
)


@dataclass(frozen=True, slots=True)
class Product:
    """One product with its chain, and the draws of it."""

    name: str
    chain: str
    question: CanonicalQuery
    fingerprint: str
    plan: ChainPlan
    draws: tuple[Draw, ...]


@dataclass(slots=True)
class Writer:
    """Writes `products` chains of four tiers over eight counts each, then `sales` sales a product, round and round.

    Every chain's first sale is its top tier where `top` is set, so that all four answers are issued.
    """

    secret: bytes
    products: int
    sales: int
    top: bool
    budget_nano: int = 2**53 - 1

    def product(self, number: int) -> Product:
        """Return a product: flights late by more than `number` minutes, by carrier."""
        asked = Query(
            measure=Count(of="units"),
            where=Comparison(column="delay", operator=">", value=number),
            group_by=GroupByKeys(column="carrier", keys=KEYS),
            groups_per_unit=2,
        )
        question = canonicalise(asked, SCHEMA)
        digest = fingerprint(question.fingerprint_document())
        chain = chain_identity(LINEAGE, SNAPSHOT, digest)
        planned = _plan(derive(question).change_set)
        due = specs(chain, planned, epoch=1, grain=0, length=question.length)
        truth = tuple((number * 31 + place * 17) % 900 for place in range(question.length))
        drawn = draw_chain(truth, due, lambda spec: stream_key(self.secret, spec))
        return Product(f"prod_{number:024x}", chain, question, digest, planned, drawn)

    def opening(self, product: Product, draw: Draw) -> bytes:
        """Return the opening of a draw's commitment."""
        return opening_key(self.secret, product.chain, draw.spec.law)

    def computed(self, product: Product, draw: Draw, sealed: bytes) -> ComputedDraw:
        """Return a draw as the engine would store it."""
        committed = commitment(self.opening(product, draw), product.chain, draw.spec.law, answer_bytes(draw.answer))
        return ComputedDraw(draw.spec, committed, key_hash(stream_key(self.secret, draw.spec)), sealed)

    def opened(self, public: str) -> list[Leaf]:
        """Return the leaves of a log before its first product."""
        return [
            EpochLeaf(index=0, at=_time(0), purpose="signing", epoch=1, public_key=public),
            EpochLeaf(index=1, at=_time(0), purpose="noise", epoch=1, public_key=None),
            DatasetLeaf(
                index=2,
                at=_time(0),
                lineage=LINEAGE,
                unit="plane",
                adjacency=ADJACENCY,
                salt=SCHEMA.salt,
                budget_kind="pure",
                budget_nano=self.budget_nano,
                schema=plain_text(SCHEMA),
                reserve_minor=None,
            ),
            SnapshotLeaf(index=3, at=_time(0), lineage=LINEAGE, snapshot=SNAPSHOT, content="1" * 64, seal="2" * 64),
        ]

    def published(self, start: int, product: Product) -> Iterator[Leaf]:
        """Yield the leaves of a plan and its draws."""
        yield PlanLeaf(
            index=start,
            at=_time(start),
            product=product.name,
            lineage=LINEAGE,
            snapshot=SNAPSHOT,
            question=plain_text(product.question),
            fingerprint=product.fingerprint,
            chain=product.chain,
            derivation=list(derive(product.question).sentences),
            tiers=list(_tiers(product.plan)),
            currency="EUR",
            book_version=1,
            licence="terms/1",
        )
        by_law = {}
        for place, draw in enumerate(product.draws):
            made = self.computed(product, draw, b"")
            by_law[draw.spec.law.identity] = made.commitment
            yield _draw_leaf(start + 1 + place, draw.spec, place, made, by_law)

    def sold(self, index: int, product: Product, number: int, highest: dict[str, int]) -> SaleLeaf:
        """Return the sale number `number` of a product."""
        rank = 0 if self.top and number == 0 else (number * 3 + int(product.name[-4:], 16)) % len(LADDER)
        tier = product.plan.tiers[rank]
        due = increment(tier.level_nano, highest.get(product.chain, 0))
        highest[product.chain] = max(tier.level_nano, highest.get(product.chain, 0))
        return SaleLeaf(
            index=index,
            at=_time(index),
            order=f"order_{index:024x}",
            pseudonym=f"p_{index % 9973:016x}",
            product=product.name,
            chain=product.chain,
            law=tier.law.identity,
            charge_nano=due,
            price_minor=PRICES[rank],
            currency="EUR",
            book_version=1,
            licence="terms/1",
        )


@cache
def _plan(change_set: ChangeSet) -> ChainPlan:
    return plan(Ladder.parse(list(LADDER)), change_set)


def _tiers(planned: ChainPlan) -> Iterator[PlanTier]:
    for rank, (tier, price) in enumerate(zip(planned.tiers, PRICES, strict=True), start=1):
        yield PlanTier(
            rank=rank,
            law=tier.law.document(),
            epsilon=decimal_text(tier.epsilon),
            level_nano=tier.level_nano,
            half_width=str(tier.half_width),
            price_minor=price,
        )


def _draw_leaf(index: int, spec: DrawSpec, place: int, made: ComputedDraw, by_law: dict[str, str]) -> DrawLeaf:
    return DrawLeaf(
        index=index,
        at=_time(index),
        chain=spec.chain,
        place=place,
        role=spec.role.value,
        law=spec.law.document(),
        parents=[parent.document() for parent in spec.parents],
        parent_commitments=[by_law[parent.identity] for parent in spec.parents],
        epoch=spec.epoch,
        sampler=spec.sampler,
        stream=STREAM_VERSION,
        grain=spec.grain,
        length=spec.length,
        commitment=made.commitment,
        key_hash=made.key_hash,
    )


def _time(index: int) -> str:
    second = index // 20
    day, clock = divmod(second, 86400)
    return f"2099-{1 + day // 28:02d}-{1 + day % 28:02d}T{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}Z"
