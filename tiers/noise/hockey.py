"""Exact (ε, δ) of a symmetric log-concave law: the best set is a tail, so δ is a difference of two tails.

For such a law P(x)/P(x + d) rises with x, so sup_A P(A) − e^ε·P(A + d) is reached by a tail {x ≥ t}; both directions
agree by symmetry, and δ rises with d, so the largest shift of a change set is the worst.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from tiers.errors import InvalidParameterError
from tiers.noise.calibrate import gaussian_delta
from tiers.noise.tails import TableTails, Tails
from tiers.real import exact, floor_scaled

__all__ = ["TailsOf", "delta_of_shift", "delta_units", "epsilon_of_shift", "float_above", "gamma_units"]

TailsOf = Callable[[int], Tails]
_FIRST_BITS = 120  # four digits of a Python integer: enough for δ ≥ 10⁻⁹ at 10⁻¹² of itself
_BITS_LIMIT = 1 << 13
_GOOD = 46
_NUDGE = 1 + 2**-44


def delta_of_shift(tails_of: TailsOf, shift: int, epsilon: Fraction) -> float:
    """Return δ(ε) = max_t P(X ≥ t) − e^ε·P(X ≥ t + d), rounded up, within 10⁻¹² of its value.

    Args:       tails_of: the law's tails for a number of bits. shift: d ≥ 1. epsilon: ε ≥ 0.
    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> round(delta_of_shift(Skellam(Fraction(712043726159, 10**11)).tails, 1, Fraction(1)), 15)
        1e-06
    """
    bits = _FIRST_BITS
    while True:
        tails = tails_of(bits)
        value, error = delta_units(tails, shift, gamma_units(epsilon, bits))
        enough = value > error << _GOOD
        if enough or bits >= _BITS_LIMIT:
            return min(1.0, float_above(Fraction(value + error, 1 << bits)))
        bits = min(2 * bits, _BITS_LIMIT)


def delta_units(tails: Tails, shift: int, gamma: int) -> tuple[int, int]:
    """Return δ at e^ε = γ ≥ 1 in units, and the units by which it may be off. γ comes in the same units, floored.

    The best tail begins where P(t) − γ·P(t + d) becomes positive. `high` is a place where it certainly is, `low` the
    last before it where it certainly is not; a better place between them gains at most twice what such a difference may
    be off by, at each, and no more than the mass between them.
    """
    bits, mass = tails.bits, tails.mass
    slack = (tails.unit_error + 1) * (gamma + (1 << bits))

    def gains(t: int) -> bool:
        return (mass(t) << bits) - gamma * mass(t + shift) > slack

    def may_gain(t: int) -> bool:
        return (mass(t) << bits) - gamma * mass(t + shift) >= -slack

    low, high = _bracket(gains, tails, shift, gamma)
    high = _first(gains, low, high)
    low, stride = high - 1, 1
    least = -(shift // 2) - 1
    while low > least and may_gain(low):
        low, stride = max(least, low - stride), 2 * stride
    overlooked = 0
    if low < high - 1:
        first = _first(may_gain, low, min(high, low + stride))
        between = tails.tail(first) - tails.tail(high) + 2 * tails.error
        overlooked = min(2 * (high - first) * slack, between << bits)
    value = tails.tail(high) - (gamma * tails.tail(high + shift) >> bits)
    error = 4 * (tails.error + 1) * (gamma + (1 << bits)) + overlooked
    return max(0, value), (error >> bits) + 1


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return a place above `low`, at most `high`, where `holds` becomes true."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _bracket(gains: Callable[[int], bool], tails: Tails, shift: int, gamma: int) -> tuple[int, int]:
    """Return low < high around the threshold: the whole range, or for a near-Gaussian law a few steps around a guess.

    Each factor P(t)/P(t + 1) is about e^asinh(t/variance), so γ is crossed near t = variance·sinh(log γ/d) − d/2.
    """
    least, most = -(shift // 2) - 1, tails.reach + 1
    if not tails.variance or gamma.bit_length() > tails.bits + 900:
        return least, most
    return _around(gains, _crossing(tails, shift, math.log(gamma / (1 << tails.bits))), least, most)


def _crossing(tails: Tails, shift: int, loss: float) -> int:
    guess = Fraction(tails.variance) * Fraction(math.sinh(min(loss / shift, 600.0))) - Fraction(shift, 2)
    return min(max(round(guess), -(shift // 2)), tails.reach)


def _around(holds: Callable[[int], bool], place: int, least: int, most: int) -> tuple[int, int]:
    """Return low < high from `least` to `most` around the place where `holds` becomes true, found from a good guess."""
    stride = 1
    if holds(place):
        while place - stride > least and holds(place - stride):
            place, stride = place - stride, 4 * stride
        return max(least, place - stride), place
    while place + stride < most and not holds(place + stride):
        place, stride = place + stride, 4 * stride
    return place, min(most, place + stride)


def epsilon_of_shift(tails_of: TailsOf, shift: int, delta: Fraction) -> float:
    """Return the least ε ≥ 0 with δ(ε) ≤ `delta`, rounded up, within 10⁻¹² of its value.

    Law:        ε(δ) = max(0, log max_t (P(X ≥ t) − δ)/P(X ≥ t + d)), a quotient that rises in t and then falls.
    Raises:     InvalidParameterError: δ outside (0, 1), or a shift that leaves probabilities below 2^−8192.
    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> round(epsilon_of_shift(Skellam(Fraction(712043726159, 10**11)).tails, 1, Fraction(1, 10**6)), 10)
        1.0
    """
    if not isinstance(delta, Fraction) or not 0 < delta.numerator < delta.denominator:
        raise InvalidParameterError("delta", "a Fraction with 0 < δ < 1", delta)
    bits = _FIRST_BITS
    while True:
        tails = tails_of(bits)
        unit, slack = (delta.numerator << bits) // delta.denominator, 2 * tails.error + 2
        place = _best_tail(tails, shift, unit)
        base = tails.tail(place + shift)
        excess = tails.tail(place) - unit - base
        certain = min(unit, base) > slack << _GOOD
        if certain and excess < -slack and _holds(tails, shift, 0.0, delta):
            return 0.0
        if certain and (excess > slack << _GOOD or bits >= _BITS_LIMIT):
            found = _log1p(max(0, excess) + 2 * slack, base - slack) * _NUDGE
            if _is_best(tails, shift, place, base + max(0, excess), base) or _holds(tails, shift, found, delta):
                return found
        if bits >= _BITS_LIMIT:
            raise InvalidParameterError("shift", "one whose loss fits 8192 bits of precision", shift)
        bits = min(2 * bits, _BITS_LIMIT)


def _log1p(over: int, under: int) -> float:
    """Return log(1 + over/under), also where the quotient is too large for a double."""
    if over.bit_length() - under.bit_length() < 1000:
        return math.log1p(over / under)
    return math.log(over + under) - math.log(under)


def _is_best(tails: Tails, shift: int, place: int, over: int, under: int) -> bool:
    """Return whether certainly no t has a larger P(X ≥ t) − γ·P(X ≥ t + d), γ = over/under ≥ 1, than `place`."""
    slack = 2 * (tails.unit_error + 1) * (over + under)
    at, before = (under * tails.mass(t) - over * tails.mass(t + shift) for t in (place, place - 1))
    return before < -slack and at > slack


def _holds(tails: Tails, shift: int, epsilon: float, delta: Fraction) -> bool:
    """Return whether δ(ε) is certainly at most `delta`."""
    value, error = delta_units(tails, shift, gamma_units(Fraction(epsilon), tails.bits))
    return (value + error) * delta.denominator <= delta.numerator << tails.bits


def _best_tail(tails: Tails, shift: int, unit: int) -> int:
    """Return the t at which (P(X ≥ t) − δ)/P(X ≥ t + d) peaks: it rises while it exceeds P(X = t)/P(X = t + d)."""
    mass, tail = tails.mass, tails.tail

    def falls(t: int) -> bool:
        top = tail(t) - unit
        return top <= 0 or top * mass(t + shift) < mass(t) * tail(t + shift)

    low, high = -(shift // 2) - 1, tails.reach + 1
    if tails.variance:
        low, high = _around(falls, _peak(tails, shift, unit), low, high)
    elif isinstance(tails, TableTails) and not falls(1):
        return _best_of_table(tails, shift, unit)
    return _first(falls, low, high)


def _best_of_table(tails: TableTails, shift: int, unit: int) -> int:
    """Return what `_best_tail` does where that is above 1, by the same search in the table's own lists."""
    masses, sums, last = tails.masses, tails.tails, tails.reach - shift
    low, high = 1, tails.reach + 1
    while high - low > 1:
        middle = (low + high) // 2
        top, after = sums[middle] - unit, middle + shift
        if top <= 0 or (middle <= last and top * masses[after] < masses[middle] * sums[after]):
            high = middle
        else:
            low = middle
    return high


def _peak(tails: Tails, shift: int, unit: int) -> int:
    """Return about the best t of a near-Gaussian law: where the Gaussian's loss is crossed, once made better.

    The loss that a t gives is crossed where the quotient at that loss is best (Dinkelbach): the error is squared.
    """
    mu, share = shift / math.sqrt(tails.variance), unit / (1 << tails.bits)
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * max(1.0, -math.log(share or 1e-300))) + 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > share else (low, middle)
    place = _crossing(tails, shift, high)
    over, under = tails.tail(place) - unit, tails.tail(place + shift)
    return _crossing(tails, shift, _log1p(over - under, under)) if over > under > 0 else place


@lru_cache(maxsize=4096)
def gamma_units(epsilon: Fraction, bits: int) -> int:
    """Return ⌊2^bits·e^ε⌋.

    Example:
        >>> gamma_units(Fraction(1), 4)
        43
    """
    return floor_scaled(lambda: exact(epsilon).exp(), bits) if epsilon else 1 << bits


def float_above(value: Fraction) -> float:
    """Return a double that is not below `value`.

    Example:
        >>> float_above(Fraction(1, 10)) >= Fraction(1, 10)
        True
    """
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)
