"""The ρ that a tier is charged bounds its Rényi divergence at every order: compared with exact sums on a fine grid."""

from fractions import Fraction

import pytest

from tests.accounting.test_lattice import divergence_over_order
from tiers.accounting.charges import ChargeRule, LedgerKind
from tiers.accounting.lattice import lattice_rho
from tiers.accounting.levels import LevelRule, level_rules, newest, rho_above, rule_of, skellam_rho, tier_level
from tiers.errors import InvalidParameterError
from tiers.identity import TierLaw
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.renyi import skellam_renyi
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

CHANGES = [ChangeSet.scalar(1), ChangeSet.scalar(3), ChangeSet(3, 2, 5)]
ORDERS = [1 + Fraction(step, 23) for step in range(1, 70)] + [
    Fraction(order) + Fraction(2, 5) for order in range(4, 60)
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(5), Fraction(80), Fraction(1500)], ids=str)
def test_no_order_exceeds_the_rho_of_skellam_noise(rate: Fraction, change: ChangeSet) -> None:
    rho = skellam_rho(rate, change)
    worst = max(Fraction(skellam_renyi(rate, order, change)) / order for order in ORDERS[:: 1 if rate < 100 else 9])
    assert worst <= rho
    if rate > 10:
        assert rho < worst * Fraction(13, 10), "sound, and not wasteful"


def test_whole_orders_are_joined_at_no_less_than_convexity_allows() -> None:
    rate = Fraction(900)  # where the bound on whole orders decides
    mu = 2 * rate
    whole = 1 / (2 * mu) + min(5 / (4 * mu**2), 3 / (4 * mu))
    factor = skellam_rho(rate, ChangeSet.scalar(1), LevelRule.ORDERS) / whole
    for n in (2, 3, 10):
        for step in range(1001):
            t = Fraction(step, 1000)
            assert n * (n - 1 + 2 * t) <= factor * (n - 1 + t) * (n + t)
    assert factor < Fraction(1073, 1000)


def test_wide_noise_is_charged_at_most_twice_a_gaussians_rho_by_orders() -> None:
    gaussian, wide = Fraction(1, 4 * 10**8), (Fraction(10**8), ChangeSet.scalar(1), LevelRule.ORDERS)
    assert gaussian <= skellam_rho(*wide) <= gaussian * 2 * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize(
    ("sigma", "change", "within"),
    [
        (1024, ChangeSet.scalar(100), 1.002),
        (1024, ChangeSet.scalar(1000), 1.002),
        (4096, ChangeSet.scalar(65), 1.001),
        (1024, ChangeSet(4, 600, 1500), 1.002),
        (2048, ChangeSet(10, 100, 777), 1.002),
    ],
    ids=str,
)
def test_wide_noise_is_charged_hardly_more_than_it_leaks(sigma: int, change: ChangeSet, within: float) -> None:
    """The definition's value over the most concentrated change, entry by entry, at orders where bounds are worst."""
    full, rest = divmod(change.total, change.step)
    entries = [change.step] * full + [rest] * (rest > 0)
    price = float(skellam_rho(Fraction(sigma**2, 2), change))
    orders = (1.001, 1.3, 1.99, 2.0, 2.4, 4.7)
    worst = max(sum(divergence_over_order(sigma**2, entry, order) for entry in entries) for order in orders)
    assert worst <= price * (1 + 1e-9)
    assert price <= worst * within
    assert float(skellam_rho(Fraction(sigma**2, 2), change, LevelRule.ORDERS)) > 1.9 * worst, "what it was before"


def test_the_lesser_of_both_rules_is_taken_where_the_lattice_s_holds_at_all() -> None:
    low, high = Fraction(31), Fraction(6 * 10**27)  # variances of 62 and 1.2·10²⁸
    for rate in (low, high):
        assert skellam_rho(rate, ChangeSet.scalar(2)) == skellam_rho(rate, ChangeSet.scalar(2), LevelRule.ORDERS)
    changes = [ChangeSet.scalar(1), ChangeSet.scalar(5), ChangeSet(3, 40, 100)]
    lesser = set()
    for rate in (Fraction(32), Fraction(300), Fraction(5000), Fraction(10**6), Fraction(10**24)):
        for change in changes:
            by_orders = skellam_rho(rate, change, LevelRule.ORDERS)
            full, rest = divmod(change.total, change.step)
            shifts = [change.step] * full + [rest] * (rest > 0)
            lattice = sum(shift**2 * lattice_rho(2 * rate, shift, shift) for shift in shifts)
            assert skellam_rho(rate, change) == min(by_orders, lattice)
            lesser.add(by_orders < lattice)
    assert lesser == {False, True}


