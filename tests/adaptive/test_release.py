"""What leaves: exact laws, charges before draws, and whole adaptive transcripts enumerated against the ledger."""

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import chi2

from tiers.accounting.charges import LedgerKind
from tiers.accounting.lattice import lattice_rho
from tiers.accounting.people import PeopleLedger
from tiers.adaptive.budgeting import doubling_split, even_split
from tiers.adaptive.counting import read_count
from tiers.adaptive.elimination import Fate, eliminate_far
from tiers.adaptive.queries import Plan, count_inside, density_at, nearest_to
from tiers.adaptive.release import PeopleRounds, keyed_streams, released_values
from tiers.adaptive.rounds import Mode, budget_levels, least_budget, round_law, schedule
from tiers.adaptive.shapes import Disc
from tiers.adaptive.space import Space
from tiers.adaptive.threshold import halfway, read_threshold
from tiers.adaptive.tiers import TierRounds, tier_intervals, tier_laws
from tiers.budget import NANO, Ladder
from tiers.canonical import Document, canonical_bytes
from tiers.errors import InvalidParameterError
from tiers.noise.lattice_gaussian import LatticeGaussian
from tiers.noise.tsg import TwoSidedGeometric
from tiers.sampling.words import KeyedWords

PLANE = Space((Fraction(-10), Fraction(-10)), Fraction(1, 16), (321, 321))
LINE = Space((Fraction(0),), Fraction(1, 8), (801,))
STREAMS = keyed_streams(bytes(range(32)), "tests")


def crowd(seed: int, people: int = 300) -> np.ndarray:
    return PLANE.locate(np.random.default_rng(seed).normal(0, 4, (people, 2)))


