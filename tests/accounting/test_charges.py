"""The charge that is sound for each family and ledger; the one that is not, computed exactly."""

import math
import random
from fractions import Fraction
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers.accounting.charges import (
    CONCENTRATED_FAMILIES,
    PURE_FAMILIES,
    ChargeRule,
    Ledger,
    LedgerKind,
    charge_nano,
    charge_rule,
    level_nano,
    level_nano_of_rho,
)
from tiers.accounting.filters import ApproxFilter, PureFilter, ZCDPFilter
from tiers.accounting.stepwise import adaptive_loss, first_bit, naive_increment, reveal_step, upgrade_charge
from tiers.budget import NANO
from tiers.errors import BudgetExceededError, BudgetOrderError, InvalidParameterError

HALF, ONE = Fraction(1, 2), Fraction(1)


def test_the_rule_of_every_family_in_every_ledger() -> None:
    for family in PURE_FAMILIES:
        assert charge_rule(LedgerKind.PURE, family) is ChargeRule.INCREMENT
        assert charge_rule(LedgerKind.ZCDP, family) is ChargeRule.RESERVE
        assert charge_rule(LedgerKind.APPROX, family) is ChargeRule.RESERVE
    for family in CONCENTRATED_FAMILIES:
        wanted = ChargeRule.INCREMENT if family == "gaussian" else ChargeRule.RESERVE
        assert charge_rule(LedgerKind.ZCDP, family) is wanted
        assert charge_rule(LedgerKind.APPROX, family) is wanted
        with pytest.raises(InvalidParameterError, match="family: expected one with a pure ε"):
            charge_rule(LedgerKind.PURE, family)


@pytest.mark.parametrize("kind", LedgerKind)
def test_what_has_no_proof_is_refused(kind: LedgerKind) -> None:
    with pytest.raises(InvalidParameterError, match="family: expected one of"):
        charge_rule(kind, "staircase")
    for bad in (0.1, -1, True, math.nan):
        with pytest.raises(InvalidParameterError, match="slack: expected"):
            charge_rule(kind, "tsg", bad)  # type: ignore[arg-type]
    slack = Fraction(1, 10**9)
    if kind is LedgerKind.APPROX:
        assert charge_rule(kind, "gaussian", slack) is ChargeRule.RESERVE
        assert charge_rule(kind, "discrete-gaussian", slack) is ChargeRule.RESERVE
    else:
        with pytest.raises(InvalidParameterError, match="slack: expected 0"):
            charge_rule(kind, "tsg", slack)


def test_levels_are_rounded_up_once() -> None:
    assert level_nano(LedgerKind.PURE, Fraction(1, 3)) == 333_333_334
    assert level_nano(LedgerKind.ZCDP, Fraction(1, 3)) == level_nano(LedgerKind.APPROX, Fraction(1, 3)) == 55_555_556
    assert level_nano_of_rho(LedgerKind.ZCDP, Fraction(1, 3)) == 333_333_334
    with pytest.raises(InvalidParameterError, match="ledger: expected"):
        level_nano_of_rho(LedgerKind.PURE, ONE)
    for bad in (0, 0.5, math.nan, True, Fraction(-1)):
        with pytest.raises(InvalidParameterError, match="epsilon: expected"):
            level_nano(LedgerKind.PURE, bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameterError, match="rho: expected"):
            level_nano_of_rho(LedgerKind.ZCDP, bad)  # type: ignore[arg-type]


def test_a_reservation_is_the_top_once_and_nothing_above_it() -> None:
    rule = ChargeRule.RESERVE
    assert [charge_nano(rule, level, 500, charged) for level, charged in ((125, 0), (125, 500), (500, 500))] == [
        500,
        0,
        0,
    ]
    with pytest.raises(InvalidParameterError, match="level: expected at most the reserved level 500"):
        charge_nano(rule, 501, 800, 500)
    with pytest.raises(InvalidParameterError, match="level: expected at most the reserved level 500"):
        charge_nano(rule, 501, 500, 0)


@pytest.mark.parametrize("rule", ChargeRule)
@pytest.mark.parametrize("bad", [0.5, math.nan, -1, True, "1", None])
def test_amounts_that_are_no_integers_are_refused(rule: ChargeRule, bad: int) -> None:
    for name, amounts in (("level", (bad, 1, 0)), ("top", (1, bad, 0)), ("charged", (1, 1, bad))):
        with pytest.raises(InvalidParameterError, match=f"{name}: expected"):
            charge_nano(rule, *amounts)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), min_size=1, max_size=5), st.sampled_from(ChargeRule)
)
def test_order_of_sales_does_not_change_the_charges(sales: list[tuple[str, int]], rule: ChargeRule) -> None:
    ends = set()
    for order in permutations(sales):
        ledger = Ledger(PureFilter(100))
        for chain, level in order:
            ledger = ledger.sell(chain, rule, level=level, top=9)
        ends.add((ledger.filter.spent_nano, tuple(sorted(ledger.charged.items()))))
    ((spent, charged),) = ends
    assert spent == sum(value for _, value in charged)
    best = {chain: max(level for other, level in sales if other == chain) for chain, _ in sales}
    assert dict(charged) == (best if rule is ChargeRule.INCREMENT else dict.fromkeys(best, 9))


