"""A1 on chains of any family: each residual, label, bar and level recomputed; approximate tiers read right."""

from dataclasses import replace
from fractions import Fraction

import pytest

from tiers.accounting.charges import LedgerKind
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
