"""What a buyer gets, and what everybody together loses, by the ways of selling tiers that a chain replaces."""

from fractions import Fraction
from itertools import pairwise

from tiers.budget import Ladder
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

__all__ = ["chain_mse", "gradual_release_mse", "independent_release_epsilon"]


def chain_mse(ladder: Ladder, change_set: ChangeSet) -> tuple[float, ...]:
    """Return each tier's mean squared error in a chain: that of the single-tier mechanism, in squared steps.

    Example:
        >>> [round(mse, 4) for mse in chain_mse(Ladder.parse(["2", "1"]), ChangeSet.scalar(1))]
        [0.362, 1.8413]
    """
    return tuple(TwoSidedGeometric.at(epsilon, change_set).variance() for epsilon in ladder)


def gradual_release_mse(ladder: Ladder, change_set: ChangeSet) -> tuple[float, ...]:
    """Return each tier's error when tiers are paid for by fresh draws at the differences, weighted best.

    Law:        1/Σ_{j ≥ i} 1/V(ε_j − ε_{j+1}) with ε_{m+1} = 0: the coalition of all loses ε_1, as in a chain, but
                every tier except the lowest is less accurate.
    Example:
        >>> [round(mse, 4) for mse in gradual_release_mse(Ladder.parse(["2", "1"]), ChangeSet.scalar(1))]
        [0.9207, 1.8413]
    """
    levels = [*ladder, Fraction(0)]
    precision, errors = 0.0, []
    for upper, lower in reversed(list(pairwise(levels))):
        precision += 1 / TwoSidedGeometric.at(upper - lower, change_set).variance()
        errors.append(1 / precision)
    return tuple(reversed(errors))


def independent_release_epsilon(ladder: Ladder) -> tuple[Fraction, ...]:
    """Return the loss of the coalition of tiers i to the lowest when every tier is drawn afresh: their sum.

    Example:
        >>> independent_release_epsilon(Ladder.parse(["2", "1", "0.5"]))[0]
        Fraction(7, 2)
    """
    return tuple(sum(ladder.epsilons[place:], Fraction(0)) for place in range(len(ladder)))
