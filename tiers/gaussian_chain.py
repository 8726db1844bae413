"""The continuous Gaussian chain, for analysis: one Brownian path, read at the times 1/(2ρ).

A tier ρ shows q + W(t), W Brownian, t = 1/(2ρ) its variance. So every law of the chain is a law of Brownian motion, and
all of it is exact in rationals. What is released is the lattice version; these are its error bars and its plots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tiers.errors import BudgetOrderError, InvalidParameterError

__all__ = ["Normal", "gaussian_bridge", "gaussian_covariance", "gaussian_time", "gaussian_upgrade"]


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal law N(mean, variance), both exact.

    Example:
        >>> Normal(Fraction(0), Fraction(5, 2)).variance
        Fraction(5, 2)
    """

    mean: Fraction
    variance: Fraction


def gaussian_time(rho: Fraction) -> Fraction:
    """Return the variance 1/(2ρ) of the tier that is ρ-zCDP at distance 1.

    Raises:     InvalidParameterError: ρ is not a positive rational.
    Example:
        >>> gaussian_time(Fraction(1, 5))
        Fraction(5, 2)
    """
    if type(rho) not in {int, Fraction} or rho <= 0:
        raise InvalidParameterError("rho", "a positive rational (Fraction or int, never a float)", rho)
    return 1 / (2 * Fraction(rho))


def gaussian_covariance(rhos: Sequence[Fraction]) -> tuple[tuple[Fraction, ...], ...]:
    """Return the covariance matrix of a chain's noises, most accurate tier first.

    Law:        Cov(W(t_i), W(t_j)) = min(t_i, t_j), t = 1/(2ρ).
    Raises:     BudgetOrderError: the ρ do not fall strictly. InvalidParameterError: none, or not positive rationals.
    Example:
        >>> gaussian_covariance([Fraction(1, 2), Fraction(1, 10)])
        ((Fraction(1, 1), Fraction(1, 1)), (Fraction(1, 1), Fraction(5, 1)))
    """
    times = _times(rhos)
    return tuple(tuple(min(one, other) for other in times) for one in times)


def gaussian_bridge(rhos: tuple[Fraction, Fraction, Fraction], upper: Fraction, lower: Fraction) -> Normal:
    """Return the law of a middle tier, given the answers of the tiers above and below it.

    Law:        mean r + (t−t_hi)/(t_lo−t_hi)·(r′−r), variance (t−t_hi)(t_lo−t)/(t_lo−t_hi): a Brownian bridge.
    Args:       rhos: of the upper, the middle and the lower tier, falling. upper, lower: the two known answers.
    Raises:     as `gaussian_covariance`.
    Example:
        >>> gaussian_bridge((Fraction(1, 2), Fraction(1, 5), Fraction(1, 10)), Fraction(10), Fraction(13)).mean
        Fraction(89, 8)
    """
    above, middle, below = _times(rhos)
    share = (middle - above) / (below - above)
    return Normal(upper + share * (lower - upper), (middle - above) * (below - middle) / (below - above))


def gaussian_upgrade(rhos: tuple[Fraction, Fraction], lower: Fraction, fresh: Fraction) -> Fraction:
    """Return a higher tier's answer from the lower one and a fresh release at the difference of the two ρ.

    Law:        r = (ρ′·r′ + (ρ−ρ′)·fresh)/ρ has, with r′, the joint law of the chain: a late top costs the difference.
    Args:       rhos: of the higher and the lower tier. lower: the known answer. fresh: independent, at ρ − ρ′.
    Raises:     as `gaussian_covariance`.
    Example:
        >>> gaussian_upgrade((Fraction(7, 10), Fraction(1, 5)), Fraction(13), Fraction(11))
        Fraction(81, 7)
    """
    _times(rhos)
    high, low = Fraction(rhos[0]), Fraction(rhos[1])
    return (low * lower + (high - low) * fresh) / high


def _times(rhos: Sequence[Fraction]) -> tuple[Fraction, ...]:
    if not rhos:
        raise InvalidParameterError("rhos", "at least one tier", rhos)
    times = tuple(gaussian_time(rho) for rho in rhos)
    for tier, (above, rho) in enumerate(pairwise(rhos), start=2):
        if rho >= above:
            raise BudgetOrderError(tier, above, rho)
    return times
