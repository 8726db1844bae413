"""Readings keep their promises: by exact enumeration of the noise on small cases, and by their refusals."""

import itertools
from fractions import Fraction

import pytest

from app.queries.canonical import canonicalise, permutation
from app.queries.model import Count, GroupByBins, GroupByKeys, Mean, Quantile, Query, Threshold
from app.queries.presentation import present
from app.queries.readings import MeanReading, read_mean, read_quantile, read_threshold
from tests.queries.support import schema_of
from tiers.noise.tsg import TwoSidedGeometric

NOMINAL = Fraction(95, 100)
SHARP, PLAIN, BLUNT = (TwoSidedGeometric(Fraction(rate)) for rate in ("1.5", "0.5", "0.2"))


def outcomes(law, miss=1e-7):
    """Every noise with its probability, up to a tail that is left out (and so counts as a failure)."""
    reach = next(k for k in range(10_000) if 1 - law.cdf(k) < miss)
    return [(k, law.pmf(k)) for k in range(-reach, reach + 1)]


@pytest.mark.parametrize("law", [SHARP, PLAIN, BLUNT], ids=str)
@pytest.mark.parametrize("truth", [0, 6, 9, 10, 11, 14])
def test_a_bit_that_is_wrong_is_rarely_sure_of_itself(law, truth):
    wrong = {}
    for noise, probability in outcomes(law):
        reading = read_threshold(truth + noise, 10, law)
        if reading.reached != (truth >= 10):
            wrong[reading.confidence] = wrong.get(reading.confidence, 0) + probability
    for confidence in wrong:
        assert sum(each for sure, each in wrong.items() if sure >= confidence) <= 1 - confidence + 1e-12


def test_the_confidence_of_a_bit_is_reached_by_the_nearest_wrong_truth():
    for law, truth in itertools.product([SHARP, BLUNT], [9, 10]):
        wrong = [
            (read_threshold(truth + noise, 10, law), probability) for noise, probability in outcomes(law, miss=1e-13)
        ]
        wrong = [(each.confidence, probability) for each, probability in wrong if each.reached != (truth >= 10)]
        for confidence, _ in wrong[:3] + wrong[-3:]:
            if confidence < 1 - 1e-6:
                assert sum(p for sure, p in wrong if sure >= confidence) == pytest.approx(1 - confidence, rel=1e-6)


def covers(reading, truth):
    return reading.shape == "unbounded" or reading.lower <= truth <= reading.upper


@pytest.mark.parametrize("laws", [(BLUNT, PLAIN), (PLAIN, BLUNT), (SHARP, SHARP), (BLUNT, SHARP)], ids=str)
@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_the_interval_of_a_mean_covers_at_least_as_often_as_it_says(laws, count):
    centre, grain = Fraction(3), Fraction(1, 4)
    noises = [outcomes(law, miss=1e-4) for law in laws]
    for total in (-40, 0, 3, 300):
        truth = centre + grain * Fraction(total, count)
        covered = 0.0
        for (first, one), (second, other) in itertools.product(*noises):
            reading = read_mean(total + first, count + second, laws, centre=centre, grain=grain, confidence=NOMINAL)
            covered += one * other if covers(reading, truth) else 0
        assert covered >= NOMINAL


@pytest.mark.parametrize("count", [1, 7])
def test_dependent_noise_does_not_break_the_interval_of_a_mean(count):
    for sign in (1, -1):
        covered = sum(
            probability
            for noise, probability in outcomes(PLAIN)
            if covers(
                read_mean(
                    5 + noise,
                    count + sign * noise,
                    (PLAIN, PLAIN),
                    centre=Fraction(0),
                    grain=Fraction(1),
                    confidence=NOMINAL,
                ),
                Fraction(5, count),
            )
        )
        assert covered >= NOMINAL


def mean_of(total, count):
    return read_mean(total, count, (SHARP, SHARP), centre=Fraction(10), grain=Fraction(1, 2), confidence=NOMINAL)


