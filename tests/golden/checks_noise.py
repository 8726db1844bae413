"""Checks of noise laws, residuals and the continuous chains."""

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from tests.golden.golden_cases import Checked
from tiers.errors import NoResidualError, SlackNotAllowedError
from tiers.gaussian_chain import gaussian_bridge, gaussian_covariance, gaussian_time, gaussian_upgrade
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.gaussian import Gaussian
from tiers.noise.laplace import Laplace
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.residual import LaplaceResidual, residual
from tiers.residual.spectrum import invert
from tiers.sampling.bridge import Bridge
from tiers.sensitivity import ChangeSet

Data = Mapping[str, Any]


def two_sided_geometric(case: Data, checked: Checked) -> None:
    change_set = ChangeSet.scalar(case["sensitivity"])
    upper, lower = (TwoSidedGeometric.at(Fraction(case[name]), change_set) for name in ("eps_hi", "eps_lo"))
    step = upper.residual_to(lower)
    checked.close(upper.variance(), case["variance_hi"])
    checked.close(lower.variance(), case["variance_lo"])
    checked.close(upper.cf(1.0).real, case["cf_hi_at_1"])
    checked.same(upper.cf(1.0).imag, 0.0)
    checked.close(step.stay_probability(), case["residual_weight_zero_atom"])
    certified = residual(upper, lower)
    for k, want in case["residual_pmf"].items():
        checked.close(step.pmf(int(k)), want)
        checked.close(step.pmf(-int(k)), want)
        checked.close(certified.pmf(int(k)), want)


def laplace_atom(case: Data, checked: Checked) -> None:
    step = _laplace_step(1 / Fraction(case["eps_hi"]), 1 / Fraction(case["eps_lo"]))
    checked.close(step.stay, case["residual_weight_zero_atom"])


def geometric_and_laplace_steps(case: Data, checked: Checked) -> None:
    upper, lower = TwoSidedGeometric(Fraction(case["eps_hi"])), TwoSidedGeometric(Fraction(case["eps_lo"]))
    step = upper.residual_to(lower)
    checked.close(step.stay_probability(), case["tsg_zero_prob"])
    for k, (low, added) in enumerate(zip(case["tsg_pmf_lo_0_to_3"], case["tsg_residual_pmf_0_to_3"], strict=True)):
        checked.close(lower.pmf(k), low)
        checked.close(step.pmf(k), added)
    checked.close(upper.variance(), case["tsg_var_hi"])
    checked.close(lower.variance(), case["tsg_var_lo"])
    checked.close(step.variance(), case["tsg_residual_var"])
    continuous = _laplace_step(1 / upper.rate, 1 / lower.rate)
    checked.close(continuous.stay, case["laplace_zero_prob"])
    checked.close(continuous.variance(), case["laplace_residual_var"])


def laplace_aggregate(case: Data, checked: Checked) -> None:
    """The sum of n people's residuals: each is 0 with the atom's probability, and their cfs multiply."""
    given = {name: Fraction(value) for name, value in case["laplace_aggregate"].items()}
    step = _laplace_step(given["s_hi"], given["s_lo"])
    checked.close(1 - step.stay, case["prob_nonzero"])
    checked.close(given["n"] * Fraction(step.variance()), case["var"])
    one = step.lower.cf(0.05).real / step.upper.cf(0.05).real
    checked.close(one ** int(given["n"]), case["cf_at_t_0_05"])


def skellam_mistaken_for_pure(case: Data, checked: Checked) -> None:
    epsilon, sensitivity, rate = Fraction(case["eps"]), case["sensitivity"], Fraction(case["lambda"])
    checked.close(sensitivity / math.expm1(float(epsilon)), rate)
    checked.close(Skellam(rate).delta(epsilon, ChangeSet.scalar(sensitivity)), case["delta"])


def skellam_calibration(case: Data, checked: Checked) -> None:
    """The least rate, to the twelve digits that the file and the law's own calibration keep."""
    promise = Fraction(case["eps"]), Fraction(case["delta"])
    law = Skellam.at(*promise, ChangeSet.scalar(case["sensitivity"]))
    checked.close(law.rate, case["lambda_min"], Fraction(3, 10**11))
    checked.same(law.delta(promise[0], ChangeSet.scalar(case["sensitivity"])) <= promise[1], True)


