"""Which check each shape of golden case meets. A shape that stands nowhere here fails; nothing passes unread."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from tests.golden import checks_accounting as accounting
from tests.golden import checks_local as local
from tests.golden import checks_noise as noise
from tests.golden.golden_cases import Case, Checked

__all__ = ["CHECKS", "PENDING", "WHOLE", "issue_of"]

Check: TypeAlias = Callable[[Any, Checked], None]

CLOSED_FORM = Fraction(1, 10**12)
COMPUTED = Fraction(1, 10**9)

# Sections whose cases only make sense together.
WHOLE = frozenset({("tiers.json", "baselines_tsg")})

# What later issues bind, by issue: (file, section). An issue that lands empties its entry.
PENDING: dict[int, tuple[tuple[str, str], ...]] = {
    7: (
        ("001_estimates.json", "cases"),
        ("001_flip.json", "cases"),
        ("001_linear.json", "cases"),
        ("001_matrix.json", "cases"),
        ("001_quantile.json", "cases"),
        ("001_variance.json", "cases"),
        ("monte_carlo.json", "fraction"),
        ("monte_carlo.json", "range"),
    ),
    8: (
        ("000_apps.json", "cases"),
        ("000_budgeting.json", "cases"),
        ("000_pie.json", "cases"),
        ("000_widths.json", "cases"),
        ("monte_carlo.json", "KDE"),
        ("monte_carlo.json", "PIE-NI"),
    ),
}

_KL = "kl_conditional_low_plus kl_conditional_low_minus naive_increment total_kl_adaptive budget violated"
_ROWS: tuple[tuple[str, str, str, Check, Fraction], ...] = (
    (
        "tiers.json",
        "subset",
        "d k eps t f variance expansion_eps rescale_to rescale_beta rescale_back_check",
        local.subset,
        CLOSED_FORM,
    ),
    ("tiers.json", "subset_plan", "d menu worst_ratio mean_ratio tiers", local.subset_plan, COMPUTED),
    (
        "tiers.json",
        "tsg",
        "eps_hi eps_lo sensitivity variance_hi variance_lo cf_hi_at_1 residual_weight_zero_atom residual_pmf",
        noise.two_sided_geometric,
        CLOSED_FORM,
    ),
    (
        "tiers.json",
        "baselines_tsg",
        "eps multi_tier_mse gradual_release_mse independent_release_cumulative_eps",
        accounting.release_baselines,
        CLOSED_FORM,
    ),
    ("tiers.json", "tsg_bridge", "eps gap sum_check pmf", noise.bridge_to_a_middle_tier, CLOSED_FORM),
    (
        "chain_noise.json",
        "cases",
        "kind tsg_bridge total_residual p_first_residual_minus2_to_4",
        noise.bridge_from_minus_two_to_four,
        CLOSED_FORM,
    ),
    (
        "chain_noise.json",
        "cases",
        "kind tsg_upward low_noise p_high_noise_minus4_to_4",
        noise.late_top_from_minus_four_to_four,
        CLOSED_FORM,
    ),
    ("tiers.json", "laplace", "eps_hi eps_lo residual_weight_zero_atom", noise.laplace_atom, CLOSED_FORM),
    (
        "tiers.json",
        "skellam_delta_at_lambda_1_over_expm1_eps",
        "eps sensitivity lambda delta",
        noise.skellam_mistaken_for_pure,
        CLOSED_FORM,
    ),
    ("tiers.json", "skellam_calibration", "eps delta sensitivity lambda_min", noise.skellam_calibration, COMPUTED),
    (
        "tiers.json",
        "msdlap_variance",
        "eps sensitivity variance tsg_scaled_variance",
        noise.multi_scale_variance,
        CLOSED_FORM,
    ),
    (
        "tiers.json",
        "discrete_gaussian",
        "sigma_hi sigma_lo bochner_row min_eigenvalue",
        noise.discrete_gaussian_witness,
        CLOSED_FORM,
    ),
    (
        "chain_noise.json",
        "cases",
        "kind eps_hi eps_lo tsg_zero_prob tsg_pmf_lo_0_to_3 tsg_residual_pmf_0_to_3"
        " tsg_var_hi tsg_var_lo tsg_residual_var laplace_zero_prob laplace_residual_var",
        noise.geometric_and_laplace_steps,
        CLOSED_FORM,
    ),
    (
        "chain_noise.json",
        "cases",
        "kind laplace_aggregate prob_nonzero var cf_at_t_0_05",
        noise.laplace_aggregate,
        CLOSED_FORM,
    ),
    ("chain_noise.json", "cases", "kind gaussian_rhos cov residual_vars", noise.gaussian_tiers, CLOSED_FORM),
    ("chain_noise.json", "cases", "kind gaussian_bridge mean var", noise.gaussian_middle, CLOSED_FORM),
    ("chain_noise.json", "cases", "kind gaussian_upgrade r_hi", noise.gaussian_late_top, CLOSED_FORM),
    ("chain_ledger.json", "cases", "kind B trace", accounting.ledger_trace, COMPUTED),
    (
        "chain_ledger.json",
        "cases",
        f"kind zcdp_counterexample {_KL} sound_upgrade_charge_approx sound_charge_tolerance max_conditional_loss",
        accounting.zcdp_counterexample,
        COMPUTED,
    ),
    (
        "000_conversions.json",
        "cases",
        "kind rho Lambda delta s_star eps_formula3 eps_simple eps_exact_gaussian_at_Lambda",
        accounting.formula_three,
        COMPUTED,
    ),
    ("000_conversions.json", "cases", "kind B Lambda delta rho_star", accounting.inverse_of_formula_three, COMPUTED),
    ("000_conversions.json", "cases", "kind eps cgp_rho", accounting.pure_in_zcdp, COMPUTED),
    ("000_conversions.json", "cases", "kind s delta g_delta", accounting.factor_of_root_rho, COMPUTED),
    ("000_filters.json", "cases", "kind filter B latch requests decisions spent", accounting.filter_run, COMPUTED),
    (
        "000_filters.json",
        "cases",
        "kind filter B latch requests decisions spent delta Lam",
        accounting.filter_run,
        COMPUTED,
    ),
)

CHECKS: dict[tuple[str, str, frozenset[str]], tuple[Check, Fraction]] = {
    (file, section, frozenset(keys.split())): (check, tolerance) for file, section, keys, check, tolerance in _ROWS
}
assert len(CHECKS) == len(_ROWS)


def issue_of(case: Case) -> int | None:
    """Return the later issue that binds this case, if it waits for one."""
    for issue, entries in PENDING.items():
        if (case.file, case.section) in entries:
            return issue
    return None
