"""What coalitions learn: the rule, and the joint laws it rests on, enumerated."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers.accounting.baselines import chain_mse, gradual_release_mse, independent_release_epsilon
from tiers.accounting.coalition import Holding, coalition_loss
from tiers.accounting.joint import (
    JointLoss,
    Node,
    chain_nodes,
    coalitions,
    independent_nodes,
    joint_loss,
    star_nodes,
)
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

LADDER = Ladder.parse(["2", "1", "0.5"])
LAWS = [TwoSidedGeometric(epsilon) for epsilon in LADDER]
REACH = 121
CHAIN = chain_nodes([LAWS[0], LAWS[0].residual_to(LAWS[1]), LAWS[1].residual_to(LAWS[2])], REACH)
STAR = star_nodes([LAWS[0], LAWS[0].residual_to(LAWS[1]), LAWS[0].residual_to(LAWS[2])], REACH)
INDEPENDENT = independent_nodes(LAWS, REACH)


def loss(nodes: tuple[Node, ...], coalition: tuple[int, ...], epsilon: float = 1.0, core: int = 8) -> JointLoss:
    return joint_loss(nodes, coalition, epsilon=epsilon, window=60, core=core)


def exact_delta(claimed: float, epsilon: float) -> float:
    """δ(ε) of a two-sided geometric law at ε = claimed: the randomised response of the two truths."""
    p = 1 / (1 + math.exp(-claimed))
    return max(0.0, p - math.exp(epsilon) * (1 - p))


@pytest.mark.parametrize("coalition", coalitions(3))
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 1.7])
def test_a_chains_coalition_is_exactly_as_private_as_its_best_tier(coalition: tuple[int, ...], epsilon: float) -> None:
    best = float(LADDER.epsilons[min(coalition)])
    got = loss(CHAIN, coalition, epsilon)
    assert best - 1e-10 <= got.ratio_low <= best <= got.ratio_high
    assert got.delta_low <= exact_delta(best, epsilon) <= got.delta_high
    assert got.delta_high - got.delta_low < 1e-10


@pytest.mark.parametrize("coalition", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_nor_is_any_single_output_worse_anywhere_in_the_core(coalition: tuple[int, ...]) -> None:
    assert loss(CHAIN, coalition).ratio_high <= float(LADDER.epsilons[min(coalition)]) + 1e-6


def test_a_star_leaks_half_an_epsilon_more_than_it_says() -> None:
    got = loss(STAR, (1, 2), core=30)
    assert math.isclose(got.ratio_low, 1.5, abs_tol=1e-6)
    assert got.ratio_low <= 1.5
    assert round(got.delta_low, 3) == round(got.delta_high, 3) == 0.139
    for coalition in coalitions(3):
        if coalition != (1, 2):
            assert loss(STAR, coalition).ratio_low <= float(LADDER.epsilons[min(coalition)]) + 1e-10


def test_independent_draws_add_up() -> None:
    for coalition in coalitions(3):
        claimed = float(sum(LADDER.epsilons[tier] for tier in coalition))
        got = loss(INDEPENDENT, coalition)
        assert got.ratio_low <= claimed <= got.ratio_high
        assert math.isclose(got.ratio_low, claimed, abs_tol=1e-10)
    assert round(loss(INDEPENDENT, (0, 1, 2)).ratio_low, 9) == 3.5
    assert independent_release_epsilon(LADDER) == (Fraction(7, 2), Fraction(3, 2), Fraction(1, 2))


def test_gradual_release_loses_as_little_as_a_chain_but_is_less_accurate() -> None:
    """Fresh draws at ε_i − ε_{i+1}: everybody together loses ε_1, yet only the lowest tier is as good as it could be."""
    levels = [*LADDER, Fraction(0)]
    steps = [TwoSidedGeometric(upper - lower) for upper, lower in pairwise(levels)]
    nodes = independent_nodes(steps, REACH)
    for first in range(3):  # tier i is made of draws i … 3
        held = tuple(range(first, 3))
        assert math.isclose(loss(nodes, held).ratio_low, float(LADDER.epsilons[first]), abs_tol=1e-10)
    scalar = ChangeSet.scalar(1)
    variances = [step.variance() for step in steps]
    for tier, gradual in enumerate(gradual_release_mse(LADDER, scalar)):
        assert math.isclose(1 / gradual, sum(1 / variance for variance in variances[tier:]), rel_tol=1e-14)
    for chain, gradual in zip(chain_mse(LADDER, scalar)[:-1], gradual_release_mse(LADDER, scalar)[:-1], strict=True):
        assert gradual > 1.2 * chain
    assert math.isclose(chain_mse(LADDER, scalar)[-1], gradual_release_mse(LADDER, scalar)[-1], rel_tol=1e-14)


def test_a_shift_of_two_doubles_the_loss() -> None:
    got = joint_loss(CHAIN, (0, 1), epsilon=1.0, shift=2, window=59, core=8)
    assert math.isclose(got.ratio_low, 4.0, abs_tol=1e-9)


def test_intervals_hold_what_a_larger_window_finds() -> None:
    for nodes in (CHAIN, STAR, INDEPENDENT):
        for coalition in ((1,), (1, 2)):
            rough = joint_loss(nodes, coalition, epsilon=0.3, window=14, core=5)
            fine = joint_loss(nodes, coalition, epsilon=0.3, window=60, core=5)
            assert rough.delta_low <= fine.delta_low <= fine.delta_high <= rough.delta_high
            assert fine.delta_high - fine.delta_low < 1e-9
            assert rough.ratio_low <= fine.ratio_low + 1e-9
            assert fine.ratio_high <= rough.ratio_high + 1e-9


def test_the_lower_bound_on_delta_allows_for_what_the_other_truth_lacks() -> None:
    """Tier 2 hangs on an unseen tier 1 at 0 or 3; with truth 1 half of it leaves the window, and δ(0) is still 1/7."""
    base, step = np.zeros(15), np.zeros(15)
    base[[7, 10]], step[4:11] = 0.5, 1 / 7
    nodes = (Node(None, base, 0.0), Node(0, step, 0.0))
    for window in (2, 3):
        got = joint_loss(nodes, (1,), epsilon=0.0, window=window, core=1)
        assert got.delta_low <= 1 / 7 <= got.delta_high


def test_outputs_that_cannot_come_up_say_nothing() -> None:
    fair = np.zeros(31)
    fair[[14, 16]] = 0.5
    got = joint_loss((Node(None, fair, 0.0),), (0,), epsilon=0.0, shift=2, window=6, core=4)
    assert (round(got.delta_low, 9), round(got.delta_high, 9)) == (0.5, 0.5)
    assert got.ratio_high == got.ratio_low == math.inf


def test_a_residual_with_the_wrong_parameter_is_seen() -> None:
    """Tier 2 made with too little noise: its own marginal is no longer 1-DP."""
    wrong = chain_nodes([LAWS[0], LAWS[0].residual_to(TwoSidedGeometric(Fraction(6, 5)))], REACH)
    got = loss(wrong, (1,))
    assert got.ratio_low > 1.19
    assert got.delta_low > 0.01


def test_bad_windows_coalitions_and_tables_are_refused() -> None:
    for coalition in ((), (3,), (-1,)):
        with pytest.raises(InvalidParameterError, match="coalition: expected"):
            loss(CHAIN, coalition)
    for window, core in ((8, 8), (8, 0), (5000, 8)):
        with pytest.raises(InvalidParameterError, match="window: expected"):
            joint_loss(CHAIN, (0, 1), epsilon=1.0, window=window, core=core)
    with pytest.raises(InvalidParameterError, match="reach: expected"):
        joint_loss(CHAIN, (0, 1), epsilon=1.0, window=61, core=8)
    for table, outside in (
        ([0.5, 0.5], 0.0),
        ([-0.1, 1.1, 0.0], 0.0),
        ([0.5, math.nan, 0.5], 0.0),
        ([0.5, 0.5, 0.5], 0.0),
    ):
        with pytest.raises(InvalidParameterError, match="pmf: expected"):
            Node(None, np.array(table), outside)
    for outside in (-0.1, math.nan, 0.2):
        with pytest.raises(InvalidParameterError, match="outside: expected"):
            Node(None, np.array([0.2, 0.3, 0.2]), outside)


# --- the rule ----------------------------------------------------------------------------------------------------------


def held(chain: str, rank: int, epsilon: str, delta: str = "0") -> Holding:
    return Holding(chain, rank, Fraction(epsilon), Fraction(delta))


def test_the_best_tier_of_each_chain_counts_and_chains_add() -> None:
    everything = [held("a", 1, "2"), held("a", 2, "1"), held("b", 3, "0.5"), held("b", 2, "1"), held("a", 1, "2")]
    assert coalition_loss(everything).epsilon == 3
    assert coalition_loss(everything[1:4]).epsilon == 2
    assert coalition_loss([]).epsilon == 0


def test_rank_decides_not_epsilon() -> None:
    """Skellam (0.8, 10⁻³) is more accurate than (1, 10⁻⁹): best is rank 1, with its own δ."""
    got = coalition_loss([held("a", 1, "0.8", "0.001"), held("a", 2, "1", "0.000000001"), held("b", 1, "1", "0.1")])
    assert (got.epsilon, got.delta) == (Fraction("1.8"), Fraction("0.101"))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=8), st.randoms())
def test_order_and_repetition_do_not_matter(pairs: list[tuple[str, int]], rng: object) -> None:
    holdings = [Holding(chain, rank, Fraction(5 - rank)) for chain, rank in pairs]
    shuffled = holdings + holdings
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert coalition_loss(shuffled) == coalition_loss(holdings)


def test_bad_holdings_are_refused() -> None:
    for rank in (0, -1, 1.0, True):
        with pytest.raises(InvalidParameterError, match="rank: expected"):
            Holding("a", rank, Fraction(1))  # type: ignore[arg-type]
    for epsilon in (0, 0.5, math.nan):
        with pytest.raises(InvalidParameterError, match="epsilon: expected"):
            Holding("a", 1, epsilon)  # type: ignore[arg-type]
    for delta in (1, -1, 0.5, math.nan, True):
        with pytest.raises(InvalidParameterError, match="delta: expected"):
            Holding("a", 1, Fraction(1), delta)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="holdings: expected one guarantee"):
        coalition_loss([held("a", 1, "2"), held("a", 1, "1")])


def test_guarantee_coalition_loss() -> None:
    """Two chains bought by one coalition: the product of the enumerated losses is the sum of the best tiers."""
    first, second = loss(CHAIN, (1, 2)), loss(CHAIN, (2,))
    both = coalition_loss([held("a", 2, "1"), held("a", 3, "0.5"), held("b", 3, "0.5")])
    assert math.isclose(first.ratio_low + second.ratio_low, float(both.epsilon), abs_tol=1e-9)
