"""The exact price of an upgrade where differences are unsound: the worst conditional loss.

In a zCDP ledger a chain of two-sided geometric tiers (Δ = 1) or flips may be charged, upgrade by upgrade, the worst
conditional loss: sup over what was seen below, both directions and every order of D_α(upper | lower)/α. Each is then a
filter step of its own, so adaptive stopping cannot beat the ledger. Reserving the top is cheaper whenever the top is
bought in the end; conditional charges are cheaper for whoever stops early.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tiers.accounting.stepwise import Step, reveal_step
from tiers.budget import nano_up

__all__ = ["conditional_charge_nano"]

_GAP = 1e-8  # what the certified supremum may exceed the true one by, relatively
_MARGIN = 1e-11  # far above the rounding of the divergences below
_FIRST_ORDER, _LAST_ORDER = 1e-7, 1e10  # of α − 1


@lru_cache(maxsize=1024)
def conditional_charge_nano(upper: Fraction, lower: Fraction) -> int:
    """Return a sound charge, in units of 10⁻⁹ ρ, for going up from tier `lower` to tier `upper`, rounded up.

    D_α rises in α, so over orders a < b of an interval D_α/α is at most D_b/a, and beyond the last at most D_∞/a:
    intervals are halved until that ceiling is within 10⁻⁸ of a value that is attained.

    Law:        sup over α > 1, the lower bit and both directions of D_α(upper bit | lower bit)/α, to 10⁻⁸ of itself.
    Guarantee:  charged at each upgrade (and ε²/2 for the first tier), a zCDP ledger holds under adaptive stopping.
    Raises:     BudgetOrderError: `upper` is not above `lower`. InvalidParameterError: not positive rationals.
    Example:
        >>> conditional_charge_nano(Fraction(1), Fraction(1, 2)), conditional_charge_nano(Fraction(2), Fraction(1))
        (438327124, 1593456909)
    """
    steps = [law for step in reveal_step(upper, lower) for law in (step, Step(step.if_zero, step.if_one))]
    ceiling = max(_ceiling(law) for law in steps)
    return nano_up(Fraction(ceiling * (1 + _MARGIN)))


def _ceiling(law: Step) -> float:
    """A number no less than D_α/α at any α > 1, by halving intervals of log(α − 1)."""
    edges = np.linspace(math.log(_FIRST_ORDER), math.log(_LAST_ORDER), 256)
    low, high = edges[:-1], edges[1:]
    best, settled = law.divergence(1.0), law.max_loss() / (1 + _LAST_ORDER)
    first = float(_divergence(law, np.array([_FIRST_ORDER]))[0])
    settled = max(settled, first)  # orders below the first edge: at most D at that edge, over 1
    while len(low):
        at_high = _divergence(law, np.exp(high))
        best = max(best, float((at_high / (1 + np.exp(high))).max()))
        above = at_high / (1 + np.exp(low))
        open_ = above > best * (1 + _GAP)
        settled = max(settled, float(above[~open_].max(initial=0.0)))
        middle = (low[open_] + high[open_]) / 2
        low, high = np.concatenate([low[open_], middle]), np.concatenate([middle, high[open_]])
    return max(settled, best)


def _divergence(law: Step, beyond: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """D_α at α = 1 + beyond, by log of the mean of e^(beyond·loss): nothing cancels as α falls to 1."""
    one = math.log(law.if_one / law.if_zero)
    zero = math.log1p(-law.if_one) - math.log1p(-law.if_zero)
    top = max(one, zero)
    inside = law.if_one * np.expm1(beyond * (one - top)) + (1 - law.if_one) * np.expm1(beyond * (zero - top))
    result: npt.NDArray[np.float64] = top + np.log1p(inside) / beyond
    return result
