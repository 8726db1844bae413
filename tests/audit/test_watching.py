"""A5 as an audit runs it: chains open one by one, draws are tested in the order of the log, once in a market's life."""

from collections.abc import Iterable

import pytest

from app.audit.statistics import opened_edges
from app.audit.watching import Watching
from tests.audit.logs import Log
from tests.audit.saboteurs import star
from tests.audit.test_selection import market
from tiers.audit.conformance import check_conformance
from tiers.audit.findings import Finding
from tiers.audit.watch import Watch


def audited(log: Log, watch: Watch, until: int | None = None) -> list[Finding]:
    """Read a log, or its beginning, then open its chains in an order that has nothing to do with it."""
    watching = Watching(watch)
    events = sorted([*log.draws, *log.sales], key=lambda each: each.leaf)
    known = [each for each in events if until is None or each.leaf <= until]
    for record in known:
        watching.read(record)
    for chain in sorted({draw.spec.chain for draw in log.draws}):
        draws = [draw for draw in log.draws if draw.spec.chain == chain and draw in known]
        answers = {name: answer for name, (_, answer) in log.answers.items() if name[0] == chain}
        for edge in opened_edges(draws, answers):
            watching.take(edge)
    return list(watching.findings())


def rules(found: Iterable[Finding]) -> set[str]:
    return {f"{finding.check} {finding.rule}" for finding in found}


@pytest.mark.statistical
def test_curious_buyers_raise_no_alarm_and_stars_freeze_the_chains_of_their_pair() -> None:
    assert audited(market(curious=True, chains=900), Watch()) == []
    log = market(curious=False, engine=star)
    found = audited(log, Watch())
    assert "A5 law" in rules(found)
    assert {each.chain for each in found if each.rule == "law"} == {draw.spec.chain for draw in log.draws}


@pytest.mark.statistical
def test_draws_are_seen_in_the_order_of_the_log_and_once() -> None:
    log, due, at_once, in_steps = market(curious=False, chains=20), Watch(), Watch(), Watch()
    check_conformance(log.history(), log.evidence(), due)
    audited(log, at_once)
    assert at_once.state() == due.state()
    for until in (0, 7, 7, 40, log.leaf):
        audited(log, in_steps, until)
        in_steps = Watch.of(in_steps.state())
    assert in_steps.state() == due.state()
    assert audited(log, in_steps) == []
    assert in_steps.state() == due.state()
