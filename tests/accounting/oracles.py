"""Slow, obvious versions at 60 digits, written from the definitions and sharing nothing with the library."""

from fractions import Fraction

from mpmath import erfc, exp, log, mp, mpf, npdf, quad, sqrt

mp.dps = 60


def number(value: Fraction | float) -> mpf:
    return mpf(value.numerator) / value.denominator if isinstance(value, Fraction | int) else mpf(value)


def gaussian_delta(mu: float, epsilon: float) -> mpf:
    """Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."""
    m, e = number(mu), number(epsilon)
    return (erfc((e / m - m / 2) / sqrt(2)) - exp(e) * erfc((e / m + m / 2) / sqrt(2))) / 2


def gaussian_delta_by_quadrature(mu: float, epsilon: float) -> mpf:
    """∫ max(p(x) − e^ε·q(x), 0) dx for p = N(μ, 1), q = N(0, 1): the definition, where p > e^ε·q."""
    m, e = number(mu), number(epsilon)
    start = e / m + m / 2
    return quad(lambda x: npdf(x, m, 1) - exp(e) * npdf(x, 0, 1), [start, start + 2, start + 6, start + 40])


def gaussian_epsilon(mu: float, delta: float, start: float) -> mpf:
    """Newton on log δ(ε) from a good start."""
    m, root = number(mu), number(start)
    for _ in range(5):
        value = gaussian_delta(mu, root)
        slope = -exp(root) * erfc((root / m + m / 2) / sqrt(2)) / 2 / value
        root -= log(value / number(delta)) / slope
    return root


def formula_three(rho: Fraction, delta: Fraction, reach: Fraction | int) -> mpf:
    """min over s > 1 of max(g(s)·√ρ, s·ρ·Λ): the crossing, by bisection in s, then the larger of the two sides."""
    r, d, span = number(rho), number(delta), number(reach)

    def falling(s: mpf) -> mpf:
        inside = 2 / ((s + 1) * d)
        return mpf(0) if inside <= 1 else 2 * s / (s - 1) * sqrt(r * log(inside))

    low, high = mpf(1), 2 / d
    for _ in range(1200):
        middle = sqrt((low - 1) * (high - 1)) + 1 if low > 1 else 1 + (high - 1) / 1024
        if falling(middle) > middle * r * span:
            low = middle
        else:
            high = middle
        if (high - low) < low * mpf(10) ** -25:
            break
    return max(falling(high), high * r * span)


def formula_three_is_at_most(epsilon: Fraction | float, rho: Fraction, delta: Fraction, reach: Fraction) -> bool:
    """Whether some s > 1 keeps both sides of the maximum at most ε: the largest s with s·ρ·Λ ≤ ε is the best one."""
    e, r, d, span = number(epsilon), number(rho), number(delta), number(reach)
    s = e / (r * span)
    if s <= 1:
        return False
    inside = 2 / ((s + 1) * d)
    return inside <= 1 or 2 * s / (s - 1) * sqrt(r * log(inside)) <= e


def formula_three_on_a_grid(rho: Fraction, delta: Fraction, reach: Fraction | int) -> mpf:
    """The same minimum, read off a plain grid of s: an upper bound that the exact one may not exceed."""
    r, d, span = number(rho), number(delta), number(reach)
    best = mpf("inf")
    for place in range(1, 500):
        s = 1 + mpf(10) ** (mpf(place) / 50 - 4)
        inside = 2 / ((s + 1) * d)
        falling = mpf(0) if inside <= 1 else 2 * s / (s - 1) * sqrt(r * log(inside))
        best = min(best, max(falling, s * r * span))
    return best
