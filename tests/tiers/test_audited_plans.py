"""A1 on chains of any family: each residual, label, bar and level recomputed; approximate tiers read right."""

from dataclasses import replace
from fractions import Fraction

import pytest

from tiers.accounting.charges import LedgerKind
from tiers.accounting.levels import LevelRule, tier_level
from tiers.audit.plans import PlanAudit
from tiers.audit.records import ClaimedTier, PlanRecord
from tiers.budget import Ladder
from tiers.chain import ChainPlan, plan
from tiers.identity import TierLaw, chain_identity
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

FINGERPRINT = "ab" * 32
CHAIN = chain_identity("data_1", "snap_1", FINGERPRINT)


def claims(chain: ChainPlan) -> tuple[ClaimedTier, ...]:
    return tuple(ClaimedTier(t.rank, t.law, t.epsilon, t.level_nano, t.half_width) for t in chain.tiers)


def rules(tiers: tuple[ClaimedTier, ...]) -> set[str]:
    record = PlanRecord(2, "prod", CHAIN, "data_1", "snap_1", FINGERPRINT, tiers)
    return {found.rule for found in PlanAudit().plan(record, "data_1", LedgerKind.PURE)}


def law(noise: object, sensitivity: int, delta: Fraction = Fraction(0)) -> TierLaw:
    return TierLaw(noise, ChangeSet.scalar(sensitivity), delta)  # type: ignore[arg-type]


MIXED = claims(plan(Ladder.parse(["4", "1.5", "0.5"]), 2))
SKELLAM = claims(plan(Ladder.parse(["2", "1"]), 1, "skellam", "0.000001"))


def test_honest_plans_of_any_pure_family_pass() -> None:
    assert rules(MIXED) == set()


def test_approximate_tiers_are_read_right_and_refused_in_a_pure_ledger_only() -> None:
    assert rules(SKELLAM) == {"pure", "chargeable"}


@pytest.mark.parametrize(
    ("chain", "spoil", "rule"),
    [
        (SKELLAM, {"epsilon": Fraction(999_999_999, 10**9)}, "guarantee"),
        (SKELLAM, {"half_width": SKELLAM[1].half_width - 1}, "error-bar"),
        (MIXED, {"level_nano": MIXED[1].level_nano - 1}, "level"),
    ],
    ids=["guarantee", "error-bar", "level"],
)
def test_a_claim_that_is_too_good_is_found(chain: tuple[ClaimedTier, ...], spoil: dict[str, object], rule: str) -> None:
    spoilt = (chain[0], replace(chain[1], **spoil), *chain[2:])  # type: ignore[arg-type]
    assert rules(spoilt) == rules(chain) | {rule}
    assert rule not in rules(chain)


WIDE = [law(Skellam(Fraction(rate)), 100, Fraction(1, 1000)) for rate in (10**6, 4 * 10**6, 9 * 10**6)]


def by(rule: LevelRule, *laws: TierLaw, first: int = 1) -> tuple[ClaimedTier, ...]:
    return tuple(
        ClaimedTier(
            rank,
            each,
            each.epsilon(),
            tier_level(LedgerKind.ZCDP, each, rule),
            each.noise.half_width(Fraction(95, 100)),
        )
        for rank, each in enumerate(laws, start=first)
    )


def found_in(*plans: tuple[ClaimedTier, ...]) -> list[list[str]]:
    audit = PlanAudit()
    return [
        [
            f"{found.rule} {found.where}"
            for found in audit.plan(
                PlanRecord(2, f"prod_{at}", CHAIN, "data_1", "snap_1", FINGERPRINT, tiers), "data_1", LedgerKind.ZCDP
            )
        ]
        for at, tiers in enumerate(plans)
    ]


@pytest.mark.parametrize("rule", LevelRule)
def test_a_chain_s_levels_may_be_by_either_rule(rule: LevelRule) -> None:
    assert found_in(by(rule, *WIDE[:2]), by(rule, *WIDE[:2]), by(rule, WIDE[2], first=3)) == [[], [], []]


