"""A5 tests only what no buyer has chosen: whoever goes up because an answer looks odd does not make an honest log alarm."""

from dataclasses import replace

import pytest

from tests.audit.logs import Log, audited
from tests.audit.saboteurs import claimed, honest, star
from tiers.audit.records import DrawRecord
from tiers.audit.selection import Selector
from tiers.audit.watch import Watch
from tiers.identity import Role

TOP, MIDDLE, LOW = claimed(2)


def due(log: Log) -> list[tuple[int, str]]:
    selector, found = Selector(), []
    for record in log.records():
        found += selector.draw(record) if isinstance(record, DrawRecord) else selector.sale(record)
    return [(each.leaf, str(each.draw.spec.law.epsilon())) for each in found]


def test_what_the_first_sale_issues_is_tested_down_from_there() -> None:
    log = Log()
    log.draw((TOP, MIDDLE, LOW))
    assert due(log) == []
    log.sell(MIDDLE)
    assert due(log) == [(4, "1/2")]


def test_what_a_later_sale_opens_is_not_tested() -> None:
    log = Log()
    log.draw((TOP, MIDDLE, LOW))
    log.sell(LOW)
    log.sell(TOP)
    assert due(log) == []
    log = Log()
    log.draw((TOP, MIDDLE, LOW))
    log.sell(TOP)
    log.sell(LOW)
    assert due(log) == [(4, "1"), (4, "1/2")]


def test_a_late_tier_below_an_issued_one_is_due_at_its_own_leaf() -> None:
    log = Log()
    log.draw((TOP, LOW))
    log.sell(TOP)
    bridge = replace(MIDDLE, role=Role.BRIDGE, parents=(TOP.law, LOW.law))
    log.draw((bridge,))
    assert due(log) == [(3, "1/2"), (4, "1")]


def test_a_bridge_above_the_issued_tier_waits_for_the_next_sale() -> None:
    bridge = replace(MIDDLE, role=Role.BRIDGE, parents=(TOP.law, LOW.law))
    log = Log()
    log.draw((TOP, LOW))
    log.sell(LOW)
    log.draw((bridge,))
    log.sell(TOP)
    assert due(log) == [(5, "1")], "nobody had seen it, so whoever bought the top did not choose it"
    log = Log()
    log.draw((TOP, LOW))
    log.sell(LOW)
    log.draw((bridge,))
    log.sell(bridge)
    log.sell(TOP)
    assert due(log) == [], "the middle was seen before anybody decided on the top"


def test_truth_draws_and_sales_of_nothing_are_passed_over() -> None:
    log = Log()
    log.sell(LOW)
    log.draw((TOP,))
    log.sell(TOP)
    assert due(log) == []


def market(*, curious: bool, engine: object = honest, chains: int = 500) -> Log:
    """Buyers who look at the lowest tier first, and go up where it lies above the truth; or who buy the top at once."""
    log = Log()
    for number in range(chains):
        draws = claimed(1, number)
        rows = engine(draws, bytes(32), number)  # type: ignore[operator]
        log.draw(draws, rows)
        if curious:
            log.sell(draws[2])
            if rows[2][0] > 1:
                log.sell(draws[0])
        else:
            log.sell(draws[0])
    return log


@pytest.mark.statistical
def test_curious_buyers_select_residuals_and_raise_no_alarm() -> None:
    log = market(curious=True, chains=900)
    assert audited(log, Watch()) == []
    naive, upgraded = Watch(), {sale.chain for sale in log.sales if sale.law == TOP.law.identity}
    for draw in log.draws:
        chain = draw.spec.chain
        if draw.spec.parents and chain in upgraded:
            row = [log.answers[chain, law.identity][1][0] for law in (draw.spec.law, draw.spec.parents[0])]
            naive.see(draw.spec, [row[0] - row[1]])
    assert {alarm.process for alarm in naive.alarms()} >= {"law"}, "what they opened has not the law that was drawn"
    assert 100 < len(upgraded) < 500


@pytest.mark.statistical
def test_an_engine_of_stars_is_a_finding_and_an_honest_one_is_not() -> None:
    log = market(curious=False)
    assert audited(log, Watch()) == []
    bad = market(curious=False, engine=star)
    found = audited(bad, Watch())
    assert next((each.check, each.rule, each.where) for each in found) == (
        "A5",
        "law",
        "residual tsg rate=1 → tsg rate=0.5",
    )
    assert found[0].claimed.startswith("e below 10^7")
