"""Privacy guarantees as values, and the exact divergence that decides them for a lattice law."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

from tiers.errors import InvalidParameterError
from tiers.noise.hockey import float_above, gamma_units
from tiers.noise.table import LatticeTable

__all__ = ["ZCDP", "Adjacency", "ApproxDP", "Guarantee", "LocalDP", "MetricLDP", "PureDP", "hockey_stick"]


class Adjacency(StrEnum):
    """Which two inputs a guarantee compares."""

    ADD_OR_REMOVE = "one unit with all its rows is added or removed"
    ANY_TWO_VALUES = "any two values of one person"


@dataclass(frozen=True, slots=True)
class PureDP:
    """ε-DP: P(x)/P′(x) ≤ e^ε at every output, for every two adjacent inputs.

    Example:
        >>> PureDP(Fraction(1, 2)).adjacency.name
        'ADD_OR_REMOVE'
    """

    epsilon: Fraction
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)

    def approx(self) -> "ApproxDP":
        """Return the same guarantee as (ε, 0)-DP."""
        return ApproxDP(self.epsilon, Fraction(0), self.adjacency)

    def zcdp(self) -> "ZCDP":
        """Return the ρ-zCDP that it implies: ρ = ε²/2."""
        return ZCDP(self.epsilon**2 / 2, self.adjacency)


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """(ε, δ)-DP: P(S) ≤ e^ε·P′(S) + δ for every set S of outputs and every two adjacent inputs.

    Example:
        >>> ApproxDP(Fraction(1), Fraction(1, 10**6)).with_slack(Fraction(0)).delta
        Fraction(1, 1000000)
    """

    epsilon: Fraction
    delta: Fraction
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)
        if not isinstance(self.delta, Fraction) or not 0 <= self.delta < 1:
            raise InvalidParameterError("delta", "a Fraction with 0 ≤ δ < 1", self.delta)

    def with_slack(self, tau: Fraction) -> "ApproxDP":
        """Return what holds when the law is off by τ in total variation: δ grows by (1 + e^ε)·τ, rounded up."""
        bits = 128
        factor = Fraction((1 << bits) + gamma_units(self.epsilon, bits) + 1, 1 << bits)
        return ApproxDP(self.epsilon, self.delta + factor * tau, self.adjacency)


@dataclass(frozen=True, slots=True)
class ZCDP:
    """ρ-zCDP: the Rényi divergence of every order α > 1 is at most ρ·α, for every two adjacent inputs."""

    rho: Fraction
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        _check("rho", self.rho)


@dataclass(frozen=True, slots=True)
class LocalDP:
    """ε-LDP: what one person sends is ε-indistinguishable between any two of their possible values."""

    epsilon: Fraction
    adjacency: Adjacency = Adjacency.ANY_TWO_VALUES

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class MetricLDP:
    """ε·dist-LDP: two values at distance t are (ε·t)-indistinguishable, for every t up to `radius`."""

    epsilon: Fraction
    radius: Fraction
    adjacency: Adjacency = Adjacency.ANY_TWO_VALUES

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)
        _check("radius", self.radius)


Guarantee: TypeAlias = PureDP | ApproxDP | ZCDP | LocalDP | MetricLDP


def hockey_stick(table: LatticeTable, shift: int, epsilon: Fraction) -> float:
    """Return the divergence of a law and its shift at e^ε, the larger of both directions, rounded up.

    Law:        max over s = ±d of Σ_x max(P(x) − e^ε·P(x − s), 0).
    Args:       table: the law, with its errors; both errors are added, so the result never falls short.
                shift: d, not 0. epsilon: ε ≥ 0.
    Reference:  Barthe and Olmedo 2013; Dwork and Roth 2014, section 3.5.
    Example:
        >>> fair = LatticeTable.of({0: Fraction(1, 2), 1: Fraction(1, 2)})
        >>> round(hockey_stick(fair, 1, Fraction(0)), 12)
        0.5
    """
    if isinstance(shift, bool) or not isinstance(shift, int) or shift == 0:
        raise InvalidParameterError("shift", "an integer other than 0", shift)
    if not isinstance(epsilon, Fraction) or epsilon < 0:
        raise InvalidParameterError("epsilon", "a Fraction with ε ≥ 0", epsilon)
    gamma, bits = gamma_units(epsilon, table.bits), table.bits
    slack = table.outside + table.error * len(table.masses)
    worst = 0
    for step in (shift, -shift):
        places = range(table.first, table.last + 1)
        excess = sum(
            max(0, (table.mass(x) << bits) - gamma * max(0, table.mass(x - step) - table.error)) for x in places
        )
        worst = max(worst, (excess >> bits) + 1)
    return min(1.0, float_above(Fraction(worst + slack, 1 << bits)))


def _check(name: str, value: object) -> None:
    if not isinstance(value, Fraction) or value < 0:
        raise InvalidParameterError(name, "a Fraction of at least 0", value)
