"""How a check says what does not hold."""

from tiers.audit.findings import Finding

__all__ = ["Need"]


class Need:
    """Adds a finding about one place to a list, where something does not hold."""

    def __init__(self, found: list[Finding], where: str) -> None:
        self.found, self.where = found, where

    def __call__(self, holds: bool, check: str, rule: str, claimed: object, otherwise: str) -> None:
        if not holds:
            self.found.append(Finding(check, rule, self.where, str(claimed)[:60], otherwise))
