"""A5 as an audit runs it: chains open one by one, draws are tested in the order of the log, once in a market's life."""

from collections.abc import Iterable

import pytest

from tests.audit.logs import audited
from tests.audit.saboteurs import star
from tests.audit.test_selection import market
from tiers.audit.findings import Finding
from tiers.audit.records import DrawRecord
from tiers.audit.selection import Selector
from tiers.audit.watch import Watch


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
    selector = Selector()
    for record in log.records():
        for each in selector.draw(record) if isinstance(record, DrawRecord) else selector.sale(record):
            spec = each.draw.spec
            answer, above = (log.answers[spec.chain, law.identity][1] for law in (spec.law, spec.parents[0]))
            due.leaf = each.leaf
            due.see(spec, [value - upper for value, upper in zip(answer, above, strict=True)])
    due.leaf = log.leaf
    audited(log, at_once)
    assert at_once.state() == due.state()
    for until in (0, 7, 7, 40, log.leaf):
        audited(log, in_steps, until)
        in_steps = Watch.of(in_steps.state())
    assert in_steps.state() == due.state()
    assert audited(log, in_steps) == []
    assert in_steps.state() == due.state()
