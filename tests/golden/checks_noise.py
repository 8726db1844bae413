"""Checks of noise laws, residuals and the continuous chains."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tests.golden.golden_cases import Checked
from tiers.gaussian_chain import gaussian_bridge, gaussian_covariance, gaussian_residual, gaussian_upgrade
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

Data = Mapping[str, Any]


def two_sided_geometric(case: Data, checked: Checked) -> None:
    change_set = ChangeSet.scalar(case["sensitivity"])
    upper, lower = (TwoSidedGeometric.at(Fraction(case[name]), change_set) for name in ("eps_hi", "eps_lo"))
    residual = upper.residual_to(lower)
    checked.close(upper.variance(), case["variance_hi"])
    checked.close(lower.variance(), case["variance_lo"])
    checked.close(upper.cf(1.0).real, case["cf_hi_at_1"])
    checked.same(upper.cf(1.0).imag, 0.0)
    checked.close(residual.stay_probability(), case["residual_weight_zero_atom"])
    for k, want in case["residual_pmf"].items():
        checked.close(residual.pmf(int(k)), want)
        checked.close(residual.pmf(-int(k)), want)


def gaussian_tiers(case: Data, checked: Checked) -> None:
    rhos = [Fraction(rho) for rho in case["gaussian_rhos"]]
    for row, wanted in zip(gaussian_covariance(rhos), case["cov"], strict=True):
        for value, want in zip(row, wanted, strict=True):
            checked.close(value, want)
    for law, want in zip(gaussian_residual(rhos), case["residual_vars"], strict=True):
        checked.close(law.variance, want)


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
