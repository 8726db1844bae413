"""A3 for every kind of ledger: pure ε by increments, zCDP and (ε, δ) by reserving a chain's top when it is opened.

Increments are proved in pure ledgers only: in a zCDP ledger an adaptive buyer of two tiers (ε 1/2 and 1) reaches 2 %
above the budget, of fifty tiers 7.5 %. So there a chain is charged its best planned tier at its first sale, nothing
afterwards, and nothing is drawn above what was reserved.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from tiers.accounting.charges import (
    ChargeRule,
    LedgerKind,
    charge_nano,
    charge_rule,
    level_nano,
    level_nano_of_rho,
)
from tiers.accounting.filters import ApproxFilter, PureFilter, ZCDPFilter, increment
from tiers.audit.findings import Finding
from tiers.errors import BudgetExceededError, InvalidParameterError, TierError
from tiers.identity import TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.rank import by_accuracy, more_accurate
from tiers.residual.plan import residual

__all__ = ["Account", "level_of", "slack_of"]


def level_of(kind: LedgerKind, law: TierLaw) -> int:
    """Return a tier's level in a ledger's units, rounded up, from the law alone.

    Law:        ε in a pure ledger; in zCDP and (ε, δ) ledgers ρ = ε²/2 of a pure law, or the law's own exact ρ.
    Raises:     InvalidParameterError: a law without a level there: no pure ε, or no ρ that holds at every order
                (Skellam's Rényi curve is not linear).
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.sensitivity import ChangeSet
        >>> law = TierLaw(TwoSidedGeometric(Fraction(1, 2)), ChangeSet.scalar(1))
        >>> level_of(LedgerKind.PURE, law), level_of(LedgerKind.ZCDP, law)
        (500000000, 125000000)
    """
    if law.pure:
        return level_nano(kind, law.epsilon())
    if isinstance(law.noise, DiscreteGaussian) and kind is not LedgerKind.PURE:
        return level_nano_of_rho(kind, law.noise.rho(law.change_set))
    raise InvalidParameterError("family", f"one with a level in a {kind.value} ledger", law.noise.family)


def slack_of(laws: Iterable[TierLaw]) -> Fraction:
    """Return the largest slack τ of the steps down a chain of these laws, 0 where all are exact.

    Raises:     NoResidualError: neighbours without a step.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.sensitivity import ChangeSet
        >>> slack_of(TierLaw(TwoSidedGeometric(Fraction(rate)), ChangeSet.scalar(1)) for rate in (2, 1))
        Fraction(0, 1)
    """
    tiers = by_accuracy(laws)
    steps = pairwise(tiers)
    certificates = [residual(high.noise, low.noise, allow_slack=True).certificate for high, low in steps]
    return max((certificate.tau for certificate in certificates), default=Fraction(0))


@dataclass(slots=True)
class _Chain:
    laws: dict[str, TierLaw] = field(default_factory=dict)
    charged: int = 0
    reserved: TierLaw | None = None


@dataclass(slots=True)
class Account:
    """A dataset's ledger as it is replayed: plans, draws and sales in the order of the log, findings as they come.

    Guarantee:  no finding means: at every prefix the due charges stay within the filter's budget, each chain was
                charged as is proved sound for its families here, and what was charged is what was due.
    Args:       kind: of the ledger. budget_nano: ε or ρ in 10⁻⁹. promise: (ε, δ) of an approximate ledger.
    Raises:     InvalidParameterError: no such budget or promise.
    Example:
        >>> account = Account(LedgerKind.PURE, 10**9)
        >>> account.filter.remaining_nano
        1000000000
    """

    kind: LedgerKind
    budget_nano: int
    promise: tuple[Fraction, Fraction] | None = None
    filter: PureFilter | ZCDPFilter | ApproxFilter = field(init=False)
    _chains: dict[str, _Chain] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.promise is not None) != (self.kind is LedgerKind.APPROX):
            raise InvalidParameterError("promise", "(ε, δ) for an (ε, δ) ledger and for no other", self.kind.value)
        if self.promise is not None:
            self.filter = ApproxFilter(*self.promise, Fraction(1), self.budget_nano)
        else:
            self.filter = (PureFilter if self.kind is LedgerKind.PURE else ZCDPFilter)(self.budget_nano)

    def plan(self, chain: str, laws: Sequence[TierLaw], where: str) -> list[Finding]:
        """Take in what a plan offers on a chain; find families and slack that have no sound charge in this ledger."""
        known = self._chains.setdefault(chain, _Chain())
        known.laws.update({law.identity: law for law in laws})
        try:
            slack = slack_of(known.laws.values())
            for law in laws:
                charge_rule(self.kind, law.noise.family, slack)
                level_of(self.kind, law)
        except InvalidParameterError as error:
            rule = "slack" if error.name == "slack" else "family"
            return [Finding("A3", rule, where, str(error.got), error.rule)]
        except TierError as error:
            return [Finding("A3", "family", where, "tiers that lead down to each other", type(error).__name__)]
        return []

    def draw(self, chain: str, law: TierLaw, where: str) -> list[Finding]:
        """Take in a draw; in a ledger that reserves, find one above the tier that was reserved."""
        reserved = self._chains.setdefault(chain, _Chain()).reserved
        if reserved is None or not more_accurate(law, reserved):
            return []
        claimed, due = law.identity[:12], f"nothing above the reserved {reserved.identity[:12]}"
        return [Finding("A3", "drawn-above-reserve", where, claimed, due)]

    def sale(self, chain: str, law: str, charged_nano: int, where: str) -> list[Finding]:
        """Take in a sale: what was charged against what was due, and what was due against the budget."""
        known = self._chains.setdefault(chain, _Chain())
        sold = known.laws.get(law)
        if sold is None:
            return [Finding("A3", "planned", where, law[:12], "no earlier plan offers this law on this chain")]
        try:
            level = level_of(self.kind, sold)
            due = self._due(known, level)
        except InvalidParameterError as error:
            rule = "above-reserve" if error.name == "level" else "family"
            return [Finding("A3", rule, where, law[:12], error.rule)]
        found = []
        if charged_nano != due:
            found.append(Finding("A3", self._wrong(known, level, charged_nano), where, str(charged_nano), str(due)))
        known.charged += due
        try:
            self.filter = self.filter.charge(due)
        except BudgetExceededError as error:
            found.append(Finding("A3", "budget", where, str(due), f"{error.remaining_nano} remaining"))
        return found

    def _due(self, chain: _Chain, level: int) -> int:
        rule = self._rule(chain)
        if rule is ChargeRule.INCREMENT:
            return charge_nano(rule, level, level, chain.charged)
        if chain.reserved is None:
            chain.reserved = by_accuracy(chain.laws.values())[0]
        return charge_nano(rule, level, level_of(self.kind, chain.reserved), chain.charged)

    def _rule(self, chain: _Chain) -> ChargeRule:
        rules = {charge_rule(self.kind, law.noise.family) for law in chain.laws.values()}
        return ChargeRule.RESERVE if ChargeRule.RESERVE in rules else ChargeRule.INCREMENT

    def _wrong(self, chain: _Chain, level: int, charged: int) -> str:
        """Name the rule that a wrong charge breaks: what a pure ledger would have charged is a fault of its own."""
        if self._rule(chain) is ChargeRule.RESERVE:
            return "increment-where-reserve-is-due" if charged == increment(level, 0) or chain.charged else "reserve"
        return "increment"
