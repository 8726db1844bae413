"""A3 for every kind of ledger, and A2 on slack: each saboteur of the ledger caught by the rule named for it."""

from fractions import Fraction

import pytest

from tiers.accounting.charges import LedgerKind
from tiers.accounting.conversions import rho_star_nano
from tiers.accounting.levels import LevelRule, tier_level
from tiers.audit.charges import Account, slack_of
from tiers.audit.ledger import LedgerReplay
from tiers.audit.records import BudgetRecord, ClaimedTier, PlanRecord, SaleRecord
from tiers.audit.slack import check_bridge
from tiers.errors import InvalidParameterError
from tiers.identity import DrawSpec, Role, TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

PURE, ZCDP, APPROX = LedgerKind.PURE, LedgerKind.ZCDP, LedgerKind.APPROX
ONE, SMALL = ChangeSet.scalar(1), Fraction(1, 1000)
TWO, MIDDLE, HALF = (TierLaw(TwoSidedGeometric(Fraction(rate)), ONE) for rate in ("2", "1", "0.5"))
GAUSSIANS = [TierLaw(DiscreteGaussian(Fraction(sigma)), ONE, SMALL) for sigma in (1, 2)]
SKELLAM = TierLaw(Skellam(Fraction(5)), ONE, SMALL)
RHO = {law.identity: int(law.epsilon() ** 2 / 2 * 10**9) for law in (TWO, MIDDLE, HALF)}
EPSILON = {law.identity: int(law.epsilon() * 10**9) for law in (TWO, MIDDLE, HALF)}


def account(kind: LedgerKind, budget: int = 10**12) -> Account:
    if kind is APPROX:
        promise = Fraction(20), Fraction(1, 10**6)
        opened = Account(kind, rho_star_nano(*promise), promise)
    else:
        opened = Account(kind, budget)
    assert opened.plan("c", (TWO, MIDDLE, HALF), "leaf 1") == []
    return opened


def rules(opened: Account, *sales: tuple[TierLaw, int]) -> list[str]:
    found = []
    for place, (law, charged) in enumerate(sales, start=2):
        found += [each.rule for each in opened.sale("c", law.identity, charged, f"leaf {place}")]
        assert all(each.check == "A3" for each in opened.sale("unknown", law.identity, 0, "leaf 9"))
    return found


def test_honest_ledgers_of_each_kind_pass() -> None:
    assert rules(account(PURE), (HALF, 500_000_000), (TWO, 1_500_000_000), (MIDDLE, 0), (TWO, 0)) == []
    assert rules(account(ZCDP), (HALF, RHO[TWO.identity]), (TWO, 0), (MIDDLE, 0)) == []
    assert rules(account(APPROX), (MIDDLE, 0)) == ["reserve"]


@pytest.mark.parametrize(
    ("sales", "rule"),
    [
        ([(HALF, 500_000_000), (TWO, 2_000_000_000)], "increment"),
        ([(HALF, 500_000_000), (TWO, 1_500_000_000), (TWO, 1_500_000_000)], "increment"),
        ([(HALF, 500_000_000), (TWO, 0)], "increment"),
        ([(TWO, 0)], "increment"),
    ],
    ids=["whole level again", "difference twice", "difference not at all", "nothing"],
)
def test_wrong_differences_in_a_pure_ledger_are_found(sales: list[tuple[TierLaw, int]], rule: str) -> None:
    assert rules(account(PURE), *sales) == [rule]


def test_increments_in_a_zcdp_ledger_are_found_by_their_own_name() -> None:
    half, two = RHO[HALF.identity], RHO[TWO.identity]
    opened = account(ZCDP)
    assert rules(opened, (HALF, half), (TWO, two - half)) == ["increment-where-reserve-is-due"] * 2
    assert opened.filter.spent_nano == two, "what is due counts, not what was charged"


@pytest.mark.parametrize(("kind", "due"), [(PURE, EPSILON), (ZCDP, RHO)], ids=["pure", "zcdp"])
def test_an_overspent_filter_is_found_at_the_sale_that_overspends(kind: LedgerKind, due: dict[str, int]) -> None:
    opened = Account(kind, due[TWO.identity])
    for chain in ("c", "d"):
        assert opened.plan(chain, (TWO,), "leaf 1") == []
    assert opened.sale("c", TWO.identity, due[TWO.identity], "leaf 2") == []
    (found,) = opened.sale("d", TWO.identity, due[TWO.identity], "leaf 3")
    assert (found.rule, found.where, found.recomputed) == ("budget", "leaf 3", "0 remaining")


