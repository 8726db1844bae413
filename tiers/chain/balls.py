"""Any lattice law of a chain as balls: its probabilities, and the survival function that samplers invert."""

from fractions import Fraction
from typing import TypeAlias

from flint import ctx

from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.law import NoiseLaw
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import ZeroInflated
from tiers.real import Real, exact, floor_scaled
from tiers.residual.laws import FiniteMix
from tiers.sampling.rejection import skellam_pmf
from tiers.sampling.survival import SymmetricLaw

__all__ = ["StepLaw", "mass", "survival", "symmetric", "table_cdf"]

StepLaw: TypeAlias = NoiseLaw | ZeroInflated | FiniteMix | LatticeTable


def mass(law: StepLaw, k: int) -> Real:
    """Return P(X = k) as a ball-valued function.

    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.real import to_float
        >>> step = TwoSidedGeometric(Fraction(2)).residual_to(TwoSidedGeometric(Fraction(1)))
        >>> round(to_float(mass(step, 0)), 6)
        0.567871
    """
    match law:
        case Skellam():
            return skellam_pmf(law.rate, k)
        case LatticeGaussian():
            return skellam_pmf(law.sigma**2 / 2, k)
        case MultiScaleDiscreteLaplace() | FiniteMix():
            return lambda: law.pmf_ball(k)
        case LatticeTable():
            return lambda: exact(Fraction(law.mass(k), 1 << law.bits))
        case ZeroInflated():
            lower = mass(law.lower, k)
            return lambda: (law.stay() if k == 0 else 0) + (1 - law.stay()) * lower()
        case _:
            return lambda: law.log_pmf_ball(k, int(ctx.prec)).exp()


def survival(law: MultiScaleDiscreteLaplace | FiniteMix | DiscreteGaussian | Staircase, m: int) -> Real:
    """Return P(X ≥ m), m ≥ 1, as a ball-valued function.

    Law:        out of a finite mix: Σ A_w·w^m/(1 − w) from m = `start` on, and the masses below it one by one.
    Example:
        >>> from tiers.noise.tsg import TwoSidedGeometric
        >>> from tiers.real import to_float
        >>> mix = FiniteMix(MultiScaleDiscreteLaplace(2, Fraction(4)), TwoSidedGeometric(Fraction(3, 4)))
        >>> abs(2 * to_float(survival(mix, 1)) + mix.pmf(0) - 1) < 1e-15
        True
    """
    if isinstance(law, MultiScaleDiscreteLaplace | FiniteMix):
        return lambda: law.tail_ball(m)
    return lambda: law.log_tail_ball(m, int(ctx.prec)).exp()


def symmetric(law: MultiScaleDiscreteLaplace | FiniteMix | DiscreteGaussian | Staircase) -> SymmetricLaw:
    """Return the law as cell and inversion samplers need it.

    Example:
        >>> symmetric(MultiScaleDiscreteLaplace(2, Fraction(4))).floors(6)
        [2, 1, 0]
    """

    def floors(bits: int) -> list[int]:
        found: list[int] = []
        while not found or found[-1]:
            found.append(floor_scaled(survival(law, len(found) + 1), bits))
        return found

    return SymmetricLaw(lambda m: survival(law, m), floors)


def table_cdf(table: LatticeTable, k: int) -> Real:
    """Return Σ_{j ≤ k} of a table's masses, as a ball-valued function: the table is the law, to the last unit.

    Example:
        >>> table = LatticeTable(first=-1, masses=(1, 2, 1), bits=2)
        >>> [float(table_cdf(table, k)().mid()) for k in (-2, -1, 0, 1)]
        [0.0, 0.25, 0.75, 1.0]
    """
    below = sum(table.masses[: max(0, k + 1 - table.first)])
    return lambda: exact(Fraction(below, 1 << table.bits))
