"""Letters: the integers cut into finitely many cells, each with a certified upper bound on its probability.

Whatever is betted on later is betted on letters, so both tails are letters like any other, and an expectation under the
claimed law is a finite sum of integers.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tiers.chain.balls import StepLaw, symmetric, table_cdf
from tiers.chain.steps import Between
from tiers.errors import InvalidParameterError
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.skellam import Skellam
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.real import Real, floor_scaled, precision
from tiers.sampling.survival import tsg_law, zero_inflated_law

__all__ = ["BITS", "Alphabet", "alphabet_of", "bridge_alphabet", "cdf_of", "residues_of"]

BITS = 64
_UNITS = 1 << BITS
_DEEPEST = 1 << (BITS - 30)
_GRID = (
    *(x / 8 for x in range(1, 25)),
    *(3 + x / 2 for x in range(1, 19)),
    *(12 * 1.25**x for x in range(1, 12)),
)
_WIDE = 64.0
_RESIDUES = 8
_GAP_MOST, _DEVIATION_MOST = 64, 16
_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Alphabet:
    """Cells of the integers and what each holds at most.

    Law:        letter i < len(edges) holds edges[i−1] ≤ k < edges[i]; the last one k ≥ edges[−1];
                P(letter i) ≤ masses[i]·2⁻⁶⁴, and Σ masses ≤ 2⁶⁴ + len(masses) for exact cells.
    Args:       edges: strictly rising. masses: one more than edges. modulus: where not 0, letters are residues instead.
    Raises:     InvalidParameterError: edges that do not rise, masses that cannot cover a law.
    Example:
        >>> coin = Alphabet((0,), (1 << 63, 1 << 63))
        >>> [int(letter) for letter in coin.letters([-5, 0, 10**30])]
        [0, 1, 1]
    """

    edges: tuple[int, ...]
    masses: tuple[int, ...]
    modulus: int = 0

    def __post_init__(self) -> None:
        wanted = self.modulus or len(self.edges) + 1
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise InvalidParameterError("edges", "strictly rising integers", len(self.edges))
        if len(self.masses) != wanted or min(self.masses) < 1 or sum(self.masses) < _UNITS:
            raise InvalidParameterError("masses", f"{wanted} upper bounds that cover a law", len(self.masses))

    @property
    def size(self) -> int:
        """Return how many letters there are."""
        return len(self.masses)

    def letters(self, values: Sequence[int] | _Ints) -> _Ints:
        """Return the letter of each value, exactly, whatever its size.

        Raises:     InvalidParameterError: a value that is no integer: noise off the lattice has no letter.
        """
        if not isinstance(values, np.ndarray):
            for value in values:
                if type(value) is not int:
                    raise InvalidParameterError("values", "integers of the lattice", type(value).__name__)
            if self.modulus:
                return np.array([value % self.modulus for value in values], np.int64)
            return np.array([bisect_right(self.edges, value) for value in values], np.int64)
        if values.dtype != np.int64:
            raise InvalidParameterError("values", "integers of the lattice", str(values.dtype))
        if self.modulus:
            return values % self.modulus
        found: _Ints = np.searchsorted(_edges(self), values, side="right")
        return found

    def probabilities(self) -> NDArray[np.float64]:
        """Return the letters' bounds as doubles that sum to 1: for choosing bets, never for paying them."""
        masses = np.array([mass / _UNITS for mass in self.masses])
        scaled: NDArray[np.float64] = masses / masses.sum()
        return scaled

    def centres(self) -> NDArray[np.float64]:
        """Return one number a letter that says where it lies."""
        edges = np.array(self.edges, np.float64)
        return np.concatenate([edges[:1] - 1, (edges[:-1] + edges[1:] - 1) / 2, edges[-1:]])


@lru_cache(maxsize=4096)
def _edges(alphabet: Alphabet) -> _Ints:
    return np.array(alphabet.edges, np.int64)


def cdf_of(law: StepLaw) -> Callable[[int], Real]:
    """Return k ↦ P(X ≤ k) of any law that a chain draws from, as ball-valued functions.

    Example:
        >>> from fractions import Fraction
        >>> from tiers.real import to_float
        >>> [round(to_float(cdf_of(Skellam(Fraction(1)))(k)), 6) for k in (-1, 0)]
        [0.345746, 0.654254]
    """
    match law:
        case ZeroInflated():
            return zero_inflated_law(law).cdf
        case TwoSidedGeometric():
            return tsg_law(law).cdf
        case LatticeTable():
            return lambda k: table_cdf(law, k)
        case Skellam() | LatticeGaussian():
            return lambda k: _skellam_cdf(law, k)
        case _:
            return symmetric(law).cdf


def _skellam_cdf(law: Skellam | LatticeGaussian, k: int) -> Real:
    if k < 0:
        return lambda: law.log_tail_ball(-k, BITS + 32).exp()
    return lambda: 1 - law.log_tail_ball(k + 1, BITS + 32).exp()


