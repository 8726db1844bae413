"""Ball arithmetic (python-flint): real numbers as enclosures that only ever answer what is certain.

A `Real` is a function evaluated anew at each working precision. FLINT's precision is one number for the whole process,
so every evaluation happens inside `precision`, under one lock; elsewhere nobody touches balls.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from threading import RLock
from typing import TypeAlias

from flint import arb, ctx, fmpq

from tiers.errors import InvalidParameterError

__all__ = ["Real", "compare", "exact", "floor_scaled", "precision", "settled", "to_float"]

Real: TypeAlias = Callable[[], arb]

_LOCK = RLock()
_PRECISION_LIMIT = 1 << 20


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Evaluate balls at `bits` of working precision; one thread at a time, nested freely."""
    with _LOCK:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


def exact(value: Fraction | int) -> arb:
    """Return the ball of a rational at the working precision."""
    return arb(fmpq(value.numerator, value.denominator))


def floor_scaled(value: Real, bits: int) -> int:
    """Return ⌊2^bits · value⌋, raising the precision until only one integer is possible.

    Example:
        >>> floor_scaled(lambda: exact(Fraction(1, 3)), 4)
        5
    """
    working = bits + 64
    while working <= _PRECISION_LIMIT:
        with precision(working):
            floor = (value() * arb(2) ** bits).floor().unique_fmpz()
        if floor is not None:
            return int(floor)
        working *= 2
    raise InvalidParameterError("real number", "one that ball arithmetic can place", f"a tie at 2^-{bits}")


def compare(value: Real, bound: Fraction | int) -> int:
    """Return −1 or 1 as `value` is certainly below or above `bound`; 0 only where both are exactly equal balls.

    Example:
        >>> compare(lambda: arb(2).sqrt(), Fraction(3, 2))
        -1
    """
    working = 128
    while working <= _PRECISION_LIMIT:
        with precision(working):
            difference = value() - exact(bound)
            if difference < 0:
                return -1
            if difference > 0:
                return 1
            if difference.is_exact() and difference == 0:
                return 0
        working *= 2
    raise InvalidParameterError("real number", "one that ball arithmetic can tell from the bound", "a tie")


def to_float(value: Real) -> float:
    """Return the nearest double of `value` (error below 2⁻⁵² relative): for display and for first guesses only."""
    with precision(160):
        return float(value().mid())


def settled(value: Real, accuracy: int, limit: int = 1 << 16) -> arb | None:
    """Return `value` at the first precision, from 256 bits to the limit, at which its ball is that accurate; else None.

    Args:       accuracy: relative, in bits. limit: of the precision, in bits.
    Example:
        >>> settled(lambda: exact(Fraction(1)).exp(), 64).rel_accuracy_bits() >= 64
        True
    """
    bits = 256
    while bits <= limit:
        with precision(bits):
            ball = value()
        if ball.rel_accuracy_bits() >= accuracy:
            return ball
        bits *= 2
    return None
