"""The two-sided geometric law: Laplace noise as it is released, on an integer lattice."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from flint import arb

from tiers.budget import decimal_text
from tiers.errors import InvalidParameterError, NoResidualError
from tiers.noise.calibrate import (
    check_confidence,
    check_delta,
    check_half_width,
    check_loss,
    greatest,
    least,
    log_excess,
)
from tiers.noise.composition import delta_over, epsilon_over
from tiers.noise.geometric_losses import geometric_losses, rate_guess
from tiers.noise.hockey import float_above
from tiers.noise.losses import Losses
from tiers.noise.renyi import check_order, concentrated
from tiers.noise.table import LatticeTable
from tiers.noise.tails import BallTails, Tails
from tiers.real import Real, compare, exact, floor_scaled, precision, to_float
from tiers.sensitivity import ChangeSet

__all__ = ["TwoSidedGeometric", "ZeroInflated"]

_RATE_LEAST = Fraction(1, 10**30)
_RATE_LIMIT = Fraction(10**4)


@dataclass(frozen=True, slots=True)
class TwoSidedGeometric:
    """Integer noise X with P(X = k) = (1−p)/(1+p)·p^|k|, p = e^(−rate), rate = ε/Δ₁ an exact rational.

    Law:        pmf(k) = tanh(rate/2)·e^(−rate·|k|); cf(t) = (1−p)²/(1−2p·cos t+p²); variance = 2p/(1−p)².
    Guarantee:  added to every entry of an integer vector it is ε-DP for ε = rate·Δ₁, whatever entries one unit
                touches, since |log P(x)/P(x−d)| ≤ rate·|d| with equality far out; exact on the lattice.
    Args:       rate: ε/Δ₁, from 10⁻³⁰ to 10⁴.
    Raises:     InvalidParameterError: `rate` is not such a rational.
    Reference:  Ghosh, Roughgarden, Sundararajan 2012; Wang et al. 2026 (arXiv 2606.15543), section 4.
    Example:
        >>> round(TwoSidedGeometric(Fraction(1)).pmf(0), 5)
        0.46212
    """

    rate: Fraction
    family: ClassVar[str] = "tsg"

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Fraction) or not _RATE_LEAST <= self.rate <= _RATE_LIMIT:
            raise InvalidParameterError("rate", f"a Fraction with 10⁻³⁰ ≤ ε/Δ₁ ≤ {_RATE_LIMIT}", self.rate)

    @classmethod
    def at(cls, epsilon: Fraction, change_set: ChangeSet, delta: Fraction = Fraction(0)) -> "TwoSidedGeometric":
        """Return the law that is ε-DP for every change in the set, at rate ε/Δ₁ exactly; with δ > 0 a less noisy one.

        Law:        with δ, the greatest rate of 12 digits with δ(ε) ≤ δ, checked, and never below ε/Δ₁; ε/Δ₁ itself
                    where there are too many change vectors to maximise over.
        Example:
            >>> TwoSidedGeometric.at(Fraction(1), ChangeSet.scalar(1), Fraction(1, 100)).rate
            Fraction(20274447601, 20000000000)
        """
        pure = cls(epsilon / change_set.total)
        if delta == 0:
            return pure
        wanted = check_delta(delta)

        def left(rate: Fraction) -> float:
            return -log_excess(cls(rate).delta(epsilon, change_set), wanted)

        try:
            rate = greatest(left, rate_guess(epsilon, wanted, change_set), pure.rate, _RATE_LIMIT)
        except InvalidParameterError:
            return pure
        return max(pure, cls(rate), key=lambda law: law.rate)

    @classmethod
    def for_half_width(cls, half_width: int, confidence: Fraction) -> "TwoSidedGeometric":
        """Return the most noise whose error bar at `confidence` is at most `half_width` steps; the rate is rounded up.

        Raises:     InvalidParameterError: a bar that is not an integer of at least 0, or a confidence outside (0, 1).
        Example:
            >>> TwoSidedGeometric.for_half_width(3, Fraction(95, 100)).half_width(Fraction(95, 100))
            3
        """
        check_half_width(half_width)
        miss = 1 - check_confidence(confidence)

        def wide(rate: Fraction) -> bool:
            return compare(cls(rate)._outside(half_width), miss) > 0

        guess = (math.log(miss.denominator) - math.log(miss.numerator)) / (half_width + 1)
        return cls(least(wide, Fraction(guess), _RATE_LEAST, _RATE_LIMIT))

    def parameters(self) -> dict[str, str]:
        """Return the rational parameters, as canonical texts: with the family, they identify the law."""
        return {"rate": decimal_text(self.rate)}

    def epsilon(self, change_set: ChangeSet) -> Fraction:
        """Return the exact pure ε: the maximum of Σ rate·|d_j| over the change set, which is rate·Δ₁."""
        return self.rate * change_set.total

    def delta(self, epsilon: Fraction, change_set: ChangeSet) -> float:
        """Return the exact δ(ε) over the whole change set, rounded up; 0.0 from the pure ε on.

        Example:
            >>> law = TwoSidedGeometric(Fraction(1))
            >>> law.delta(Fraction(1), ChangeSet.scalar(1)), round(law.delta(Fraction(0), ChangeSet.scalar(1)), 9)
            (0.0, 0.462117157)
        """
        return 0.0 if check_loss(epsilon) >= self.epsilon(change_set) else delta_over(self, epsilon, change_set)

    def epsilon_at(self, delta: Fraction, change_set: ChangeSet) -> float:
        """Return the least ε at which the law is (ε, δ)-DP over the whole change set, rounded up; pure ε at δ = 0."""
        pure = float_above(self.epsilon(change_set))
        return pure if delta == 0 else min(pure, epsilon_over(self, delta, change_set))

    def rdp(self, alpha: Fraction | int, change_set: ChangeSet) -> float:
        """Return the Rényi divergence of order α, maximised over the change set, rounded up.

        Law:        Σ_x P(x)^α·P(x−d)^(1−α) in closed form, in three geometric pieces: below 0, within (0, d), above d.
        Example:
            >>> round(TwoSidedGeometric(Fraction(1)).rdp(2, ChangeSet.scalar(1)), 9)
            0.735325664
        """
        order = check_order(alpha)
        with precision(256 + 8 * math.ceil(order * self.epsilon(change_set))):
            parts = (count * self._renyi(order, shift) for shift, count in concentrated(change_set))
            total = sum(parts, arb(0))
            return math.nextafter(float(total.mid()), math.inf)

    def rho(self, change_set: ChangeSet) -> Fraction:
        """Return ρ = Σ (rate·|d_j|)²/2 of the most concentrated change: each entry is (rate·|d_j|)-DP, and ρ adds up.

        Example:
            >>> TwoSidedGeometric(Fraction(1, 10)).rho(ChangeSet(bins=100, step=1, total=100))
            Fraction(1, 2)
        """
        return self.rate**2 * sum(count * shift * shift for shift, count in concentrated(change_set)) / 2

    def decay(self) -> arb:
        """Return p = e^(−rate) at the working precision."""
        return (-exact(self.rate)).exp()

    def pmf(self, k: int) -> float:
        """Return P(X = k) in [0, 1]; 0.0 where it underflows (use `log_pmf` there)."""
        return math.exp(self.log_pmf(k))

    def log_pmf(self, k: int) -> float:
        """Return log P(X = k), finite for every integer k."""
        rate = float(self.rate)
        return math.log(math.tanh(rate / 2)) - float(self.rate * abs(k))

    def cdf(self, k: int) -> float:
        """Return P(X ≤ k)."""
        return to_float(lambda: self._cdf(k))

    def cf(self, t: float) -> complex:
        """Return E e^(itX), real because the law is symmetric."""
        left, decay = math.expm1(-float(self.rate)) ** 2, math.exp(-float(self.rate))
        return left / (left + 4 * decay * math.sin(t / 2) ** 2) + 0j  # without cancellation near 1, at any rate

    def cf_ball(self, turn: Fraction) -> arb:
        """Return E e^(2πi·turn·X) at the working precision."""
        p = self.decay()
        return (1 - p) ** 2 / ((1 - p) ** 2 + 4 * p * exact(turn).sin_pi() ** 2)

    def variance(self) -> float:
        """Return Var X = 2p/(1−p)² = 1/(2·sinh²(rate/2)), in squared steps."""
        return 2 * math.exp(-float(self.rate)) / math.expm1(-float(self.rate)) ** 2

    def variance_ball(self) -> arb:
        """Return Var X at the working precision."""
        return 1 / (2 * (exact(self.rate) / 2).sinh() ** 2)

    def half_width(self, confidence: Fraction) -> int:
        """Return the least integer h with P(|X| ≤ h) ≥ confidence: it covers at least the nominal share.

        Raises:     InvalidParameterError: confidence outside (0, 1).
        Example:
            >>> TwoSidedGeometric(Fraction(1)).half_width(Fraction(95, 100))
            3
        """
        check_confidence(confidence)
        miss = 1 - confidence

        def needed() -> arb:
            return -(exact(miss) * (1 + self.decay()) / 2).log() / exact(self.rate)

        return max(0, floor_scaled(needed, 0))

    def residual_to(self, lower: "TwoSidedGeometric") -> "ZeroInflated":
        """Return the noise s for which `self` + s has exactly the law of `lower`.

        The ratio of the characteristic functions is a constant plus a multiple of the lower law's own.

        Law:        s = 0 with probability w = (1−p′)²p/((1−p)²p′), else s ~ `lower`.
        Guarantee:  the tiers of a chain so built are Markov: any set of them is as private as its best member.
        Raises:     NoResidualError: `lower` is not the noisier law.
        Reference:  Wang et al. 2026 (arXiv 2606.15543), table 1.
        Example:
            >>> upper, lower = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
            >>> round(upper.residual_to(lower).stay_probability(), 6)
            0.196612
        """
        if lower.rate >= self.rate:
            witness = f"the lower rate {lower.rate} is not below {self.rate}, so its variance is not larger"
            raise NoResidualError(repr(self), repr(lower), witness)
        return ZeroInflated(upper=self, lower=lower)

    def log_pmf_ball(self, k: int, bits: int) -> arb:
        """Return log P(X = k) as a ball, at the working precision."""
        return (exact(self.rate) / 2).tanh().log() - exact(self.rate * abs(k))

    def log_tail_ball(self, k: int, bits: int) -> arb:
        """Return log P(X ≥ k), k ≥ 1, as a ball, at the working precision."""
        return -exact(self.rate * k) - self.decay().log1p()

    def losses(self, change: tuple[int, ...]) -> Losses | None:
        """Return the privacy losses of a vector under a change, all entries composed; None where they are too many."""
        return geometric_losses(self.rate, change)

    def tails(self, bits: int) -> Tails:
        """Return masses and tails in units of 2^−bits."""
        reach = math.ceil((bits + 1) * Fraction(7, 10) / self.rate)
        return BallTails(self.log_pmf_ball, self.log_tail_ball, bits, reach)

    def table(self, bits: int) -> LatticeTable:
        """Return the certified table of the law in units of 2^−bits; refused where it would be too wide."""
        return LatticeTable.from_tails(self.tails(bits))

    def _renyi(self, order: Fraction, shift: int) -> arb:
        rate, p, up = self.rate, self.decay(), exact((order - 1) * self.rate * shift)
        outside = (up.exp() + (-up).exp() * p**shift) / (1 - p)
        inner = (-exact((2 * order - 1) * rate)).exp()
        within = up.exp() * (inner - inner**shift) / (1 - inner)
        return ((exact(rate) / 2).tanh() * (outside + within)).log() / exact(order - 1)

    def _cdf(self, k: int) -> arb:
        p = self.decay()
        if k < 0:
            return exact(self.rate * k).exp() / (1 + p)
        return 1 - (-exact(self.rate * (k + 1))).exp() / (1 + p)

    def _outside(self, h: int) -> Real:
        def probability() -> arb:
            return 2 * (-exact(self.rate * (h + 1))).exp() / (1 + self.decay())

        return probability


@dataclass(frozen=True, slots=True)
class ZeroInflated:
    """The residual between two two-sided geometric tiers: 0 with probability w, else a draw of the lower law.

    Law:        pmf(k) = w·[k = 0] + (1−w)·lower.pmf(k), w = (1−p′)²p/((1−p)²p′) = sinh²(rate′/2)/sinh²(rate/2).
    Example:
        >>> upper, lower = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
        >>> round(upper.residual_to(lower).pmf(0), 4)
        0.5679
    """

    upper: TwoSidedGeometric
    lower: TwoSidedGeometric

    @property
    def stay(self) -> Real:
        """Return w as a ball-valued function, 0 < w < 1."""

        def weight() -> arb:
            return ((exact(self.lower.rate) / 2).sinh() / (exact(self.upper.rate) / 2).sinh()) ** 2

        return weight

    def stay_probability(self) -> float:
        """Return w as a double, for display."""
        return to_float(self.stay)

    def pmf(self, k: int) -> float:
        """Return P(s = k)."""
        w, moves = self.stay_probability(), to_float(lambda: 1 - self.stay())
        return (w if k == 0 else 0.0) + moves * self.lower.pmf(k)

    def variance(self) -> float:
        """Return Var s = Var lower − Var upper."""
        with precision(160):
            return float(((1 - self.stay()) / (2 * (exact(self.lower.rate) / 2).sinh() ** 2)).mid())
