"""Linear counting by strategy matrices: a report is A·h_x plus Laplace noise; any workload W = B·A is read off.

Floating point: this is the analysis of a mechanism (scales, cost, error). Reports of a product are flips, in integers.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, minimize

from tiers.errors import InvalidParameterError, NoResidualError

__all__ = [
    "Strategy",
    "identity_scales",
    "line_metric",
    "optimal_scales",
    "prefix_strategy",
    "residual_stay",
    "secret_metric",
]

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Strategy:
    """What each person sends: row k of A at their value, plus Laplace noise of scale s_k; then B reads the workload.

    Law:        cost(x, x′) = Σ_k |A[k, x] − A[k, x′]|/s_k, with 0/0 = 0; total error = 2n·Σ_k s_k²·‖B[:, k]‖².
    Guarantee:  E-LDP for every metric E that is at least the cost, and for no smaller one.
    Args:       rows: A, shape (K, m). scales: s, shape (K,); 0 only where the row is constant. reader: B, shape (W, K).
    Raises:     InvalidParameterError: shapes that do not fit, or a scale that hides nothing.
    Reference:  Xiang, Ding, et al. 2019 (arXiv 1909.11778), section 3.
    Example:
        >>> strategy = Strategy(np.eye(3), np.full(3, 2.0), np.eye(3))
        >>> float(strategy.cost()[0, 1]), strategy.total_error(1)
        (1.0, 24.0)
    """

    rows: Matrix
    scales: Matrix
    reader: Matrix

    def __post_init__(self) -> None:
        fits = self.rows.ndim == self.reader.ndim == 2 and self.scales.shape == (len(self.rows),)
        if not fits or self.reader.shape[1] != len(self.rows):
            raise InvalidParameterError("strategy", "A of K rows, K scales, B of K columns", self.scales.shape)
        varies = np.ptp(self.rows, axis=1) > 0
        good = np.isfinite(self.scales) & (self.scales >= 0) & ((self.scales > 0) | ~varies)
        if not good.all():
            raise InvalidParameterError(
                "scale", "finite, and above 0 unless its row is constant", self.scales[~good][0]
            )

    def cost(self) -> Matrix:
        """Return the tight metric: the largest log-ratio of any report, for each pair of values."""
        moves = np.abs(self.rows[:, :, None] - self.rows[:, None, :])
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(moves == 0, 0.0, moves / self.scales[:, None, None])
        found: Matrix = parts.sum(axis=0)
        return found

    def errors(self, reports: int) -> Matrix:
        """Return the variance of each counting query of the workload."""
        found: Matrix = 2 * reports * (self.reader**2) @ (self.scales**2)
        return found

    def total_error(self, reports: int) -> float:
        """Return the variances' sum."""
        return float(self.errors(reports).sum())


def line_metric(values: int, epsilon: float) -> Matrix:
    """Return E = ε|x − x′| for values 1 … m."""
    places = np.arange(values, dtype=np.float64)
    return epsilon * np.abs(places[:, None] - places[None, :])


def secret_metric(values: int, secret: int, epsilon: float) -> Matrix:
    """Return E_S: ε between two values of which at least one is among the first `secret`, and 2ε between two others.

    Example:
        >>> secret_metric(3, 1, 1.0).tolist()
        [[0.0, 1.0, 1.0], [1.0, 0.0, 2.0], [1.0, 2.0, 0.0]]
    """
    if not 0 <= secret <= values:
        raise InvalidParameterError("secret values", f"0 to {values}", secret)
    found = np.full((values, values), 2 * epsilon)
    found[:secret], found[:, :secret] = epsilon, epsilon
    np.fill_diagonal(found, 0.0)
    return found


def identity_scales(values: int, sensitive: int, epsilon: float) -> tuple[float, float]:
    """Return the best scales of the identity strategy under E_S: on the set S, and off it.

    The metric E_S asks 1/s_x + 1/s_x′ ≤ ε of every pair that has a member in S, and ≤ 2ε of every other pair.

    Law:        |S| = 0: s = 1/ε. 1 ≤ |S| < m/2: with p = |S|^⅓, q = (m−|S|)^⅓, s_S = (p+q)/(εp), s_rest = (p+q)/(εq).
                |S| ≥ m/2: s = 2/ε.
    Args:       sensitive: |S|, 0 to m.
    Example:
        >>> on, off = identity_scales(100, 1, 1.0)
        >>> round(2 * (on**2 + 99 * off**2), 2)
        356.16
    """
    if not 0 <= sensitive <= values or values < 1:
        raise InvalidParameterError("sensitive values", f"0 to {values}", sensitive)
    if not 0 < epsilon < math.inf:
        raise InvalidParameterError("epsilon", "finite and above 0", epsilon)
    if sensitive == 0:
        return 1 / epsilon, 1 / epsilon
    if 2 * sensitive >= values:
        return 2 / epsilon, 2 / epsilon
    p, q = sensitive ** (1 / 3), (values - sensitive) ** (1 / 3)
    return (p + q) / (epsilon * p), (p + q) / (epsilon * q)


