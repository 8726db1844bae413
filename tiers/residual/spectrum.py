"""Quotients of characteristic functions on a ring of N points, in balls, and the witnesses they hold.

The inverse transform of φ_lower/φ_upper at N equally spaced frequencies is the candidate residual wrapped modulo N. A
wrapped probability law is a probability law, so a single entry that is certainly negative, or a quotient certainly
larger than 1, proves at any N that no residual exists. This is Bochner's criterion on N points: the matrix of the
quotients is circulant, and its eigenvalues are N times the wrapped entries.
"""

from dataclasses import dataclass
from fractions import Fraction

from flint import acb, arb

from tiers.errors import InvalidParameterError
from tiers.noise.law import NoiseLaw
from tiers.noise.table import LatticeTable
from tiers.real import precision

__all__ = ["AnyLaw", "Ring", "invert", "witness"]

AnyLaw = NoiseLaw | LatticeTable
_BITS_LIMIT = 1 << 13


@dataclass(frozen=True, slots=True)
class Ring:
    """The candidate residual wrapped modulo N: `entries[j]` is a ball of its mass on k ≡ j, `quotients` the cf's."""

    quotients: tuple[acb, ...]
    entries: tuple[arb, ...]

    @property
    def points(self) -> int:
        """Return N."""
        return len(self.entries)

    def accuracy(self) -> float:
        """Return the largest radius of an entry."""
        return max(float(entry.rad()) for entry in self.entries)


def invert(upper: AnyLaw, lower: AnyLaw, points: int, accuracy: float = 2.0**-100) -> Ring:
    """Return the wrapped candidate residual on `points` points, each entry within `accuracy`.

    Law:        entries[j] = (1/N)·Σ_n (φ_lower/φ_upper)(2πn/N)·e^(−2πijn/N).
    Raises:     InvalidParameterError: the upper law's cf cannot be told from 0 at some point, at any precision tried.
    Example:
        >>> from tiers.noise.skellam import Skellam
        >>> ring = invert(Skellam(Fraction(1)), Skellam(Fraction(2)), 32)
        >>> round(float(ring.entries[0].mid()), 12)
        0.308508322554
    """
    bits = 192
    while bits <= _BITS_LIMIT:
        with precision(bits):
            quotients = [below / above for below, above in zip(_cf(lower, points), _cf(upper, points), strict=True)]
            entries = tuple((entry / points).real for entry in acb.dft(quotients))
        ring = Ring(tuple(quotients), entries)
        if all(entry.is_finite() for entry in entries) and ring.accuracy() <= accuracy:
            return ring
        bits *= 2
    raise InvalidParameterError("upper law", "a characteristic function that is certainly not 0", upper)


def witness(ring: Ring) -> str | None:
    """Return a proof that no residual exists, if this ring holds one.

    Example:
        >>> from tiers.noise.discrete_gaussian import DiscreteGaussian
        >>> witness(invert(DiscreteGaussian(Fraction(1)), DiscreteGaussian(Fraction(11, 10)), 4))
        'the Bochner matrix at t = 2πn/4, n = 0..3, has the eigenvalue -0.1886953486'
    """
    points = ring.points
    with precision(192):
        large = next((place for place, quotient in enumerate(ring.quotients) if abs(quotient) > 1), None)
    if large is not None:
        return f"the quotient of characteristic functions at t = 2π·{large}/{points} exceeds 1 in size"
    least = min(ring.entries, key=lambda entry: float(entry.mid()))
    if least < 0:
        value = float(least.mid()) * points
        return f"the Bochner matrix at t = 2πn/{points}, n = 0..{points - 1}, has the eigenvalue {value:.10f}"
    return None


def _cf(law: AnyLaw, points: int) -> list[acb]:
    if not isinstance(law, LatticeTable):
        half = [acb(law.cf_ball(Fraction(n, points))) for n in range(points // 2 + 1)]
        return [*half, *half[(points - 1) // 2 : 0 : -1]]
    wrapped = [0] * points
    for place, mass in enumerate(law.masses):
        wrapped[(law.first + place) % points] += mass
    unit = arb(2) ** -law.bits
    off = (unit * (law.error * len(law.masses) + law.outside)).abs_upper()
    blur = acb(arb(0, off), arb(0, off))
    forward = acb.dft([acb(mass) * unit for mass in wrapped])
    return [forward[-n % points] + blur for n in range(points)]
