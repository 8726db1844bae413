"""Which check each shape of golden case meets. A shape that stands nowhere here fails; nothing passes unread."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from tests.golden import checks_accounting as accounting
from tests.golden import checks_adaptive as adaptive
from tests.golden import checks_local as local
from tests.golden import checks_metric as metric
from tests.golden import checks_noise as noise
from tests.golden.golden_cases import Case, Checked

__all__ = ["CHECKS", "PENDING", "WHOLE", "issue_of"]

Check: TypeAlias = Callable[[Any, Checked], None]

CLOSED_FORM = Fraction(1, 10**12)
COMPUTED = Fraction(1, 10**9)

# Sections whose cases only make sense together.
WHOLE = frozenset({("tiers.json", "baselines_tsg")})

# What later issues bind, by issue: (file, section). An issue that lands empties its entry.
PENDING: dict[int, tuple[tuple[str, str], ...]] = {}

_KL = "kl_conditional_low_plus kl_conditional_low_minus naive_increment total_kl_adaptive budget violated"
_PIE = "kind algorithm mode tight_h beta0 x r noise jhat G survivors_per_round spent estimates PrivSav"
_ROWS: tuple[tuple[str, str, str, Check, Fraction], ...] = (
    ("001_estimates.json", "cases", "kind eps reports ranges points_in_ind_order", metric.estimates, COMPUTED),
    (
        "001_flip.json",
        "cases",
        "kind eps alpha flip w_in w_out w_full w_edge_in w_edge_out var1d_interior_per_user var1d_edge_per_user_edgeaware",
        metric.flip_constants,
        COMPUTED,
    ),
    ("001_flip.json", "cases", "kind eps_hi eps_lo reflip reflip_alt", metric.reflipping, COMPUTED),
    (
        "001_flip.json",
        "cases",
        "kind bridge p_mid_equals_hi_given_hi_eq_lo p_mid_equals_hi_given_hi_ne_lo",
        metric.flip_bridge,
        COMPUTED,
    ),
    ("001_flip.json", "cases", "kind star_trap coalition_23_log_ratio note", metric.star_of_flips, COMPUTED),
    ("001_matrix.json", "cases", "kind m D B_over_alpha_pow_D Binv_times_2alpha_pow_D", metric.matrices, COMPUTED),
    ("001_matrix.json", "cases", "kind m x encode", metric.encoding, COMPUTED),
    ("001_matrix.json", "cases", "kind reports observations_k1_k2 note", metric.observations, COMPUTED),
    ("001_quantile.json", "cases", "kind prefix n phi answer visited", metric.search, COMPUTED),
    (
        "001_quantile.json",
        "cases",
        "kind m n eps beta nodes radius_binary_search radius_all_prefixes radius_hoeffding",
        metric.radius,
        COMPUTED,
    ),
    (
        "001_variance.json",
        "cases",
        "kind xs m eps range true var_paper var_edge D_R bound_paper",
        metric.exact_variance,
        COMPUTED,
    ),
    ("001_variance.json", "cases", "kind note n D eps all_users_inside exact naive", metric.naive_bound, COMPUTED),
    (
        "001_linear.json",
        "cases",
        "kind problem m S_size scale_on_S scale_off_S total_error_per_user ratio_to_eps_LDP",
        metric.identity_strategy,
        COMPUTED,
    ),
    (
        "001_linear.json",
        "cases",
        "kind problem m n_ranges total_error err_interior err_edge err_full avg",
        metric.prefix_ranges,
        COMPUTED,
    ),
    ("001_linear.json", "cases", "kind problem A s cost total_error_B_identity", metric.cost_matrix, COMPUTED),
    (
        "monte_carlo.json",
        "range",
        "kind statistic xs m eps range edge expected sd N z also",
        metric.simulated_ranges,
        COMPUTED,
    ),
    ("monte_carlo.json", "fraction", "kind statistic expected sd N z", metric.simulated_reflips, COMPUTED),
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
    ("000_widths.json", "cases", "kind d beta lam lam_tight_chi", adaptive.chi_quantiles, COMPUTED),
    (
        "000_widths.json",
        "cases",
        "kind rhos d beta0 n beta_each h weights_last var_last",
        adaptive.averaged_rounds,
        COMPUTED,
    ),
    ("000_widths.json", "cases", "kind knn_bound bound", adaptive.bound_of_nearest, COMPUTED),
    ("000_widths.json", "cases", "kind pure_widths laplace_h tsg_h tsg_tail_beyond_h", adaptive.pure_widths, COMPUTED),
    ("000_budgeting.json", "cases", "kind rule m B used_fraction trace remaining_end", adaptive.reallocated, COMPUTED),
    ("000_budgeting.json", "cases", "kind split c r parts", adaptive.doubled, COMPUTED),
    ("000_apps.json", "cases", "kind shape points proj", adaptive.signed_distances, COMPUTED),
    (
        "000_apps.json",
        "cases",
        "kind kde true mean_of_plug_in debiased_value_at_noisy_dist",
        adaptive.kernels,
        COMPUTED,
    ),
    ("000_apps.json", "cases", "kind eta_calibrated eta", adaptive.calibrated, COMPUTED),
    ("000_apps.json", "cases", "kind kde_elimination max_contribution_per_point", adaptive.left_out, COMPUTED),
    ("000_pie.json", "cases", f"{_PIE} S0 S1 count", adaptive.pie, COMPUTED),
    ("000_pie.json", "cases", _PIE, adaptive.pie, COMPUTED),
    (
        "000_pie.json",
        "cases",
        "kind algorithm N q true_count beta0 tight_h r noise S0 S1 G jhat answer PrivSav",
        adaptive.threshold,
        COMPUTED,
    ),
    ("monte_carlo.json", "KDE", "kind statistic expected sd N z", adaptive.simulated_kernel, COMPUTED),
    ("monte_carlo.json", "PIE-NI", "kind statistic expected N rule", adaptive.simulated_eliminations, COMPUTED),
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
