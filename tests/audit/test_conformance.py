"""A5: every bet fair by enumeration, alarms at the stated rate, each saboteur caught by its process in stated time."""

import hashlib
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import msgspec
import numpy as np
import pytest

from tests.audit.saboteurs import SABOTEURS, claimed, honest, values_until_alarm
from tiers.audit import wealth as wealth_module
from tiers.audit.alphabet import Alphabet, alphabet_of, bridge_alphabet, residues_of
from tiers.audit.bets import BETS, FAIR, bets_on, dirichlet_log, factors_of, plain_bets
from tiers.audit.independence import CLASSES, REPEATS, Habits, classes_of, repeat_logs
from tiers.audit.watch import Watch, WatchState, pair_name
from tiers.audit.wealth import Wealth
from tiers.chain.steps import between
from tiers.errors import InvalidParameterError
from tiers.identity import Role
from tiers.noise.msdlap import MultiScaleDiscreteLaplace
from tiers.noise.skellam import Skellam
from tiers.noise.table import LatticeTable
from tiers.noise.tsg import TwoSidedGeometric
from tiers.residual.plan import residual
from tiers.sampling.words import KeyedWords

HALF = Fraction(1, 2)
SMALL = LatticeTable(first=-1, masses=(1, 2, 1), bits=2)
"""A law in quarters: −1, 0, 1 with 1/4, 1/2, 1/4."""
CHANCES = {-1: Fraction(1, 4), 0: HALF, 1: Fraction(1, 4)}
LAWS = {
    "tsg 2→1": (TwoSidedGeometric(Fraction(2)), TwoSidedGeometric(Fraction(1))),
    "tsg, wide": (TwoSidedGeometric(Fraction(1, 500)), TwoSidedGeometric(Fraction(1, 1000))),
    "tsg, near": (TwoSidedGeometric(Fraction(1)), TwoSidedGeometric(Fraction(99, 100))),
    "skellam": (Skellam(Fraction(3)), Skellam(Fraction(8))),
    "skellam, wide": (Skellam(Fraction(10**5)), Skellam(Fraction(3 * 10**5))),
    "scales 2→1": (MultiScaleDiscreteLaplace(2, Fraction(4)), TwoSidedGeometric(Fraction(3, 4))),
    "scales 2→2": (MultiScaleDiscreteLaplace(2, Fraction(4)), MultiScaleDiscreteLaplace(2, Fraction(2))),
}


def step_of(name: str) -> object:
    return residual(*LAWS[name]).law


def tail(name: str, m: int) -> mpmath.mpf:
    """P(X ≥ m), m ≥ 1, by another road than the code's: the two-sided geometric's closed form, sums of Bessel functions."""
    upper, lower = LAWS[name]
    if isinstance(lower, Skellam):
        rate = mpmath.mpf(lower.rate.numerator - upper.rate.numerator)
        if m <= 400:
            near = mpmath.fsum(mpmath.exp(-2 * rate) * mpmath.besseli(k, 2 * rate) for k in range(1, m))
            zero = mpmath.exp(-2 * rate) * mpmath.besseli(0, 2 * rate)
            return (1 - zero) / 2 - near
        return mpmath.mpf(1)
    p, q = (mpmath.exp(-mpmath.mpf(law.rate.numerator) / law.rate.denominator) for law in (upper, lower))
    stay = (1 - q) ** 2 * p / ((1 - p) ** 2 * q)
    return (1 - stay) * q**m / (1 + q)


@pytest.mark.parametrize("name", ["tsg 2→1", "tsg, wide", "tsg, near", "skellam"])
def test_letters_hold_at_most_what_they_say(name: str) -> None:
    with mpmath.workdps(60):
        letters = alphabet_of(step_of(name))
        upto = [1 - tail(name, edge) if edge > 0 else tail(name, 1 - edge) for edge in letters.edges]
        chances = np.diff([mpmath.mpf(0), *upto, mpmath.mpf(1)])
        for chance, mass in zip(chances, letters.masses, strict=True):
            assert chance <= mpmath.mpf(mass) / 2**64 <= chance + mpmath.mpf(2) ** -62


