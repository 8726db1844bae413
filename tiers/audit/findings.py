"""What an audit says: one finding a broken rule, with the claim beside what was recomputed."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Severity"]


class Severity(StrEnum):
    """`BREACH` freezes a chain; `NOTICE` is reported and freezes nothing."""

    BREACH = "breach"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule.

    Args:       check: A1 to A7. rule: its short name. where: leaf, chain or file position. claimed, recomputed: texts
                without answers, noise or keys. chain: the one it breaks; None where it is the log's, or not known yet.
    """

    check: str
    rule: str
    where: str
    claimed: str
    recomputed: str
    severity: Severity = Severity.BREACH
    chain: str | None = None

    def text(self) -> str:
        """Return the finding as one line."""
        return f"{self.check} {self.rule} at {self.where}: claimed {self.claimed}, recomputed {self.recomputed}"
