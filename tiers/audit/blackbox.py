"""Black-box bounds: what outputs on two neighbouring datasets prove about ε, whatever the engine says of itself.

A guarantee bounds the probability of every event; so one event, fixed beforehand and counted on both sides, bounds ε
from below. The counts are binomial, and their intervals exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import betaincinv

from tiers.errors import InvalidParameterError

__all__ = ["Counts", "clopper_pearson", "epsilon_lower", "tail_event"]

_MARGIN = 1e-9
"""Relative: far more than the inverse beta function errs."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How often an event happened in independent trials.

    Raises:     InvalidParameterError: not 0 ≤ hits ≤ trials, trials ≥ 1.
    """

    hits: int
    trials: int

    def __post_init__(self) -> None:
        if type(self.hits) is not int or type(self.trials) is not int or not 0 <= self.hits <= self.trials >= 1:
            raise InvalidParameterError("counts", "integers 0 ≤ hits ≤ trials, trials ≥ 1", (self.hits, self.trials))


def clopper_pearson(counts: Counts, miss: Fraction) -> tuple[float, float]:
    """Return bounds on a probability, each of which fails with probability at most `miss`, whatever the truth.

    Law:        low solves P(Bin(n, low) ≥ hits) = miss, high P(Bin(n, high) ≤ hits) = miss: quantiles of beta laws.
    Raises:     InvalidParameterError: `miss` outside (0, 1/2).
    Reference:  Clopper and Pearson 1934.
    Example:
        >>> low, high = clopper_pearson(Counts(0, 10), Fraction(1, 40))
        >>> low, round(high, 6)
        (0.0, 0.308497)
    """
    if not isinstance(miss, Fraction) or not 0 < miss < Fraction(1, 2):
        raise InvalidParameterError("miss", "a Fraction with 0 < miss < 1/2", miss)
    hits, others = counts.hits, counts.trials - counts.hits
    low = float(betaincinv(hits, others + 1, float(miss))) * (1 - _MARGIN) if hits else 0.0
    high = float(betaincinv(hits + 1, others, 1 - float(miss))) * (1 + _MARGIN) if others else 1.0
    return low, min(1.0, high)


def epsilon_lower(likely: Counts, rare: Counts, miss: Fraction, delta: Fraction = Fraction(0)) -> float:
    """Return an ε that the mechanism's true one is not below, at δ, except with probability at most `miss`; 0 at least.

    Law:        P(E) ≤ e^ε·P′(E) + δ for every event, so ε ≥ log((P(E) − δ)/P′(E)), each probability by its own bound.
    Args:       likely, rare: the event on the side where it is likely, and on the neighbour's. miss: of both together.
    Example:
        >>> round(epsilon_lower(Counts(7311, 10_000), Counts(2689, 10_000), Fraction(1, 10**6)), 3)
        0.891
        >>> epsilon_lower(Counts(5, 10), Counts(5, 10), Fraction(1, 100))
        0.0
    """
    low, _ = clopper_pearson(likely, miss / 2)
    _, high = clopper_pearson(rare, miss / 2)
    gain = low - float(delta)
    return max(0.0, math.log(gain / high)) if gain > 0 else 0.0


def tail_event(cdf: Callable[[int], float], shift: int, reach: int, trials: int, delta: Fraction = Fraction(0)) -> int:
    """Return the t whose event {output ≤ t} should prove most, from the claimed law alone, before any output is seen.

    Args:       cdf: of the noise. shift: by which the neighbour's truth is higher. reach: how far from 0 to look.
                trials: on each side.
    Raises:     InvalidParameterError: no event within reach that so few trials could tell from δ.
    Example:
        >>> tail_event(lambda k: 0.5 * 2.0**k if k < 0 else 1 - 0.25 * 2.0**-k, 1, 20, 10**6)
        0
    """

    def expected(t: int) -> float:
        likely, rare = cdf(t), cdf(t - shift)
        low = likely - 5 * math.sqrt(likely / trials) - float(delta)
        high = rare + 5 * math.sqrt(rare / trials) + 12 / trials
        return math.log(low / high) if low > 0 else -math.inf

    stride = max(1, reach // 64)
    near = max(range(-reach, reach + 1, stride), key=expected)
    best = max(range(near - stride, near + stride + 1, max(1, stride // 16)), key=expected)
    if expected(best) <= 0:
        raise InvalidParameterError("trials", "enough to tell an event from δ", trials)
    return best
