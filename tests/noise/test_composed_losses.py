"""Composed privacy losses against enumeration in balls and integers: never below the exact δ, and no more above than said."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb

from tiers.budget import Ladder
from tiers.chain import best_alone, plan
from tiers.errors import InvalidParameterError
from tiers.guarantee import ApproxDP
from tiers.identity import TierLaw
from tiers.noise import composition
from tiers.noise.composition import compose
from tiers.noise.discrete_gaussian import DiscreteGaussian
from tiers.noise.geometric_losses import TOTAL_LIMIT, geometric_losses
from tiers.noise.law import guarantee_of
from tiers.noise.loss_grid import gridded, plus
from tiers.noise.losses import Losses, losses_of_table
from tiers.noise.skellam import Skellam
from tiers.noise.skellam_table import skellam_table
from tiers.noise.tails import TableTails
from tiers.noise.tsg import TwoSidedGeometric
from tiers.real import exact, precision
from tiers.sensitivity import ChangeSet

F = Fraction
BITS = 256


def ball_delta(law: TwoSidedGeometric, change: tuple[int, ...], epsilon: Fraction, reach: int) -> arb:
    """Return Σ max(P(x) − e^ε·P(x + d), 0) over every vector of outputs within the reach, in balls."""
    rows = [
        [(law.log_pmf_ball(x, BITS).exp(), law.log_pmf_ball(x + d, BITS).exp()) for x in range(-reach, reach + 1)]
        for d in change
    ]
    gamma, total = exact(epsilon).exp(), arb(0)
    for cells in product(*rows):
        here, there = arb(1), gamma
        for mass, moved in cells:
            here, there = here * mass, there * moved
        gain = here - there
        total += gain if gain > 0 else arb(0)
    return total


@pytest.mark.parametrize(
    ("rate", "change", "reach"),
    [
        (F(1, 3), (1, 1), 60),
        (F(2), (2, 1), 18),
        (F(7, 5), (3, 3), 26),
        (F(9), (4, 1), 12),
        (F(3), (2, 1, 1), 9),
    ],
    ids=str,
)
def test_composed_geometric_delta_is_the_enumerated_one(rate: Fraction, change: tuple[int, ...], reach: int) -> None:
    law, release = TwoSidedGeometric(rate), compose(TwoSidedGeometric(rate), change)
    pure = rate * sum(change)
    left = len(change) * 4 * math.exp(-float(rate) * (reach - max(change)))
    for epsilon in (F(0), pure / 7, pure * F(1, 2), pure - rate, pure * F(99, 100)):
        ours = release.delta(float(epsilon))
        with precision(BITS):
            wanted = ball_delta(law, change, epsilon, reach)
            assert arb(ours) >= wanted - arb(2) ** -200, "sound"
        assert ours <= float(wanted.mid()) * (1 + 1e-12) + left + 1e-14, "tight"


def table_delta(law: Skellam | DiscreteGaussian, change: tuple[int, ...], epsilon: Fraction, reach: int) -> tuple[F, F]:
    """Return bounds of the exact δ: a window of the outputs in integers, its errors and what it leaves out apart."""
    tails = law.tails(192)
    with precision(BITS):
        gamma = F(int((exact(epsilon).exp() * arb(2) ** 192).floor().unique_fmpz()), 1 << 192)
    size = len(change)
    rows = [[(tails.mass(x), tails.mass(x + d)) for x in range(-reach, reach + 1)] for d in change]
    total = 0
    for cells in product(*rows):
        here, there = math.prod(a for a, _ in cells), math.prod(b for _, b in cells)
        total += max(0, here * gamma.denominator - there * gamma.numerator)
    value = F(total, gamma.denominator << (192 * size))
    outside = F(2 * size * tails.tail(reach + 1 - max(change)), 1 << 192)
    error = F((2 * reach + 1) ** size * 8 * math.ceil(gamma), 1 << 192)
    return value - error, value + outside + error


@pytest.mark.parametrize(
    ("law", "change", "reach", "loose"),
    [
        (Skellam(F(2)), (1, 1), 24, 1e-10),
        (Skellam(F(3)), (3, 1), 30, 1e-10),
        (DiscreteGaussian(F(3, 2)), (2, 1), 16, 1e-10),
        (Skellam(F(1, 2)), (1, 1, 1), 13, 1e-4),
        (DiscreteGaussian(F(1)), (2, 1, 1), 11, 1e-2),
    ],
    ids=str,
)
@pytest.mark.parametrize("epsilon", [F(0), F(1, 3), F(2)])
def test_composed_delta_of_tables_is_the_enumerated_one(
    law: Skellam | DiscreteGaussian, change: tuple[int, ...], reach: int, loose: float, epsilon: Fraction
) -> None:
    low, high = table_delta(law, change, epsilon, reach)
    ours = F(compose(law, change).delta(composition.float_below(epsilon)))
    assert ours >= low, "sound"
    assert ours <= high * F(1 + loose), "tight"


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_what_is_too_small_to_be_sure_counts_as_lost(shift: int) -> None:
    """At 62 bits only the masses up to 6 are sure, so what is left out is seen at once."""
    law = Skellam(F(5))
    coarse = losses_of_table(TableTails(skellam_table(law.rate, 62)), shift)
    assert coarse.infinite == pytest.approx(law.cdf(-7) + law.cdf(shift - 7), rel=1e-9)
    for epsilon in (F(0), F(1, 2), F(1), F(3)):
        assert coarse.delta(float(epsilon)) >= law.delta(epsilon, ChangeSet.scalar(shift))


def test_no_mass_leaves_the_grid_by_adding_up() -> None:
    """Below the grid it counts as the lowest loss, above as infinite: δ at the lowest loss knows all of it."""
    points = 5
    one = np.random.default_rng(5).random(2 * points + 1)
    other = np.random.default_rng(6).random(2 * points + 1)
    masses, infinite = plus((one, 0.25), (other, 0.5), points)
    assert masses.sum() + infinite == pytest.approx((one.sum() + 0.25) * (other.sum() + 0.5), rel=1e-12)
    below = sum(one[i] * other[j] for i in range(11) for j in range(11) if i + j - 10 <= -points)
    above = sum(one[i] * other[j] for i in range(11) for j in range(11) if i + j - 10 > points)
    assert masses[0] == pytest.approx(below, rel=1e-12)
    assert infinite == pytest.approx(above + one.sum() * 0.5 + 0.25 * (other.sum() + 0.5), rel=1e-12)


def exact_delta(values: np.ndarray, masses: np.ndarray, epsilon: float) -> arb:
    with precision(BITS):
        terms = (
            (arb(float(m)), arb(epsilon) - arb(float(v))) for v, m in zip(values, masses, strict=True) if v > epsilon
        )
        return sum((mass * (1 - gap.exp()) for mass, gap in terms), arb(0))


def losses(size: int, spread: float, seed: int) -> Losses:
    generator = np.random.default_rng(seed)
    values = np.sort(generator.normal(0, spread, size))
    masses = generator.random(size) / size
    return Losses(values, masses, 0.0)


@pytest.mark.parametrize(("size", "spread"), [(3, 1.0), (400, 1e-3), (400, 30.0), (40_000, 1.0)])
def test_sums_of_many_losses_stay_above_the_exact_ones(size: int, spread: float) -> None:
    law = losses(size, spread, 7)
    for epsilon in (-spread, 0.0, spread / 3, 2 * spread):
        for ours in (law.delta(epsilon), float(law.deltas(np.array([epsilon]))[0])):
            wanted = exact_delta(law.values, law.masses, epsilon)
            with precision(BITS):
                assert arb(ours) >= wanted
            here = float(law.masses[law.values > epsilon].sum())
            assert ours <= float(wanted.mid()) + 1e-9 * here + 1e-299


def test_rounding_that_adds_up_is_paid_for() -> None:
    """A hundred thousand masses whose running sum always rounds down: a fixed allowance of 10⁻¹² would not do."""
    size = 200_000
    masses = np.full(size, 2.0**-53 * 1.999)
    masses[-1] = 1.0
    law = Losses(np.full(size, 5.0), masses, 0.0)
    with precision(BITS):
        total = sum((arb(float(mass)) for mass in masses), arb(0))
        wanted = total * (1 - arb(-5).exp())
        assert arb(float(law.deltas(np.array([0.0]))[0])) >= wanted
        assert arb(law.delta(0.0)) >= wanted


def test_losses_beyond_what_a_double_exponentiates_count_in_full() -> None:
    law = Losses(np.array([-720.0, 650.0, 690.0, 710.0]), np.array([0.25, 0.25, 0.25, 0.25]), 0.0)
    for epsilon in (-800.0, -5.0, 649.0, 695.0, 705.0, 709.9):
        with precision(BITS):
            wanted = exact_delta(law.values, law.masses, epsilon)
            for ours in (law.delta(epsilon), float(law.deltas(np.array([epsilon]))[0])):
                assert arb(ours) >= wanted


@pytest.mark.parametrize("width", [0.125, 0.1, 1e-4])
def test_a_law_on_the_grid_lies_above_the_law_off_it(width: float) -> None:
    points = 40
    near = width * np.arange(-30, 31)
    spread = np.random.default_rng(3).uniform(-1, 1, 60) * width * 39
    values = np.sort(np.concatenate([near, np.nextafter(near, 9), np.nextafter(near, -9), spread, [width * 60]]))
    masses = np.full(len(values), 1 / len(values))
    grid, infinite = gridded(Losses(values, masses, 0.0), width, points)  # the step that rounds losses
    places = width * np.arange(-points, points + 1, dtype=np.float64)
    assert infinite >= masses[0]
    for epsilon in [*near.tolist(), *(near[:-1] + width / 3).tolist()]:
        with precision(BITS):
            ours = exact_delta(places, grid, epsilon) + arb(infinite)
            assert ours >= exact_delta(values, masses, epsilon)
            assert ours <= exact_delta(values, masses, epsilon) + masses[0] + width**2 + width / 20


WISHES = [
    (F(1), F(1, 100), ChangeSet.scalar(1)),
    (F(1, 2), F(1, 10**6), ChangeSet.scalar(3)),
    (F(5), F(1, 10), ChangeSet.scalar(8)),
    (F(1), F(1, 10**6), ChangeSet(2, 1, 2)),
    (F(1), F(1, 1000), ChangeSet(2, 2, 3)),
]


@pytest.mark.parametrize(("epsilon", "delta", "change_set"), WISHES, ids=str)
def test_guarantee_a_geometric_law_at_delta_holds_and_no_less_noise_would(
    epsilon: Fraction, delta: Fraction, change_set: ChangeSet
) -> None:
    law, pure = TwoSidedGeometric.at(epsilon, change_set, delta), TwoSidedGeometric.at(epsilon, change_set)
    assert law.rate > pure.rate
    assert law.variance() < pure.variance()
    reach = math.ceil(34 / float(law.rate)) if change_set.bins == 1 else math.ceil(24 / float(law.rate))
    changes = composition.maximal_changes(change_set)
    with precision(BITS):
        assert all(ball_delta(law, change, epsilon, reach) <= exact(delta) for change in changes)
        less = TwoSidedGeometric(law.rate * (1 + F(1, 10**6)))
        assert any(ball_delta(less, change, epsilon, reach) > exact(delta) for change in changes)
    assert TierLaw(law, change_set, delta).epsilon() == epsilon
    assert guarantee_of(law, change_set, delta).epsilon <= epsilon * (1 + F(1, 10**12))


def test_delta_buys_a_vector_of_many_bins_much_less_noise() -> None:
    change = ChangeSet(500, 1, 500)
    law = TwoSidedGeometric.at(F(1), change, F(1, 10**6))
    assert law.variance() < TwoSidedGeometric.at(F(1), change).variance() / 25
    # the binomial law of the loss, summed in balls
    with precision(BITS):
        p = (-exact(law.rate)).exp()
        gain = arb(0)
        for lost in range(501):
            loss = exact(law.rate) * (500 - 2 * lost)
            if loss > 1:
                mass = arb(math.comb(500, lost)) * p**lost / (1 + p) ** 500
                gain += mass * (1 - (1 - loss).exp())
        assert gain <= arb(1) / 10**6
        assert gain > arb(1) / 10**6 * (1 - arb(10) ** -8)


def test_where_no_worst_change_is_found_the_pure_law_stands() -> None:
    change = ChangeSet(bins=50, step=1000, total=4000)
    law = TwoSidedGeometric.at(F(1), change, F(1, 10**6))
    assert law == TwoSidedGeometric.at(F(1), change)
    assert TierLaw(law, change, F(1, 10**6)).epsilon() == 1
    with pytest.raises(InvalidParameterError, match="maximal change vectors"):
        law.delta(F(1, 2), change)


def test_a_pure_law_with_a_delta_is_never_labelled_above_its_pure_epsilon() -> None:
    for rate in (F(1, 3), F("0.33333333333"), F(7)):
        for delta in (F(1, 10**30), F(1, 10**9), F(1, 10)):
            label = TierLaw(TwoSidedGeometric(rate), ChangeSet.scalar(1), delta).epsilon()
            assert label <= rate
            assert TwoSidedGeometric(rate).delta(label, ChangeSet.scalar(1)) <= delta


def test_wide_changes_of_a_geometric_law_are_joined_and_sound() -> None:
    change = (TOTAL_LIMIT, 1)
    rate = F(1, TOTAL_LIMIT)
    assert geometric_losses(rate, change) is None
    joined = compose(TwoSidedGeometric(rate), change).delta(0.5)
    narrow = TwoSidedGeometric(rate).delta(F(1, 2), ChangeSet.scalar(TOTAL_LIMIT))
    wide = TwoSidedGeometric(rate).delta(F(1, 2), ChangeSet.scalar(TOTAL_LIMIT + 1))
    assert narrow <= joined <= wide * 1.01


@pytest.mark.parametrize(
    "change", [ChangeSet.scalar(1), ChangeSet.scalar(4), ChangeSet(2, 2, 3), ChangeSet(20, 1, 20)], ids=str
)
def test_a_plan_with_delta_takes_what_it_allows(change: ChangeSet) -> None:
    ladder, delta = Ladder.parse(["3", "1", "0.25"]), F(1, 1000)
    pure = plan(ladder, change, "tsg")
    chosen = {family: plan(ladder, change, family, delta) for family in ("auto", "tsg")}
    for family, chain in chosen.items():
        assert chain.exact
        for tier, plain in zip(chain.tiers, pure.tiers, strict=True):
            assert tier.variance < plain.variance
            assert tier.epsilon == plain.epsilon or (tier.law.noise.family != "tsg" and family == "auto")
            assert chain.guarantee(tier.rank) == ApproxDP(tier.epsilon, delta), "never called pure"
            assert tier.ratio >= 1 - 1e-12
            assert best_alone(tier.epsilon, delta, change).variance <= tier.variance * (1 + 1e-9)
        assert [tier.epsilon for tier in chain.tiers] == list(ladder)
    worst = {family: max(tier.ratio for tier in chain.tiers) for family, chain in chosen.items()}
    assert worst["auto"] <= worst["tsg"] * (1 + 1e-9)


def test_a_delta_too_small_to_count_leaves_the_pure_law() -> None:
    for epsilon in (F(1, 3), F(2, 7), F(1)):
        law = TwoSidedGeometric.at(epsilon, ChangeSet.scalar(1), F(1, 10**30))
        assert epsilon <= law.rate <= epsilon * (1 + F(1, 10**11))
