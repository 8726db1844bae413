"""The exact price of an upgrade where differences are unsound: the worst conditional loss.

In a zCDP ledger a chain of two-sided geometric tiers (Δ = 1) or flips may be charged, upgrade by upgrade, the worst
conditional loss: sup over what was seen below, both directions and every order of D_α(upper | lower)/α. Each is then a
filter step of its own, so adaptive stopping cannot beat the ledger. Reserving the top is cheaper whenever the top is
bought in the end; conditional charges are cheaper for whoever stops early.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tiers.accounting.conversions import positive
from tiers.budget import nano_up
from tiers.errors import BudgetOrderError, InvalidParameterError

__all__ = ["HIGHEST_RATE", "conditional_charge_nano"]

HIGHEST_RATE = Fraction(16)
"""Up to which ε a charge is certified: above it randomised bits are all but certain."""

_GAP, _CRUMB = 1e-8, 1e-12  # what the certified supremum may exceed the true one by, relatively and in ρ
_MARGIN = 1e-11  # far above the rounding of the divergences below
_FIRST_ORDER, _LAST_ORDER = 1e-9, 1e10  # of α − 1


@lru_cache(maxsize=1024, typed=True)  # 0.5 is no answer's key: a float is refused
def conditional_charge_nano(upper: Fraction, lower: Fraction) -> int:
    """Return a sound charge, in units of 10⁻⁹ ρ, for going up from tier `lower` to tier `upper`, rounded up.

    D_α rises in α, so over orders a < b of an interval D_α/α is at most D_b/a, and beyond the last at most D_∞/a:
    intervals are halved until that ceiling is within 10⁻⁸, and a thousandth of a unit, of a value that is attained.

    Law:        sup over α > 1, the lower bit and both directions of D_α(upper bit | lower bit)/α, to 10⁻⁸, rounded up.
    Guarantee:  charged at each upgrade (and ε²/2 for the first tier), a zCDP ledger holds under adaptive stopping.
    Raises:     BudgetOrderError: `upper` is not above `lower`. InvalidParameterError: not positive rationals, or an
                `upper` above 16.
    Example:
        >>> conditional_charge_nano(Fraction(1), Fraction(1, 2)), conditional_charge_nano(Fraction(2), Fraction(1))
        (438327124, 1593456909)
    """
    if upper > HIGHEST_RATE:
        raise InvalidParameterError("upper", f"at most ε {HIGHEST_RATE}", upper)
    if positive("lower", lower) >= positive("upper", upper):
        raise BudgetOrderError(2, upper, lower)
    ceiling = max(_ceiling(law) for law in _revealed(upper, lower))
    return nano_up(Fraction(ceiling * (1 + _MARGIN)))


@dataclass(frozen=True, slots=True)
class _Bit:
    """The chances of a revealed bit's two values under one truth, and the log of each over that under the other.

    Both chances: one within 10⁻¹⁴ of 1 tells in doubles next to nothing of the other.
    """

    likely: float
    rare: float
    likely_loss: float
    rare_loss: float


def _revealed(upper: Fraction, lower: Fraction) -> tuple[_Bit, _Bit]:
    """Return what going up reveals where the bit below is right, and where it is wrong.

    A bit of tier ε is right with probability e^ε/(1 + e^ε). Where the one below, of ε′, is right, the one above is with
    (1 − e^−(ε+ε′))/(1 − e^−2ε), and wrong with e^−(ε+ε′)·(1 − e^−(ε−ε′))/(1 − e^−2ε). Where it is wrong, the one above
    is right with (1 − e^−(ε−ε′))/(1 − e^−2ε), and wrong with e^−(ε−ε′)·(1 − e^−(ε+ε′))/(1 − e^−2ε). Under the other
    truth right is wrong, so these two are both directions.
    """
    more, less = float(upper + lower), float(upper - lower)
    every, same, other = (-math.expm1(-each) for each in (2 * float(upper), more, less))
    right = _Bit(same / every, math.exp(-more) * other / every, less, -more)
    wrong = _Bit(math.exp(-less) * same / every, other / every, -less, more)
    return right, wrong


def _ceiling(law: _Bit) -> float:
    """A number no less than D_α/α at any α > 1, by halving intervals of log(α − 1)."""
    edges = np.linspace(math.log(_FIRST_ORDER), math.log(_LAST_ORDER), 256)
    low, high = edges[:-1], edges[1:]
    best = law.likely * law.likely_loss + law.rare * law.rare_loss  # at α = 1: Kullback and Leibler's
    settled = max(law.likely_loss, law.rare_loss) / (1 + _LAST_ORDER)
    first = float(_divergence(law, np.array([_FIRST_ORDER]))[0])
    settled = max(settled, first)  # orders below the first edge: at most D at that edge, over 1
    while len(low):
        at_high = _divergence(law, np.exp(high))
        best = max(best, float((at_high / (1 + np.exp(high))).max()))
        above = at_high / (1 + np.exp(low))
        open_ = above > best * (1 + _GAP) + _CRUMB
        settled = max(settled, float(above[~open_].max(initial=0.0)))
        middle = (low[open_] + high[open_]) / 2
        low, high = np.concatenate([low[open_], middle]), np.concatenate([middle, high[open_]])
    return max(settled, best)


def _divergence(law: _Bit, beyond: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """D_α at α = 1 + beyond, by log of the mean of e^(beyond·loss): nothing cancels, be the mean near 1 or near 0."""
    top = max(law.likely_loss, law.rare_loss)
    at_top, below = (law.likely, law.rare) if law.likely_loss == top else (law.rare, law.likely)
    gap = -beyond * abs(law.likely_loss - law.rare_loss)
    near = np.log1p(np.maximum(below * np.expm1(gap), -0.5))
    mean = np.where(below * np.expm1(gap) > -0.5, near, np.log(at_top + below * np.exp(gap)))
    result: npt.NDArray[np.float64] = top + mean / beyond
    return result
