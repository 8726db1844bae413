"""What is read off raw answers and shown beside them: a threshold's bit, a quantile's bin, a mean with its interval.

Pure functions of published numbers and laws. None is sold alone: the raw vector is, at every tier.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias

__all__ = [
    "MeanReading",
    "NoiseLaw",
    "QuantileReading",
    "ThresholdReading",
    "joint_half_width",
    "mean_bar",
    "read_mean",
    "read_quantile",
    "read_threshold",
]


class NoiseLaw(Protocol):
    """What readings ask of a tier's law: symmetric integer noise, the same and independent on every entry."""

    def variance(self) -> float:
        """Return the variance, in squared steps."""

    def half_width(self, confidence: Fraction) -> int:
        """Return an h with P(|noise| ≤ h) ≥ confidence."""

    def cdf(self, k: int) -> float:
        """Return P(noise ≤ k)."""


@dataclass(frozen=True, slots=True)
class ThresholdReading:
    """Whether the raw count reaches the threshold, and a confidence in [0, 1] that the true count does the same."""

    reached: bool
    confidence: float


def read_threshold(raw: int, at: int, law: NoiseLaw) -> ThresholdReading:
    """Return the bit [raw ≥ at] with the level at which the tier's law rejects every count on the other side.

    If the bit is "reached", the likeliest wrong truth is at − 1, and P(raw or more | at − 1) = P(noise > raw − at); if
    not, it is at, and P(raw or less | at) = P(noise ≤ raw − at). The confidence is 1 less that. It is no probability
    that the bit is right (that would need a prior), and may be below ½ next to the threshold.

    Guarantee:  whatever the true count, P(the bit is wrong and confidence ≥ c) ≤ 1 − c, up to the law's own doubles.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> reading = read_threshold(105, 100, TwoSidedGeometric(Fraction(1)))
        >>> reading.reached, round(reading.confidence, 4)
        (True, 0.9982)
    """
    below_or_at = law.cdf(raw - at)
    return ThresholdReading(True, below_or_at) if raw >= at else ThresholdReading(False, 1 - below_or_at)


@dataclass(frozen=True, slots=True)
class QuantileReading:
    """The place of the quantile's bin, and the first and last place that the tier's law does not reject."""

    place: int
    first: int
    last: int


def read_quantile(raw: Sequence[int], fraction: Fraction, law: NoiseLaw, confidence: Fraction) -> QuantileReading:
    """Return which bin of a raw histogram holds the φ-quantile, with an interval of bins.

    The true quantile is the first bin j with D_j ≥ 0, D_j = (1 − φ)·Σ_{i ≤ j} n_i − φ·Σ_{i > j} n_i, which never falls
    as j grows. Read off noisy counts, the bin is where the running sum of D_0, D_1, ... is least (the noisy pinball
    loss; without noise, the quantile itself): negative counts need no repair. A bin j is kept in the interval unless
    the tier's noise at D_{j−1}, which should be below 0, or at D_j, which should not, exceeds a bound t that it passes
    with probability at most (1 − confidence)/2 each. Of two such bounds the lesser, whatever the data: Cantelli's
    σ·√(2/(1−c) − 1) from the exact variance of D_j's noise, and Σ|weights|·h from the half-width h that all m entries
    keep to at once. The interval runs from the first bin kept to the last, and to `place`; it is all bins, if none is.

    Guarantee:  P(first ≤ true place ≤ last) ≥ confidence, for every true histogram with a count above 0 in it.
    Args:       raw: in canonical order of bins. fraction: φ, 0 < φ < 1.
    Raises:     ValueError: no bins, or φ or the confidence outside (0, 1).
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> read_quantile([5, 900, 40, 60], Fraction(1, 2), TwoSidedGeometric(Fraction(1)), Fraction(95, 100))
        QuantileReading(place=1, first=1, last=1)
    """
    if not raw or not 0 < fraction < 1 or not 0 < confidence < 1:
        raise ValueError("quantile: expected bins, 0 < φ < 1 and 0 < confidence < 1, got another")
    part, whole = fraction.numerator, fraction.denominator
    total, below, loss = sum(raw), 0, 0
    ahead: list[int] = []  # whole·D_j, an integer
    losses = []
    for count in raw:
        below += count
        losses.append(loss)
        ahead.append(whole * below - part * total)
        loss += ahead[-1]
    bounds = _bounds(len(raw), fraction, law, confidence)
    last = len(raw) - 1
    kept = [
        place
        for place in range(len(raw))
        if (place == 0 or ahead[place - 1] + 1 <= bounds[place - 1])
        and (place == last or ahead[place] >= -bounds[place])
    ]
    place = losses.index(min(losses))
    kept = [*kept, place] if kept else [0, last]
    return QuantileReading(place, min(kept), max(kept))


def _bounds(length: int, fraction: Fraction, law: NoiseLaw, confidence: Fraction) -> list[int]:
    """For each j, a t that whole·(noise of D_j) passes to one side with probability at most (1 − confidence)/2."""
    part, whole = fraction.numerator, fraction.denominator
    variance = Fraction(law.variance()) * (1 + Fraction(1, 10**9))  # the law's own is a double
    each = law.half_width(1 - (1 - confidence) / length)
    odds = 2 / (1 - confidence) - 1
    bounds = []
    for place in range(length):
        upto, after = place + 1, length - place - 1
        square = variance * odds * (upto * (whole - part) ** 2 + after * part**2)
        cantelli = math.isqrt(math.ceil(square)) + 1
        bounds.append(min(cantelli, each * (upto * (whole - part) + after * part)))
    return bounds


