"""Chains of local hashes for a menu: the programme against all chains, their ε and nesting, what is refused."""

import math
from collections.abc import Iterator
from fractions import Fraction

import pytest

from tiers.budget import Ladder
from tiers.errors import InvalidParameterError, NoResidualError
from tiers.local.hash_planning import HashPlan, hash_variance, plan_hash
from tiers.local.local_hash import LocalHash
from tiers.local.menu import best_subset_size
from tiers.local.signal import Signal


def chains(limit: int, tiers: int) -> Iterator[tuple[int, ...]]:
    """Every chain of numbers of buckets that divide each other."""
    if tiers == 0:
        yield ()
        return
    for rest in chains(limit, tiers - 1):
        for buckets in range(2, limit + 1):
            if not rest or rest[-1] % buckets == 0:
                yield (*rest, buckets)


def ratios(domain: int, ladder: Ladder, chain: tuple[int, ...]) -> list[float]:
    odds, found = math.inf, []
    for epsilon, buckets in zip(ladder, chain, strict=True):
        odds = min(odds, math.expm1(float(epsilon)) / buckets)
        found.append(hash_variance(domain, buckets, odds) / best_subset_size(domain, epsilon)[1])
    return found


@pytest.mark.parametrize("domain", [2, 7, 60])
@pytest.mark.parametrize("menu", [["3", "1"], ["2.5", "2", "0.5"], ["4", "2", "1", "0.1"]])
def test_no_chain_of_the_candidates_is_better(domain: int, menu: list[str]) -> None:
    ladder = Ladder.parse(menu)
    plan = plan_hash(domain, ladder, limit=24)
    tried = [ratios(domain, ladder, chain) for chain in chains(24, len(menu))]
    worst = min(max(each) for each in tried)
    assert max(plan.ratios) == pytest.approx(worst, rel=1e-12)
    mean = min(sum(each) for each in tried if max(each) <= worst * (1 + 1e-12))
    assert sum(plan.ratios) == pytest.approx(mean, rel=1e-12)


def test_of_chains_with_the_least_worst_ratio_the_one_of_least_mean_is_taken() -> None:
    """A dense menu: chains that tie in the worst tier differ in the others, and none may be dropped for the tie."""
    ladder = Ladder.parse(["4", "3.5", "3", "2.5", "2", "1.5", "1", "0.5"])
    plan = plan_hash(6, ladder, limit=16)
    tried = [ratios(6, ladder, chain) for chain in chains(16, len(ladder))]
    worst = min(max(each) for each in tried)
    mean = min(sum(each) for each in tried if max(each) <= worst * (1 + 1e-12))
    assert (max(plan.ratios), sum(plan.ratios)) == pytest.approx((worst, mean), rel=1e-12)


def test_every_tier_keeps_its_epsilon_and_follows_from_the_one_above() -> None:
    ladder = Ladder.parse([Fraction(50 - step, 10) for step in range(0, 48, 3)])
    plan = plan_hash(300, ladder)
    for epsilon, law in zip(ladder, plan.tiers, strict=True):
        assert law.epsilon() <= float(epsilon) * (1 + 1e-12)
    for upper, lower in zip(plan.tiers, plan.tiers[1:], strict=False):
        upper.check_step(lower)


def test_what_does_not_nest_or_spends_too_much_is_no_plan() -> None:
    ladder = Ladder.parse(["2", "1"])
    two, one = LocalHash.paying(6, Fraction(2)), LocalHash.paying(3, Fraction(1))
    assert HashPlan(9, ladder, (two, one)).ratios[0] > 1
    with pytest.raises(NoResidualError):
        HashPlan(9, ladder, (two, LocalHash.paying(4, Fraction(1))))
    with pytest.raises(InvalidParameterError):
        HashPlan(9, ladder, (two, LocalHash(3, Signal.paying(Fraction(2), coverage=Fraction(1, 3)))))
    with pytest.raises(InvalidParameterError):
        HashPlan(9, ladder, (two,))
    for limit in (1, 513, True, 2.0):
        with pytest.raises(InvalidParameterError):
            plan_hash(9, ladder, limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError):
        plan_hash(1, ladder)
