"""Which key may sign, and when: keys are announced in the log, by number, before they are used; time goes on."""

import re
from datetime import datetime

from app.log.heads import TreeHead, public_key
from app.log.leaves import EpochLeaf
from tiers.audit.findings import Finding

__all__ = ["PURPOSES", "Announcements", "Times", "check_announced"]

PURPOSES = ("noise", "signing", "cache", "content", "pepper", "storage")
_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z\Z")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class Announcements:
    """The keys that a log announces, read in order: `keys` holds the signing keys' public halves by number.

    A purpose is known, its numbers rise, and a signing key (and no other) shows its public half.
    """

    def __init__(self) -> None:
        self.keys: dict[int, str] = {}
        self.leaves: list[EpochLeaf] = []
        self._newest: dict[str, int] = {}

    def take(self, leaf: EpochLeaf) -> list[Finding]:
        """Take the next announcement, and return what is wrong with it."""
        where, found = f"leaf {leaf.index}", []
        newest = self._newest.get(leaf.purpose, 0)
        if leaf.purpose not in PURPOSES:
            found.append(Finding("A4", "key-purpose", where, leaf.purpose[:60], ", ".join(PURPOSES)))
        if leaf.epoch <= newest:
            claim = f"{leaf.purpose[:60]} key {leaf.epoch}"
            found.append(Finding("A4", "key-number", where, claim, f"above {newest}"))
        self._newest[leaf.purpose] = max(leaf.epoch, newest)
        if leaf.purpose == "signing":
            self.leaves.append(leaf)
        elif leaf.public_key is None:
            return found
        if leaf.purpose != "signing" or not _is_key(leaf.public_key) or leaf.public_key in self.keys.values():
            found.append(Finding("A4", "announced-key", where, leaf.purpose[:60], "a new public key, of a signing key"))
        else:
            self.keys.setdefault(leaf.epoch, str(leaf.public_key))
        return found


def check_announced(head: TreeHead, public: str, keys: dict[int, str]) -> list[Finding]:
    """Return a finding where the log does not announce the trusted key, or the key that its head names."""
    if public not in keys.values():
        return [Finding("A4", "announced-key", "header", public[:16], "no leaf announces the trusted key")]
    if head.key not in keys:
        return [Finding("A4", "key-number", "header", f"key {head.key}", "no leaf announces it")]
    return []


class Times:
    """The times of a log, read in order: each is one (UTC, to the second), and none lies before the one above it."""

    def __init__(self) -> None:
        self.above = ""
        self._days: dict[str, bool] = {}

    def take(self, where: int | str, at: str) -> list[Finding]:
        """Take the next time, and return what is wrong with it; the head's comes last."""
        if at == self.above:
            return []
        place = where if isinstance(where, str) else f"leaf {where}"
        if not self._is_time(at):
            return [Finding("A4", "time", place, at[:40], "a time such as 2026-01-31T10:00:00Z")]
        if at < self.above:
            return [Finding("A4", "time", place, at, f"not before {self.above}")]
        self.above = at
        return []

    def _is_time(self, at: str) -> bool:
        day = at[:11]
        if day not in self._days:
            self._days = {day: _is_time(f"{day}00:00:00Z")}
        return self._days[day] and _OF_DAY.match(at, 11) is not None


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
