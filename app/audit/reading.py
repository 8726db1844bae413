"""From leaves to the records that the pure checks read; every text is bounded and canonical before it is a number."""

import sys
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import msgspec

from app.log.leaves import (
    CreditLeaf,
    DatasetLeaf,
    DrawLeaf,
    Leaf,
    PlanLeaf,
    PlanTier,
    SaleLeaf,
)
from tiers.accounting.charges import LedgerKind
from tiers.accounting.levels import rho_above
from tiers.audit.records import BudgetRecord, ClaimedTier, CreditRecord, DrawRecord, PlanRecord, SaleRecord
from tiers.budget import decimal_text, parse_decimal
from tiers.errors import InvalidParameterError, TierError
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.noise.law import parse_whole
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sampling.words import STREAM_VERSION

__all__ = ["UNREADABLE", "Reader", "Record"]

UNREADABLE = (TierError, ValueError, ArithmeticError, TypeError, RecursionError)
"""What reading hostile text may raise: each becomes a finding."""

_FAMILIES = {"discrete-gaussian", "lattice-gaussian", "msdlap", "skellam", "tsg"}
_SCALES, _VARIANCE, _VECTORS, _DELTA = 16, 2.0**60, 2**20, Fraction(1, 10**30)
_KEPT_LAWS = 4096
_ENCODER = msgspec.json.Encoder(order="sorted")


Record: TypeAlias = BudgetRecord | PlanRecord | DrawRecord | SaleRecord | CreditRecord


class Reader:
    """Reads leaves one by one; a law that many leaves name is read once."""

    def __init__(self) -> None:
        self._lineages: set[str] = set()
        self._ladders: dict[bytes, tuple[ClaimedTier, ...]] = {}

    def read(self, leaf: Leaf) -> Record | None:
        """Return the record of a leaf, or None where the pure checks read none; raises UNREADABLE."""
        match leaf:
            case SaleLeaf():
                return SaleRecord(
                    leaf.index, leaf.order, leaf.product, leaf.chain, leaf.law, leaf.charge_nano, leaf.price_minor
                )
            case DrawLeaf():
                return self._draw(leaf)
            case PlanLeaf():
                return self._plan(leaf)
            case DatasetLeaf():
                return self._budget(leaf)
            case CreditLeaf():
                return CreditRecord(leaf.index, leaf.order, leaf.amount_minor)
        return None

    def law(self, document: object) -> TierLaw:
        """Return the law of a document; equal documents give the same object, whoever reads them.

        It is a law that this version sells: its work is bounded, whatever its parameters.
        """
        return _law(_ENCODER.encode(document))

    def _budget(self, leaf: DatasetLeaf) -> BudgetRecord:
        kind = LedgerKind(leaf.budget_kind)
        if (kind is LedgerKind.APPROX) != (leaf.promise is not None):
            raise ValueError("promise: expected one of an approximate budget, and of no other, got another")
        if leaf.budget_nano < 1:
            raise ValueError("budget: expected at least 10⁻⁹, got none")
        if leaf.lineage in self._lineages:
            raise ValueError("lineage: expected one budget a lineage, got a second")
        self._lineages.add(leaf.lineage)
        promise = None
        if leaf.promise is not None:
            epsilon, delta = (parse_decimal(name, text) for name, text in zip("εδ", leaf.promise, strict=True))
            promise = epsilon, delta
        return BudgetRecord(leaf.index, leaf.lineage, leaf.budget_nano, kind, promise)

    def _plan(self, leaf: PlanLeaf) -> PlanRecord:
        lineage, snapshot = sys.intern(leaf.lineage), sys.intern(leaf.snapshot)
        tiers = self._ladder(leaf.tiers)
        return PlanRecord(leaf.index, leaf.product, leaf.chain, lineage, snapshot, leaf.fingerprint, tiers)

    def _ladder(self, tiers: list[PlanTier]) -> tuple[ClaimedTier, ...]:
        """The tiers of a plan; those that many plans claim are read once, and one object."""
        name = _ENCODER.encode(tiers)
        ladder = self._ladders.get(name)
        if ladder is None:
            ladder = tuple(self._tier(tier) for tier in tiers)
            if len(self._ladders) >= _KEPT_LAWS:
                self._ladders.clear()
            self._ladders[name] = ladder
        return ladder

    def _tier(self, tier: PlanTier) -> ClaimedTier:
        epsilon = parse_decimal("epsilon", tier.epsilon)
        if decimal_text(epsilon) != tier.epsilon:
            raise InvalidParameterError("epsilon", decimal_text(epsilon), tier.epsilon)
        half_width = parse_whole("half width", tier.half_width)
        return ClaimedTier(tier.rank, self.law(tier.law), epsilon, tier.level_nano, half_width)

    def _draw(self, leaf: DrawLeaf) -> DrawRecord:
        spec = DrawSpec(
            chain=sys.intern(leaf.chain),
            epoch=leaf.epoch,
            role=Role(leaf.role),
            law=self.law(leaf.law),
            parents=tuple(self.law(parent) for parent in leaf.parents),
            grain=leaf.grain,
            length=leaf.length,
            sampler=sys.intern(leaf.sampler),
        )
        if leaf.stream != STREAM_VERSION:
            raise ValueError(f"stream layout: expected version {STREAM_VERSION}, got {leaf.stream}")
        return DrawRecord(leaf.index, spec, leaf.place, tuple(leaf.parent_commitments), leaf.commitment, leaf.key_hash)


@lru_cache(maxsize=_KEPT_LAWS)
def _law(encoded: bytes) -> TierLaw:
    document = msgspec.json.decode(encoded)
    if not isinstance(document, dict) or document.get("family") not in _FAMILIES:
        raise InvalidParameterError("law", f"a law of a family of {sorted(_FAMILIES)}", "another law")
    law = TierLaw.from_document(document)
    noise = law.noise
    if not isinstance(noise, TwoSidedGeometric):
        scales = noise.scales if isinstance(noise, MultiScaleDiscreteLaplace) else 1
        step, bins = law.change_set.step, law.change_set.bins
        if scales > _SCALES or not noise.variance() < _VARIANCE or (not law.pure and max(step, bins) > _VECTORS):
            raise InvalidParameterError("law", "one of bounded scales, variance and change set", "a larger one")
        if not law.pure and law.delta < _DELTA:
            raise InvalidParameterError("delta", "at least 10⁻³⁰", "a smaller one")
        law.epsilon()  # raises here, where that is a finding, or never
        rho_above(law)
    return law
