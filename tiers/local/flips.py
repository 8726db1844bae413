"""Binary flips: a report is a row of bits, each turned over on its own with the same probability."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tiers.errors import NoResidualError
from tiers.local.rates import Rates
from tiers.local.signal import Signal, keep
from tiers.real import Real

__all__ = ["Flips", "insertion_flip", "reflip"]

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Flips:
    """Every bit is turned over with probability (1−s)/2 = 1/(e^ε + 1), where s = tanh(ε/2).

    Law:        P(bit kept) = (1+s)/2 = e^ε/(e^ε + 1).
    Guarantee:  ε a bit: values whose true bits differ in t places are told apart by tε at most, attained.
    Args:       epsilon: of one bit, an exact rational.
    Raises:     InvalidParameterError: ε out of range.
    Reference:  Warner 1965; for ordered data, Xiang et al. 2019 (arXiv 1909.11778).
    Example:
        >>> round(Flips(Fraction(1)).rates().false, 6)
        0.268941
    """

    epsilon: Fraction
    family: ClassVar[str] = "flips"

    def __post_init__(self) -> None:
        Signal.paying(self.epsilon, coverage=_HALF)

    @property
    def signal(self) -> Signal:
        """Return s = tanh(ε/2), the signal of a coin: coverage 1/2."""
        return Signal.paying(self.epsilon, coverage=_HALF)

    @property
    def flip(self) -> Real:
        """Return (1−s)/2 as a ball-valued function."""
        signal = self.signal
        return lambda: (1 - signal.ball()) / 2

    def rates(self) -> Rates:
        """Return how often a bit that is 1, and one that is 0, is reported as 1."""
        s, rest = self.signal.value(), self.signal.rest()
        return Rates((1 + s) / 2, rest / 2, s, rest / 2)

    def parameters(self) -> dict[str, str]:
        """Return the canonical texts that identify the mechanism."""
        return self.signal.parameters()


def reflip(upper: Flips, lower: Flips) -> Real:
    """Return q, with which each bit of the tier above is turned over to give the tier below.

    Law:        q = (1 − s′/s)/2; 1−2q is multiplicative along a chain.
    Raises:     NoResidualError: ε below is not the smaller one.
    Example:
        >>> from tiers.real import to_float
        >>> round(to_float(reflip(Flips(Fraction(2)), Flips(Fraction(1)))), 9)
        0.196611933
    """
    if lower.epsilon >= upper.epsilon:
        raise NoResidualError(repr(upper), repr(lower), f"ε = {lower.epsilon} is not below {upper.epsilon}")
    stay = keep(upper.signal, lower.signal)
    return lambda: (1 - stay()) / 2


def insertion_flip(upper: Flips, middle: Flips, lower: Flips) -> tuple[Real, Real]:
    """Return how often a late middle tier differs from the one above, where its two neighbours agree and where not.

    Law:        P(mid ≠ hi | hi = lo) = q₁q₂/(1−q₁₃); P(mid ≠ hi | hi ≠ lo) = q₁(1−q₂)/q₁₃, q₁₃ = q₁ + q₂ − 2q₁q₂.
    Raises:     NoResidualError: the tiers do not fall.
    Example:
        >>> from tiers.real import to_float
        >>> agree, differ = insertion_flip(*(Flips(Fraction(e)) for e in ("2", "1.2", "0.4")))
        >>> round(1 - to_float(agree), 6), round(1 - to_float(differ), 6)
        (0.925952, 0.727882)
    """
    first, second, both = reflip(upper, middle), reflip(middle, lower), reflip(upper, lower)
    return (
        lambda: first() * second() / (1 - both()),
        lambda: first() * (1 - second()) / both(),
    )
