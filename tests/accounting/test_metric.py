"""Costs over any metric: enumerated mechanisms, conversions to the safe side, one budget over many components."""

import itertools
import math
from fractions import Fraction

import pytest

from tiers.accounting.charges import LedgerKind
from tiers.accounting.components import Component, ComponentLedger
from tiers.accounting.conversions import rho_star_nano, zcdp_admits
from tiers.accounting.curves import Spent, spent_epsilon
from tiers.accounting.filters import ApproxFilter, PureFilter, ZCDPFilter
from tiers.accounting.gaussian import gaussian_delta
from tiers.accounting.metric import EVERY, Cost, Measure, MetricFilter, cost_nano, covers
from tiers.budget import NANO
from tiers.errors import BudgetExceededError, InvalidParameterError
from tiers.noise.tsg import TwoSidedGeometric

HALF = Fraction(1, 2)
Law = dict[int, float]


def geometric(epsilon: Fraction, places: int) -> list[Law]:
    """Two-sided geometric noise on 0 … places − 1, clipped to the ends: ε-GP for |x − y|, by post-processing."""
    law, laws = TwoSidedGeometric(epsilon), []
    for x in range(places):
        seen = dict.fromkeys(range(places), 0.0)
        for k in range(-500, 501):
            seen[min(max(x + k, 0), places - 1)] += law.pmf(k)
        laws.append(seen)
    return laws


def renyi(one: Law, other: Law, order: float) -> float:
    logs = [order * math.log(one[z]) + (1 - order) * math.log(other[z]) for z in one]
    return (max(logs) + math.log(math.fsum(math.exp(log - max(logs)) for log in logs))) / (order - 1)


def infinity(one: Law, other: Law) -> float:
    return max(math.log(one[z] / other[z]) for z in one)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_a_gp_mechanism_keeps_its_concentrated_cost_pair_by_pair(epsilon: Fraction) -> None:
    laws, rho = geometric(epsilon, 6), Cost(Measure.GP, epsilon).concentrated().rate
    for x, y in itertools.permutations(range(6), 2):
        assert infinity(laws[x], laws[y]) <= epsilon * abs(x - y) * (1 + Fraction(1, 10**9))
        for order in (1.01, 1.5, 2.0, 7.0, 60.0):
            assert renyi(laws[x], laws[y], order) <= float(rho) * order * (x - y) ** 2 * (1 + 1e-9)


def test_a_stretched_function_costs_by_its_lipschitz_constant() -> None:
    """φ(x) = 3x: the mechanism at ε/3 a unit of φ is ε-GP on x, and no less would do."""
    cost, laws = Cost(Measure.GP, Fraction(1, 3)).after(Fraction(3)), geometric(Fraction(1, 3), 16)
    assert cost.rate == 1
    worst = max(infinity(laws[3 * x], laws[3 * y]) / abs(x - y) for x, y in itertools.permutations(range(6), 2))
    assert worst == pytest.approx(1, rel=1e-9)
    assert Cost(Measure.CGP, HALF, Fraction(9)).after(Fraction(3)) == Cost(Measure.CGP, Fraction(9, 2), Fraction(3))


def test_guarantee_component_ledger() -> None:
    """Two mechanisms on two components: over all pairs of tuples the loss is at most the sum of costs times dist_∞."""
    places, epsilons = 4, (Fraction(1, 2), Fraction(3, 4))
    one, two = (geometric(epsilon, places) for epsilon in epsilons)
    ledger = ComponentLedger(MetricFilter(PureFilter.of(sum(epsilons))))
    for name, epsilon in zip(("place", "income"), epsilons, strict=True):
        ledger = ledger.charge(Component(name), Cost(Measure.GP, epsilon))
    spent = ledger.ledger.filter.spent_nano / NANO
    worst = 0.0
    for x, y in itertools.product(itertools.product(range(places), repeat=2), repeat=2):
        distance = max(abs(a - b) for a, b in zip(x, y, strict=True))
        if distance:
            loss = infinity(one[x[0]], one[y[0]]) + infinity(two[x[1]], two[y[1]])
            worst = max(worst, loss / distance)
    assert worst <= spent * (1 + 1e-9)
    assert worst == pytest.approx(spent, rel=1e-9)  # and it is attained: components cannot be had for less
    assert sum(ledger.charged.values()) == ledger.ledger.filter.spent_nano


