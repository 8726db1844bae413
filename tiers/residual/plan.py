"""One entry point: the residual between two laws with its certificate, or an error with a witness."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tiers.errors import InvalidParameterError, NoResidualError, SlackNotAllowedError
from tiers.noise.gaussian import Gaussian
from tiers.noise.laplace import Laplace
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.law import ContinuousLaw, NoiseLaw, normal_form
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import TwoSidedGeometric, ZeroInflated
from tiers.residual.certificate import Certificate, ClosedForm, SlackBound
from tiers.residual.laws import FiniteMix, Geometric, LaplaceResidual, Rational, as_scales
from tiers.residual.necessary import lighter_tail
from tiers.residual.proof import OUTWEIGHED, Negative, outweighed, prove
from tiers.residual.slack import approximate

__all__ = ["Residual", "residual"]

_DEAR_DEGREE = 64
_Law = NoiseLaw | ContinuousLaw | LatticeTable
_Step = ZeroInflated | Skellam | FiniteMix | LatticeTable | Gaussian | LaplaceResidual


@dataclass(frozen=True, slots=True)
class Residual:
    """The noise s with upper + s = lower in law, and what that rests on. A value: equal pairs give equal residuals.

    Args:       upper, lower: the two tiers' laws. law: of s. certificate: see `tiers.residual.certificate`.
    Example:
        >>> step = residual(TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1)))
        >>> round(step.pmf(0), 6), step.certificate.rests_on
        (0.567871, 'closed form')
    """

    upper: _Law
    lower: _Law
    law: _Step
    certificate: Certificate

    def pmf(self, k: int) -> float:
        """Return P(s = k).

        Raises:     InvalidParameterError: a continuous residual, which has a density.
        """
        if isinstance(self.law, Gaussian | LaplaceResidual):
            raise InvalidParameterError("residual", "one on the lattice, to have a pmf", self.law)
        return self.law.pmf(k)

    def variance(self) -> float:
        """Return Var s."""
        return self.law.variance()

    def same_probability(self) -> float:
        """Return P(s = 0): how often an entry shows the same number at both tiers.

        Example:
            >>> upper, lower = TwoSidedGeometric(Fraction(1)), TwoSidedGeometric(Fraction(9, 10))
            >>> round(residual(upper, lower).same_probability(), 3)
            0.883
        """
        match self.law:
            case LaplaceResidual():
                return float(self.law.stay)
            case Gaussian():
                return 0.0
            case FiniteMix():
                return self.law.same_probability()
            case _:
                return self.law.pmf(0)


def residual(upper: _Law, lower: _Law, *, allow_slack: bool = False) -> Residual:
    """Return the noise that turns the upper law into the lower one, with its certificate.

    Closed forms come first, then the necessary conditions, then a proof for all k where the upper law is a
    two-sided geometric on one or more scales, then a table with a proved slack. Equal laws under two names are one.

    Law:        φ_s = φ_lower/φ_upper, a characteristic function exactly when s exists (Bochner).
    Args:       upper, lower: two lattice laws (or certified tables), or two continuous ones of one family.
                allow_slack: the owner accepts a residual that is off by the certificate's τ.
    Raises:     NoResidualError: none exists; its witness proves it. SlackNotAllowedError: only one with slack is known.
                InvalidParameterError: a pair outside the framework.
    Reference:  Wang et al. 2026 (arXiv 2606.15543), section 4; Bochner's theorem.
    Example:
        >>> step = residual(MultiScaleDiscreteLaplace(2, Fraction(4)), TwoSidedGeometric(Fraction(3, 4)))
        >>> step.certificate.rests_on
        'ball arithmetic and the analytic sign of the tail'
        >>> residual(Skellam(Fraction(3)), Skellam(Fraction(5))).law
        Skellam(rate=Fraction(2, 1))
    """
    found = _find(normal_form(upper), normal_form(lower))
    if isinstance(found.certificate, SlackBound) and not allow_slack:
        raise SlackNotAllowedError(_name(upper), _name(lower), float(found.certificate.tau))
    return found


@lru_cache(maxsize=1024)
def _find(upper: _Law, lower: _Law) -> Residual:
    closed = _closed(upper, lower)
    if closed is not None:
        return closed
    if isinstance(upper, Laplace | Gaussian) or isinstance(lower, Laplace | Gaussian):
        return _refuse_continuous(upper, lower)
    if not isinstance(upper, LatticeTable) and not isinstance(lower, LatticeTable):
        lighter = lighter_tail(upper, lower)
        if lighter is not None:
            raise NoResidualError(_name(upper), _name(lower), lighter)
        if isinstance(upper, Geometric) and isinstance(lower, Rational):
            if FiniteMix(upper, lower).degree > _DEAR_DEGREE and outweighed(upper, lower):
                return Residual(upper, lower, FiniteMix(upper, lower), ClosedForm(OUTWEIGHED))
            proved = _proved(upper, lower)
            if proved is not None:
                return proved
    outcome = approximate(upper, lower)
    if isinstance(outcome, str):
        raise NoResidualError(_name(upper), _name(lower), outcome)
    table, bound = outcome
    return Residual(upper, lower, table, bound)


def _closed(upper: _Law, lower: _Law) -> Residual | None:
    match upper, lower:
        case TwoSidedGeometric(), TwoSidedGeometric():
            form = ClosedForm("φ_lower/φ_upper = w + (1−w)·φ_lower, 0 < w < 1")
            return Residual(upper, lower, upper.residual_to(lower), form)
        case ((Skellam() | LatticeGaussian()), (Skellam() | LatticeGaussian())):
            missing = _rate(lower) - _rate(upper)
            _need(missing > 0, upper, lower, "Skellam rates add, and the lower one is not the larger")
            return Residual(upper, lower, Skellam(missing), ClosedForm("Skellam rates add"))
        case ((TwoSidedGeometric() | MultiScaleDiscreteLaplace()), MultiScaleDiscreteLaplace()):
            return _scale_by_scale(upper, lower)
        case Gaussian(), Gaussian():
            missing = lower.sigma_squared - upper.sigma_squared
            _need(missing > 0, upper, lower, "Gaussian variances add, and the lower one is not the larger")
            return Residual(upper, lower, Gaussian(missing), ClosedForm("Gaussian variances add"))
        case Laplace(), Laplace():
            _need(lower.scale > upper.scale, upper, lower, "the lower scale is not the larger one")
            form = ClosedForm("φ_lower/φ_upper = w + (1−w)·φ_lower, w = (b/b′)²")
            return Residual(upper, lower, LaplaceResidual(upper, lower), form)
    return None


def _scale_by_scale(
    upper: TwoSidedGeometric | MultiScaleDiscreteLaplace, lower: MultiScaleDiscreteLaplace
) -> Residual | None:
    """Return the residual that is made scale by scale, where each scale of the upper law has one; None elsewhere."""
    scales = as_scales(upper).scales
    if scales == lower.scales:
        _need(lower.rate < upper.rate, upper, lower, "the lower rate is not the smaller one")
    if scales > lower.scales or lower.rate > upper.rate:
        return None
    one_by_one = "each s_ξ the residual of two-sided geometrics"
    form = f"Σ ξ·s_ξ, {one_by_one}" if scales == lower.scales else f"Σ ξ·s_ξ, {one_by_one} or a geometric of its own"
    return Residual(upper, lower, FiniteMix(upper, lower), ClosedForm(form))


def _proved(upper: Geometric, lower: Rational) -> Residual | None:
    """Return the residual with its proof, or None where balls cannot tell a probability from 0."""
    mix = FiniteMix(upper, lower)
    found = prove(mix)
    if isinstance(found, Negative):
        witness = f"the only candidate has P(s = {found.place}) = {found.value:.6g}"
        raise NoResidualError(_name(upper), _name(lower), witness)
    return None if found is None else Residual(upper, lower, mix, found)


def _refuse_continuous(upper: _Law, lower: _Law) -> Residual:
    if isinstance(upper, Laplace) and isinstance(lower, Gaussian):
        raise NoResidualError(_name(upper), _name(lower), "the Gaussian tail is of smaller order than the Laplace tail")
    if isinstance(upper, Gaussian) and isinstance(lower, Laplace):
        raise NoResidualError(
            _name(upper), _name(lower), "φ_lower/φ_upper = e^(σ²t²/2)/(1 + b²t²) exceeds 1 from some t on"
        )
    raise InvalidParameterError("pair", "two lattice laws, or two continuous ones", (upper, lower))


def _need(holds: bool, upper: _Law, lower: _Law, otherwise: str) -> None:
    if not holds:
        raise NoResidualError(_name(upper), _name(lower), otherwise)


def _rate(law: Skellam | LatticeGaussian) -> Fraction:
    return law.rate if isinstance(law, Skellam) else law.skellam.rate


def _name(law: _Law) -> str:
    return f"a table of {len(law.masses)} entries" if isinstance(law, LatticeTable) else repr(law)
