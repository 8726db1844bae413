"""The exact privacy curve of Gaussian steps, however many: fast, and never on the unsafe side.

The curve of a composition depends on μ = √Σ(Δ/σ)² = √(2Σρ) alone. With u = ε/μ − μ/2, v = ε/μ + μ/2 and Mills' ratio
R(x) = Φ(−x)/φ(x) it is δ = φ(u)·(R(u) − R(v)): one positive factor times a difference that neither overflows nor
underflows. Where μ is small the difference is taken term by term from the moments M_n(x) = ∫ tⁿ·e^(−xt − t²/2) dt over
t > 0 (R = M_0), which lose nothing. Doubles carry a running error bound; where that is too wide, balls decide.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from math import erfc, exp, log, sqrt

from flint import arb

from tiers.errors import InvalidParameterError
from tiers.real import compare, exact, precision

__all__ = ["gaussian_delta", "gaussian_epsilon", "gaussian_mu"]

_UNIT = 2.0**-53
_HALF_ROOT = sqrt(0.5)
_HALF_PI_ROOT = sqrt(math.pi / 2)
_LOG_ROOT_TWO_PI = log(2 * math.pi) / 2
_SERIES_BELOW = 0.05  # μ: below it the moments, above it the difference; either way about 10⁻¹³ of ε
_REACH = 36.0  # |u|, v: beyond it e^(x²/2) leaves the doubles
_LAST_STEP = 3e-7  # of ε: the Newton step that ends; its square is what it misses
_WIDEST = 9e-13  # of the result: a running error bound above it sends the call to balls
_SPLIT = 134217729.0  # 2²⁷ + 1, Dekker's constant
_LEAST = 1e-300
_MU_FLOOR, _MU_CEILING = 1e-12, 1e6


def gaussian_mu(rhos: Iterable[Fraction], reach: Fraction | int = 1) -> float:
    """Return μ of a composition of Gaussian steps, rounded up: √(2Σρ)·reach, each step N(0, Δ²/(2ρ)).

    Args:       rhos: the steps' zCDP parameters, exact. reach: the largest distance of two inputs (Λ), 1 for plain DP.
    Raises:     InvalidParameterError: no step, or a parameter that is not a positive rational.
    Example:
        >>> gaussian_mu([Fraction(1, 4), Fraction(1, 4)]) >= 1
        True
    """
    steps = tuple(rhos)
    for value in (*steps, reach):
        if isinstance(value, bool) or not isinstance(value, Fraction | int) or value <= 0:
            raise InvalidParameterError("gaussian steps", "positive rationals ρ and reach", value)
    if not steps:
        raise InvalidParameterError("gaussian steps", "at least one", steps)
    square = 2 * sum(steps, Fraction(0)) * reach * reach
    mu = sqrt(square)
    while Fraction(mu) ** 2 < square:
        mu = math.nextafter(mu, math.inf)
    return mu


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least ε with δ(ε) ≤ delta, rounded up by at most 10⁻¹² of itself; 0.0 where (0, delta) already holds.

    log δ is concave in ε (a normal law smoothed by a log-concave kernel), so one Newton step from *anywhere* ends at or
    above the root: the bound on the step's own rounding, added to it, makes the result safe however it was reached.

    Law:        δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), any composition of Gaussian steps with √Σ(Δ/σ)² = μ.
    Guarantee:  the mechanism is (ε, delta)-DP under full adaptivity, given libm's erfc within 8 ulp, exp 2, log 1.
    Args:       mu: 10⁻¹² ≤ μ ≤ 10⁶. delta: 10⁻³⁰⁰ ≤ δ < 1; a number for display: no ledger decides by it.
    Raises:     InvalidParameterError: outside these, NaN included.
    Reference:  Balle and Wang 2018, theorem 8.
    Example:
        >>> round(gaussian_epsilon(2**0.5, 1e-6), 9)
        7.286080966
    """
    if (
        type(mu) is not float
        or type(delta) is not float
        or not (_MU_FLOOR <= mu <= _MU_CEILING and _LEAST <= delta < 1)
    ):
        mu, delta = _settle(mu, delta)
    target = log(delta) + _LOG_ROOT_TWO_PI
    epsilon = _guess(mu, -target)
    for _ in range(12):
        middle = epsilon / mu
        low, high = middle - mu / 2, middle + mu / 2
        if high > _REACH:
            break
        if mu < _SERIES_BELOW:
            difference, upper_ratio = _series(middle, mu)
        else:  # R(u) − R(v) and R(v), in line: this is the common case
            upper_ratio = _HALF_PI_ROOT * erfc(high * _HALF_ROOT) * exp(high * high / 2)
            difference = _HALF_PI_ROOT * erfc(low * _HALF_ROOT) * exp(low * low / 2) - upper_ratio
        if not difference > 0:
            break
        excess = log(difference) - low * low / 2 - target
        slope = upper_ratio / difference
        step = excess / slope
        if abs(step) <= _LAST_STEP * epsilon:
            error = _curve_error(epsilon, mu, difference, target)
            margin = (error + 2e-7 * abs(excess)) / slope + 4 * _UNIT * epsilon
            if margin > _WIDEST * epsilon:
                break
            return epsilon + step + margin
        bend = 1 - step * ((1 / mu - upper_ratio) / upper_ratio - slope) / 2  # Halley: only to arrive sooner
        epsilon = max(epsilon + (step / bend if bend > 0.25 else step), epsilon / 8)
    return _epsilon_by_balls(mu, delta)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ(ε), rounded up by at most 10⁻¹² of itself; below 10⁻³⁰⁰ it is reported as 10⁻³⁰⁰.

    Law:        δ(ε) = φ(u)·(R(u) − R(v)) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ).
    Guarantee:  the mechanism is (ε, result)-DP, as for `gaussian_epsilon`.
    Args:       mu: 10⁻¹² ≤ μ ≤ 10⁶. epsilon: 0 ≤ ε < ∞.
    Raises:     InvalidParameterError: outside these, NaN included.
    Example:
        >>> round(gaussian_delta(2**0.5, 7.0), 10)
        2.5917e-06
    """
    mu, _ = _settle(mu, 0.5)
    if not isinstance(epsilon, float | int | Fraction) or not 0 <= epsilon < math.inf:
        raise InvalidParameterError("epsilon", "a number with 0 ≤ ε < ∞", epsilon)
    epsilon = float(epsilon)
    middle = epsilon / mu
    low, high = middle - mu / 2, middle + mu / 2
    if high <= _REACH:
        if mu < _SERIES_BELOW or (mu < 0.15 and middle > 3):  # there the first term left out is below 10⁻¹⁴
            ratio = _mills(middle)
            first = 1 - middle * ratio
            second = ratio - middle * first
            difference = _moments(middle, mu, first, second, 2 * first - middle * second)
            error = _moments_error(middle, mu, 26.0)
        else:
            ratio, upper_ratio = _mills(low), _mills(high)
            difference = ratio - upper_ratio
            slopes = 2 / (1 + low * low) if low > 0 else 2 + abs(low) * ratio
            error = 26 * (ratio + upper_ratio) + 4 * high * slopes
        if difference > 0:
            error = _UNIT * (error / difference + 4 * abs(low) * high + 2 * low * low + 130)
            if error <= _WIDEST:
                return min(1.0, difference * exp(-low * low / 2 - _LOG_ROOT_TWO_PI) * (1 + error))
    return _LEAST if low > 38 else _delta_by_balls(mu, epsilon)  # δ < Φ(−u) < 10⁻³¹⁵


def _settle(mu: float, delta: float) -> tuple[float, float]:
    """Return both as doubles in their ranges, or refuse them by name; δ = 1 − 2⁻⁶⁰ becomes the double below 1."""
    if not isinstance(mu, float | int | Fraction) or not _MU_FLOOR <= mu <= _MU_CEILING:
        raise InvalidParameterError("mu", "a number with 10⁻¹² ≤ μ ≤ 10⁶", mu)
    if not isinstance(delta, float | int | Fraction) or not _LEAST <= delta < 1:
        raise InvalidParameterError("delta", "a number with 10⁻³⁰⁰ ≤ δ < 1", delta)
    width, chance = float(mu), float(delta)
    if width < mu:
        width = math.nextafter(width, math.inf)
    if chance > delta:
        chance = math.nextafter(chance, 0.0)
    return width, chance


def _guess(mu: float, budget: float) -> float:
    """A start near the root: u² = 2·(budget + log D(u)), twice, with R(x) ≈ 4/(3x + √(x² + 8))."""
    if budget <= 1:
        return mu * mu / 2 + mu * 0.5
    low = sqrt(2 * budget)
    for _ in range(2):
        high = low + mu
        spread = 4 / (3 * low + sqrt(low * low + 8)) - 4 / (3 * high + sqrt(high * high + 8))
        inner = budget + log(spread) if spread > 0 else budget + log(mu)
        if inner < 0.02:
            return mu * mu / 2 + mu * 0.15
        low = sqrt(2 * inner)
    return mu * (low + mu / 2)


def _series(middle: float, mu: float) -> tuple[float, float]:
    """R(u) − R(v) and R(v) for small μ, by moments about the middle."""
    ratio = _HALF_PI_ROOT * erfc(middle * _HALF_ROOT) * exp(middle * middle / 2)
    first = 1 - middle * ratio
    second = ratio - middle * first
    third = 2 * first - middle * second
    half = mu / 2
    upper_ratio = ratio - half * (first - half / 2 * (second - half / 3 * third))
    return _moments(middle, mu, first, second, third), upper_ratio


def _curve_error(epsilon: float, mu: float, difference: float, target: float) -> float:
    """The bound on the error of log δ as computed, R(x) being within (3x² + 30) units of 2⁻⁵³ (see Guarantee)."""
    middle = epsilon / mu
    low, high = middle - mu / 2, middle + mu / 2
    if mu < _SERIES_BELOW:
        spread = _moments_error(middle, mu, 3 * middle * middle + 27)
    else:
        ratio = difference + 1 / high  # ≥ R(u), as R(v) < 1/v
        spread = (3 * high * high + 30 + 2 * high * abs(low)) * (ratio + 1 / high) + 4 * high
    rest = 2 * abs(low) * high + low * low + 6 * abs(target) + 4 * abs(log(difference)) + 12
    return _UNIT * (spread / difference + rest)


def _moments(x: float, mu: float, first: float, second: float, third: float) -> float:
    """D = μ·(M_1 + μ²/24·M_3 + μ⁴/1920·M_5 + μ⁶/322560·M_7), with M_(n+1) = n·M_(n−1) − x·M_n."""
    fourth = 3 * second - x * third
    fifth = 4 * third - x * fourth
    seventh = 6 * fifth - x * (5 * fourth - x * fifth)
    square = mu * mu
    return mu * (first + square / 24 * (third + square / 80 * (fifth + square / 168 * seventh)))


def _moments_error(x: float, mu: float, units: float) -> float:
    """The error of that series in units of 2⁻⁵³, when R is within `units`: M_1 carries it, the rest adds under 60 %.

    For (μx)²/24 + (μx)⁴/1920 + … stays below 0.6 while μx < 3, and beyond that the bound is too wide to be used.
    """
    return mu * (1.6 * (min(1.0, 1.2534 * x) * (units + 4) + 4) + 4)


def _mills(x: float) -> float:
    """R within 26 units at a point within 2 units of x: the square in the exponent is exact, in two parts (Dekker)."""
    s = x * _HALF_ROOT
    t = s * _SPLIT
    high = t - (t - s)
    low = s - high
    square = s * s
    rest = ((high * high - square) + 2 * high * low) + low * low
    return _HALF_PI_ROOT * erfc(s) * exp(square) * (1 + rest)


def _curve(mu: Fraction, epsilon: Fraction) -> arb:
    """δ(ε) as a ball at the working precision."""
    root = exact(2).sqrt()
    low, high = exact(epsilon / mu - mu / 2), exact(epsilon / mu + mu / 2)
    return ((low / root).erfc() - exact(epsilon).exp() * (high / root).erfc()) / 2


def _epsilon_by_balls(mu: float, delta: float) -> float:
    """The slow road: a bracket in doubles whose upper end is proved by balls, 10⁻¹³ of it wide."""
    width, goal = Fraction(mu), Fraction(delta)

    def holds(epsilon: float) -> bool:
        return compare(lambda: _curve(width, Fraction(epsilon)), goal) <= 0

    if holds(0.0):
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu * sqrt(2 * log(1 / delta)) + mu
    while not holds(high):
        low, high = high, 2 * high
    floor = high
    while low == 0.0 and floor > 5e-324:
        floor /= 1024
        if holds(floor):
            high = floor
        else:
            low = floor
    while high - low > 1e-13 * high:
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _delta_by_balls(mu: float, epsilon: float) -> float:
    working = 128
    while working <= 1 << 16:
        with precision(working):
            ball = _curve(Fraction(mu), Fraction(epsilon))
            if ball < arb(_LEAST):
                return _LEAST
            if ball.rel_accuracy_bits() >= 60:
                upper = float(ball.upper())
                return min(1.0, math.nextafter(upper, math.inf))
        working *= 2
    raise InvalidParameterError("delta", "a curve that balls can place", (mu, epsilon))
