"""What queries cost under a metric: closed forms, promises that are kept, and what the command refuses."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from app.cli import main
from app.panels.strategies import (
    StrategyPlan,
    StrategyRequest,
    _least_step,
    _metric,
    _strategies,
    _workload,
    plan_strategies,
)
from tiers.metric.linear import secret_metric

LINE, ANY = {"type": "line"}, {"type": "any"}


def asked(**fields: Any) -> StrategyRequest:
    body = {"values": 6, "metric": LINE, "epsilons": ["2", "1"], "queries": "ranges"} | fields
    return msgspec.convert(body, StrategyRequest)


def totals(plan: StrategyPlan, tier: int) -> dict[str, float]:
    return {cost.strategy: cost.total for cost in plan.tiers[tier]}


def test_ranges_on_a_line_are_the_closed_forms_and_flips_come_first() -> None:
    plan = plan_strategies(asked())
    assert plan.queries == 21
    for tier, epsilon in enumerate((2, 1)):
        found = totals(plan, tier)
        assert found["prefixes"] == pytest.approx(2 * 6 * 5 / epsilon**2)
        assert found["flips"] == pytest.approx(6 * 5 / (2 * (np.cosh(epsilon) - 1)))
        assert plan.tiers[tier][0].strategy == "flips"
        assert (plan.tiers[tier][0].sold, plan.tiers[tier][0].epsilon_step) == ("flips", str(epsilon))
        assert all(cost.sold is None for cost in plan.tiers[tier][1:])
    assert plan.stay == pytest.approx([1 / 4])


def test_values_are_the_closed_forms_of_any_two_and_of_secret_ones() -> None:
    found = totals(plan_strategies(asked(metric=ANY, queries="values")), 1)
    assert found["values"] == pytest.approx(8 * 6, rel=1e-4)
    for secret, due in ((0, 2 * 6), (1, 2 * (1 + 5 ** (1 / 3)) ** 3), (4, 8 * 6)):
        plan = plan_strategies(asked(metric={"type": "secret", "secret": secret}, queries="values"))
        assert totals(plan, 1)["values"] == pytest.approx(due)


def test_no_strategy_exceeds_the_metric_and_flips_step_as_far_as_they_may() -> None:
    uneven = [["0", "1", "1.5"], ["1", "0", "0.25"], ["1.5", "0.25", "0"]]
    queries = [["1", "1", "0"], ["1", "2", "3"]]
    for fields in (
        {},
        {"metric": ANY, "queries": "prefixes"},
        {"metric": {"type": "secret", "secret": 2}, "queries": "values"},
        {"values": 3, "metric": {"type": "table", "rows": uneven}, "queries": queries},
    ):
        request = asked(**fields)
        unit, workload = _metric(request), _workload(request)
        for strategy in _strategies(request, unit, workload).values():
            assert (strategy.cost() <= unit + 1e-9).all()
            assert strategy.reader @ strategy.rows == pytest.approx(workload, abs=1e-9)
        step, size = _least_step(request, unit), request.values
        gaps = [Fraction(str(unit[x, y])) - step * (x - y) for x in range(size) for y in range(x)]
        assert min(gaps) == 0
    found = plan_strategies(asked(values=3, metric={"type": "table", "rows": uneven}, queries=queries))
    assert {cost.strategy for cost in found.tiers[0]} == {"values", "prefixes", "queries", "flips"}
    assert [cost.epsilon_step for cost in found.tiers[1] if cost.sold] == ["0.25"]
    assert (secret_metric(6, 6, 1.0) == _metric(asked(metric=ANY))).all()


def test_a_table_of_steps_is_the_line() -> None:
    rows = [[str(abs(x - y)) for y in range(6)] for x in range(6)]
    table, line = plan_strategies(asked(metric={"type": "table", "rows": rows})), plan_strategies(asked())
    for tier in range(2):
        assert totals(table, tier) == pytest.approx(totals(line, tier), rel=1e-4)


@pytest.mark.parametrize(
    "fields",
    [
        {"values": 1},
        {"values": 41},
        {"metric": {"type": "hearsay"}},
        {"metric": {"type": "secret", "secret": 7}},
        {"metric": {"type": "table", "rows": [["0", "1"], ["2", "0"]]}, "values": 2},
        {"metric": {"type": "table", "rows": [["0", "0"], ["0", "0"]]}, "values": 2},
        {"metric": {"type": "table", "rows": [["1", "1"], ["1", "0"]]}, "values": 2},
        {"metric": {"type": "table", "rows": [["0", "1"]]}, "values": 2},
        {"epsilons": []},
        {"epsilons": ["1", "2"]},
        {"epsilons": ["0"]},
        {"queries": [["1", "2"]]},
        {"queries": [["1"] * 6]},
        {"queries": [["nan"] * 6]},
        {"more": 1},
    ],
)
def test_what_is_no_question_is_refused_with_a_reason(tmp_path: Path, fields: dict[str, Any]) -> None:
    body = {"values": 6, "metric": LINE, "epsilons": ["2", "1"], "queries": "ranges"} | fields
    (tmp_path / "q.json").write_text(json.dumps(body))
    done = CliRunner().invoke(main, ["panel", "plan", str(tmp_path / "q.json")])
    assert done.exit_code == 2, done.output
    assert "Error: " in done.output
    assert "Traceback" not in done.output
    if fields == {"metric": {"type": "hearsay"}}:
        assert "metric.type: Expected one of 'line', 'any', 'secret', 'table', got 'hearsay'" in done.output


def test_a_file_that_parsers_may_read_differently_is_refused(tmp_path: Path) -> None:
    text = msgspec.json.encode(asked()).decode()
    (tmp_path / "q.json").write_text(text.replace("{", '{"values":7,', 1))
    done = CliRunner().invoke(main, ["panel", "plan", str(tmp_path / "q.json")])
    assert done.exit_code == 2
    assert done.output.strip() == "InvalidRequestError: FILE: expected JSON, got a repeated key"


def test_the_command_prints_a_table_or_the_plan(tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text(msgspec.json.encode(asked()).decode())
    done = CliRunner().invoke(main, ["panel", "plan", str(tmp_path / "q.json")])
    assert done.exit_code == 0, done.output
    assert "panel of flips, ε = 2 a step" in done.output
    assert "analysis only" in done.output
    assert "0.25" in done.output
    done = CliRunner().invoke(main, ["panel", "plan", str(tmp_path / "q.json"), "--json"])
    assert msgspec.json.decode(done.output, type=StrategyPlan) == plan_strategies(asked())
