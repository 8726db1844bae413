"""What a tier costs in a ledger of each kind: its ε where it has one, else a ρ that bounds every Rényi order."""

from collections.abc import Collection, Iterable
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from tiers.accounting.charges import ChargeRule, LedgerKind, charge_rule, level_nano, level_nano_of_rho
from tiers.accounting.lattice import VARIANCES, lattice_rho
from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError
from tiers.identity import TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.renyi import concentrated, skellam_renyi
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

__all__ = ["ANY_RULE", "LevelRule", "level_rules", "newest", "rho_above", "rule_of", "skellam_rho", "tier_level"]

_STEPS, _WIDE_STEPS = 16, 8
_JOINED = Fraction(134, 125)  # above 8 − 4√3
_SUMMED_TO, _WIDE_FROM, _SHIFT = 10**4, 10**3, 64


class LevelRule(Enum):
    """How the ρ of Skellam noise is proved. Each is sound; a chain keeps the rule that its first plan was made by.

    Levels are published, charged and audited, so a better proof lowers those of new chains and of no other.
    """

    ORDERS = "orders/1"
    """Bounds at some orders, joined: up to twice a Gaussian's ρ where noise is wide."""
    LATTICE = "lattice/2"
    """The lesser of that and `lattice_rho`: near a Gaussian's where noise is wide and changes are of many steps."""


ANY_RULE = frozenset(LevelRule)
_IN_TIME = list(LevelRule)


def newest(rules: Collection[LevelRule]) -> LevelRule:
    """Return the newest of some rules, of which there is at least one: by it a chain's further tiers are reckoned.

    Example:
        >>> newest(ANY_RULE).value
        'lattice/2'
    """
    return max(rules, key=_IN_TIME.index)


def tier_level(kind: LedgerKind, law: TierLaw, rule: LevelRule = LevelRule.LATTICE) -> int:
    """Return a tier's level in a ledger's units of 10⁻⁹, rounded up once: its ε, or a ρ at which it is ρ-zCDP.

    Args:       rule: of the tier's chain.
    Raises:     InvalidParameterError: in a pure ledger, a law without a pure ε or sold at a δ; a family that no ledger
                charges for.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> law = TierLaw(TwoSidedGeometric(Fraction(1, 2)), ChangeSet.scalar(1))
        >>> tier_level(LedgerKind.PURE, law), tier_level(LedgerKind.APPROX, law)
        (500000000, 125000000)
    """
    rule_of(kind, law)
    if kind is not LedgerKind.PURE:
        return level_nano_of_rho(kind, rho_above(law, rule))
    if law.delta:
        raise InvalidParameterError("delta", "0 in a pure ledger", decimal_text(law.delta))
    return level_nano(kind, law.epsilon())


def level_rules(kind: LedgerKind, claims: Iterable[tuple[TierLaw, int]]) -> frozenset[LevelRule]:
    """Return the rules by which every level that is claimed of a law is its level; none where one is no level of it.

    Example:
        >>> wide = TierLaw(Skellam(Fraction(10**6)), ChangeSet.scalar(1000), Fraction(1, 10**6))
        >>> level = tier_level(LedgerKind.ZCDP, wide)
        >>> [rule.value for rule in level_rules(LedgerKind.ZCDP, [(wide, level)])]
        ['lattice/2']
        >>> level_rules(LedgerKind.ZCDP, [(wide, level - 1)])
        frozenset()
    """
    found = ANY_RULE
    for law, level in claims:
        try:
            found = frozenset(rule for rule in found if tier_level(kind, law, rule) == level)
        except InvalidParameterError:
            return frozenset()
    return found


def rule_of(kind: LedgerKind, law: TierLaw) -> ChargeRule:
    """Return how a chain with such a tier is charged in a ledger; raises as `charge_rule`.

    Example:
        >>> noise = Skellam.at(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1))
        >>> rule_of(LedgerKind.ZCDP, TierLaw(noise, ChangeSet.scalar(1), Fraction(1, 10**6))).value
        'reserve'
    """
    return charge_rule(kind, law.noise.family)


