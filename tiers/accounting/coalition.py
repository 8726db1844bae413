"""What any set of buyers together has learnt: the best tier of each chain, summed over the chains."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from tiers.accounting.conversions import is_rational, positive
from tiers.errors import InvalidParameterError

__all__ = ["Holding", "Loss", "coalition_loss"]


@dataclass(frozen=True, slots=True)
class Holding:
    """One tier of one chain in somebody's hands; rank 1 is the most accurate, δ = 0 a pure tier.

    Raises:     InvalidParameterError: a rank below 1, ε not a positive rational, δ not a rational in [0, 1).
    Example:
        >>> Holding("flights", 2, Fraction(1)).delta
        Fraction(0, 1)
    """

    chain: str
    rank: int
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if type(self.rank) is not int or self.rank < 1:
            raise InvalidParameterError("rank", "an integer ≥ 1", self.rank)
        positive("epsilon", self.epsilon)
        if not is_rational(self.delta) or not 0 <= self.delta < 1:
            raise InvalidParameterError("delta", "a rational with 0 ≤ δ < 1", self.delta)


@dataclass(frozen=True, slots=True)
class Loss:
    """A bound (ε, δ) on what a coalition has learnt; (0, 0) for an empty one.

    Example:
        >>> Loss(Fraction(1), Fraction(0)).epsilon
        Fraction(1, 1)
    """

    epsilon: Fraction
    delta: Fraction


def coalition_loss(holdings: Iterable[Holding]) -> Loss:
    """Return the loss of a coalition: per chain its best rank (not its largest ε), over the chains the sums.

    Law:        (Σ ε_b, Σ δ_b) over chains, b the best rank held in each.
    Guarantee:  all that the coalition holds is (Σ ε_b, Σ δ_b)-DP, given that it is closed under influence: anyone whose
                visible acts depend on an answer belongs to it.
    Raises:     InvalidParameterError: two different guarantees under one rank of one chain.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), definition 3.1; basic composition across chains.
    Example:
        >>> held = [Holding("a", 1, Fraction(2)), Holding("a", 3, Fraction(1, 2)), Holding("b", 2, Fraction(1))]
        >>> coalition_loss(held).epsilon
        Fraction(3, 1)
    """
    best: dict[str, Holding] = {}
    seen: dict[tuple[str, int], Holding] = {}
    for holding in holdings:
        if seen.setdefault((holding.chain, holding.rank), holding) != holding:
            raise InvalidParameterError("holdings", "one guarantee per rank of a chain", (holding.chain, holding.rank))
        held = best.setdefault(holding.chain, holding)
        if holding.rank < held.rank:
            best[holding.chain] = holding
    return Loss(
        sum((held.epsilon for held in best.values()), Fraction(0)),
        sum((held.delta for held in best.values()), Fraction(0)),
    )
