"""Rényi divergences of Skellam noise, summed in balls with a proved tail, maximised over a change set.

For log-concave noise D_α as a function of one entry's shift is convex and 0 at 0 (each summand P(x)^α·P(x − d)^(1−α)
is log-convex in d, and sums of log-convex sequences are log-convex), so over a change set the sum is largest where the
change is most concentrated: as many entries at the full step as Δ₁ allows, and the rest in one more.
"""

import math
from fractions import Fraction
from functools import lru_cache

from flint import arb

from tiers.errors import InvalidParameterError
from tiers.noise.hockey import float_above
from tiers.noise.skellam_table import skellam_reach, skellam_table
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

__all__ = ["check_order", "concentrated", "exact_or_bound", "skellam_renyi", "skellam_renyi_bound"]

_ORDER_LIMIT = 1024
_RATE_LIMIT = 10**4
_BITS_LIMIT = 4096


def check_order(alpha: Fraction | int) -> Fraction:
    """Return the order of a Rényi divergence as a Fraction in (1, 1024]."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | Fraction) or not 1 < alpha <= _ORDER_LIMIT:
        raise InvalidParameterError("alpha", f"an int or Fraction with 1 < α ≤ {_ORDER_LIMIT}", alpha)
    return Fraction(alpha)


def concentrated(change_set: ChangeSet) -> tuple[tuple[int, int], ...]:
    """Return the most concentrated change of the set, as (size of an entry, how many entries).

    Example:
        >>> concentrated(ChangeSet(bins=4, step=3, total=7))
        ((3, 2), (1, 1))
    """
    full, rest = divmod(change_set.total, change_set.step)
    return ((change_set.step, full), *(((rest, 1),) if rest else ()))


def skellam_renyi(rate: Fraction, alpha: Fraction | int, change_set: ChangeSet) -> float:
    """Return D_α of Skellam(rate) maximised over the change set, rounded up.

    Exact to 10⁻¹² by summation up to λ = 10⁴; beyond, or where the sum would need probabilities below 2⁻⁴⁰⁹⁶, the bound
    `skellam_renyi_bound`.

    Raises:     InvalidParameterError: α is not in (1, 1024].
    Example:
        >>> one, three = (skellam_renyi(Fraction(100), 2, ChangeSet(g, 1, g)) for g in (1, 3))
        >>> round(one, 9), round(three / one, 9)
        (0.004999948, 3.0)
    """
    order = check_order(alpha)
    parts = [count * exact_or_bound(rate, order, shift) for shift, count in concentrated(change_set)]
    return float_above(sum((Fraction(part) for part in parts), Fraction(0)))


@lru_cache(maxsize=4096)
def exact_or_bound(rate: Fraction, alpha: Fraction, shift: int) -> float:
    """Return D_α(P ‖ P shifted by d), rounded up.

    Law:        D_α = log(Σ_x P(x)^α·P(x − d)^(1−α))/(α − 1). Above x the summand falls at least as P does; below −k it
                falls at least by ρ_k·((k+d+1)/(k+1))^(α−1) a step, ρ_k = I_(k+1)/I_k, which itself falls in k.
    Example:
        >>> round(exact_or_bound(Fraction(1), Fraction(2), 1), 9)
        0.475421411
    """
    bits = 192
    while rate <= _RATE_LIMIT and bits <= _BITS_LIMIT and skellam_reach(rate, bits) > shift:
        with precision(bits):
            total = _sum(rate, alpha, shift, bits)
            if total is not None:
                return _upper(total.log() / exact(alpha - 1))
        bits *= 2
    return skellam_renyi_bound(rate, alpha, shift)


def skellam_renyi_bound(rate: Fraction, alpha: Fraction, shift: int) -> float:
    """Return α·d²/(2μ) + min(((2α−1)d² + 6d)/(4μ²), 3d/(2μ)) with μ = 2λ and α rounded up to an integer.

    Reference:  Agarwal, Kairouz, Liu 2021 (arXiv 2110.04995), corollary 3.6; D_α rises in α.
    Example:
        >>> skellam_renyi_bound(Fraction(100), Fraction(2), 1) >= exact_or_bound(Fraction(100), Fraction(2), 1)
        True
    """
    order, mu, d = math.ceil(alpha), 2 * rate, shift
    extra = min(((2 * order - 1) * d * d + 6 * d) / (4 * mu**2), 3 * d / (2 * mu))
    return float_above(Fraction(order * d * d) / (2 * mu) + extra)


def _sum(rate: Fraction, alpha: Fraction, shift: int, bits: int) -> arb | None:
    """Return the sum as a ball, or None where the table's precision does not reach far enough."""
    table = skellam_table(rate, bits)
    good = next(k for k in range(table.last, -1, -1) if table.mass(k) >> 96 or k == 0)
    if good < shift + 2:
        return None
    logs = [arb(table.mass(k), 1).log() for k in range(good + 1)]
    power, other = exact(alpha), exact(alpha - 1)
    terms = [(power * logs[abs(x)] - other * logs[abs(x - shift)]).exp() for x in range(-good + shift, good + 1)]
    above = terms[-1] * arb(table.error * 2 + sum(table.mass(k) for k in range(good + 1, table.last + 1)) + table.last)
    above = above / arb(table.mass(good), 1)
    depth = good - shift
    ratio = (logs[depth + 1] - logs[depth]).exp() * (exact(Fraction(depth + shift + 1, depth + 1))) ** other
    if not ratio < 0.75:
        return None
    below = terms[0] * ratio / (1 - ratio)
    total = sum(terms, arb(0)) / arb(2) ** bits
    left_out = ((above + below) / arb(2) ** bits).abs_upper()
    if not left_out < total * arb(2) ** -60 * (exact(alpha - 1) * exact(shift) ** 2 / (4 * exact(rate))):
        return None
    return total + arb(0, left_out)


def _upper(value: arb) -> float:
    middle, radius = float(value.mid()), float(value.rad())
    return math.nextafter(middle + radius, math.inf) if value > 0 else 0.0