def multi_scale_variance(case: Data, checked: Checked) -> None:
    epsilon, change_set = Fraction(case["eps"]), ChangeSet.scalar(case["sensitivity"])
    checked.close(MultiScaleDiscreteLaplace.at(epsilon, change_set).variance(), case["variance"])
    checked.close(TwoSidedGeometric.at(epsilon, change_set).variance(), case["tsg_scaled_variance"])


def discrete_gaussian_witness(case: Data, checked: Checked) -> None:
    upper, lower = DiscreteGaussian(Fraction(case["sigma_hi"])), DiscreteGaussian(Fraction(case["sigma_lo"]))
    points = len(case["bochner_row"])
    ring = invert(upper, lower, points)
    for quotient, want in zip(ring.quotients, case["bochner_row"], strict=True):
        checked.close(float(quotient.real.mid()), want)
    checked.close(points * min(float(entry.mid()) for entry in ring.entries), case["min_eigenvalue"])
    refusal = NoResidualError if Fraction(case["min_eigenvalue"]) < 0 else SlackNotAllowedError
    with pytest.raises(refusal):
        residual(upper, lower)


def bridge_to_a_middle_tier(case: Data, checked: Checked) -> None:
    bridge = Bridge.between(*(TwoSidedGeometric(Fraction(epsilon)) for epsilon in case["eps"]))
    for k, want in case["pmf"].items():
        checked.close(bridge.pmf(int(k), gap=case["gap"]), want)
    checked.close(math.fsum(bridge.pmf(k, gap=case["gap"]) for k in range(-400, 401)), case["sum_check"])


def bridge_from_minus_two_to_four(case: Data, checked: Checked) -> None:
    bridge = Bridge.between(*(TwoSidedGeometric(Fraction(epsilon)) for epsilon in case["tsg_bridge"]))
    for k, want in zip(range(-2, 5), case["p_first_residual_minus2_to_4"], strict=True):
        checked.close(bridge.pmf(k, gap=case["total_residual"]), want)


def late_top_from_minus_four_to_four(case: Data, checked: Checked) -> None:
    bridge = Bridge.above(*(TwoSidedGeometric(Fraction(epsilon)) for epsilon in case["tsg_upward"]))
    for k, want in zip(range(-4, 5), case["p_high_noise_minus4_to_4"], strict=True):
        checked.close(bridge.pmf(k, gap=case["low_noise"]), want)


def gaussian_tiers(case: Data, checked: Checked) -> None:
    rhos = [Fraction(rho) for rho in case["gaussian_rhos"]]
    for row, wanted in zip(gaussian_covariance(rhos), case["cov"], strict=True):
        for value, want in zip(row, wanted, strict=True):
            checked.close(value, want)
    laws = [Gaussian(gaussian_time(rho)) for rho in rhos]
    for (upper, lower), want in zip(pairwise(laws), case["residual_vars"], strict=True):
        checked.close(residual(upper, lower).variance(), want)


def gaussian_middle(case: Data, checked: Checked) -> None:
    given = {name: Fraction(value) for name, value in case["gaussian_bridge"].items()}
    law = gaussian_bridge((given["rho_hi"], given["rho_mid"], given["rho_lo"]), given["r_hi"], given["r_lo"])
    checked.close(law.mean, case["mean"])
    checked.close(law.variance, case["var"])


def gaussian_late_top(case: Data, checked: Checked) -> None:
    given = {name: Fraction(value) for name, value in case["gaussian_upgrade"].items()}
    checked.close(given["rho_hi"] - given["rho_lo"], given["rho_fresh"])
    upper = gaussian_upgrade((given["rho_hi"], given["rho_lo"]), given["r_lo"], given["fresh"])
    checked.close(upper, case["r_hi"])


def _laplace_step(upper: Fraction, lower: Fraction) -> LaplaceResidual:
    law = residual(Laplace(upper), Laplace(lower)).law
    assert isinstance(law, LaplaceResidual)
    return law
