"""The noise laws as one type: what a planner, a sampler and an auditor may treat alike."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias, TypeVar

from tiers.errors import InvalidParameterError
from tiers.guarantee import ApproxDP, PureDP
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.gaussian import Gaussian
from tiers.noise.laplace import Laplace
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

__all__ = [
    "FAMILIES",
    "ContinuousLaw",
    "NoiseLaw",
    "guarantee_of",
    "law_from",
    "normal_form",
    "parse_rational",
    "parse_whole",
]

NoiseLaw: TypeAlias = (
    TwoSidedGeometric | Skellam | LatticeGaussian | MultiScaleDiscreteLaplace | DiscreteGaussian | Staircase
)
ContinuousLaw: TypeAlias = Laplace | Gaussian
FAMILIES: dict[str, type[NoiseLaw]] = {
    law.family: law
    for law in (TwoSidedGeometric, Skellam, LatticeGaussian, MultiScaleDiscreteLaplace, DiscreteGaussian, Staircase)
}
_Named = TypeVar("_Named")
_RATIONAL = re.compile(r"[0-9]{1,400}(?:\.[0-9]{1,400}|/[1-9][0-9]{0,399})?\Z")
_WHOLE = re.compile(r"(?:0|[1-9][0-9]{0,59})\Z")


def normal_form(law: _Named) -> "_Named | TwoSidedGeometric":
    """Return the one name of a law that has several: one scale, or a period of 1, is a two-sided geometric.

    Law:        MSDLap(1, r) = Staircase(1, 1, r) = TSG(r), value by value; any other law is returned as it is.
    Example:
        >>> normal_form(MultiScaleDiscreteLaplace(1, Fraction(2)))
        TwoSidedGeometric(rate=Fraction(2, 1))
    """
    match law:
        case MultiScaleDiscreteLaplace(scales=1) | Staircase(period=1):
            return TwoSidedGeometric(law.rate)
    return law


def parse_rational(name: str, text: object) -> Fraction:
    """Return the rational that a canonical text writes, its size bounded before any arithmetic.

    Raises:     InvalidParameterError: no text; a sign, an exponent, blanks, over 400 digits a part, a denominator of 0.
    Example:
        >>> parse_rational("rate", "1/3"), parse_rational("rate", "0.25")
        (Fraction(1, 3), Fraction(1, 4))
    """
    if not isinstance(text, str) or not _RATIONAL.match(text):
        raise InvalidParameterError(name, "a decimal or n/d of at most 400 digits a part", text)
    return Fraction(text)


def parse_whole(name: str, text: object) -> int:
    """Return the whole number of a canonical text.

    Raises:     InvalidParameterError: no text; a sign, a leading zero, another script, over 60 digits.
    Example:
        >>> parse_whole("half width", "120")
        120
    """
    if not isinstance(text, str) or not _WHOLE.match(text):
        raise InvalidParameterError(name, "a whole number without leading zeros, of at most 60 digits", text)
    return int(text)


def law_from(family: str, parameters: Mapping[str, str]) -> NoiseLaw:
    """Read a lattice law back from its identity; refuses whatever `parameters()` would not have written.

    Raises:     InvalidParameterError: an unknown family, a missing, further, non-canonical or bad parameter.
    Example:
        >>> law_from("msdlap", {"rate": "0.5", "scales": "2"})
        MultiScaleDiscreteLaplace(scales=2, rate=Fraction(1, 2))
    """
    kind = FAMILIES.get(family) if isinstance(family, str) else None
    if kind is None:
        raise InvalidParameterError("family", f"one of {', '.join(sorted(FAMILIES))}", family)
    whole = {"scales", "period", "inner"}
    try:
        values = {
            name: parse_whole(name, text) if name in whole else parse_rational(name, text)
            for name, text in parameters.items()
        }
        law = kind(**values)  # type: ignore[arg-type]
    except InvalidParameterError:
        raise
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):
        raise InvalidParameterError("parameters", f"those of {family}", parameters) from None
    if law.parameters() != dict(parameters):
        raise InvalidParameterError("parameters", "canonical texts", parameters)
    return law


def guarantee_of(
    law: NoiseLaw | ContinuousLaw, change_set: ChangeSet, delta: Fraction = Fraction(0)
) -> PureDP | ApproxDP:
    """Return what a law promises over a change set: its pure ε at δ = 0, else the least ε at this δ, rounded up.

    Raises:     InvalidParameterError: δ = 0 for a law that has no pure ε.
    Example:
        >>> guarantee_of(TwoSidedGeometric(Fraction(1, 4)), ChangeSet.scalar(4)).epsilon
        Fraction(1, 1)
        >>> float(guarantee_of(Skellam(Fraction(100)), ChangeSet.scalar(1), Fraction(1, 10**6)).epsilon) < 0.2716
        True
    """
    match law:
        case TwoSidedGeometric() if delta:
            return ApproxDP(Fraction(law.epsilon_at(delta, change_set)), delta)
        case TwoSidedGeometric() | MultiScaleDiscreteLaplace() | Staircase() | Laplace():
            pure = PureDP(law.epsilon(change_set))
            return pure if delta == 0 else ApproxDP(pure.epsilon, delta)
        case _:
            if delta == 0:
                raise InvalidParameterError("δ", f"δ > 0, for no {law.family} law is ε-DP", delta)
            return ApproxDP(Fraction(law.epsilon_at(delta, change_set)), delta)
