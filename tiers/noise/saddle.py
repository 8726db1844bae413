"""Skellam probabilities at any rate and any k, in balls: a tilted trapezoid sum whose error is proved.

Tilting by e^(θx) moves the mean to where we look; the trapezoid rule on N nodes is then exactly the tilted law wrapped
modulo N, so its error is a Chernoff bound on the tails outside one period, and the nodes far from 0 weigh less than
the last one kept. About 100 nodes serve every rate from 10⁻³⁰ to 10³⁰, near the centre and far from it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb, ctx

from tiers.errors import InvalidParameterError
from tiers.real import exact

__all__ = ["log_pmf_ball", "log_tail_ball"]

_PLACE_BITS = 512
_Node = tuple[arb, arb, arb]


@dataclass(frozen=True, slots=True)
class _Tilt:
    """The law tilted by θ, watched from `centre`: `even` is 2λ cosh θ, its variance, and `odd` 2λ sinh θ, its mean."""

    rate: Fraction
    slope: float
    centre: int
    theta: arb
    double: arb
    even: arb
    odd: arb

    @property
    def weight(self) -> arb:
        """Return the logarithm of e^(−θk + 2λ(cosh θ − 1))."""
        return self.even - self.double - self.theta * self.centre


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
    tilt = _tilt(rate, k, k)
    nodes, kept, beyond = _period(tilt, _needed(rate, k, bits))
    fall, odd, total, last = -2 * tilt.even, tilt.odd, arb(0), arb(0)
    for angle, sine, square in _nodes(nodes, kept, ctx.prec):
        last = (fall * square).exp() * (odd * sine - k * angle).cos()
        total += last
    total = 1 + 2 * total - (last if 2 * kept == nodes else 0)  # the node at π has no partner
    total = total / nodes + arb(0, (beyond + _escaped(tilt, nodes)).abs_upper())
    return tilt.weight + total.log()


def log_tail_ball(rate: Fraction, k: int, bits: int) -> arb:
    """Return log P(X ≥ k) for Skellam(rate) and k ≥ 1, to about `bits` bits absolute, at the working precision.

    Law:        P(X ≥ k) = e^(−θk + 2λ(cosh θ − 1))·Σ_{j ≥ 0} e^(−θj)·P_θ(X = k + j); N/2 terms of the sum are taken,
                over which e^(−it_n) turns by n half circles, so that they are (1 − (−1)^n e^(−θN/2))/(1 − e^(−θ−it_n)).
    Example:
        >>> from tiers.real import to_float
        >>> round(to_float(lambda: log_tail_ball(Fraction(10**15), 10**8, 64)), 6)
        -4.368229
    """
    mean = max(k, math.isqrt(math.ceil(2 * rate)) + 1)
    tilt = _tilt(rate, k, mean)
    nodes, kept, beyond = _period(tilt, _needed(rate, mean, bits))
    length, decay = nodes // 2, (-tilt.theta).exp()
    gap, rest = 1 - decay, decay**length
    fall, odd, total, last, sign = -2 * tilt.even, tilt.odd, arb(0), arb(0), 1
    for angle, sine, square in _nodes(nodes, kept, ctx.prec):
        sign = -sign
        across, along = decay * sine, gap + 2 * decay * square  # 1 − e^(−θ−it) = along + i·across
        rise, run = (odd * sine - k * angle).sin_cos()
        last = (fall * square).exp() * (1 - sign * rest) * (run * along + rise * across) / (along**2 + across**2)
        total += last
    total = (1 - rest) / gap + 2 * total - (last if 2 * kept == nodes else 0)
    slack = beyond * length + _escaped(tilt, length)
    total = total / nodes + arb(0, slack.abs_upper())
    return tilt.weight + total.log()


def _tilt(rate: Fraction, k: int, mean: int) -> _Tilt:
    if abs(k).bit_length() > _PLACE_BITS:
        raise InvalidParameterError("k", f"an integer of at most {_PLACE_BITS} bits", k)
    slope = math.asinh(float(Fraction(mean) / (2 * rate)))  # any will do, so this double is θ itself
    theta, double = arb(slope), exact(2 * rate)
    return _Tilt(rate, slope, k, theta, double, double * theta.cosh(), double * theta.sinh())


def _needed(rate: Fraction, mean: int, bits: int) -> int:
    return bits + math.isqrt(math.ceil(2 * rate) + abs(mean)).bit_length() + 8


def _period(tilt: _Tilt, bits: int) -> tuple[int, int, arb]:
    """Return N, the nodes kept, and a bound on the mean of |ψ| over the others, both errors being below 2^−bits.

    The first guesses are those of a Gaussian of the same variance, whose tails are lighter; balls decide.
    """
    goal, variance = arb(2) ** -bits, float(tilt.even.mid())
    nodes = max(16, _rounded(math.ceil(2 * math.sqrt(2 * math.log(2) * bits * variance))))
    while not _escaped(tilt, nodes // 2) < goal:
        nodes = _rounded(nodes + 1)
    square = (bits * math.log(2) + math.log(nodes)) / (2 * variance) if variance > 0 else 1.0
    kept = math.ceil(nodes / math.pi * math.asin(math.sqrt(min(1.0, square)))) if square < 1 else nodes // 2
    while True:
        kept = min(-(-kept // 8) * 8, nodes // 2)
        beyond = _beyond(tilt, nodes, kept)
        if 2 * kept == nodes or beyond * nodes < goal:
            return nodes, kept, beyond
        kept += 1


def _rounded(nodes: int) -> int:
    """Return the next even number of three digits, binary and leading: few numbers, so that their nodes are kept."""
    unit = max(2, 1 << max(0, nodes.bit_length() - 3))
    return -(-nodes // unit) * unit


@lru_cache(maxsize=32)
def _nodes(nodes: int, kept: int, precision: int) -> list[_Node]:
    """Return t_n, sin t_n and sin² (t_n/2) of the first nodes after 0, at this working precision."""
    step, found = arb.pi() / nodes, []
    for n in range(1, kept + 1):
        sine, cosine = (step * n).sin_cos()
        found.append((2 * n * step, 2 * sine * cosine, sine * sine))
    return found


def _beyond(tilt: _Tilt, nodes: int, kept: int) -> arb:
    """Return a bound on the mean of |ψ| over the nodes not kept: |ψ| falls on [0, π]."""
    if 2 * (kept + 1) > nodes:
        return arb(0)
    return (-2 * tilt.even * (arb.pi() * (kept + 1) / nodes).sin() ** 2).exp()


def _escaped(tilt: _Tilt, reach: int) -> arb:
    """Return Chernoff's bound on P_θ(|X − centre| ≥ reach): valid for any tilt further, best at the mean's solution."""
    total = arb(0)
    for end in (tilt.centre + reach, tilt.centre - reach):
        further = math.asinh(float(Fraction(end) / (2 * tilt.rate))) - tilt.slope
        if (further > 0) != (end > tilt.centre):
            return arb(1)
        push = arb(further)
        total += (tilt.double * (tilt.theta + push).cosh() - tilt.even - push * end).exp()
    return total
