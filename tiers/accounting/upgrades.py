"""The exact price of an upgrade where differences are unsound, and what each rule would have charged.

In a zCDP ledger a chain of two-sided geometric tiers (Δ = 1) or flips may be charged, upgrade by upgrade, the worst
conditional loss: sup over what was seen below, both directions and every order of D_α(upper | lower)/α. Each is then a
filter step of its own, so adaptive stopping cannot beat the ledger. Reserving the top is cheaper whenever the top is
bought in the end; conditional charges are cheaper for whoever stops early.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tiers.accounting.charges import ChargeRule, LedgerKind, charge_nano, level_nano
from tiers.accounting.stepwise import Step, reveal_step
from tiers.budget import Ladder, nano_up
from tiers.errors import InvalidParameterError

__all__ = ["RuleCosts", "conditional_charge_nano", "rule_costs"]

_GAP = 1e-8  # what the certified supremum may exceed the true one by, relatively
_MARGIN = 1e-11  # far above the rounding of the divergences below
_FIRST_ORDER, _LAST_ORDER = 1e-7, 1e10  # of α − 1


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


@dataclass(frozen=True, slots=True)
class RuleCosts:
    """What the same sales of one chain would have cost under each rule, in units of 10⁻⁹ of each ledger's measure.

    `increments` are ε in a pure ledger; the others are ρ in a zCDP ledger; `naive` is what differences of ρ would have
    charged there, and no ledger may.
    """

    increments: int
    reserved: int
    conditional: int
    naive: int


def rule_costs(ladder: Ladder, sold: Sequence[int]) -> RuleCosts:
    """Return what selling these ranks in this order costs by each rule: two-sided geometric tiers with Δ = 1.

    Args:       ladder: the chain's budgets, rank 1 first. sold: ranks from 1, in the order of the sales.
    Raises:     InvalidParameterError: nothing sold, or a rank that the ladder has not.
    Example:
        >>> costs = rule_costs(Ladder.parse(["1", "0.5"]), [2, 1])
        >>> costs.reserved, costs.conditional, costs.naive
        (500000000, 563327124, 500000000)
    """
    if not sold or any(type(rank) is not int or not 1 <= rank <= len(ladder) for rank in sold):
        raise InvalidParameterError("sold", f"ranks from 1 to {len(ladder)}, at least one", tuple(sold))
    top = level_nano(LedgerKind.ZCDP, ladder.epsilons[0])
    pure = reserved = naive = conditional = 0
    best: Fraction | None = None
    for rank in sold:
        epsilon = ladder.epsilons[rank - 1]
        pure += charge_nano(ChargeRule.INCREMENT, level_nano(LedgerKind.PURE, epsilon), 1, pure)
        level = level_nano(LedgerKind.ZCDP, epsilon)
        reserved += charge_nano(ChargeRule.RESERVE, level, top, reserved)
        naive += charge_nano(ChargeRule.INCREMENT, level, top, naive)
        if best is None:
            conditional = level
        elif epsilon > best:
            conditional += conditional_charge_nano(epsilon, best)
        best = epsilon if best is None else max(best, epsilon)
    return RuleCosts(pure, reserved, conditional, naive)


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
