"""Calibration by bisection on short decimals: bounded steps, the safe side of the rounding, checked again."""

import math
from collections.abc import Callable
from fractions import Fraction

from tiers.errors import InvalidParameterError
from tiers.sensitivity import ChangeSet

__all__ = [
    "check_confidence",
    "check_delta",
    "check_epsilon",
    "check_half_width",
    "check_loss",
    "gaussian_delta",
    "gaussian_variance",
    "greatest",
    "least",
    "least_integer",
    "log_excess",
]

_DIGITS = 12
_DECADE: int = 9 * 10 ** (_DIGITS - 1)


def least(
    lacks: Callable[[Fraction], float], guess: Fraction, low: Fraction, high: Fraction, digits: int = _DIGITS
) -> Fraction:
    """Return the least decimal x of 12 digits in [low, high] with lacks(x) ≤ 0, for `lacks` falling in x.

    Args:       lacks: a measure of what is missing, or a plain truth value of "not enough"; a measure is interpolated
                (about 10 evaluations), a truth value bisected (about 50). guess: where to look first. digits: fewer
                where `lacks` is dear; low and high are then of no more digits.
    Returns:    an x at which `lacks` was at most 0 and whose lower neighbour failed: at most 10^(1−digits) too large.
    Raises:     InvalidParameterError: something is missing even at `high`.
    Example:
        >>> least(lambda x: x * x < 2, Fraction(1), Fraction(1, 1000), Fraction(1000))
        Fraction(70710678119, 50000000000)
        >>> least(lambda x: 2.0 - x * x, Fraction(1), Fraction(1, 1000), Fraction(1000))
        Fraction(70710678119, 50000000000)
        >>> least(lambda x: 2.0 - x * x, Fraction(1), Fraction(1, 1000), Fraction(1000), digits=4)
        Fraction(283, 200)
    """
    unit = 10 ** (_DIGITS - digits)
    bottom, top = _bracket(lambda place: lacks(_value(place * unit)), guess, low, high, unit)
    return _value(top * unit) if top is not None else _refuse(bottom * unit)


