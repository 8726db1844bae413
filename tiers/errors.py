"""One tree of errors for the mathematics: each name states the broken rule and carries the values that broke it."""

from fractions import Fraction

__all__ = [
    "AuditError",
    "BudgetExceededError",
    "BudgetOrderError",
    "InvalidParameterError",
    "NoResidualError",
    "SlackNotAllowedError",
    "TierError",
    "TruthChangedError",
]


class TierError(Exception):
    """Root of every refusal of the `tiers` package."""


class InvalidParameterError(TierError, ValueError):
    """A parameter lies outside its law's domain. Message: what, the rule, what came."""

    def __init__(self, name: str, rule: str, got: object) -> None:
        self.name, self.rule, self.got = name, rule, got
        super().__init__(f"{name}: expected {rule}, got {_short(got)}")


class BudgetOrderError(TierError, ValueError):
    """The budgets of a ladder do not fall strictly from tier to tier."""

    def __init__(self, tier: int, above: object, got: object) -> None:
        self.tier, self.above, self.got = tier, above, got
        super().__init__(f"tier {tier}: expected epsilon < {_short(above)} (the tier above), got {_short(got)}")


class NoResidualError(TierError, ValueError):
    """No noise exists that turns the upper law into the lower one; `witness` proves it."""

    def __init__(self, upper: str, lower: str, witness: str) -> None:
        self.upper, self.lower, self.witness = upper, lower, witness
        super().__init__(f"no residual from {upper} to {lower}: {witness}")


class BudgetExceededError(TierError):
    """A privacy filter refused a charge; all values are in units of 10⁻⁹ of the ledger's measure."""

    def __init__(self, requested_nano: int, remaining_nano: int) -> None:
        self.requested_nano, self.remaining_nano = requested_nano, remaining_nano
        super().__init__(
            f"charge: expected at most the remaining {remaining_nano} (10⁻⁹), got a request of {requested_nano} (10⁻⁹)"
        )


class AuditError(TierError, ValueError):
    """An audit was asked to prove nothing (no check, no chain), or its input has no audit reading."""


class SlackNotAllowedError(TierError, ValueError):
    """A residual is off by `tau` in total variation at most, and nobody has allowed that."""

    def __init__(self, upper: str, lower: str, tau: float) -> None:
        self.upper, self.lower, self.tau = upper, lower, tau
        super().__init__(f"residual from {upper} to {lower}: expected allowed slack, got a slack of τ = {tau:.3g}")


class TruthChangedError(TierError, ValueError):
    """The truth computed again is not the one that the chain's base draw was made from; neither value is told."""

    def __init__(self, chain: str) -> None:
        self.chain = chain
        super().__init__(f"truth: expected the integers that chain {chain[:12]} was drawn from, got others")


def _short(value: object, limit: int = 60) -> str:
    huge = isinstance(value, int) and value.bit_length() > 200
    shown = str(value) if isinstance(value, Fraction) else repr(value)
    text = f"an integer of {value.bit_length()} bits" if isinstance(value, int) and huge else shown
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
