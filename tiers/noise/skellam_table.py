"""Skellam probabilities as certified fixed-point integers, by Miller's backward recurrence with a proved error.

The recurrence I_(k−1) = I_(k+1) + (k/λ)·I_k runs downwards on positive integers, so nothing cancels. Three errors are
bounded on the integers themselves: each floor loses one unit of a number that is at least 2^guard; the start is wrong
by at most the Casoratian, which the recurrence keeps constant; and the entries above the start hold little mass.
"""

import math
from fractions import Fraction
from functools import lru_cache
from operator import ge

from tiers.errors import InvalidParameterError
from tiers.noise.table import LatticeTable

__all__ = ["ENTRIES_LIMIT", "skellam_reach", "skellam_table"]

ENTRIES_LIMIT = 1 << 18
_BITS_LIMIT = 1 << 13


def skellam_reach(rate: Fraction, bits: int) -> int:
    """Return some k with P(X ≥ k) ≤ 2^−bits by Chernoff's bound, as a double finds it: a first guess only.

    Example:
        >>> skellam_reach(Fraction(1), 64)
        21
    """
    double, wanted = 2 * float(rate), bits * math.log(2)
    low, high = 0, 1
    while _exponent(high, double) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _exponent(middle, double) < wanted else (low, middle)
    return high


@lru_cache(maxsize=64)
def skellam_table(rate: Fraction, bits: int) -> LatticeTable:
    """Return the table of Skellam(rate) in units of 2^−bits: every entry within 1 unit, 1 unit outside in all.

    Why it holds: with f the exact recurrence from f_M = f_(M+1) = 1, g that of I_k/I_M and S = f_0 + 2Σ_(k≤M) f_k, the
    Casoratian g_k f_(k+1) − g_(k+1) f_k has the constant size 1 − g_(M+1) ≤ 1. So g/f stays within
    [g_(M+1), 1] and within k/f_k² of its value at 0, and |P(k) − f_k/S| ≤ (1+(M+1)/λ)·(2M+2(M+1)²+4λ/M)/S. That f
    falls is checked on the integers; they are at least 2^guard, so the floors cost at most M·2^−guard of each.

    Law:        |masses[K + k] − 2^bits·e^(−2λ)·I_|k|(2λ)| ≤ 1 for |k| ≤ K, and 2^bits·P(|X| > K) ≤ 1.
    Args:       rate: λ > 0. bits: from 8 to 8192.
    Raises:     InvalidParameterError: bits out of range, or a table of more than 2¹⁸ entries a side (λ beyond about 10⁸
                at 64 bits): use the functions of `saddle` there.
    Reference:  Gautschi 1967, "Computational aspects of three-term recurrence relations"; the bound is ours.
    Example:
        >>> table = skellam_table(Fraction(5), 64)
        >>> round(table.pmf(0), 12)
        0.127833337163
    """
    if not 8 <= bits <= _BITS_LIMIT:
        raise InvalidParameterError("bits", f"8 to {_BITS_LIMIT}", bits)
    start = _start(rate, bits)
    while True:
        if start > ENTRIES_LIMIT:
            raise InvalidParameterError("rate", f"a table of at most {ENTRIES_LIMIT} entries a side", rate)
        guard = bits + start.bit_length() + 4
        values = _backward(rate, start, guard)
        total = 2 * sum(values) - values[0]
        falling = all(map(ge, values, values[1:]))
        if falling and _start_error(rate, start) << (bits + 2 + guard) <= total:
            half = [((value << (bits + 1)) // total + 1) >> 1 for value in values]
            return LatticeTable(-start, (*half[:0:-1], *half), bits, error=1, outside=1)
        start += start // 16 + 1


def _backward(rate: Fraction, start: int, guard: int) -> list[int]:
    """Return f_0 … f_start from f_start = f_(start+1) = 2^guard, floored at every step, all at least 2^guard."""
    numerator, denominator = rate.numerator, rate.denominator
    above = here = 1 << guard
    values = [here]
    append = values.append
    for k in range(start * denominator, 0, -denominator):
        above, here = here, above + k * here // numerator
        append(here)
    values.reverse()
    return values


def _start(rate: Fraction, bits: int) -> int:
    least = skellam_reach(rate, bits)
    spare = 3 * (least + 1).bit_length() + max(0, least.bit_length() - int(rate).bit_length())
    small = (rate.denominator // rate.numerator).bit_length()
    return max(2, skellam_reach(rate, bits + spare + small + 6), math.isqrt(math.ceil(rate)) + 2)


def _start_error(rate: Fraction, start: int) -> int:
    bound = (1 + (start + 1) / rate) * (2 * start + 2 * (start + 1) ** 2 + 4 * rate / start)
    return math.ceil(bound)


def _exponent(k: int, double: float) -> float:
    ratio = k / double
    return k * math.asinh(ratio) - double * ratio * ratio / (1 + math.sqrt(1 + ratio * ratio))
