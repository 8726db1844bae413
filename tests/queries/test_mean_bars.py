"""A mean's bar before its sale: by exact enumeration it covers as often as it says, and no smaller one would."""

import itertools
from fractions import Fraction

import pytest

from app.queries.readings import joint_half_width, mean_bar, read_mean
from tests.queries.test_readings import BLUNT, NOMINAL, PLAIN, SHARP, outcomes
from tiers.noise.skellam import Skellam

GRAIN = Fraction(1, 4)
WIDE = Skellam(Fraction(9))


def covered(laws, total, count, bar):
    """The probability that the estimate is within the bar of the mean; what is not enumerated counts as a miss."""
    truth, found = GRAIN * Fraction(total, count), 0.0
    for (first, one), (second, other) in itertools.product(*(outcomes(law, miss=1e-4) for law in laws)):
        noisy = count + second
        estimate = GRAIN * Fraction(total + first, max(noisy, 1))
        if abs(estimate - truth) <= bar:
            found += one * other
    return found


@pytest.mark.parametrize("laws", [(BLUNT, PLAIN), (PLAIN, BLUNT), (SHARP, SHARP), (WIDE, PLAIN)], ids=str)
@pytest.mark.parametrize("reach", [1, 7])
def test_the_bar_covers_at_least_as_often_as_it_says_from_that_many_rows_on(laws, reach):
    widths = tuple(joint_half_width(law, NOMINAL) for law in laws)
    for rows in (widths[1] + 1, 3 * widths[1]):
        bar = mean_bar(widths, reach=reach, rows=rows, grain=GRAIN)
        for count in (rows, 2 * rows):
            for total in (-reach * count, 0, reach * count):
                assert covered(laws, total, count, bar) >= NOMINAL - Fraction(3, 10_000), (rows, count, total)


@pytest.mark.parametrize("widths", [(40, 4), (3, 0), (0, 2), (17, 9)])
@pytest.mark.parametrize("reach", [1, 12])
def test_the_bar_is_the_largest_error_that_both_noises_within_their_widths_can_make(widths, reach):
    around, within = widths
    for rows in range(within + 1, within + 6):
        worst = max(
            abs(Fraction(total + first, count + second) - Fraction(total, count))
            for count in (rows, rows + 1, rows + 7)
            for total in (-reach * count, -1, 0, reach * count)
            for first in (-around, 0, around)
            for second in range(-within, within + 1)
        )
        assert worst == mean_bar(widths, reach=reach, rows=rows, grain=Fraction(1))


def test_there_is_no_bar_where_the_count_may_be_noise_alone():
    assert mean_bar((5, 4), reach=3, rows=4, grain=GRAIN) is None
    assert mean_bar((5, 4), reach=3, rows=5, grain=GRAIN) == GRAIN * 17


def test_a_bar_shrinks_with_rows_and_widens_with_noise():
    rows = [mean_bar((40, 4), reach=10, rows=rows, grain=GRAIN) for rows in (5, 10, 100, 10**6)]
    assert rows == sorted(rows, reverse=True)
    assert (
        mean_bar((41, 4), reach=10, rows=100, grain=GRAIN)
        > rows[2]
        < mean_bar((40, 5), reach=10, rows=100, grain=GRAIN)
    )


def test_each_law_keeps_to_its_joint_half_width_and_no_smaller_one_would_do():
    for law in (SHARP, PLAIN, BLUNT, WIDE):
        width = joint_half_width(law, NOMINAL)

        def inside(h, law=law):
            return sum(law.pmf(k) for k in range(-h, h + 1))

        assert inside(width) >= 0.975 - 1e-12
        assert inside(width - 1) < 0.975


def test_the_interval_that_is_read_off_is_no_wider_than_the_bar_says_on_either_side():
    laws, reach, count = (BLUNT, PLAIN), 7, 60
    widths = tuple(joint_half_width(law, NOMINAL) for law in laws)
    for total, (first, second) in itertools.product(
        (-reach * count, 0, reach * count), itertools.product((-widths[0], 0, widths[0]), (-widths[1], 0, widths[1]))
    ):
        shown = read_mean(total + first, count + second, laws, centre=Fraction(0), grain=GRAIN, confidence=NOMINAL)
        assert shown.lower <= GRAIN * Fraction(total, count) <= shown.upper
