"""What a tier costs in a ledger of each kind: its ε where it has one, else a ρ that bounds every Rényi order."""

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from tiers.accounting.charges import ChargeRule, LedgerKind, charge_rule, level_nano, level_nano_of_rho
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

__all__ = ["rho_above", "rule_of", "skellam_rho", "tier_level"]

_STEPS, _WIDE_STEPS = 16, 8
_JOINED = Fraction(134, 125)  # above 8 − 4√3
_SUMMED_TO, _WIDE_FROM, _SHIFT = 10**4, 10**3, 64


def tier_level(kind: LedgerKind, law: TierLaw) -> int:
    """Return a tier's level in a ledger's units of 10⁻⁹, rounded up once: its ε, or a ρ at which it is ρ-zCDP.

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
        return level_nano_of_rho(kind, rho_above(law))
    if law.delta:
        raise InvalidParameterError("delta", "0 in a pure ledger", decimal_text(law.delta))
    return level_nano(kind, law.epsilon())


def rule_of(kind: LedgerKind, law: TierLaw) -> ChargeRule:
    """Return how a chain with such a tier is charged in a ledger; raises as `charge_rule`.

    Example:
        >>> noise = Skellam.at(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1))
        >>> rule_of(LedgerKind.ZCDP, TierLaw(noise, ChangeSet.scalar(1), Fraction(1, 10**6))).value
        'reserve'
    """
    return charge_rule(kind, law.noise.family)


def rho_above(law: TierLaw) -> Fraction:
    """Return a ρ at which the tier is ρ-zCDP over its change set: D_α ≤ ρ·α for every real α > 1.

    Law:        of a pure law the ρ that its ε at δ = 0 gives, whatever δ it is sold at; Σ d²/(2σ²) for the discrete
                Gaussian (exact), `skellam_rho` for Skellam noise.
    Example:
        >>> rho_above(TierLaw(DiscreteGaussian(Fraction(2)), ChangeSet.scalar(1), Fraction(1, 10**6)))
        Fraction(1, 8)
    """
    noise = law.noise
    if isinstance(noise, Skellam):
        return skellam_rho(noise.rate, law.change_set)
    if isinstance(noise, LatticeGaussian):
        return skellam_rho(noise.sigma**2 / 2, law.change_set)
    if isinstance(noise, TwoSidedGeometric | MultiScaleDiscreteLaplace | Staircase | DiscreteGaussian):
        return noise.rho(law.change_set)
    raise InvalidParameterError("family", "one whose ρ is known", noise.family)


@lru_cache(maxsize=1024)
def skellam_rho(rate: Fraction, change_set: ChangeSet) -> Fraction:
    """Return a ρ at which Skellam noise of this rate is ρ-zCDP over a change set.

    Up to α = 2, D_α rises in α, so between two orders a < b it is at most D_b, and D_α/α ≤ D_b/a; 16 equal steps up to
    λ = 10³, 8 up to 10⁴, where the sums are quick, and one beyond, where ρ is up to twice the Gaussian's.

    From 2 on, for whole n, D_n ≤ n·B with B = Σ d²/(2μ) + min((2d² + 3d)/(4μ²), 3d/(4μ)), μ = 2λ; and as (α − 1)·D_α is
    convex in α, between n and n + 1, at n + t, it is at most n·(n − 1 + 2t)·B, which is α(α − 1)·B times
    1 + t(1 − t)/((n − 1 + t)(n + t)), for n ≥ 2 at most 8 − 4√3 (n = 2, t = (√3 − 1)/2), taken as 134/125 above it.

    Law:        D_α ≤ ρ·α for every real α > 1, over every change of the set (the most concentrated is the worst).
    Reference:  Agarwal, Kairouz, Liu 2021, corollary 3.6 (whole orders); van Erven and Harremoës 2014 (convexity).
    Example:
        >>> one = skellam_rho(Fraction(100), ChangeSet.scalar(1))  # a Gaussian of this variance has 1/400
        >>> Fraction(1, 400) < one < Fraction(11, 10) / 400
        True
    """
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
