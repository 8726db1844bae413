"""A further ladder on a chain that has tiers: which laws it takes over, and which new ones fit in."""

from collections.abc import Sequence
from fractions import Fraction

from tiers.budget import Ladder, decimal_text, parse_decimal
from tiers.chain.families import AUTO, calibrate, candidates
from tiers.chain.planner import ChainPlan, plan_of
from tiers.errors import BudgetOrderError, InvalidParameterError, TierError
from tiers.identity import TierLaw
from tiers.rank import by_accuracy

__all__ = ["extend"]


def extend(
    known: Sequence[TierLaw], ladder: Ladder, family: str = AUTO, delta: Fraction | str = Fraction(0)
) -> ChainPlan:
    """Return the plan of a chain with the tiers of a further ladder: every step down between neighbours exact.

    A tier whose ε the chain has already is that tier: one good, one answer. A new one takes the least noisy law of the
    family (with "auto", of all families) to which a residual leads from its upper neighbour, and from which one leads
    to its lower neighbour.

    Law:        every two neighbours of the whole chain have a certified residual without slack.
    Args:       known: the chain's laws, one or more, drawn or not. ladder, family, delta: as for `plan`.
    Returns:    all tiers, known and new, with the ranks that they have together.
    Raises:     NoResidualError, SlackNotAllowedError, BudgetOrderError: no law of a new tier fits.
                InvalidParameterError: no known law, another δ than the chain's, or an unknown family.
    Example:
        >>> from tiers.chain.planner import plan
        >>> old = [tier.law for tier in plan(Ladder.parse(["2", "0.5"]), 1).tiers]
        >>> [decimal_text(tier.epsilon) for tier in extend(old, Ladder.parse(["4", "2", "1"])).tiers]
        ['4', '2', '1', '0.5']
    """
    if not known:
        raise InvalidParameterError("known laws", "the laws of a chain, one or more", 0)
    nominal = parse_decimal("delta", delta)
    if known[0].delta != nominal:
        raise InvalidParameterError("delta", f"that of the chain, {decimal_text(known[0].delta)}", delta)
    laws = list(known)
    for epsilon in ladder:
        if not any(law.epsilon() == epsilon and family in (AUTO, law.noise.family) for law in laws):
            laws = _with(laws, epsilon, family, nominal)
    return plan_of(by_accuracy(laws))


def _with(laws: Sequence[TierLaw], epsilon: Fraction, family: str, delta: Fraction) -> list[TierLaw]:
    change_set = laws[0].change_set
    for rank, law in enumerate(laws, start=1):
        if law.epsilon() == epsilon:
            raise BudgetOrderError(rank, decimal_text(epsilon), decimal_text(epsilon))
    if family == AUTO:
        choices = candidates(epsilon, delta, change_set)
    else:
        choices = (calibrate(family, epsilon, delta, change_set),)
    refusals: list[TierError] = []
    for noise in choices:
        order = by_accuracy([*laws, TierLaw(noise, change_set, delta)])
        try:
            plan_of(order)
        except TierError as refusal:
            refusals.append(refusal)
        else:
            return order
    raise refusals[0]
