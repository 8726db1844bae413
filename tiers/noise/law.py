"""The noise laws as one type: what a planner, a sampler and an auditor may treat alike."""

from typing import TypeAlias

from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.gaussian import Gaussian
from tiers.noise.laplace import Laplace
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric

__all__ = ["FAMILIES", "ContinuousLaw", "NoiseLaw"]

NoiseLaw: TypeAlias = (
    TwoSidedGeometric | Skellam | LatticeGaussian | MultiScaleDiscreteLaplace | DiscreteGaussian | Staircase
)
ContinuousLaw: TypeAlias = Laplace | Gaussian
FAMILIES: dict[str, type[NoiseLaw]] = {
    law.family: law
    for law in (
        TwoSidedGeometric,
        Skellam,
        LatticeGaussian,
        MultiScaleDiscreteLaplace,
        DiscreteGaussian,
        Staircase,
    )
}