@pytest.mark.parametrize("name", LAWS)
def test_no_bet_is_worth_more_than_its_stake(name: str) -> None:
    """Exact: letters' bounds times what the logs pay, as rationals; and nearly all of the stake is in play."""
    bets = bets_on(step_of(name))
    tables = [(bets.alphabet, bets.logs)]
    if bets.residues is not None:
        tables.append((bets.residues, bets.residue_logs))
    for alphabet, logs in tables:
        assert sum(alphabet.masses) >= 2**64
        assert logs.shape == (len(BETS), alphabet.size)
        for row in logs:
            worth = sum(
                Fraction(mass, 2**64) * Fraction(math.exp(log)) for mass, log in zip(alphabet.masses, row, strict=True)
            )
            assert worth <= 1 + (sum(alphabet.masses) - 2**64) / Fraction(2**64) if not row.any() else worth <= 1
            assert worth > Fraction(98, 100)


def test_factors_are_cut_down_where_bounds_are_loose() -> None:
    loose = Alphabet((0,), (3 << 62, 3 << 62))
    factors = factors_of(loose, np.array([0.25, 0.75]))
    assert sum(mass * factor for mass, factor in zip(loose.masses, factors, strict=True)) <= 2**96
    assert sum(factors) / 2**32 == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    "wrong", [np.array([1.0]), np.array([1.0, -0.1]), np.array([0.0, 0.0]), np.array([1.0, np.nan])], ids=str
)
def test_a_bet_on_nonsense_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(InvalidParameterError, match="bet"):
        factors_of(Alphabet((0,), (1 << 63, 1 << 63)), wrong)


def test_residue_classes_hold_at_most_what_they_say() -> None:
    for rate in (Fraction(1, 100), Fraction(1, 1000)):
        law = TwoSidedGeometric(2 * rate).residual_to(TwoSidedGeometric(rate))
        letters = residues_of(law)
        assert letters is not None
        places = range(-60_000, 60_001)
        sums = [0.0] * 8
        moves = 1 - law.stay_probability()
        for k in places:
            sums[k % 8] += moves * math.tanh(float(rate) / 2) * math.exp(-float(rate) * abs(k))
        sums[0] += law.stay_probability()
        for chance, mass in zip(sums, letters.masses, strict=True):
            assert chance < mass / 2**64 < chance * 1.15
    assert residues_of(step_of("tsg 2→1")) is None


def test_the_mixture_and_the_learner_are_supermartingales_on_a_small_law() -> None:
    """Every sequence of up to five values of a law in quarters: Σ probability·e ≤ 1 after each, and not far below."""
    bets = bets_on(SMALL)
    letters = bets.alphabet.letters([-1, 0, 1])
    for length in range(1, 6):
        total, learnt = Fraction(0), Fraction(0)
        for values in itertools.product((0, 1, 2), repeat=length):
            chance = math.prod((CHANCES[value - 1] for value in values), start=Fraction(1))
            made = Wealth.of_bets(len(BETS))
            for value in values:
                made.add(bets.logs[:, letters[value]], 1)
            counts = np.bincount([letters[value] for value in values], minlength=bets.alphabet.size)
            total += chance * Fraction(math.exp(made.log_e()))
            learnt += chance * Fraction(math.exp(dirichlet_log(counts, bets.alphabet)))
        assert Fraction(99, 100) < total <= 1
        assert Fraction(999, 1000) < learnt <= 1


