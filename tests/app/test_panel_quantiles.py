"""Quantiles of panels, and ranges of one value: where they are, and how far off in rank they can be."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidRequestError
from app.panels.mechanism import plan_of
from app.panels.plans.bits import BitsPlan
from app.panels.readings import Count, Quantile, Range, read
from tests.app.test_panel_mechanisms import stored
from tiers.budget import Ladder
from tiers.metric.quantiles import rank_radius

MISS = 0.05
BY_VALUES = ["subset", "randomized-response", "local-hash", "mixed"]


@pytest.mark.parametrize("size", [2, 5, 12, 17])
@pytest.mark.parametrize("mechanism", BY_VALUES)
def test_the_radius_is_the_widest_prefix_s_bar_with_the_miss_shared_among_all(mechanism: Any, size: int) -> None:
    plan, domain = plan_of(mechanism, size, Ladder.parse(["2", "1.5", "1", "0.5"])), [str(v) for v in range(size)]
    counts = plan.count(0, stored(plan, [place % size for place in range(30)]))
    (row,) = read(plan, 0, domain, counts, 30, Quantile(share="0.5"))
    share = Fraction(1, 20) / (size - 1)
    bars = [plan.linear(0, counts, 30, [1.0] * place + [0.0] * (size - place), share)[1] for place in range(1, size)]
    assert float(row["rank_radius"]) == pytest.approx(max(bars), abs=1e-6)
    assert max(bars) > plan.linear(0, counts, 30, [1.0] * (size // 2) + [0.0] * (size - size // 2))[1] or size == 2


@pytest.mark.parametrize(
    ("mechanism", "part"), [("subset", 10), ("randomized-response", 10), ("local-hash", 60), ("mixed", 10)]
)
def test_quantiles_are_within_their_radius_in_rank_and_not_within_a_part_of_it(mechanism: Any, part: int) -> None:
    """A local hash covers any set of values, so that its radius is the widest by far."""
    plan, domain, people = plan_of(mechanism, 16, Ladder.parse(["3"])), [str(v) for v in range(16)], 160
    values = [place % 16 for place in range(people)]
    below = np.array([sum(value <= v for value in values) for v in range(-1, 16)])
    misses, near = 0, 0
    for seed in range(100):
        counts = plan.count(0, stored(plan, values, seed + 2))
        for share in ("0.3", "0.8"):
            (row,) = read(plan, 0, domain, counts, people, Quantile(share=share))
            found, radius, wanted = int(row["key"]), float(row["rank_radius"]), float(share) * people
            off = max(wanted - below[found + 1], below[found] - wanted)
            misses += off > radius
            near += off > radius / part
    assert misses <= 200 * MISS
    assert near > 200 * MISS


@pytest.mark.parametrize("mechanism", ["subset", "randomized-response", "flips"])
def test_without_noise_a_quantile_is_where_the_people_are(mechanism: Any) -> None:
    plan, domain = plan_of(mechanism, 4, Ladder.parse(["50"])), list("abcd")
    counts = plan.count(0, stored(plan, [0, 1, 1, 1, 3, 3, 3, 3, 3, 3]))
    for share, key in (("0.05", "a"), ("0.3", "b"), ("0.45", "d"), ("1", "d")):
        assert read(plan, 0, domain, counts, 10, Quantile(share=share))[0]["key"] == key
    for share in ("0", "1.01", "2"):
        with pytest.raises(InvalidRequestError, match="share"):
            read(plan, 0, domain, counts, 10, Quantile(share=share))
    for place, key in enumerate(domain):
        (one,), (alone,) = (
            read(plan, 0, domain, counts, 10, wanted) for wanted in (Range(first=key, last=key), Count(key=key))
        )
        assert (one["value"], one["half_width"]) == (alone["value"], alone["half_width"])
        assert float(one["value"]) == pytest.approx([1, 3, 0, 6][place], abs=1e-6)
        if place:
            with pytest.raises(InvalidRequestError, match="range"):
                read(plan, 0, domain, counts, 10, Range(first=key, last=domain[place - 1]))


def test_the_radius_of_flips_holds_at_95_percent() -> None:
    plan = plan_of("flips", 9, Ladder.parse(["1", "0.5"]))
    assert isinstance(plan, BitsPlan)
    counts = plan.count(1, plan.derive(plan.keys(bytes(32), "p"), 0, stored(plan, [4] * 50))[1])
    (row,) = read(plan, 1, list("abcdefghi"), counts, 50, Quantile(share="0.5"))
    assert float(row["rank_radius"]) == pytest.approx(rank_radius(plan.grid(1), 50, Fraction(1, 20)), abs=1e-6)
