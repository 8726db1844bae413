"""Which key may sign which head: each new one is announced by a leaf under a head that the one before it signed."""

from collections.abc import Sequence

from app.log.heads import TreeHead, public_key
from app.log.leaves import EpochLeaf
from tiers.audit.findings import Finding

__all__ = ["check_signature", "trusted_keys"]


def trusted_keys(
    public: str, head: TreeHead, leaves: Sequence[EpochLeaf], checkpoints: Sequence[TreeHead]
) -> tuple[dict[int, str], list[Finding]]:
    """Return the keys by number that follow from a trusted one, and a finding for each announcement without proof.

    A later key is believed where a head that a believed key signed covers its announcement; an earlier one because the
    log that the trusted key signed names it.

    Args:       leaves: those that announce signing keys. checkpoints: heads of which it is known that they fit the log.
    """
    announced = _announced(leaves)
    numbers = [leaf.epoch for leaf in announced if leaf.public_key == public]
    if not numbers:
        return {head.key: public}, []
    trusted = {leaf.epoch: str(leaf.public_key) for leaf in announced if leaf.epoch <= numbers[0]}
    found = []
    for leaf in announced:
        if leaf.epoch in trusted:
            continue
        before = max(trusted)
        proofs = [point for point in checkpoints if point.key == before and point.size > leaf.index]
        if leaf.epoch == before + 1 and any(point.signed_by(public_key(trusted[before])) for point in proofs):
            trusted[leaf.epoch] = str(leaf.public_key)
        else:
            claim = f"signing key {leaf.epoch}"
            found.append(Finding("A4", "unproved-key", f"leaf {leaf.index}", claim, "no head of the key before it"))
    return trusted, found


def check_signature(name: str, head: TreeHead, trusted: dict[int, str], leaves: Sequence[EpochLeaf]) -> list[Finding]:
    """Return a finding where a head is not signed by the key that was in force at its size."""
    where = "header" if name == "head" else "earlier head"
    rule = "head-signature" if name == "head" else "earlier-head"
    due = max((leaf.epoch for leaf in _announced(leaves) if leaf.index + 1 < head.size), default=head.key)
    if head.key < due:
        return [Finding("A4", "superseded-key", where, f"signing key {head.key}", f"key {due} was in force")]
    if head.key not in trusted or not head.signed_by(public_key(trusted[head.key])):
        return [Finding("A4", rule, where, "a signature of the trusted key", "it does not verify")]
    return []


def _announced(leaves: Sequence[EpochLeaf]) -> list[EpochLeaf]:
    return [leaf for leaf in leaves if _is_key(leaf)]


def _is_key(leaf: EpochLeaf) -> bool:
    try:
        public_key(leaf.public_key or "")
    except ValueError:
        return False
    return True
