"""Checks of conversions, filters, ledgers and baselines."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tests.golden.golden_cases import Checked
from tiers.accounting.baselines import chain_mse, gradual_release_mse, independent_release_epsilon
from tiers.accounting.charges import ChargeRule, Ledger, LedgerKind, charge_rule, level_nano
from tiers.accounting.conversions import (
    formula_root,
    g_delta,
    pure_to_zcdp,
    rho_star,
    zcdp_to_epsilon,
    zcdp_to_epsilon_simple,
)
from tiers.accounting.filters import ApproxFilter, PureFilter, ZCDPFilter, replay, replay_latched
from tiers.accounting.gaussian import gaussian_epsilon, gaussian_mu
from tiers.accounting.stepwise import adaptive_loss, first_bit, naive_increment, reveal_step, upgrade_charge
from tiers.budget import NANO, Ladder
from tiers.errors import BudgetExceededError
from tiers.sensitivity import ChangeSet

Data = Mapping[str, Any]


def formula_three(case: Data, checked: Checked) -> None:
    rho, delta, reach = Fraction(case["rho"]), Fraction(case["delta"]), Fraction(case["Lambda"])
    checked.close(formula_root(rho, delta, reach), case["s_star"])
    checked.close(zcdp_to_epsilon(rho, delta, reach), case["eps_formula3"])
    checked.close(zcdp_to_epsilon_simple(rho, delta, reach), case["eps_simple"])
    exact = gaussian_epsilon(gaussian_mu([rho], reach), float(delta)) / float(reach)
    checked.close(exact, case["eps_exact_gaussian_at_Lambda"])


def inverse_of_formula_three(case: Data, checked: Checked) -> None:
    promise = Fraction(case["B"]), Fraction(case["delta"]), Fraction(case["Lambda"])
    checked.close(rho_star(*promise), case["rho_star"])


def pure_in_zcdp(case: Data, checked: Checked) -> None:
    checked.close(pure_to_zcdp(Fraction(case["eps"])), case["cgp_rho"])


def factor_of_root_rho(case: Data, checked: Checked) -> None:
    checked.close(g_delta(Fraction(case["s"]), Fraction(case["delta"])), case["g_delta"])


def filter_run(case: Data, checked: Checked) -> None:
    """A filter counts whole units: 10⁻⁹, or a finer one where the file's binary fractions need it to stay exact."""
    budget, requests = Fraction(case["B"]), [Fraction(request) for request in case["requests"]]
    unit = math.lcm(NANO, budget.denominator, *(request.denominator for request in requests))
    ledger: PureFilter | ZCDPFilter | ApproxFilter
    match case["filter"]:
        case "pure":
            ledger = PureFilter(int(budget * unit))
            assert unit != NANO or ledger == PureFilter.of(budget)
        case "cgp":
            ledger = ZCDPFilter(int(budget * unit))
            assert unit != NANO or ledger == ZCDPFilter.of(budget)
        case "approx":
            unit = NANO
            ledger = ApproxFilter.of(budget, Fraction(case["delta"]), Fraction(case["Lam"]))
        case other:
            raise AssertionError(f"no filter is called {other}")
    run = replay_latched if case["latch"] else replay
    decisions, after = run(ledger, [math.ceil(request * unit) for request in requests])
    checked.same([decision.value for decision in decisions], case["decisions"])
    rounded_up = Fraction(sum(1 for request in requests if (request * unit).denominator > 1), unit)
    spent = Fraction(after.spent_nano, unit)
    checked.same(0 <= spent - case["spent"] <= rounded_up + checked.tolerance * spent, True)


def ledger_trace(case: Data, checked: Checked) -> None:
    budget, levels = Fraction(case["B"]), [Fraction(sale["eps"]) for sale in case["trace"]]
    unit = math.lcm(NANO, budget.denominator, *(level.denominator for level in levels))
    ledger = Ledger(PureFilter(int(budget * unit)))
    rule = charge_rule(LedgerKind.PURE, "tsg")
    checked.same(rule, ChargeRule.INCREMENT)
    for sale, level in zip(case["trace"], levels, strict=True):
        assert unit != NANO or level * unit == level_nano(LedgerKind.PURE, level)
        before = ledger.filter.spent_nano
        try:
            ledger = ledger.sell(sale["chain"], rule, level=int(level * unit))
            decision = "CONT"
        except BudgetExceededError:
            decision = "HALT"
        checked.same(decision, sale["decision"])
        checked.close(Fraction(ledger.filter.spent_nano - before, unit), sale["charged"])
        checked.close(Fraction(ledger.filter.spent_nano, unit), sale["spent"])


def zcdp_counterexample(case: Data, checked: Checked) -> None:
    upper = Fraction(case["zcdp_counterexample"]["eps_hi"])
    lower = Fraction(case["zcdp_counterexample"]["eps_lo"])
    plus, minus = reveal_step(upper, lower)
    loss = _upgrade_after_minus(upper, lower)
    checked.close(plus.divergence(1.0), case["kl_conditional_low_plus"])
    checked.close(minus.divergence(1.0), case["kl_conditional_low_minus"])
    checked.close(naive_increment(upper, lower), case["naive_increment"])
    checked.close(loss, case["total_kl_adaptive"])
    checked.close(pure_to_zcdp(upper), case["budget"])
    checked.same(loss > case["budget"], case["violated"])
    assert adaptive_loss([lower, upper], 1.0) >= loss - 1e-12
    tolerance = Fraction(case["sound_charge_tolerance"])
    checked.close(upgrade_charge(upper, lower), case["sound_upgrade_charge_approx"], tolerance)
    checked.close(max(plus.max_loss(), minus.max_loss()), case["max_conditional_loss"])


def _upgrade_after_minus(upper: Fraction, lower: Fraction) -> float:
    """The buyer of the counterexample: upgrade on a low bit against the truth, else spend the rest on Gaussians."""
    _, minus = reveal_step(upper, lower)
    first = first_bit(lower)
    stop = float(naive_increment(upper, lower))
    return first.divergence(1.0) + (1 - first.if_one) * minus.divergence(1.0) + first.if_one * stop


def release_baselines(cases: list[Data], checked: Checked) -> None:
    """The section lists ladders one after the other: a new one begins where ε rises."""
    ladders: list[list[Data]] = []
    for case in cases:
        if ladders and Fraction(case["eps"]) < Fraction(ladders[-1][-1]["eps"]):
            ladders[-1].append(case)
        else:
            ladders.append([case])
    scalar = ChangeSet.scalar(1)
    for rows in ladders:
        ladder = Ladder(tuple(Fraction(row["eps"]) for row in rows))
        values = chain_mse(ladder, scalar), gradual_release_mse(ladder, scalar), independent_release_epsilon(ladder)
        for row, mse, gradual, loss in zip(rows, *values, strict=True):
            checked.close(mse, row["multi_tier_mse"])
            checked.close(gradual, row["gradual_release_mse"])
            checked.close(loss, row["independent_release_cumulative_eps"])
