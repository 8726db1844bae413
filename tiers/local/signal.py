"""The signal of a report: the exact probability that it kept the truth, and the exact coins between two signals."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from tiers.budget import decimal_text, parse_epsilon
from tiers.errors import InvalidParameterError, NoResidualError
from tiers.real import Real, compare, exact, to_float

__all__ = ["Signal", "keep"]


@dataclass(frozen=True, slots=True)
class Signal:
    """The probability s that a report kept the truth, by its odds: s/(1−s) = weight·(e^ε − 1) + offset.

    A tier that pays ε at coverage κ has odds κ(e^ε − 1): weight κ, offset 0. A rational s has weight 0.

    Law:        s = o/(1+o) for the odds o; an exact real, placed by balls wherever a coin needs its digits.
    Args:       weight, offset: rationals of at least 0, not both 0. epsilon: an exact ε, 0 where weight is 0.
    Raises:     InvalidParameterError: anything else.
    Example:
        >>> round(Signal.paying(Fraction(1), coverage=Fraction(1, 2)).value(), 6)  # tanh(1/2)
        0.462117
    """

    weight: Fraction
    epsilon: Fraction
    offset: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for name in ("weight", "offset"):
            value = getattr(self, name)
            if not isinstance(value, Fraction) or value < 0:
                raise InvalidParameterError(name, "a Fraction of at least 0", value)
        if not isinstance(self.epsilon, Fraction):
            raise InvalidParameterError("epsilon", "a Fraction", self.epsilon)
        if self.weight:
            parse_epsilon(self.epsilon)
        elif self.epsilon != 0 or not self.offset:
            raise InvalidParameterError("signal", "positive odds, and ε = 0 where weight is 0", self.offset)

    @classmethod
    def paying(cls, epsilon: Fraction, *, coverage: Fraction) -> "Signal":
        """Return the signal of a mechanism of this coverage that spends exactly ε; raises as the constructor does."""
        if not isinstance(coverage, Fraction) or not 0 < coverage < 1:
            raise InvalidParameterError("coverage", "a Fraction with 0 < κ < 1", coverage)
        return cls(coverage, epsilon)

    @classmethod
    def rational(cls, value: Fraction) -> "Signal":
        """Return the signal that is exactly this rational, 0 < s < 1."""
        if not isinstance(value, Fraction) or not 0 < value < 1:
            raise InvalidParameterError("signal", "a Fraction with 0 < s < 1", value)
        return cls(Fraction(0), Fraction(0), value / (1 - value))

    def odds(self) -> arb:
        """Return s/(1−s) at the working precision."""
        return exact(self.offset) + exact(self.weight) * exact(self.epsilon).expm1()

    def ball(self) -> arb:
        """Return s at the working precision."""
        if self.is_rational:
            return exact(self.fraction())
        odds = self.odds()
        return odds / (1 + odds)

    def value(self) -> float:
        """Return s as the nearest double: for estimates and display."""
        return _value(self)

    def rest(self) -> float:
        """Return 1 − s as the nearest double, which s itself has lost where it is near 1."""
        return _rest(self)

    def odds_value(self) -> float:
        """Return s/(1−s) as the nearest double."""
        return to_float(self.odds)

    @property
    def is_rational(self) -> bool:
        """Return whether s is a rational number."""
        return not self.weight

    def fraction(self) -> Fraction:
        """Return s exactly where it is rational.

        Raises:     InvalidParameterError: the signal rests on e^ε.
        """
        if self.weight:
            raise InvalidParameterError("signal", "a rational one", f"one that rests on e^{decimal_text(self.epsilon)}")
        return self.offset / (1 + self.offset)

    def reaches(self, lower: "Signal") -> bool:
        """Return whether s is at least the other's: decided by balls, never by floats."""
        if self == lower:
            return True
        if self.weight == lower.weight == 0:
            return self.offset >= lower.offset
        return compare(lambda: self.odds() - lower.odds(), 0) >= 0

    def epsilon_at(self, coverage: Fraction) -> float:
        """Return the ε = log(1 + o/κ) that this signal spends at a coverage: to display.

        Example:
            >>> Signal.paying(Fraction(1), coverage=Fraction(1, 4)).epsilon_at(Fraction(1, 4))
            1.0
        """

        def spent() -> arb:
            return (self.odds() / exact(coverage)).log1p()

        return to_float(spent)

    def within(self, epsilon: Fraction, coverage: Fraction) -> bool:
        """Return whether the signal spends at most ε at this coverage: o ≤ κ(e^ε − 1), decided by balls.

        Example:
            >>> half = Signal.paying(Fraction(1), coverage=Fraction(1, 2))
            >>> half.within(Fraction(1), Fraction(1, 2)), half.within(Fraction(1), Fraction(1, 3))
            (True, False)
        """
        return Signal.paying(epsilon, coverage=coverage).reaches(self)

    def parameters(self) -> dict[str, str]:
        """Return the canonical texts that identify the signal."""
        return {
            "epsilon": decimal_text(self.epsilon),
            "offset": decimal_text(self.offset),
            "weight": decimal_text(self.weight),
        }


def keep(upper: Signal, lower: Signal) -> Real:
    """Return s′/s, the probability with which the tier below keeps the report above it.

    Law:        keeping composes by multiplication, so s′/s is the one keep probability that leaves signal s′; it is
                (d + c)c′/((d + c′)c) for Subset, the paper's β solved as its own lemma has it.
    Raises:     NoResidualError: the signal below is the larger one.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), lemma 5.2; its printed β is β/(1−β).
    Example:
        >>> upper, lower = (Signal.rational(Fraction(s)) for s in ("1/2", "1/3"))
        >>> round(to_float(keep(upper, lower)), 6)
        0.666667
    """
    if not upper.reaches(lower):
        witness = f"the signal below ({lower.value():.6g}) is larger than the one above ({upper.value():.6g})"
        raise NoResidualError(repr(upper), repr(lower), witness)
    if upper == lower:
        return lambda: arb(1)
    if upper.is_rational and lower.is_rational:  # a quotient of balls could never place a dyadic one
        return lambda: exact(lower.fraction() / upper.fraction())
    return lambda: lower.ball() / upper.ball()


@lru_cache(maxsize=1024)
def _value(signal: Signal) -> float:
    return to_float(signal.ball)


@lru_cache(maxsize=1024)
def _rest(signal: Signal) -> float:
    return to_float(lambda: 1 / (1 + signal.odds()))