def test_an_approximate_ledger_is_the_inverse_of_its_promise_and_no_more() -> None:
    promise = Fraction(1), Fraction(1, 10**6)
    units = rho_star_nano(*promise)
    assert Account(APPROX, units, promise).filter.remaining_nano == units
    for wrong in (
        lambda: Account(APPROX, units + 1, promise),
        lambda: Account(APPROX, units),
        lambda: Account(PURE, 1, promise),
    ):
        with pytest.raises(InvalidParameterError):
            wrong()


def test_nothing_is_drawn_or_sold_above_what_was_reserved() -> None:
    opened = Account(ZCDP, 10**12)
    assert opened.plan("c", (MIDDLE, HALF), "leaf 1") == []
    assert opened.draw("c", TWO, "leaf 1") == [], "nothing is reserved yet"
    assert opened.sale("c", HALF.identity, RHO[MIDDLE.identity], "leaf 2") == []
    assert opened.plan("c", (TWO,), "leaf 3") == []
    assert [each.rule for each in opened.draw("c", TWO, "leaf 4")] == ["drawn-above-reserve"]
    assert opened.draw("c", HALF, "leaf 4") == []
    assert [each.rule for each in opened.sale("c", TWO.identity, 0, "leaf 5")] == ["above-reserve"]


@pytest.mark.parametrize(
    ("rule", "reserved", "above"), [(LevelRule.LATTICE, 1001, 1000), (LevelRule.ORDERS, 11_000, 9_000)]
)
def test_what_has_less_noise_than_the_reserved_tier_is_above_it_whatever_its_level(
    rule: LevelRule, reserved: int, above: int
) -> None:
    """Bounds of Skellam noise are coarser beyond rates of 10³ and 10⁴: there a level rises where noise is added."""
    low, top = (TierLaw(Skellam(Fraction(rate)), ChangeSet.scalar(1), SMALL) for rate in (reserved, above))
    opened, by = Account(ZCDP, 10**12), frozenset({rule})
    assert opened.plan("c", (low,), "leaf 1", by) == []
    assert opened.sale("c", low.identity, tier_level(ZCDP, low, rule), "leaf 2") == []
    assert tier_level(ZCDP, top, rule) < opened.filter.spent_nano
    assert opened.plan("c", (top,), "leaf 3", by) == []
    for judged in (opened.judge, opened.sale):
        assert [each.rule for each in judged("c", top.identity, 0, "leaf 4")] == ["above-reserve"]
        assert judged("c", low.identity, 0, "leaf 5") == []


@pytest.mark.parametrize("rule", LevelRule)
def test_a_chain_is_charged_by_the_rule_of_its_plans(rule: LevelRule) -> None:
    top, low = (TierLaw(Skellam(Fraction(rate)), ChangeSet.scalar(100), SMALL) for rate in (10**6, 4 * 10**6))
    (other,) = set(LevelRule) - {rule}
    for charged_by, due in ((rule, []), (other, ["reserve"])):
        opened = Account(ZCDP, 10**12)
        assert opened.plan("c", (low,), "leaf 1") == []
        assert opened.plan("c", (top, low), "leaf 2", frozenset({rule})) == []
        for false in (frozenset[LevelRule](), frozenset({other})):
            assert opened.plan("c", (low,), "leaf 3", false) == [], "a level that A1 finds changes no charge"
        charge = tier_level(ZCDP, top, charged_by)
        assert [each.rule for each in opened.sale("c", low.identity, charge, "leaf 4")] == due
        assert opened.filter.spent_nano == tier_level(ZCDP, top, rule)
        assert [each.rule for each in opened.sale("c", top.identity, 0, "leaf 5")] == []


