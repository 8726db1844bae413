"""Draws shown together leave what they leave one by one; an answered alarm's process starts anew, within the one α."""

from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from tests.audit.saboteurs import claimed, honest
from tiers.audit import wealth as wealth_module
from tiers.audit.steps import Seen
from tiers.audit.watch import Alarm, Watch, WatchState
from tiers.chain.steps import between
from tiers.errors import InvalidParameterError
from tiers.identity import Role


def shown(count: int) -> list[Seen]:
    """Chains of several lengths, longer than what is remembered of a draw too, with bridges in between."""
    draws = []
    for number in range(count):
        length = (1, 3, 8, 8, 70, 4200)[number % 6]
        top, middle, low = claimed(length, number)
        rows = honest((top, middle, low), bytes(32), number)
        draws += [Seen(middle, rows[1] - rows[0]), Seen(low, (rows[2] - rows[1]).tolist())]
        if number % 3 == 0:
            law = between(Role.BRIDGE, middle.law.noise, (top.law.noise, low.law.noise))
            bridge = replace(middle, role=Role.BRIDGE, parents=(top.law, low.law), sampler=law.name)
            draws.append(Seen(bridge, [0] * length, [1] * length))
    return draws


@pytest.mark.parametrize("block", [50, 2**18], ids=["blocks of 50", "one block"])
def test_draws_leave_the_same_state_however_they_are_shown(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wealth_module, "BLOCK", block)
    draws = shown(18)
    alone, together, pieces = Watch(), Watch(), Watch()
    for draw in draws:
        alone.see(draw.edge, draw.values, draw.gaps)
    together.see_all(draws)
    for start in range(0, len(draws), 7):
        pieces.see_all(draws[start : start + 7])
    assert alone.state() == together.state() == pieces.state()
    assert sum(pair.process.values for pair in together.state().pairs) > 5000


def test_of_draws_that_are_refused_none_leaves_anything() -> None:
    draws, watch = shown(2), Watch()
    before = watch.state()
    with pytest.raises(InvalidParameterError):
        watch.see_all([*draws, Seen(claimed(1)[0], [0])])
    assert watch.state() == before
    watch.see_all([])
    assert watch.state() == before


def outliers(watch: Watch, number: int) -> None:
    watch.see(claimed(4, number)[1], np.array([10**6, 10**6, -(10**6), 10**6]))


def test_an_answered_alarm_s_process_starts_anew_at_a_limit_of_its_own() -> None:
    watch = Watch()
    for turn in range(1, 4):
        outliers(watch, turn)
        raised = watch.alarms()
        assert {alarm.process for alarm in raised} >= {"law", "pooled"}
        watch.leaf = turn
        for alarm in raised:
            watch.answer(alarm)
        assert watch.alarms() == ()
        watch = Watch.of(msgspec.json.decode(msgspec.json.encode(watch.state()), type=WatchState))
    told = watch.answered()
    assert [each.leaf for each in told] == sorted(each.leaf for each in told)
    for process in ("law", "pooled"):
        limits = [each.alarm.limit for each in told if each.alarm.process == process]
        assert len(limits) == 3
        assert limits[0] < limits[1] < limits[2], "each new start needs more"
    with pytest.raises(InvalidParameterError, match="one that stands"):
        watch.answer(told[0].alarm)
    with pytest.raises(InvalidParameterError, match="one that stands"):
        watch.answer(Alarm("law", "no such step", 99.0, 1.0, 1))


def test_all_limits_ever_given_cost_at_most_alpha() -> None:
    """e reaches 1/x with probability at most x: the shares of every start, answered or not, sum to less than α."""
    watch = Watch()
    spent = []
    for turn in range(12):
        outliers(watch, turn)
        for alarm in watch.alarms():
            spent.append(alarm.limit)
            watch.answer(alarm)
    given = [place for place in watch.state().places if place >= 0]
    assert len(set(given)) == len(given), "no two processes share a limit of the series"
    total = sum((Fraction(np.exp(-limit)) for limit in spent), Fraction(0))
    assert len(spent) > 24
    assert watch.alpha * Fraction(3, 4) < total < watch.alpha


def test_a_state_that_was_written_before_processes_could_start_anew_is_read() -> None:
    watch = Watch()
    watch.see_all(shown(3))
    plain = msgspec.to_builtins(watch.state())
    del plain["places"], plain["answered"]
    assert Watch.of(msgspec.convert(plain, type=WatchState)).state() == watch.state()
    with pytest.raises(InvalidParameterError, match="a place for each process"):
        Watch.of(replace(watch.state(), places=(0,)))