def test_a_refused_sale_changes_nothing_and_leaves_the_rest_usable() -> None:
    ledger = Ledger(PureFilter.of(ONE)).sell("a", ChargeRule.INCREMENT, level=NANO // 2)
    with pytest.raises(BudgetExceededError):
        ledger.sell("b", ChargeRule.INCREMENT, level=NANO)
    assert dict(ledger.charged) == {"a": NANO // 2}
    assert ledger.sell("b", ChargeRule.INCREMENT, level=NANO // 2).filter.remaining_nano == 0


# --- pure ledgers: every transcript of two interleaved chains of randomised bits ---------------------------------------

TIERS = (HALF, ONE, Fraction(2))


def tier_bits(truth: int) -> dict[tuple[int, ...], float]:
    """The joint law of one chain's bits, lowest tier first, drawn top-down."""
    top = 1 / (1 + math.exp(-float(TIERS[-1])))
    law = {(bit,): top if bit == truth else 1 - top for bit in (0, 1)}
    for lower, upper in reversed(list(pairwise(TIERS))):
        flip = (1 - math.tanh(float(lower) / 2) / math.tanh(float(upper) / 2)) / 2
        law = {(bit, *bits): p * (flip if bit != bits[0] else 1 - flip) for bits, p in law.items() for bit in (0, 1)}
    return law


LAWS = [tier_bits(truth) for truth in (0, 1)]


def issued_law(truth: int, bought: tuple[int | None, ...]) -> float:
    """The probability that the issued tiers of one chain show these bits; the unissued ones are summed out."""
    return sum(
        p for bits, p in LAWS[truth].items() if all(b is None or b == bit for b, bit in zip(bought, bits, strict=True))
    )


def worst_transcript(budget: Fraction, seed: int, truths: tuple[tuple[int, int], tuple[int, int]]) -> float:
    """The largest log ratio over all transcripts of one adaptive policy, drawn from `seed`, under the real ledger."""
    policy: dict[object, list[tuple[int, int]]] = {}
    rng = random.Random(seed)
    rule = charge_rule(LedgerKind.PURE, "flip")

    def walk(ledger: Ledger, shown: tuple[tuple[int | None, ...], tuple[int | None, ...]]) -> float:
        wishes = policy.setdefault(shown, rng.sample(list(product((0, 1), range(len(TIERS)))), 6))
        for chain, tier in wishes:
            if shown[chain][tier] is not None:
                continue
            try:
                after = ledger.sell(str(chain), rule, level=level_nano(LedgerKind.PURE, TIERS[tier]))
            except BudgetExceededError:
                continue
            outcomes = []
            for bit in (0, 1):
                row = tuple(bit if place == tier else value for place, value in enumerate(shown[chain]))
                outcomes.append(walk(after, (row, shown[1]) if chain == 0 else (shown[0], row)))
            return max(outcomes)
        one, other = (math.prod(issued_law(x, row) for x, row in zip(pair, shown, strict=True)) for pair in truths)
        return math.log(one / other)

    empty: tuple[int | None, ...] = (None,) * len(TIERS)
    return walk(Ledger(PureFilter.of(budget)), (empty, empty))


@pytest.mark.parametrize("budget", ["0.5", "1.5", "2", "2.5", "4"])
def test_guarantee_charge_rule(budget: str) -> None:
    """Pure ledgers: no transcript of any adaptive, interleaved run exceeds the budget; some run spends it all."""
    limit = Fraction(budget)
    worst = max(
        worst_transcript(limit, seed, truths)
        for seed in range(12)
        for truths in (((0, 0), (1, 1)), ((0, 1), (1, 0)), ((1, 1), (0, 0)))
    )
    assert worst <= float(limit) + 1e-12
    assert worst >= float(limit) - 1e-12


def test_guarantee_ledger() -> None:
    ledger = Ledger(ZCDPFilter.of(ONE))
    for chain in ("a", "b"):
        ledger = ledger.sell(chain, ChargeRule.RESERVE, level=125_000_000, top=500_000_000)
    assert ledger.filter.remaining_nano == 0
    assert ledger.sell("a", ChargeRule.RESERVE, level=500_000_000).filter.remaining_nano == 0
    assert Ledger(ApproxFilter.of(ONE, Fraction(1, 10**6))).charged == {}


# --- zCDP ledgers: the counterexample, which the sound rule passes and the naive increment fails -----------------------


def test_naive_increments_overspend_a_zcdp_ledger() -> None:
    """Buy the tier at .5; on a low bit against the truth upgrade to 1, else spend the same .375 on a Gaussian."""
    budget = float(ONE / 2)
    loss = adaptive_loss([HALF, ONE], 1.0)
    assert round(loss, 6) == 0.510714
    assert loss > budget
    renyi = adaptive_loss([HALF, ONE], 1.05)
    assert round(renyi, 3) == 0.537
    assert renyi > 1.05 * budget
    assert naive_increment(ONE, HALF) + HALF**2 / 2 == ONE / 2  # and yet the naive ledger says: exactly on budget


def test_reservations_do_not_overspend_where_increments_do() -> None:
    """Replay the counterexample's two branches in real ledgers: reserved, no branch has anything left for a Gaussian."""
    top, low = level_nano(LedgerKind.ZCDP, ONE), level_nano(LedgerKind.ZCDP, HALF)
    sound = Ledger(ZCDPFilter(top)).sell("chain", charge_rule(LedgerKind.ZCDP, "tsg"), level=low, top=top)
    assert sound.filter.remaining_nano == 0
    assert sound.sell("chain", ChargeRule.RESERVE, level=top).filter.remaining_nano == 0
    naive = Ledger(ZCDPFilter(top)).sell("chain", ChargeRule.INCREMENT, level=low, top=top)
    assert naive.sell("chain", ChargeRule.INCREMENT, level=top).filter.remaining_nano == 0
    assert naive.sell("gaussian", ChargeRule.INCREMENT, level=375_000_000).filter.remaining_nano == 0
    for order in (1.0, 1.05, 2.0, 7.0, 30.0):  # what the reserved chain reveals at most: all of it
        assert first_bit(ONE).divergence(order) <= order * top / NANO


def test_worst_overdraft_is_four_percent_for_two_tiers_and_seven_and_a_half_for_fifty() -> None:
    two = max(
        adaptive_loss([Fraction(share, 1000), Fraction(1, 10)], order) / order
        for share in range(48, 60)
        for order in (6.8, 7.0, 7.2, 7.4)
    )
    fifty = max(adaptive_loss([Fraction(i, 500) for i in range(1, 51)], order) / order for order in (10.5, 11.1, 11.7))
    assert round(100 * (two / 0.005 - 1), 1) in {4.1, 4.2}
    assert round(100 * (fifty / 0.005 - 1), 1) == 7.5


def test_the_upgrade_charge_covers_every_order_and_both_bits() -> None:
    for upper, lower, wanted in ((ONE, HALF, 0.4383), (Fraction(2), ONE, 1.5935)):
        charge = upgrade_charge(upper, lower)
        assert round(charge, 4) == wanted
        assert charge > naive_increment(upper, lower)
        for step in reveal_step(upper, lower):
            assert max(step.divergence(order) / order for order in (1.0, 1.1, 1.5, 2.0, 5.0, 50.0)) <= charge + 1e-12


@pytest.mark.parametrize("order", [1.0, 1.5, 4.0])
def test_a_walk_over_bits_is_the_chain_itself(order: float) -> None:
    """Without stopping, the steps' divergences chain to that of the top tier: the lower bits add nothing."""
    joint = [tier_bits(truth) for truth in (1, 0)]
    if order == 1.0:
        got = sum(p * math.log(p / joint[1][bits]) for bits, p in joint[0].items())
    else:
        got = math.log(sum(p**order * joint[1][bits] ** (1 - order) for bits, p in joint[0].items())) / (order - 1)
    assert math.isclose(got, first_bit(TIERS[-1]).divergence(order), rel_tol=1e-12)


def test_bad_steps_are_refused() -> None:
    for bad in (0, 0.5, math.nan, True):
        with pytest.raises(InvalidParameterError, match="epsilon: expected"):
            reveal_step(bad, HALF)  # type: ignore[arg-type]
    with pytest.raises(BudgetOrderError):
        reveal_step(HALF, HALF)
    with pytest.raises(InvalidParameterError, match="tiers: expected at least two"):
        adaptive_loss([ONE], 1.0)
    for order in (0.5, math.nan, math.inf):
        with pytest.raises(InvalidParameterError, match="order: expected"):
            adaptive_loss([HALF, ONE], order)
