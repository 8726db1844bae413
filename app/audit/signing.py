"""Which key may sign, and when: keys are announced in the log, by number, before they are used; time goes on."""

from collections.abc import Sequence
from datetime import datetime

from app.log.heads import TreeHead, public_key
from app.log.leaves import EpochLeaf, Leaf
from tiers.audit.findings import Finding

__all__ = ["PURPOSES", "announced_keys", "check_announced", "check_times"]

PURPOSES = ("noise", "signing", "cache", "content", "pepper", "storage")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def announced_keys(leaves: Sequence[Leaf]) -> tuple[dict[int, str], list[Finding]]:
    """Return the signing keys that the log announces, by number, and what is wrong with any announcement.

    A purpose is known, its numbers rise, and a signing key (and no other) shows its public half. The first leaf of a
    log announces the key that signs its first head.
    """
    keys: dict[int, str] = {}
    newest: dict[str, int] = {}
    found = []
    if leaves and not (isinstance(leaves[0], EpochLeaf) and leaves[0].purpose == "signing"):
        found.append(Finding("A4", "first-leaf", "leaf 0", "the announcement of a signing key", "another leaf"))
    for leaf in leaves:
        if not isinstance(leaf, EpochLeaf):
            continue
        where = f"leaf {leaf.index}"
        if leaf.purpose not in PURPOSES:
            found.append(Finding("A4", "key-purpose", where, leaf.purpose[:60], ", ".join(PURPOSES)))
        if leaf.epoch <= newest.get(leaf.purpose, 0):
            claim = f"{leaf.purpose[:60]} key {leaf.epoch}"
            found.append(Finding("A4", "key-number", where, claim, f"above {newest.get(leaf.purpose, 0)}"))
        newest[leaf.purpose] = max(leaf.epoch, newest.get(leaf.purpose, 0))
        if leaf.purpose != "signing" and leaf.public_key is None:
            continue
        if leaf.purpose != "signing" or not _is_key(leaf.public_key) or leaf.public_key in keys.values():
            found.append(Finding("A4", "announced-key", where, leaf.purpose[:60], "a new public key, of a signing key"))
        else:
            keys.setdefault(leaf.epoch, str(leaf.public_key))
    return keys, found


def check_announced(head: TreeHead, public: str, keys: dict[int, str]) -> list[Finding]:
    """Return a finding where the log does not announce the trusted key, or the key that its head names."""
    if public not in keys.values():
        return [Finding("A4", "announced-key", "header", public[:16], "no leaf announces the trusted key")]
    if head.key not in keys:
        return [Finding("A4", "key-number", "header", f"key {head.key}", "no leaf announces it")]
    return []


def check_times(leaves: Sequence[Leaf], head: TreeHead | None) -> list[Finding]:
    """Return every time that is none (UTC, to the second) or lies before the one above it; the head's comes last."""
    found = []
    above = ""
    stamped = [(f"leaf {leaf.index}", leaf.at) for leaf in leaves] + ([] if head is None else [("header", head.at)])
    for where, at in stamped:
        if not _is_time(at):
            found.append(Finding("A4", "time", where, at[:40], "a time such as 2026-01-31T10:00:00Z"))
            continue
        if at < above:
            found.append(Finding("A4", "time", where, at, f"not before {above}"))
        above = max(at, above)
    return found


def _is_key(text: str | None) -> bool:
    try:
        public_key(text or "")
    except ValueError:
        return False
    return text == (text or "").lower()


def _is_time(text: str) -> bool:
    try:
        return datetime.strptime(text, _TIME).strftime(_TIME) == text
    except ValueError:
        return False
