"""Plans: the dynamic programme against every path, mixtures against their own bound, and the numbers of the menu table."""

from fractions import Fraction
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest

from tiers.budget import Ladder
from tiers.errors import InvalidParameterError, NoResidualError
from tiers.local.menu import Menu, best_subset_size, report_variance
from tiers.local.mixed import SHARE_UNIT, MixedPlan, plan_mixed
from tiers.local.paths import cheapest_path, least_worst_ratio
from tiers.local.planning import SubsetPlan, nests, plan_subset, template_ratios
from tiers.local.signal import Signal
from tiers.local.subset import Subset


def even(high: str, low: str, tiers: int) -> Ladder:
    top, bottom = Fraction(high), Fraction(low)
    return Ladder(tuple(top - (top - bottom) * i / (tiers - 1) for i in range(tiers)))


def all_ratios(menu: Menu) -> list[list[float]]:
    """Every path: sizes never fall, and the strength is the least cap so far."""
    found = []
    for sizes in combinations_with_replacement(menu.sizes, len(menu.ladder)):
        caps = [k * np.expm1(float(epsilon)) for k, epsilon in zip(sizes, menu.ladder, strict=True)]
        found.append(menu.ratios(sizes, np.minimum.accumulate(caps).tolist()).tolist())
    return found


@pytest.mark.parametrize(
    ("domain", "ladder"),
    [
        (4, even("3", "0.2", 5)),
        (7, even("5", "0.1", 5)),
        (9, even("1", "0.5", 4)),
        (12, even("4", "0.1", 4)),
        (2, even("2", "1", 3)),
    ],
    ids=str,
)
def test_the_programme_finds_the_best_of_all_paths(domain: int, ladder: Ladder) -> None:
    menu = Menu.of(domain, ladder)
    paths = all_ratios(menu)
    worst = min(max(path) for path in paths)
    assert least_worst_ratio(menu) == pytest.approx(worst, rel=1e-11)
    plan = plan_subset(domain, ladder)
    assert plan.worst_ratio == pytest.approx(worst, rel=1e-11)
    assert sum(plan.ratios) == pytest.approx(min(sum(p) for p in paths if max(p) <= worst * (1 + 1e-11)), rel=1e-11)
    for weights in (
        [1.0] * len(ladder),
        [float(i % 3 == 0) for i in range(len(ladder))],
        [1.0, *[0.1] * (len(ladder) - 1)],
    ):
        best = min(float(np.dot(weights, path)) for path in paths)
        found = cheapest_path(menu, np.array(weights))
        assert float(np.dot(weights, found.ratios)) == pytest.approx(best, rel=1e-11)
        bounded = min(float(np.dot(weights, path)) for path in paths if max(path) <= worst * 1.1)
        assert float(
            np.dot(weights, cheapest_path(menu, np.array(weights), bound=worst * 1.1).ratios)
        ) == pytest.approx(bounded)


@pytest.mark.parametrize("domain", [4, 10, 32])
def test_a_plan_is_what_its_mechanisms_are(domain: int) -> None:
    plan = plan_subset(domain, even("5", "0.1", 20))
    for epsilon, tier, ratio in zip(plan.ladder, plan.tiers, plan.ratios, strict=True):
        assert tier.epsilon() <= float(epsilon) * (1 + 1e-14)
        assert tier.variance() / best_subset_size(domain, epsilon)[1] == pytest.approx(ratio, rel=1e-9)
    assert all(nests(upper, lower) for upper, lower in pairwise(plan.tiers))


def test_the_variance_is_that_of_the_mechanism() -> None:
    for d, k, epsilon in ((10, 3, "0.7"), (100, 7, "2.3"), (3, 2, "0.01")):
        c = k * np.expm1(float(Fraction(epsilon)))
        assert Subset.paying(d, k, Fraction(epsilon)).variance() == pytest.approx(
            float(report_variance(d, np.array([float(k)]), np.array([c]))[0]), rel=1e-11
        )


