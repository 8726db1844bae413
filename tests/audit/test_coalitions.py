"""A6: coalitions' losses against sums written out, joint laws convolved, and what one more purchase adds."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tiers.audit.coalitions import CoalitionLoss, Purchase, coalition_loss, what_if
from tiers.errors import AuditError, InvalidParameterError
from tiers.identity import TierLaw
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.skellam import Skellam
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sensitivity import ChangeSet

ONE = ChangeSet.scalar(1)
TWO, MIDDLE, HALF = (TierLaw(TwoSidedGeometric(Fraction(rate)), ONE) for rate in ("2", "1", "0.5"))
CLOSE = TierLaw(Skellam(Fraction("4.24")), ONE, Fraction(1, 1000))
WIDE = TierLaw(Skellam(Fraction("12.03")), ONE, Fraction(1, 10**9))
GAUSSIAN = TierLaw(DiscreteGaussian(Fraction(2)), ONE, Fraction(1, 1000))
HELD = [
    Purchase("ada", "flights", "a", MIDDLE),
    Purchase("bo", "flights", "a", HALF),
    Purchase("bo", "flights", "b", TWO),
    Purchase("cy", "trains", "t", HALF),
]


@pytest.mark.parametrize(
    ("buyers", "flights"),
    [(["ada"], "1"), (["bo"], "5/2"), (["ada", "bo"], "3"), (["ada", "bo", "cy"], "3")],
    ids=str,
)
def test_pure_losses_are_sums_of_the_best_tiers(buyers: list[str], flights: str) -> None:
    losses = coalition_loss(HELD, buyers)
    assert losses["flights"].basic().epsilon == Fraction(flights)
    assert losses["flights"].basic().delta == 0
    assert ("trains" in losses) == ("cy" in buyers)


def test_the_best_tier_is_the_most_accurate_one_not_the_largest_label() -> None:
    held = [Purchase("ada", "d", "a", CLOSE), Purchase("bo", "d", "a", WIDE)]
    assert CLOSE.epsilon() < WIDE.epsilon()
    loss = coalition_loss(held, ["ada", "bo"])["d"]
    assert (loss.basic().epsilon, loss.basic().delta) == (CLOSE.epsilon(), Fraction(1, 1000))
    assert loss.rho() is None


def test_what_one_more_purchase_adds() -> None:
    assert what_if(HELD, ["ada", "bo"], Purchase("ada", "flights", "a", TWO)).added() == 1
    assert what_if(HELD, ["ada", "bo"], Purchase("bo", "flights", "a", MIDDLE)).added() == 0
    new = what_if(HELD, ["ada"], Purchase("ada", "trains", "t", HALF))
    assert (new.before.basic().epsilon, new.after.basic().epsilon) == (0, Fraction(1, 2))
    with pytest.raises(AuditError, match="coalition"):
        what_if(HELD, ["ada"], Purchase("cy", "trains", "t", TWO))


def test_rho_and_renyi_are_sums_and_the_conversion_is_sound() -> None:
    held = [Purchase("ada", "d", str(n), law) for n, law in enumerate((MIDDLE, HALF, GAUSSIAN, CLOSE))]
    loss = coalition_loss(held, ["ada"])["d"]
    assert coalition_loss(held[:3], ["ada"])["d"].rho() == Fraction(1, 2) + Fraction(1, 8) + Fraction(1, 8)
    for order in (2, 5, 64):
        total = sum(each.law.noise.rdp(order, ONE) for each in held)
        assert total <= loss.renyi(order) <= total * (1 + 1e-9)
    assert loss.epsilon_at(Fraction(1, 10**5)) < float(Fraction(3)) + loss.basic().epsilon


def test_renyi_beats_the_sum_for_many_chains_and_never_the_exact_loss() -> None:
    """Sixty-four chains at ε = 1/10: the exact δ(ε) of the composed two-point laws, against the ε that A6 gives."""
    tenth = TierLaw(TwoSidedGeometric(Fraction(1, 10)), ONE)
    held = [Purchase("ada", "d", str(n), tenth) for n in range(64)]
    loss = coalition_loss(held, ["ada"])["d"]
    epsilon = loss.epsilon_at(Fraction(1, 10**5))
    assert epsilon < 4.5 < float(loss.basic().epsilon) == 6.4
    keep = 1 / (1 + math.exp(-0.1))  # a two-sided geometric tier says of neighbours what one randomised bit says
    ups = np.arange(65)
    chances = np.array([math.comb(64, int(u)) * keep**u * (1 - keep) ** (64 - u) for u in ups])
    ratios = 0.1 * (2 * ups - 64)
    delta = (chances * np.maximum(0, 1 - np.exp(epsilon - ratios))).sum()
    assert 0 < delta <= 1e-5


def test_slack_adds_to_delta_and_leaves_no_renyi_curve() -> None:
    loss = CoalitionLoss({"a": Purchase("ada", "d", "a", GAUSSIAN, slack=Fraction(1, 10**9))})
    assert (
        loss.basic().delta > Fraction(1, 1000) + (1 + Fraction(math.exp(float(GAUSSIAN.epsilon())) * 0.999999)) / 10**9
    )
    assert loss.rho() is None
    with pytest.raises(InvalidParameterError, match="slack"):
        loss.renyi(2)
    assert loss.epsilon_at(Fraction(1, 100)) == pytest.approx(float(GAUSSIAN.epsilon()))
    with pytest.raises(InvalidParameterError, match="delta"):
        loss.epsilon_at(Fraction(1, 10**6))


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), 0.5], ids=str)
def test_a_delta_that_is_none_is_refused(delta: object) -> None:
    with pytest.raises(InvalidParameterError, match="delta"):
        CoalitionLoss({}).epsilon_at(delta)  # type: ignore[arg-type]


def test_a_coalition_of_nobody_and_contradictions_are_refused() -> None:
    with pytest.raises(AuditError, match="at least one buyer"):
        coalition_loss(HELD, [])
    with pytest.raises(InvalidParameterError, match="lineage"):
        coalition_loss([*HELD, Purchase("ada", "trains", "a", HALF)], ["ada"])
    with pytest.raises(InvalidParameterError, match="slack"):
        coalition_loss([*HELD, Purchase("ada", "flights", "a", MIDDLE, Fraction(1, 9))], ["ada"])


def test_everybody_holds_the_highest_issued_tier_of_each_chain() -> None:
    sold = [("a", HALF), ("b", MIDDLE), ("a", MIDDLE), ("b", HALF)]
    held = [Purchase(f"buyer {number}", "d", chain, law) for number, (chain, law) in enumerate(sold)]
    assert coalition_loss(held, [each.buyer for each in held])["d"].basic().epsilon == 2
