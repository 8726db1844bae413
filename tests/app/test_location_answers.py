"""What an answer about places says, number by number, of rounds that are written down here."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp

from app.locations.answers import answer_document
from tiers.accounting.charges import LedgerKind
from tiers.accounting.people import PeopleLedger
from tiers.adaptive.asking import Answer
from tiers.adaptive.counting import CountReading
from tiers.adaptive.density import DensityReading
from tiers.adaptive.elimination import Elimination, Fate
from tiers.adaptive.neighbours import NearestReading

FATES = [Fate.UNDECIDED, Fate.UNDECIDED, Fate.BELOW, Fate.ABOVE, Fate.DROPPED]
FOUND = np.array([1.0, 3.0, -9.0, 99.0, math.nan])
ENDED = Elimination(2, np.array(FATES, np.int8), np.array([2, 2, 1, 1, 0], np.int16), FOUND, FOUND)
WIDTHS = np.array([0.1, 0.25000000001, 0.7, 0.8, math.nan])


def told(reading: Any, bandwidth: float | None = None) -> dict[str, Any]:
    """Five who were asked, of a panel of nine of whom four could not pay."""
    ledger = PeopleLedger.even(LedgerKind.ZCDP, 9, Fraction(1))
    members = np.array([1, 3, 4, 6, 8])
    answer = Answer(reading, ENDED, members, 4, ledger.spent, WIDTHS, ledger)
    said = answer_document(answer, bandwidth)
    assert (said["rounds"], said["asked"], said["left_out"], said["dropped"]) == (2, 5, 4, 1)
    return said


def test_a_count_s_bar_holds_everybody_of_whom_nothing_is_certain() -> None:
    said = told(CountReading(estimate=2, certain=1, outside=1, undecided=2, dropped=1, margin=0.12345678901))
    assert (said["estimate"], said["low"], said["high"], said["undecided"]) == (2, 1, 1 + 2 + 1 + 4, 2)
    assert said["margin"] == "0.12345679", "rounded up"


def test_the_nearest_are_named_by_their_numbers_and_twice_the_widest_interval_off() -> None:
    said = told(NearestReading(np.array([1, 0]), False, 2, 1))
    assert said["people"] == [4, 2], "numbers from 1, of the panel"
    assert said["farther"] == "0.500000001", "of those who are left, rounded up"


def test_a_density_s_bar_is_of_each_interval_s_ends() -> None:
    said = told(DensityReading(0.2, 1, 2, 1), 2.0)
    kernel = [math.exp(-(distance**2) / 8) for distance in (1.1, 3.25, 0.9, 2.75)]
    low, high = (kernel[0] + kernel[1]) / 3, (kernel[2] + kernel[3] + math.exp(-18)) / 3
    assert low - 2e-9 < float(said["low"]) < low
    assert high < float(said["high"]) < high + 2.5e-9


def of_these(reading: Any, found: list[float], width: list[float], bandwidth: float | None = None) -> dict[str, Any]:
    """People who were all asked once and are all undecided."""
    everybody = len(found)
    ledger = PeopleLedger.even(LedgerKind.ZCDP, everybody, Fraction(1))
    estimates, rounds = np.array(found), np.ones(everybody, np.int16)
    ended = Elimination(1, np.full(everybody, Fate.UNDECIDED, np.int8), rounds, estimates, estimates)
    answer = Answer(reading, ended, np.arange(everybody), 0, ledger.spent, np.array(width), ledger)
    return answer_document(answer, bandwidth)


def test_a_density_is_told_to_the_nearest_place_and_moved_into_its_bar_from_either_side() -> None:
    for estimate, shown in (("0.4000000004", "0.4"), ("0.4000000006", "0.400000001")):
        assert told(DensityReading(float(estimate), 1, 2, 1), 2.0)["estimate"] == shown
    below, above = (told(DensityReading(estimate, 1, 2, 1), 2.0) for estimate in (0.0, 0.99))
    place = Fraction(1, 10**9)
    assert 0 <= Fraction(below["estimate"]) - Fraction(below["low"]) <= place
    assert 0 <= Fraction(above["high"]) - Fraction(above["estimate"]) <= place
    assert (below["low"], below["high"]) == (above["low"], above["high"]), "the bar is not the estimate's"
    assert below["undecided"] == 2, "who is near, not who is far"


def test_no_distance_is_negative_whatever_the_noise_says() -> None:
    """Where an interval holds 0, or is all below it, a person may stand at the point itself: the kernel is 1 there."""
    said = of_these(DensityReading(0.5, 0, 1, 0), [0.05], [0.1], 1.0)
    assert said["high"] == "1"
    assert 0 <= math.exp(-(0.15**2) / 2) - float(said["low"]) < 2.5e-9
    assert float(of_these(DensityReading(0.5, 0, 1, 0), [-1.0], [0.1], 1.0)["low"]) > 1 - 2.5e-9


def test_a_density_s_bar_is_rounded_outwards_however_small_it_is() -> None:
    for tenth in range(1, 60):
        away = tenth / 10
        said = of_these(DensityReading(0.0, 0, 1, 0), [away], [0.25], 1.0)
        with mp.workdps(40):
            low, high = (mp.exp(-(mp.mpf(max(end, 0.0)) ** 2) / 2) for end in (away + 0.25, away - 0.25))
            assert mp.mpf(said["low"]) <= low <= high <= mp.mpf(said["high"])
            assert mp.mpf(said["high"]) - high < 2.1e-9
            assert low - mp.mpf(said["low"]) < 2.1e-9


def test_a_density_s_bar_holds_it_where_doubles_err_across_a_place() -> None:
    """At distances whose kernel is a whole number of places, but for the last bit of a double."""
    for billionths in range(10**6 + 1, 10**9, 10**7 + 7):
        away = math.sqrt(-2 * math.log(billionths / 10**9))
        for near in (math.nextafter(away, 0), away, math.nextafter(away, 9)):
            said = of_these(DensityReading(0.0, 0, 1, 0), [near], [0.0], 1.0)
            with mp.workdps(40):
                kernel = mp.exp(-(mp.mpf(near) ** 2) / 2)
                assert mp.mpf(said["low"]) <= kernel <= mp.mpf(said["high"])


def test_a_density_of_people_who_are_all_far_is_next_to_nothing() -> None:
    """Each adds e⁻¹⁸ = 1.52·10⁻⁸ at most."""
    ledger = PeopleLedger.even(LedgerKind.ZCDP, 3, Fraction(1))
    ended = Elimination(1, np.full(3, Fate.ABOVE, np.int8), np.ones(3, np.int16), np.full(3, 99.0), np.full(3, 99.0))
    answer = Answer(DensityReading(0.0, 3, 0, 0), ended, np.arange(3), 0, ledger.spent, np.full(3, 0.1), ledger)
    said = answer_document(answer, 1.0)
    assert (said["low"], said["estimate"], said["high"]) == ("0", "0", "0.000000016")


def test_the_nearest_are_exact_where_the_reading_says_so_and_out_of_all_that_were_left() -> None:
    said = of_these(NearestReading(np.array([2, 0]), False, 3, 0), [1.0, 9.0, 0.5], [0.1, 0.2, 0.05])
    assert (said["exact"], said["undecided"], said["people"]) == (False, 3, [3, 1])
    assert said["farther"] == "0.4"
    assert of_these(NearestReading(np.array([0]), True, 1, 0), [1.0], [0.1])["exact"] is True
