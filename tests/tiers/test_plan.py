"""Plans: the choice of families against brute force, certificates, yardsticks, guarantees, refusals; then time's inputs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tiers.budget import Ladder
from tiers.chain import CONFIDENCE, ChainPlan, PlannedTier, best_alone, plan
from tiers.chain.families import best_scales, calibrate, candidates, staircase_variance
from tiers.chain.planner import best_path
from tiers.errors import BudgetOrderError, InvalidParameterError, NoResidualError, SlackNotAllowedError, TierError
from tiers.guarantee import ApproxDP, PureDP, hockey_stick
from tiers.identity import TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.pure import scales_crossed
from tiers.noise.skellam import Skellam
from tiers.noise.staircase import Staircase
from tiers.noise.tsg import TwoSidedGeometric
from tiers.residual import SlackBound, residual
from tiers.sensitivity import ChangeSet

MICRO = "0.000001"
LADDERS = [
    (("4", "1.5"), 2),
    (("6", "3", "2", "1", "0.5"), 3),
    (("8", "6", "4", "2", "0.3"), 4),
    (("12", "10", "3", "0.1"), 6),
    (("2", "1"), 1),
    (("1", "0.5", "0.25"), 5),
]


@pytest.mark.parametrize(("texts", "sensitivity"), LADDERS, ids=str)
def test_the_choice_of_families_is_the_best_of_all_paths(texts: tuple[str, ...], sensitivity: int) -> None:
    """Every combination of two families tried, each step asked of the framework: no path is better than the plan."""
    change = ChangeSet.scalar(sensitivity)
    ladder = Ladder.parse(texts)
    layers = [
        {TwoSidedGeometric.at(e, change), MultiScaleDiscreteLaplace.at(e, change) if sensitivity > 1 else None} - {None}
        for e in ladder
    ]
    costs = {}
    for path in itertools.product(*layers):
        try:
            for upper, lower in itertools.pairwise(path):
                residual(upper, lower)
        except NoResidualError:
            continue
        ratios = [
            law.variance() / best_alone(e, Fraction(0), change).variance
            for law, e in zip(path, ladder, strict=True)
        ]  # fmt: skip
        costs[path] = (max(ratios), sum(ratios))
    chosen = tuple(tier.law.noise for tier in plan(ladder, change).tiers)
    assert costs[chosen] == min(costs.values())
    if sensitivity > 1 and texts[0] != "1":
        assert len(costs) > 1


def test_a_mixed_chain_has_the_marginals_of_its_families() -> None:
    chain = plan(Ladder.parse(["4", "1.5"]), 2)
    upper, lower = (tier.law.noise for tier in chain.tiers)
    assert (upper, lower) == (MultiScaleDiscreteLaplace(2, Fraction(4)), TwoSidedGeometric(Fraction(3, 4)))
    window = range(-200, 201)
    table = [np.array([law.pmf(k) for k in window]) for law in (upper, chain.edges[0], lower)]
    np.testing.assert_allclose(np.convolve(table[0], table[1], "same"), table[2], atol=1e-14)
    assert chain.certificates[0].rests_on == "ball arithmetic and the analytic sign of the tail"
    assert chain.exact
    assert chain.tiers[1].same_as_above == pytest.approx(chain.edges[0].pmf(0))
    assert upper.variance() < 0.6 * TwoSidedGeometric.at(Fraction(4), ChangeSet.scalar(2)).variance()


@pytest.mark.parametrize(("texts", "sensitivity"), LADDERS, ids=str)
def test_guarantee_a_tier_s_epsilon_is_exact_by_its_pmf(texts: tuple[str, ...], sensitivity: int) -> None:
    chain = plan(Ladder.parse(texts), sensitivity)
    for tier in chain.tiers:
        assert chain.guarantee(tier.rank) == PureDP(tier.epsilon)
        shifts = range(1, sensitivity + 1)
        losses = [
            tier.law.noise.log_pmf(x) - tier.law.noise.log_pmf(x + d)
            for d in shifts
            for x in range(-60 * sensitivity, 60 * sensitivity)
        ]
        assert max(losses) <= float(tier.epsilon) * (1 + 1e-9)
        assert max(losses) >= float(tier.epsilon) * (1 - 1e-6)


def test_approximate_tiers_hold_their_label_and_not_a_billionth_less() -> None:
    chain = plan(Ladder.parse(["2", "1", "0.5"]), 1, "skellam", MICRO)
    assert [tier.epsilon for tier in chain.tiers] == [2, 1, Fraction(1, 2)]
    for tier in chain.tiers:
        table = tier.law.noise.table(128)
        assert hockey_stick(table, 1, tier.epsilon) <= 1.0000001e-6
        assert hockey_stick(table, 1, tier.epsilon - Fraction(1, 10**6)) > 1e-6
        assert chain.guarantee(tier.rank) == ApproxDP(tier.epsilon, Fraction(1, 10**6))
    assert [edge.law for edge in chain.edges] == [
        Skellam(lower.law.noise.rate - upper.law.noise.rate)  # type: ignore[union-attr]
        for upper, lower in itertools.pairwise(chain.tiers)
    ]


@pytest.mark.parametrize("family", ["skellam", "discrete-gaussian", "tsg", "msdlap"])
def test_error_bars_are_those_of_the_laws(family: str) -> None:
    delta = MICRO if family in ("skellam", "discrete-gaussian") else "0"
    chain = plan(Ladder.parse(["3", "1", "0.2"]), 2, family, delta, allow_slack=family == "discrete-gaussian")
    for tier in chain.tiers:
        assert tier.half_width == tier.law.noise.half_width(CONFIDENCE)
        h = tier.half_width
        covered = [sum(tier.law.noise.pmf(k) for k in range(-reach, reach + 1)) for reach in (h, h - 1)]
        assert covered[0] >= 0.95 - 1e-12
        assert covered[1] < 0.95


def test_a_law_that_is_known_by_two_names_has_one_row_in_the_yardstick() -> None:
    best = best_alone(Fraction(1), Fraction(0), ChangeSet.scalar(1))
    assert best.family == "tsg"
    for tier in plan(Ladder.parse(["5", "1", "0.1"]), 1).tiers:
        assert tier.ratio == 1.0
    wide = plan(Ladder.parse(["4", "1.5"]), 2)
    assert all(tier.ratio is not None and tier.ratio >= 1 for tier in wide.tiers)


@pytest.mark.parametrize("step", [1, 2, 3, 10, 64])
@pytest.mark.parametrize("epsilon", ["8", "2", "0.5", "0.01"])
def test_the_staircase_of_the_yardstick_is_the_best_of_its_family(step: int, epsilon: str) -> None:
    change = ChangeSet.scalar(step)
    law = Staircase.at(Fraction(epsilon), change)
    assert staircase_variance(Fraction(epsilon), change) == pytest.approx(law.variance(), rel=1e-9)


def test_the_yardstick_of_a_large_sum_is_quick_and_scales() -> None:
    near, far = (staircase_variance(Fraction(2), ChangeSet.scalar(step)) for step in (4000, 4_000_000))
    assert far / near == pytest.approx(1e6, rel=1e-2)
    assert staircase_variance(Fraction(2), ChangeSet.scalar(4000)) == pytest.approx(
        min(_staircase(4000, r, 2.0) for r in range(1, 4001, 7)), rel=1e-4
    )


def _staircase(period: int, inner: int, rate: float) -> float:
    b = math.exp(-rate)
    a = (1 - b) / (2 * inner + 2 * b * (period - inner) - (1 - b))
    j = np.arange(period, dtype=float)
    weight = np.where(j < inner, a, a * b)
    return 2 * sum(float((weight * b**m * (m * period + j) ** 2).sum()) for m in range(40))


def test_the_discrete_gaussian_is_no_better_than_what_the_yardstick_says() -> None:
    delta = Fraction(1, 100)
    for epsilon in (Fraction(1, 20), Fraction(1, 5), Fraction(1)):
        best = best_alone(epsilon, delta, ChangeSet.scalar(1))
        laws = [calibrate(f, epsilon, delta, ChangeSet.scalar(1)) for f in ("tsg", "skellam", "discrete-gaussian")]
        assert best.variance == pytest.approx(min(law.variance() for law in laws), rel=1e-9)


def test_auto_takes_skellam_where_it_is_the_less_noisy_and_never_between() -> None:
    delta = Fraction(1, 5)
    change = ChangeSet.scalar(1)
    assert [law.family for law in candidates(Fraction(1, 2), delta, change)] == ["skellam", "tsg"]
    chain = plan(Ladder.parse(["0.5", "0.25"]), change, "auto", delta)
    assert [tier.law.noise.family for tier in chain.tiers] == ["skellam", "skellam"]
    assert chain.guarantee(1) == ApproxDP(Fraction(1, 2), delta)
    pure = plan(Ladder.parse(["0.5", "0.25"]), change)
    assert [tier.law.noise.family for tier in pure.tiers] == ["tsg", "tsg"]
    assert pure.tiers[0].variance > chain.tiers[0].variance


def test_on_a_vector_the_less_noisy_family_stands_on_each_tier() -> None:
    for change, families in (
        (ChangeSet(2, 2, 4), ["msdlap", "msdlap", "tsg"]),
        (ChangeSet(3, 2, 4), ["tsg", "tsg", "tsg"]),
        (ChangeSet(2, 10, 10), ["tsg", "tsg", "tsg"]),
    ):
        chain = plan(Ladder.parse(["8", "4", "1"]), change)
        assert [tier.law.noise.family for tier in chain.tiers] == families


def test_a_vector_s_epsilon_covers_every_change_vector() -> None:
    change = ChangeSet(bins=2, step=2, total=3)
    for family in ("tsg", "msdlap"):
        law = plan(Ladder.parse(["3"]), change, family).tiers[0].law.noise
        loss = {d: max(abs(law.log_pmf(x) - law.log_pmf(x - d)) for x in range(-40, 41)) for d in range(3)}
        worst = max(loss[abs(a)] + loss[abs(b)] for a in range(3) for b in range(3) if abs(a) + abs(b) <= 3)
        assert worst <= 3 * (1 + 1e-9)
        assert worst > 2.8


def test_slack_is_booked_with_every_tier_it_reaches() -> None:
    ladder = Ladder.parse(["3", "1.5", "0.7"])
    with pytest.raises(SlackNotAllowedError):
        plan(ladder, 1, "discrete-gaussian", MICRO)
    chain = plan(ladder, 1, "discrete-gaussian", MICRO, allow_slack=True)
    assert all(isinstance(certificate, SlackBound) for certificate in chain.certificates)
    taus = [certificate.tau for certificate in chain.certificates]
    assert [chain.slack(rank) for rank in (1, 2, 3)] == [0, taus[0], sum(taus)]
    for rank, tier in enumerate(chain.tiers, start=1):
        booked = chain.guarantee(rank)
        assert isinstance(booked, ApproxDP)
        extra = (1 + math.exp(tier.epsilon)) * float(chain.slack(rank))
        assert float(booked.delta - Fraction(1, 10**6)) == pytest.approx(extra, rel=1e-9, abs=1e-300)
    change = ChangeSet(bins=2, step=1, total=2)
    laws = [TierLaw(DiscreteGaussian(Fraction(sigma)), change, Fraction(1, 100)) for sigma in (1, 2)]
    labels = (Fraction(3), Fraction(1))
    rows = [PlannedTier(n + 1, law, labels[n], 1, 1, law.noise.variance(), None) for n, law in enumerate(laws)]
    twice = ChainPlan(change, tuple(rows))
    booked = twice.guarantee(2)
    assert isinstance(booked, ApproxDP)
    extra = (1 + math.exp(1)) * 2 * float(twice.slack(2))
    assert float(booked.delta - Fraction(1, 100)) == pytest.approx(extra, rel=1e-9)


def test_auto_prefers_exact_steps_even_where_slack_is_allowed() -> None:
    chain = plan(Ladder.parse(["2", "1"]), 1, "auto", MICRO, allow_slack=True)
    assert chain.exact


@pytest.mark.parametrize(("texts", "sensitivity"), [(("3", "2"), 3), (("2", "1"), 5)], ids=str)
def test_families_without_exact_tiers_are_refused_with_a_witness(texts: tuple[str, ...], sensitivity: int) -> None:
    with pytest.raises(NoResidualError) as refusal:
        plan(Ladder.parse(texts), sensitivity, "staircase", allow_slack=True)
    assert "eigenvalue" in refusal.value.witness
    assert plan(Ladder.parse(texts[:1]), sensitivity, "staircase").tiers[0].ratio == pytest.approx(1.0)


def test_a_pure_skellam_plan_is_refused_with_its_real_delta() -> None:
    with pytest.raises(InvalidParameterError, match=r"no Skellam law is ε-DP, .*0\.0904575"):
        plan(Ladder.parse(["1", "0.5"]), 1, "skellam")


@pytest.mark.parametrize("family", ["", "laplace", "TSG", "gaussian", "auto "])
def test_an_unknown_family_is_refused(family: str) -> None:
    with pytest.raises(InvalidParameterError, match="family"):
        plan(Ladder.parse(["1"]), 1, family)


@pytest.mark.parametrize("delta", ["-1", "nan", "1", "1.5", "1e-6", 0.1, True, None])
def test_a_delta_that_is_none_is_refused(delta: object) -> None:
    with pytest.raises(InvalidParameterError, match="delta"):
        plan(Ladder.parse(["1"]), 1, "tsg", delta)  # type: ignore[arg-type]


@pytest.mark.parametrize("sensitivity", [0, -1, 1.5, True, "1", None, 2**63])
def test_a_sensitivity_that_is_none_is_refused(sensitivity: object) -> None:
    with pytest.raises(InvalidParameterError):
        plan(Ladder.parse(["1"]), sensitivity)  # type: ignore[arg-type]


def tier(rank: int, epsilon: str, delta: Fraction = Fraction(0), sensitivity: int = 1) -> PlannedTier:
    noise = TwoSidedGeometric(Fraction(epsilon) / sensitivity)
    law = TierLaw(noise, ChangeSet.scalar(sensitivity), delta)
    return PlannedTier(rank, law, law.epsilon(), 1, 1, noise.variance(), None)


def test_guarantee_a_plan_falls_strictly_and_has_one_delta() -> None:
    change = ChangeSet.scalar(1)
    ChainPlan(change, (tier(1, "2"), tier(4, "1")))
    bad: list[tuple[tuple[PlannedTier, ...], type[TierError]]] = [
        ((), InvalidParameterError),
        ((tier(1, "1"), tier(2, "2")), BudgetOrderError),
        ((tier(1, "1"), tier(2, "1")), BudgetOrderError),
        ((tier(2, "2"), tier(1, "1")), InvalidParameterError),
        ((tier(1, "2"), tier(2, "1", Fraction(1, 10))), InvalidParameterError),
        ((tier(1, "2"), tier(2, "1", sensitivity=2)), InvalidParameterError),
    ]
    for tiers, error in bad:
        with pytest.raises(error):
            ChainPlan(change, tiers)
    with pytest.raises(InvalidParameterError, match="rank"):
        ChainPlan(change, (tier(1, "2"),)).guarantee(2)


def test_a_path_that_does_not_exist_is_none() -> None:
    one, two, three = (TwoSidedGeometric(Fraction(rate)) for rate in (3, 2, 1))
    assert best_path([{one: 1.0}, {two: 1.0}], lambda _, __: False) is None
    layers = [{one: 1.0, two: 1.3}, {two: 2.0, three: 1.2}]
    assert best_path(layers, lambda upper, lower: upper is one and lower is two) == (one, two)
    assert best_path(layers, lambda upper, lower: upper is two) == (two, three)
    assert best_path(layers, lambda _, __: True) == (one, three)


def test_the_worst_ratio_counts_first_and_then_the_sum() -> None:
    one, two, three, four = (TwoSidedGeometric(Fraction(rate)) for rate in (4, 3, 2, 1))
    layers = [{one: 1.0, two: 2.5}, {three: 3.0, four: 2.5}]
    straight = {(one, three), (two, four)}
    assert best_path(layers, lambda upper, lower: (upper, lower) in straight) == (two, four), "2.5 + 2.5 before 1 + 3"
    assert best_path([{one: 1.0, two: 1.3}, {three: 2.0}], lambda _, __: True) == (one, three)
    assert best_path([{two: 1.3, one: 1.0}, {three: 2.0}, {four: 1.0}], lambda _, __: True) == (one, three, four)


def test_extremes_of_the_ladder_are_planned_for_every_family() -> None:
    for texts in (("50", "49.9"), ("0.000002", "0.000001")):
        chain = plan(Ladder.parse(texts), 1)
        assert chain.tiers[0].variance < chain.tiers[1].variance
        assert 0 < chain.tiers[1].same_as_above <= 1  # type: ignore[operator]
    skellam = plan(Ladder.parse(["50", "10"]), 1, "skellam", MICRO)
    assert [each.epsilon for each in skellam.tiers] == [50, 10]


def test_a_discrete_gaussian_tier_reads_back() -> None:
    law = TierLaw(DiscreteGaussian(Fraction(3, 2)), ChangeSet.scalar(1), Fraction(1, 10**6))
    assert TierLaw.from_document(law.document()) == law
    assert not law.pure


@pytest.mark.parametrize(
    ("texts", "change"),
    [
        (["50", "40", "20"], ChangeSet.scalar(40)),
        (["50", "40", "20"], ChangeSet.scalar(64)),
        (["30", "20"], ChangeSet(bins=2, step=5, total=10)),
        (["30", "20"], ChangeSet(bins=4, step=3, total=12)),
    ],
    ids=str,
)
def test_auto_takes_multi_scale_noise_at_wide_steps_and_on_vectors(texts: list[str], change: ChangeSet) -> None:
    chain = plan(Ladder.parse(texts), change)
    plain = plan(Ladder.parse(texts), change, "tsg")
    for ours, other in zip(chain.tiers, plain.tiers, strict=True):
        assert ours.law.noise.family == "msdlap"
        assert ours.variance < other.variance / 3
        assert ours.law.epsilon() == ours.epsilon == other.epsilon
    assert chain.exact


@pytest.mark.parametrize(
    "change", [ChangeSet(5, 1, 5), ChangeSet(2, 6, 6), ChangeSet(3, 4, 10), ChangeSet.scalar(9)], ids=str
)
@pytest.mark.parametrize("epsilon", ["0.3", "3", "30"])
def test_the_best_number_of_scales_is_found_and_its_loss_holds(change: ChangeSet, epsilon: str) -> None:
    found = best_scales(Fraction(epsilon), change)
    if change.step == 1:
        assert found is None  # a second scale pays for the same bins, and adds noise
        return
    assert found is not None
    assert found.epsilon(change) == Fraction(epsilon)
    for scales in range(2, change.step + 1):
        law = MultiScaleDiscreteLaplace(scales, Fraction(epsilon) / scales_crossed(change, scales))
        assert found.variance() <= law.variance() * (1 + 1e-12)


@pytest.mark.parametrize("ladder", [["2", "1"], (Fraction(1000), Fraction(2)), (Fraction(1), Fraction(1)), None])
def test_only_a_checked_ladder_is_planned(ladder: object) -> None:
    with pytest.raises(InvalidParameterError, match="ladder"):
        plan(ladder, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="family"):
        plan(Ladder.parse(["2", "1"]), 1, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [None, {"2", "1"}, (text for text in ("2", "1"))], ids=["none", "set", "generator"])
def test_a_ladder_is_a_list(values: object) -> None:
    with pytest.raises(InvalidParameterError, match="ladder"):
        Ladder.parse(values)  # type: ignore[arg-type]


def test_where_the_best_is_not_known_no_ratio_to_it_is_told() -> None:
    small = Fraction(1, 10**6)
    at_most, beyond = ChangeSet(1024, 1, 1024), ChangeSet(1025, 1, 1025)
    ladder = Ladder.parse(("1",))
    assert plan(ladder, at_most, "auto", small).tiers[0].ratio == 1.0
    assert plan(ladder, beyond, "auto", small).tiers[0].ratio is None
    assert plan(ladder, beyond, "auto").tiers[0].ratio == 1.0
