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
    "gaussian_variance",
    "greatest",
    "least",
    "least_integer",
]

_DIGITS = 12
_DECADE = 9 * 10 ** (_DIGITS - 1)


def least(holds: Callable[[Fraction], bool], guess: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """Return the least decimal x of 12 digits in [low, high] with holds(x), for `holds` false and then true.

    Args:       holds: evaluated at most about 60 times. guess: where to look first; a good one saves time only.
    Returns:    an x at which `holds` was true and whose lower neighbour failed: at most 10⁻¹¹ (relative) too large.
    Raises:     InvalidParameterError: `holds` is false at `high`.
    Example:
        >>> least(lambda x: x * x >= 2, Fraction(1), Fraction(1, 1000), Fraction(1000))
        Fraction(70710678119, 50000000000)
    """
    bottom, top = _bracket(lambda place: holds(_value(place)), guess, low, high)
    return _value(top) if top is not None else _refuse(bottom)


def greatest(holds: Callable[[Fraction], bool], guess: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """Return the greatest decimal x of 12 digits in [low, high] with holds(x), for `holds` true and then false.

    Raises:     InvalidParameterError: `holds` is false at `low`.
    Example:
        >>> float(greatest(lambda x: x * x <= 2, Fraction(1), Fraction(1, 1000), Fraction(1000)))
        1.41421356237
    """
    bottom, top = _bracket(lambda place: not holds(_value(place)), guess, low, high)
    if top is None:
        return _value(bottom)
    return _value(top - 1) if top > _place(low) else _refuse(top)


def _bracket(holds: Callable[[int], bool], guess: Fraction, low: Fraction, high: Fraction) -> tuple[int, int | None]:
    """Return (t − 1, t) for the least place t with holds(t), or (last, None): gallop from the guess, then bisect."""
    first, last = _place(low), _place(high)
    place, stride = min(max(_place(guess), first), last), _DECADE // 64
    if holds(place):
        top, bottom = place, first - 1
        while top > first:
            place = max(first, top - stride)
            if not holds(place):
                bottom = place
                break
            top, stride = place, 2 * stride
    else:
        top, bottom = last + 1, place
        while bottom < last:
            place = min(last, bottom + stride)
            if holds(place):
                top = place
                break
            bottom, stride = place, 2 * stride
        if top > last:
            return last, None
    while top - bottom > 1:
        middle = (bottom + top) // 2
        bottom, top = (bottom, middle) if holds(middle) else (middle, top)
    return bottom, top


def _value(place: int) -> Fraction:
    exponent, digits = divmod(place, _DECADE)
    shift = exponent - _DIGITS + 1
    whole = 10 ** (_DIGITS - 1) + digits
    return Fraction(whole * 10**shift) if shift >= 0 else Fraction(whole, 10**-shift)


def _place(value: Fraction) -> int:
    exponent = math.floor(math.log10(value))
    decade = Fraction(10) ** exponent
    digits: int = math.floor((value / decade - 1) * 10 ** (_DIGITS - 1))
    return exponent * _DECADE + digits


def _refuse(place: int) -> Fraction:
    raise InvalidParameterError("calibration", "a wish that the law can meet within its range", float(_value(place)))


def least_integer(holds: Callable[[int], bool]) -> int:
    """Return the least integer h ≥ 0 with holds(h), for `holds` false and then true.

    Example:
        >>> least_integer(lambda h: h * h >= 10)
        4
    """
    if holds(0):
        return 0
    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def gaussian_variance(epsilon: Fraction, delta: Fraction, change_set: ChangeSet) -> float:
    """Return roughly the variance at which Gaussian noise would be (ε, δ)-DP: where to start a calibration.

    Example:
        >>> round(gaussian_variance(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1)))
        29
    """
    full, rest = divmod(change_set.total, change_set.step)
    squares = full * change_set.step**2 + rest**2
    logs = math.log(delta.denominator) - math.log(delta.numerator)
    ratio = math.sqrt(2 * logs + 2 * float(epsilon)) - math.sqrt(2 * logs)
    return squares / max(ratio, 1e-12) ** 2


def check_epsilon(epsilon: Fraction) -> Fraction:
    """Return ε if it is an exact rational in (0, 10⁴]."""
    if not isinstance(epsilon, Fraction) or not Fraction(1, 10**12) <= epsilon <= 10**4:
        raise InvalidParameterError("epsilon", "a Fraction with 10⁻¹² ≤ ε ≤ 10⁴", epsilon)
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
