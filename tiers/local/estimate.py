"""Counts from reports: unbiased estimates, their exact variance, and intervals that hold for every number of people."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from tiers.errors import InvalidParameterError
from tiers.local.rates import Rates
from tiers.noise.calibrate import check_confidence

__all__ = ["estimate", "half_width", "interval", "mixed_estimate", "variance", "variance_bound"]

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def estimate(rates: Rates, covered: Counts, reports: int) -> Floats:
    """Return the unbiased count of each value: (covered − n·f)/(t − f).

    Law:        E = the true count; it may be negative, and is issued as it is.
    Args:       covered: how many reports cover each value, each within 0 … n. reports: n, at least 1.
    Raises:     InvalidParameterError: an empty panel, or more covers than reports.
    Example:
        >>> estimate(Rates(0.75, 0.25, 0.5), np.array([50, 25]), 100).tolist()
        [50.0, 0.0]
    """
    _check(covered, reports)
    found: Floats = (np.asarray(covered, np.float64) - reports * rates.false) / rates.gap
    return found


def mixed_estimate(paths: Sequence[tuple[Rates, Counts, int]]) -> Floats:
    """Return Σ over paths of each path's own estimate: what a mixed plan sells.

    Law:        unbiased for every assignment of people to paths; the paths' variances add up.
    Raises:     InvalidParameterError: no path, or as `estimate`; paths without people are left out by the caller.
    Example:
        >>> one = (Rates(0.75, 0.25, 0.5), np.array([50, 25]), 100)
        >>> mixed_estimate([one, one]).tolist()
        [100.0, 0.0]
    """
    if not paths:
        raise InvalidParameterError("paths", "at least one", "none")
    found: Floats = np.sum([estimate(*path) for path in paths], axis=0)
    return found


def variance(rates: Rates, true_count: int, reports: int) -> float:
    """Return the exact variance of one value's estimate, given how many people have it.

    Law:        (n_v·t(1−t) + (n − n_v)·f(1−f))/(t−f)². It depends on the data: publish `variance_bound`.
    Raises:     InvalidParameterError: a count outside 0 … n.
    Example:
        >>> variance(Rates(0.75, 0.25, 0.5), 10, 100)
        75.0
    """
    _check(np.array([true_count]), reports)
    return (true_count * rates.kept_spread + (reports - true_count) * rates.false_spread) / rates.gap**2


def variance_bound(rates: Rates, reports: int) -> float:
    """Return the largest variance that any data give: n·max(t(1−t), f(1−f))/(t−f)²."""
    return max(variance(rates, 0, reports), variance(rates, reports, reports))


def interval(rates: Rates, covered: int, reports: int, confidence: Fraction) -> tuple[int, int]:
    """Return integers lo ≤ hi that hold the true count with at least this confidence, whatever the data.

    The number of covers is a sum of independent coins of two kinds; its tails are no heavier than those of a binomial
    with the same mean (Hoeffding 1956), so the exact binomial interval of the mean holds, and the count follows.

    Args:       covered: how many reports cover the value. confidence: above 1/2, below 1.
    Raises:     InvalidParameterError: a count outside 0 … n, or a confidence outside (1/2, 1).
    Reference:  Clopper and Pearson 1934; Hoeffding 1956, theorem 5.
    Example:
        >>> interval(Rates(0.75, 0.25, 0.5), 50, 100, Fraction(95, 100))
        (30, 70)
    """
    _check(np.array([covered]), reports)
    if check_confidence(confidence) <= Fraction(1, 2):
        raise InvalidParameterError("confidence", "above 1/2", confidence)
    miss = float(1 - confidence) / 2
    low = 0.0 if covered == 0 else float(beta.ppf(miss, covered, reports - covered + 1))
    high = 1.0 if covered == reports else float(beta.isf(miss, covered + 1, reports - covered))
    ends = [reports * (end - rates.false) / rates.gap for end in (low, high)]
    room = 1e-9 * reports
    return (
        min(reports, max(0, math.ceil(ends[0] - room))),
        max(0, min(reports, math.floor(ends[1] + room))),
    )


def half_width(paths: Sequence[tuple[Rates, int]], confidence: Fraction) -> float:
    """Return the half-width that covers a count's error with at least this confidence: known before any report.

    Law:        √(ln(2/(1−confidence))/2 · Σ_path n/(t−f)²), for each report moves the estimate within 1/(t−f).
    Reference:  Hoeffding 1963, theorem 2.
    Example:
        >>> round(half_width([(Rates(0.75, 0.25, 0.5), 100)], Fraction(95, 100)), 3)
        27.162
    """
    spread = math.fsum(reports / rates.gap**2 for rates, reports in paths)
    return math.sqrt(math.log(2 / float(1 - check_confidence(confidence))) / 2 * spread)


def _check(covered: npt.NDArray[np.integer], reports: int) -> None:
    if isinstance(reports, bool) or not isinstance(reports, int) or reports < 1:
        raise InvalidParameterError("reports", "at least 1 of them: an empty panel has no estimate", reports)
    if covered.size == 0 or int(covered.min()) < 0 or int(covered.max()) > reports:
        raise InvalidParameterError("covers", f"counts from 0 to {reports}", "one outside, or none")
