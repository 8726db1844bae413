"""From one privacy measure to another, each rounded to its safe side: ε up, δ up, an admissible ρ down.

Formula (3) turns ρ-zCDP into (ε, δ): ε = min over s > 1 of max(g(s)·√ρ, s·ρ·Λ), g(s) = (2s/(s−1))·√ln⁺(2/((s+1)δ)). The
first term falls in s and the second rises, so the least ε lies where they meet, and ε is enough for ρ iff at
s = ε/(ρΛ) > 1 the first is the smaller: (s−1)²Λ²ρ ≥ 4·ln⁺(2/((s+1)δ)). That one comparison, of a rational with the
logarithm of a rational other than 1, never ties (Lindemann), so balls decide it; doubles only propose.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeGuard

from flint import arb

from tiers.budget import NANO
from tiers.errors import InvalidParameterError
from tiers.real import compare, exact

__all__ = [
    "formula_root",
    "g_delta",
    "is_rational",
    "positive",
    "pure_to_zcdp",
    "rho_star",
    "rho_star_nano",
    "zcdp_admits",
    "zcdp_to_epsilon",
    "zcdp_to_epsilon_simple",
]

_DELTA_FLOOR = Fraction(1, 10**300)
# Where doubles can propose: (least, most, as text). Far outside every use.
_RANGES = {
    "rho": (Fraction(1, 10**30), Fraction(10**6), "10⁻³⁰ to 10⁶"),
    "epsilon": (Fraction(1, 10**30), Fraction(10**9), "10⁻³⁰ to 10⁹"),
    "reach": (Fraction(1, 10**9), Fraction(10**9), "10⁻⁹ to 10⁹"),
    "s": (1 + Fraction(1, 10**100), Fraction(10**310), "above 1 (by 10⁻¹⁰⁰) to 10³¹⁰"),
}


def pure_to_zcdp(epsilon: Fraction) -> Fraction:
    """Return the ρ of an ε-DP mechanism, exactly ε²/2.

    Law:        D_α ≤ α·ε²/2 for all α > 1; randomised response attains it as ε → 0.
    Raises:     InvalidParameterError: `epsilon` is not a positive rational (a float never is).
    Reference:  Bun and Steinke 2016, proposition 1.4.
    Example:
        >>> pure_to_zcdp(Fraction(1, 10))
        Fraction(1, 200)
    """
    return positive("epsilon", epsilon) ** 2 / 2


def zcdp_admits(rho: Fraction, epsilon: Fraction, delta: Fraction, reach: Fraction | int = 1) -> bool:
    """Return whether formula (3) gives at most `epsilon` for `rho`: decided exactly, monotone in every argument.

    Guarantee:  if true, every ρ-zCDP mechanism is (ε·t, δ)-DP at every distance t ≤ reach.
    Raises:     InvalidParameterError: not positive rationals, or δ outside [10⁻³⁰⁰, 1).
    Example:
        >>> [zcdp_admits(Fraction(n, 1000), Fraction(1), Fraction(1, 10**6)) for n in (22, 23)]
        [True, False]
    """
    _check(rho, delta, reach)
    return _admits(Fraction(rho), _within("epsilon", epsilon), delta, Fraction(reach))


def formula_root(rho: Fraction, delta: Fraction, reach: Fraction | int = 1) -> float:
    """Return the s > 1 that attains formula (3), to about 10⁻¹⁴: a number for display.

    Law:        (s−1)·Λ·√ρ = 2·√ln(2/((s+1)δ)), one root between 1 and 2/δ − 1.
    Raises:     InvalidParameterError: as `zcdp_admits`.
    Example:
        >>> round(formula_root(Fraction(1), Fraction(1, 10**6)), 6)
        8.016993
    """
    _check(rho, delta, reach)
    return 1 + _excess_root(math.sqrt(rho) * float(reach), _log(delta))


def zcdp_to_epsilon(rho: Fraction, delta: Fraction, reach: Fraction | int = 1) -> float:
    """Return ε of formula (3), rounded up by about 10⁻¹⁵ of itself.

    Law:        ε = s·ρ·Λ at the root s of `formula_root`; = min over s of max(g(s)·√ρ, s·ρ·Λ).
    Guarantee:  every ρ-zCDP mechanism is (ε·t, δ)-DP at every distance t ≤ reach; always below the simple corollary.
    Args:       rho: 10⁻³⁰ ≤ ρ ≤ 10⁶, exact. delta: 10⁻³⁰⁰ ≤ δ < 1, exact. reach: Λ, the largest distance, from 10⁻⁹
                to 10⁹; 1 for plain DP.
    Raises:     InvalidParameterError: outside these; a float never is exact.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, lemma 3.2.
    Example:
        >>> round(zcdp_to_epsilon(Fraction(1, 10), Fraction(1, 10**5)), 5)
        2.01364
    """
    _check(rho, delta, reach)
    span = Fraction(reach)
    guess = (1 + _excess_root(math.sqrt(rho) * float(span), _log(delta))) * float(rho * span)
    return _round_until(guess, 1, lambda epsilon: _admits(rho, Fraction(epsilon), delta, span))


def zcdp_to_epsilon_simple(rho: Fraction, delta: Fraction, reach: Fraction | int = 1) -> float:
    """Return the simple corollary of formula (3), rounded up: for comparison, never tighter.

    Law:        ε = ρΛ + 2·√(ρ·ln(1/δ)).
    Raises:     InvalidParameterError: as `zcdp_admits`.
    Reference:  Bun and Steinke 2016, proposition 1.3.
    Example:
        >>> round(zcdp_to_epsilon_simple(Fraction(1), Fraction(1, 10**6)), 5)
        8.43384
    """
    _check(rho, delta, reach)

    def value() -> arb:
        return exact(rho * reach) + 2 * (-exact(rho) * exact(delta).log()).sqrt()

    guess = float(rho * reach) + 2 * math.sqrt(-float(rho) * _log(delta))
    return _round_until(guess, 1, lambda epsilon: compare(value, Fraction(epsilon)) <= 0)


def g_delta(s: Fraction, delta: Fraction) -> float:
    """Return g(s), the factor of √ρ in formula (3), rounded up; 0.0 where its logarithm is not positive.

    Law:        g(s) = (2s/(s−1))·√ln⁺(2/((s+1)δ)).
    Raises:     InvalidParameterError: s ≤ 1 or δ outside [10⁻³⁰⁰, 1).
    Example:
        >>> round(g_delta(Fraction(10), Fraction(1, 10**6)), 6), g_delta(Fraction(5_000_000), Fraction(1, 10**6))
        (7.733449, 0.0)
    """
    _within("s", s)
    _check(Fraction(1), delta, 1)
    inside = 2 / ((s + 1) * delta)
    if inside <= 1:
        return 0.0
    factor = 2 * s / (s - 1)
    guess = float(factor) * math.sqrt(math.log1p(float(inside - 1)))
    return _round_until(
        guess, 1, lambda value: compare(lambda: exact(factor) * exact(inside).log().sqrt(), Fraction(value)) <= 0
    )


def rho_star(epsilon: Fraction, delta: Fraction, reach: Fraction | int = 1) -> float:
    """Return the largest ρ for which formula (3) gives at most ε, rounded down by about 10⁻¹⁵ of itself.

    Law:        zcdp_to_epsilon(rho_star(ε, δ, Λ), δ, Λ) = ε: the inverse of formula (3), hence the (ε, δ) filter.
    Raises:     InvalidParameterError: as `zcdp_admits`.
    Reference:  Liang and Yi, Adaptive Privacy Budgeting, filter (10).
    Example:
        >>> round(rho_star(Fraction(1), Fraction(1, 10**6)), 10)
        0.0223603815
    """
    _check(Fraction(1), delta, reach)
    target, span = _within("epsilon", epsilon), Fraction(reach)
    guess = _rho_guess(float(target), _log(delta), float(span))
    return _round_until(guess, -1, lambda rho: _admits(Fraction(rho), target, delta, span))


def rho_star_nano(epsilon: Fraction, delta: Fraction, reach: Fraction | int = 1) -> int:
    """Return ⌊ρ*·10⁹⌋: what an (ε, δ) ledger may spend, in whole units of 10⁻⁹ ρ, decided in integers and balls.

    Raises:     InvalidParameterError: as `zcdp_admits`.
    Example:
        >>> rho_star_nano(Fraction(1), Fraction(1, 10**6))
        22360381
    """
    below = Fraction(rho_star(epsilon, delta, reach)) * NANO
    units, span = below.numerator // below.denominator, Fraction(reach)
    step = 1
    while _admits(Fraction(units + step, NANO), epsilon, delta, span):
        units, step = units + step, 2 * step
    while step > 1:
        step //= 2
        units += step if _admits(Fraction(units + step, NANO), epsilon, delta, span) else 0
    return units


def _admits(rho: Fraction, epsilon: Fraction, delta: Fraction, reach: Fraction) -> bool:
    s = epsilon / (rho * reach)
    if s <= 1:
        return False
    inside = 2 / ((s + 1) * delta)
    if inside <= 1:
        return True
    return compare(lambda: 4 * exact(inside).log(), (s - 1) ** 2 * reach**2 * rho) < 0


def _excess_root(scale: float, log_delta: float) -> float:
    """The x = s − 1 > 0 with (scale·x)² = 4·ln(2/((x+2)δ)), scale = Λ√ρ."""
    square = scale * scale
    return _newton(lambda x: (square * x * x, 2 * square * x), log_delta, 2 * math.sqrt(-log_delta) / scale)


def _rho_guess(epsilon: float, log_delta: float, reach: float) -> float:
    """The same root with ρ = ε/(sΛ) put in, for a given ε: Λε·x²/(x+1) = 4·ln(2/((x+2)δ))."""
    budget = reach * epsilon
    ceiling = -2 * log_delta / budget
    high = ceiling + math.sqrt(ceiling * (ceiling + 2))
    x = _newton(lambda x: (budget * x * x / (x + 1), budget * x * (x + 2) / (x + 1) ** 2), log_delta, high)
    return epsilon / ((1 + x) * reach)


def _newton(left: Callable[[float], tuple[float, float]], log_delta: float, high: float) -> float:
    """Solve left(x) + 4·(log1p(x/2) + log δ) = 0, increasing, below `high`: Newton kept inside its bracket."""
    low, x = 0.0, high
    for _ in range(200):
        value, slope = left(x)
        excess = value + 4 * (math.log1p(x / 2) + log_delta)
        low, high = (x, high) if excess < 0 else (low, x)
        step = x - excess / (slope + 4 / (x + 2))
        after = step if low < step < high else (low + high) / 2
        if abs(after - x) <= 2e-16 * x:
            break
        x = after
    return x


def _round_until(guess: float, side: int, holds: Callable[[float], bool]) -> float:
    """Move a guess by a growing number of ulps to its safe side until the claim holds, then say so."""
    width = 4e-16
    candidate = guess * (1 + side * width)
    while not holds(candidate):
        width *= 2
        if width > 1e-9:
            raise InvalidParameterError("conversion", "a root that doubles can place", guess)
        candidate = guess * (1 + side * width)
    return candidate


def _log(delta: Fraction) -> float:
    if 2 * delta > 1:
        return math.log1p(float(delta - 1))
    return math.log(delta.numerator) - math.log(delta.denominator)


def is_rational(value: object) -> TypeGuard[Fraction | int]:
    """Return whether a value is exact: a Fraction or an int, never a float, a text or a bool."""
    return isinstance(value, Fraction | int) and not isinstance(value, bool)


def positive(name: str, value: object) -> Fraction:
    """Return a positive exact parameter; anything else is refused by name.

    Example:
        >>> positive("rho", 2)
        Fraction(2, 1)
    """
    if not is_rational(value) or value <= 0:
        raise InvalidParameterError(name, "a positive rational (Fraction or int, never a float)", value)
    return Fraction(value)


def _check(rho: object, delta: object, reach: object) -> None:
    _within("rho", rho)
    if not _DELTA_FLOOR <= positive("delta", delta) < 1:
        raise InvalidParameterError("delta", "a rational with 10⁻³⁰⁰ ≤ δ < 1", delta)
    _within("reach", reach)


def _within(name: str, value: object) -> Fraction:
    least, most, text = _RANGES[name]
    exactly = positive(name, value)
    if not least <= exactly <= most:
        raise InvalidParameterError(name, f"a rational from {text}", value)
    return exactly
