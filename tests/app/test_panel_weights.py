"""Sums by weights that lie far from 0: what they share is exact, and their bars are those of what they differ by."""

from decimal import Decimal, localcontext
from typing import Any

import msgspec
import numpy as np
import pytest

from app.errors import InvalidRequestError
from app.log.axes import Axis
from app.panels.mechanism import MECHANISMS, plan_of
from app.panels.plans.base import Plan
from app.panels.plans.points import PointsPlan
from app.panels.readings import Reading, read
from app.panels.weights import bar_text
from tests.app.test_panel_mechanisms import stored
from tiers.budget import Ladder

WEIGHTS = ["0", "0.25", "1", "-3", "7.5"]
PEOPLE = 60
SHARED = ["1000000000000000000000000", "-123456789012345678901234", "123456789.000001"]
AXES = [Axis(name="x", values=("a", "b", "c"), unit="1"), Axis(name="y", values=("d", "e"), unit="1")]


def added(weights: list[str], shared: str) -> list[str]:
    with localcontext(prec=60):
        return [str(Decimal(each) + Decimal(shared)) for each in weights]


def rows_of(plan: Plan, counts: Any, wanted: dict[str, Any], rank: int = 0) -> list[dict[str, str]]:
    size = plan.domain_size
    domain, axes = [str(place) for place in range(size)], AXES if isinstance(plan, PointsPlan) else []
    return read(plan, rank, domain, counts, PEOPLE, msgspec.convert(wanted, Reading), axes=axes)


def check(plan: Plan, counts: Any, weights: list[str], shared: str, **fields: str) -> None:
    (near,) = rows_of(plan, counts, {"type": "sum", "weights": weights} | fields)
    (far,) = rows_of(plan, counts, {"type": "sum", "weights": added(weights, shared)} | fields)
    with localcontext(prec=60):
        assert abs(Decimal(far["value"]) - Decimal(near["value"]) - PEOPLE * Decimal(shared)) <= Decimal("0.000001")
    assert {name: far[name] for name in far if name != "value"} == {
        name: near[name] for name in near if name != "value"
    }
    assert float(near["half_width"]) > 1


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_weights_share_adds_exactly_n_times_itself_and_widens_no_bar(mechanism: str, shared: str) -> None:
    plan = plan_of(mechanism, 5, Ladder.parse(["1", "0.5"]))
    check(plan, plan.count(0, stored(plan, [place % 5 for place in range(PEOPLE)])), WEIGHTS, shared)


@pytest.mark.parametrize("shared", SHARED)
def test_so_it_does_for_points_by_an_axis_and_by_cells(shared: str) -> None:
    plan, counts = PointsPlan.over((3, 2), Ladder.parse(["1", "0.5"])), np.array([60, 31, 29, 40, 28, 33])
    check(plan, counts, WEIGHTS[1:4], shared, axis="x")
    check(plan, counts, [*WEIGHTS, "2"], shared)


def test_factors_whose_shared_part_would_drown_their_noise_are_refused() -> None:
    plan, counts = PointsPlan.over((3, 2), Ladder.parse(["1"])), np.array([60, 31, 29, 40, 28, 33])

    def product(*weights: str) -> list[dict[str, str]]:
        return rows_of(plan, counts, {"type": "product", "factors": [{"axis": "x", "weights": weights}]})

    assert float(product("1000000000", "1000000001", "1000000000")[0]["half_width"]) > 1
    (same,) = product(*["9" * 30] * 3)
    assert (same["value"], same["half_width"]) == (f"{PEOPLE * int('9' * 30)}.000000", "0.000000"), "no noise, no error"
    for weights in (("1000000001", "1000000002", "1000000001"), ("9" * 30, "9" * 29 + "8", "9" * 30)):
        with pytest.raises(InvalidRequestError, match="at most 1,000,000,000 times what they differ by"):
            product(*weights)


def test_a_bar_of_tiny_weights_is_not_shown_as_none() -> None:
    plan = plan_of("randomized-response", 5, Ladder.parse(["1"]))
    counts = plan.count(0, stored(plan, [0] * PEOPLE))
    (row,) = rows_of(plan, counts, {"type": "sum", "weights": ["0", "0", "0", "0", "0.000000001"]})
    width = plan.linear(0, counts, PEOPLE, [0, 0, 0, 0, 1e-9])[1]
    assert float(row["half_width"]) >= width + 5e-7 > 5e-7
    assert float(bar_text(width)) <= width + 2e-6


@pytest.mark.parametrize("mechanism", ["subset", "randomized-response", "local-hash", "flips"])
def test_a_range_of_all_values_is_everybody_exactly_as_its_bar_says(mechanism: str) -> None:
    """Summed up value by value, a thousand estimates of weak reports are off by what doubles are."""
    people, size = 10_000_001, 1000
    plan = plan_of(mechanism, size, Ladder.parse(["0.01"]))
    counts = np.random.default_rng(1).integers(0, people, size - (mechanism == "flips"))
    domain = [str(place) for place in range(size)]
    wanted = msgspec.convert({"type": "range", "first": "0", "last": "999"}, Reading)
    (row,) = read(plan, 0, domain, counts, people, wanted)
    assert (row["value"], row["half_width"]) == ("10000001.000000", "0.000000")


def test_a_bound_is_rounded_up() -> None:
    plan, counts = PointsPlan.over((3, 2), Ladder.parse(["50"])), np.array([60, 31, 29, 40, 28, 33])
    (row,) = rows_of(plan, counts, {"type": "range", "axis": "x", "first": "b", "last": "b"})
    assert row["variance_bound"] == "0.000001", "10⁻²⁰, and not none"