def greatest(holds: Callable[[Fraction], float], guess: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """Return the greatest decimal x of 12 digits in [low, high] with holds(x) > 0, for `holds` positive and then not.

    Args:       holds: a truth value, or a falling measure of what is left, which is interpolated as by `least`.
    Raises:     InvalidParameterError: `holds` is false at `low`.
    Example:
        >>> float(greatest(lambda x: x * x <= 2, Fraction(1), Fraction(1, 1000), Fraction(1000)))
        1.41421356237
    """
    bottom, top = _bracket(lambda place: holds(_value(place)), guess, low, high)
    if top is None:
        return _value(bottom)
    return _value(top - 1) if top > _place(low) else _refuse(top)


def log_excess(delta: float, allowed: Fraction) -> float:
    """Return log(δ/allowed), and more than 0 exactly when δ exceeds what is allowed: a measure for `least`.

    Example:
        >>> log_excess(0.1, Fraction(1, 10)) > 0, log_excess(0.0, Fraction(1, 10)) < 0
        (True, True)
    """
    enough = Fraction(delta) <= allowed
    measure = math.log(max(delta, 5e-324)) + math.log(allowed.denominator) - math.log(allowed.numerator)
    return min(measure, 0.0) if enough else max(measure, 1e-16)


def _bracket(
    lacks: Callable[[int], float], guess: Fraction, low: Fraction, high: Fraction, unit: int = 1
) -> tuple[int, int | None]:
    """Return (t − 1, t) for the least place t with lacks(t) ≤ 0, or (last, None): strides from the guess, close in."""
    first, last, decade = _place(low) // unit, _place(high) // unit, _DECADE // unit
    place = min(max(_place(guess) // unit, first), last)
    value = lacks(place)
    smooth = not isinstance(value, bool)
    share = abs(value) * (1 + 9 * (place % decade) / decade) / 128  # δ falls like the 14th power, or so
    stride = max(1, int(decade * min(share, 0.125))) if smooth else decade // 64
    while True:
        end = last if value > 0 else first
        if place == end:
            return (last, None) if value > 0 else (first - 1, first)
        before, came, place = value, place, min(last, place + stride) if value > 0 else max(first, place - stride)
        value = lacks(place)
        if (value > 0) != (before > 0):
            known = (came, before), (place, value)
            return _close_in(lacks, *(known if before > 0 else known[::-1]))
        aim = _secant((came, before), (place, value)) if smooth else None
        further = 2 * stride if aim is None else abs(math.ceil(aim) - place) * 17 // 16 + 1
        stride = min(max(further, 1), 8 * stride)


_Known = tuple[int, float]


def _close_in(lacks: Callable[[int], float], under: _Known, over: _Known) -> tuple[int, int]:
    """Shrink a bracket, lacking at `under` and not at `over`, to neighbours.

    By secants through the last two places looked at; one that stays at an end steps over it, further each time. A
    bisection at every twelfth step bounds their number whatever the measure does.
    """
    latest, turn, reach = (under, over), 0, 1
    while over[0] - under[0] > 1:
        turn += 1
        aim = _secant(*latest) if turn % 12 else None
        middle = (under[0] + over[0]) // 2 if aim is None or not under[0] <= aim <= over[0] else math.ceil(aim)
        if not under[0] + reach <= middle <= over[0] - reach:
            middle = under[0] + reach if middle < under[0] + reach else over[0] - reach
            reach = min(reach * 4, (over[0] - under[0]) // 4)
        middle = min(max(middle, under[0] + 1), over[0] - 1)
        reach = max(reach, 1)
        found = middle, lacks(middle)
        latest = latest[1], found
        under, over = (found, over) if found[1] > 0 else (under, found)
    return under[0], over[0]


def _secant(one: _Known, other: _Known) -> float | None:
    """Return the place at which the straight line through two values is 0; None for truth values and level lines."""
    if isinstance(one[1], bool) or isinstance(other[1], bool) or not math.isfinite(one[1] - other[1]):
        return None
    return one[0] + (other[0] - one[0]) * (one[1] / (one[1] - other[1])) if one[1] != other[1] else None


def _value(place: int) -> Fraction:
    exponent, digits = divmod(place, _DECADE)
    shift = exponent - _DIGITS + 1
    whole = 10 ** (_DIGITS - 1) + digits
    return Fraction(whole * 10**shift) if shift >= 0 else Fraction(whole, 10**-shift)


def _place(value: Fraction) -> int:
    exponent = math.floor(math.log10(value))
    decade = Fraction(10) ** exponent
    return exponent * _DECADE + int((value / decade - 1) * 10 ** (_DIGITS - 1))


def _refuse(place: int) -> Fraction:
    raise InvalidParameterError("calibration", "a wish that the law can meet within its range", float(_value(place)))


def least_integer(holds: Callable[[int], bool], guess: int = 0) -> int:
    """Return the least integer h ≥ 0 with holds(h), for `holds` false and then true; a good guess saves time only.

    Example:
        >>> least_integer(lambda h: h * h >= 10)
        4
    """
    low, high, stride = guess - 1, guess, 1
    if holds(guess):
        while low >= 0 and holds(low):
            low, high, stride = max(-1, low - stride), low, 2 * stride
    else:
        low, high = guess, guess + 1
        while not holds(high):
            low, high, stride = high, high + stride, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def gaussian_variance(epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> float:
    """Return about the variance at which Gaussian noise is (ε, δ)-DP: where to start a calibration.

    Law:        δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) at μ² = Σd_j²/variance, solved for μ by bisection.
    Reference:  Balle and Wang 2018 (arXiv 1805.06530), theorem 8.
    Example:
        >>> round(gaussian_variance(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1)), 2)
        17.85
    """
    full, rest = divmod(change_set.total, change_set.step)
    squares = full * change_set.step**2 + rest**2
    loss, wanted = min(float(epsilon), 600.0), max(float(delta), 1e-290)
    low, high = -40.0, 40.0
    for _ in range(48):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(math.exp(middle), loss) > wanted else (middle, high)
    return squares * math.exp(-2 * low)


def gaussian_delta(mu: float, loss: float) -> float:
    """Return about δ(ε) of Gaussian noise under a change of μ deviations: where to start a search.

    Example:
        >>> round(gaussian_delta(1.0, 1.0), 4)
        0.1269
    """
    tail = math.erfc((mu / 2 + loss / mu) / math.sqrt(2))
    return (math.erfc((loss / mu - mu / 2) / math.sqrt(2)) - (math.exp(min(loss, 700.0)) * tail if tail else 0.0)) / 2


def check_epsilon(epsilon: Fraction) -> Fraction:
    """Return ε if it is an exact rational in (0, 10⁴]."""
    if not isinstance(epsilon, Fraction) or not Fraction(1, 10**12) <= epsilon <= 10**4:
        raise InvalidParameterError("epsilon", "a Fraction with 10⁻¹² ≤ ε ≤ 10⁴", epsilon)
    return epsilon


def check_loss(epsilon: Fraction) -> Fraction:
    """Return a loss ε at which δ is asked for, if it is an exact rational of at least 0."""
    if not isinstance(epsilon, Fraction) or epsilon < 0:
        raise InvalidParameterError("epsilon", "a Fraction with ε ≥ 0", epsilon)
    return epsilon


def check_delta(delta: Fraction) -> Fraction:
    """Return δ if it is an exact rational in (0, 1)."""
    if not isinstance(delta, Fraction) or not Fraction(1, 10**100) <= delta < 1:
        raise InvalidParameterError("delta", "a Fraction with 10⁻¹⁰⁰ ≤ δ < 1", delta)
    return delta


def check_confidence(confidence: Fraction) -> Fraction:
    """Return the confidence if it is an exact rational in (0, 1)."""
    if not isinstance(confidence, Fraction) or not 0 < confidence < 1:
        raise InvalidParameterError("confidence", "a Fraction with 0 < confidence < 1", confidence)
    return confidence


def check_half_width(half_width: int) -> int:
    """Return the error bar if it is an integer of at least 0 steps."""
    if isinstance(half_width, bool) or not isinstance(half_width, int) or not 0 <= half_width <= 2**62:
        raise InvalidParameterError("half width", "an integer from 0 to 2⁶² steps", half_width)
    return half_width
