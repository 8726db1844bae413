"""Late tiers of a two-sided geometric chain: a tier between two known ones, or above the highest, given both ends.

The noise on the way to the new tier, given the whole gap, has P(j) ∝ u(j)·v(gap − j): u leads from the upper end to the
new tier (a residual; for a late top the new tier's own noise, the upper end being the truth), v from there to the lower
end. Both are an atom at 0 and a two-sided geometric part, so the law has two atoms and three geometric pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from flint import arb

from tiers.errors import InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.real import Real, exact, to_float
from tiers.sampling.inversion import InversionSampler
from tiers.sampling.words import Words

__all__ = ["BRIDGE", "Bridge"]

BRIDGE = "tsg-bridge/1"


@dataclass(frozen=True, slots=True)
class Bridge:
    """The law of the first step, given the sum of both: middle tiers by `between`, late tops by `above`.

    Law:        pmf(j; gap) = u(j)·v(gap − j) / Σ_i u(i)·v(gap − i), closed form; Σ_j pmf(j; gap) = 1.
    Guarantee:  the joint law of all tiers is the same as if they had been drawn top-down at once.
    Args:       stay: the atom of u at 0 (None for a late top). first: u's two-sided part. second: v.
    Reference:  Wang et al. 2026 (arXiv 2606.15543) has the residuals; the bridge is Bayes' rule on two of them.
    Example:
        >>> bridge = Bridge.between(*(TwoSidedGeometric(Fraction(rate)) for rate in ("2", "1", "0.5")))
        >>> round(bridge.pmf(0, gap=1), 12)
        0.455463969767
    """

    first: TwoSidedGeometric
    second: ZeroInflated
    upper: TwoSidedGeometric | None

    @classmethod
    def between(cls, upper: TwoSidedGeometric, middle: TwoSidedGeometric, lower: TwoSidedGeometric) -> "Bridge":
        """Return the law of upper → middle, given upper → lower.

        Raises:     NoResidualError: the rates do not fall strictly.
        Example:
            >>> tiers = [TwoSidedGeometric(Fraction(rate)) for rate in ("2", "1", "0.4")]
            >>> round(Bridge.between(*tiers).pmf(-2, gap=3), 12)
            0.019786819852
        """
        upper.residual_to(middle)
        return cls(middle, middle.residual_to(lower), upper)

    @classmethod
    def above(cls, top: TwoSidedGeometric, known: TwoSidedGeometric) -> "Bridge":
        """Return the law of a late top's noise, given the noise of the known top.

        Raises:     NoResidualError: `top` is not the more accurate law.
        Example:
            >>> late = Bridge.above(TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1)))
            >>> round(late.pmf(0, gap=0), 12)
            0.93588279344
        """
        return cls(top, top.residual_to(known), None)

    def pmf(self, j: int, gap: int) -> float:
        """Return P(first step = j | both = gap)."""
        before, here = self.cdf(j - 1, gap), self.cdf(j, gap)
        return to_float(lambda: here() - before())

    def cdf(self, k: int, gap: int) -> Real:
        """Return P(first step ≤ k | both = gap) as a ball-valued function."""
        if gap < 0:
            mirrored = self.cdf(-k - 1, -gap)
            return lambda: 1 - mirrored()
        return lambda: self._sum(k, gap) / self._sum(None, gap)

    def draw(self, words: Words, gaps: Sequence[int]) -> tuple[int, ...]:
        """Return one draw a gap; element j depends on its gap and its own words only."""
        return tuple(_sampler(self, gap).draw_one(words, element) for element, gap in enumerate(gaps))

    def _sum(self, k: int | None, gap: int) -> arb:
        """Return Σ_{j ≤ k} u(j)·v(gap − j) for gap ≥ 0; over all j for k = None."""
        stay = ZeroInflated(self.upper, self.first).stay() if self.upper else arb(0)
        hold = self.second.stay()
        first, second = exact(self.first.rate), exact(self.second.lower.rate)
        tanh_first, tanh_second = (first / 2).tanh(), (second / 2).tanh()
        total = (1 - stay) * (1 - hold) * tanh_first * tanh_second * _pieces(first, second, k, gap)
        if k is None or k >= 0:
            total += stay * (1 - hold) * tanh_second * (-second * gap).exp()
            total += stay * hold if gap == 0 else 0
        if k is None or k >= gap:
            total += (1 - stay) * hold * tanh_first * (-first * gap).exp()
        return total


def _pieces(first: arb, second: arb, k: int | None, gap: int) -> arb:
    """Return Σ_{j ≤ k} e^(−first·|j| − second·|gap − j|), gap ≥ 0: below 0, from 0 to the gap, beyond it."""
    both, less = first + second, first - second
    start = (-second * gap).exp()
    if k is not None and k < 0:
        return start * (both * k).exp() / (1 - (-both).exp())
    total = start * (-both).exp() / (1 - (-both).exp())
    last = gap if k is None else min(k, gap)
    total += start * (1 - (-less * (last + 1)).exp()) / (1 - (-less).exp())
    if k is None or k > gap:
        rest = arb(1) if k is None else 1 - (-both * (k - gap)).exp()
        total += (-first * gap - both).exp() * rest / (1 - (-both).exp())
    return total


@lru_cache(maxsize=4096)
def _sampler(bridge: Bridge, gap: int) -> InversionSampler:
    if isinstance(gap, bool) or not isinstance(gap, int):
        raise InvalidParameterError("gap", "an integer", gap)
    return InversionSampler(lambda k: bridge.cdf(k, gap))
