"""Which sampler draws which law: a name that is part of the draw's identity, and the sampler that it names."""

from fractions import Fraction
from functools import lru_cache
from typing import Protocol, TypeAlias

from tiers.errors import InvalidParameterError
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.sampling.arrays import Integers
from tiers.sampling.cells import CellSampler, cell_sampler
from tiers.sampling.digits import SAMPLER, digit_sampler
from tiers.sampling.grid import grid_sampler
from tiers.sampling.rejection import log_concave_sampler, skellam_pmf
from tiers.sampling.skellam import skellam_slabs
from tiers.sampling.survival import skellam_law, tsg_law, zero_inflated_law
from tiers.sampling.words import CellWords, KeyedWords

__all__ = [
    "CELLS",
    "DIGITS",
    "GRID",
    "REJECTION",
    "SLABS",
    "Drawable",
    "Sampler",
    "VectorSampler",
    "sampler_for",
    "sampler_named",
    "vector_sampler",
]

Drawable: TypeAlias = TwoSidedGeometric | ZeroInflated | Skellam | LatticeGaussian
DIGITS, CELLS, GRID, SLABS, REJECTION = SAMPLER, "cells/2", "tsg-grid/2", "skellam-slabs/1", "log-concave/1"
_DIGITS_UP_TO = 15  # from 16 entries on a key's setting up and one look-up an entry cost less than the digits
_CELLS_FROM_RATE = Fraction(1, 512)
_CELLS_UP_TO, _SLABS_UP_TO = 2**20, 2**52


class Sampler(Protocol):
    """Draws a vector of noise from one key's words."""

    def draw(self, words: KeyedWords, length: int, /) -> tuple[int, ...]:
        """Return `length` independent draws; element j depends on its own words only."""
        ...


class VectorSampler(Protocol):
    """Adds noise to int64 counts in place, without arrays of its own beyond a chunk."""

    def add_to(self, words: CellWords, counts: Integers, out: Integers, /) -> Integers:
        """Put counts + noise into `out`; refuses counts beyond ±2⁶²."""
        ...

    def perturb(self, words: CellWords, counts: Integers, out: Integers, /) -> Integers:
        """Do the same to counts that were checked before noise was added to them."""
        ...


def sampler_for(law: Drawable, length: int) -> str:
    """Return the name and version of the sampler of a law for vectors of this length.

    Single answers and short vectors go by digits, whose work does not depend on what is drawn.

    Example:
        >>> laplace = TwoSidedGeometric(Fraction(1))
        >>> sampler_for(laplace, 1), sampler_for(laplace, 1000), sampler_for(Skellam(Fraction(10**8)), 1)
        ('tsg-digits/2', 'cells/2', 'skellam-slabs/1')
    """
    if isinstance(law, Skellam | LatticeGaussian):
        rate = _skellam_rate(law)
        return CELLS if rate <= _CELLS_UP_TO else SLABS if rate <= _SLABS_UP_TO else REJECTION
    if length <= _DIGITS_UP_TO:
        return DIGITS
    base = law.lower if isinstance(law, ZeroInflated) else law
    if base.rate >= _CELLS_FROM_RATE:
        return CELLS
    return DIGITS if isinstance(law, ZeroInflated) else GRID


def sampler_named(name: str, law: Drawable) -> Sampler:
    """Return the sampler of that name for a law; built once.

    Raises:     InvalidParameterError: no sampler of that name draws this law.
    Example:
        >>> law = TwoSidedGeometric(Fraction(1))
        >>> len(sampler_named("cells/2", law).draw(KeyedWords(bytes(32)), 3))
        3
    """
    if name == DIGITS and isinstance(law, TwoSidedGeometric | ZeroInflated):
        return digit_sampler(law)
    if name == REJECTION and isinstance(law, Skellam | LatticeGaussian):
        rate = _skellam_rate(law)
        spread = max(1, round(float(2 * rate) ** 0.5))
        return log_concave_sampler(lambda k: skellam_pmf(rate, k), centre=0, spread=spread)
    made: Sampler = vector_sampler(name, law)  # type: ignore[assignment]
    return made


def vector_sampler(name: str, law: Drawable) -> VectorSampler:
    """Return the sampler of that name, for counts in arrays.

    Raises:     InvalidParameterError: no vector sampler of that name draws this law.
    """
    if name == CELLS:
        return _cells(law)
    if name == GRID and isinstance(law, TwoSidedGeometric):
        return grid_sampler(law.rate)
    if name == SLABS and isinstance(law, Skellam | LatticeGaussian):
        return skellam_slabs(_skellam_rate(law))
    raise InvalidParameterError("sampler", f"one that draws {law!r}", name)


def _skellam_rate(law: Skellam | LatticeGaussian) -> Fraction:
    return law.rate if isinstance(law, Skellam) else law.sigma**2 / 2


@lru_cache(maxsize=64)
def _cells(law: Drawable) -> CellSampler:
    if isinstance(law, ZeroInflated):
        return cell_sampler(zero_inflated_law(law))
    if isinstance(law, TwoSidedGeometric):
        return cell_sampler(tsg_law(law))
    return cell_sampler(skellam_law(_skellam_rate(law)))
