"""Residuals: the noise that turns one tier into the next, each with a certificate of what its validity rests on."""

from tiers.residual.certificate import BallProof, Certificate, ClosedForm, SlackBound
from tiers.residual.laws import FiniteMix, LaplaceResidual
from tiers.residual.plan import Residual, residual

__all__ = [
    "BallProof",
    "Certificate",
    "ClosedForm",
    "FiniteMix",
    "LaplaceResidual",
    "Residual",
    "SlackBound",
    "residual",
]
