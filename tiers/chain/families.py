"""What may stand on a tier: the law of each family at a wanted guarantee, and the best law if the tier stood alone."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tiers.errors import InvalidParameterError
from tiers.noise.composition import holds_over
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.law import FAMILIES, NoiseLaw, normal_form
from tiers.noise.msdlap import RATES as MULTI_SCALE_RATES
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.pure import scales_crossed
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

__all__ = ["AUTO", "BestAlone", "best_alone", "best_scales", "calibrate", "candidates", "staircase_variance"]

AUTO = "auto"
_SCALES_LIMIT = 64  # of the law itself: to draw from it takes work that grows with the square of its scales
_SIGMA = Fraction(1, 50), Fraction(2000)
_GRID = 4096


def calibrate(family: str, epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> NoiseLaw:
    """Return the least noisy law of a family that is (ε, δ)-DP over the change set.

    Raises:     InvalidParameterError: an unknown family, a family without a law there; δ = 0 for Skellam noise, with
                the δ it would really have.
    Example:
        >>> calibrate("msdlap", Fraction(4), Fraction(0), ChangeSet.scalar(2))
        MultiScaleDiscreteLaplace(scales=2, rate=Fraction(4, 1))
    """
    match FAMILIES.get(family):
        case None:
            raise InvalidParameterError("family", f"{AUTO} or one of {', '.join(sorted(FAMILIES))}", family)
        case kind if kind is Skellam:
            return Skellam.at(epsilon, delta, change_set)
        case kind if kind is LatticeGaussian:
            return LatticeGaussian.at(epsilon, delta, change_set)
        case kind if kind is DiscreteGaussian:
            return DiscreteGaussian.at(epsilon, delta, change_set)
        case kind if kind is MultiScaleDiscreteLaplace:
            return normal_form(MultiScaleDiscreteLaplace.at(epsilon, change_set))
        case kind if kind is Staircase:
            return normal_form(Staircase.at(epsilon, change_set))
    return TwoSidedGeometric.at(epsilon, change_set, delta)


def best_scales(epsilon: Fraction, change_set: ChangeSet) -> MultiScaleDiscreteLaplace | None:
    """Return the least noisy multi-scale law of 2 to 64 scales at a pure guarantee, None where no scale is worth it.

    On a vector each touched bin pays for every started scale, so the number of scales is a choice, not the step. With
    a step of 1 no second scale can help: one scale pays for the same bins with less noise.

    Law:        variance = S(S+1)(2S+1)/6 · 1/(2·sinh²(rate/2)), rate = ε/max Σ⌈|d_j|/S⌉, minimised over S.
    Example:
        >>> best_scales(Fraction(16), ChangeSet(bins=2, step=5, total=10))
        MultiScaleDiscreteLaplace(scales=5, rate=Fraction(8, 1))
        >>> best_scales(Fraction(16), ChangeSet(bins=5, step=1, total=5)) is None
        True
    """
    scales = range(2, min(_SCALES_LIMIT, change_set.step) + 1)
    rates = {count: epsilon / scales_crossed(change_set, count) for count in scales}
    fitting = [(_log_variance(count, rate), count) for count, rate in rates.items() if _fits(rate)]
    return MultiScaleDiscreteLaplace(count, rates[count]) if fitting and (count := min(fitting)[1]) else None


def _fits(rate: Fraction) -> bool:
    return MULTI_SCALE_RATES[0] <= rate <= MULTI_SCALE_RATES[1]


def _log_variance(scales: int, rate: Fraction) -> float:
    squares, half = scales * (scales + 1) * (2 * scales + 1) // 6, float(rate) / 2
    return math.log(squares) - 2 * (half + math.log(-math.expm1(-2 * half)))


def candidates(epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> tuple[NoiseLaw, ...]:
    """Return the laws that a tier of an exact chain may choose from, the least noisy first.

    Two-sided geometric noise always, with δ > 0 at the greatest rate that δ allows; where an entry can move by 2 steps
    or more, multi-scale noise on the best number of scales and on as many as the step, even where it is the noisier (a
    tier above may lead to it only); Skellam noise with δ > 0, unless it needs more noise than the two-sided geometric,
    which one look at its δ tells.

    Example:
        >>> [law.family for law in candidates(Fraction(4), Fraction(0), ChangeSet.scalar(2))]
        ['msdlap', 'tsg']
        >>> [law.family for law in candidates(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1))]
        ['tsg']
    """
    geometric = TwoSidedGeometric.at(epsilon, change_set, delta)
    found: list[NoiseLaw] = [geometric]
    multi = best_scales(epsilon, change_set)
    if multi is not None:
        found.append(multi)
        if multi.scales < change_set.step <= _SCALES_LIMIT:
            found.append(MultiScaleDiscreteLaplace.at(epsilon, change_set))
    if delta:
        try:
            if _holds(Skellam(Fraction(geometric.variance() / 2)), epsilon, delta, change_set):
                found.append(Skellam.at(epsilon, delta, change_set))
        except InvalidParameterError:
            pass  # no Skellam law there, or more change vectors than can be maximised over
    return tuple(sorted(found, key=lambda law: law.variance()))


@dataclass(frozen=True, slots=True)
class BestAlone:
    """The least noisy mechanism for one tier that need not be part of a chain: the yardstick of a plan."""

    family: str
    variance: float


@lru_cache(maxsize=1024)
def best_alone(epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> BestAlone:
    """Return the least noisy of all families at one guarantee: two-sided geometric, multi-scale, staircase, and with
    δ > 0 Skellam and, for one number, the discrete Gaussian.

    Example:
        >>> best_alone(Fraction(4), Fraction(0), ChangeSet.scalar(2)).family
        'staircase'
    """
    best = BestAlone(TwoSidedGeometric.family, TwoSidedGeometric.at(epsilon, change_set, delta).variance())
    others = [BestAlone(Staircase.family, staircase_variance(epsilon, change_set))]
    multi = best_scales(epsilon, change_set)
    if multi is not None:
        others.append(BestAlone(multi.family, multi.variance()))
    for other in others:
        best = other if other.variance < best.variance * (1 - 1e-12) else best
    for family in (Skellam.family, DiscreteGaussian.family) if delta else ():
        better = _better(family, best.variance, epsilon, delta, change_set)
        best = BestAlone(family, better) if better is not None else best
    return best


def staircase_variance(epsilon: Fraction, change_set: ChangeSet) -> float:
    """Return the variance of the best staircase whose period is the change set's step, for any step.

    Law:        the first period's moments have closed forms, Σ_{j<r} j² = (r−1)r(2r−1)/6, so each r costs the same.
    Example:
        >>> change = ChangeSet.scalar(3)
        >>> abs(staircase_variance(Fraction(2), change) - Staircase.at(Fraction(2), change).variance()) < 1e-12
        True
    """
    period = change_set.step
    fall = float(epsilon / scales_crossed(change_set, period))
    low, high, best = 1, period, float("inf")
    while True:
        grid = np.unique(np.linspace(low, high, min(_GRID, high - low + 1)).round()).astype(float)
        variances = _staircase_variances(grid, float(period), fall)
        place = int(np.argmin(variances))
        best = min(best, float(variances[place]))
        around = int(grid[max(0, place - 1)]), int(grid[min(len(grid) - 1, place + 1)])
        if high - low < _GRID or around == (low, high):
            return best
        low, high = around


def _staircase_variances(inner: NDArray[np.float64], period: float, fall: float) -> NDArray[np.float64]:
    b, lost = math.exp(-fall), -math.expm1(-fall)
    peak = lost / (2 * inner + 2 * b * (period - inner) - lost)
    s0, s1, s2 = 1 / lost, b / lost**2, b * (1 + b) / lost**3
    whole = period, period * (period - 1) / 2, (period - 1) * period * (2 * period - 1) / 6
    first = inner, inner * (inner - 1) / 2, (inner - 1) * inner * (2 * inner - 1) / 6
    m0, m1, m2 = (part + b * (total - part) for part, total in zip(first, whole, strict=True))
    variances: NDArray[np.float64] = 2 * peak * (m0 * period**2 * s2 + 2 * period * m1 * s1 + m2 * s0)
    return variances


def _better(family: str, variance: float, epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> float | None:
    """Return the variance of the family's law there if it is smaller; one look at its δ usually tells."""
    try:
        if family == Skellam.family:
            if not _holds(Skellam(Fraction(variance / 2)), epsilon, delta, change_set):
                return None
        else:
            wider = Fraction(variance**0.5 * 1.05)
            if change_set.bins > 1 or not _SIGMA[0] <= wider <= _SIGMA[1]:
                return None
            if wider >= 1 and not _holds(DiscreteGaussian(wider), epsilon, delta, change_set):
                return None
        law = calibrate(family, epsilon, delta, change_set)
    except InvalidParameterError:
        return None
    return law.variance() if law.variance() < variance else None


def _holds(law: Skellam | DiscreteGaussian, epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> bool:
    return holds_over(law, epsilon, delta, change_set)
