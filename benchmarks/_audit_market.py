"""A valid market's log, written by the very functions that a market uses, without its store: any number of leaves."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from app.engine.release import ComputedDraw, draw_leaf, sealed_draw
from app.keyring import Keyring
from app.log.leaves import (
    ADJACENCY,
    DatasetLeaf,
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
from tiers.chain import ChainPlan, Draw, draw_chain, plan, specs
from tiers.identity import chain_identity, opening_key, stream_key
from tiers.sensitivity import ChangeSet

__all__ = ["KEYS", "LINEAGE", "OWNER", "SNAPSHOT", "Product", "Writer"]

OWNER = "acc_" + "0" * 24

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

    keyring: Keyring
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
        secret = self.keyring.owner_secret(OWNER, 1)
        drawn = draw_chain(truth, due, lambda spec: stream_key(secret, spec))
        return Product(f"prod_{number:024x}", chain, question, digest, planned, drawn)

    def key(self, draw: Draw) -> bytes:
        """Return the key that a draw was made with."""
        return stream_key(self.keyring.owner_secret(OWNER, 1), draw.spec)

    def opening(self, draw: Draw) -> bytes:
        """Return the opening of a draw's commitment."""
        return opening_key(self.keyring.owner_secret(OWNER, 1), draw.spec.chain, draw.spec.law)

    def computed(self, product: Product) -> tuple[ComputedDraw, ...]:
        """Return the draws of a product as the engine stores them."""
        return tuple(sealed_draw(self.keyring, OWNER, draw, self.key(draw)) for draw in product.draws)

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

    def published(self, start: int, product: Product, computed: tuple[ComputedDraw, ...]) -> Iterator[Leaf]:
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
        commitments = {draw.spec.law.identity: draw.commitment for draw in computed}
        for place, draw in enumerate(computed):
            index = start + 1 + place
            yield draw_leaf(index, draw=draw, place=place, commitments=commitments, at=_time(index))

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


def _time(index: int) -> str:
    second = index // 20
    day, clock = divmod(second, 86400)
    return f"2099-{1 + day // 28:02d}-{1 + day % 28:02d}T{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}Z"