def test_a_changed_value_is_a_new_component_and_a_new_charge() -> None:
    half = Cost(Measure.CGP, HALF, Fraction(4))
    ledger = ComponentLedger(MetricFilter(ZCDPFilter.of(Fraction(1)), Fraction(4)))
    place = Component("place")
    ledger = ledger.charge(place, half).charge(place.changed(), half)
    assert ledger.ledger.filter.remaining_nano == 0
    with pytest.raises(BudgetExceededError):
        ledger.charge(place.changed().changed(), half)
    assert dict(ledger.charged) == {place: NANO // 2, place.changed(): NANO // 2}


def test_a_promise_that_ends_before_the_ledgers_reach_is_refused() -> None:
    near = Cost(Measure.CGP, HALF, Fraction(2))
    assert cost_nano(near, LedgerKind.ZCDP, Fraction(2)) == NANO // 2
    for wanted in (Fraction(3), EVERY):
        with pytest.raises(InvalidParameterError, match="reach"):
            cost_nano(near, LedgerKind.ZCDP, wanted)
        assert not covers(near.reach, wanted)
    with pytest.raises(InvalidParameterError, match="no ρ is worth an ε"):
        MetricFilter(PureFilter.of(Fraction(1))).admits(Cost(Measure.CGP, HALF))


def test_conversions_round_to_the_safe_side_both_ways() -> None:
    third = Cost(Measure.GP, Fraction(1, 3))
    assert cost_nano(third, LedgerKind.PURE, EVERY) * 3 > NANO
    assert Fraction(cost_nano(third, LedgerKind.ZCDP, EVERY), NANO) >= Fraction(1, 18)
    for reach in (Fraction(1), Fraction(5), Fraction(1, 7)):
        promise = Fraction(1), Fraction(1, 10**6), reach
        units = rho_star_nano(*promise)
        spent = MetricFilter(ZCDPFilter(units, units), reach)
        assert spent.epsilon_at(promise[1]) <= 1  # back again: ⌊ρ*⌋ never turns into more than was promised
        assert not zcdp_admits(Fraction(units + 1, NANO), *promise)


@pytest.mark.parametrize("spent", [1, 3 * NANO // 10, 7 * NANO // 10, 123_456_789_012_345_678])
def test_what_a_pure_ledger_spent_is_told_rounded_up(spent: int) -> None:
    told = MetricFilter(PureFilter(2**60, spent)).epsilon_at(Fraction(1, 10))
    assert Fraction(told) >= Fraction(spent, NANO) > Fraction(math.nextafter(told, 0.0))


def test_a_spent_gaussian_budget_keeps_the_promise_at_every_distance() -> None:
    reach, delta = Fraction(3), Fraction(1, 10**5)
    spent = MetricFilter(ZCDPFilter(NANO, NANO // 10), reach)
    epsilon = spent.epsilon_at(delta)
    for distance in (0.1, 0.5, 1.0, 2.0, 3.0):
        mu = math.sqrt(2 * 0.1) * distance
        assert gaussian_delta(mu, epsilon * distance) <= delta


def test_an_approximate_filter_has_one_reach() -> None:
    made = ApproxFilter.of(Fraction(1), Fraction(1, 10**6), 2)
    assert MetricFilter(made, Fraction(2)).kind is LedgerKind.APPROX
    with pytest.raises(InvalidParameterError, match="reach"):
        MetricFilter(made, Fraction(3))
    with pytest.raises(InvalidParameterError, match="finite Λ"):
        MetricFilter(ZCDPFilter(NANO, 1)).epsilon_at(Fraction(1, 10))


@pytest.mark.parametrize("rate", [0, -1, 0.5, float("nan"), True, "1"])
def test_bad_rates_and_reaches_are_refused(rate: object) -> None:
    with pytest.raises(InvalidParameterError, match="rate"):
        Cost(Measure.GP, rate)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="reach"):
        Cost(Measure.GP, HALF, rate)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="reach"):
        MetricFilter(PureFilter(1), rate)  # type: ignore[arg-type]


def test_only_gaussians_in_exact_arithmetic_are_on_the_exact_curve() -> None:
    delta = Fraction(1, 10**6)
    exactly, rule = spent_epsilon([Spent("gaussian", HALF), Spent("gaussian", HALF)], delta, 2)
    counted, other = spent_epsilon([Spent("gaussian", HALF), Spent("lattice-gaussian", HALF)], delta, 2)
    assert (rule, other) == ("exact", "formula (3)")
    assert exactly < counted
    assert gaussian_delta(math.sqrt(2) * 2, exactly * 2) <= delta
    with pytest.raises(InvalidParameterError, match="steps"):
        spent_epsilon([], delta)


@pytest.mark.parametrize(("name", "version"), [("", 1), ("x", 0), ("x", True), ("x", 1.5)])
def test_bad_components_are_refused(name: str, version: object) -> None:
    with pytest.raises(InvalidParameterError):
        Component(name, version)  # type: ignore[arg-type]


def test_what_a_component_is_charged_adds_up() -> None:
    place, ledger = Component("place"), ComponentLedger(MetricFilter(PureFilter.of(Fraction(1))))
    for share in (4, 4, 8):
        ledger = ledger.charge(place, Cost(Measure.GP, Fraction(1, share)))
    assert ledger.charged[place] == ledger.ledger.filter.spent_nano == 625_000_000
