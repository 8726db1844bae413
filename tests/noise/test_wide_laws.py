"""Laws too wide for a table: their (ε, δ) is the table's, and is found from few masses and tails."""

from collections.abc import Iterator
from fractions import Fraction

import pytest
from flint import arb

from tiers.noise import composition, skellam
from tiers.noise.hockey import delta_of_shift, epsilon_of_shift
from tiers.noise.joined import joined_losses
from tiers.noise.losses import Losses
from tiers.noise.saddle import log_pmf_ball, log_tail_ball
from tiers.noise.skellam import Skellam
from tiers.noise.skellam_table import skellam_reach, skellam_table
from tiers.noise.tails import BallTails, TableTails, Tails
from tiers.sensitivity import ChangeSet


class Counted:
    """How many masses, tails and joined curves were computed."""

    def __init__(self) -> None:
        self.masses = self.tails = self.curves = 0

    def mass(self, rate: Fraction, k: int, bits: int) -> arb:
        self.masses += 1
        return log_pmf_ball(rate, k, bits)

    def tail(self, rate: Fraction, k: int, bits: int) -> arb:
        self.tails += 1
        return log_tail_ball(rate, k, bits)

    def curve(self, tails: Tails, shift: int, points: int) -> Losses:
        self.curves += 1
        return joined_losses(tails, shift, points)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    counts = Counted()
    for cached in (skellam._tails, composition._single, composition._releases):
        cached.cache_clear()
    monkeypatch.setattr(skellam, "log_pmf_ball", counts.mass)
    monkeypatch.setattr(skellam, "log_tail_ball", counts.tail)
    monkeypatch.setattr(composition, "joined_losses", counts.curve)
    yield counts
    for cached in (skellam._tails, composition._single, composition._releases):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("rate", "shift"),
    [
        (Fraction(20_001), 1),
        (Fraction(20_001), 64),
        (Fraction(10**9), 3000),
        (Fraction(10**12), 64),
        (Fraction(10**14), 3000),
    ],
)
def test_an_exact_epsilon_reads_few_masses_at_any_rate(counted: Counted, rate: Fraction, shift: int) -> None:
    law, change = Skellam(rate), ChangeSet.scalar(shift)
    epsilon = law.epsilon_at(Fraction(1, 10**6), change)
    assert 0 < counted.masses <= 24
    assert 0 < counted.tails <= 24
    assert Fraction(law.delta(Fraction(epsilon), change)) <= Fraction(1, 10**6)


@pytest.mark.parametrize(
    "wanted", [Fraction(1, 100), pytest.param(Fraction(1, 10**4), marks=pytest.mark.long), Fraction(1, 10**6)]
)
def test_a_vector_at_a_tiny_budget_is_calibrated_from_few_curves(counted: Counted, wanted: Fraction) -> None:
    delta, change = Fraction(1, 10**6), ChangeSet(bins=2, step=10, total=15)
    law = Skellam.at(wanted, delta, change)
    assert 2 <= counted.curves <= 28, "two shifts a law, at most fourteen laws"
    points = counted.curves * (2 * 64 + 1)
    assert counted.masses <= 5 * points
    assert counted.tails <= 3 * points
    assert law.delta(wanted, change) <= delta
    smaller = Skellam(law.rate * (1 - Fraction(1, 10**8)))
    assert smaller.delta(wanted, change) > delta, "no wider than it needs"


@pytest.mark.parametrize("rate", [Fraction(20_000), Fraction(10**6)])
@pytest.mark.parametrize("shift", [1, 7, 500])
@pytest.mark.parametrize("delta", [Fraction(1, 3), Fraction(1, 10**3), Fraction(1, 10**9), Fraction(1, 10**15)])
def test_the_table_and_the_balls_give_one_epsilon_and_one_delta(rate: Fraction, shift: int, delta: Fraction) -> None:
    law = Skellam(rate)

    def table(bits: int) -> Tails:
        return TableTails(skellam_table(rate, bits))

    def dear(bits: int) -> Tails:
        return BallTails(law.log_pmf_ball, law.log_tail_ball, bits, skellam_reach(rate, bits + 2), bits, law.variance())

    one, other = (epsilon_of_shift(tails, shift, delta) for tails in (table, dear))
    assert abs(one - other) <= 3e-12 * max(one, 1e-9)
    loss = Fraction(one) + Fraction(1, 1000)
    first, second = (delta_of_shift(tails, shift, loss) for tails in (table, dear))
    assert abs(first - second) <= 3e-12 * first