def test_blocks_start_afresh_without_winning_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two values, every history of seven: what comes next is never worth more than what is held."""
    monkeypatch.setattr(wealth_module, "BLOCK", 2)
    win, lose = np.log([1.9]) - FAIR, np.log([0.1]) - FAIR

    def held(history: tuple[np.ndarray, ...]) -> Wealth:
        made = Wealth.of_bets(1)
        for gain in history:
            made.add(gain, 1)
        return made

    for length in range(7):
        for history in itertools.product((win, lose), repeat=length):
            now = Fraction(math.exp(held(history).log_e()))
            then = sum(Fraction(math.exp(held((*history, gain)).log_e())) for gain in (win, lose))
            assert then / 2 <= now
    assert held((lose,) * 7).block == 3


def test_bets_on_repeats_are_supermartingales_on_a_small_law() -> None:
    """All pairs of rows of two values: what one row says of the other, and one entry of the next, is worth its stake."""
    bets = bets_on(SMALL)
    groups = classes_of(bets.alphabet)
    letters = bets.alphabet.letters([-1, 0, 1])
    worth = np.zeros(len(REPEATS))
    habit = Fraction(0)
    for cells in itertools.product((0, 1, 2), repeat=4):
        chance = math.prod((CHANCES[cell - 1] for cell in cells), start=Fraction(1))
        before, after = letters[list(cells[:2])], letters[list(cells[2:])]
        worth += float(chance) * np.exp(repeat_logs(after, groups, before, groups.of_letter[before]))
        habits = Habits()
        habits.see(groups.of_letter[before], groups.of_letter[after], groups)
        habit += chance * Fraction(math.exp(habits.log_e()))
    assert worth.max() <= 1
    assert habit <= 1
    assert worth.min() > 0.2
    assert len({round(float(each), 12) for each in groups.odds if each}) > 1
    assert CLASSES == 5


def test_bridges_are_tested_given_their_gap() -> None:
    laws = [TwoSidedGeometric(Fraction(rate)) for rate in ("2", "1", "0.5")]
    law = between(Role.BRIDGE, laws[1], (laws[0], laws[2]))
    for gap in (-3, 0, 5):
        letters = bridge_alphabet(law, gap)
        assert letters is not None
        for j in range(-8, 12):
            mass = letters.masses[int(letters.letters([j])[0])]
            assert law.pmf(j, gap) * (1 - 1e-12) <= mass / 2**64 <= law.pmf(j, gap) * (1 + 1e-12) + 2**-62
        worth = (np.array(letters.masses) / 2**64 * np.exp(plain_bets(letters, 1.0))).sum(axis=1)
        assert worth.max() <= 1 + 1e-12
    assert bridge_alphabet(law, 65) is None, "known before the draw: leaving it out is fair"


@pytest.mark.statistical
def test_bridges_of_the_claimed_law_pass_and_others_do_not() -> None:
    laws = [TwoSidedGeometric(Fraction(rate)) for rate in ("2", "1", "0.5")]
    law = between(Role.BRIDGE, laws[1], (laws[0], laws[2]))
    top, middle, low = claimed(3000)
    bridge = replace(middle, role=Role.BRIDGE, parents=(top.law, low.law), sampler=law.name)
    gaps = [g % 7 - 3 for g in range(3000)]
    right, wrong = Watch(), Watch()
    drawn = law.draw(KeyedWords(hashlib.sha256(b"bridges").digest()), gaps)
    right.see(bridge, drawn, gaps)
    wrong.see(bridge, [0 if g % 2 else value for g, value in enumerate(drawn)], gaps)
    assert right.alarms() == ()
    assert {alarm.process for alarm in wrong.alarms()} == {"law", "pooled"}
    assert wrong.alarms()[0].pair == "bridge tsg rate=2 → tsg rate=1 → tsg rate=0.5"
    with pytest.raises(InvalidParameterError, match="one gap an entry"):
        right.see(bridge, drawn, gaps[1:])


def test_truth_draws_and_values_off_the_lattice_are_refused() -> None:
    base, step, _ = claimed(2)
    with pytest.raises(InvalidParameterError, match="residual"):
        Watch().see(base, [1, 2])
    with pytest.raises(InvalidParameterError, match="lattice"):
        Watch().see(step, [0, 0.5])  # type: ignore[list-item]
    with pytest.raises(InvalidParameterError, match="lattice"):
        Watch().see(step, np.array([0.0, 1.0]))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="alpha"):
        Watch(Fraction(0))


def test_answers_of_any_size_have_letters() -> None:
    step = claimed(2)[1]
    watch = Watch()
    watch.see(step, [10**40, -(10**40)])
    assert max(watch.peaks().values()) > 10


def test_the_order_of_feeding_and_a_pause_change_nothing() -> None:
    """A watch that was written down and read again goes on as if it had never stopped."""
    draws = [claimed(20, number) for number in range(6)]
    rows = [honest(each, bytes(32), number) for number, each in enumerate(draws)]
    whole, paused = Watch(), Watch()
    for spec, row in zip(draws, rows, strict=True):
        for place in (1, 2):
            whole.see(spec[place], row[place] - row[place - 1])
            written = msgspec.json.encode(paused.state())
            paused = Watch.of(msgspec.json.decode(written, type=WatchState))
            paused.see(spec[place], [int(value) for value in row[place] - row[place - 1]])
    assert paused.state() == whole.state()
    assert len(msgspec.json.encode(whole.state())) < 20_000
    with pytest.raises(InvalidParameterError, match="state"):
        Watch.of(replace(whole.state(), pooled=replace(whole.state().pooled, whole=(0.0,))))


@pytest.mark.statistical
@pytest.mark.parametrize("name", SABOTEURS)
def test_each_saboteur_is_caught_by_the_process_named_for_it(name: str) -> None:
    for seed in (1, 2, 3):
        assert values_until_alarm(SABOTEURS[name], seed) is not None


@pytest.mark.statistical
def test_honest_chains_of_each_kind_raise_no_alarm() -> None:
    """As many values as the slowest saboteur gets, from the same claims."""
    for length, number, total in ((8, 250, 1), (1000, 200, 1), (8, 30, 2**30)):
        watch = Watch()
        for each in range(number):
            draws = claimed(length, each, total=total)
            rows = honest(draws, bytes(32), each)
            for place in (1, 2):
                watch.see(draws[place], rows[place] - rows[place - 1])
        assert watch.alarms() == ()


@pytest.mark.statistical
def test_ville_holds_for_honest_chains_and_fails_for_wrong_ones() -> None:
    """Two arms at α = 1/5: of 300 honest logs, looked at after each draw, at most a fifth alarms; wrong ones mostly do."""

    def share(offset: int, spoil: int) -> float:
        alarmed = 0
        for log in range(300):
            watch = Watch(Fraction(1, 5))
            draws = claimed(60, log)
            rows = honest(draws, hashlib.sha256(f"{offset} {log}".encode()).digest(), log)
            for place in (1, 2):
                step = rows[place] - rows[place - 1]
                watch.see(draws[place], np.where(np.arange(60) % 3 == 0, spoil * step, step))
            alarmed += bool(watch.alarms())
        return alarmed / 300

    assert share(1, 1) < 0.2
    assert share(2, 4) > 0.8


@pytest.mark.long
@pytest.mark.statistical
def test_ten_thousand_honest_chains_raise_no_alarm() -> None:
    watch = Watch()
    for number in range(10_000):
        draws = claimed((1, 4, 20)[number % 3], number, ladder=("4", "2", "1", "0.5"))
        rows = honest(draws, hashlib.sha256(b"honest").digest(), number)
        for place in range(1, 4):
            watch.see(draws[place], rows[place] - rows[place - 1])
    assert watch.alarms() == ()


@pytest.mark.statistical
def test_a_late_fault_is_found_after_a_long_honest_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the stake starts afresh each block: what honest years cost does not shield what comes after them."""
    watch = Watch()
    monkeypatch.setattr(wealth_module, "BLOCK", 50_000)
    for number in range(10):
        draws = claimed(20_000, number)
        rows = honest(draws, bytes(32), number)
        watch.see(draws[1], rows[1] - rows[0])
    assert watch.alarms() == ()
    draws = claimed(20_000, 10)
    rows = honest(draws, bytes(32), 10)
    watch.see(draws[1], (rows[1] - rows[0]) * np.where(np.arange(20_000) % 8 == 0, 2, 1))
    assert {alarm.process for alarm in watch.alarms()} == {"law", "pooled"}
    (pair,) = watch.state().pairs
    assert max(pair.process.whole) < max(pair.process.recent) - 5, "the whole life's wealth would not have told"


def test_a_watch_that_saw_nothing_has_nothing_to_say_and_names_are_those_of_laws() -> None:
    assert Watch().alarms() == ()
    assert pair_name(claimed(1)[2]) == "residual tsg rate=1 → tsg rate=0.5"