def test_a_mean_says_on_what_terms_its_interval_is_bounded():
    assert SHARP.half_width(Fraction(975, 1000)) == 2
    assert mean_of(8, 4) == MeanReading(Fraction(11), Fraction(21, 2), Fraction(25, 2), "bounded")
    assert mean_of(-8, 4) == MeanReading(Fraction(9), Fraction(15, 2), Fraction(19, 2), "bounded")
    assert mean_of(0, 4) == MeanReading(Fraction(10), Fraction(19, 2), Fraction(21, 2), "bounded")
    assert mean_of(8, 3).shape == "bounded"
    assert mean_of(8, 2) == MeanReading(Fraction(12), Fraction(43, 4), Fraction(15), "bounded if any row")
    assert mean_of(8, -1).shape == "bounded if any row"
    assert mean_of(8, -2) == MeanReading(Fraction(14), None, None, "unbounded")


HISTOGRAMS = [(1, 0, 0), (0, 0, 1), (4, 4, 4), (9, 0, 9), (0, 30, 0), (2, 1, 20), (50, 1, 49)]


@pytest.mark.parametrize("fraction", [Fraction(1, 2), Fraction(1, 10), Fraction(3, 4)], ids=str)
@pytest.mark.parametrize("histogram", HISTOGRAMS, ids=str)
def test_the_interval_of_a_quantile_covers_at_least_as_often_as_it_says(fraction, histogram):
    for law in (SHARP, TwoSidedGeometric(Fraction(1))):
        noises, covered = outcomes(law, miss=1e-4), 0.0
        for triple in itertools.product(noises, repeat=3):
            raw = [count + noise for count, (noise, _) in zip(histogram, triple, strict=True)]
            reading = read_quantile(raw, fraction, law, NOMINAL)
            if reading.first <= true_place(histogram, fraction) <= reading.last:
                covered += triple[0][1] * triple[1][1] * triple[2][1]
        assert covered >= NOMINAL


def true_place(histogram, fraction):
    sums = list(itertools.accumulate(histogram))
    return next(place for place, upto in enumerate(sums) if upto >= fraction * sums[-1])


class Silent:
    """No noise: every reading is then of the truth."""

    def variance(self):
        return 0.0

    def half_width(self, confidence):
        return 0

    def cdf(self, k):
        return float(k >= 0)


@pytest.mark.parametrize("fraction", [Fraction(1, 2), Fraction(1, 100), Fraction(99, 100), Fraction(1, 3)], ids=str)
def test_without_noise_the_quantile_is_the_quantile(fraction):
    for histogram in itertools.product(range(4), repeat=4):
        if sum(histogram):
            place = true_place(histogram, fraction)
            reading = read_quantile(histogram, fraction, Silent(), NOMINAL)
            assert (reading.place, reading.first, reading.last) == (place, place, place)


class Ruler(Silent):
    """A law of which only the numbers that a bound is made of are known."""

    def __init__(self, variance, half_width):
        self._variance, self._half_width, self.asked = variance, half_width, set()

    def variance(self):
        return self._variance

    def half_width(self, confidence):
        self.asked.add(confidence)
        return self._half_width


@pytest.mark.parametrize(
    ("fraction", "ruler", "most"),
    [
        (Fraction(1, 2), Ruler(4.0, 10**9), 25),  # Cantelli: 1 + √(4·39·4 entries) = 26
        (Fraction(1, 4), Ruler(4.0, 10**9), 22),  # at the last cut 1 + √(4·39·(3·3² + 1·1²)) = 67, of 3·22 + 1
        (Fraction(1, 2), Ruler(1e18, 1), 3),  # four entries within ±1
        (Fraction(1, 4), Ruler(1e18, 1), 3),  # at the last cut 3·3 + 1·1 = 10, of 3·3 + 1
    ],
)
def test_a_bin_is_kept_up_to_the_documented_bound_and_not_beyond(fraction, ruler, most):
    assert read_quantile([most, 0, 0, 0], fraction, ruler, NOMINAL).last == 3
    assert read_quantile([most + 1, 0, 0, 0], fraction, ruler, NOMINAL).last == 0
    assert ruler.asked == {1 - Fraction(5, 100) / 4}


def test_a_count_at_the_threshold_reaches_it():
    assert [read_threshold(raw, 10, SHARP).reached for raw in (9, 10, 11)] == [False, True, True]


