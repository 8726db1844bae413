"""A further ladder on a chain: known tiers are kept, new ones fit exactly between their neighbours, or are refused."""

import pytest

from tiers.budget import Ladder
from tiers.chain import extend, plan, plan_of
from tiers.chain.planner import ChainPlan
from tiers.errors import BudgetOrderError, InvalidParameterError, NoResidualError, SlackNotAllowedError, TierError
from tiers.identity import TierLaw
from tiers.sensitivity import ChangeSet


def laws(chain: ChainPlan) -> list[TierLaw]:
    return [tier.law for tier in chain.tiers]


@pytest.mark.parametrize(
    ("family", "delta"), [("tsg", "0"), ("auto", "0"), ("skellam", "0.000001"), ("lattice-gaussian", "0.000001")]
)
def test_an_extended_chain_has_its_old_laws_and_exact_steps(family: str, delta: str) -> None:
    change = ChangeSet.scalar(1 if family != "lattice-gaussian" else 4096)
    old = laws(plan(Ladder.parse(["2", "0.5"]), change, family, delta))
    made = extend(old, Ladder.parse(["4", "2", "1", "0.25"]), family, delta)
    assert set(old) < set(laws(made))
    assert [float(tier.epsilon) for tier in made.tiers] == pytest.approx([4, 2, 1, 0.5, 0.25])
    assert [tier.rank for tier in made.tiers] == [1, 2, 3, 4, 5]
    assert made.exact
    assert made.tiers[0].same_as_above is None
    assert all(tier.same_as_above is not None for tier in made.tiers[1:])


def test_the_order_in_which_ladders_come_makes_no_difference_to_the_laws() -> None:
    first = laws(plan(Ladder.parse(["2", "1", "0.5", "0.25"]), 1, "skellam", "0.001"))
    later = extend(first[1:3], Ladder.parse(["2", "0.25"]), "skellam", "0.001")
    assert laws(later) == first
    assert later == plan_of(first)


def test_auto_takes_another_family_where_the_best_has_no_step_to_its_neighbours() -> None:
    """At sensitivity 3 no residual leads from multi-scale noise at ε = 2 to the two-sided geometric at 1.5."""
    change = ChangeSet.scalar(3)
    low = laws(plan(Ladder.parse(["1.5"]), change, "tsg"))
    with pytest.raises(NoResidualError):
        extend(low, Ladder.parse(["2"]), "msdlap")
    made = extend(low, Ladder.parse(["2"]), "auto")
    assert [tier.law.noise.family for tier in made.tiers] == ["tsg", "tsg"]


def test_a_known_tier_is_kept_whatever_auto_would_choose_today() -> None:
    change = ChangeSet.scalar(2)
    geometric = laws(plan(Ladder.parse(["4"]), change, "tsg"))
    assert laws(plan(Ladder.parse(["4"]), change)) != geometric
    assert laws(extend(geometric, Ladder.parse(["4"]))) == geometric


@pytest.mark.parametrize(
    ("ladder", "family", "delta", "refusal"),
    [
        (["1"], "tsg", "0.001", InvalidParameterError),
        (["1"], "none", "0", InvalidParameterError),
        (["2"], "msdlap", "0", BudgetOrderError),
        (["1"], "skellam", "0", InvalidParameterError),
    ],
)
def test_what_does_not_fit_the_chain_is_refused(
    ladder: list[str], family: str, delta: str, refusal: type[TierError]
) -> None:
    old = laws(plan(Ladder.parse(["2", "0.5"]), ChangeSet.scalar(2), "tsg"))
    with pytest.raises(refusal):
        extend(old, Ladder.parse(ladder), family, delta)


def test_no_tier_joins_a_chain_with_slack_or_no_chain_at_all() -> None:
    loose = laws(plan(Ladder.parse(["3", "1"]), 1, "discrete-gaussian", "0.000001", allow_slack=True))
    with pytest.raises(SlackNotAllowedError):
        extend(loose, Ladder.parse(["2"]), "discrete-gaussian", "0.000001")
    with pytest.raises(InvalidParameterError):
        extend([], Ladder.parse(["2"]))
    with pytest.raises(InvalidParameterError):
        plan_of([])