def test_a_chain_s_levels_are_all_by_the_rule_of_its_first_plan() -> None:
    old, new = (by(rule, *WIDE[:2]) for rule in LevelRule)
    late = [by(rule, WIDE[2], first=3) for rule in LevelRule]
    assert found_in(old, new, late[1], late[0]) == [
        [],
        ["level leaf 2, tier 1", "level leaf 2, tier 2"],
        ["level leaf 2, tier 3"],
        [],
    ]
    assert found_in(new, old, late[0], late[1])[2:] == [["level leaf 2, tier 3"], []]
    assert found_in((old[0], new[1])) == [["level leaf 2, tier 2"]]
    assert found_in((new[0], old[1])) == [["level leaf 2, tier 2"]]
    again, other = old, replace(new[1], level_nano=new[1].level_nano - 1)
    assert found_in(again, again, late[1])[2] == ["level leaf 2, tier 3"], "a ladder seen before tells its rule too"
    assert found_in((new[0], other)) == [["level leaf 2, tier 2"]]


def test_a_ladder_judged_on_one_chain_tells_its_rule_on_the_next() -> None:
    audit, old, new = PlanAudit(), by(LevelRule.ORDERS, *WIDE[:2]), by(LevelRule.LATTICE, WIDE[2], first=3)
    for digest in ("ab" * 32, "cd" * 32):
        chain = chain_identity("data_1", "snap_1", digest)
        for place, (tiers, due) in enumerate([(old, []), (new, ["level"])]):
            record = PlanRecord(2, f"{digest} {place}", chain, "data_1", "snap_1", digest, tiers)
            assert [found.rule for found in audit.plan(record, "data_1", LedgerKind.ZCDP)] == due


def test_a_pair_without_residual_is_found_with_a_witness() -> None:
    upper, lower = law(MultiScaleDiscreteLaplace(3, Fraction(2)), 3), law(TwoSidedGeometric(Fraction(1, 2)), 3)
    tiers = tuple(
        ClaimedTier(rank, each, each.epsilon(), 1, each.noise.half_width(Fraction(95, 100)))
        for rank, each in enumerate((upper, lower), start=1)
    )
    assert "residual" in rules(tiers)
    record = PlanRecord(2, "prod", CHAIN, "data_1", "snap_1", FINGERPRINT, tiers)
    found = PlanAudit().plan(record, "data_1", LedgerKind.PURE)
    assert any("P(s = " in each.recomputed for each in found)


def test_slack_is_a_finding_where_exact_steps_are_due() -> None:
    chain = plan(Ladder.parse(["3", "1"]), 1, "discrete-gaussian", "0.000001", allow_slack=True)
    assert "residual" in rules(claims(chain))


def test_two_nominal_deltas_and_a_lighter_tail_are_found() -> None:
    delta = Fraction(1, 1000)
    upper = law(TwoSidedGeometric(Fraction(2)), 1, delta)
    lower = law(Skellam.at(Fraction(1), Fraction(1, 10**6), ChangeSet.scalar(1)), 1, Fraction(1, 10**6))
    tiers = tuple(ClaimedTier(rank, each, each.epsilon(), 1, 1) for rank, each in enumerate((upper, lower), start=1))
    assert {"one-delta", "residual"} <= rules(tiers)


def test_a_chain_whose_first_levels_are_by_either_rule_keeps_the_one_that_a_later_plan_shows() -> None:
    narrow, mid, low = (law(Skellam(Fraction(rate)), 1, Fraction(1, 10**9)) for rate in (500, 20_000, 40_000))
    first = by(LevelRule.ORDERS, narrow)
    assert first == by(LevelRule.LATTICE, narrow), "told by no level yet"
    for shown, other in (LevelRule, reversed(LevelRule)):
        later = by(shown, mid, first=2)
        assert found_in(first, later, by(shown, low, first=3)) == [[], [], []]
        assert found_in(first, later, by(other, low, first=3)) == [[], [], ["level leaf 2, tier 3"]]


@pytest.mark.parametrize(
    ("of_chain", "other"), [(LevelRule.ORDERS, LevelRule.LATTICE), (LevelRule.LATTICE, LevelRule.ORDERS)]
)
def test_a_ladder_that_was_right_on_another_chain_may_be_wrong_on_this_one(
    of_chain: LevelRule, other: LevelRule
) -> None:
    audit, theirs, ours = PlanAudit(), by(other, *WIDE[:2]), by(of_chain, *WIDE[:2])
    found = []
    for place, (digest, tiers) in enumerate([("cd" * 32, theirs), ("ab" * 32, ours), ("ab" * 32, theirs)]):
        chain = chain_identity("data_1", "snap_1", digest)
        record = PlanRecord(2, f"prod_{place}", chain, "data_1", "snap_1", digest, tiers)
        found.append([(each.rule, each.recomputed) for each in audit.plan(record, "data_1", LedgerKind.ZCDP)])
    assert found == [[], [], [("level", str(tier.level_nano)) for tier in ours]], "each by the rule of its own chain"