def test_a_quantile_of_noise_alone_is_any_bin_and_of_much_data_is_one():
    reading = read_quantile([-50, -60, -70], Fraction(1, 2), SHARP, NOMINAL)
    assert (reading.first, reading.last) == (0, 2)
    reading = read_quantile([0, 0, 0], Fraction(1, 2), BLUNT, NOMINAL)
    assert (reading.first, reading.last) == (0, 2)
    reading = read_quantile([10**6, 10**6, 10**6], Fraction(1, 2), BLUNT, NOMINAL)
    assert (reading.first, reading.place, reading.last) == (1, 1, 1)


@pytest.mark.parametrize(("raw", "fraction"), [([], Fraction(1, 2)), ([1], Fraction(0)), ([1], Fraction(1))])
def test_a_quantile_outside_the_model_is_refused(raw, fraction):
    with pytest.raises(ValueError, match="quantile: expected"):
        read_quantile(raw, fraction, PLAIN, NOMINAL)


SCHEMA = schema_of()
BINS = GroupByBins(column="age", edges=(0, 10, 20), below="kept", above="kept")


def test_a_quantile_is_shown_as_its_bin_with_open_ends_where_they_are():
    query = Query(measure=Quantile(of="units", fraction="0.50"), group_by=BINS, groups_per_unit=1)
    shown = present(query, SCHEMA, [[3, 500, 4, 800]], [SHARP])
    assert (shown.fraction, shown.lower, shown.upper) == ("0.5", "20", None)
    assert (shown.interval_lower, shown.interval_upper, shown.confidence) == ("20", None, "0.95")
    shown = present(query, SCHEMA, [[900, 5, 4, 8]], [SHARP])
    assert (shown.lower, shown.upper) == (None, "0")


def test_thresholds_are_shown_for_each_entry_and_never_surer_than_they_are():
    group_by = GroupByKeys(column="city", keys=("a", "b"))
    query = Query(measure=Threshold(of="units", at=10), group_by=group_by, groups_per_unit=1)
    shown = present(query, SCHEMA, [[10**6, 9]], [PLAIN])
    assert [(each.reached, each.confidence) for each in shown.entries] == [(True, "0.9999"), (False, "0.6224")]
    assert present(query, SCHEMA, [[30, 9]], [PLAIN]).entries[0].confidence == "0.9999"


def test_a_mean_is_shown_with_its_interval_rounded_outwards():
    measure = Mean(column="age", centre="40", lower="-9", upper="9", grain_exponent=0, sum_share="0.25")
    query = Query(measure=measure, rows_per_unit=2)
    (shown,) = present(query, SCHEMA, [[100], [300]], [SHARP, SHARP]).entries
    assert (shown.estimate, shown.lower, shown.upper) == ("40.3333333333", "40.3245033112", "40.3422818792")
    (shown,) = present(query, SCHEMA, [[100], [-300]], [SHARP, SHARP]).entries
    assert (shown.lower, shown.upper, shown.shape) == (None, None, "unbounded")


def test_a_count_has_nothing_beside_it():
    query = Query(measure=Count(of="units"))
    assert type(present(query, SCHEMA, [[7]], [PLAIN])).__name__ == "NothingShown"


@pytest.mark.parametrize(("raws", "laws"), [([[1]], [PLAIN]), ([[1], [1, 2]], [PLAIN] * 2), ([[1], [1]], [PLAIN])])
def test_vectors_that_are_not_the_questions_are_refused(raws, laws):
    measure = Mean(column="age", centre="40", lower="-9", upper="9", grain_exponent=0, sum_share="0.25")
    with pytest.raises(ValueError, match="raws: expected"):
        present(Query(measure=measure, rows_per_unit=2), SCHEMA, raws, laws)


def test_readings_are_in_canonical_order_as_the_raw_vectors_are():
    group_by = GroupByKeys(column="city", keys=("b", "a"))
    query = Query(measure=Threshold(of="units", at=10), group_by=group_by, groups_per_unit=1)
    assert canonicalise(query, SCHEMA).keys == ("a", "b")
    shown = present(query, SCHEMA, [[0, 50]], [SHARP])
    assert [shown.entries[place].reached for place in permutation(query, SCHEMA)] == [True, False]
