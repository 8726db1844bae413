"""A buyer's weights, exact until what they share is taken out of them, and the decimals in which a reading is told."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = ["bar_text", "bound_text", "centred", "value_text"]

_PLACES = 6


def centred(weights: Sequence[str]) -> tuple[Fraction, npt.NDArray[np.float64]]:
    """Return the median m and each w − m, rounded to a double only then.

    Law:        n reports of values v sum up to n·m + Σ (w_v − m): the first part has no noise, and in doubles it would
                drown the second where weights are far from 0.
    Example:
        >>> middle, rest = centred(["999999999999999999999", "1000000000000000000000", "1000000000000000000000"])
        >>> int(middle), rest.tolist()
        (1000000000000000000000, [-1.0, 0.0, 0.0])
    """
    exact = [Fraction(text) for text in weights]
    middle = sorted(exact)[len(exact) // 2]
    return middle, np.array([float(each - middle) for each in exact])


def value_text(value: Fraction | float) -> str:
    """Return a value to six decimals, rounded to the nearest of them.

    Example:
        >>> value_text(-0.0000004), value_text(Fraction(10**22, 3))
        ('0.000000', '3333333333333333333333.333333')
    """
    return _text(round(Fraction(value) * 10**_PLACES))


def bar_text(half_width: float) -> str:
    """Return a half-width to six decimals, rounded up by so much that it holds of the rounded value too.

    Example:
        >>> bar_text(0.0), bar_text(1e-12), bar_text(2.0)
        ('0.000000', '0.000001', '2.000001')
    """
    return _text(math.ceil(Fraction(half_width) * 10**_PLACES + Fraction(1, 2)) if half_width > 0 else 0)


def bound_text(value: float) -> str:
    """Return what bounds a number to six decimals, rounded up: no bound of something is shown as 0.

    Example:
        >>> bound_text(0.0), bound_text(4e-19), bound_text(2.0)
        ('0.000000', '0.000001', '2.000000')
    """
    return _text(math.ceil(Fraction(value) * 10**_PLACES))


def _text(units: int) -> str:
    whole, part = divmod(abs(units), 10**_PLACES)
    return f"{'-' if units < 0 else ''}{whole}.{part:0{_PLACES}d}"