def prefix_strategy(values: int, epsilon: float) -> Strategy:
    """Return the best strategy for all ranges on a line: prefixes, each with scale 1/ε, the whole one without noise.

    Law:        total = 2n·m(m−1)/ε² over the m(m+1)/2 ranges; interior 4n/ε², at one edge 2n/ε², the whole line 0.
    Example:
        >>> prefix_strategy(6, 1.0).total_error(1), float(prefix_strategy(6, 2.0).cost()[0, 5])
        (60.0, 10.0)
    """
    ranges = [(left, right) for left in range(values) for right in range(left, values)]
    reader = np.zeros((len(ranges), values))
    for row, (left, right) in enumerate(ranges):
        reader[row, right] = 1
        if left:
            reader[row, left - 1] = -1
    scales = np.append(np.full(values - 1, 1 / epsilon), 0.0)
    return Strategy(np.tril(np.ones((values, values))), scales, reader)


def optimal_scales(rows: Matrix, reader: Matrix, metric: Matrix, *, least: Matrix | None = None) -> Strategy:
    """Return the strategy with the best scales for a metric: a convex programme in u = 1/s.

    The result is scaled into the feasible set, so that it never exceeds the metric by the solver's tolerance.

    Args:       metric: E, symmetric, of values that may be infinite. least: scales that must not be gone below, so that
                a tier above with these scales has a residual to this one.
    Raises:     InvalidParameterError: a metric of the wrong shape, not symmetric, or 0 somewhere.
    Example:
        >>> found = optimal_scales(np.eye(4), np.eye(4), line_metric(4, 1.0))
        >>> bool((found.cost() <= line_metric(4, 1.0) + 1e-12).all())
        True
    """
    values = rows.shape[1]
    if metric.shape != (values, values) or not np.array_equal(metric, metric.T) or np.isnan(metric).any():
        raise InvalidParameterError("metric", f"a symmetric matrix of {values} values", metric.shape)
    varies = np.ptp(rows, axis=1) > 0
    pairs = [(x, y) for x in range(values) for y in range(x) if np.isfinite(metric[x, y])]
    moves = np.array([np.abs(rows[varies, x] - rows[varies, y]) for x, y in pairs])
    bounds = np.array([metric[pair] for pair in pairs])
    if not pairs or (bounds <= 0).any() or not moves.any(axis=0).all():
        raise InvalidParameterError("metric", "finite and above 0 for some pair that each row tells apart", "another")
    weight = (reader[:, varies] ** 2).sum(axis=0)
    start = np.full(int(varies.sum()), float((bounds / moves.sum(axis=1).clip(1e-300)).min()))
    most = np.inf if least is None else 1 / least[varies]
    start = np.minimum(start, most)
    solved = minimize(
        lambda u: float((weight / u**2).sum()) / float((weight / start**2).sum()),
        start,
        jac=lambda u: -2 * weight / u**3 / float((weight / start**2).sum()),
        constraints=[LinearConstraint(moves, -np.inf, bounds)],
        bounds=Bounds(start * 1e-6, most),
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    u = np.maximum(solved.x, start * 1e-6)
    u /= max(1.0, float((moves @ u / bounds).max()) * (1 + 1e-15))
    scales = np.zeros(len(rows))
    scales[varies] = 1 / u
    return Strategy(rows, scales, reader)


def residual_stay(upper: Strategy, lower: Strategy) -> Matrix:
    """Return, for each coordinate, how often the residual is 0; else it is Laplace at the lower scale.

    Law:        (s_hi/s_lo)² in each coordinate; 1 where neither has noise.
    Raises:     NoResidualError: a coordinate that is noisier above, or strategies with different rows.
    Example:
        >>> residual_stay(prefix_strategy(3, 2.0), prefix_strategy(3, 1.0)).tolist()
        [0.25, 0.25, 1.0]
    """
    if upper.rows.shape != lower.rows.shape or not np.array_equal(upper.rows, lower.rows):
        raise NoResidualError("the strategy above", "the one below", "their rows differ")
    if (lower.scales < upper.scales).any():
        at = int(np.flatnonzero(lower.scales < upper.scales)[0])
        raise NoResidualError("the strategy above", "the one below", f"coordinate {at} has more noise above")
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Matrix = np.where(lower.scales == 0, 1.0, (upper.scales / lower.scales) ** 2)
    return found
