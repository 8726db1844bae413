"""What one draw of a chain adds, given what was known when it was drawn: its law, and the samplers that draw it.

A base draw has the tier's own law; a residual the law that leads down from the tier above. Late tiers are conditional:
P(j | gap) = u(j)·v(gap − j)/w(gap), u leading from the upper end (for a late top: from the truth) to the new tier, v
from there to the lower end, w past it. So the joint law of all tiers is that of drawing them top-down.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from tiers.chain.balls import StepLaw, mass, symmetric, table_cdf
from tiers.errors import InvalidParameterError
from tiers.identity import Role
from tiers.noise.gaussian import Gaussian
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.law import NoiseLaw
from tiers.noise.skellam import Skellam
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.real import Real, to_float
from tiers.residual.laws import LaplaceResidual
from tiers.residual.plan import residual
from tiers.sampling.bridge import BRIDGE, Bridge
from tiers.sampling.cells import CellSampler, cell_sampler
from tiers.sampling.choose import (
    CELLS,
    DIGITS,
    GRID,
    REJECTION,
    Sampler,
    VectorSampler,
    sampler_for,
    sampler_named,
    vector_sampler,
)
from tiers.sampling.inversion import InversionSampler
from tiers.sampling.rejection import skellam_bridge_sampler
from tiers.sampling.words import KeyedWords, Words

__all__ = [
    "ENUMERATION",
    "INVERSION",
    "Between",
    "Enumerated",
    "between",
    "sampler_of",
    "step_law",
    "step_sampler",
    "step_vector",
]

ENUMERATION, INVERSION = "enumeration/1", "inversion/1"
_CELLS_FROM = 16
_GRID_VARIANCE = 2.0**106  # 100 mean deviations stay below 2⁶⁰
_DRAWABLE = (TwoSidedGeometric, ZeroInflated, Skellam, LatticeGaussian)


@lru_cache(maxsize=4096)
def step_law(role: Role, law: NoiseLaw, parents: tuple[NoiseLaw, ...]) -> StepLaw:
    """Return the law of a base draw or of a residual. A residual with slack is the finite table itself.

    Raises:     NoResidualError: the parent does not lead to the law.
    Example:
        >>> step_law(Role.RESIDUAL, Skellam(Fraction(5)), (Skellam(Fraction(3)),))
        Skellam(rate=Fraction(2, 1))
    """
    if role is Role.BASE:
        return law
    if role is not Role.RESIDUAL:
        raise InvalidParameterError("role", "base or residual", role.value)
    found = residual(parents[0], law, allow_slack=True).law
    assert not isinstance(found, Gaussian | LaplaceResidual), "between lattice laws"
    return found


def sampler_of(law: StepLaw, length: int) -> str:
    """Return the name of the sampler that draws this law for vectors of this length.

    Example:
        >>> from tiers.noise.msdlap import MultiScaleDiscreteLaplace
        >>> law = MultiScaleDiscreteLaplace(2, Fraction(4))
        >>> sampler_of(law, 1), sampler_of(law, 1000), sampler_of(TwoSidedGeometric(Fraction(1)), 1)
        ('inversion/1', 'cells/2', 'tsg-digits/2')
    """
    if isinstance(law, _DRAWABLE):
        name = sampler_for(law, length)
        return DIGITS if name == GRID and law.variance() > _GRID_VARIANCE else name  # its rows are 64-bit
    return CELLS if length >= _CELLS_FROM and not isinstance(law, LatticeTable) else INVERSION


def step_sampler(name: str, law: StepLaw) -> Sampler:
    """Return the sampler of that name for a law.

    Raises:     InvalidParameterError: no sampler of that name draws this law.
    """
    if isinstance(law, _DRAWABLE):
        return sampler_named(name, law)
    return _inversion(law) if name == INVERSION else _cells(name, law)


def step_vector(name: str, law: StepLaw) -> VectorSampler:
    """Return the sampler of that name for counts in arrays; raises as `step_sampler`."""
    return vector_sampler(name, law) if isinstance(law, _DRAWABLE) else _cells(name, law)


@lru_cache(maxsize=64)
def _inversion(law: StepLaw) -> InversionSampler:
    if isinstance(law, LatticeTable):
        return InversionSampler(lambda k: table_cdf(law, k), spread=max(1, round(law.variance() ** 0.5)))
    assert not isinstance(law, _DRAWABLE)
    return InversionSampler(symmetric(law).cdf, spread=max(1, round(law.variance() ** 0.5)))


@lru_cache(maxsize=64)
def _cells(name: str, law: StepLaw) -> CellSampler:
    if name != CELLS or isinstance(law, (*_DRAWABLE, LatticeTable)):
        raise InvalidParameterError("sampler", f"one that draws {law!r}", name)
    return cell_sampler(symmetric(law))


@dataclass(frozen=True, slots=True)
class Enumerated:
    """Draws of any lattice law whose masses balls can bound, by inverse transform along a count of all integers.

    They are counted outwards from a centre, so every threshold is a finite sum and no tail is ever cut. The work grows
    with the distance drawn: meant for late tiers of families that have no sampler of their own.

    Law:        P(draw = k) = pmf(k), for every word width (enumerated in the tests).
    Example:
        >>> noise = Enumerated(lambda k: mass(TwoSidedGeometric(Fraction(1)), k), centre=0)
        >>> [noise.place(n) for n in range(5)]
        [0, 1, -1, 2, -2]
    """

    pmf: Callable[[int], Real]
    centre: int

    def place(self, count: int) -> int:
        """Return the integer that is counted `count`-th, from 0 on."""
        return self.centre + ((count + 1) // 2 if count % 2 else -(count // 2))

    def draw_one(self, words: Words, element: int) -> int:
        """Return the draw of one element."""
        return self.place(InversionSampler(self._share).draw_one(words, element))

    def _share(self, count: int) -> Real:
        masses = [self.pmf(self.place(each)) for each in range(count + 1)]
        return lambda: sum((each() for each in masses), arb(0))


@dataclass(frozen=True, slots=True)
class Between:
    """The law of a late tier's noise, counted from its upper end, given the gap between both ends.

    Law:        pmf(j; gap) = u(j)·v(gap − j)/w(gap).
    Guarantee:  the joint law of all tiers is the same as if they had been drawn top-down at once.
    Args:       first: u. second: v. whole: w. name: of the sampler, by which the draw is identified.
    Example:
        >>> upper, middle, lower = (Skellam(Fraction(rate)) for rate in (1, 3, 6))
        >>> late = between(Role.BRIDGE, middle, (upper, lower))
        >>> late.name, round(sum(late.pmf(j, 4) for j in range(-60, 60)), 12)
        ('log-concave/1', 1.0)
    """

    first: StepLaw
    second: StepLaw
    whole: StepLaw
    bridge: Bridge | None

    @property
    def name(self) -> str:
        """Return the name and version of the sampler."""
        if self.bridge is not None:
            return BRIDGE
        return REJECTION if self._rates() else ENUMERATION

    def pmf(self, j: int, gap: int) -> float:
        """Return P(noise = j | gap)."""
        return self.bridge.pmf(j, gap) if self.bridge is not None else to_float(self.mass(j, gap))

    def draw(self, words: KeyedWords, gaps: Sequence[int]) -> tuple[int, ...]:
        """Return one draw a gap; element j depends on its gap and its own words only."""
        if self.bridge is not None:
            return self.bridge.draw(words, gaps)
        rates = self._rates()
        if rates is not None:
            drawn = (skellam_bridge_sampler(*rates, gap).draw_one(words, j) for j, gap in enumerate(gaps))
        else:
            drawn = (self._enumerated(gap).draw_one(words, j) for j, gap in enumerate(gaps))
        return tuple(drawn)

    def _rates(self) -> tuple[Fraction, Fraction] | None:
        if not isinstance(self.first, Skellam | LatticeGaussian) or not isinstance(self.second, Skellam):
            return None
        first = self.first.rate if isinstance(self.first, Skellam) else self.first.sigma**2 / 2
        return first, self.second.rate

    def _enumerated(self, gap: int) -> Enumerated:
        share = self.first.variance() / (self.first.variance() + self.second.variance())
        return Enumerated(lambda j: self.mass(j, gap), centre=round(gap * share))

    def mass(self, j: int, gap: int) -> Real:
        """Return P(noise = j | gap) as a ball-valued function."""
        one, other, both = mass(self.first, j), mass(self.second, gap - j), mass(self.whole, gap)
        return lambda: one() * other() / both()


@lru_cache(maxsize=1024)
def between(role: Role, law: NoiseLaw, parents: tuple[NoiseLaw, ...]) -> Between:
    """Return the conditional law of a late tier: a bridge between two known tiers, or a late top above the top one.

    Raises:     NoResidualError: no residual leads from the upper end or to the lower one. SlackNotAllowedError: only
                one with slack does.
    Example:
        >>> two, one = TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))
        >>> round(between(Role.LATE_TOP, two, (one,)).pmf(0, gap=0), 12)
        0.93588279344
    """
    if role not in (Role.BRIDGE, Role.LATE_TOP):
        raise InvalidParameterError("role", "bridge or late-top", role.value)
    lower = parents[-1]
    second = _exact(law, lower)
    match role, law, parents:
        case Role.LATE_TOP, TwoSidedGeometric(), (TwoSidedGeometric() as known,):
            return Between(law, second, lower, Bridge.above(law, known))
        case Role.LATE_TOP, _, (_,):
            return Between(law, second, lower, None)
        case Role.BRIDGE, TwoSidedGeometric(), (TwoSidedGeometric() as upper, TwoSidedGeometric() as known):
            return Between(_exact(upper, law), second, _exact(upper, known), Bridge.between(upper, law, known))
    above = parents[0]
    return Between(_exact(above, law), second, _exact(above, lower), None)


def _exact(upper: NoiseLaw, lower: NoiseLaw) -> StepLaw:
    residual(upper, lower)
    return step_law(Role.RESIDUAL, lower, (upper,))
