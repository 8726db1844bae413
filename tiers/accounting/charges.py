"""Which charge is sound for which chain in which ledger, and the ledger that applies it.

A chain costs its highest issued tier. In a pure ε ledger the difference to the tier issued before is enough: on every
transcript the unissued tiers integrate out. In zCDP and (ε, δ) ledgers it is not (`tiers.accounting.stepwise` computes
the counterexample), so there the chain's top tier is reserved when the chain is opened; what follows is a delayed
disclosure of a release already paid for. Only a Gaussian in exact arithmetic may go up by increments there: each step
is a post-processing of the next stretch of one Brownian path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from types import MappingProxyType

from tiers.accounting.conversions import is_rational, positive, pure_to_zcdp
from tiers.accounting.filters import ApproxFilter, PureFilter, ZCDPFilter, increment
from tiers.budget import nano_up
from tiers.errors import InvalidParameterError

__all__ = [
    "CONCENTRATED_FAMILIES",
    "PURE_FAMILIES",
    "ChargeRule",
    "Ledger",
    "LedgerKind",
    "charge_nano",
    "charge_rule",
    "level_nano",
    "level_nano_of_rho",
]

PURE_FAMILIES = frozenset({"flip", "grr", "laplace", "local-hash", "msdlap", "subset", "tsg"})
CONCENTRATED_FAMILIES = frozenset({"discrete-gaussian", "gaussian", "lattice-gaussian", "skellam"})
_EXACT_GAUSSIAN = "gaussian"


class LedgerKind(Enum):
    """What a ledger's units measure and what its budget promises."""

    PURE = "pure"
    ZCDP = "zcdp"
    APPROX = "approx"


class ChargeRule(Enum):
    """How a chain is charged: its upgrades by difference, or its top tier once, when it is opened."""

    INCREMENT = "increment"
    RESERVE = "reserve"


def charge_rule(kind: LedgerKind, family: str, slack: Fraction = Fraction(0)) -> ChargeRule:
    """Return the charge that is proved sound for chains of a family in a ledger; what has no proof is refused.

    Guarantee:  under adaptive, interleaved sales of many chains the ledger's promise holds (tests: every transcript of
                small pure ledgers enumerated; the worst adaptive stopping by dynamic programming).
    Args:       family: the least private family of the chain. slack: its largest τ, 0 for exactly certified residuals.
    Raises:     InvalidParameterError: an unknown family, a family without pure ε in a pure ledger, or slack in a ledger
                other than (ε, δ).
    Example:
        >>> charge_rule(LedgerKind.PURE, "tsg").value, charge_rule(LedgerKind.ZCDP, "tsg").value
        ('increment', 'reserve')
    """
    if family not in PURE_FAMILIES | CONCENTRATED_FAMILIES:
        raise InvalidParameterError("family", f"one of {sorted(PURE_FAMILIES | CONCENTRATED_FAMILIES)}", family)
    if not is_rational(slack) or slack < 0:
        raise InvalidParameterError("slack", "a rational ≥ 0", slack)
    if slack and kind is not LedgerKind.APPROX:
        raise InvalidParameterError("slack", f"0 in a {kind.value} ledger: clipped residuals have a δ", slack)
    if kind is LedgerKind.PURE:
        if family not in PURE_FAMILIES:
            raise InvalidParameterError("family", f"one with a pure ε ({sorted(PURE_FAMILIES)})", family)
        return ChargeRule.INCREMENT
    return ChargeRule.INCREMENT if family == _EXACT_GAUSSIAN and not slack else ChargeRule.RESERVE


def level_nano(kind: LedgerKind, epsilon: Fraction) -> int:
    """Return the level of a pure-ε tier in a ledger's units, rounded up once: ε, or its ρ = ε²/2.

    Raises:     InvalidParameterError: not a positive rational.
    Example:
        >>> level_nano(LedgerKind.PURE, Fraction(1, 2)), level_nano(LedgerKind.ZCDP, Fraction(1, 2))
        (500000000, 125000000)
    """
    rho = pure_to_zcdp(epsilon)
    return nano_up(Fraction(epsilon)) if kind is LedgerKind.PURE else nano_up(rho)


def level_nano_of_rho(kind: LedgerKind, rho: Fraction) -> int:
    """Return the level of a ρ-zCDP tier in a ledger's units, rounded up once.

    Raises:     InvalidParameterError: not a positive rational, or a pure ledger: no ρ is worth an ε.
    Example:
        >>> level_nano_of_rho(LedgerKind.APPROX, Fraction(1, 3))
        333333334
    """
    if kind is LedgerKind.PURE:
        raise InvalidParameterError("ledger", "a zCDP or (ε, δ) ledger for a tier known by its ρ", kind.value)
    return nano_up(positive("rho", rho))


def charge_nano(rule: ChargeRule, level: int, top: int, charged: int) -> int:
    """Return what selling a tier adds to the charge of its chain.

    Args:       level, top: levels of the sold tier and of the chain's top, in the ledger's units. charged: what the
                chain has been charged so far, 0 before its first sale.
    Raises:     InvalidParameterError: not integers (levels > 0, charged ≥ 0), or a tier above what is reserved.
    Example:
        >>> charge_nano(ChargeRule.RESERVE, 125, 500, 0), charge_nano(ChargeRule.RESERVE, 500, 500, 500)
        (500, 0)
    """
    for name, value, least in (("level", level, 1), ("top", top, 1), ("charged", charged, 0)):
        if type(value) is not int or value < least:
            raise InvalidParameterError(name, f"an integer ≥ {least}", value)
    if rule is ChargeRule.INCREMENT:
        return increment(level, charged)
    reserved = charged or top
    if level > reserved:
        raise InvalidParameterError("level", f"at most the reserved level {reserved}: no tier is drawn above it", level)
    return reserved - charged


@dataclass(frozen=True, slots=True)
class Ledger:
    """A dataset's filter and what each chain has been charged; a sale returns the ledger after it.

    Guarantee:  the sum of the charges is the filter's spent sum and does not depend on the order of the sales.
    Example:
        >>> ledger = Ledger(PureFilter.of(Fraction(1))).sell("a", ChargeRule.INCREMENT, level=250_000_000)
        >>> ledger = ledger.sell("a", ChargeRule.INCREMENT, level=10**9)
        >>> ledger.filter.remaining_nano, dict(ledger.charged)
        (0, {'a': 1000000000})
    """

    filter: PureFilter | ZCDPFilter | ApproxFilter
    charged: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def sell(self, chain: str, rule: ChargeRule, *, level: int, top: int | None = None) -> "Ledger":
        """Return the ledger after a sale: the filter decides before anything is revealed.

        Args:       level, top: as in `charge_nano`; `top` defaults to `level`, that is a chain of one tier.
        Raises:     BudgetExceededError: the charge does not fit; nothing is spent.
                    InvalidParameterError: as `charge_nano`.
        """
        before = self.charged.get(chain, 0)
        charge = charge_nano(rule, level, level if top is None else top, before)
        after = self.filter.charge(charge)
        return Ledger(after, MappingProxyType({**self.charged, chain: before + charge}))
