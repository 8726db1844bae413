"""Skellam probabilities at any rate and any k, in balls: a tilted trapezoid sum whose error is proved.

Tilting by e^(θx) moves the mean to where we look; the trapezoid rule on N nodes is then exactly the tilted law wrapped
modulo N, so its error is a Chernoff bound on the tails outside one period, and the nodes far from 0 weigh less than
the last one kept. About 100 nodes serve every rate from 10⁻³⁰ to 10³⁰, near the centre and far from it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from flint import acb, arb

from tiers.errors import InvalidParameterError
from tiers.real import exact

__all__ = ["log_pmf_ball", "log_tail_ball"]

_PLACE_BITS = 512


@dataclass(frozen=True, slots=True)
class _Tilt:
    """The law tilted by θ, watched from `centre`: all that a sum over one period of `nodes` needs."""

    rate: Fraction
    theta: Fraction
    centre: int
    nodes: int
    kept: int


def log_pmf_ball(rate: Fraction, k: int, bits: int) -> arb:
    """Return log P(X = k) for Skellam(rate), to about `bits` bits absolute, at the working precision.

    Law:        P(X = k) = e^(−θk + 2λ(cosh θ − 1))·mean_n exp(2λ cosh θ (cos t_n − 1))·cos(2λ sinh θ sin t_n − k t_n)
                up to the wrapped mass, t_n = 2πn/N, for every real θ.
    Example:
        >>> from tiers.real import to_float
        >>> round(to_float(lambda: log_pmf_ball(Fraction(10**15), 0, 64)), 9)
        -18.534900321
    """
    k = abs(k)
    tilt = _tilt(rate, k, k, bits)
    total = exact(1)
    for n in range(1, tilt.kept + 1):
        size, turn = _node(tilt, n)
        total += _copies(tilt, n) * size * turn.cos()
    total = total / tilt.nodes + arb(0, _upper(_beyond(tilt) + _escaped(tilt, tilt.nodes)))
    return _weight(tilt) + total.log()


def log_tail_ball(rate: Fraction, k: int, bits: int) -> arb:
    """Return log P(X ≥ k) for Skellam(rate) and k ≥ 1, to about `bits` bits absolute, at the working precision.

    Law:        P(X ≥ k) = e^(−θk + 2λ(cosh θ − 1))·Σ_{j ≥ 0} e^(−θj)·P_θ(X = k + j), the sum taken inside the nodes.
    Example:
        >>> from tiers.real import to_float
        >>> round(to_float(lambda: log_tail_ball(Fraction(10**15), 10**8, 64)), 6)
        -4.368229
    """
    spread = math.isqrt(math.ceil(2 * rate)) + 1
    tilt = _tilt(rate, k, max(k, spread), bits)
    length = tilt.nodes // 2
    theta = exact(tilt.theta)
    decay = (-theta).exp()
    total = (1 - decay**length) / (1 - decay)
    for n in range(1, tilt.kept + 1):
        size, turn = _node(tilt, n)
        angle = 2 * arb.pi() * n / tilt.nodes
        step = acb(-theta, -angle).exp()
        total += _copies(tilt, n) * size * (acb(0, turn).exp() * (1 - step**length) / (1 - step)).real
    slack = _beyond(tilt) * length + _escaped(tilt, length)
    total = total / tilt.nodes + arb(0, _upper(slack))
    return _weight(tilt) + total.log()


def _tilt(rate: Fraction, k: int, mean: int, bits: int) -> _Tilt:
    if abs(k).bit_length() > _PLACE_BITS:
        raise InvalidParameterError("k", f"an integer of at most {_PLACE_BITS} bits", k)
    theta = Fraction(math.asinh(float(Fraction(mean) / (2 * rate)))).limit_denominator(2**80)
    bits += math.isqrt(math.ceil(2 * rate) + abs(mean)).bit_length() + 8
    nodes, goal = 16, arb(2) ** -bits
    while not _escaped(_Tilt(rate, theta, k, nodes, 0), nodes // 2) < goal:
        nodes *= 2
    kept = 1
    while kept < nodes // 2 and not _beyond(_Tilt(rate, theta, k, nodes, kept)) * nodes < goal:
        kept += max(1, kept // 4)
    return _Tilt(rate, theta, k, nodes, min(kept, nodes // 2))


def _copies(tilt: _Tilt, n: int) -> int:
    """Return how often ±n occurs among the nodes of one period: the node at π has no partner."""
    return 1 if 2 * n == tilt.nodes else 2


def _node(tilt: _Tilt, n: int) -> tuple[arb, arb]:
    angle = 2 * arb.pi() * n / tilt.nodes
    theta, double = exact(tilt.theta), 2 * exact(tilt.rate)
    size = (-2 * double * theta.cosh() * (angle / 2).sin() ** 2).exp()
    return size, double * theta.sinh() * angle.sin() - tilt.centre * angle


def _beyond(tilt: _Tilt) -> arb:
    """Return a bound on the mean of |ψ| over the nodes not kept: |ψ| falls on [0, π]."""
    angle = 2 * arb.pi() * (tilt.kept + 1) / tilt.nodes
    if 2 * (tilt.kept + 1) > tilt.nodes:
        return exact(0)
    return (-4 * exact(tilt.rate) * exact(tilt.theta).cosh() * (angle / 2).sin() ** 2).exp()


def _escaped(tilt: _Tilt, reach: int) -> arb:
    """Return Chernoff's bound on P_θ(|X − centre| ≥ reach): valid for any tilt further, best at the mean's solution."""
    theta, double = exact(tilt.theta), 2 * exact(tilt.rate)
    base = float(tilt.theta)
    total = exact(0)
    for end in (tilt.centre + reach, tilt.centre - reach):
        further = math.asinh(float(Fraction(end) / (2 * tilt.rate))) - base
        push = exact(Fraction(further))
        if (further > 0) != (end > tilt.centre):
            return exact(1)
        total += (double * ((theta + push).cosh() - theta.cosh()) - push * end).exp()
    return total


def _weight(tilt: _Tilt) -> arb:
    theta, double = exact(tilt.theta), 2 * exact(tilt.rate)
    return double * (theta.cosh() - 1) - theta * tilt.centre


def _upper(value: arb) -> arb:
    return value.abs_upper()
