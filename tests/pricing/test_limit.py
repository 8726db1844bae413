"""A time limit is over at its end, past it, and where a clock says nothing; solvers are told what is left."""

from math import inf, nan

import pytest

from pricing.limit import UNLIMITED, Limit, limit_of


@pytest.mark.parametrize(("seconds", "over"), [(inf, False), (1e-9, False), (0.0, True), (-1.0, True), (nan, True)])
def test_over_at_the_end_and_not_before(seconds, over):
    assert Limit(seconds_left=lambda: seconds).is_over() is over


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(inf, {}), (2.5, {"time_limit": 2.5}), (-1.0, {"time_limit": 0.0}), (nan, {"time_limit": 0.0})],
)
def test_a_solver_is_told_no_limit_or_what_is_left_of_it(seconds, told):
    assert Limit(seconds_left=lambda: seconds).options() == told


def test_a_limit_ends_its_seconds_after_it_was_made():
    now = [100.0]
    limit = limit_of(5, lambda: now[0])
    assert limit.seconds_left() == 5
    now[0] = 104.5
    assert (limit.seconds_left(), limit.is_over()) == (0.5, False)
    now[0] = 105.0
    assert limit.is_over()
    assert not UNLIMITED.is_over()
