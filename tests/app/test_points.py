"""Points of grids: their reports, laws by enumeration, what is refused, and the variances of what is read off them."""

import math
from fractions import Fraction
from itertools import chain, combinations, pairwise, product
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidRequestError
from app.log.axes import Axis
from app.panels.device import encode
from app.panels.grid_readings import GridTier, Side
from app.panels.mechanism import choose, plan_of, read_plan
from app.panels.plans.lists import Lists
from app.panels.plans.points import PointsPlan
from app.panels.readings import Box, read
from tests.app.panelling import stream
from tiers.budget import Ladder
from tiers.errors import InvalidParameterError, TierError
from tiers.local.flips import reflip
from tiers.metric.products import box_weights, product_variance_estimate
from tiers.metric.ranges import encode as true_bits
from tiers.real import to_float

HOURS, DELAYS = [f"{hour:02d}h" for hour in range(6)], ["none", "short", "long", "cancelled"]
AXES = [
    {"name": "hour", "unit": "one hour", "values": HOURS},
    {"name": "delay", "unit": "one class of delay", "values": DELAYS},
]
MENU = ("2", "1", "0.5")


# --- the law ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(4,), (3, 2), (2, 2, 3)], ids=str)
def test_a_device_turns_the_bits_of_its_point_and_nothing_else(sizes: tuple[int, ...]) -> None:
    """With the same randomness, two points' reports differ in as many bits as they are steps apart."""
    law = PointsPlan.over(sizes, Ladder.parse(["1"])).parameters(0)
    cells = list(product(*map(range, sizes)))
    for seed in range(5):
        sent = [set(encode(law, len(cells), point, stream(seed))) for point in cells]
        assert sent == [set(encode(law, len(cells), cell, stream(seed))) for cell in range(len(cells))]
        for one, two in combinations(range(len(cells)), 2):
            steps = sum(abs(a - b) for a, b in zip(cells[one], cells[two], strict=True))
            assert len(sent[one] ^ sent[two]) == steps
    silent = PointsPlan.over(sizes, Ladder.parse(["50"])).parameters(0)
    for point in cells:
        offsets = np.cumsum([0, *(size - 1 for size in sizes)]).tolist()
        bits = true_bits([[place + 1 for place in point]], sizes)
        due = [
            at + k for part, at in zip(bits, offsets, strict=False) for k in np.flatnonzero(part[0, :-1] > 0).tolist()
        ]
        assert encode(silent, len(cells), point, stream(3)) == due


@pytest.mark.parametrize("sizes", [(3,), (3, 2), (2, 2, 2)], ids=str)
def test_guarantee_points_plan_every_coalition_of_tiers_tells_points_apart_by_its_best_epsilon_exactly(
    sizes: tuple[int, ...],
) -> None:
    """In exact rationals: signals 9/10, 1/2, 1/5 stand for tanh(ε/2), so that e^ε is 19, 3 and 3/2."""
    signals = [Fraction(9, 10), Fraction(1, 2), Fraction(1, 5)]
    turned = [(1 - below / above) / 2 for above, below in pairwise(signals)]
    cells = list(product(*(range(1, size + 1) for size in sizes)))
    bits = [np.hstack([part[0, :-1] > 0 for part in true_bits([cell], sizes)]).tolist() for cell in cells]

    def of_bit(true: bool, held: tuple[int, ...]) -> dict[tuple[bool, ...], Fraction]:
        """The law of one bit as a coalition holds it."""
        found: dict[tuple[bool, ...], Fraction] = {}
        for seen in product((False, True), repeat=3):
            chance = (1 + signals[0]) / 2 if seen[0] == true else (1 - signals[0]) / 2
            for (before, after), q in zip(pairwise(seen), turned, strict=True):
                chance *= q if before != after else 1 - q
            part = tuple(seen[at] for at in held)
            found[part] = found.get(part, Fraction(0)) + chance
        return found

    for held in chain.from_iterable(combinations(range(3), size) for size in (1, 2, 3)):
        laws = {true: of_bit(true, held) for true in (False, True)}
        ratio = (1 + signals[held[0]]) / (1 - signals[held[0]])
        for one, two in combinations(range(len(cells)), 2):
            steps = sum(abs(a - b) for a, b in zip(cells[one], cells[two], strict=True))
            worst = max(
                math.prod(
                    (laws[first][seen] / laws[second][seen] for first, second, seen in zip(*bits_of, strict=True)),
                    start=Fraction(1),
                )
                for outcome in product(list(laws[True]), repeat=len(bits[one]))
                for bits_of in [(bits[one], bits[two], outcome)]
            )
            assert worst == ratio**steps