def test_the_table_of_the_paper_and_of_one_path() -> None:
    assert max(template_ratios(10, even("4", "0.5", 5))) == pytest.approx(9.96, abs=0.005)
    assert plan_subset(10, even("4", "0.5", 5)).worst_ratio == pytest.approx(1, abs=1e-9)
    assert max(template_ratios(4, even("5", "0.1", 20))) == np.inf
    wanted = {4: 1.02, 10: 1.62, 32: 1.65, 100: 1.44}
    for domain, worst in wanted.items():
        plan = plan_subset(domain, even("5", "0.1", 20), slack=Fraction(1, 100))
        assert plan.worst_ratio <= 1.66
        assert plan.mean_ratio <= 1.06
        assert plan_subset(domain, even("5", "0.1", 20)).worst_ratio == pytest.approx(worst, abs=0.006)


@pytest.mark.parametrize(("domain", "worst"), [(4, 1.0171), (10, 1.1271), (32, 1.1512)])
def test_a_mixture_comes_near_its_own_bound(domain: int, worst: float) -> None:
    plan = plan_mixed(domain, even("5", "0.1", 20))
    assert plan.worst_ratio == pytest.approx(worst, abs=2e-3)
    assert plan.lower_bound <= plan.worst_ratio <= plan.lower_bound * 1.0011
    mixed = sum(share / SHARE_UNIT * np.array(path.ratios) for path, share in zip(plan.paths, plan.shares, strict=True))
    assert plan.ratios == pytest.approx(np.asarray(mixed).tolist(), rel=1e-12)


def test_the_owner_weighs_worst_against_mean() -> None:
    worst, both, mean = (plan_mixed(10, even("5", "0.1", 20), mean_weight=Fraction(w)) for w in ("0", "1/2", "1"))
    assert worst.worst_ratio < both.worst_ratio <= mean.worst_ratio
    assert mean.mean_ratio <= both.mean_ratio < worst.mean_ratio
    single = cheapest_path(Menu.of(10, even("5", "0.1", 20)), np.ones(20))
    assert mean.mean_ratio == pytest.approx(sum(single.ratios) / 20, rel=2e-3)


def test_every_label_has_one_path_in_its_share() -> None:
    path = plan_subset(4, Ladder.parse(["2", "1"]))
    plan = MixedPlan((path, path, path), (2**30, 2**31, 2**30), path.ratios, 1.0)
    ends = [0, 2**30 - 1, 2**30, 2**30 + 2**31 - 1, 2**30 + 2**31, 2**32 - 1]
    assert [plan.path_of(label) for label in ends] == [0, 0, 1, 1, 2, 2]
    for label in (-1, 2**32, True, 0.5, None):
        with pytest.raises(InvalidParameterError, match="label"):
            plan.path_of(label)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="shares"):
        MixedPlan((path,), (2**31,), path.ratios, 1.0)


def test_a_plan_that_breaks_a_rule_is_refused() -> None:
    ladder = Ladder.parse(["2", "1"])
    with pytest.raises(InvalidParameterError, match="at most ε = 1"):
        SubsetPlan(ladder, (Subset.paying(5, 1, Fraction(2)), Subset.paying(5, 1, Fraction(3, 2))), (1.0, 1.0))
    with pytest.raises(NoResidualError):
        SubsetPlan(ladder, (Subset.paying(5, 2, Fraction(2)), Subset.paying(5, 1, Fraction(1))), (1.0, 1.0))
    with pytest.raises(InvalidParameterError, match="2 tiers"):
        SubsetPlan(ladder, (Subset(5, 2, Signal.rational(Fraction(1, 10))),), (1.0,))
    with pytest.raises(InvalidParameterError, match="domain size"):
        plan_subset(1, ladder)
    with pytest.raises(InvalidParameterError, match="slack"):
        plan_subset(4, ladder, slack=Fraction(-1))
    with pytest.raises(InvalidParameterError, match="mean weight"):
        plan_mixed(4, ladder, mean_weight=Fraction(2))
    with pytest.raises(InvalidParameterError, match="sizes"):
        Menu(5, ladder, (3, 2))
