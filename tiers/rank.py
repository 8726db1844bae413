"""Which of two tiers is the more accurate one: decided on the exact laws, never on the label ε.

A certified residual adds variance, so along a chain the variance rises with rank, whatever the families. For pure
tiers of one family that is the order of ε; for approximate ones it need not be: Skellam (0.8, 10⁻³) is more accurate
than Skellam (1, 10⁻⁹).
"""

from collections.abc import Iterable
from fractions import Fraction
from functools import cmp_to_key, lru_cache

from flint import arb

from tiers.identity import TierLaw
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.law import NoiseLaw
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import Real, compare, exact

__all__ = ["by_accuracy", "more_accurate"]


@lru_cache(maxsize=16_384)
def more_accurate(first: TierLaw, second: TierLaw) -> bool:
    """Return whether the first tier stands above the second: its noise has certainly the smaller variance.

    Law:        Var first < Var second, decided in rationals or balls; neither is above the other for one law twice.
    Example:
        >>> from tiers.sensitivity import ChangeSet
        >>> change, loose = ChangeSet.scalar(1), Fraction(1, 1000)
        >>> upper = TierLaw(Skellam(Fraction("4.24")), change, loose)
        >>> lower = TierLaw(Skellam(Fraction("12.03")), change, Fraction(1, 10**9))
        >>> more_accurate(upper, lower), upper.epsilon() < lower.epsilon()
        (True, True)
    """
    one, other = first.noise, second.noise
    if isinstance(one, TwoSidedGeometric) and isinstance(other, TwoSidedGeometric):
        return one.rate > other.rate
    plain = _rational_variance(one), _rational_variance(other)
    if plain[0] is not None and plain[1] is not None:
        return plain[0] < plain[1]
    if _scales(one) is not None and _scales(one) == _scales(other):
        return False
    spread, limit = _variance(one), _variance(other)
    return compare(lambda: spread() - limit(), 0) < 0


def by_accuracy(laws: Iterable[TierLaw]) -> list[TierLaw]:
    """Return the laws in the order of their ranks, the most accurate first; equal variances keep their order.

    Example:
        >>> from tiers.sensitivity import ChangeSet
        >>> tiers = [TierLaw(TwoSidedGeometric(Fraction(rate)), ChangeSet.scalar(1)) for rate in (1, 3, 2)]
        >>> [int(tier.epsilon()) for tier in by_accuracy(tiers)]
        [3, 2, 1]
    """

    def compared(one: TierLaw, other: TierLaw) -> int:
        return int(more_accurate(other, one)) - int(more_accurate(one, other))

    return sorted(laws, key=cmp_to_key(compared))


def _rational_variance(law: NoiseLaw) -> Fraction | None:
    if isinstance(law, Skellam):
        return 2 * law.rate
    return law.sigma**2 if isinstance(law, LatticeGaussian) else None


def _scales(law: NoiseLaw) -> tuple[int, Fraction] | None:
    """Return what a (multi-scale) two-sided geometric is made of: one scale is the plain law under another name."""
    if isinstance(law, TwoSidedGeometric):
        return 1, law.rate
    return (law.scales, law.rate) if isinstance(law, MultiScaleDiscreteLaplace) else None


def _variance(law: NoiseLaw) -> Real:
    made_of, plain = _scales(law), _rational_variance(law)
    if made_of is not None:
        scales, rate = made_of
        squares = scales * (scales + 1) * (2 * scales + 1) // 6

        def of_geometrics() -> arb:
            return exact(squares) / (2 * (exact(rate) / 2).sinh() ** 2)

        return of_geometrics
    known = Fraction(law.variance()) if plain is None else plain
    return lambda: exact(known)