@pytest.mark.statistical
@pytest.mark.parametrize("mode", list(Mode))
def test_a_round_adds_its_law_and_no_other(mode: Mode) -> None:
    """Two arms: the variance of over 10⁵ noises is that of the law, and not one 3 % off."""
    places = np.full((120_000, 2), 160, np.int64)
    made = schedule(PLANE, mode, np.full(len(places), NANO // 2), (Fraction(1),))
    values = released_values(PLANE, mode, places, Disc((0.0, 0.0), 2.0).signed_distance)
    rounds = PeopleRounds(
        made, values, PeopleLedger.even(LedgerKind.ZCDP, len(places), Fraction(1)), np.arange(len(places)), STREAMS
    )
    shown, admitted = rounds(0, np.arange(len(places)))
    assert admitted.all()
    noise = (shown - values * float(PLANE.step)).ravel()
    sigma = made.laws[0][0].sigma * float(PLANE.step)
    degrees = len(noise)
    for factor, right in ((1.0, True), (1.03, False), (0.97, False)):
        square = float((noise**2).sum()) / (factor * sigma**2)
        tail = min(chi2.sf(square, degrees), chi2.cdf(square, degrees))
        assert (tail > 1e-9) == right
    assert abs(noise.mean()) < 6 * sigma / math.sqrt(degrees)


def test_a_draw_is_named_by_its_round_its_law_and_whom_it_asks() -> None:
    """So classes that the floor of σ gives one law share no words; nor does a round that other people are left in."""
    allowed = np.array([10**17, 10**16, 10**17], np.int64)
    made = schedule(LINE, Mode.DISTANCE, allowed, even_split(2))
    assert len({row[0].sigma for row in made.laws}) == 1 < len(made.laws), "two classes, one law"
    ledger = PeopleLedger(LedgerKind.ZCDP, allowed, np.zeros(3, np.int64))
    draws: list[bytes] = []

    def streams(draw: Mapping[str, Document]) -> KeyedWords:
        draws.append(canonical_bytes(dict(draw)))
        return STREAMS(draw)

    rounds = PeopleRounds(made, np.zeros(3, np.int64), ledger, np.arange(3), streams)
    shown, _ = rounds(0, np.arange(3))
    rounds(1, np.arange(3))
    rounds(1, np.array([0, 1]))
    assert (len(draws), len(set(draws))) == (6, 5), "who is alone in a class twice is the same draw"
    assert len(set(shown.tolist())) == 3
    wider = schedule(LINE, Mode.DISTANCE, np.full(3, NANO), even_split(2))
    PeopleRounds(wider, np.zeros(3, np.int64), ledger, np.arange(3), streams)(0, np.arange(3))
    narrower = schedule(LINE, Mode.DISTANCE, np.full(3, 2 * NANO), even_split(2))
    PeopleRounds(narrower, np.zeros(3, np.int64), ledger, np.arange(3), streams)(0, np.arange(3))
    assert draws[-1] != draws[-2], "one round of one crowd at two laws"


def test_a_repeated_round_gives_the_same_digits_and_no_two_draws_share_any() -> None:
    people = 64
    places = np.full((people, 2), 160, np.int64)
    values = released_values(PLANE, Mode.POINT, places, None)
    made = schedule(PLANE, Mode.POINT, np.full(people, NANO), even_split(2))
    ledger = PeopleLedger.even(LedgerKind.ZCDP, people, Fraction(2))

    def shown(place: int, who: np.ndarray, name: str = "q") -> np.ndarray:
        rounds = PeopleRounds(made, values, ledger, np.arange(people), keyed_streams(bytes(32), name))
        return rounds(place, who)[0]

    everybody = np.arange(people)
    assert (shown(0, everybody) == shown(0, everybody)).all()
    for other in (shown(1, everybody), shown(0, everybody, "p")):
        assert (other != shown(0, everybody)).mean() > 0.99
    fewer = everybody[1:]
    assert (shown(0, fewer) != shown(0, everybody)[1:]).mean() > 0.99


def test_charges_come_first_and_do_not_depend_on_the_data() -> None:
    people = 40
    budgets = np.random.default_rng(1).integers(NANO // 10, NANO, people)
    made = schedule(PLANE, Mode.POINT, budgets, doubling_split(3))
    spent = []
    for seed in (1, 2):
        ledger = PeopleLedger(LedgerKind.ZCDP, budgets // 2, np.zeros(people, np.int64))
        rounds = PeopleRounds(
            made, released_values(PLANE, Mode.POINT, crowd(seed, people), None), ledger, np.arange(people), STREAMS
        )
        admitted = [rounds(place, np.arange(people))[1] for place in range(3)]
        spent.append((rounds.ledger.spent.tolist(), np.array(admitted).tolist()))
    assert spent[0] == spent[1]
    assert not np.array(spent[0][1]).all()  # half the budget does not pay for the last round


def test_whoever_halts_in_the_middle_drops_out_and_the_estimate_says_so() -> None:
    plan = Plan(PLANE, Mode.DISTANCE, even_split(4), 0.1)
    places = PLANE.locate(np.array([[0.5, 0.0], [2.0, 0.0], [0.1, 0.1], [9.0, 9.0]]))
    allowed = np.full(4, NANO, np.int64)
    spent = np.array([0, 0, 0, 0], np.int64)
    ledger = PeopleLedger(LedgerKind.ZCDP, np.full(4, NANO, np.int64), spent)
    made = schedule(PLANE, Mode.DISTANCE, allowed, plan.parts)
    poor = PeopleLedger(LedgerKind.ZCDP, np.array([NANO, NANO * 6 // 10, NANO, NANO]), spent)
    values = released_values(PLANE, Mode.DISTANCE, places, Disc((0.0, 0.0), 2.0).signed_distance)
    rounds = PeopleRounds(made, values, poor, np.arange(4), STREAMS)
    intervals = made.intervals(0.1 / 16)
    ended = eliminate_far(intervals, rounds, lambda shown: shown)
    reading = read_count(ended, intervals)
    assert ended.of(Fate.DROPPED).tolist() == [1]  # on the border: nothing decides before its budget ends
    assert reading.dropped == 1
    assert reading.certain + reading.outside + reading.undecided == 3
    assert rounds.ledger.spent[1] == made.costs[0, :2].sum() <= NANO * 6 // 10
    assert ledger.spent.tolist() == [0] * 4


def test_people_without_budget_are_left_out_and_counted() -> None:
    plan = Plan(PLANE, Mode.DISTANCE, even_split(2), 0.1)
    spent = np.array([NANO, 0, NANO - 3], np.int64)
    ledger = PeopleLedger(LedgerKind.ZCDP, np.full(3, NANO, np.int64), spent)
    answer = count_inside(plan, PLANE.locate(np.zeros((3, 2))), Disc((0.0, 0.0), 5.0), ledger.budget, ledger, STREAMS)
    assert answer.excluded == 2
    assert answer.members.tolist() == [1]
    assert (answer.ledger.spent <= ledger.budget).all()
    assert answer.spent.tolist()[0] == answer.spent.tolist()[2] == 0 < answer.spent[1]
    broke = PeopleLedger(LedgerKind.ZCDP, np.full(3, NANO, np.int64), np.full(3, NANO, np.int64))
    with pytest.raises(InvalidParameterError, match="allowances"):
        count_inside(plan, PLANE.locate(np.zeros((3, 2))), Disc((0.0, 0.0), 5.0), broke.budget, broke, STREAMS)


@pytest.mark.parametrize("mode", list(Mode))
def test_no_ledger_is_overspent_and_a_baseline_spends_all(mode: Mode) -> None:
    places, rho = crowd(3), Fraction(2)
    ledger = PeopleLedger.even(LedgerKind.ZCDP, len(places), rho)
    plan = Plan(PLANE, mode, doubling_split(5), 0.1)
    args = places, Disc((1.0, 0.0), 3.0), ledger.remaining, ledger, STREAMS
    saving, all_of_it = count_inside(plan, *args), count_inside(plan, *args, adaptive=False)
    assert (saving.spent <= 2 * NANO).all()
    assert saving.spent.sum() < 0.9 * all_of_it.spent.sum()
    assert all_of_it.spent.min() > 2 * NANO * 0.99
    true = int((Disc((1.0, 0.0), 3.0).signed_distance(PLANE.coordinates(places)) < 0).sum())
    assert saving.reading.certain <= true <= saving.reading.certain + saving.reading.undecided


@pytest.mark.parametrize("mode", list(Mode))
def test_densities_and_neighbours_come_from_the_same_rounds(mode: Mode) -> None:
    places = crowd(4)
    ledger = PeopleLedger.even(LedgerKind.ZCDP, len(places), Fraction(400))
    plan = Plan(PLANE, mode, doubling_split(6), 0.1)
    args = ledger.remaining, ledger, STREAMS
    away = np.hypot(*(PLANE.coordinates(places) - [1.0, 1.0]).T)
    density = density_at(plan, places, (1.0, 1.0), 0.5, *args)
    assert density.reading.estimate == pytest.approx(np.exp(-2 * away**2).mean(), abs=0.01)
    assert density.reading.far > 0
    nearest = nearest_to(plan, places, (1.0, 1.0), 5, *args)
    assert away[nearest.reading.chosen].sum() <= np.sort(away)[:5].sum() * 1.2
    assert nearest.spent.mean() < 0.5 * ledger.budget[0]
    with pytest.raises(InvalidParameterError, match="bandwidth"):
        density_at(plan, places, (1.0, 1.0), 0.0, *args)
    with pytest.raises(InvalidParameterError, match="k"):
        nearest_to(plan, places, (1.0, 1.0), len(places), *args)


def test_one_person_and_all_points_equal_are_answered() -> None:
    for people in (1, 7):
        places = PLANE.locate(np.zeros((people, 2)))
        ledger = PeopleLedger.even(LedgerKind.ZCDP, people, Fraction(50))
        plan = Plan(PLANE, Mode.POINT, doubling_split(4), 0.05)
        answer = count_inside(plan, places, Disc((0.0, 0.0), 5.0), ledger.remaining, ledger, STREAMS)
        assert answer.reading.estimate == people


# --- whole transcripts, enumerated ---------------------------------------------------------------------------------


def skellam(variance: int, reach: int) -> np.ndarray:
    return ive(np.abs(np.arange(-reach, reach + 1)).astype(np.float64), float(variance))


@pytest.mark.parametrize("order", [1.05, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("change", [1, 3, 8])
def test_guarantee_people_rounds_against_the_worst_analyst(order: float, change: int) -> None:
    """Two rounds of Skellam noise; after the first, any rule may stop or go on. The best rule for the attacker goes on
    exactly where that helps: E[(P/Q)^(α−1)] is the sum over first values of what the better choice leaves."""
    first, second, reach = 100, 64, 160
    spent = lattice_rho(first, change, change) + lattice_rho(second, change, change)

    def moment(variance: int) -> np.ndarray:
        law = skellam(variance, reach + change)
        here, there = law[change:-change], law[2 * change :]
        kept = here[: len(there)]
        return kept**order * there ** (1 - order)

    go_on = max(1.0, float(moment(second).sum()))
    total = float(moment(first).sum()) * go_on
    assert math.log(total) / (order - 1) <= float(spent) * order * change**2
    assert math.log(total) / (order - 1) > float(spent) * order * change**2 * 0.4  # the test bites


@pytest.mark.parametrize("change", [1, 2, 5])
def test_guarantee_tier_rounds_on_every_transcript(change: int) -> None:
    """Reveal the low tier; go on to the high one only where it is undecided. Every transcript's ratio is at most e to
    what was charged for it, times the change; and stopping early really costs less."""
    ladder, at, window = Ladder.parse(["1", "0.25"]), 0.5, 90
    low, high = tier_laws(ladder)
    residual = high.residual_to(low)
    width = tier_intervals(tier_laws(ladder), 1, 1.0, 0.2).width[0, 0]
    k = np.arange(-window, window + 1)
    noise = np.array([high.pmf(int(j)) for j in range(-2 * window, 2 * window + 1)])
    step = np.array([residual.pmf(int(j)) for j in range(-2 * window, 2 * window + 1)])

    def joint(truth: int) -> np.ndarray:
        """P(r_high, r_low | truth), rows r_high."""
        return noise[k - truth + 2 * window][:, None] * step[k[None, :] - k[:, None] + 2 * window]

    one, other = joint(0), joint(change)
    early = (k < at - width) | (k > at + width)
    marginal = np.array([[low.pmf(int(j - truth)) for j in k] for truth in (0, change)])
    stopped = np.abs(np.log(marginal[0] / marginal[1]))[early]
    assert stopped.max() <= 0.25 * change * (1 + 1e-9)
    inner = np.abs(k) <= window - 20
    went_on = np.abs(np.log(one / other))[np.ix_(inner, ~early)]
    assert went_on.max() <= 1.0 * change * (1 + 1e-9)
    assert went_on.max() > 0.99 * change


def test_tiers_are_charged_the_highest_revealed_one() -> None:
    people = 200
    counts = np.random.default_rng(0).integers(0, 200, people)
    ladder = Ladder.parse(["1", "0.5", "0.25", "0.125"])
    ledger = PeopleLedger.even(LedgerKind.PURE, people, Fraction(1))
    rounds = TierRounds(counts.astype(np.int64), ladder, ledger, STREAMS)
    bound = halfway(100)
    ended = eliminate_far(
        tier_intervals(tier_laws(ladder), people, 1.0, 0.05 / 4), rounds, lambda v: v, low=bound, high=bound
    )
    levels = np.array([0, NANO // 8, NANO // 4, NANO // 2, NANO])
    assert rounds.ledger.spent.tolist() == levels[ended.answered].tolist()
    assert rounds.ledger.spent.mean() < NANO / 2
    wrong = [read_threshold(ended, 100, place).below != (counts[place] < 100) for place in range(people)]
    decided = [read_threshold(ended, 100, place).decided for place in range(people)]
    assert not any(np.array(wrong) & np.array(decided))


@pytest.mark.statistical
def test_tier_rounds_reveal_a_chain() -> None:
    """Each tier has its own law (two arms), and neighbours show the same number as often as a chain's do."""
    people, ladder = 40_000, Ladder.parse(["2", "1"])
    ledger = PeopleLedger.even(LedgerKind.PURE, people, Fraction(2))
    rounds = TierRounds(np.zeros(people, np.int64), ladder, ledger, STREAMS)
    everybody = np.arange(people)
    lower, upper = rounds(0, everybody)[0], rounds(1, everybody)[0]
    for shown, law in ((lower, TwoSidedGeometric(Fraction(1))), (upper, TwoSidedGeometric(Fraction(2)))):
        same = float((shown == 0).mean())
        room = 6 * math.sqrt(law.pmf(0) / people)
        assert abs(same - law.pmf(0)) < room
        assert abs(same - law.pmf(1)) > room
    stay = TwoSidedGeometric(Fraction(2)).residual_to(TwoSidedGeometric(Fraction(1))).pmf(0)
    assert abs(float((lower == upper).mean()) - stay) < 6 * math.sqrt(stay / people)


# --- laws, classes and spaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("budget", [10**5, 10**6, NANO // 3, 7 * NANO, 90 * NANO])
def test_a_round_law_costs_what_it_may_and_one_step_less_noise_would_cost_more(mode: Mode, budget: int) -> None:
    law = round_law(budget, PLANE, mode)
    assert law.cost_nano <= budget
    gaussian = 1 / (2 * (law.sigma * float(PLANE.step)) ** 2)
    assert gaussian <= budget / NANO  # never less noise than a Gaussian would need
    assert law.cost_nano >= budget * 0.95
    assert LatticeGaussian(Fraction(law.sigma)).variance() == law.sigma**2


def test_rounding_a_distance_to_a_step_moves_it_no_further_than_is_paid_for() -> None:
    """Every pair of a small grid: the released integers differ by at most (1 + 2/fine) times the places' distance."""
    space = Space((Fraction(0), Fraction(0)), Fraction(1, 3), (9, 9), fine=16)
    places = np.array(list(itertools.product(range(9), repeat=2)), np.int64)
    for shape in (Disc((1.1, 0.7), 0.9), Disc((5.0, -2.0), 1.0)):
        steps = released_values(space, Mode.DISTANCE, places, shape.signed_distance)
        for one, other in itertools.combinations(range(len(places)), 2):
            away = math.dist(places[one], places[other]) * space.fine
            assert abs(int(steps[one] - steps[other])) <= away * (1 + 2 / space.fine)


def test_classes_lose_a_twentieth_at_most_and_equal_budgets_nothing() -> None:
    allowed = np.random.default_rng(5).integers(10**6, 10**9, 500)
    classes, levels = budget_levels(allowed)
    kept = np.array(levels)[classes]
    assert (kept <= allowed).all()
    assert (kept * 1.0501 + 2 >= allowed).all()
    assert len(levels) < 200
    assert budget_levels(np.full(9, 12345, np.int64))[1] == (12345,)


def test_the_least_budget_is_one_that_has_a_law() -> None:
    for space in (PLANE, LINE):
        for mode in Mode:
            assert round_law(least_budget(space, mode), space, mode).cost_nano > 0
            assert round_law(10**18, space, mode).sigma == 1024  # as little noise as a lattice law may have
    with pytest.raises(InvalidParameterError, match="budget"):
        round_law(1, LINE, Mode.POINT)


@pytest.mark.parametrize("units", [0, -1, 1.5, True, math.nan])
def test_budgets_that_are_not_whole_units_are_refused(units: object) -> None:
    with pytest.raises(InvalidParameterError, match="budget"):
        round_law(units, LINE, Mode.POINT)  # type: ignore[arg-type]


def test_bad_plans_people_and_places_are_refused() -> None:
    for parts in ((), (Fraction(1), Fraction(1)), (Fraction(0),), (0.5,)):
        with pytest.raises(InvalidParameterError, match="parts"):
            schedule(LINE, Mode.POINT, np.full(1, NANO), parts)  # type: ignore[arg-type]
    for beta in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidParameterError, match="beta"):
            Plan(LINE, Mode.POINT, (Fraction(1),), beta)
    for rows in (np.array([[math.nan, 0.0]]), np.array([[math.inf, 0.0]]), np.zeros((1, 3)), np.zeros(2)):
        with pytest.raises(InvalidParameterError, match="points"):
            PLANE.locate(rows)
    for places in (np.zeros((0, 2), np.int64), np.zeros((1, 2)), np.full((1, 2), -1), np.full((1, 2), 321)):
        with pytest.raises(InvalidParameterError, match="places"):
            PLANE.check(places)
    with pytest.raises(InvalidParameterError, match="phi"):
        released_values(PLANE, Mode.DISTANCE, np.zeros((1, 2), np.int64), None)
    with pytest.raises(InvalidParameterError, match="phi"):
        released_values(PLANE, Mode.DISTANCE, np.zeros((1, 2), np.int64), lambda points: points[:, 0] * math.nan)
    made = schedule(LINE, Mode.POINT, np.full(2, NANO), (Fraction(1),))
    values = np.zeros((2, 1), np.int64)
    with pytest.raises(InvalidParameterError, match="ledger"):
        PeopleRounds(made, values, PeopleLedger.even(LedgerKind.PURE, 2, Fraction(1)), np.arange(2), STREAMS)
    with pytest.raises(InvalidParameterError, match="people"):
        PeopleRounds(made, values[:1], PeopleLedger.even(LedgerKind.ZCDP, 2, Fraction(1)), np.arange(2), STREAMS)
    with pytest.raises(InvalidParameterError, match="ledger"):
        TierRounds(
            np.zeros(2, np.int64), Ladder.parse(["1"]), PeopleLedger.even(LedgerKind.ZCDP, 2, Fraction(1)), STREAMS
        )
    for secret, query in ((b"", "q"), (bytes(31), "q"), (bytes(32), "")):
        with pytest.raises(InvalidParameterError):
            keyed_streams(secret, query)


@pytest.mark.parametrize("corner", [0, 10**6, 10**12, 10**15])
def test_neighbours_move_no_farther_than_is_charged_or_the_space_is_refused(corner: int) -> None:
    space = Space((Fraction(corner), Fraction(-corner)), Fraction(1, 1000), (1001, 1001))
    places = np.column_stack([np.arange(1001), np.full(1001, 500)])
    phi = Disc((corner + 0.5, 0.5 - corner), 0.125).signed_distance
    if corner > 10**6:  # doubles there are 0.1 and 125 grains apart
        with pytest.raises(InvalidParameterError, match="space"):
            released_values(space, Mode.DISTANCE, places, phi)
    else:
        moves = np.abs(np.diff(released_values(space, Mode.DISTANCE, places, phi)))
        assert moves.max() <= space.fine + 2


@pytest.mark.parametrize(
    ("corner", "grain", "sides", "fine"),
    [
        ((Fraction(0),), Fraction(0), (5,), 8),
        ((Fraction(0),), 0.5, (5,), 8),
        ((Fraction(0),), Fraction(1), (1,), 8),
        ((Fraction(0),), Fraction(1), (0,), 8),
        ((Fraction(0),), Fraction(1), (), 8),
        ((), Fraction(1), (5,), 8),
        ((math.nan,), Fraction(1), (5,), 8),
        ((Fraction(0),), Fraction(1), (5,), 0),
        ((Fraction(0),), Fraction(1), (2**41,), 8),
    ],
)
def test_bad_spaces_are_refused(corner: object, grain: object, sides: object, fine: object) -> None:
    with pytest.raises(InvalidParameterError):
        Space(corner, grain, sides, fine)  # type: ignore[arg-type]


@pytest.mark.parametrize("grain", [Fraction(500), Fraction(1000), Fraction(1)])
@pytest.mark.parametrize("parts", [even_split(3), doubling_split(4)], ids=["even", "doubling"])
def test_the_rounds_of_a_class_never_cost_more_than_it_may_spend(grain: Fraction, parts: tuple[Fraction, ...]) -> None:
    """Of few units too, where a part rounded up would make a whole that a filter refuses amid a question."""
    space = Space((Fraction(0),), grain, (11,), 256)
    least = math.ceil(least_budget(space, Mode.DISTANCE) / min(parts))
    for allowed in range(least, least + 60):
        made = schedule(space, Mode.DISTANCE, np.array([allowed]), parts)
        assert made.costs.sum() <= allowed


@pytest.mark.parametrize("sides", [(2,), (101,), (2, 2), (3, 5), (101, 57), (7, 7, 7)], ids=str)
def test_no_two_places_are_farther_apart_than_a_space_reaches(sides: tuple[int, ...]) -> None:
    space = Space((Fraction(0),) * len(sides), Fraction(1), sides, 3)
    apart = sum(((side - 1) * 3) ** 2 for side in sides)
    assert (space.reach_steps - 1) ** 2 <= apart <= space.reach_steps**2
