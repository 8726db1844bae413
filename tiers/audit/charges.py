"""A3 for every kind of ledger: pure ε by increments, zCDP and (ε, δ) by reserving a chain's top when it is opened.

Increments are proved in pure ledgers only: in a zCDP ledger an adaptive buyer of two tiers (ε 1/2 and 1) reaches 2 %
above the budget, of fifty tiers 7.5 %. So there a chain is charged its best planned tier at its first sale, nothing
afterwards, and nothing is drawn above what was reserved. Levels are recomputed by the newest rule that gives all that
the chain's plans claim; A1 finds a claim that no rule gives.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from tiers.accounting.charges import ChargeRule, LedgerKind, charge_nano, charge_rule
from tiers.accounting.filters import ApproxFilter, PureFilter, ZCDPFilter
from tiers.accounting.levels import ANY_RULE, LevelRule, newest, tier_level
from tiers.audit.findings import Finding
from tiers.audit.records import joined, named
from tiers.errors import InvalidParameterError, TierError
from tiers.identity import TierLaw
from tiers.noise.law import NoiseLaw
from tiers.rank import by_accuracy, more_accurate
from tiers.residual.plan import residual

__all__ = ["Account", "slack_of"]


def slack_of(laws: Iterable[TierLaw]) -> Fraction:
    """Return the largest slack τ of the steps down a chain of these laws, 0 where all are exact.

    Raises:     NoResidualError: neighbours without a step.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.sensitivity import ChangeSet
        >>> slack_of(TierLaw(TwoSidedGeometric(Fraction(rate)), ChangeSet.scalar(1)) for rate in (2, 1))
        Fraction(0, 1)
    """
    steps = pairwise(by_accuracy(laws))
    return max((_slack(high.noise, low.noise) for high, low in steps), default=Fraction(0))


@lru_cache(maxsize=4096)
def _fault(kind: LedgerKind, laws: tuple[TierLaw, ...], added: tuple[TierLaw, ...]) -> tuple[str, str, str] | None:
    """Why a chain of these laws, some of them added now, has no sound charge: the rule, what it has, what is due."""
    try:
        slack = slack_of(laws)
        for law in added:
            charge_rule(kind, law.noise.family, slack)
            _level(kind, law)
    except InvalidParameterError as error:
        return "slack" if error.name == "slack" else "family", str(error.got), error.rule
    except TierError as error:
        return "family", "tiers that lead down to each other", type(error).__name__
    return None


_level = lru_cache(maxsize=4096)(tier_level)


@lru_cache(maxsize=4096)
def _levels(kind: LedgerKind, laws: tuple[TierLaw, ...], rule: LevelRule) -> Mapping[str, int]:
    """The levels of laws by identity, without those that have none in such a ledger."""
    levels = {}
    for law in laws:
        with suppress(TierError):
            levels[law.identity] = _level(kind, law, rule)
    return levels


@lru_cache(maxsize=4096)
def _slack(high: NoiseLaw, low: NoiseLaw) -> Fraction:
    return residual(high, low, allow_slack=True).certificate.tau


@dataclass(slots=True)
class _Chain:
    """The laws planned by now, with the levels of those that have one and the rules they may be by; what was charged,
    and for which tier at most."""

    laws: Mapping[str, TierLaw] = field(default_factory=dict)
    by: frozenset[LevelRule] = ANY_RULE
    levels: Mapping[str, int] = field(default_factory=dict)
    charged: int = 0
    reserved: TierLaw | None = None
    rule: ChargeRule | None = None


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

    def plan(
        self, chain: str, laws: Iterable[TierLaw], where: str, by: frozenset[LevelRule] = ANY_RULE
    ) -> list[Finding]:
        """Take in what a plan offers on a chain; find families and slack that have no sound charge in this ledger.

        Args:       by: the rules that give the levels which the plan claims.
        """
        known = self._chains.setdefault(chain, _Chain())
        added = tuple(laws)
        known.laws = joined(known.laws or None, named(added))
        planned = tuple(known.laws.values())
        known.by = known.by & by or known.by
        known.rule, known.levels = None, _levels(self.kind, planned, newest(known.by))
        fault = _fault(self.kind, planned, added)
        return [] if fault is None else [Finding("A3", fault[0], where, *fault[1:])]

    def draw(self, chain: str, law: TierLaw, where: str) -> list[Finding]:
        """Take in a draw; in a ledger that reserves, find one above the tier that was reserved."""
        reserved = self._chains.setdefault(chain, _Chain()).reserved
        if reserved is None or not more_accurate(law, reserved):
            return []
        claimed, due = law.identity[:12], f"nothing above the reserved {reserved.identity[:12]}"
        return [Finding("A3", "drawn-above-reserve", where, claimed, due)]

    def sells(self, chain: str, law: str) -> bool:
        """Return whether an earlier plan offers a law on a chain."""
        known = self._chains.get(chain)
        return known is not None and law in known.laws

    def judge(self, chain: str, law: str, charged_nano: int, where: str) -> list[Finding]:
        """Return what is wrong with a sale as the next one; the account stays as it is."""
        return self._judge(chain, law, charged_nano, where)[0]

    def sale(self, chain: str, law: str, charged_nano: int, where: str) -> list[Finding]:
        """Take in a sale: what was charged against what was due, and what was due against the budget."""
        opened = self._chains.get(chain)
        if (
            opened is not None
            and opened.rule is ChargeRule.INCREMENT
            and charged_nano == 0
            and opened.levels.get(law, opened.charged + 1) <= opened.charged
        ):
            return []  # of most sales nothing is due
        found, due = self._judge(chain, law, charged_nano, where)
        if due is None:
            return found
        known = self._chains[chain]
        if known.reserved is None and self._rule(known) is ChargeRule.RESERVE:
            known.reserved = by_accuracy(known.laws.values())[0]
        known.charged += due
        if due and due <= self.filter.remaining_nano:
            self.filter = self.filter.charge(due)
        return found

    def _judge(self, chain: str, law: str, charged_nano: int, where: str) -> tuple[list[Finding], int | None]:
        """Findings, and the charge due; None where nothing may be charged."""
        if not self.sells(chain, law):
            return [Finding("A3", "planned", where, law[:12], "no earlier plan offers this law on this chain")], None
        known = self._chains[chain]
        if known.reserved is not None and more_accurate(known.laws[law], known.reserved):
            most = f"nothing above the reserved {known.reserved.identity[:12]}"
            return [Finding("A3", "above-reserve", where, law[:12], most)], None
        try:
            level = known.levels.get(law) or _level(self.kind, known.laws[law], newest(known.by))
            due = self._due(known, level)
        except InvalidParameterError as error:
            rule = "above-reserve" if error.name == "level" else "family"
            return [Finding("A3", rule, where, law[:12], error.rule)], None
        found = []
        if charged_nano != due:
            found.append(Finding("A3", self._wrong(known, level, charged_nano), where, str(charged_nano), str(due)))
        if due > self.filter.remaining_nano:
            found.append(Finding("A3", "budget", where, str(due), f"{self.filter.remaining_nano} remaining"))
        return found, due

    def _due(self, chain: _Chain, level: int) -> int:
        rule = self._rule(chain)
        if rule is ChargeRule.INCREMENT:
            return charge_nano(rule, level, level, chain.charged)
        by = newest(chain.by)
        top = chain.charged or max(_level(self.kind, law, by) for law in chain.laws.values())
        return charge_nano(rule, level, top, chain.charged)

    def _rule(self, chain: _Chain) -> ChargeRule:
        if chain.rule is None:
            rules = {charge_rule(self.kind, law.noise.family) for law in chain.laws.values()}
            chain.rule = ChargeRule.RESERVE if ChargeRule.RESERVE in rules else ChargeRule.INCREMENT
        return chain.rule

    def _wrong(self, chain: _Chain, level: int, charged: int) -> str:
        """Name the rule that a wrong charge breaks: what a pure ledger would have charged is a fault of its own."""
        if self._rule(chain) is ChargeRule.RESERVE:
            return "increment-where-reserve-is-due" if charged == level or chain.charged else "reserve"
        return "increment"