def test_a_tier_below_turns_every_bit_at_the_rate_of_the_law() -> None:
    """Two arms: the right rate is accepted for every bit, the next tier's refused."""
    plan = PointsPlan.over((3, 4), Ladder.parse(["2", "1", "0.5"]))
    count = 40_000
    packed, _ = plan.pack(Lists.of([encode(plan.parameters(0), 12, (1, 2), stream(9))] * count))
    derived = plan.derive(plan.keys(bytes(32), "p"), 0, packed.tobytes())
    signs = [np.hstack([part[:, :-1] for part in plan._signs(raw)]) for raw in derived]
    for above, below in pairwise(range(3)):
        rate = to_float(reflip(plan.flips[above], plan.flips[below]))
        changed = (signs[above] != signs[below]).mean(axis=0)
        spread = math.sqrt(rate * (1 - rate) / count)
        assert (np.abs(changed - rate) < 5.5 * spread).all()
        assert (np.abs(changed - rate * 0.95) > 5.5 * spread).any()


@pytest.mark.parametrize("sizes", [(5,), (3, 4), (2, 3, 2), (9, 9)], ids=str)
def test_estimates_are_read_off_counts_that_add_up_over_runs(sizes: tuple[int, ...]) -> None:
    plan = PointsPlan.over(sizes, Ladder.parse(["1.5", "0.5"]))
    cells = list(product(*map(range, sizes)))
    values = [cells[place * 7 % len(cells)] for place in range(120)]
    read = stream(4)
    packed, faults = plan.pack(Lists.of([encode(plan.parameters(0), plan.domain_size, each, read) for each in values]))
    assert not any(broken.any() for broken, _ in faults)
    raw = packed.tobytes()
    counts = plan.count(0, raw)
    parts = [plan.count(0, raw[at : at + 11 * plan.width]) for at in range(0, len(raw), 11 * plan.width)]
    assert (sum(parts) == counts).all()
    assert counts.min() >= 0
    assert counts[-1] == 120
    observed = plan.observed(counts, 120)
    assert (observed == plan.grid(0).observe(plan._signs(raw))).all()
    again = read_plan("points", plan.domain_size, plan.ladder, [plan.parameters(rank) for rank in range(2)])
    assert again == plan
    assert plan.unpack(raw).rows() == Lists.of(plan.unpack(raw).rows()).rows()


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(), (1, 5), (2, 2, 2, 2), (4097,), (257, 256), (4096, 17), (40, 41, 40)], ids=str)
def test_a_grid_that_is_too_large_or_none_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequestError, match="axes"):
        PointsPlan.over(sizes, Ladder.parse(["1"]))


def test_the_largest_grids_are_taken() -> None:
    for sizes in ((4096,), (256, 256), (2048, 32), (40, 40, 40)):
        assert PointsPlan.over(sizes, Ladder.parse(["1"])).sizes == sizes


@pytest.mark.parametrize("text", ["", "3", "3,", "03,4", "3, 4", "4,3,1", "12", "-3,-4", "3,4,1,1", "²,6", "3,4" * 99])
def test_laws_of_another_grid_are_refused(text: str) -> None:
    plan = PointsPlan.over((3, 4), Ladder.parse(["2", "1"]))
    laws = [plan.parameters(rank) for rank in range(2)]
    for spoilt in ([law | {"sizes": text} for law in laws], [laws[0], laws[1] | {"sizes": text}]):
        if text == "12" and spoilt[0]["sizes"] == "12" == spoilt[1]["sizes"]:
            assert read_plan("points", 12, plan.ladder, spoilt) == PointsPlan.over((12,), plan.ladder)
            continue
        with pytest.raises((TierError, InvalidRequestError)):
            read_plan("points", 12, plan.ladder, spoilt)
    with pytest.raises(TierError):
        read_plan("points", 13, plan.ladder, laws)
    with pytest.raises(TierError):
        read_plan("points", 12, plan.ladder, [])


