"""A leaf as it is in the log and its path to a signed head: what bundles and disclosures are made of."""

from typing import Any

import msgspec

from app.log.heads import TreeHead
from app.log.leaf_base import Hex
from app.log.leaves import Leaf, decode
from app.log.merkle import leaf_hash, verify_inclusion
from tiers.canonical import canonical_bytes

__all__ = ["Proved"]


class Proved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A leaf as it is in the log, and its path to the head."""

    leaf: dict[str, Any]
    proof: list[Hex]

    def read(self, head: TreeHead) -> tuple[Leaf, bytes, bool]:
        """Return the leaf, its hash, and whether the path leads from it to the head's root.

        Raises:     msgspec.MsgspecError, TierError, ValueError, RecursionError: no leaf of a known kind.
        """
        raw = canonical_bytes(self.leaf)
        leaf, digest = decode(raw), leaf_hash(raw)
        path = [bytes.fromhex(step) for step in self.proof]
        return leaf, digest, verify_inclusion(digest, leaf.index, head.size, path, bytes.fromhex(head.root))
