"""What is read off an elimination: counts, densities, neighbours, thresholds and measures."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tiers.adaptive.counting import calibrated_threshold, read_count
from tiers.adaptive.density import FAR, LEFT_OUT, plug_in_mean, read_density, unbiased_kernel
from tiers.adaptive.elimination import Elimination, Fate, Intervals, averaging
from tiers.adaptive.measures import absolute_error, count_error, distance_error, saved_share
from tiers.adaptive.neighbours import nearest_bound, read_nearest
from tiers.adaptive.threshold import halfway, read_threshold
from tiers.errors import InvalidParameterError


def ended(fates: list[Fate], estimates: list[float], answered: list[int] | None = None) -> Elimination:
    found = np.array(estimates)
    rounds = np.array(answered or [1] * len(fates), np.int16)
    return Elimination(int(rounds.max()), np.array(fates, np.int8), rounds, found, found)


def intervals(people: int, sigma: float = 1.0, width: float = 0.5) -> Intervals:
    return averaging(np.zeros(people, np.int32), np.full((1, 2), 1 / (4 * sigma**2)), np.array([[2 * width, width]]))


MIXED = [Fate.BELOW, Fate.ABOVE, Fate.UNDECIDED, Fate.UNDECIDED, Fate.DROPPED]


def test_a_count_is_the_decided_and_the_undecided_that_look_inside_and_says_what_it_rests_on() -> None:
    reading = read_count(ended(MIXED, [-9, 9, -0.1, 0.1, -9.0], [1, 1, 2, 2, 1]), intervals(5))
    assert (reading.estimate, reading.certain, reading.outside) == (2, 1, 1)
    assert (reading.undecided, reading.dropped, reading.margin) == (2, 1, 0.5)
    assert read_count(ended(MIXED, [-9, 9, -0.1, 0.1, -9.0], [1, 1, 2, 2, 1]), intervals(5), [-0.5]).estimate == 1


@pytest.mark.parametrize(("inradius", "sigma"), [(1.0, 0.05), (1.0, 1.0), (1.0, 4.0), (10.0, 3.0), (0.2, 2.0)])
@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_calibrated_count_of_evenly_spread_people_is_unbiased(inradius: float, sigma: float, dimensions: int) -> None:
    """By quadrature over the true distance: E count = ∫ d(volume)·P(distance + σZ < η) is the volume inside."""
    eta = calibrated_threshold(inradius, sigma, dimensions)

    def seen(radius: float) -> float:  # people at this distance from the centre (line: twice, plane: 2πr)
        around = 1.0 if dimensions == 1 else 2 * radius
        return around * norm.cdf((eta - (radius - inradius)) / sigma)

    volume = quad(seen, 0, inradius + 12 * sigma, limit=400)[0]
    assert volume == pytest.approx(inradius**dimensions, rel=1e-6)
    assert eta < 0 or dimensions == 1


@pytest.mark.parametrize(("distance", "bandwidth", "sigma"), [(0.0, 1.0, 0.4), (1.3, 1.0, 0.9), (4.0, 2.0, 1.0)])
def test_the_kernels_have_the_means_that_they_claim(distance: float, bandwidth: float, sigma: float) -> None:
    def mean(kernel: object) -> float:
        return quad(
            lambda z: kernel(distance + sigma * z) * norm.pdf(z), -40, 40, points=[0, -distance / sigma], limit=800
        )[0]

    plug = mean(lambda noisy: math.exp(-((noisy / bandwidth) ** 2) / 2))
    assert plug == pytest.approx(plug_in_mean(distance, bandwidth, sigma, 1), rel=1e-7)
    exactly = mean(lambda noisy: float(unbiased_kernel(np.array([noisy]), bandwidth, sigma, 1)[0]))
    assert exactly == pytest.approx(math.exp(-((distance / bandwidth) ** 2) / 2), rel=1e-7)


def test_a_density_counts_the_far_at_the_most_they_add_and_leaves_the_dropped_out() -> None:
    fates = [Fate.ABOVE, Fate.UNDECIDED, Fate.DROPPED]
    state = ended(fates, [99.0, 1.0, 0.0])
    reading = read_density(state, intervals(3), lambda shown: shown, 1.0, 1)
    assert reading.estimate == pytest.approx((math.exp(-0.5) + LEFT_OUT) / 2)
    assert (reading.far, reading.near, reading.dropped) == (1, 1, 1)
    assert pytest.approx(math.exp(-(FAR**2) / 2)) == LEFT_OUT
    nobody = ended([Fate.ABOVE], [99.0])
    assert read_density(nobody, intervals(1), lambda shown: shown, 1.0, 1).estimate == 0


def test_a_density_that_cannot_be_told_is_refused() -> None:
    near = ended([Fate.UNDECIDED], [1.0])
    with pytest.raises(InvalidParameterError, match="sigma"):
        read_density(near, intervals(1, sigma=2.0), lambda shown: shown, 1.0, 1, unbiased=True)
    with pytest.raises(InvalidParameterError, match="people"):
        read_density(ended([Fate.DROPPED], [0.0]), intervals(1), lambda shown: shown, 1.0, 1)
    for bandwidth in (0.0, -1.0, math.nan, math.inf, 1):
        with pytest.raises(InvalidParameterError, match="bandwidth"):
            read_density(near, intervals(1), lambda shown: shown, bandwidth, 1)


def test_the_nearest_are_those_with_the_least_estimates() -> None:
    fates = [Fate.UNDECIDED, Fate.ABOVE, Fate.UNDECIDED, Fate.UNDECIDED]
    reading = read_nearest(ended(fates, [3.0, 0.0, 1.0, 2.0]), 2)
    assert reading.chosen.tolist() == [2, 3]
    assert not reading.exact
    assert read_nearest(ended(fates, [3.0, 0.0, 1.0, 2.0]), 3).exact
    dropped = [Fate.UNDECIDED, Fate.DROPPED]
    assert not read_nearest(ended(dropped, [1.0, 0.0]), 1).exact
    with pytest.raises(InvalidParameterError, match="k"):
        read_nearest(ended(dropped, [1.0, 0.0]), 2)
    for rho in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidParameterError, match="rho"):
            nearest_bound(rho, 1, 0.1, 5)


def test_a_threshold_is_read_by_the_lemma_and_else_by_the_last_value() -> None:
    assert halfway(7) == 6.5
    for fate, shown, below, decided in [
        (Fate.BELOW, 99.0, True, True),
        (Fate.ABOVE, 0.0, False, True),
        (Fate.UNDECIDED, 6.0, True, False),
        (Fate.UNDECIDED, 7.0, False, False),
        (Fate.DROPPED, 7.0, False, False),
    ]:
        answer = read_threshold(ended([fate], [shown]), 7)
        assert (answer.below, answer.decided) == (below, decided)
    with pytest.raises(InvalidParameterError, match="threshold"):
        read_threshold(ended([Fate.DROPPED, Fate.BELOW], [math.nan, 0.0], [0, 1]), 7)
    for at in (1.0, True, 2**51):
        with pytest.raises(InvalidParameterError, match="threshold"):
            halfway(at)  # type: ignore[arg-type]


def test_measures() -> None:
    assert saved_share([0, 5], [10, 10]) == 0.75
    assert count_error(8, 10) == pytest.approx(0.2)
    assert absolute_error(-1, 2) == 3
    assert distance_error([2.0, 2.0], [1.0, 1.0]) == 1
    for spent, allowed in [([], []), ([2], [1]), ([0], [0]), ([math.nan], [1]), ([0, 0], [1])]:
        with pytest.raises(InvalidParameterError):
            saved_share(spent, allowed)
    with pytest.raises(InvalidParameterError):
        count_error(1, 0)
    for chosen, nearest in [([1.0], []), ([0.0], [0.0])]:
        with pytest.raises(InvalidParameterError):
            distance_error(chosen, nearest)