@pytest.mark.parametrize(
    "value", [(0,), (0, 4), (3, 0), (-1, 0), (0, 0, 0), (0.0, 1), (True, 1), "00", None, -1, 12, True]
)
def test_a_device_refuses_a_point_outside_before_it_reads_a_word(value: Any) -> None:
    law = PointsPlan.over((3, 4), Ladder.parse(["1"])).parameters(0)

    def read(count: int) -> bytes:
        raise AssertionError("nothing is read")

    with pytest.raises(InvalidParameterError, match="value"):
        encode(law, 12, value, read)


def test_a_point_is_no_value_of_a_plain_panel() -> None:
    law = plan_of("subset", 12, Ladder.parse(["1"])).parameters(0)
    with pytest.raises(InvalidParameterError, match="value"):
        encode(law, 12, (1, 2))


def test_points_need_axes_and_auto_takes_them() -> None:
    ladder = Ladder.parse(["1"])
    assert choose("auto", 24, ladder, ordered=True, sizes=(6, 4)).mechanism == "points"
    assert choose("auto", 24, ladder, ordered=True).mechanism == "flips"
    for asked, ordered, sizes in (("points", True, ()), ("points", False, (6, 4)), ("auto", False, (6, 4))):
        with pytest.raises(InvalidRequestError, match="promise" if sizes else "mechanism"):
            choose(asked, 24, ladder, ordered=ordered, sizes=sizes)


# --- variances ---------------------------------------------------------------------------------------------------------


def test_an_estimated_variance_is_held_within_what_any_people_can_give() -> None:
    """Of one report the estimate of a box's variance may be negative, or above the bound: it is told as neither."""
    plan = PointsPlan.over((3, 3), Ladder.parse(["0.5"]))
    axes = [Axis(name=name, unit="step", values=("a", "b", "c")) for name in ("x", "y")]
    sides = [Side(axis=name, first="b", last="b") for name in ("x", "y")]
    told = set()
    for byte in range(16):
        counts = plan.count(0, byte.to_bytes(plan.width, "little"))
        tier = GridTier(plan, 0, axes, counts, 1)
        (row,) = tier.box(sides)
        weights = box_weights(tier.grid, [(2, 2), (2, 2)])
        raw, bound = product_variance_estimate(tier.grid, tier.observed, weights), float(row["variance_bound"])
        assert float(row["variance"]) == pytest.approx(min(max(raw, 0), bound), abs=1e-6)
        told.add((raw < 0, raw > bound))
    assert {(True, False), (False, True)} <= told


def test_a_box_along_one_axis_has_the_exact_variance_of_any_people() -> None:
    plan = PointsPlan.over((6, 4), Ladder.parse(["1"]))
    axes, tables = [Axis(**axis) for axis in AXES], []
    for values in ([(0, 0)] * 50, [(2, 1)] * 50):
        read_words = stream(6)
        packed, _ = plan.pack(Lists.of([encode(plan.parameters(0), 24, value, read_words) for value in values]))
        tables.append(plan.count(0, packed.tobytes()))
    side, other = Side(axis="hour", first="01h", last="03h"), Side(axis="delay", first="short", last="long")
    for sides, same in (((side,), True), ((side, other), False)):
        found = [read(plan, 0, [], table, 50, Box(sides=sides), axes=axes)[0] for table in tables]
        assert found[0]["half_width"] == found[1]["half_width"]
        assert found[0]["variance_bound"] == found[1]["variance_bound"]
        assert all(row["variance"] == row["variance_bound"] for row in found) == same
