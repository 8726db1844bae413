"""The leaves of panels: what is opened, what each closed round came to, who bought which tier of it.

No leaf holds a report, a count, a device or a key: a round's commitments hide what they bind until somebody may know.
"""

import hashlib
import math
from typing import Annotated, TypeAlias

import msgspec

from app.log.axes import Axis, Metric
from app.log.leaf_base import Hex, LeafBase, Natural, Text
from tiers.canonical import canonical_bytes

__all__ = [
    "LateDrawLeaf",
    "LateTierLeaf",
    "PanelLeaf",
    "PanelSaleLeaf",
    "PanelStopLeaf",
    "PanelThawLeaf",
    "PanelTier",
    "RoundLeaf",
    "RoundRecord",
    "TierRecord",
    "round_identity",
    "tier_identity",
]

_LawText: TypeAlias = Annotated[str, msgspec.Meta(max_length=2**17)]  # of a mixed plan: all of its paths
_Laws: TypeAlias = Annotated[dict[str, _LawText], msgspec.Meta(max_length=16)]
_Signature: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]


class PanelTier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One tier of a panel's menu: what is promised, the law that keeps it, and its list price.

    Args:       across: where ε is a step's: the ε between the two values farthest apart.
    """

    epsilon: Text
    law: _Laws
    price_minor: Natural
    across: Text | None = None


class PanelLeaf(LeafBase, frozen=True, kw_only=True, tag="panel", omit_defaults=True):
    """A panel opens: its domain in order, its menu, and what one device may spend.

    Args:       promise: what ε means: for any two "values", or for each of the "steps" of an ordered domain.
                budget_nano: of a device, in 10⁻⁹ of ε. axes: of points: the domain, which is then empty itself. metric:
                of a promise a step: the distance, its unit, and the steps between the two values farthest apart.
                spending: how each round binds who spent (older panels: not).
    """

    panel: Text
    domain: Annotated[list[Text], msgspec.Meta(max_length=4096)]
    promise: Text
    mechanism: Text
    tiers: Annotated[list[PanelTier], msgspec.Meta(min_length=1, max_length=64)]
    currency: Text
    licence: Text
    budget_nano: Natural
    axes: Annotated[list[Axis], msgspec.Meta(min_length=1, max_length=3)] | None = None
    metric: Metric | None = None
    spending: Text | None = None

    @property
    def size(self) -> int:
        """Return how many values the domain has: of axes, how many points."""
        return math.prod(len(axis.values) for axis in self.axes) if self.axes else len(self.domain)


class TierRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tier of a round: its law, commitments to its reports and to their counts, the hash of its step's key."""

    epsilon: Text
    law: _Laws
    commitment: Hex
    counts: Hex
    key_hash: Hex | None


class RoundRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the market signs when a round closes: enough to derive every lower tier again from a disclosed one.

    Args:       spent: the root over what each device spent (`app.panels.spending`); older rounds have none.
    """

    panel: Text
    round: Natural
    mechanism: Text
    domain_size: Natural
    reports: Natural
    sampler: Text
    epoch: Natural
    at: Text
    tiers: Annotated[tuple[TierRecord, ...], msgspec.Meta(min_length=1, max_length=64)]
    spent: Hex | None = None

    def encode(self) -> bytes:
        """Return the canonical bytes: what is signed."""
        return b"tiermarket/panel-round/2\n" + canonical_bytes(msgspec.to_builtins(self))


class RoundLeaf(LeafBase, frozen=True, kw_only=True, tag="panel-round"):
    """A round is closed: its record, with the signature of the key of this number."""

    record: RoundRecord
    key: Natural
    signature: _Signature


class PanelSaleLeaf(LeafBase, frozen=True, kw_only=True, tag="panel-sale"):
    """An order of a tier (by rank, from 0) of a closed round; the devices were charged when they reported."""

    order: Text
    pseudonym: Text
    panel: Text
    round: Natural
    rank: Natural
    price_minor: Natural
    currency: Text
    licence: Text


class PanelStopLeaf(LeafBase, frozen=True, kw_only=True, tag="panel-stop"):
    """Nothing more of a panel, or location panel, is sold, because of a finding; what was sold stays readable."""

    panel: Text
    check: Text
    rule: Text


class PanelThawLeaf(LeafBase, frozen=True, kw_only=True, tag="panel-thaw"):
    """An operator lets a stopped panel, or location panel, be sold again, and says why."""

    panel: Text
    reason: Text


class LateTierLeaf(LeafBase, frozen=True, kw_only=True, tag="panel-late-tier"):
    """A tier joins a panel's menu; its number follows on those that the panel has, whatever its ε."""

    panel: Text
    number: Natural
    tier: PanelTier


class LateDrawLeaf(LeafBase, frozen=True, kw_only=True, tag="panel-late-draw"):
    """An added tier of a closed round: commitments to its reports and their counts, and the hash of its draw's key."""

    panel: Text
    round: Natural
    number: Natural
    sampler: Text
    commitment: Hex
    counts: Hex
    key_hash: Hex


def round_identity(panel: str, number: int) -> str:
    """Return what names a round where other sales name a chain.

    Example:
        >>> round_identity("panel_1", 2)[:8]
        '055ef845'
    """
    named = canonical_bytes({"panel": panel, "round": number})
    return hashlib.sha256(b"tiermarket/panel-chain/1\n" + named).hexdigest()


def tier_identity(rank: int, epsilon: str, law: dict[str, str]) -> str:
    """Return what names a tier of a round where other sales name a law.

    Example:
        >>> tier_identity(0, "2", {"family": "flips"}) == tier_identity(1, "2", {"family": "flips"})
        False
    """
    named = canonical_bytes({"epsilon": epsilon, "law": {**law}, "rank": rank})
    return hashlib.sha256(b"tiermarket/panel-tier/1\n" + named).hexdigest()
