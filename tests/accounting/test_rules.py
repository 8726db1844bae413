"""What each rule would have cost: by hand on small ladders, and against the ledger that really charges."""

from fractions import Fraction
from itertools import permutations

import pytest

from tiers.accounting.charges import ChargeRule, Ledger, LedgerKind
from tiers.accounting.filters import PureFilter
from tiers.accounting.levels import LevelRule, tier_level
from tiers.accounting.rules import Sold, rule_costs
from tiers.accounting.upgrades import conditional_charge_nano
from tiers.budget import NANO
from tiers.errors import InvalidParameterError
from tiers.identity import TierLaw
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

ONE = ChangeSet.scalar(1)


def tsg(epsilon: str, change_set: ChangeSet = ONE) -> TierLaw:
    return TierLaw(TwoSidedGeometric.at(Fraction(epsilon), change_set), change_set)


def skellam(epsilon: str) -> TierLaw:
    delta = Fraction(1, 10**6)
    return TierLaw(Skellam.at(Fraction(epsilon), delta, ONE), ONE, delta)


TOP, MIDDLE, LOW = tsg("1"), tsg("0.5"), tsg("0.25")
CHAIN = (TOP, MIDDLE, LOW)


def test_who_stops_early_pays_least_by_increments_and_conditional_charges() -> None:
    early = rule_costs(CHAIN, [Sold(LOW)])
    assert (early.increment, early.reserve, early.conditional) == (NANO // 4, NANO // 2, NANO // 32)
    assert (early.epsilon_apart, early.rho_apart, early.difference) == (NANO // 4, NANO // 32, NANO // 32)


def test_the_order_of_sales_matters_to_conditional_charges_alone() -> None:
    costs = {order: rule_costs(CHAIN, [Sold(law) for law in order]) for order in permutations(CHAIN)}
    assert {(each.increment, each.reserve, each.difference) for each in costs.values()} == {
        (NANO, NANO // 2, NANO // 2)
    }
    assert {each.epsilon_apart for each in costs.values()} == {NANO * 7 // 4}
    climbed = costs[LOW, MIDDLE, TOP].conditional
    assert climbed == (
        NANO // 32
        + conditional_charge_nano(Fraction(1, 2), Fraction(1, 4))
        + conditional_charge_nano(Fraction(1), Fraction(1, 2))
    )
    assert costs[TOP, LOW, MIDDLE].conditional == NANO // 2
    jumped = NANO // 32 + conditional_charge_nano(Fraction(1), Fraction(1, 4))
    assert costs[LOW, TOP, MIDDLE].conditional == jumped


def test_sales_apart_pay_for_every_repeat() -> None:
    costs = rule_costs(CHAIN, [Sold(MIDDLE, 40), Sold(LOW, 2)])
    assert costs.epsilon_apart == 40 * NANO // 2 + 2 * NANO // 4
    assert costs.rho_apart == 40 * NANO // 8 + 2 * NANO // 32
    assert costs.increment == NANO // 2


def test_a_change_of_several_steps_has_no_conditional_charge_and_wide_noise_no_pure_one() -> None:
    wide = rule_costs([tsg("1", ChangeSet.scalar(2))], [Sold(tsg("1", ChangeSet.scalar(2)))])
    assert wide.conditional is None
    assert wide.increment == NANO
    laws = [skellam("1"), skellam("0.5")]
    costs = rule_costs(laws, [Sold(laws[1])])
    assert (costs.increment, costs.epsilon_apart, costs.conditional) == (None, None, None)
    assert costs.reserve == tier_level(LedgerKind.ZCDP, laws[0]) > costs.rho_apart


def test_a_tier_added_above_what_was_planned_counts_as_reserved() -> None:
    assert rule_costs([LOW], [Sold(LOW), Sold(TOP)]).reserve == NANO // 2


def test_the_ledger_charges_what_the_rule_says() -> None:
    for order in permutations(CHAIN):
        for rule, kind in ((ChargeRule.INCREMENT, LedgerKind.PURE), (ChargeRule.RESERVE, LedgerKind.ZCDP)):
            ledger = Ledger(PureFilter(10 * NANO))
            for law in order:
                ledger = ledger.sell("c", rule, level=tier_level(kind, law), top=tier_level(kind, TOP))
            costs = rule_costs(CHAIN, [Sold(law) for law in order])
            assert ledger.filter.spent_nano == (costs.increment if kind is LedgerKind.PURE else costs.reserve)


def test_bad_sales_are_refused() -> None:
    for sold in ([], [Sold(TOP), Sold(TOP, 2)]):
        with pytest.raises(InvalidParameterError, match="sold"):
            rule_costs(CHAIN, sold)
    for times in (0, -1, True, 1.0):
        with pytest.raises(InvalidParameterError, match="times"):
            Sold(TOP, times)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="law"):
        Sold("tsg")  # type: ignore[arg-type]


def test_an_upgrade_so_high_that_its_bit_is_all_but_certain_has_no_conditional_charge() -> None:
    """Randomised bits of ε above 37 are certain in doubles: an owner who sold such tiers is told all other rules."""
    high, top = tsg("40"), tsg("50")
    costs = rule_costs([top, high], [Sold(high), Sold(top)])
    assert (costs.increment, costs.reserve, costs.conditional) == (50 * NANO, 1250 * NANO, None)
    assert rule_costs([top, high], [Sold(top), Sold(high)]).conditional == 1250 * NANO, "no upgrade, no step"
    assert rule_costs([tsg("16"), tsg("1")], [Sold(tsg("1")), Sold(tsg("16"))]).conditional is not None


def test_two_tiers_of_one_noise_are_no_upgrade() -> None:
    """The same law sold at a δ as well is another tier, whose bit was seen."""
    again = TierLaw(TwoSidedGeometric(Fraction(1)), ONE, Fraction(1, 10**6))
    assert rule_costs([TOP, again], [Sold(TOP), Sold(again)]).conditional == tier_level(LedgerKind.ZCDP, TOP)


@pytest.mark.parametrize("by", LevelRule)
def test_costs_in_rho_are_by_the_chain_s_rule_of_levels(by: LevelRule) -> None:
    top, low = skellam("0.01"), skellam("0.005")
    levels = [tier_level(LedgerKind.ZCDP, law, by) for law in (top, low)]
    costs = rule_costs([top, low], [Sold(low, 2), Sold(top, 3)], by)
    assert (costs.reserve, costs.rho_apart) == (levels[0], 3 * levels[0] + 2 * levels[1])
    assert levels[0] != tier_level(LedgerKind.ZCDP, top, *(set(LevelRule) - {by}))