Shape: TypeAlias = Literal["bounded", "bounded if any row", "unbounded"]


@dataclass(frozen=True, slots=True)
class MeanReading:
    """A mean in units of the column, exact, and its interval.

    `shape` says what the interval is: "bounded"; "bounded if any row", where the tier cannot tell the count from 0, so
    that a mean may not exist and all rests on there being one row; or "unbounded", with `lower` and `upper` None, where
    even a count of 1 is rejected.
    """

    estimate: Fraction
    lower: Fraction | None
    upper: Fraction | None
    shape: Shape


def read_mean(
    total: int, count: int, laws: tuple[NoiseLaw, NoiseLaw], *, centre: Fraction, grain: Fraction, confidence: Fraction
) -> MeanReading:
    """Return centre + γ·S/N from a raw centred sum s and a raw count n, with a Fieller-type interval.

    A quotient θ is kept unless the two laws reject it: |s − θn| ≤ h_S + |θ|·h_N, where h_S and h_N are the half-widths
    of the two laws at 1 − (1 − confidence)/2. As in Fieller's theorem the test is on s − θn, whose noise is known, and
    not on the quotient, whose law has no mean; exact half-widths stand for the normal quantile, and add up where his
    variances do. The θ kept are the quotients of the box [s − h_S, s + h_S] × [n − h_N, n + h_N], and Fieller's set
    opens to infinity, or becomes the outside of an interval, where n ≤ h_N. Here it does not: N is a count, and there
    is no mean unless N ≥ 1, so that only quotients with N ≥ 1 are kept. The shape says where that was needed.

    Guarantee:  P(lower ≤ centre + γ·S/N ≤ upper) ≥ confidence for all integers S and N ≥ 1, if the noises are
                independent of the truth (not even of one another); with an unbounded interval counted as a cover.
    Returns:    exact fractions: nothing is rounded.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> laws = TwoSidedGeometric(Fraction(1, 10)), TwoSidedGeometric(Fraction(1))
        >>> shown = read_mean(300, 100, laws, centre=Fraction(7), grain=Fraction(1, 2), confidence=Fraction(95, 100))
        >>> float(shown.estimate), round(float(shown.lower), 3), round(float(shown.upper), 3), shown.shape
        (8.5, 8.264, 8.755, 'bounded')
    """
    around, within = (joint_half_width(law, confidence) for law in laws)
    estimate = centre + grain * Fraction(total, max(count, 1))
    if count + within < 1:
        return MeanReading(estimate, None, None, "unbounded")
    fewest, most = max(count - within, 1), count + within
    low, high = total - around, total + around
    lower = Fraction(low, fewest if low < 0 else most)
    upper = Fraction(high, most if high < 0 else fewest)
    shape: Shape = "bounded" if count - within >= 1 else "bounded if any row"
    return MeanReading(estimate, centre + grain * lower, centre + grain * upper, shape)


def joint_half_width(law: NoiseLaw, confidence: Fraction) -> int:
    """Return the half-width that one of a mean's two laws keeps to, so that both do together with `confidence`.

    Each misses its own with probability at most (1 − confidence)/2; by the union bound both hold at once otherwise.

    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> joint_half_width(TwoSidedGeometric(Fraction(1)), Fraction(95, 100))
        4
    """
    return law.half_width(1 - (1 - confidence) / 2)


def mean_bar(
    widths: tuple[Fraction | int, int], *, reach: Fraction | int, rows: int, grain: Fraction = Fraction(1)
) -> Fraction | None:
    """Return a bar of a mean's estimate that holds for every table with at least `rows` rows; None if there is none.

    γ·(h_S + R·h_N)/(rows − h_N) for h_N < rows. No unit's total passes R steps and each has a row: |S| ≤ R·N. On the
    event that both noises keep to their half-widths, s/n − S/N = (e_S − (S/N)·e_N)/n with n ≥ N − h_N. No smaller bar
    would do: it is reached at S = R·N, e_S = h_S, e_N = −h_N. It is known before anything is sold, as no released
    number is in it; the interval that is read off the answers (`read_mean`) needs no such R, and is the one shown then.

    Guarantee:  P(|estimate − mean| ≤ bar) ≥ confidence for every N ≥ rows and |S| ≤ R·N, if `widths` are the
                `joint_half_width`s of sum and count at that confidence.
    Args:       widths: h_S in steps, h_N in rows. reach: R, in steps. grain: γ, the step in units of the column, or 1
                where h_S and R are in those units already.
    Returns:    an exact fraction, in units of the column: of the estimate before it is rounded to be shown.
    Example:
        >>> mean_bar((40, 4), reach=10, rows=104, grain=Fraction(1, 2))
        Fraction(2, 5)
    """
    around, within = widths
    return None if rows <= within else grain * Fraction(around + reach * within, rows - within)
