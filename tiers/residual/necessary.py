"""What every residual needs: a lower law that is noisier, and whose tail is not the lighter one."""

from fractions import Fraction

from flint import arb

from tiers.noise.calibrate import least_integer
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.law import NoiseLaw
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.real import exact, precision

__all__ = ["lighter_tail", "tail_order"]

_PLACE_LIMIT = 1 << 40


def tail_order(law: NoiseLaw) -> tuple[int, Fraction]:
    """Return how fast a law's tail falls, to compare: e^(−κk) first, then k^(−k)·λ^k, then e^(−k²/2σ²).

    Example:
        >>> tail_order(Skellam(Fraction(5))) > tail_order(MultiScaleDiscreteLaplace(3, Fraction(9)))
        True
    """
    match law:
        case Skellam():
            return 1, 1 / law.rate
        case LatticeGaussian():
            return 1, 2 / law.sigma**2
        case DiscreteGaussian():
            return 2, 1 / law.sigma
        case MultiScaleDiscreteLaplace():
            return 0, law.rate / law.scales
        case Staircase():
            return 0, law.rate / law.period
        case _:
            return 0, law.rate


def lighter_tail(upper: NoiseLaw, lower: NoiseLaw) -> str | None:
    """Return a witness that the lower law's tail is too light for any residual, or None if it is not lighter.

    If s were a residual, symmetric as both laws are, then P(lower ≥ k) ≥ P(s ≥ 0)·P(upper ≥ k) ≥ ½·P(upper ≥ k).

    Law:        refused where 2·P(lower ≥ k) < P(upper ≥ k) for some k, which balls decide.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> lighter_tail(TwoSidedGeometric(Fraction(2)), Skellam(Fraction(5)))[:35]
        'at k = 88 the lower tail is 1.11e-7'
    """
    if tail_order(lower) <= tail_order(upper):
        return None

    def broken(k: int) -> bool:
        return k > _PLACE_LIMIT or _gap(upper, lower, k + 1) < 0

    k = least_integer(broken) + 1
    if k > _PLACE_LIMIT:
        return f"the lower tail falls faster, beyond every k up to {_PLACE_LIMIT} that was compared"
    with precision(256 + 2 * k.bit_length()):
        low, high = (float(law.log_tail_ball(k, 96).exp().mid()) for law in (lower, upper))
    return f"at k = {k} the lower tail is {low:.3g}, less than half the upper's {high:.3g}"


def _gap(upper: NoiseLaw, lower: NoiseLaw, k: int) -> arb:
    with precision(256 + 2 * k.bit_length()):
        return lower.log_tail_ball(k, 96) - upper.log_tail_ball(k, 96) + exact(2).log()