def test_a_lattice_gaussian_is_charged_as_the_skellam_noise_it_is() -> None:
    wide, change = LatticeGaussian(Fraction(1024)), ChangeSet.scalar(50)
    law = TierLaw(wide, change, Fraction(1, 10**6))
    for rule in LevelRule:
        assert rho_above(law, rule) == skellam_rho(Fraction(2**19), change, rule)
    assert rho_above(law) == rho_above(law, LevelRule.LATTICE) < rho_above(law, LevelRule.ORDERS)


@pytest.mark.parametrize("kind", [LedgerKind.ZCDP, LedgerKind.APPROX])
def test_levels_tell_by_which_rules_they_are(kind: LedgerKind) -> None:
    wide = [TierLaw(Skellam(Fraction(rate)), ChangeSet.scalar(100), Fraction(1, 1000)) for rate in (10**6, 4 * 10**6)]
    plain = TierLaw(TwoSidedGeometric(Fraction(1)), ChangeSet.scalar(1))
    old, new = ([(law, tier_level(kind, law, rule)) for law in wide] for rule in LevelRule)
    both = (plain, tier_level(kind, plain))
    assert level_rules(kind, []) == level_rules(kind, [both]) == set(LevelRule)
    assert level_rules(kind, [both, *old]) == {LevelRule.ORDERS}
    assert level_rules(kind, [*new, both]) == {LevelRule.LATTICE}
    assert level_rules(kind, [old[0], new[1]]) == set(), "one chain has one rule"
    for (law, level), off in ((old[0], -1), (old[0], 1), (new[1], -1), (both, 1)):
        assert level_rules(kind, [(law, level + off)]) == set()
    assert level_rules(kind, [(TierLaw(Staircase(3, 1, Fraction(1)), ChangeSet.scalar(3)), 1)]) == set()
    assert newest(LevelRule) is LevelRule.LATTICE
    assert newest([LevelRule.ORDERS]) is LevelRule.ORDERS


def test_a_vector_costs_what_its_most_concentrated_change_costs() -> None:
    one, four = (skellam_rho(Fraction(200), ChangeSet(bins, 1, bins)) for bins in (1, 4))
    assert abs(four / one - 4) < Fraction(1, 1000)


def test_levels_round_up_once_and_kinds_that_cannot_charge_refuse() -> None:
    third = TierLaw(TwoSidedGeometric(Fraction(1, 3)), ChangeSet.scalar(1))
    assert tier_level(LedgerKind.PURE, third) == 333_333_334
    assert tier_level(LedgerKind.ZCDP, third) == 55_555_556
    assert rho_above(third) == Fraction(1, 18)
    noisy = TierLaw(Skellam(Fraction(5)), ChangeSet.scalar(1), Fraction(1, 1000))
    assert rule_of(LedgerKind.APPROX, noisy) is ChargeRule.RESERVE
    for kind, law in (
        (LedgerKind.PURE, noisy),
        (LedgerKind.ZCDP, TierLaw(Staircase(3, 1, Fraction(1)), ChangeSet.scalar(3))),
    ):
        with pytest.raises(InvalidParameterError):
            tier_level(kind, law)


@pytest.mark.parametrize("change", [*CHANGES, ChangeSet(100, 1, 100)], ids=str)
@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1), Fraction(3)], ids=str)
def test_no_order_exceeds_the_rho_of_a_geometric_on_any_change(rate: Fraction, change: ChangeSet) -> None:
    noise = TwoSidedGeometric(rate)
    full, rest = divmod(change.total, change.step)
    entries = [change.step] * full + [rest] * (rest > 0)
    for order in ORDERS:
        joint = sum(noise.rdp(order, ChangeSet.scalar(entry)) for entry in entries)
        assert joint <= float(noise.rho(change) * order) * (1 + 1e-12)
    assert noise.rho(change) <= noise.epsilon(change) ** 2 / 2


def test_a_tier_sold_at_a_delta_is_charged_for_what_it_is() -> None:
    many = ChangeSet(100, 1, 100)
    noise = TwoSidedGeometric.at(Fraction(1), many, Fraction(1, 10**6))
    law = TierLaw(noise, many, Fraction(1, 10**6))
    assert law.epsilon() == 1 < noise.epsilon(many)
    assert tier_level(LedgerKind.APPROX, law) / 10**9 >= float(noise.rho(many)) > 0.028
    with pytest.raises(InvalidParameterError, match="0 in a pure ledger"):
        tier_level(LedgerKind.PURE, law)
