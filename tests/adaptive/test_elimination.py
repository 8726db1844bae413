"""Eliminations against their definitions, and their guarantees wherever every interval holds."""

import math

import numpy as np
import pytest

from tests.adaptive import oracles
from tiers.adaptive.elimination import Fate, Intervals, ask_all, averaging, eliminate_far, keep_nearest
from tiers.errors import InvalidParameterError

SAME = np.vectorize(float, otypes=[float])


def setting(seed: int, people: int = 25, rounds: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    r = generator.uniform(0.1, 2, (people, rounds))
    phi = generator.normal(0, 3, people)
    shown = phi[:, None] + generator.standard_normal((people, rounds)) / np.sqrt(2 * r)
    widths = generator.uniform(0.3, 3, (people, rounds))
    return r, phi, shown, widths


@pytest.mark.parametrize("seed", range(20))
def test_far_elimination_is_algorithm_four_person_by_person(seed: int) -> None:
    r, _, shown, widths = setting(seed)
    refused = np.random.default_rng(seed + 100).random(shown.shape) < 0.1
    intervals = averaging(np.arange(len(r), dtype=np.int32), r, widths)

    def release(place: int, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        admitted = ~refused[who, place]
        return shown[who[admitted], place], admitted

    ended = eliminate_far(intervals, release, SAME, low=-0.5, high=1.0)
    fates, answered, found = oracles.far(
        r.tolist(), widths.tolist(), lambda i, j: None if refused[i, j] else float(shown[i, j]), -0.5, 1.0
    )
    assert [Fate(fate).name for fate in ended.fate.tolist()] == fates
    assert ended.answered.tolist() == answered
    np.testing.assert_allclose(ended.estimate, found, rtol=1e-12)
    assert {"DROPPED", "BELOW", "ABOVE"} <= set(fates)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("nearest", [1, 3, 24])
def test_near_elimination_is_algorithm_five(seed: int, nearest: int) -> None:
    r, _, shown, widths = setting(seed)
    intervals = averaging(np.arange(len(r), dtype=np.int32), r, widths)
    ended = keep_nearest(intervals, lambda j, who: (shown[who, j], np.ones(len(who), bool)), SAME, nearest)
    sets = oracles.near(r.tolist(), widths.tolist(), lambda i, j: float(shown[i, j]), nearest)
    assert ended.rounds == len(sets)
    for place, left in enumerate(sets, start=1):
        assert set(ended.survivors(place).tolist()) == left


@pytest.mark.parametrize("seed", range(30))
def test_guarantee_of_both_wherever_every_interval_holds(seed: int) -> None:
    """Not a matter of luck: widths are made to cover, so nobody may be on the wrong side, nor one of the k best lost."""
    r, phi, shown, _ = setting(seed)
    means = np.cumsum(r * shown, axis=1) / np.cumsum(r, axis=1)
    widths = np.abs(means - phi[:, None]) + np.random.default_rng(seed).exponential(0.2, means.shape)
    intervals = averaging(np.arange(len(r), dtype=np.int32), r, widths)

    def release(place: int, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return shown[who, place], np.ones(len(who), bool)

    far = eliminate_far(intervals, release, SAME)
    assert (phi[far.of(Fate.BELOW)] < 0).all()
    assert (phi[far.of(Fate.ABOVE)] > 0).all()
    for nearest in (1, 4, 10):
        ended = keep_nearest(intervals, release, SAME, nearest)
        best = set(np.argsort(phi)[:nearest].tolist())
        assert all(best <= set(ended.survivors(place).tolist()) for place in range(1, ended.rounds + 1))


def test_of_the_nearest_those_who_drop_out_are_missing_and_no_others() -> None:
    r, phi, shown, _ = setting(3)
    means = np.cumsum(r * shown, axis=1) / np.cumsum(r, axis=1)
    intervals = averaging(np.arange(len(r), dtype=np.int32), r, np.abs(means - phi[:, None]) + 0.01)
    best = np.argsort(phi)[:5]

    def release(place: int, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        admitted = ~((who == best[2]) & (place == 1))
        return shown[who[admitted], place], admitted

    ended = keep_nearest(intervals, release, SAME, 5)
    assert ended.of(Fate.DROPPED).tolist() == [best[2]]
    assert set(best.tolist()) - {int(best[2])} <= set(ended.of(Fate.UNDECIDED).tolist())


def test_points_are_averaged_coordinate_by_coordinate_before_their_distance_is_taken() -> None:
    r = np.array([[1.0, 3.0]])
    shown = np.array([[[4.0, 0.0], [0.0, 4.0]]])
    intervals = averaging(np.zeros(1, np.int32), r, np.ones((1, 2)) * 100)
    ended = ask_all(
        intervals, lambda j, who: (shown[who, j], np.ones(1, bool)), lambda points: np.hypot(points[:, 0], points[:, 1])
    )
    assert ended.average.tolist() == [[1.0, 3.0]]
    assert ended.estimate.tolist() == [math.hypot(1, 3)]


def test_rounds_end_as_soon_as_nobody_is_left() -> None:
    asked = []

    def release(place: int, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append(place)
        return np.full(len(who), -9.0), np.ones(len(who), bool)

    intervals = averaging(np.zeros(4, np.int32), np.ones((1, 5)), np.ones((1, 5)))
    assert eliminate_far(intervals, release, SAME).rounds == 1
    assert asked == [0]


def test_nobody_answers_at_all_and_nothing_is_lost() -> None:
    intervals = averaging(np.zeros(3, np.int32), np.ones((1, 2)), np.ones((1, 2)))
    ended = eliminate_far(intervals, lambda _, who: (np.zeros(0), np.zeros(len(who), bool)), SAME)
    assert ended.of(Fate.DROPPED).tolist() == [0, 1, 2]
    assert np.isnan(ended.estimate).all()
    assert ended.answered.tolist() == [0, 0, 0]


@pytest.mark.parametrize("nearest", [0, 3, 4, -1, True, 1.0])
def test_a_k_that_leaves_nobody_out_or_nobody_in_is_refused(nearest: object) -> None:
    intervals = averaging(np.zeros(3, np.int32), np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(InvalidParameterError, match="k"):
        keep_nearest(intervals, lambda _, who: (np.zeros(3), who >= 0), SAME, nearest)  # type: ignore[arg-type]


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.0), (math.nan, 0.0), (0.0, math.nan)])
def test_bounds_that_cross_or_are_not_numbers_are_refused(low: float, high: float) -> None:
    intervals = averaging(np.zeros(3, np.int32), np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(InvalidParameterError, match="bounds"):
        eliminate_far(intervals, lambda _, who: (np.zeros(3), who >= 0), SAME, low=low, high=high)


def test_bad_intervals_are_refused() -> None:
    one, classes = np.ones((1, 2)), np.zeros(2, np.int32)
    bad = [
        (classes, one * 0, one, one),
        (classes, one * 2, one, one),
        (classes, one, one * 0, one),
        (classes, one, one, one * np.nan),
        (classes, one, one, -one),
        (classes, one, one, np.ones((2, 1))),
        (classes + 1, one, one, one),
        (np.zeros(0, np.int32), one, one, one),
        (classes * 1.0, one, one, one),
        (classes, np.ones((1, 0)), np.ones((1, 0)), np.ones((1, 0))),
    ]
    for case in bad:
        with pytest.raises(InvalidParameterError):
            Intervals(*case)
    for precision in (one * 0, one * np.inf, np.ones(2)):
        with pytest.raises(InvalidParameterError, match="precision"):
            averaging(classes, precision, one)


def test_a_round_that_answers_for_others_is_refused() -> None:
    intervals = averaging(np.zeros(3, np.int32), np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(InvalidParameterError, match="round"):
        eliminate_far(intervals, lambda _, who: (np.zeros(2), np.ones(3, bool)), SAME)


def test_an_interval_that_touches_a_bound_decides_nobody() -> None:
    """f = low − h leaves room for φ = low, which is not below it; likewise above."""
    intervals = averaging(np.zeros(4, np.int32), np.ones((1, 1)), np.full((1, 1), 0.5))
    found = np.array([-0.5, 0.5, np.nextafter(-0.5, -1), np.nextafter(0.5, 1)])
    ended = eliminate_far(intervals, lambda _, who: (found, who >= 0), lambda values: values)
    assert ended.fate.tolist() == [Fate.UNDECIDED, Fate.UNDECIDED, Fate.BELOW, Fate.ABOVE]


def test_who_may_be_as_near_as_the_k_th_stays() -> None:
    intervals = averaging(np.zeros(3, np.int32), np.ones((1, 1)), np.full((1, 1), 0.5))
    found = np.array([1.0, 2.0, np.nextafter(2.0, 3)])
    ended = keep_nearest(intervals, lambda _, who: (found, who >= 0), lambda values: values, 1)
    assert ended.fate.tolist() == [Fate.UNDECIDED, Fate.UNDECIDED, Fate.ABOVE]