@lru_cache(maxsize=4096)
def alphabet_of(law: StepLaw) -> Alphabet:
    """Return the letters for a residual's law: single integers where it is narrow, cells in its own scale where wide.

    Example:
        >>> from fractions import Fraction
        >>> step = TwoSidedGeometric(Fraction(2)).residual_to(TwoSidedGeometric(Fraction(1)))
        >>> letters = alphabet_of(step)
        >>> zero = int(letters.letters([0])[0])
        >>> round(letters.masses[zero] / 2**64, 6)
        0.567871
    """
    if isinstance(law, LatticeTable):
        return _of_table(law)
    cdf, spread = cdf_of(law), max(law.variance() ** 0.5, 1e-9)
    places = sorted({max(1, round(x * spread)) for x in _GRID if x * spread < 2**60})
    kept: list[int] = []
    for place in places:
        kept.append(place)
        if floor_scaled(cdf(-place), BITS) < _DEEPEST:  # beyond, letters would say nothing more
            break
    return _partition((*(1 - place for place in reversed(kept)), *kept), cdf)


def _of_table(table: LatticeTable) -> Alphabet:
    """A table is its own alphabet, cut coarsely where it is wide: exact masses, one cell for each side's outside."""
    inner = range(table.first, table.last + 2)
    stride = max(1, len(inner) // 256)
    return _partition(tuple(inner[::stride]), lambda k: table_cdf(table, k))


def _partition(edges: tuple[int, ...], cdf: Callable[[int], Real]) -> Alphabet:
    below = [cdf(edge - 1) for edge in edges]

    def inside(place: int) -> Real:
        if place == 0:
            return below[0]
        if place == len(edges):
            return lambda: 1 - below[-1]()
        return lambda: below[place]() - below[place - 1]()

    return Alphabet(edges, tuple(_above(inside(place)) for place in range(len(edges) + 1)))


def _above(probability: Real) -> int:
    """An integer that is certainly at least 2⁶⁴ times the probability."""
    return _bounds(probability)[1]


def _bounds(probability: Real) -> tuple[int, int]:
    """The integers around 2⁶⁴ times the probability, certain by balls; an uncertain ball says nothing."""
    with precision(BITS + 320):
        ball = probability() * (1 << BITS)
        low, high = ball.lower().floor().unique_fmpz(), ball.upper().ceil().unique_fmpz()
    return (0 if low is None else max(0, int(low))), (_UNITS if high is None else max(1, int(high)))


@lru_cache(maxsize=1024)
def residues_of(law: StepLaw) -> Alphabet | None:
    """Return the residues modulo 8 as letters, for wide laws that fall on both sides of 0; None for others.

    Law:        Σ_{k ≡ r} P(k) ≤ 1/8·P(k ≠ 0) + 2·P(1) + P(0)·[r = 0]: on a side that falls, a class and its neighbours
                interlace.
    Example:
        >>> from fractions import Fraction
        >>> letters = residues_of(TwoSidedGeometric(Fraction(1, 1000)))
        >>> letters.size, round(max(letters.masses) / 2**64, 4)
        (8, 0.1264)
    """
    if not isinstance(law, TwoSidedGeometric | ZeroInflated | Skellam | LatticeGaussian) or law.variance() < _WIDE**2:
        return None
    cdf = cdf_of(law)
    below, upto = cdf(-1), cdf(-2)
    first = _above(lambda: below() - upto())
    side = _above(below)
    spread = 2 * (side // _RESIDUES + 1) + 2 * first
    zero = _above(lambda: 1 - 2 * below())
    return Alphabet((), tuple(spread + (zero if r == 0 else 0) for r in range(_RESIDUES)), _RESIDUES)


@lru_cache(maxsize=8192)
def bridge_alphabet(law: Between, gap: int) -> Alphabet | None:
    """Return the letters of a bridge's first step, given the gap; None where the gap is wider than is worth the work.

    The gap is known before the bridge is drawn, so leaving wide ones out keeps every bet fair.

    Law:        cells −R … gap + R one by one, R twelve deviations; the two tails share what the cells leave.
    Example:
        >>> from fractions import Fraction
        >>> from tiers.chain.steps import between
        >>> from tiers.identity import Role
        >>> laws = [Skellam(Fraction(rate)) for rate in (1, 3, 6)]
        >>> letters = bridge_alphabet(between(Role.BRIDGE, laws[1], (laws[0], laws[2])), 4)
        >>> sum(letters.masses) / 2**64 < 1 + 1e-6
        True
    """
    deviation = (law.first.variance() + law.second.variance()) ** 0.5
    if abs(gap) > _GAP_MOST or deviation > _DEVIATION_MOST:
        return None
    reach = 4 + round(12 * deviation)
    places = range(min(0, gap) - reach, max(0, gap) + reach + 1)
    bounds = [_bounds(law.mass(j, gap)) for j in places]
    masses = tuple(high for _, high in bounds)
    outside = max(1, _UNITS - sum(low for low, _ in bounds))
    return Alphabet((*places, places.stop), (outside, *masses, outside))
