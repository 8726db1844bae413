"""The log as the checks read it: typed records in leaf order, free of any storage format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from tiers.accounting.charges import LedgerKind
from tiers.identity import DrawSpec, TierLaw
from tiers.rank import more_accurate

__all__ = [
    "BudgetRecord",
    "ChainKey",
    "ClaimedTier",
    "CreditRecord",
    "DrawRecord",
    "Evidence",
    "History",
    "PlanRecord",
    "SaleRecord",
    "joined",
    "named",
]

ChainKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """A lineage and its budget: the kind of ledger, and its units of 10⁻⁹ (of ε if it is pure, else of ρ).

    Args:       promise: the (ε, δ) of an approximate ledger.
    """

    leaf: int
    lineage: str
    budget_nano: int
    kind: LedgerKind = LedgerKind.PURE
    promise: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True, slots=True)
class ClaimedTier:
    """One tier as a plan claims it."""

    rank: int
    law: TierLaw
    epsilon: Fraction
    level_nano: int
    half_width: int


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A product's plan on a chain; `laws` are those of its tiers, by identity: one mapping for all equal plans."""

    leaf: int
    product: str
    chain: str
    lineage: str
    snapshot: str
    fingerprint: str
    tiers: tuple[ClaimedTier, ...]
    laws: Mapping[str, TierLaw] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "laws", named(tuple([tier.law for tier in self.tiers])))


@dataclass(frozen=True, slots=True)
class DrawRecord:
    """One draw: its spec, where it stands in the chain's order of drawing, and its commitments."""

    leaf: int
    spec: DrawSpec
    place: int
    parents: tuple[str, ...]
    commitment: str
    key_hash: str


@dataclass(frozen=True, slots=True)
class SaleRecord:
    """One sale: which tier of which chain, and what it charged."""

    leaf: int
    order: str
    product: str
    chain: str
    law: str
    charge_nano: int
    price_minor: int


@dataclass(frozen=True, slots=True)
class CreditRecord:
    """Money of an order given back."""

    leaf: int
    order: str
    amount_minor: int


@dataclass(frozen=True, slots=True)
class History:
    """Everything the log says, each kind in leaf order."""

    budgets: tuple[BudgetRecord, ...]
    snapshots: Mapping[str, str]
    epochs: Mapping[int, int]
    plans: tuple[PlanRecord, ...]
    draws: tuple[DrawRecord, ...]
    sales: tuple[SaleRecord, ...]
    withdrawn: Mapping[str, int] = field(default_factory=dict)
    credits: tuple[CreditRecord, ...] = ()

    def kinds(self) -> dict[str, LedgerKind]:
        """Return the kind of ledger of each lineage."""
        return {budget.lineage: budget.kind for budget in self.budgets}

    def highest_issued(self) -> dict[str, TierLaw]:
        """Return each chain's most accurate sold law: the highest rank among the laws its sales name."""
        laws = {(draw.spec.chain, draw.spec.law.identity): draw.spec.law for draw in self.draws}
        highest: dict[str, TierLaw] = {}
        for sale in self.sales:
            law = laws.get((sale.chain, sale.law))
            if law is not None and (sale.chain not in highest or more_accurate(law, highest[sale.chain])):
                highest[sale.chain] = law
        return highest


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an auditor may open: answers with openings, and keys of draws, by (chain, law)."""

    openings: Mapping[ChainKey, tuple[bytes, tuple[int, ...]]]
    keys: Mapping[ChainKey, bytes]


def joined(known: Mapping[str, TierLaw] | None, more: Mapping[str, TierLaw]) -> Mapping[str, TierLaw]:
    """Return the laws of a chain after a further plan; the plan's own mapping where it is the first.

    Example:
        >>> joined(None, {}), joined({}, {})
        ({}, {})
    """
    return more if known is None else {**known, **more}


@lru_cache(maxsize=4096)
def named(laws: tuple[TierLaw, ...]) -> Mapping[str, TierLaw]:
    """Return laws by identity, in their order: the same mapping for the same laws.

    Example:
        >>> dict(named(()))
        {}
    """
    return MappingProxyType({law.identity: law for law in laws})