def rho_above(law: TierLaw, rule: LevelRule = LevelRule.LATTICE) -> Fraction:
    """Return a ρ at which the tier is ρ-zCDP over its change set: D_α ≤ ρ·α for every real α > 1.

    Law:        of a pure law the ρ that its ε at δ = 0 gives, whatever δ it is sold at; Σ d²/(2σ²) for the discrete
                Gaussian (exact), `skellam_rho` for Skellam noise.
    Example:
        >>> rho_above(TierLaw(DiscreteGaussian(Fraction(2)), ChangeSet.scalar(1), Fraction(1, 10**6)))
        Fraction(1, 8)
    """
    noise = law.noise
    if isinstance(noise, Skellam):
        return skellam_rho(noise.rate, law.change_set, rule)
    if isinstance(noise, LatticeGaussian):
        return skellam_rho(noise.sigma**2 / 2, law.change_set, rule)
    if isinstance(noise, TwoSidedGeometric | MultiScaleDiscreteLaplace | Staircase | DiscreteGaussian):
        return noise.rho(law.change_set)
    raise InvalidParameterError("family", "one whose ρ is known", noise.family)


@lru_cache(maxsize=4096)
def skellam_rho(rate: Fraction, change_set: ChangeSet, rule: LevelRule = LevelRule.LATTICE) -> Fraction:
    """Return a ρ at which Skellam noise of this rate is ρ-zCDP over a change set.

    By orders, two bounds. Up to α = 2, D_α rises in α, so between two orders a < b it is at most D_b, and
    D_α/α ≤ D_b/a; 16 equal steps up to λ = 10³, 8 up to 10⁴, where the sums are quick, and one beyond, where ρ is up to
    twice the Gaussian's. From 2 on, for whole n, D_n ≤ n·B with B = Σ d²/(2μ) + min((2d² + 3d)/(4μ²), 3d/(4μ)), μ = 2λ;
    and as (α − 1)·D_α is convex in α, between n and n + 1, at n + t, it is at most n·(n − 1 + 2t)·B, which is
    α(α − 1)·B times 1 + t(1 − t)/((n − 1 + t)(n + t)), for n ≥ 2 at most 8 − 4√3 (n = 2, t = (√3 − 1)/2), taken as
    134/125 above it.

    On the lattice, Σ d²·lattice_rho(μ, d, d): entries are independent, so their divergences add up.

    Law:        D_α ≤ ρ·α for every real α > 1, over every change of the set (the most concentrated is the worst).
    Args:       rule: ORDERS for the first, LATTICE for the lesser of both.
    Reference:  Agarwal, Kairouz, Liu 2021, corollary 3.6 (whole orders); van Erven and Harremoës 2014 (convexity);
                `tiers.accounting.lattice`.
    Example:
        >>> one = skellam_rho(Fraction(100), ChangeSet.scalar(1))  # a Gaussian of this variance has 1/400
        >>> Fraction(1, 400) < one < Fraction(11, 10) / 400
        True
        >>> wide = Fraction(10**8), ChangeSet.scalar(10**4)  # where a Gaussian has 1/4
        >>> [f"{float(skellam_rho(*wide, rule) * 4):.3f}" for rule in LevelRule]
        ['2.000', '1.000']
    """
    by_orders = _by_orders(rate, change_set)
    least, most = VARIANCES
    if rule is LevelRule.ORDERS or not least <= 2 * rate <= most:
        return by_orders
    shifts = concentrated(change_set)
    return min(by_orders, sum((n * d * d * lattice_rho(2 * rate, d, d) for d, n in shifts), Fraction(0)))


@lru_cache(maxsize=4096)
def _by_orders(rate: Fraction, change_set: ChangeSet) -> Fraction:
    mu = 2 * rate
    whole = Fraction(0)
    for shift, count in concentrated(change_set):
        d = Fraction(shift)
        extra = min((2 * d * d + 3 * d) / (4 * mu**2), 3 * d / (4 * mu))
        whole += count * (d * d / (2 * mu) + extra)
    summed = rate <= _SUMMED_TO and change_set.step <= _SHIFT
    steps = (_STEPS if rate <= _WIDE_FROM else _WIDE_STEPS) if summed else 1
    orders = [1 + Fraction(step, steps) for step in range(steps + 1)]
    below_two = (Fraction(skellam_renyi(rate, upper, change_set)) / lower for lower, upper in pairwise(orders))
    return max(whole * _JOINED, *below_two)