def test_nothing_above_what_was_reserved_is_sold_because_a_newer_rule_would_make_it_cheap() -> None:
    top, mid, low = (
        TierLaw(Skellam(Fraction(rate)), ChangeSet.scalar(100), SMALL) for rate in (12 * 10**5, 2 * 10**6, 4 * 10**6)
    )
    reserved = tier_level(ZCDP, mid, LevelRule.ORDERS)
    assert tier_level(ZCDP, top) < reserved < tier_level(ZCDP, top, LevelRule.ORDERS)
    opened, by = Account(ZCDP, 10**12), frozenset({LevelRule.ORDERS})
    assert opened.plan("c", (mid, low), "leaf 1", by) == []
    assert opened.sale("c", low.identity, reserved, "leaf 2") == []
    assert opened.plan("c", (top,), "leaf 3", by) == []
    assert [each.rule for each in opened.sale("c", top.identity, 0, "leaf 4")] == ["above-reserve"]


def test_a_replayed_log_reads_the_rule_off_the_plans_it_holds() -> None:
    top, low = (TierLaw(Skellam(Fraction(rate)), ChangeSet.scalar(100), SMALL) for rate in (10**6, 4 * 10**6))
    for rule in LevelRule:
        replay = LedgerReplay()
        assert replay.budget(BudgetRecord(1, "data_1", 10**12, ZCDP)) == []
        levels = [tier_level(ZCDP, law, rule) for law in (top, low)]
        tiers = tuple(
            ClaimedTier(rank, law, law.epsilon(), level, 1)
            for rank, (law, level) in enumerate(zip((top, low), levels, strict=True), start=1)
        )
        assert replay.plan(PlanRecord(2, "prod", "c", "data_1", "snap_1", "ab" * 32, tiers)) == []
        for charge, due in ((levels[0], []), (0, []), (levels[0], ["increment-where-reserve-is-due"])):
            sale = SaleRecord(3, f"order {charge} {due}", "prod", "c", low.identity, charge, 5)
            assert [found.rule for found in replay.sale(sale)] == due


def test_families_and_slack_without_a_sound_charge_are_found() -> None:
    assert [each.rule for each in Account(PURE, 10**9).plan("c", (SKELLAM,), "leaf 1")] == ["family"]
    assert Account(ZCDP, 10**9).plan("c", (SKELLAM,), "leaf 1") == []
    assert [each.rule for each in Account(ZCDP, 10**9).plan("c", GAUSSIANS, "leaf 1")] == ["slack"]
    promise = Fraction(8), Fraction(1, 10**6)
    assert Account(APPROX, 1000, promise).plan("c", GAUSSIANS, "leaf 1") == []
    assert tier_level(ZCDP, GAUSSIANS[1]) == 125_000_000
    light = (
        TierLaw(MultiScaleDiscreteLaplace(3, Fraction(2)), ChangeSet.scalar(3)),
        TierLaw(TwoSidedGeometric(Fraction(1, 2)), ChangeSet.scalar(3)),
    )
    assert [each.recomputed for each in Account(PURE, 10**9).plan("c", light, "leaf 1")] == ["NoResidualError"]


def test_a_bridge_in_a_chain_with_slack_is_found() -> None:
    low = TierLaw(DiscreteGaussian(Fraction(3)), ONE, SMALL)
    assert 0 < slack_of([*GAUSSIANS]) < Fraction(1, 10**6)
    bridge = DrawSpec("0" * 64, 1, Role.BRIDGE, GAUSSIANS[1], (GAUSSIANS[0], low), 0, 1, "enumeration/1")
    (found,) = check_bridge(bridge, [GAUSSIANS[0], low], "leaf 7")
    assert (found.check, found.rule, found.where) == ("A2", "slack-bridged", "leaf 7")
    (found,) = check_bridge(
        DrawSpec("0" * 64, 1, Role.LATE_TOP, GAUSSIANS[0], (GAUSSIANS[1],), 0, 1, ""), [GAUSSIANS[1]], "leaf 7"
    )
    assert found.claimed == "late-top"
    step = DrawSpec("0" * 64, 1, Role.RESIDUAL, low, (GAUSSIANS[1],), 0, 1, "")
    assert check_bridge(step, GAUSSIANS, "leaf 7") == (), "drawn top-down, slack is the owner's to allow"
    assert check_bridge(DrawSpec("0" * 64, 1, Role.BRIDGE, MIDDLE, (TWO, HALF), 0, 1, ""), [TWO, HALF], "leaf 7") == ()
