"""What everything spent so far amounts to as (ε, δ): the Gaussian's exact curve where only Gaussians were used."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tiers.accounting.conversions import positive, zcdp_to_epsilon
from tiers.accounting.gaussian import gaussian_epsilon, gaussian_mu
from tiers.errors import InvalidParameterError

__all__ = ["Spent", "spent_epsilon"]

_EXACT_GAUSSIAN = "gaussian"
_DELTA_LEAST = 1e-300  # as a double just above 10⁻³⁰⁰, which is allowed


@dataclass(frozen=True, slots=True)
class Spent:
    """One step that was taken: its family, and the ρ that it cost, at most.

    Example:
        >>> Spent("skellam", Fraction(1, 2)).rho
        Fraction(1, 2)
    """

    family: str
    rho: Fraction

    def __post_init__(self) -> None:
        positive("rho", self.rho)


def spent_epsilon(steps: Sequence[Spent], delta: Fraction, reach: Fraction | int = 1) -> tuple[float, str]:
    """Return an ε such that all steps together are (ε·t, δ)-close at every distance t ≤ reach, and by which rule.

    For a fixed pair of inputs an adaptive Gaussian step of cost ρ is a post-processing of the next ρ units of one
    drifted Brownian path, so any adaptive sequence of them is on the exact curve. It is for analysis: what a market
    releases is lattice Gaussian noise, which is Skellam noise, and its steps are counted by formula (3).

    Law:        "exact" where every step is Gaussian in exact arithmetic, else "formula (3)" of Σρ; each rounded up.
    Raises:     InvalidParameterError: no steps, or numbers outside the conversions' ranges.
    Example:
        >>> steps = [Spent("gaussian", Fraction(1, 2))] * 2
        >>> others = [Spent("skellam", Fraction(1))]
        >>> [round(spent_epsilon(taken, Fraction(1, 10**6))[0], 5) for taken in (steps, others)]
        [7.28608, 8.01699]
    """
    if not steps:
        raise InvalidParameterError("steps", "at least one", steps)
    if all(step.family == _EXACT_GAUSSIAN for step in steps):
        mu = gaussian_mu([step.rho for step in steps], reach)
        return _over(gaussian_epsilon(mu, _double_below(positive("delta", delta))), reach), "exact"
    return zcdp_to_epsilon(sum((step.rho for step in steps), Fraction(0)), delta, reach), "formula (3)"


def _double_below(delta: Fraction) -> float:
    """Return the double at or below δ, so that 1 − 2⁻⁶⁰ is none that is 1; but at 10⁻³⁰⁰ the one that it stands for."""
    chance = float(delta)
    return chance if chance <= delta or chance <= _DELTA_LEAST else math.nextafter(chance, 0.0)


def _over(epsilon: float, reach: Fraction | int) -> float:
    """Return ε/reach, rounded up."""
    share = Fraction(epsilon) / reach
    nearest = float(share)
    return nearest if nearest >= share else math.nextafter(nearest, math.inf)
